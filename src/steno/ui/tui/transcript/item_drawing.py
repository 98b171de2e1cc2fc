"""An item of the transcript as lines on the screen.

`ItemDrawing` caches its lines; `ItemLayout` draws them again only after a change. This module does
not depend on the view or on scrolling.

Rich's Markdown and Pygments take longer to import than the rest of the first paint, so the first
item that needs them imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never, final

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from steno.bounded_text import truncate_lines
from steno.render.items import (
    FOLDED_LINES,
    CallState,
    ImageLocation,
    ItemKind,
    TextForm,
    TranscriptItem,
)
from steno.render.quantities import format_count
from steno.ui.help_text import HINT_TEXTS
from steno.ui.tui.transcript.text_lines import (
    MAX_LINES,
    TranscriptStyles,
    break_lines,
    diff_lines,
    fit_head,
    head_and_tail,
    indent_strips,
    last_lines,
    styled_strip,
    styled_strips,
    take_excerpt,
    wrap_lines,
)

LIVE_LINES: Final = 12
"""The number of visible output lines of a running call that is folded."""
LIVE_LINES_UNFOLDED: Final = 200
_UNFOLD_HINT: Final = "Ctrl+O unfold all"

_STATE_MARKS: Final[Mapping[CallState | None, tuple[str, str]]] = {
    None: ("•", "head"),
    CallState.WAITING: ("?", "waiting"),
    CallState.RUNNING: ("●", "running"),
    CallState.DONE: ("✓", "done"),
    CallState.FAILED: ("✗", "failed"),
    CallState.DENIED: ("⊘", "failed"),
    CallState.STOPPED: ("■", "stopped"),
}
"""The mark of each state, which is visible without colours, and the name of its style."""

DrawImage: TypeAlias = Callable[[TranscriptItem, ImageLocation, int], Sequence[Strip]]
"""Returns the lines of an item's image for a width: a placeholder until the image is drawn, and no
lines if it is not available."""
DrawMarkdown: TypeAlias = Callable[[str], Sequence[Strip]]
"""Returns all lines of a Markdown text, which may grow from call to call."""


def create_markdown_drawing(width: int, styles: TranscriptStyles) -> DrawMarkdown:
    """Return a function that draws Markdown for a width."""
    from steno.ui.tui.transcript.markdown import StreamedMarkdown  # noqa: PLC0415 - see above

    return StreamedMarkdown(width, styles).draw


def estimate_height(item: TranscriptItem, width: int) -> int:
    """Estimate the number of lines of an item, without drawing it."""
    body = item.body
    max_lines = MAX_LINES
    if is_folded(item):
        if item.kind not in (ItemKind.USER, ItemKind.SHELL):
            return 2
        max_lines = FOLDED_LINES
    lines = min(body.count("\n") + len(body) // max(width, 20), max_lines)
    return lines + 2 + bool(item.head)


def is_folded(item: TranscriptItem) -> bool:
    """Return whether an item is folded.

    A folded prompt or shell command shows its first lines. Any other folded item shows its head
    and, while it is running, the last lines of its output.
    """
    return item.is_folded and item.can_fold


def copied_text(item: TranscriptItem) -> str:
    """Return the text to copy: the text of an item with its hint, or a prompt without its hint."""
    text = item.join_chunks() or item.head
    return text if item.kind is ItemKind.USER else f"{text}{HINT_TEXTS[item.hint]}"


@final
class ItemDrawing:
    """The lines of one item for one width. `draw` updates them."""

    def __init__(
        self, item: TranscriptItem, width: int, styles: TranscriptStyles, draw_image: DrawImage
    ) -> None:
        self._item = item
        self._width = max(width, 10)
        self._styles = styles
        self._draw_image = draw_image
        self._draw_markdown: DrawMarkdown | None = None
        self._word_counter = _WordCounter()
        self.lines: Sequence[Strip] = ()
        self.is_stale: bool = True

    def draw(self) -> None:
        """Draw the current state of the item. The last line is empty."""
        item, styles, width = self._item, self._styles, self._width
        body = item.join_chunks()
        match item.kind:
            case ItemKind.USER:
                lines = self._user(body)
            case ItemKind.ANSWER:
                lines = [*self._markdown(body, width), *self._images(width)]
            case ItemKind.THINKING:
                lines = self._thinking(body)
            case ItemKind.CALL | ItemKind.SHELL:
                lines = self._call(body)
            case ItemKind.NOTICE:
                lines = self._message_lines("!", styles.notice)
            case ItemKind.ERROR:
                lines = self._message_lines("✗", styles.error)
            case ItemKind.REPLY:
                lines = self._reply(body)
            case ItemKind.MARKER:
                lines = self._marker_lines()
            case _:
                assert_never(item.kind)
        self.lines = [*lines, Strip([])]
        self.is_stale = False

    # -- kinds -----------------------------------------------------------------------------

    def _user(self, body: str) -> list[Strip]:
        styles, inner = self._styles, self._width - 2
        shown = take_excerpt(body)
        rows = wrap_lines(shown.text, inner) if body else []
        strips = styled_strips(rows, styles.user_text)
        lines = [line.extend_cell_length(inner, styles.user_text) for line in strips]
        if is_folded(self._item) and len(lines) > FOLDED_LINES:
            lines = [*lines[:FOLDED_LINES], self._folded_line(len(lines) - FOLDED_LINES)]
            lines += self._images(inner)
        else:
            lines += [*self._images(inner), *self._omission_line(shown.omission)]
        if self._item.head:
            mark = _STATE_MARKS[self._item.state][0]
            head = f"{mark} {self._item.head}{HINT_TEXTS[self._item.hint]}"
            style = styles.user_text + Style(color=styles.dim.color)
            head_line = styled_strip((fit_head(head, inner), style))
            lines.append(head_line.extend_cell_length(inner, style))
        return indent_strips(lines, "▎ ", styles.user_mark)

    def _thinking(self, body: str) -> list[Strip]:
        styles = self._styles
        head = self._item.head or "thinking"
        counts = format_count(self._word_counter.count(body), "word", "words")
        mark = "…" if self._item.is_open else "∴"
        lines = [self._head_strip(f"{head} · {counts}", mark, styles.dim)]
        if is_folded(self._item):
            return lines
        shown = take_excerpt(body.strip("\n"))
        style = styles.dim + Style(italic=True)
        rows = wrap_lines(shown.text, self._width - 2)
        lines += styled_strips([f"  {row}" for row in rows], style)
        return lines + self._omission_line(shown.omission)

    def _call(self, body: str) -> list[Strip]:
        item, styles = self._item, self._styles
        mark, style_name = _STATE_MARKS[item.state]
        folded = is_folded(item)
        hint = f"· {item.note}" if item.note else ""
        is_head_alone = folded and not item.is_open and item.kind is not ItemKind.SHELL
        if is_head_alone and not hint:
            count = body.removesuffix("\n").count("\n") + 1 if body else 0
            hint = f"… {format_count(count, 'line', 'lines')}" if count else "… image"
        lines = [self._head_strip(item.head, mark, getattr(styles, style_name), hint=hint)]
        if item.is_open:
            return lines + self._live_output(body, LIVE_LINES if folded else LIVE_LINES_UNFOLDED)
        if not is_head_alone:
            inner = self._body(body, self._width - 2)
            if folded:
                inner = truncate_lines(inner, max_lines=FOLDED_LINES, note=self._folded_line)
            inner += self._images(self._width - 2)
            lines += indent_strips(inner, "  ", styles.output)
        return lines

    def _folded_line(self, count: int) -> Strip:
        """Return a line with the number of hidden lines, and the key to show them."""
        hidden = format_count(count, "more line", "more lines")
        return styled_strip((f"… {hidden} ({_UNFOLD_HINT})", self._styles.dim))

    def _live_output(self, body: str, count: int) -> list[Strip]:
        if not body:
            return []
        styles = self._styles
        text, before = last_lines(body, count)
        rows = break_lines(text, self._width - 2)
        lines = styled_strips([f"  {row}" for row in rows], styles.output)
        if before or len(lines) > count:
            output = self._item.output
            is_counted = before and not (output is not None and output.missing)
            count_text = format_count(before, "earlier line", "earlier lines")
            omitted = count_text if is_counted else "earlier"
            lines = [styled_strip((f"  … {omitted}", styles.dim)), *lines[-count:]]
        return lines

    def _message_lines(self, mark: str, style: Style) -> list[Strip]:
        item = self._item
        body = item.body.strip("\n") + HINT_TEXTS[item.hint]
        shown = take_excerpt("\n".join([part for part in (item.head, body) if part]))
        rows = wrap_lines(shown.text, self._width - 2)
        marks = [mark, *" " * (len(rows) - 1)]
        marked = [f"{mark} {row}" for mark, row in zip(marks, rows, strict=True)]
        lines = styled_strips(marked, style) + self._omission_line(shown.omission)
        return lines + self._images(self._width)

    def _reply(self, body: str) -> list[Strip]:
        """Return the report of a command in a frame, with its head in the top line of the frame."""
        styles, inner = self._styles, self._width - 4
        title = fit_head(self._item.head, inner - 2)
        title = f" {title} " if title else ""
        line = "─" * (self._width - 3 - cell_len(title))
        top = (("╭─", styles.frame), (title, styles.head), (f"{line}╮", styles.frame))
        lines = [styled_strip(*top)]
        if not is_folded(self._item):
            left, right = [styled_strip((side, styles.frame)) for side in ("│ ", " │")]
            lines += [
                Strip.join([left, drawn.adjust_cell_length(inner), right])
                for drawn in [*self._body(body, inner), *self._images(inner)]
            ]
        return [*lines, styled_strip((f"╰{'─' * (self._width - 2)}╯", styles.frame))]

    def _marker_lines(self) -> list[Strip]:
        styles = self._styles
        text = fit_head(self._item.head or self._item.body, self._width - 6)
        rule = "─" * (self._width - 4 - cell_len(text))
        lines = [styled_strip((f"── {text} {rule}", styles.dim))]
        if self._item.head and self._item.body and not is_folded(self._item):
            lines += self._body(self._item.body, self._width)
        return lines

    # -- parts -----------------------------------------------------------------------------

    def _head_strip(self, text: str, mark: str, style: Style, *, hint: str = "") -> Strip:
        columns = self._width - 2 - (cell_len(hint) + 1 if hint else 0)
        head = fit_head(text, columns)
        styles = self._styles
        text_style = styles.dim if style is styles.dim else styles.head
        return styled_strip(
            (f"{mark} ", style), (head, text_style), (f" {hint}" * bool(hint), styles.dim)
        )

    def _body(self, body: str, width: int) -> list[Strip]:
        if not body:
            return []
        if self._item.form is TextForm.MARKDOWN:
            return self._markdown(body, width)
        if self._item.form is TextForm.PLAIN and self._item.kind in (ItemKind.CALL, ItemKind.SHELL):
            return self._output_lines(body.strip("\n"), width)
        shown = take_excerpt(body.strip("\n"))
        styles = self._styles
        match self._item.form:
            case TextForm.DIFF:
                lines = diff_lines(shown.text, width, styles)
            case TextForm.CODE:
                from steno.ui.tui.transcript.markdown import code_lines  # noqa: PLC0415 - see above

                lines = code_lines(shown.text, self._item.language, width, styles)
            case _:
                lines = styled_strips(break_lines(shown.text, width), styles.output)
        return lines + self._omission_line(shown.omission)

    def _output_lines(self, body: str, width: int) -> list[Strip]:
        """Return the output of a program, or the beginning and the end of long output."""
        beginning, omission, end = head_and_tail(body)
        first, last = [
            styled_strips(break_lines(text, width) if text else (), self._styles.output)
            for text in (beginning, end)
        ]
        return [*first, *self._omission_line(omission), *last]

    def _markdown(self, body: str, width: int) -> list[Strip]:
        if self._draw_markdown is None:
            self._draw_markdown = create_markdown_drawing(width, self._styles)
        shown = take_excerpt(body)
        lines = self._draw_markdown(shown.text)
        if not lines and body.strip():
            # "42." is an empty list item in Markdown, but it may be the whole answer.
            lines = styled_strips(break_lines(shown.text.strip(), width), self._styles.base)
        return [*lines, *self._omission_line(shown.omission)]

    def _images(self, width: int) -> list[Strip]:
        item, draw = self._item, self._draw_image
        return [line for image in item.images for line in draw(item, image, width)]

    def _omission_line(self, omitted: str) -> list[Strip]:
        return [styled_strip((f"{omitted} · y copy all", self._styles.dim))] if omitted else []


@final
class _WordCounter:
    """Counts the words of a growing text; each call reads only the new part."""

    def __init__(self) -> None:
        self._read = 0
        self._count = 0

    def count(self, text: str) -> int:
        if len(text) < self._read:
            self._read = self._count = 0
        # The last word may be incomplete.
        end = max(text.rfind(" "), text.rfind("\n"), self._read)
        self._count += len(text[self._read : end].split())
        self._read = end
        return self._count + len(text[end:].split())
