"""The branch tree of a session: switch, fork, label, compare, and edit an earlier message.

A refusal is shown at the bottom, and has changed nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import ClassVar, Final, final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from steno.agent import PromptInput
from steno.app.session import AgentSession
from steno.app.session_events import BranchTreeRow, Suggestion
from steno.errors import Conflict, InvalidValue, Missing, StenoError
from steno.log.queries import check_label_text
from steno.messages.message import UserMessage
from steno.records.stored_record import unused_branch_name
from steno.render.quantities import format_count
from steno.render.terminal_text import display_width, terminal_line, truncate_to_width
from steno.ui.tree_state import TreeLine, TreeLines, entry_facts, entry_heading, entry_text
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.dialogs import InputScreen, PickerScreen
from steno.ui.tui.screens.widgets import CURSOR_KEYS, ApprovalBanner, KeyHints, MessageBar, Title

_LINE_PARTS: Final = (
    "graph",
    "mark",
    "number",
    "kind",
    "active",
    "label",
    "branch",
    "summary",
    "found",
)
"""The parts of a line; each has a style."""
_TREE_KEYS: Final = (
    "Enter go",
    "f fork",
    "e edit",
    "l label",
    "c compare",
    "? keys",
    "Esc close",
)
_ALL_TREE_KEYS: Final = """\
↑ ↓ PgUp PgDn Home End  move     ← →  where branches part
Enter  go on from here, or show what is folded
f  fork here      e  say it otherwise, in a new branch
l  label          b  go over to a branch by its name
c  compare        a  show all, or fold again
/  search, n N next and previous
Space  the entry, Tab into it    Esc q  close    ?  less"""
_LOADING_TEXT: Final = "loading ..."
_EMPTY_TEXT: Final = "nothing is on record yet"
_TWO_PANE_WIDTH: Final = 100
"""The width from which the tree and an entry are drawn side by side."""


@final
class TreeView(ScrollView, can_focus=True):
    """The tree, and the cursor in it."""

    DEFAULT_CSS: ClassVar[str] = """
    TreeView {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .tree-view--graph, & > .tree-view--number, & > .tree-view--kind {
            color: $text-muted;
        }
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
        f"tree-view--{name}" for name in (*_LINE_PARTS, "cursor")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_KEYS,
        Binding("left", "branch_point(-1)", "where branches part before", show=False),
        Binding("right", "branch_point(1)", "where branches part next", show=False),
    ]

    cursor: reactive[int] = reactive(0)
    """The number of the line under the cursor."""

    class CursorMoved(Message):
        """The cursor has moved, or the line under it has changed."""

    def __init__(self) -> None:
        """Start empty; `show` sets the rows."""
        super().__init__()
        self.lines: TreeLines = TreeLines(())
        self.search_text = ""
        """The last search."""
        self.marked_branch: str = ""
        """The branch that another is to be compared with."""
        self._active_branch = ""

    # -- content --------------------------------------------------------------------------

    def show(self, rows: Sequence[BranchTreeRow], active: str, *, entry: str | None = None) -> None:
        """Show a tree, with the cursor at an entry, else at the end of the active branch."""
        self._active_branch = active
        self.lines = TreeLines(rows, self.lines.unfolded, shows_all=self.lines.shows_all)
        index = None if entry is None else self.lines.index_of(entry)
        self._lay_out_tree(self._end_of(active) if index is None else index)

    def _end_of(self, branch: str) -> int:
        rows, branch_points = self.lines.rows, self.lines.branch_points
        return next(
            (index for index in branch_points if branch in rows[index].branches), len(rows) - 1
        )

    def _lay_out_tree(self, index: int) -> None:
        """Draw everything again, with the cursor at a row."""
        self.virtual_size = Size(0, len(self.lines))
        line = self.lines.line_of(index)
        if line == self.cursor:
            self._reveal()
        self.cursor = line
        self.refresh()
        self.post_message(self.CursorMoved())

    @property
    def line(self) -> TreeLine | None:
        """The line under the cursor; None if there is none."""
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    @property
    def row(self) -> BranchTreeRow | None:
        """The row under the cursor; None on a folded run."""
        line = self.line
        return None if line is None or line.is_run else self.lines.rows[line.first]

    @property
    def entry(self) -> str | None:
        """The entry that the cursor is at; of a folded run, the first one."""
        return None if self.line is None else self.lines.rows[self.line.first].entry.id

    def unfold(self) -> None:
        """Unfold the run under the cursor."""
        line = self.line
        if line is not None and line.is_run:
            self.lines.unfold(line)
            self._lay_out_tree(line.first)

    def toggle_all(self) -> None:
        """Give every row a line, or fold them again."""
        index = 0 if self.line is None else self.line.first
        self.lines = TreeLines(self.lines.rows, shows_all=not self.lines.shows_all)
        self._lay_out_tree(index)

    def go_to(self, index: int) -> None:
        """Move the cursor to a row, and unfold it."""
        line = self.lines[self.lines.line_of(index)]
        if line.is_run:
            self.lines.unfold(line)
        self._lay_out_tree(index)

    # -- cursor ------------------------------------------------------------------------------

    def validate_cursor(self, cursor: int) -> int:
        """Stay inside the tree."""
        return max(0, min(cursor, len(self.lines) - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw the old and the new line, and report the move."""
        self.refresh_line(before)
        self.refresh_line(now)
        self._reveal()
        self.post_message(self.CursorMoved())

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._reveal()

    def _reveal(self) -> None:
        self.scroll_to_region(
            Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True
        )

    def action_move(self, lines: int) -> None:
        """Go up or down."""
        self.cursor += lines

    def action_page(self, pages: int) -> None:
        """Move by one screen."""
        self.cursor += pages * max(1, self.size.height - 1)

    def action_edge(self, is_last: bool) -> None:
        """Go to the first line, or to the last."""
        self.cursor = len(self.lines) - 1 if is_last else 0

    def action_branch_point(self, step: int) -> None:
        """Go to where branches part or end, the next one or the one before."""
        if self.line is not None:
            current, branch_points = self.line.first, self.lines.branch_points
            nearest = (
                bisect_right(branch_points, current)
                if step > 0
                else bisect_left(branch_points, current) - 1
            )
            if 0 <= nearest < len(branch_points):
                self.go_to(branch_points[nearest])

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line."""
        self.cursor = event.y + self.scroll_offset.y

    # -- lines -------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if number >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        is_cursor = number == self.cursor
        line = self.lines[number]
        parts = list(self._line_parts(line, width))
        if not line.is_run:
            parts += self._summary_parts(
                line.first, width - sum([display_width(text) for text, _ in parts])
            )
        segments = [Segment(text, self._style(part, is_cursor=is_cursor)) for text, part in parts]
        return Strip(segments).crop_extend(0, width, self._style("summary", is_cursor=is_cursor))

    def _style(self, part: str, *, is_cursor: bool) -> Style:
        # Colours that are made for the background would be hard to read on the cursor.
        return self.get_component_rich_style(f"tree-view--{'cursor' if is_cursor else part}")

    def _line_parts(self, line: TreeLine, width: int) -> Iterator[tuple[str, str]]:
        row = self.lines.rows[line.first]
        yield (
            _draw_graph(row.graph_prefix, self.lines.starts_side_branch(line.first), width // 3),
            "graph",
        )
        if line.is_run:
            yield f"⋮ … {line.length:,} entries", "graph"
            return
        yield ("● " if row.is_active else "○ "), "mark" if row.is_active else "graph"
        yield f"#{row.number} ", "number"
        yield terminal_line(row.kind), "active" if row.is_active else "kind"
        for label in row.labels:
            yield f" [{terminal_line(label)}]", "label"
        for name in row.branches:
            active_mark = " (active)" if name == self._active_branch else ""
            compare_mark = " (compare)" if name == self.marked_branch else ""
            yield f" ← {terminal_line(name)}{active_mark}{compare_mark}", "branch"

    def _summary_parts(self, index: int, columns: int) -> Iterator[tuple[str, str]]:
        if columns > 0:
            row = self.lines.rows[index]
            # Text that does not fit need not be sanitized either.
            summary = truncate_to_width(f"  {terminal_line(row.summary[: 4 * columns])}", columns)
            yield from _split_matches(
                summary, self.search_text, "active" if row.is_active else "summary"
            )


def _draw_graph(graph_prefix: str, starts_branch: bool, max_width: int) -> str:
    """Return the graph of a row; only its end if it is too wide."""
    drawn = graph_prefix.replace("|", "│")
    if starts_branch:
        drawn = f"{drawn[:-2]}├─"
    return drawn if len(drawn) <= max_width else f"…{drawn[1 - max_width :]}"


def _split_matches(text: str, search_text: str, part: str) -> Iterator[tuple[str, str]]:
    """Yield the text in parts: matches and the text between them."""
    text_parts = (
        re.split(f"({re.escape(search_text)})", text, flags=re.IGNORECASE)
        if search_text
        else [text]
    )
    for number, text_part in enumerate(text_parts):
        yield text_part, "found" if number % 2 else part


@final
class TreeScreen(ModalScreen[PromptInput | None]):
    """The tree of a session, and the entry under the cursor beside it or below.

    The result is an earlier prompt to edit, if the user has chosen one.
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
        Binding("enter", "go", "go on from here", show=False),
        Binding("f", "fork", "fork", show=False),
        Binding("e", "edit", "edit", show=False),
        Binding("l", "label", "label", show=False),
        Binding("b", "branch", "branch", show=False),
        Binding("c", "compare", "compare", show=False),
        Binding("a", "all", "show all", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("n", "next_match(1)", "next", show=False),
        Binding("N", "next_match(-1)", "previous", show=False),
        Binding("space", "detail", "the entry", show=False),
        Binding("tab", "other_pane", "into the entry", show=False),
        Binding("question_mark", "keys", "keys", show=False),
        Binding("escape,q", "close", "close", show=False),
    ]

    def __init__(self, session: AgentSession) -> None:
        """Take the session."""
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [
            (0, "-narrow"),
            (_TWO_PANE_WIDTH, "-wide"),
        ]
        self._session = session
        self._shows_keys = False
        self._empty_text = _LOADING_TEXT
        """The text for a session without entries."""

    def compose(self) -> ComposeResult:
        """Stack a title, the tree with an entry, and the messages."""
        yield Title()
        with Container(id="panes"):
            yield TreeView()
            with VerticalScroll(id="detail"):
                yield Static(id="entry")
        yield MessageBar()
        yield ApprovalBanner()
        yield KeyHints(_TREE_KEYS)

    def on_mount(self) -> None:
        """Show the tree."""
        self.reload()

    @property
    def _view(self) -> TreeView:
        return self.query_one(TreeView)

    def reload(self) -> None:
        """Show the tree as it is now; the cursor stays where it is, if it was somewhere."""
        if self._view.line is None:
            self._show_message(self._empty_text)
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        """Read the tree, which takes a while where it is long, and show it."""
        try:
            rows = await self._session.branches.rows()
        except StenoError as exc:
            self._show_message(str(exc), is_error=True)
            return
        status, names = self._session.status, self._session.branches.names()
        self._empty_text = _EMPTY_TEXT
        self._show_message("" if rows else _EMPTY_TEXT)
        self._view.show(rows, status.branch, entry=self._view.entry)
        entries = format_count(len(rows), "entry", "entries")
        branches = format_count(len(names), "branch", "branches")
        title = f"Tree of {terminal_line(status.title) or 'this session'} · {entries} · {branches}"
        self.query_one(Title).update(title)

    def on_tree_view_cursor_moved(self) -> None:
        """Show the entry that the cursor is at."""
        row = self._view.row
        folded = Content("" if self._view.line is None else "Enter shows what is folded here")
        self.query_one("#entry", Static).update(folded if row is None else _describe_row(row))
        self.query_one("#detail").scroll_home(animate=False)

    # -- messages -------------------------------------------------------------------------

    def _show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show a message at the bottom."""
        self.query_one(MessageBar).show_message(text, is_error=is_error)

    def _row_at_cursor(self) -> BranchTreeRow | None:
        """Return the row under the cursor; show a message if there is none."""
        row = self._view.row
        if row is None:
            line = self._view.line
            self._show_message(
                self._empty_text if line is None else "several: Enter shows them first"
            )
        else:
            self._show_message("")
        return row

    # -- navigation --------------------------------------------------------------------------

    def action_go(self) -> None:
        """Continue from the row under the cursor: in its branch, or in a new one."""
        line = self._view.line
        if line is not None and line.is_run:
            self._view.unfold()
            return
        row = self._row_at_cursor()
        if row is None:
            return
        if row.branches:
            self._choose("Go over to", row.branches, self._switch)
        else:
            self.action_fork()

    def _switch(self, name: str) -> None:
        if name == self._session.status.branch:
            self.dismiss(None)
            return
        try:
            self._session.branches.switch(name)
        except StenoError as exc:
            self._show_message(str(exc), is_error=True)
        else:
            self.dismiss(None)

    def action_branch(self) -> None:
        """Switch to a branch by name."""
        self._choose("Go over to", self._session.branches.names(), self._switch)

    def _choose(
        self, question: str, names: Sequence[str], on_choice: Callable[[str], None]
    ) -> None:
        """Call a function with one of several branches; with a single one, without a question."""
        if len(names) == 1:
            on_choice(names[0])
            return

        def done(name: str | None) -> None:
            if name is not None:
                on_choice(name)

        candidates = [Suggestion(name) for name in names]
        self.app.push_screen(PickerScreen(question, candidates, self._session.status.branch), done)

    def action_fork(self) -> None:
        """Start a branch after the entry under the cursor."""
        row = self._row_at_cursor()
        if row is None:
            return
        entry_id, names = row.entry.id, self._session.branches.names()

        def fork(typed: str) -> bool:
            self._session.branches.fork(_parse_branch_name(typed, names), at=entry_id)
            return True

        def done(is_forked: bool | None) -> None:
            if is_forked:
                self.dismiss(None)

        question = f"A branch from #{row.number} on, called"
        default = unused_branch_name("fork", names)
        self.app.push_screen(InputScreen(question, fork, default=default), done)

    def action_edit(self) -> None:
        """Edit a user message in a new branch before it."""
        row = self._row_at_cursor()
        if row is None:
            return
        if not isinstance(row.entry.payload, UserMessage):
            self._show_message("only what you said can be said otherwise; f forks here")
            return
        entry, names = row.entry.id, self._session.branches.names()

        def fork(typed: str) -> PromptInput:
            return self._session.branches.fork_before(entry, _parse_branch_name(typed, names))

        def done(prompt: PromptInput | None) -> None:
            if prompt is not None:
                self.dismiss(prompt)

        question = f"Say #{row.number} otherwise, in a branch called"
        default = unused_branch_name("edit", names)
        self.app.push_screen(InputScreen(question, fork, default=default), done)

    # -- labels and search -------------------------------------------------------------------

    def action_label(self) -> None:
        """Label the entry under the cursor."""
        row = self._row_at_cursor()
        if row is None:
            return
        entry = row.entry.id

        def label(typed: str) -> bool:
            self._session.branches.label(entry, _parse_label(typed))
            return True

        def done(is_done: bool | None) -> None:
            if is_done:
                self.reload()

        self.app.push_screen(InputScreen(f"What to call #{row.number}", label), done)

    def action_search(self) -> None:
        """Ask for a text, and move to its next match."""

        def search(typed: str) -> bool:
            self._find(terminal_line(typed), 1)
            return True

        self._show_message("")
        self.app.push_screen(InputScreen("Search for", search, default=self._view.search_text))

    def action_next_match(self, step: int) -> None:
        """Move to the next match, or to the one before."""
        if not self._view.search_text:
            self.action_search()
            return
        try:
            self._find(self._view.search_text, step)
        except StenoError as exc:
            self._show_message(str(exc))

    def _find(self, search_text: str, step: int) -> None:
        view, line = self._view, self._view.line
        current = 0 if line is None else line.first
        index = view.lines.find(search_text, start=current, step=step) if search_text else None
        if index is None:
            raise Missing(
                "no entry says that; try other words, or press Esc", code="no_match", place="search"
            )
        view.search_text = search_text
        view.go_to(index)

    # -- view --------------------------------------------------------------------------------

    def action_all(self) -> None:
        """Show every entry, or fold them again."""
        self._view.toggle_all()

    def action_detail(self) -> None:
        """Show or hide the entry under the cursor."""
        self.toggle_class("-toggled")
        self._view.focus()

    def action_other_pane(self) -> None:
        """Go from the tree to the entry beside it, and back."""
        detail = self.query_one("#detail")
        other = detail if self.focused is self._view and detail.display else self._view
        other.focus()

    def action_keys(self) -> None:
        """Show all keys, or those that matter most."""
        self._shows_keys = not self._shows_keys
        self.query_one(KeyHints).update((_ALL_TREE_KEYS,) if self._shows_keys else _TREE_KEYS)

    # -- comparison --------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Compare the only two branches, or this one with another that is chosen next."""
        names = self._session.branches.names()
        if len(names) == 1:
            self._show_message("there is only one branch; f begins another")
        elif len(names) == 2:
            self._compare(names[0], names[1])
        elif (row := self._row_at_cursor()) is not None:
            index = self._view.lines.index_of(row.entry.id)
            through = [] if index is None else self._view.lines.branches_through(index)
            self._choose("Compare", through or names, self._mark_for_compare)

    def _mark_for_compare(self, name: str) -> None:
        """Remember a branch, or compare it with the one that was remembered."""
        view = self._view
        other, view.marked_branch = view.marked_branch, ""
        view.refresh()
        if not other:
            view.marked_branch = name
            self._show_message(
                f"{name} is to be compared: c on another branch, c here again for none"
            )
        elif other == name:
            self._show_message("")
        else:
            self._compare(other, name)

    def _compare(self, left: str, right: str) -> None:
        def done(has_moved: bool | None) -> None:
            if has_moved:
                self.dismiss(None)

        try:
            screen = CompareScreen(self._session, self._view.lines.rows, left, right)
        except StenoError as exc:
            self._show_message(str(exc), is_error=True)
        else:
            self._show_message("")
            self.app.push_screen(screen, done)

    def action_close(self) -> None:
        """Close the screen; if all keys are shown, hide them instead."""
        if self._shows_keys:
            self.action_keys()
        else:
            self.dismiss(None)


def _describe_row(row: BranchTreeRow) -> Content:
    """Return everything about an entry, from top to bottom."""
    facts = "".join([f"{fact}\n" for fact in entry_facts(row)])
    return Content.assemble(
        (entry_heading(row), "bold"), "\n", (facts, "$text-muted"), "\n", entry_text(row)
    )


def _parse_branch_name(typed: str, taken: Collection[str]) -> str:
    """Return the name of a new branch. Raises InvalidValue, Conflict."""
    name = _parse_name(typed, "branch")
    if name in taken:
        raise Conflict(
            "there is one of this name; choose another", code="branch_exists", place="branch"
        )
    return name


def _parse_label(typed: str) -> str:
    """Return a label. Raises InvalidValue."""
    text = _parse_name(typed, "label")
    check_label_text(text)
    return text


def _parse_name(typed: str, kind: str) -> str:
    name = terminal_line(typed)
    if not name:
        raise InvalidValue("it is blank; type a name, or press Esc", code="blank_name", place=kind)
    return name
