"""`/tree`: where branches part, and everything that can be done about it.

Move, fork, label, compare, edit an earlier message. What is refused is said at the bottom, and
nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple, final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from steno.errors import Missing, StenoError
from steno.message import UserMessage
from steno.printable import counted, on_one_line
from steno.record import free_name
from steno.tui.desk import Candidate, Desk, Twig, Words
from steno.tui.screens.asking import LineScreen, branch_name, label_text
from steno.tui.screens.compare import CompareScreen
from steno.tui.screens.entry_words import facts_of, head_of, words_of
from steno.tui.screens.furniture import Foot, Remark, Title
from steno.tui.screens.picking import PickScreen
from steno.tui.screens.tree_view import TreeView
from steno.tui.screens.waiting import Waiting

_KEYS: Final = "Enter go · f fork · e edit · l label · c compare · ? keys · Esc close"
_ALL_KEYS: Final = """\
↑ ↓ PgUp PgDn Home End  move     ← →  where branches part
Enter  go on from here, or show what is folded
f  fork here      e  say it otherwise, in a new branch
l  label          b  go over to a branch by its name
c  compare        a  show all, or fold again
/  search, n N next and previous
Space  the entry, Tab into it    Esc q  close    ?  less"""
_LOADING: Final = "loading ..."
_NOTHING: Final = "nothing is on record yet"
_SIDE_BY_SIDE: Final = 100
"""How wide a terminal has to be for the tree and an entry beside each other."""


class TreeResult(NamedTuple):
    """What came of looking at the tree."""

    prompt: Words | None = None
    """What was said before, to be said otherwise now."""
    has_moved: bool = False
    """Whether another branch is the active one now."""


@final
class TreeScreen(ModalScreen[TreeResult]):
    """The tree of a session, and the entry under the cursor beside it or below."""

    DEFAULT_CSS = """
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
    AUTO_FOCUS = "TreeView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "go on from here", show=False),
        Binding("f", "fork", "fork", show=False),
        Binding("e", "edit", "edit", show=False),
        Binding("l", "label", "label", show=False),
        Binding("b", "branch", "branch", show=False),
        Binding("c", "compare", "compare", show=False),
        Binding("a", "all", "show all", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("n", "again(1)", "next", show=False),
        Binding("N", "again(-1)", "previous", show=False),
        Binding("space", "detail", "the entry", show=False),
        Binding("tab", "other_pane", "into the entry", show=False),
        Binding("question_mark", "keys", "keys", show=False),
        Binding("escape,q", "close", "close", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        """Take the desk whose tree is shown."""
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_SIDE_BY_SIDE, "-wide")]
        self._session = desk
        self._shows_keys = False
        self._empty_text = _LOADING
        """What is said where there is no entry."""

    def compose(self) -> ComposeResult:
        """Put the tree and an entry between a title and what there is to be told."""
        yield Title()
        with Container(id="panes"):
            yield TreeView()
            with VerticalScroll(id="detail"):
                yield Static(id="entry")
        yield Remark()
        yield Waiting()
        yield Foot(_KEYS)

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
            twigs = await self._session.branches.rows()
        except StenoError as exc:
            self._show_message(str(exc), is_trouble=True)
            return
        standing, names = self._session.status, self._session.branches.names()
        self._empty_text = _NOTHING
        self._show_message("" if twigs else _NOTHING)
        self._view.show(twigs, standing.branch, entry=self._view.entry)
        how_many = counted(len(twigs), "entry", "entries")
        branches = counted(len(names), "branch", "branches")
        title = f"Tree of {on_one_line(standing.title) or 'this session'} · {how_many} · {branches}"
        self.query_one(Title).update(title)

    def on_tree_view_cursor_moved(self) -> None:
        """Show the entry that the cursor is at."""
        twig = self._view.row
        folded = Content("" if self._view.line is None else "Enter shows what is folded here")
        self.query_one("#entry", Static).update(folded if twig is None else _described(twig))
        self.query_one("#detail").scroll_home(animate=False)

    # -- telling -----------------------------------------------------------------------------

    def _show_message(self, text: str, *, is_trouble: bool = False) -> None:
        """Say something at the bottom; nothing takes back what was said."""
        self.query_one(Remark).show_message(text, is_trouble=is_trouble)

    def _row_at_cursor(self) -> Twig | None:
        """Return the twig that a key is about; say so where there is none."""
        twig = self._view.row
        if twig is None:
            line = self._view.line
            self._show_message(self._empty_text if line is None else "several: Enter shows them first")
        else:
            self._show_message("")
        return twig

    # -- going elsewhere ---------------------------------------------------------------------

    def action_go(self) -> None:
        """Go on from what is under the cursor: in its branch, or in a new one."""
        line = self._view.line
        if line is not None and line.is_run:
            self._view.unfold()
            return
        twig = self._row_at_cursor()
        if twig is None:
            return
        if twig.branches:
            self._choose("Go over to", twig.branches, self._switch)
        else:
            self.action_fork()

    def _switch(self, name: str) -> None:
        if name == self._session.status.branch:
            self.dismiss(TreeResult())
            return
        try:
            self._session.branches.switch(name)
        except StenoError as exc:
            self._show_message(str(exc), is_trouble=True)
        else:
            self.dismiss(TreeResult(has_moved=True))

    def action_branch(self) -> None:
        """Go over to a branch by its name."""
        self._choose("Go over to", self._session.branches.names(), self._switch)

    def _choose(self, question: str, names: Sequence[str], then: Callable[[str], None]) -> None:
        """Do something with one of several branches; nobody is asked where there is but one."""
        if len(names) == 1:
            then(names[0])
            return

        def done(name: str | None) -> None:
            if name is not None:
                then(name)

        candidates = [Candidate(name) for name in names]
        self.app.push_screen(PickScreen(question, candidates, self._session.status.branch), done)

    def action_fork(self) -> None:
        """Begin a branch behind the entry under the cursor."""
        twig = self._row_at_cursor()
        if twig is None:
            return
        at, names = twig.entry.id, self._session.branches.names()

        def fork(typed: str) -> TreeResult:
            self._session.branches.fork(branch_name(typed, names), at=at)
            return TreeResult(has_moved=True)

        question = f"A branch from #{twig.number} on, called"
        self._ask_branch_name(LineScreen(question, fork, default=free_name("fork", names)))

    def action_edit(self) -> None:
        """Say a message of the person otherwise, in a new branch that begins before it."""
        twig = self._row_at_cursor()
        if twig is None:
            return
        if not isinstance(twig.entry.payload, UserMessage):
            self._show_message("only what you said can be said otherwise; f forks here")
            return
        entry, names = twig.entry.id, self._session.branches.names()

        def fork(typed: str) -> TreeResult:
            words = self._session.branches.fork_before(entry, branch_name(typed, names))
            return TreeResult(words, has_moved=True)

        question = f"Say #{twig.number} otherwise, in a branch called"
        self._ask_branch_name(LineScreen(question, fork, default=free_name("edit", names)))

    def _ask_branch_name(self, screen: LineScreen[TreeResult]) -> None:
        """Ask for the name of a branch, and go there."""

        def done(result: TreeResult | None) -> None:
            if result is not None:
                self.dismiss(result)

        self.app.push_screen(screen, done)

    # -- looking -----------------------------------------------------------------------------

    def action_label(self) -> None:
        """Give the entry under the cursor a name."""
        twig = self._row_at_cursor()
        if twig is None:
            return
        entry = twig.entry.id

        def label(typed: str) -> bool:
            self._session.branches.label(entry, label_text(typed))
            return True

        def done(is_done: bool | None) -> None:
            if is_done:
                self.reload()

        self.app.push_screen(LineScreen(f"What to call #{twig.number}", label), done)

    def action_search(self) -> None:
        """Ask for words, and go to where they stand."""

        def search(typed: str) -> bool:
            self._find(on_one_line(typed), 1)
            return True

        self._show_message("")
        self.app.push_screen(LineScreen("Search for", search, default=self._view.search_words))

    def action_again(self, step: int) -> None:
        """Go to where the words stand next, or stood before."""
        if not self._view.search_words:
            self.action_search()
            return
        try:
            self._find(self._view.search_words, step)
        except StenoError as exc:
            self._show_message(str(exc))

    def _find(self, words: str, step: int) -> None:
        view, line = self._view, self._view.line
        here = 0 if line is None else line.first
        place = view.lines.find(words, beside=here, step=step) if words else None
        if place is None:
            raise Missing("search: no entry says that; try other words, or press Esc")
        view.search_words = words
        view.go_to(place)

    def action_all(self) -> None:
        """Show every entry, or fold again what can be."""
        self._view.fold_or_show_all()

    def action_detail(self) -> None:
        """Show the entry under the cursor, or leave the room to the tree."""
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
        self.query_one(Foot).update(_ALL_KEYS if self._shows_keys else _KEYS)

    # -- comparing ---------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Compare the only two branches, or this one with another that is chosen next."""
        names = self._session.branches.names()
        if len(names) == 1:
            self._show_message("there is only one branch; f begins another")
        elif len(names) == 2:
            self._compare(names[0], names[1])
        elif (twig := self._row_at_cursor()) is not None:
            place = self._view.lines.index_of(twig.entry.id)
            through = [] if place is None else self._view.lines.branches_through(place)
            self._choose("Compare", through or names, self._mark_for_compare)

    def _mark_for_compare(self, name: str) -> None:
        """Remember a branch, or compare it with the one that was remembered."""
        view = self._view
        other, view.marked_branch = view.marked_branch, ""
        view.refresh()
        if not other:
            view.marked_branch = name
            self._show_message(f"{name} is to be compared: c on another branch, c here again for none")
        elif other == name:
            self._show_message("")
        else:
            self._compare(other, name)

    def _compare(self, left: str, right: str) -> None:
        def done(has_moved: bool | None) -> None:
            if has_moved:
                self.dismiss(TreeResult(has_moved=True))

        try:
            screen = CompareScreen(self._session, self._view.lines.rows, left, right)
        except StenoError as exc:
            self._show_message(str(exc), is_trouble=True)
        else:
            self._show_message("")
            self.app.push_screen(screen, done)

    def action_close(self) -> None:
        """Leave everything as it is; where all keys are shown, only those go."""
        if self._shows_keys:
            self.action_keys()
        else:
            self.dismiss(TreeResult())


def _described(twig: Twig) -> Content:
    """Return everything about an entry that a person may want to know, from top to bottom."""
    facts = "".join([f"{fact}\n" for fact in facts_of(twig)])
    return Content.assemble(
        (head_of(twig), "bold"), "\n", (facts, "$text-muted"), "\n", words_of(twig)
    )
