"""The text of a call in the approval panel: wrapped, scrolled, and enlarged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, final

from rich.cells import chop_cells
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from steno.render.quantities import format_count
from steno.render.terminal_text import display_width
from steno.ui.call_text import CallLine, LineTone
from steno.ui.tui.transcript.text_lines import TAB_SIZE

_QUOTE_BAR: Final = "│ "
"""Precedes every quoted line."""
_MIN_ROWS: Final = 3


class _WrappedRow(NamedTuple):
    parts: tuple[tuple[str, str], ...]
    """Texts, each with the name of its style."""
    is_quoted: bool


@final
class CallTextView(ScrollView, can_focus=False):
    """Shows lines, as many as there is room for."""

    DEFAULT_CSS: ClassVar[str] = """
    CallTextView {
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        & > .call-text--bar { color: $text-muted; }
        & > .call-text--heading { color: $text-muted; text-style: bold; }
        & > .call-text--note { color: $text-muted; }
        & > .call-text--file { text-style: bold; }
        & > .call-text--hunk { color: $primary; text-style: bold; }
        & > .call-text--added { color: $success; }
        & > .call-text--removed { color: $error; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "call-text--bar",
        *[f"call-text--{tone}" for tone in LineTone],
    }

    @final
    class Scrolled(Message):
        """The visible lines have changed."""

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self._lines: Sequence[CallLine] = ()
        self._rows: list[_WrappedRow] = []
        self._width = 0
        self._visible_rows = 0

    def show_lines(self, lines: Sequence[CallLine]) -> None:
        """Show other lines, from their beginning."""
        self._lines, self._width = lines, 0
        self.scroll_to(y=0, animate=False)

    @property
    def rows_below(self) -> int:
        """The number of rows below the visible ones."""
        return max(0, len(self._rows) - self._visible_rows - self.scroll_offset.y)

    def wrap_to_width(self, width: int) -> int:
        """Wrap the lines to a width, and return the number of rows."""
        if width != self._width:
            self._width = width
            columns = max(width - self.styles.scrollbar_size_vertical - len(_QUOTE_BAR), 2)
            self._rows = [row for line in self._lines for row in _wrap_call_line(line, columns)]
            self.virtual_size = Size(width, len(self._rows))
            self.refresh(layout=True)
        return len(self._rows)

    def limit_rows(self, max_rows: int) -> None:
        """Limit the height; the rest is scrolled."""
        self._visible_rows = min(len(self._rows), max_rows)
        self.styles.height = self._visible_rows

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other lines are visible."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def scroll_by_key(self, direction: str) -> None:
        """Scroll to other lines."""
        scrolls = {
            "up": self.scroll_up,
            "down": self.scroll_down,
            "page_up": self.scroll_page_up,
            "page_down": self.scroll_page_down,
            "home": self.scroll_home,
            "end": self.scroll_end,
        }
        scrolls[direction](animate=False)

    def render_line(self, y: int) -> Strip:
        """Draw one visible row."""
        number = y + self.scroll_offset.y
        if number >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        row = self._rows[number]
        bar = ((_QUOTE_BAR, "bar"),) if row.is_quoted else ()
        parts = (*bar, *row.parts)
        style = self.get_component_rich_style
        segments = [Segment(text, style(f"call-text--{name}")) for text, name in parts]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


def _wrap_call_line(line: CallLine, columns: int) -> Iterator[_WrappedRow]:
    """Yield the rows of a line; the counts follow the name of a file."""
    parts = [(part.text.expandtabs(TAB_SIZE), part.tone) for part in (line, *line.counts)]
    start = 0
    for text in _wrap_text("".join([text for text, _ in parts]), columns):
        end = start + len(text)
        row = tuple(_slice_parts(parts, start, end))
        yield _WrappedRow(row, line.tone is not LineTone.HEADING)
        start = end


def _slice_parts(
    parts: Iterable[tuple[str, LineTone]], start: int, end: int
) -> Iterator[tuple[str, str]]:
    """Yield the parts between two positions of the joined text, cut to them."""
    for text, tone in parts:
        if shown := text[max(start, 0) : max(end, 0)]:
            yield shown, tone.value
        start, end = start - len(text), end - len(text)


def _wrap_text(line: str, columns: int) -> Iterator[str]:
    """Yield a line in parts that fit, broken after blanks; no character is omitted.

    A word that fills most of a row is broken all the same, and so is a text after an indent: almost
    empty rows hide the text that matters.
    """
    start = 0
    while display_width(line[start : start + columns + 1]) > columns:
        end = start + len(chop_cells(line[start : start + columns], columns)[0])
        if line[end : end + 1] == " ":
            end += 1  # it is beyond the edge, and invisible
        elif (blank := line.rfind(" ", start, end)) - start > columns // 3:
            end = blank + 1
        yield line[start:end]
        start = end
    if start < len(line) or not line:
        yield line[start:]


@final
class CallPane(Vertical, can_focus=False):
    """The lines of a call, as many as fit, and a footer about the rest."""

    DEFAULT_CSS: ClassVar[str] = """
    CallPane {
        height: auto;
        & > Static { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self.is_large = False
        """Whether the panel is enlarged."""
        self._fits_large = True
        """Whether all rows fit when it is enlarged."""
        self._footer_text = ""
        self._text_view = CallTextView()
        self._footer = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Stack the lines and the footer."""
        yield from (self._text_view, self._footer)

    @property
    def can_enlarge(self) -> bool:
        """Whether enlarging or shrinking makes a difference."""
        return self._footer.display

    def show_lines(self, lines: Sequence[CallLine]) -> None:
        """Show other lines, from their beginning."""
        self._text_view.show_lines(lines)

    def scroll_by_key(self, direction: str) -> None:
        """Scroll to other lines."""
        self._text_view.scroll_by_key(direction)

    def fit_rows(self, width: int, *, share: int, max_rows: int) -> None:
        """Set the width, and the height: `share` rows, or `max_rows` when enlarged."""
        share, max_rows = max(share, _MIN_ROWS), max(max_rows, _MIN_ROWS)
        available_rows = max_rows if self.is_large else min(share, max_rows)
        rows = self._text_view.wrap_to_width(width)
        self._fits_large = rows < max_rows
        self._footer.display = self.is_large or rows > available_rows
        self._text_view.limit_rows(available_rows - self._footer.display)
        self._update_footer()

    @on(CallTextView.Scrolled)
    def _update_footer(self) -> None:
        """Show how many rows are hidden."""
        below, parts = self._text_view.rows_below, list[str]()
        if below:
            parts += [
                f"… {format_count(below, 'more line', 'more lines')}",
                "↓ scrolls",
            ]
        elif self._text_view.scroll_offset.y > 0:
            parts += ["↑ scrolls"]
        enlarge_hint = "v shows all" if self._fits_large else "v shows more"
        footer = " · ".join([*parts, "v less" if self.is_large else enlarge_hint])
        if footer != self._footer_text:  # else the layout would change again, without end
            self._footer_text = footer
            self._footer.update(footer)
