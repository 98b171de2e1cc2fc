"""Markdown and code as lines on the screen, even while the text is still streaming.

Rich draws the Markdown. No text is hidden: parts that Rich would omit (HTML, link definitions, the
source of an image) are shown as source. Pygments colours code.

`StreamedMarkdown` draws a growing text. Its blocks (paragraphs, lists, code) before the last one
cannot change any more, so they are drawn once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias, final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.style import Style
from rich.syntax import Syntax
from rich.theme import Theme
from textual.strip import Strip

from steno.render.terminal_text import terminal_text
from steno.ui.tui.transcript.text_lines import (
    TAB_SIZE,
    TranscriptStyles,
    break_lines,
    create_console,
    plain_console,
    safe_strips,
    styled_strips,
)

MAX_HIGHLIGHTED: Final = 60_000
"""The number of characters from which code has no colours: highlighting would take too long."""
RenderBlock: TypeAlias = Callable[[str, int, TranscriptStyles], Sequence[Strip]]
_MAX_NESTING: Final = 16
"""The nesting from which a block is shown as source: the indent would leave no room for text."""
_MAX_PARAGRAPH: Final = 8_000
"""The number of characters from which a paragraph is shown as source: for some texts, the time to
parse is quadratic in their length."""


def highlight_code(code: str, language: str, styles: TranscriptStyles) -> Syntax:
    """Return highlighted code; without colours if it is long or its language is unknown."""
    background = styles.code.bgcolor
    has_background = background is not None and not background.is_default
    return Syntax(
        code,
        (language if len(code) <= MAX_HIGHLIGHTED else "") or "text",
        theme="github-dark" if styles.is_dark else "tango",
        background_color=background.get_truecolor().hex
        if background and has_background
        else "default",
        word_wrap=True,
        tab_size=TAB_SIZE,
    )


def code_lines(text: str, language: str, width: int, styles: TranscriptStyles) -> list[Strip]:
    """Return code as lines, with its own background."""
    console = plain_console()
    options = console.options.update(width=width, height=None)
    syntax = highlight_code(terminal_text(text), language, styles)
    return safe_strips(console.render_lines(syntax, options, pad=False))


def _create_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    parser.enable(["table", "strikethrough"])
    # These rules would hide text, or replace characters.
    return parser.disable(["reference", "entity", "autolink", "image", "html_block", "html_inline"])


_FULL_PARSER: Final = _create_parser()
_BLOCK_PARSER: Final = _create_parser().disable("inline")
"""Finds the start of each block, and does not parse its content."""


def split_blocks(markup: str) -> list[str]:
    """Return the blocks of a text: paragraphs, lists, tables, code."""
    starts = [
        token.map[0]
        for token in _BLOCK_PARSER.parse(markup)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    lines = markup.split("\n")
    bounds = [0, *starts[1:], len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(bounds)]


def render_block(markup: str, width: int, styles: TranscriptStyles) -> Sequence[Strip]:
    """Return a block of sanitized Markdown as lines, or as source if it is too long or deep."""
    if any(
        token.level > _MAX_NESTING
        or (token.type == "inline" and len(token.content) > _MAX_PARAGRAPH)
        for token in _BLOCK_PARSER.parse(markup)
    ):
        lines = styled_strips(break_lines(markup, width), styles.base)
    else:
        console = _markdown_console(styles)
        options = console.options.update(width=max(width, 8), height=None)
        lines = safe_strips(console.render_lines(_Markdown(markup, styles), options, pad=False))
    # Rich adds empty lines around each kind of block.
    nonblank = [position for position, line in enumerate(lines) if line.text.strip()]
    return lines[nonblank[0] : nonblank[-1] + 1] if nonblank else []


@final
class StreamedMarkdown:
    """Draws Markdown while it is streamed. Each call of `draw` receives the whole text so far."""

    def __init__(
        self, width: int, styles: TranscriptStyles, render: RenderBlock = render_block
    ) -> None:
        self._width = width
        self._styles = styles
        self._render = render
        self._reset()

    def _reset(self) -> None:
        self._finished_lines: list[Strip] = []
        # The complete lines that were parsed, as received.
        self._read_text = ""
        # The last block of `_read_text`, sanitized.
        self._last_block = ""

    def draw(self, text: str) -> Sequence[Strip]:
        """Return all lines; only the last block is drawn again."""
        if not text.startswith(self._read_text):
            self._reset()
        # The meaning of a line may change while it grows: `#` is a heading, and `#x` is not.
        end = text.rfind("\n") + 1
        if end > len(self._read_text):
            # Sanitizing each line once gives the same result as sanitizing the whole text again.
            *finished, self._last_block = split_blocks(
                self._last_block + terminal_text(text[len(self._read_text) : end])
            )
            self._read_text = text[:end]
            self._draw_blocks(self._finished_lines, finished)
        lines = [*self._finished_lines]
        self._draw_blocks(lines, split_blocks(self._last_block + terminal_text(text[end:])))
        return lines

    def _draw_blocks(self, lines: list[Strip], blocks: Sequence[str]) -> None:
        """Append the lines of blocks, with an empty line between blocks."""
        for block in blocks:
            drawn = self._render(block, self._width, self._styles)
            if lines and drawn:
                lines.append(Strip([]))
            lines.extend(drawn)


@final
class _HighlightedCode(CodeBlock):
    """Code in the colours of the app's theme; Rich's own element accepts only a theme name."""

    def __init__(self, lexer_name: str, styles: TranscriptStyles) -> None:
        super().__init__(lexer_name, "")
        self._styles = styles

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _HighlightedCode:
        assert isinstance(markdown, _Markdown)
        return cls(token.info.partition(" ")[0], markdown.styles)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield highlight_code(str(self.text).rstrip("\n"), self.lexer_name, self._styles)


@final
class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


@final
class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _HighlightedCode,
        "code_block": _HighlightedCode,
        "heading_open": _Heading,
    }

    def __init__(self, markup: str, styles: TranscriptStyles) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _FULL_PARSER.parse(markup)
        self.styles = styles


@lru_cache(maxsize=4)
def _markdown_console(item_styles: TranscriptStyles) -> Console:
    styles: dict[str, str | Style] = {
        **dict.fromkeys(("paragraph", "text", "code_block", "list", "item"), "none"),
        "em": "italic",
        "strong": "bold",
        "code": item_styles.code,
        **dict.fromkeys(("block_quote", "hr", "link_url", "table.border"), item_styles.dim),
        **dict.fromkeys(("item.bullet", "item.number"), item_styles.frame),
        **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6", "table.header"), item_styles.heading),
        "link": item_styles.link,
        "s": "strike",
    }
    return create_console(Theme({f"markdown.{name}": style for name, style in styles.items()}))
