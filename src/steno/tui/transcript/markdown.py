"""Markdown as lines on the screen, also while it is still being written.

Rich draws it. Nothing of the text is hidden: what Rich would leave out (HTML, definitions of links,
where a picture comes from) is shown as it was written.

`MarkdownFlow` draws a growing text. What stands before the last block of it (paragraph, list, code)
cannot change any more, whatever follows; it is drawn once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import StringIO
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias, final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.style import Style
from rich.theme import Theme
from textual.strip import Strip

from steno.printable import printable
from steno.tui.transcript.code import highlighted
from steno.tui.transcript.lines import broken, strip, strips
from steno.tui.transcript.look import Look

Renderer: TypeAlias = Callable[[str, int, Look], Sequence[Strip]]
"""Draws a text, so and so wide."""

_DEEPEST: Final = 16
"""Of what is nested deeper nothing can be seen on a line."""
_LONGEST_PARAGRAPH: Final = 8_000
"""Some texts take the square of their length to read."""


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    parser.enable(["table", "strikethrough"])
    # What these read is hidden from the reader, or says a character in another way than by itself.
    return parser.disable(["reference", "entity", "autolink", "image", "html_block", "html_inline"])


_WHOLE: Final = _parser()
_BLOCKS: Final = _parser().disable("inline")
"""Tells where blocks begin, and reads nothing in them."""


def blocks_of(markup: str) -> list[str]:
    """Return the blocks that a text is made of: paragraphs, lists, tables, code."""
    begins = [
        token.map[0]
        for token in _BLOCKS.parse(markup)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    lines = markup.split("\n")
    bounds = [0, *begins[1:], len(lines)]
    return ["\n".join(lines[begin:end]) for begin, end in pairwise(bounds)]


def render_block(markup: str, width: int, look: Look) -> Sequence[Strip]:
    """Return one block of harmless Markdown as lines; as written, where it is no text for people."""
    if any(
        token.level > _DEEPEST
        or (token.type == "inline" and len(token.content) > _LONGEST_PARAGRAPH)
        for token in _BLOCKS.parse(markup)
    ):
        lines = [strip((line, look.base)) for line in broken(markup, width)]
    else:
        console = _console(look)
        options = console.options.update(width=max(width, 8), height=None)
        lines = strips(console.render_lines(_Markdown(markup, look), options, pad=False))
    return _trimmed(lines)


def _trimmed(lines: list[Strip]) -> Sequence[Strip]:
    """Return lines without the empty ones around them: Rich has many opinions on those."""
    full = [position for position, line in enumerate(lines) if line.text.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


@final
class MarkdownFlow:
    """A text that grows, as lines. Each call of `draw` gets all of it so far."""

    def __init__(self, width: int, look: Look, render: Renderer = render_block) -> None:
        self._width = width
        self._styles = look
        self._render = render
        self._reset()

    def _reset(self) -> None:
        self._settled: list[Strip] = []
        # What was taken in for good, as it came: whole lines.
        self._read = ""
        # The last block of it, harmless.
        self._last = ""

    def draw(self, text: str) -> Sequence[Strip]:
        """Return all lines; only the last block is drawn anew."""
        if not text.startswith(self._read):
            self._reset()
        # What a line is may yet change while it is written: `#` is a heading, and `#x` is none.
        end = text.rfind("\n") + 1
        if end > len(self._read):
            # Line by line harmless is as harmless as all at once, and so it is done once.
            *settled, self._last = blocks_of(self._last + printable(text[len(self._read) : end]))
            self._read = text[:end]
            self._draw_blocks(self._settled, settled)
        lines = [*self._settled]
        self._draw_blocks(lines, blocks_of(self._last + printable(text[end:])))
        return lines

    def _draw_blocks(self, lines: list[Strip], blocks: Sequence[str]) -> None:
        """Draw blocks below the others, an empty line between each two."""
        for block in blocks:
            drawn = self._render(block, self._width, self._styles)
            if lines and drawn:
                lines.append(Strip([]))
            lines.extend(drawn)


@final
class _Code(CodeBlock):
    """Code with our colours; Rich asks for the theme only."""

    def __init__(self, lexer_name: str, look: Look) -> None:
        super().__init__(lexer_name, "")
        self._styles = look

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _Code:
        assert isinstance(markdown, _Markdown)
        return cls(token.info.partition(" ")[0], markdown.styles)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield highlighted(str(self.text).rstrip("\n"), self.lexer_name, self._styles)


@final
class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


@final
class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }

    def __init__(self, markup: str, look: Look) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _WHOLE.parse(markup)
        self.styles = look


@lru_cache(maxsize=4)
def _console(look: Look) -> Console:
    styles: dict[str, str | Style] = {
        "paragraph": "none",
        "text": "none",
        "em": "italic",
        "strong": "bold",
        "code": look.code,
        "code_block": "none",
        "block_quote": look.dim,
        "list": "none",
        "item": "none",
        "item.bullet": look.frame,
        "item.number": look.frame,
        "hr": look.dim,
        **{f"h{level}": look.heading for level in range(1, 7)},
        "link": look.link,
        "link_url": look.dim,
        "s": "strike",
        "table.border": look.dim,
        "table.header": look.heading,
    }
    return Console(
        file=StringIO(),
        theme=Theme({f"markdown.{name}": style for name, style in styles.items()}),
        width=80,
        color_system="truecolor",
        force_terminal=True,
        legacy_windows=False,
        _environ={},
    )
