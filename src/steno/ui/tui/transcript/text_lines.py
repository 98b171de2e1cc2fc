"""Text as lines on the screen: styled, sanitized, wrapped, and limited in length.

All text of a model, a tool or a user passes through `terminal_text` or `safe_strips` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from io import StringIO
from typing import Final, NamedTuple

from rich.cells import chop_cells
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip
from textual.widget import Widget

from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line, terminal_text

MAX_LINES: Final = 2_000
"""The maximal number of lines of a body that are drawn."""
MAX_CHARACTERS: Final = 200_000
TAB_SIZE: Final = 4


class TranscriptStyles(NamedTuple):
    """One style for each part of a transcript.

    Each field without a default has a component class of the view, such as `.transcript--heading`,
    so that a theme or a style sheet can set it.
    """

    user_text: Style
    user_mark: Style
    dim: Style
    """Less important text: thinking, hints, rules."""
    output: Style
    """The output of a tool or a command."""
    head: Style
    heading: Style
    link: Style
    code: Style
    waiting: Style
    running: Style
    done: Style
    failed: Style
    stopped: Style
    notice: Style
    error: Style
    added: Style
    removed: Style
    hunk: Style
    frame: Style
    selected: Style
    """The mark of the selected item."""
    base: Style = Style()
    """The style of the view itself."""
    is_dark: bool = True


_STYLE_PREFIX: Final = "transcript--"
STYLE_PARTS: Final = tuple(
    name for name in TranscriptStyles._fields if name not in TranscriptStyles._field_defaults
)
"""The fields that a style sheet can set."""
STYLE_CLASSES: Final = frozenset(_STYLE_PREFIX + part for part in STYLE_PARTS)
STYLE_SHEET: Final = """
Transcript {
    background: $background; color: $foreground; overflow-x: hidden; overflow-y: auto;
    scrollbar-gutter: stable; scrollbar-size-vertical: 1;
    & > .transcript--user_text { background: $panel; color: $foreground; }
    & > .transcript--user_mark { background: $panel; color: $primary; text-style: bold; }
    & > .transcript--dim { color: $foreground 60%; }
    & > .transcript--output { color: $foreground 75%; }
    & > .transcript--head { text-style: bold; }
    & > .transcript--heading { color: $primary; text-style: bold; }
    & > .transcript--link { color: $primary; text-style: underline; }
    & > .transcript--code { background: $surface; color: $foreground; }
    & > .transcript--waiting { color: $warning; text-style: bold; }
    & > .transcript--running { color: $primary; text-style: bold; }
    & > .transcript--done { color: $success; }
    & > .transcript--failed { color: $error; text-style: bold; }
    & > .transcript--stopped { color: $warning; }
    & > .transcript--notice { color: $warning; }
    & > .transcript--error { color: $error; }
    & > .transcript--added { color: $success; }
    & > .transcript--removed { color: $error; }
    & > .transcript--hunk { color: $primary; text-style: bold; }
    & > .transcript--frame { color: $primary; }
    & > .transcript--selected { color: $primary; text-style: bold; }
}
"""


def read_styles(widget: Widget) -> TranscriptStyles:
    """Return the styles that the theme and the style sheet set for a widget."""
    parts = {part: widget.get_component_rich_style(_STYLE_PREFIX + part) for part in STYLE_PARTS}
    return TranscriptStyles(**parts, base=widget.rich_style, is_dark=widget.app.current_theme.dark)


class Excerpt(NamedTuple):
    """The part of a body that is drawn."""

    text: str
    omission: str
    """A line about the omitted part; empty if nothing is omitted."""


def take_excerpt(body: str) -> Excerpt:
    """Return the beginning of a body, limited to `MAX_LINES` and `MAX_CHARACTERS`."""
    shown = body.split("\n", MAX_LINES)
    rest = shown.pop() if len(shown) > MAX_LINES else ""
    text = "\n".join(shown) if rest else body
    if rest and len(text) <= MAX_CHARACTERS:
        omitted = format_count(rest.count("\n") + 1, "more line", "more lines")
        return Excerpt(text, f"… {omitted}")
    if len(text) > MAX_CHARACTERS:
        omitted = format_count(len(body) - MAX_CHARACTERS, "more character", "more characters")
        return Excerpt(text[:MAX_CHARACTERS], f"… {omitted}")
    return Excerpt(text, "")


def head_and_tail(body: str) -> tuple[str, str, str]:
    """Return the beginning of a body, a line about the omitted part, and the end.

    This is for the output of programs, which usually report the result at the end. The last two
    texts are empty if nothing is omitted.
    """
    if not take_excerpt(body).omission:
        return body, "", ""
    half = MAX_LINES // 2
    end, _ = last_lines(body[-MAX_CHARACTERS // 2 :], half)
    lines = body.split("\n", half)
    beginning = "\n".join(lines[:half])[: MAX_CHARACTERS // 2]
    middle = body[len(beginning) : len(body.removesuffix("\n")) - len(end)]
    is_cut = not middle.startswith("\n") or not middle.endswith("\n")
    lines_left = format_count(middle.count("\n") - 1, "line", "lines")
    characters_left = format_count(len(middle), "character", "characters")
    omitted = characters_left if is_cut else lines_left
    return beginning, f"… {omitted} omitted", end


def last_lines(body: str, count: int) -> tuple[str, int]:
    """Return the last lines of a body, and the number of lines before them."""
    body = body.removesuffix("\n")
    parts = body.rsplit("\n", count)
    if len(parts) > count:
        before = parts[0].count("\n") + 1
        return "\n".join(parts[1:])[-MAX_CHARACTERS:], before
    return body[-MAX_CHARACTERS:], 0


def break_lines(text: str, width: int) -> list[str]:
    """Return a text as lines that fit, broken at any character, for the output of programs."""
    return _fit_lines(text, width, lambda line: chop_cells(line, max(width, 2)) or [""])


def wrap_lines(text: str, width: int) -> list[str]:
    """Return a text as lines that fit, broken between words, for the text of users and models."""

    def wrap(line: str) -> list[str]:
        wrapped = Text(line).wrap(plain_console(), max(width, 2), overflow="fold")
        return [part.plain for part in wrapped]

    return _fit_lines(text, width, wrap)


def _fit_lines(text: str, width: int, split: Callable[[str], list[str]]) -> list[str]:
    lines: list[str] = []
    for line in terminal_text(text).split("\n"):
        expanded = line.expandtabs(TAB_SIZE)
        is_short = len(expanded) <= width and expanded.isascii()
        lines.extend([expanded] if is_short else split(expanded))
    return lines


def fit_head(text: str, width: int) -> str:
    """Return a head on one line, truncated to a width."""
    line = Text(terminal_line(text[:MAX_CHARACTERS]))
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def styled_strip(*parts: tuple[str, Style]) -> Strip:
    """Return one line of parts, each with its style."""
    return Strip([Segment(text, style) for text, style in parts if text])


def styled_strips(lines: Iterable[str], style: Style) -> list[Strip]:
    """Return lines in one style."""
    return [styled_strip((line, style)) for line in lines]


def safe_strips(lines: Iterable[Iterable[Segment]]) -> list[Strip]:
    """Return rendered lines as strips, without control characters and links.

    A renderer may restore removed characters, because Markdown can write a character in several
    ways.
    """
    return [
        Strip([_safe_segment(segment) for segment in line if not segment.control]) for line in lines
    ]


def indent_strips(lines: Sequence[Strip], prefix: str, style: Style) -> list[Strip]:
    """Return lines with a prefix."""
    segment = Segment(prefix, style)
    return [Strip([segment, *line]) for line in lines]


def _safe_segment(segment: Segment) -> Segment:
    if (
        segment.text.isascii()
        and segment.text.isprintable()
        and (segment.style is None or segment.style.link is None)
    ):
        return segment
    text = terminal_text(segment.text).replace("\n", " ").replace("\t", " ")
    return Segment(text, segment.style and segment.style.update_link(None))


@cache
def plain_console() -> Console:
    """Return a console with the default styles of Rich."""
    return create_console()


def create_console(theme: Theme | None = None) -> Console:
    """Return a console that discards its output; Rich needs a console to draw."""
    return Console(
        file=StringIO(),
        theme=theme,
        width=80,
        color_system="truecolor",
        force_terminal=True,
        legacy_windows=False,
        _environ={},
    )


def diff_lines(text: str, width: int, styles: TranscriptStyles) -> list[Strip]:
    """Return a unified diff as lines; a wrapped line keeps its style."""
    signs = {"+": styles.added, "-": styles.removed, "@": styles.hunk}
    lines: list[Strip] = []
    for line in text.split("\n"):
        is_file = line.startswith(("+++ ", "--- "))
        style = styles.head if is_file else signs.get(line[:1], styles.output)
        lines.extend(styled_strips(break_lines(line, width), style))
    return lines
