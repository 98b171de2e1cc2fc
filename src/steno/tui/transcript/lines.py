"""Text to lines on the screen: made harmless, broken where it is too long, and no more than fits.

Everything that is drawn of a model, a tool or a person goes through here or ends in `strips`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from io import StringIO
from typing import Final, NamedTuple

from rich.cells import chop_cells
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from steno.printable import counted, on_one_line, printable

MOST_LINES: Final = 2_000
"""What is drawn of one body; nobody reads more of it in a terminal."""
MOST_CHARACTERS: Final = 200_000

TAB: Final = 4


class Excerpt(NamedTuple):
    """What is drawn of a body."""

    text: str
    omission: str
    """What is to be said of the rest; empty where there is none."""


def excerpt(body: str) -> Excerpt:
    """Return the beginning of a body, as much as is drawn of it."""
    shown = body.split("\n", MOST_LINES)
    rest = shown.pop() if len(shown) > MOST_LINES else ""
    text = "\n".join(shown) if rest else body
    if rest and len(text) <= MOST_CHARACTERS:
        return Excerpt(text, f"… {counted(rest.count(chr(10)) + 1, 'more line', 'more lines')}")
    if len(text) > MOST_CHARACTERS:
        return Excerpt(text[:MOST_CHARACTERS], f"… {len(body) - MOST_CHARACTERS:,} more characters")
    return Excerpt(text, "")


def both_ends(body: str) -> tuple[str, str, str]:
    """Return the beginning of a body, what is to be said of what is left out, and the end.

    For what a program prints: how it ended stands there. The last two are empty where all is shown.
    """
    if not excerpt(body).omission:
        return body, "", ""
    half = MOST_LINES // 2
    end, _ = last_lines(body[-MOST_CHARACTERS // 2 :], half)
    lines = body.split("\n", half)
    beginning = "\n".join(lines[:half])[: MOST_CHARACTERS // 2]
    middle = body[len(beginning) : len(body.removesuffix("\n")) - len(end)]
    is_cut = not middle.startswith("\n") or not middle.endswith("\n")
    lines_left = counted(middle.count("\n") - 1, "line", "lines")
    told = f"{len(middle):,} characters" if is_cut else lines_left
    return beginning, f"… {told} left out", end


def last_lines(body: str, count: int) -> tuple[str, int]:
    """Return the last lines of a body, and how many stand before them."""
    body = body.removesuffix("\n")
    kept = body.rsplit("\n", count)
    if len(kept) > count:
        before = kept[0].count("\n") + 1
        return "\n".join(kept[1:])[-MOST_CHARACTERS:], before
    return body[-MOST_CHARACTERS:], 0


def broken(text: str, width: int) -> list[str]:
    """Return a text as lines that fit, broken anywhere: for what programs print."""
    lines: list[str] = []
    for line in printable(text).split("\n"):
        flat = line.expandtabs(TAB)
        if len(flat) <= width and flat.isascii():
            lines.append(flat)
        else:
            lines.extend(chop_cells(flat, max(width, 2)) or [""])
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines that fit, broken between words: for what people and models say."""
    lines: list[str] = []
    for line in printable(text).split("\n"):
        flat = line.expandtabs(TAB)
        if len(flat) <= width and flat.isascii():
            lines.append(flat)
        else:
            found = Text(flat).wrap(plain_console(), max(width, 2), overflow="fold")
            lines.extend(part.plain for part in found)
    return lines


def head_line(text: str, width: int) -> str:
    """Return a head on one line that fits."""
    line = Text(on_one_line(text[:MOST_CHARACTERS]))
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def strip(*parts: tuple[str, Style]) -> Strip:
    """Return one line of parts, each with its style."""
    return Strip([Segment(text, style) for text, style in parts if text])


def strips(lines: Iterable[Iterable[Segment]]) -> list[Strip]:
    """Return rendered lines as strips, with nothing in them that a terminal would act on.

    A renderer may bring back what was made harmless before: Markdown knows ways to write any
    character.
    """
    return [
        Strip([_harmless(segment) for segment in line if not segment.control]) for line in lines
    ]


def indented(lines: Sequence[Strip], prefix: str, style: Style) -> list[Strip]:
    """Return lines with something before each of them."""
    before = Segment(prefix, style)
    return [Strip([before, *line]) for line in lines]


def _harmless(segment: Segment) -> Segment:
    if segment.text.isprintable() and (segment.style is None or segment.style.link is None):
        return segment
    text = printable(segment.text).replace("\n", " ").replace("\t", " ")
    return Segment(text, segment.style and segment.style.update_link(None))


@cache
def plain_console() -> Console:
    """Return a console that prints nowhere: Rich wants one to draw with."""
    return Console(
        file=StringIO(),
        width=80,
        color_system="truecolor",
        force_terminal=True,
        legacy_windows=False,
        _environ={},
    )
