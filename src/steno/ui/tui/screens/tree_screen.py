"""The branch tree of a session: switch, fork, label, compare, and edit an earlier prompt.

An error is shown at the bottom; a failed action changes nothing. `ui.tree_state` holds the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar, final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from steno.agent import PromptInput
from steno.app.branch_tree import editable_message
from steno.app.commands.table import Suggestion
from steno.app.session import AgentSession
from steno.app.session_edit import new_branch_name
from steno.app.session_log import BranchTreeRow, TreeLine
from steno.errors import InvalidValue, Missing, StenoError
from steno.records.stored_record import unused_branch_name
from steno.render.describe import entry_facts
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.ui.tree_state import (
    LINE_STYLES,
    TreeState,
    entry_heading,
    entry_text,
    nearest_position,
)
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.widgets import CURSOR_KEYS, InputScreen, PickerScreen, TitledScreen

T = TypeVar("T")
_TREE_KEYS: Final = (
    *("Enter continue", "f fork", "e edit", "l label"),
    *("c compare", "? keys", "Esc close"),
)
_ALL_TREE_KEYS: Final = """\
↑ ↓ PgUp PgDn Home End  move     ← →  go to branch point
Enter  continue from this entry, or unfold entries
f  fork here      e  edit and resend in a new branch
l  label          b  switch to a branch by name
c  compare        a  unfold or fold all
/  search         n N  go to next or previous match
Space  toggle entry  Tab  focus it  Esc q  close  ?  less"""
_LOADING_TEXT: Final = "loading …"
_EMPTY_TEXT: Final = "this session has no entries yet"
_TWO_PANE_WIDTH: Final = 100
"""The minimal width for the tree and an entry side by side."""


@final
class TreeView(ScrollView, can_focus=True):
    """The tree, and the cursor in it."""

    DEFAULT_CSS: ClassVar[str] = """
    TreeView {
        width: 1fr; height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1;
        & > .tree-view--graph, & > .tree-view--number, & > .tree-view--kind { color: $text-muted; }
        & > .tree-view--mark { color: $success; }
        & > .tree-view--active { text-style: bold; }
        & > .tree-view--label { color: $warning; }
        & > .tree-view--branch { color: $primary; text-style: bold; }
        & > .tree-view--found { text-style: underline; }
        & > .tree-view--cursor {
            background: $block-cursor-blurred-background;
            color: $block-cursor-blurred-foreground;
            text-style: $block-cursor-blurred-text-style;
        }
        &:focus > .tree-view--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"tree-view--{name}" for name in (*LINE_STYLES, "cursor")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        ("left", "branch_point(-1)"),
        ("right", "branch_point(1)"),
    ]

    cursor: reactive[int] = reactive(0)

    class CursorMoved(Message):
        """The cursor has moved, or the line under it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Final = TreeState()

    def show(self, rows: Sequence[BranchTreeRow], active: str) -> None:
        """Show a tree. The cursor stays at its entry, or goes to the end of the active branch."""
        line = self.line
        entry = None if line is None else self.lines.rows[line.first].entry.id
        self.lines.show_rows(rows, active)
        index = self.lines.index_of(entry)
        self._lay_out_tree(self.lines.active_end if index is None else index)

    def _lay_out_tree(self, index: int) -> None:
        self.virtual_size = Size(0, len(self.lines))
        line = self.lines.line_of(index)
        if line == self.cursor:
            self._reveal()
        self.cursor = line
        self.refresh()
        self.post_message(self.CursorMoved())

    @property
    def line(self) -> TreeLine | None:
        """The line under the cursor; None if the tree is empty."""
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    @property
    def index(self) -> int:
        """The index of the row under the cursor, or of the first row of a folded run."""
        return 0 if self.line is None else self.line.first

    @property
    def row(self) -> BranchTreeRow | None:
        """The row under the cursor; None on a folded run or in an empty tree."""
        line = self.line
        return None if line is None or line.is_run else self.lines.rows[line.first]

    def toggle_all(self) -> None:
        """Unfold all rows, or fold them again."""
        index = self.index
        self.lines.toggle_all()
        self._lay_out_tree(index)

    def go_to(self, index: int) -> None:
        """Move the cursor to a row, and unfold the run that contains the row."""
        line = self.lines[self.lines.line_of(index)]
        if line.is_run:
            self.lines.unfold(line)
        self._lay_out_tree(index)

    # -- cursor ------------------------------------------------------------------------------

    def validate_cursor(self, cursor: int) -> int:
        """Return the nearest valid position."""
        return max(0, min(cursor, len(self.lines) - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw the old and the new line, and report the move."""
        self.refresh_line(before)
        self.refresh_line(now)
        self._reveal()
        self.post_message(self.CursorMoved())

    def on_resize(self) -> None:
        """Scroll to the cursor."""
        self._reveal()

    def _reveal(self) -> None:
        region = Region(0, self.cursor, 1, 1)
        self.scroll_to_region(region, animate=False, force=True, immediate=True)

    def action_move(self, lines: int) -> None:
        """Move the cursor up or down."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Move by one screen."""
        self.cursor += pages * max(1, self.size.height - 1)

    def action_edge(self, is_last: bool) -> None:
        """Go to the last line if `is_last` is true, otherwise to the first line."""
        self.cursor = len(self.lines) - 1 if is_last else 0

    def action_branch_point(self, step: int) -> None:
        """Go to the next (1) or previous (-1) row where branches diverge or end."""
        index = nearest_position(self.lines.branch_points, self.index, step)
        if index is not None:
            self.go_to(index)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line."""
        self.cursor = event.y + self.scroll_offset.y

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if number >= len(self.lines):
            return Strip.blank(width, self.rich_style)

        def style(part: str) -> Style:
            # The colours of the parts are hard to read on the background of the cursor.
            name = "cursor" if number == self.cursor else part
            return self.get_component_rich_style(f"tree-view--{name}")

        parts = self.lines.line_parts(number, width)
        strip = Strip([Segment(text, style(part)) for text, part in parts])
        return strip.crop_extend(0, width, style("summary"))


@final
class TreeScreen(TitledScreen[PromptInput | None]):
    """The tree of a session, with the entry under the cursor beside or below it.

    The result is an earlier prompt to edit, or None.
    """

    DEFAULT_CSS: ClassVar[str] = """
    TreeScreen {
        background: $background;
        #panes { height: 1fr; layout: vertical; }
        #detail { display: none; height: 50%; padding: 0 1; background: $surface; }
        &.-narrow.-toggled #detail { display: block; border-top: solid $panel; }
        &.-wide #panes { layout: horizontal; }
        &.-wide #detail {
            display: block; width: 2fr; height: 1fr; border-left: solid $panel;
        }
        &.-wide TreeView { width: 3fr; }
        &.-wide.-toggled #detail { display: none; }
        #detail:focus { background: $panel; }
    }
    """
    AUTO_FOCUS: ClassVar[str | None] = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "go"),
        ("f", "fork"),
        ("e", "edit"),
        ("l", "label"),
        ("b", "branch"),
        ("c", "compare"),
        ("a", "all"),
        ("slash", "search"),
        ("n", "next_match(1)"),
        ("N", "next_match(-1)"),
        ("space", "detail"),
        ("tab", "other_pane"),
        ("question_mark", "keys"),
        ("escape,q", "close"),
    ]

    def __init__(self, session: AgentSession) -> None:
        super().__init__(keys=_TREE_KEYS)
        self.HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [
            (0, "-narrow"),
            (_TWO_PANE_WIDTH, "-wide"),
        ]
        self._session = session
        self._view = TreeView()
        self._entry = Static()
        self._detail = VerticalScroll(self._entry, id="detail")
        self._shows_keys = False
        self._empty_text = _LOADING_TEXT

    def compose_content(self) -> ComposeResult:
        """Yield the tree, and the pane that shows an entry."""
        yield Container(self._view, self._detail, id="panes")

    def on_mount(self) -> None:
        """Show the tree."""
        self.reload()

    def reload(self) -> None:
        """Read and show the tree again; the cursor stays at its entry."""
        if self._view.line is None:
            self.show_message(self._empty_text)
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        """Read the tree and show it."""
        with self.showing_errors():
            rows = await self._session.branches.rows()
            status, names = self._session.status, self._session.branches.names()
            self._empty_text = _EMPTY_TEXT
            self.show_message("" if rows else _EMPTY_TEXT)
            self._view.show(rows, status.branch)
            entries = format_count(len(rows), "entry", "entries")
            branches = format_count(len(names), "branch", "branches")
            title = terminal_line(status.title) or "this session"
            self.title_bar.text = f"Tree of {title} · {entries} · {branches}"

    def on_tree_view_cursor_moved(self) -> None:
        """Show the entry under the cursor from its start."""
        row = self._view.row
        if row is None:
            folded = "" if self._view.line is None else "Enter unfold these entries"
            content = Content(folded)
        else:
            facts = "".join(
                [f"{fact}\n" for fact in entry_facts(row.entry, row.labels, row.branches)]
            )
            heading = (entry_heading(row), "bold")
            content = Content.assemble(heading, "\n", (facts, "$text-muted"), "\n", entry_text(row))
        self._entry.update(content)
        self._detail.scroll_home(animate=False)

    # -- dialogs --------------------------------------------------------------------------

    def _row_at_cursor(self) -> BranchTreeRow | None:
        """Return the row under the cursor; if there is none, show a message and return None."""
        row, line = self._view.row, self._view.line
        missing = self._empty_text if line is None else "folded; press Enter to unfold"
        self.show_message(missing if row is None else "")
        return row

    def _push(self, screen: Screen[T | None], on_result: Callable[[T], object]) -> None:
        """Show a screen, and call a function with its result unless the user cancels it."""

        def done(result: T | None) -> None:
            if result:
                on_result(result)

        self.app.push_screen(screen, done)

    def _choose(
        self, question: str, names: Sequence[str], on_choice: Callable[[str], None]
    ) -> None:
        """Call a function with the branch that the user picks, or with the only branch."""
        if len(names) == 1:
            on_choice(names[0])
        else:
            branch = self._session.status.branch
            self._push(PickerScreen(question, [*map(Suggestion, names)], branch), on_choice)

    # -- navigation --------------------------------------------------------------------------

    def action_go(self) -> None:
        """Unfold a run, or continue from the row under the cursor.

        If a branch ends at the row, switch to that branch; otherwise start a new branch.
        """
        if self._view.line is not None and self._view.line.is_run:
            self._view.go_to(self._view.line.first)
        elif row := self._row_at_cursor():
            if row.branches:
                self._choose("Switch to branch", row.branches, self._switch)
            else:
                self.action_fork()

    def _switch(self, name: str) -> None:
        with self.showing_errors():
            if name != self._session.status.branch:
                self._session.branches.switch(name)
            self.dismiss(None)

    def action_branch(self) -> None:
        """Switch to a branch by name."""
        self._choose("Switch to branch", self._session.branches.names(), self._switch)

    def action_fork(self) -> None:
        """Start a branch after the entry under the cursor."""
        if row := self._row_at_cursor():
            entry_id, session = row.entry.id, self._session
            screen = InputScreen(
                f"Name of the new branch after #{row.number}",
                lambda typed: session.branches.fork(_parse_name(typed, "branch"), at=entry_id),
                default=new_branch_name("", session.branches.names()),
            )
            self._push(screen, lambda _: self.dismiss(None))

    def action_edit(self) -> None:
        """Edit a prompt in a new branch that starts before it."""
        if row := self._row_at_cursor():
            entry_id, session = row.entry.id, self._session
            try:
                editable_message(row.entry)
            except StenoError as exc:
                self.show_message(f"{exc}; press f to fork here")
                return
            screen = InputScreen(
                f"Name of the new branch to edit #{row.number} in",
                lambda typed: session.branches.fork_before(entry_id, _parse_name(typed, "branch")),
                default=unused_branch_name("edit", session.branches.names()),
            )
            self._push(screen, self.dismiss)

    # -- labels and search -------------------------------------------------------------------

    def action_label(self) -> None:
        """Label the entry under the cursor."""
        if row := self._row_at_cursor():
            entry_id = row.entry.id

            def label(typed: str) -> bool:
                self._session.branches.label(entry_id, _parse_name(typed, "label"))
                return True

            self._push(InputScreen(f"Label of #{row.number}", label), lambda _: self.reload())

    def action_search(self) -> None:
        """Ask for a text, and move to its next match."""
        self.show_message("")
        search_text = self._view.lines.search_text
        self.app.push_screen(InputScreen("Search for", self._find, default=search_text))

    def action_next_match(self, step: int) -> None:
        """Move to the next (1) or previous (-1) match; ask for a text if there is no search."""
        if not self._view.lines.search_text:
            self.action_search()
            return
        try:
            self._find(self._view.lines.search_text, step)
        except StenoError as exc:
            self.show_message(str(exc))

    def _find(self, typed: str, step: int = 1) -> bool:
        """Move to the next (1) or previous (-1) match. Raises Missing if no entry matches."""
        view, text = self._view, terminal_line(typed)
        index = view.lines.find(text, start=view.index, step=step) if text else None
        if index is None:
            raise Missing(
                "no entry contains this text; try another, or press Esc",
                code="no_match",
                place="search",
            )
        view.lines.search_text = text
        view.go_to(index)
        return True

    # -- view --------------------------------------------------------------------------------

    def action_all(self) -> None:
        """Unfold all entries, or fold them again."""
        self._view.toggle_all()

    def action_detail(self) -> None:
        """Show or hide the entry under the cursor."""
        self.toggle_class("-toggled")
        self._view.focus()

    def action_other_pane(self) -> None:
        """Move the focus from the tree to the entry, and back."""
        is_in_tree = self.focused is self._view and self._detail.display
        (self._detail if is_in_tree else self._view).focus()

    def action_keys(self) -> None:
        """Switch between all keys and the most important keys."""
        self._shows_keys = not self._shows_keys
        self.key_hints.parts = (_ALL_TREE_KEYS,) if self._shows_keys else _TREE_KEYS

    # -- comparison --------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Compare two branches.

        If the session has more than two branches, the first use of the key marks a branch, and
        the second use compares another branch with it.
        """
        names = self._session.branches.names()
        if len(names) == 1:
            self.show_message("this session has only one branch; press f to fork another")
        elif len(names) == 2:
            self._compare(names[0], names[1])
        elif self._row_at_cursor() is not None:
            through = self._view.lines.branches_through(self._view.index)
            self._choose("Compare branch", through or names, self._mark_for_compare)

    def _mark_for_compare(self, name: str) -> None:
        """Mark a branch, or compare it with the marked branch.

        In the second case, the mark is removed. A branch is not compared with itself.
        """
        state = self._view.lines
        other, state.marked_branch = state.marked_branch, ""
        self._view.refresh()
        if not other:
            state.marked_branch = name
            self.show_message(
                f"compare {name}: press c on another branch, or c here again to cancel"
            )
        elif other == name:
            self.show_message("")
        else:
            self._compare(other, name)

    def _compare(self, left: str, right: str) -> None:
        with self.showing_errors():
            screen = CompareScreen(self._session, self._view.lines.rows, left, right)
            self.show_message("")
            self._push(screen, lambda _: self.dismiss(None))

    def action_close(self) -> None:
        """Close the screen; if all keys are shown, hide them instead."""
        if self._shows_keys:
            self.action_keys()
        else:
            self.dismiss(None)


def _parse_name(typed: str, kind: str) -> str:
    name = terminal_line(typed)
    if not name:
        raise InvalidValue(
            "the name is blank; type one, or press Esc", code="blank_name", place=kind
        )
    return name
