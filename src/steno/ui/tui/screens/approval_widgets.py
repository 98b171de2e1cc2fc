"""A call to be read: any number of lines, wrapped and scrolled, never cut.

Lines are drawn one by one as they come into view, so their number does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NamedTuple, final

from rich.cells import chop_cells
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click, Key
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from steno.render.quantities import format_count
from steno.render.terminal_text import display_width
from steno.ui.approval_state import ApprovalChoice, ApprovalOffer, KeyGuard, KeyRefusal
from steno.ui.call_text import CallLine, LineTone
from steno.ui.tui.screens.widgets import LineInput, balance_rows
from steno.ui.tui.transcript.text_lines import TAB_SIZE

# -- answer line -----------------------------------------------------------------------------------
#
# A line in which a decision is worded: the rule to store, or the reason for a denial.


@final
class AnswerInput(LineInput):
    """Takes one line."""

    DEFAULT_CSS = "AnswerInput { background: $surface; }"

    @final
    class Ignored(Message):
        """Enter came, and nothing was done about it."""

        def __init__(self, reason: KeyRefusal) -> None:
            """Say why."""
            super().__init__()
            self.reason = reason

    def __init__(self, attention: KeyGuard) -> None:
        """Take who tells keys that are meant from others."""
        super().__init__(select_on_focus=False)
        self._key_guard = attention
        self.allows_quick_enter = False
        """Whether Enter counts right behind a key, unless it was pasted: to deny harms nobody."""

    def on_key(self, event: Key) -> None:
        """Note when keys come."""
        if event.key != "enter":  # see action_submit
            self._key_guard.check_key()

    async def action_submit(self) -> None:
        """Take what is written."""
        refusal = self._key_guard.check_enter(allows_quick_enter=self.allows_quick_enter)
        if refusal is None:
            await super().action_submit()
        else:
            self.post_message(self.Ignored(refusal))


_QUOTE_BAR: Final = "│ "
"""Stands before everything that is quoted."""


_LINE_COUNTS: Final = re.compile(r"(  [+-]\d+)(?=$|  -\d+$)")
"""How many lines come or go, behind the name of a file."""


_COUNT_TONES: Final = {"+": LineTone.ADDED, "-": LineTone.REMOVED}


class _WrappedRow(NamedTuple):
    text: str
    tone: LineTone


@final
class CallTextView(ScrollView, can_focus=False):
    """Shows lines, as many as there is room for."""

    DEFAULT_CSS = """
    CallTextView {
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
        *[f"sheet--{tone}" for tone in LineTone],
    }

    @final
    class Scrolled(Message):
        """Other lines are in sight now."""

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
        """How many rows there are below what is in sight."""
        return max(0, len(self._rows) - self._visible_rows - self.scroll_offset.y)

    def wrap_to_width(self, width: int) -> int:
        """Fit the lines into so many columns, and return how many rows that makes."""
        if width != self._width:
            self._width = width
            columns = max(width - self.styles.scrollbar_size_vertical - len(_QUOTE_BAR), 2)
            self._rows = [
                _WrappedRow(piece, line.tone)
                for line in self._lines
                for piece in _wrap_line(line.text.expandtabs(TAB_SIZE), columns)
            ]
            self.virtual_size = Size(width, len(self._rows))
            self.refresh(layout=True)
        return len(self._rows)

    def limit_rows(self, max_rows: int) -> None:
        """Take so many rows at most; what does not fit is scrolled."""
        self._visible_rows = min(len(self._rows), max_rows)
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
        if row.tone is LineTone.FILE:
            name, *counts = _LINE_COUNTS.split(row.text)
            parts = [
                (name, "file"),
                *[(text, _COUNT_TONES[text.strip()[0]]) for text in counts if text],
            ]
        if row.tone is not LineTone.HEADING:
            parts.insert(0, (_QUOTE_BAR, "mark"))
        style = self.get_component_rich_style
        segments = [Segment(text, style(f"sheet--{name}")) for text, name in parts]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


def _wrap_line(line: str, columns: int) -> Iterator[str]:
    """Yield a line in pieces that fit, broken behind blanks; not a character is left out.

    A word that fills most of a row is broken all the same, and so is what stands behind a margin:
    rows with next to nothing in them hide what matters.
    """
    start = 0
    while display_width(line[start : start + columns + 1]) > columns:
        end = start + len(chop_cells(line[start : start + columns], columns)[0])
        if line[end : end + 1] == " ":
            end += 1  # it is beyond the edge, where nobody sees it
        elif (blank := line.rfind(" ", start, end)) - start > columns // 3:
            end = blank + 1
        yield line[start:end]
        start = end
    if start < len(line) or not line:
        yield line[start:]


