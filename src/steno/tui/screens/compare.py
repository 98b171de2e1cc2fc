"""Two branches side by side, and going over to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from steno.errors import StenoError
from steno.tui.desk import Desk, Twig
from steno.tui.screens.compare_sheet import Sheet
from steno.tui.screens.compare_view import CompareView
from steno.tui.screens.furniture import Foot, Remark, Title
from steno.tui.screens.waiting import Waiting

_KEYS: Final = "n p differences · ← → side · Enter go · s swap · Esc close"


@final
class CompareScreen(ModalScreen[bool]):
    """Two branches; the result tells whether one of them has become the active one."""

    DEFAULT_CSS = """
    CompareScreen { background: $background; }
    """
    AUTO_FOCUS = "CompareView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "go there", show=False),
        Binding("s", "swap", "swap", show=False),
        Binding("escape,q", "close", "back", show=False),
    ]

    def __init__(self, desk: Desk, twigs: Sequence[Twig], left: str, right: str) -> None:
        """Compare two branches of a tree by their names. Raises Missing where there is none."""
        super().__init__()
        self._desk = desk
        self._sheet = Sheet(desk, twigs, left, right)

    def compose(self) -> ComposeResult:
        """Put both branches between a title and what there is to be told."""
        yield Title(f"Compare · {self._sheet.summary}")
        view = CompareView(self._sheet)
        view.chosen = int(self._sheet.names[1] == self._desk.standing.branch)
        yield view
        yield Remark()
        yield Waiting()
        yield Foot(_KEYS)

    @property
    def _view(self) -> CompareView:
        return self.query_one(CompareView)

    def _tell(self, text: str) -> None:
        self.query_one(Remark).say(text, is_trouble=True)

    def action_go(self) -> None:
        """Show what both branches share, or go over to the side that is chosen."""
        if self._view.cursor == 0:
            self._sheet.shows_past = not self._sheet.shows_past
            self._view.redraw()
            return
        name = self._sheet.names[self._view.chosen]
        if name == self._desk.standing.branch:
            self._tell("this branch is the active one; ← → chooses the other")
            return
        try:
            self._desk.branches.switch(name)
        except StenoError as exc:
            self._tell(str(exc))
        else:
            self.dismiss(True)

    def action_swap(self) -> None:
        """Exchange left and right; what is chosen stays chosen."""
        self._sheet.swap()
        self._view.chosen = 1 - self._view.chosen
        self._view.redraw()

    def action_close(self) -> None:
        """Go back to where somebody came from."""
        self.dismiss(False)
