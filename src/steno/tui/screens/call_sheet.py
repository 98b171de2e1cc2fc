"""A call to be read: any number of lines, wrapped and scrolled, never cut.

Lines are drawn one by one as they come into view, so their number does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, final

from rich.cells import chop_cells
from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from steno.printable import width_of
from steno.tui.screens.call_text import Line, Tone
from steno.tui.transcript.lines import TAB

_MARK: Final = "│ "
"""Stands before everything that is quoted."""
_COUNT: Final = re.compile(r"(  [+-]\d+)(?=$|  -\d+$)")
"""How many lines come or go, behind the name of a file."""
_TONES: Final = {"+": Tone.ADDED, "-": Tone.REMOVED}


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
        & > .sheet--note { color: $text-muted; }
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

    @final
    class Scrolled(Message):
        """Other lines are in sight now."""

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self._lines: Sequence[Line] = ()
        self._rows: list[_Row] = []
        self._width = 0
        self._visible_rows = 0

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines, from their beginning."""
        self._lines, self._width = lines, 0
        self.scroll_to(y=0, animate=False)

    @property
    def rows_below(self) -> int:
        """How many rows there are below what is in sight."""
        return max(0, len(self._rows) - self._visible_rows - self.scroll_offset.y)

    def wrap_to_width(self, width: int) -> int:
        """Fit the lines into so many columns, and return how many rows that makes."""
        if width != self._width:
            self._width = width
            room = max(width - self.styles.scrollbar_size_vertical - len(_MARK), 2)
            self._rows = [
                _Row(piece, line.tone)
                for line in self._lines
                for piece in _broken(line.text.expandtabs(TAB), room)
            ]
            self.virtual_size = Size(width, len(self._rows))
            self.refresh(layout=True)
        return len(self._rows)

    def limit_rows(self, most: int) -> None:
        """Take so many rows at most; what does not fit is scrolled."""
        self._visible_rows = min(len(self._rows), most)
        self.styles.height = self._visible_rows

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Say that other lines are in sight."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def scroll_by_key(self, where: str) -> None:
        """Scroll to other lines."""
        scrolls = {
            "up": self.scroll_up,
            "down": self.scroll_down,
            "page_up": self.scroll_page_up,
            "page_down": self.scroll_page_down,
            "home": self.scroll_home,
            "end": self.scroll_end,
        }
        scrolls[where](animate=False)

    def render_line(self, y: int) -> Strip:
        """Draw one row of what is in view."""
        number = y + self.scroll_offset.y
        if number >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        row = self._rows[number]
        parts = [(row.text, f"{row.tone}")]
        if row.tone is Tone.FILE:
            name, *counts = _COUNT.split(row.text)
            parts = [(name, "file"), *[(text, _TONES[text.strip()[0]]) for text in counts if text]]
        if row.tone is not Tone.HEADING:
            parts.insert(0, (_MARK, "mark"))
        style = self.get_component_rich_style
        segments = [Segment(text, style(f"sheet--{name}")) for text, name in parts]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


def _broken(line: str, room: int) -> Iterator[str]:
    """Yield a line in pieces that fit, broken behind blanks; not a character is left out.

    A word that fills most of a row is broken all the same, and so is what stands behind a margin:
    rows with next to nothing in them hide what matters.
    """
    start = 0
    while width_of(line[start : start + room + 1]) > room:
        end = start + len(chop_cells(line[start : start + room], room)[0])
        if line[end : end + 1] == " ":
            end += 1  # it is beyond the edge, where nobody sees it
        elif (blank := line.rfind(" ", start, end)) - start > room // 3:
            end = blank + 1
        yield line[start:end]
        start = end
    if start < len(line) or not line:
        yield line[start:]
