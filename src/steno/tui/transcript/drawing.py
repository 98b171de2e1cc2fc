"""A block as lines on the screen.

`Drawing` keeps what it has drawn, and draws anew only what has changed. What takes long to load
(Markdown, colours for code) is loaded when a block asks for it. It knows no view and no scrolling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias, assert_never, final

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from steno.printable import counted
from steno.tui.block import FOLDED_LINES, Block, Form, ImageAt, Kind, State
from steno.tui.transcript.diff import diff_lines
from steno.tui.transcript.lines import (
    MOST_LINES,
    both_ends,
    broken,
    excerpt,
    head_line,
    indented,
    last_lines,
    strip,
    wrapped,
)
from steno.tui.transcript.look import Look

LIVE_LINES: Final = 12
"""What is shown of a command that runs, folded as it is."""
LIVE_LINES_UNFOLDED: Final = 200
_UNFOLDS: Final = "Enter unfolds"

MARKS: Final[Mapping[State | None, str]] = {
    None: "•",
    State.WAITING: "?",
    State.RUNNING: "●",
    State.DONE: "✓",
    State.FAILED: "✗",
    State.DENIED: "⊘",
    State.STOPPED: "■",
}
"""How far a call has come, also for those who see no colours."""

Pictures: TypeAlias = Callable[[ImageAt, int], Sequence[Strip]]
"""Brings an image as lines of some width, or what is to be shown until it is there."""


def guess_height(block: Block, width: int) -> int:
    """Return about how many lines a block will take; asking costs next to nothing."""
    body = block.body
    most = MOST_LINES
    if is_folded(block):
        if block.kind not in (Kind.USER, Kind.SHELL):
            return 2
        most = FOLDED_LINES
    lines = min(body.count("\n") + len(body) // max(width, 20), most)
    return lines + 2 + bool(block.head)


def is_folded(block: Block) -> bool:
    """Tell whether only the head of a block is shown, or a part of what a person said or ran."""
    return block.is_folded and block.can_fold


@final
class Drawing:
    """The lines of one block, of one width. `draw` brings them up to date."""

    def __init__(self, block: Block, width: int, look: Look, pictures: Pictures) -> None:
        self._item = block
        self._width = max(width, 10)
        self._styles = look
        self._draw_image = pictures
        self._markdown_flow: Any = None  # a MarkdownFlow, whose module is loaded when it is needed
        self._word_counter = _Words()
        self.lines: Sequence[Strip] = ()
        self.is_stale = True

    def draw(self) -> None:
        """Draw what has changed since the last time. The last line of a block is empty."""
        block, look, width = self._item, self._styles, self._width
        body = block.join_chunks()
        match block.kind:
            case Kind.USER:
                lines = self._user(body)
            case Kind.ANSWER:
                lines = [*self._markdown(body, width), *self._images(width)]
            case Kind.THINKING:
                lines = self._thinking(body)
            case Kind.CALL | Kind.SHELL:
                lines = self._call(body)
            case Kind.NOTICE:
                lines = self._message_lines("!", look.notice)
            case Kind.ERROR:
                lines = self._message_lines("✗", look.trouble)
            case Kind.REPLY:
                lines = self._reply(body)
            case Kind.MARK:
                lines = self._marker_lines()
            case _:
                assert_never(block.kind)
        self.lines = [*lines, Strip([])]
        self.is_stale = False

    # -- kinds -----------------------------------------------------------------------------

    def _user(self, body: str) -> list[Strip]:
        look, inner = self._styles, self._width - 2
        shown = excerpt(body)
        lines = [strip((line, look.words)) for line in wrapped(shown.text, inner)] if body else []
        lines = [line.extend_cell_length(inner, look.words) for line in lines]
        if is_folded(self._item) and len(lines) > FOLDED_LINES:
            lines = [*lines[:FOLDED_LINES], self._folded_line(len(lines) - FOLDED_LINES)]
            lines += self._images(inner)
        else:
            lines += [*self._images(inner), *self._omission_line(shown.omission)]
        if self._item.head:
            head = f"{MARKS[self._item.state]} {self._item.head}"
            style = look.words + Style(color=look.dim.color)
            lines.append(strip((head_line(head, inner), style)).extend_cell_length(inner, style))
        return indented(lines, "▎ ", look.mark)

    def _thinking(self, body: str) -> list[Strip]:
        look = self._styles
        head = self._item.head or "thinking"
        counts = counted(self._word_counter.count(body), "word", "words")
        lines = [self._head_strip(f"{head} · {counts}", "…" if self._item.is_open else "∴", look.dim)]
        if is_folded(self._item):
            return lines
        shown = excerpt(body.strip("\n"))
        style = look.dim + Style(italic=True)
        lines += [strip(("  " + line, style)) for line in wrapped(shown.text, self._width - 2)]
        return lines + self._omission_line(shown.omission)

    def _call(self, body: str) -> list[Strip]:
        block, look = self._item, self._styles
        mark_style = {
            State.WAITING: look.waiting,
            State.RUNNING: look.running,
            State.DONE: look.done,
            State.FAILED: look.failed,
            State.DENIED: look.failed,
            State.STOPPED: look.stopped,
            None: look.head,
        }[block.state]
        folded = is_folded(block)
        hint = f"· {block.note}" if block.note else ""
        is_head_alone = folded and not block.is_open and block.kind is not Kind.SHELL
        if is_head_alone and not hint:
            count = body.removesuffix("\n").count("\n") + 1 if body else 0
            hint = f"… {counted(count, 'line', 'lines')}" if count else "… image"
        lines = [self._head_strip(block.head, MARKS[block.state], mark_style, hint=hint)]
        if block.is_open:
            return lines + self._live_output(body, LIVE_LINES if folded else LIVE_LINES_UNFOLDED)
        if not is_head_alone:
            inner = self._body(body, self._width - 2)
            if folded and len(inner) > FOLDED_LINES:
                half = FOLDED_LINES // 2
                inner = [*inner[:half], self._folded_line(len(inner) - 2 * half), *inner[-half:]]
            inner += self._images(self._width - 2)
            lines += indented(inner, "  ", look.output)
        return lines

    def _folded_line(self, count: int) -> Strip:
        """Say how many lines are not shown, and how to see them."""
        left = counted(count, "more line", "more lines")
        return strip((f"… {left} ({_UNFOLDS})", self._styles.dim))

    def _live_output(self, body: str, count: int) -> list[Strip]:
        """Return the end of what a command that still runs has said."""
        if not body:
            return []
        look = self._styles
        text, before = last_lines(body, count)
        lines = [strip((f"  {line}", look.output)) for line in broken(text, self._width - 2)]
        if before or len(lines) > count:
            is_counted = before and not self._item.omitted_characters
            said = counted(before, "earlier line", "earlier lines") if is_counted else "earlier"
            lines = [strip((f"  … {said}", look.dim)), *lines[-count:]]
        return lines

    def _message_lines(self, mark: str, style: Style) -> list[Strip]:
        block = self._item
        lines = [part for part in (block.head, block.body.strip("\n")) if part]
        shown = excerpt("\n".join(lines))
        rows = wrapped(shown.text, self._width - 2)
        marked = [
            strip((f"{mark if not position else ' '} {row}", style))
            for position, row in enumerate(rows)
        ]
        return marked + self._omission_line(shown.omission) + list(self._images(self._width))

    def _reply(self, body: str) -> list[Strip]:
        """Return what a command has brought in a frame, with its head in the upper line."""
        look, inner = self._styles, self._width - 4
        title = head_line(self._item.head, inner - 2)
        title = f" {title} " if title else ""
        line = "─" * (self._width - 3 - cell_len(title))
        lines = [strip(("╭─", look.frame), (title, look.head), (f"{line}╮", look.frame))]
        if not is_folded(self._item):
            for drawn in [*self._body(body, inner), *self._images(inner)]:
                row = drawn.adjust_cell_length(inner)
                lines.append(
                    Strip.join([strip(("│ ", look.frame)), row, strip((" │", look.frame))])
                )
        return [*lines, strip((f"╰{'─' * (self._width - 2)}╯", look.frame))]

    def _marker_lines(self) -> list[Strip]:
        look = self._styles
        text = head_line(self._item.head or self._item.body, self._width - 6)
        rest = "─" * (self._width - 4 - cell_len(text))
        lines = [strip((f"── {text} {rest}", look.dim))]
        if self._item.head and self._item.body and not is_folded(self._item):
            lines += self._body(self._item.body, self._width)
        return lines

    # -- parts -----------------------------------------------------------------------------

    def _head_strip(self, text: str, mark: str, style: Style, *, hint: str = "") -> Strip:
        room = self._width - 2 - (cell_len(hint) + 1 if hint else 0)
        head = head_line(text, room)
        look = self._styles
        text_style = look.dim if style is look.dim else look.head
        return strip((f"{mark} ", style), (head, text_style), (f" {hint}" * bool(hint), look.dim))

    def _body(self, body: str, width: int) -> list[Strip]:
        """Return a body in its form."""
        if not body:
            return []
        if self._item.form is Form.MARKDOWN:
            return self._markdown(body, width)
        if self._item.form is Form.PLAIN and self._item.kind in (Kind.CALL, Kind.SHELL):
            return self._output_lines(body.strip("\n"), width)
        shown = excerpt(body.strip("\n"))
        look = self._styles
        match self._item.form:
            case Form.DIFF:
                lines = diff_lines(shown.text, width, look)
            case Form.CODE:
                code = _late("code")
                lines = code.code_lines(shown.text, self._item.language, width, look)
            case _:
                lines = [strip((line, look.output)) for line in broken(shown.text, width)]
        return lines + self._omission_line(shown.omission)

    def _output_lines(self, body: str, width: int) -> list[Strip]:
        """Return what a program printed: of very much, the beginning and the end."""
        beginning, left_out, end = both_ends(body)
        first, last = [
            [strip((line, self._styles.output)) for line in broken(text, width)] if text else []
            for text in (beginning, end)
        ]
        return [*first, *self._omission_line(left_out), *last]

    def _markdown(self, body: str, width: int) -> list[Strip]:
        if self._markdown_flow is None:
            self._markdown_flow = _late("markdown").MarkdownFlow(width, self._styles)
        shown = excerpt(body)
        lines = self._markdown_flow.draw(shown.text)
        if not lines and body.strip():
            # "42." is a list with an item that says nothing; to whoever asked it is all there is.
            lines = [strip((line, self._styles.base)) for line in broken(shown.text.strip(), width)]
        return [*lines, *self._omission_line(shown.omission)]

    def _images(self, width: int) -> list[Strip]:
        return [line for image in self._item.images for line in self._draw_image(image, width)]

    def _omission_line(self, said: str) -> list[Strip]:
        return [strip((f"{said}; y copies all", self._styles.dim))] if said else []


@final
class _Words:
    """Counts the words of a text that grows, each once."""

    def __init__(self) -> None:
        self._read = 0
        self._count = 0

    def count(self, text: str) -> int:
        if len(text) < self._read:
            self._read = self._count = 0
        # The last word may go on.
        end = max(text.rfind(" "), text.rfind("\n"), self._read)
        self._count += len(text[self._read : end].split())
        self._read = end
        return self._count + len(text[end:].split())


def _late(module: str) -> Any:
    """Load what the first picture of the terminal does without."""
    return import_module(f"steno.tui.transcript.{module}")
