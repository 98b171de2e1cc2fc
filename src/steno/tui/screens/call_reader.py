"""What there is to read about a call, and how much of it is not in sight.

It takes the room that it is given, and says so where that is not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from steno.printable import counted
from steno.tui.screens.call_sheet import CallSheet
from steno.tui.screens.call_text import Line

_FEWEST_ROWS: Final = 3


@final
class CallReader(Vertical, can_focus=False):
    """Lines to read, as many as there is room for, and below them what to do about the rest."""

    DEFAULT_CSS = """
    CallReader {
        height: auto;
        & > Static { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self.is_large = False
        """Whether somebody wants to see as much as possible."""
        self._fits_large = True
        """Whether all of it would be in sight then."""
        self._footer_text = ""
        self._text_view = CallSheet()
        self._footer = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Put the lines above what is said about them."""
        yield from (self._text_view, self._footer)

    @property
    def can_enlarge(self) -> bool:
        """Whether there is a reason to take more room, or to give it back."""
        return self._footer.display

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines, from their beginning."""
        self._text_view.show_lines(lines)

    def scroll_by_key(self, where: str) -> None:
        """Scroll to other lines."""
        self._text_view.scroll_by_key(where)

    def fit_rows(self, width: int, *, share: int, most: int) -> None:
        """Take so many columns, and so many rows at most: the share, or where it is large, all."""
        share, most = max(share, _FEWEST_ROWS), max(most, _FEWEST_ROWS)
        room = most if self.is_large else min(share, most)
        rows = self._text_view.wrap_to_width(width)
        self._fits_large = rows < most
        self._footer.display = self.is_large or rows > room
        self._text_view.limit_rows(room - self._footer.display)
        self._update_footer()

    @on(CallSheet.Scrolled)
    def _update_footer(self) -> None:
        """Say how much is not in sight."""
        below, parts = self._text_view.rows_below, list[str]()
        if below:
            parts += [f"… {counted(below, 'more line', 'more lines')}", "↓ scrolls"]
        elif self._text_view.scroll_offset.y > 0:
            parts += ["↑ scrolls"]
        more = "v shows all" if self._fits_large else "v shows more"
        told = " · ".join([*parts, "v less" if self.is_large else more])
        if told != self._footer_text:  # else it would be laid out anew, and so on without end
            self._footer_text = told
            self._footer.update(told)
