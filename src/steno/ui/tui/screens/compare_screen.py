"""The screen that compares two branches, side by side or, on a narrow screen, one below the other.

One widget draws both branches, so they always scroll together. Its scroll position is an item and a
line of it, and only visible items are rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar, Final, final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from steno.app.session import AgentSession
from steno.app.session_log import BranchTreeRow
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.ui.compare_state import ComparedEntry, CompareState
from steno.ui.tui.screens.widgets import CURSOR_KEYS, TitledScreen

_TWO_COLUMN_WIDTH: Final = 80
"""The minimal width for two columns."""
_SIDE_MARKS: Final = ("1 ", "2 ")
"""The marks of the two branches when one is drawn below the other."""
_WHEEL_LINES: Final = 3
_STYLE_NAMES: Final = ("head", "text", "differs", "rule", "cursor", "name", "chosen")
_COMPARE_KEYS: Final = (
    *("n/p next/previous", "←→ select side", "Enter switch"),
    *("s swap sides", "Esc close"),
)


@final
class CompareView(Widget, can_focus=True):
    """The rows of a comparison, the cursor, and the selected side."""

    DEFAULT_CSS: ClassVar[str] = """
    CompareView {
        width: 1fr; height: 1fr;
        & > .compare-view--head, & > .compare-view--rule { color: $text-muted; }
        & > .compare-view--differs { color: $warning; text-style: bold underline; }
        & > .compare-view--cursor { color: $primary; text-style: bold; }
        & > .compare-view--name { background: $panel; color: $text-muted; }
        & > .compare-view--chosen {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: bold;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"compare-view--{name}" for name in _STYLE_NAMES}
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("left", "choose(0)"),
        ("right", "choose(1)"),
        ("n", "difference(1)"),
        ("p", "difference(-1)"),
    ]

    cursor: reactive[int] = reactive(1)
    chosen: reactive[int] = reactive(1)
    """The side whose branch Enter switches to: 0 or 1."""

    def __init__(self, state: CompareState) -> None:
        super().__init__()
        self.state = state
        self._top = (0, 0)
        """The item and the line within it at the top of the view."""
        self._drawn: LRUCache[int, list[Strip]] = LRUCache(256)
        self._window: list[Strip] | None = None

    # -- state -------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Draw all items again after a change of the items or of the size."""
        self._drawn.clear()
        self.cursor = self.validate_cursor(self.cursor)
        self._reveal()

    def on_resize(self) -> None:
        """Update the layout for the new size."""
        self.redraw()

    def notify_style_update(self) -> None:
        """Draw all items again after a change of the styles."""
        super().notify_style_update()
        self._drawn.clear()
        self._window = None

    def validate_cursor(self, cursor: int) -> int:
        """Return the nearest valid position."""
        return max(0, min(cursor, len(self.state) - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw the old and the new item, and scroll to the cursor."""
        for item in (before, now):
            self._drawn.discard(item)
        self._reveal()

    # -- moving ------------------------------------------------------------------------------

    @property
    def _visible_line_count(self) -> int:
        """The number of lines for items, below the names."""
        return max(1, self.size.height - 1)

    def _height(self, item: int) -> int:
        return len(self._strips(item))

    def _ending_with(self, item: int) -> tuple[int, int]:
        """Return the top position at which an item ends at the bottom of the view."""
        available = self._visible_line_count
        while (height := self._height(item)) < available:
            if item == 0:
                return 0, 0
            available -= height
            item -= 1
        return item, height - available

    def _show_from(self, top: tuple[int, int]) -> None:
        """Scroll to a top position, but not past the last item."""
        self._top = max((0, 0), min(top, self._ending_with(len(self.state) - 1)))
        self._window = None
        self.refresh()

    def _reveal(self) -> None:
        """Scroll to the item under the cursor; if the item is long, scroll to its beginning."""
        if self.size.width and self.size.height:
            lowest = self._ending_with(self.cursor)
            self._show_from(min(max(self._top, lowest), (self.cursor, 0)))

    def _scroll(self, lines: int) -> None:
        item, line = self._top
        line += lines
        while line < 0 and item > 0:
            item -= 1
            line += self._height(item)
        while item < len(self.state) - 1 and line >= self._height(item):
            line -= self._height(item)
            item += 1
        self._show_from((item, max(0, line)))

    def action_move(self, step: int) -> None:
        """Go to the next (1) or previous (-1) item; scroll line by line through a long item."""
        start, end = (self.cursor, 0), self._ending_with(self.cursor)
        if (step > 0 and self._top < end) or (step < 0 and self._top > start):
            self._scroll(step)
        else:
            self.cursor += step

    def action_page(self, pages: int) -> None:
        """Move by one screen."""
        before = self._top
        self._scroll(pages * self._visible_line_count)
        if before == self._top:
            self.action_edge(pages > 0)
            return
        # The cursor goes to the first item that starts in the view, else to the one that fills it.
        item, line = top = self._top
        begins_next = line > 0 and self._height(item) - line < self._visible_line_count
        self.cursor = item + begins_next
        self._show_from(top)

    def action_edge(self, is_last: bool) -> None:
        """Go to the last item if `is_last` is true, otherwise to the first item."""
        self.cursor = len(self.state) - 1 if is_last else 0

    def action_difference(self, step: int) -> None:
        """Go to the next (1) or previous (-1) item in which the branches differ."""
        item = self.state.next_difference(self.cursor, step)
        if item is not None:
            self.cursor = item
            self._show_from((item, 0))

    def action_choose(self, side: int) -> None:
        """Select the left (0) or right (1) branch."""
        self.chosen = side

    def on_mouse_scroll_down(self) -> None:
        """Scroll down."""
        self._scroll(_WHEEL_LINES)

    def on_mouse_scroll_up(self) -> None:
        """Scroll up."""
        self._scroll(-_WHEEL_LINES)

    # -- drawing -----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line: the names, or an item."""
        if y == 0:
            return self._names()
        if self._window is None:
            item, line = self._top
            self._window = self._strips(item)[line:]
            while len(self._window) < self._visible_line_count and item < len(self.state) - 1:
                item += 1
                self._window = self._window + self._strips(item)
        if y - 1 < len(self._window):
            return self._window[y - 1]
        return Strip.blank(self.size.width, self.rich_style)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"compare-view--{name}")

    @property
    def _is_wide(self) -> bool:
        return self.size.width >= _TWO_COLUMN_WIDTH

    @property
    def _column(self) -> int:
        return (self.size.width - 4) // 2 if self._is_wide else self.size.width - 3

    def _names(self) -> Strip:
        width = (self.size.width + 1) // 2
        segments: list[Segment] = []
        for side, name in enumerate(self.state.names):
            is_chosen = side == self.chosen
            style = self._style("chosen" if is_chosen else "name")
            # The arrows are for terminals without colours.
            before, after = ("▸ ", " ◂") if is_chosen else ("  ", "  ")
            number = "" if self._is_wide else _SIDE_MARKS[side]
            columns = width - 1 - len(before + after)
            shown = truncate_to_width(f"{number}{terminal_line(name)}", columns)
            text = f"{before}{shown}{after}"
            segments += Strip([Segment(text, style)]).crop_extend(0, width, style)
        return Strip(segments).crop_extend(0, self.size.width, self._style("name"))

    def _strips(self, item: int) -> list[Strip]:
        """Return the lines of an item, followed by an empty line."""
        if item not in self._drawn:
            margin = Segment("▌" if item == self.cursor else " ", self._style("cursor"))
            lines = self._item_lines(item)
            strips = [Strip([margin, *line]) for line in lines] + [Strip([])]
            width, plain = self.size.width, self.rich_style
            self._drawn[item] = [strip.crop_extend(0, width, plain) for strip in strips]
        return self._drawn[item]

    def _item_lines(self, item: int) -> Iterator[list[Segment]]:
        if item == 0:
            yield from self._wrapped(Text(self.state.shared_text), "head", self.size.width - 1)
            return
        pair, rule = self.state.row(item), self._style("rule")
        left, right = self._side(pair.left), self._side(pair.right)
        if self._is_wide:
            yield from self._two_columns(left, right, is_same=pair.is_same)
            return
        sides = [("= ", left)] if pair.is_same else zip(_SIDE_MARKS, (left, right), strict=True)
        for mark, lines in sides:
            for line in lines:
                yield [Segment(mark, rule), *line]

    def _side(self, side: ComparedEntry | None) -> list[list[Segment]]:
        if side is None:
            return []
        text = Text(side.text)
        for start, end in side.differences:
            text.stylize(self._style("differs"), start, end)
        head = Text(truncate_to_width(side.head, self._column))
        lines = self._wrapped(text, "text", self._column) if side.text else []
        return [*self._wrapped(head, "head", self._column), *lines]

    def _wrapped(self, text: Text, style: str, width: int) -> list[list[Segment]]:
        console, plain = self.app.console, self._style(style)
        lines = text.wrap(console, max(2, width))
        return [list(Segment.apply_style(line.render(console), plain)) for line in lines]

    def _two_columns(
        self, left: list[list[Segment]], right: list[list[Segment]], *, is_same: bool
    ) -> Iterator[list[Segment]]:
        rule, plain, column = self._style("rule"), self.rich_style, self._column
        nothing: list[Segment] = []
        lines = zip_longest(left, right, fillvalue=nothing)
        for number, (left_line, right_line) in enumerate(lines):
            between = " │ " if is_same or number else " ≠ "
            padded = Strip(left_line).crop_extend(0, column, plain)
            yield [*padded, Segment(between, rule), *right_line]


@final
class CompareScreen(TitledScreen[bool | None]):
    """A comparison of two branches; the result is True if the active branch has changed."""

    DEFAULT_CSS: ClassVar[str] = "CompareScreen { background: $background; }"
    AUTO_FOCUS: ClassVar[str | None] = "CompareView"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "go"),
        ("s", "swap"),
        ("escape,q", "dismiss(None)"),
    ]

    def __init__(
        self, session: AgentSession, rows: Sequence[BranchTreeRow], left: str, right: str
    ) -> None:
        """Compare two branches by name. Raises Missing if `rows` lacks one of their entries."""
        self._session = session
        self._state = CompareState(session, rows, left, right)
        self._view = CompareView(self._state)
        super().__init__(f"Compare · {self._state.summary}", _COMPARE_KEYS)

    def compose_content(self) -> ComposeResult:
        """Yield the comparison, with the active branch selected."""
        self._view.chosen = int(self._state.names[1] == self._session.status.branch)
        yield self._view

    def action_go(self) -> None:
        """Switch to the selected branch.

        If the cursor is on item 0, show or hide the shared entries instead.
        """
        if self._view.cursor == 0:
            self._state.shows_shared = not self._state.shows_shared
            self._view.redraw()
            return
        name = self._state.names[self._view.chosen]
        if name == self._session.status.branch:
            text = "this branch is already active; press ← or → to select the other"
            self.show_message(text, is_error=True)
            return
        with self.showing_errors():
            self._session.branches.switch(name)
            self.dismiss(True)

    def action_swap(self) -> None:
        """Swap left and right; the same branch stays selected."""
        self._state.swap()
        self._view.chosen = 1 - self._view.chosen
        self._view.redraw()