# -- call reader -----------------------------------------------------------------------------------
#
# What there is to read about a call, and how much of it is not in sight.
#
# It takes the room that it is given, and says so where that is not enough.


_MIN_ROWS: Final = 3


@final
class CallPane(Vertical, can_focus=False):
    """Lines to read, as many as there is room for, and below them what to do about the rest."""

    DEFAULT_CSS = """
    CallPane {
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
        self._text_view = CallTextView()
        self._footer = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Put the lines above what is said about them."""
        yield from (self._text_view, self._footer)

    @property
    def can_enlarge(self) -> bool:
        """Whether there is a reason to take more room, or to give it back."""
        return self._footer.display

    def show_lines(self, lines: Sequence[CallLine]) -> None:
        """Show other lines, from their beginning."""
        self._text_view.show_lines(lines)

    def scroll_by_key(self, where: str) -> None:
        """Scroll to other lines."""
        self._text_view.scroll_by_key(where)

    def fit_rows(self, width: int, *, share: int, max_rows: int) -> None:
        """Take so many columns, and so many rows at most: the share, or where it is large, all."""
        share, max_rows = max(share, _MIN_ROWS), max(max_rows, _MIN_ROWS)
        room = max_rows if self.is_large else min(share, max_rows)
        rows = self._text_view.wrap_to_width(width)
        self._fits_large = rows < max_rows
        self._footer.display = self.is_large or rows > room
        self._text_view.limit_rows(room - self._footer.display)
        self._update_footer()

    @on(CallTextView.Scrolled)
    def _update_footer(self) -> None:
        """Say how much is not in sight."""
        below, parts = self._text_view.rows_below, list[str]()
        if below:
            parts += [f"… {format_count(below, 'more line', 'more lines')}", "↓ scrolls"]
        elif self._text_view.scroll_offset.y > 0:
            parts += ["↑ scrolls"]
        more = "v shows all" if self._fits_large else "v shows more"
        footer = " · ".join([*parts, "v less" if self.is_large else more])
        if footer != self._footer_text:  # else it would be laid out anew, and so on without end
            self._footer_text = footer
            self._footer.update(footer)


# -- choices ---------------------------------------------------------------------------------------
#
# The choices below a call: a letter and a word each, in as few rows as they fit into.
#
# What cannot be chosen is left out; why, is said elsewhere.


_CHOICE_META: Final = "choice"


_CHOICE_GAP: Final = " "


@final
class ChoiceBar(Widget, can_focus=False):
    """Draws offers. What is highlighted has arrows around it, for terminals without colours."""

    DEFAULT_CSS = "ChoiceBar { height: auto; }"

    @final
    class Clicked(Message):
        """Somebody has clicked on a choice."""

        def __init__(self, choice: ApprovalChoice) -> None:
            """Say on which."""
            super().__init__()
            self.choice = choice

    def __init__(self) -> None:
        """Offer nothing yet."""
        super().__init__()
        self._offers: tuple[ApprovalOffer, ...] = ()
        self._highlighted: ApprovalOffer | None = None

    def show(self, offers: tuple[ApprovalOffer, ...], highlighted: ApprovalOffer | None) -> None:
        """Offer these, one of them highlighted or none."""
        offers = tuple([offer for offer in offers if not offer.obstacle])
        if (offers, highlighted) != (self._offers, self._highlighted):
            self._offers, self._highlighted = offers, highlighted
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows it takes."""
        return len(self._rows(width))

    def render(self) -> Content:
        """Draw all of them."""
        rows = self._rows(self.size.width)
        return Content("\n").join(
            [Content(_CHOICE_GAP).join(map(self._drawn, row)) for row in rows]
        )

    def on_click(self, event: Click) -> None:
        """Say what was clicked on."""
        choice = event.style.meta.get(_CHOICE_META)
        if choice is not None:
            self.post_message(self.Clicked(ApprovalChoice(choice)))

    def _rows(self, width: int) -> list[tuple[ApprovalOffer, ...]]:
        widths = [len(self._text(offer)) for offer in self._offers]
        return [self._offers[row] for row in balance_rows(widths, width, gap=len(_CHOICE_GAP))]

    def _text(self, offer: ApprovalOffer) -> str:
        before, behind = "▸◂" if offer == self._highlighted else "  "
        return f"{before}{offer.letter} {offer.label}{behind}"

    def _drawn(self, offer: ApprovalOffer) -> Content:
        text = Content(self._text(offer))
        text = text.stylize(Style.from_meta({_CHOICE_META: str(offer.choice)}))
        if offer == self._highlighted:
            return text.stylize("bold reverse")
        return text.stylize("$primary bold underline", 1, 2)
