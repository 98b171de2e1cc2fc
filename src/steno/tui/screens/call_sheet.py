"""A call to be read: any number of lines, wrapped and scrolled, never cut.

Lines are drawn one by one as they come into view, so their number does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, final

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from steno.tui.screens.call_text import Line, Tone
from steno.tui.transcript.lines import broken

_MARK: Final = "│ "
"""Stands before everything that is quoted."""


class _Row(NamedTuple):
    text: str
    tone: Tone


@final
class CallSheet(ScrollView, can_focus=False):
    """Shows lines, as many as there is room for."""

    DEFAULT_CSS = """
    CallSheet {
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        & > .sheet--mark { color: $text-muted; }
        & > .sheet--ours { color: $text-muted; text-style: bold; }
        & > .sheet--file { text-style: bold; }
        & > .sheet--hunk { color: $primary; text-style: bold; }
        & > .sheet--added { color: $success; }
        & > .sheet--removed { color: $error; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "sheet--mark",
        *[f"sheet--{tone}" for tone in Tone],
    }

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self._lines: Sequence[Line] = ()
        self._rows: list[_Row] = []
        self._width = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Show other lines, from their beginning."""
        self._lines, self._width = lines, 0
        self.scroll_to(y=0, animate=False)

    def lay_out(self, width: int, most_rows: int) -> None:
        """Fit the lines into so many columns; what does not fit into so many rows is scrolled."""
        if width != self._width:
            self._width = width
            room = max(width - self.styles.scrollbar_size_vertical - len(_MARK), 2)
            self._rows = [
                _Row(piece, line.tone) for line in self._lines for piece in broken(line.text, room)
            ]
            self.virtual_size = Size(width, len(self._rows))
            self.refresh(layout=True)
        self.styles.height = min(len(self._rows), most_rows)

    def render_line(self, y: int) -> Strip:
        """Draw one row of what is in view."""
        number = y + self.scroll_offset.y
        if number >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        row = self._rows[number]
        style = self.get_component_rich_style(f"sheet--{row.tone}")
        segments = [Segment(row.text, style)]
        if row.tone is not Tone.OURS:
            segments.insert(0, Segment(_MARK, self.get_component_rich_style("sheet--mark")))
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
