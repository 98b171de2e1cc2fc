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
        self._session = desk
        self._comparison = Sheet(desk, twigs, left, right)

    def compose(self) -> ComposeResult:
        """Put both branches between a title and what there is to be told."""
        yield Title(f"Compare · {self._comparison.summary}")
        view = CompareView(self._comparison)
        view.chosen = int(self._comparison.names[1] == self._session.status.branch)
        yield view
        yield Remark()
        yield Waiting()
        yield Foot(_KEYS)

    @property
    def _view(self) -> CompareView:
        return self.query_one(CompareView)

    def _show_error(self, text: str) -> None:
        self.query_one(Remark).show_message(text, is_trouble=True)

    def action_go(self) -> None:
        """Show what both branches share, or go over to the side that is chosen."""
        if self._view.cursor == 0:
            self._comparison.shows_shared = not self._comparison.shows_shared
            self._view.redraw()
            return
        name = self._comparison.names[self._view.chosen]
        if name == self._session.status.branch:
            self._show_error("this branch is the active one; ← → chooses the other")
            return
        try:
            self._session.branches.switch(name)
        except StenoError as exc:
            self._show_error(str(exc))
        else:
            self.dismiss(True)

    def action_swap(self) -> None:
        """Exchange left and right; what is chosen stays chosen."""
        self._comparison.swap()
        self._view.chosen = 1 - self._view.chosen
        self._view.redraw()

    def action_close(self) -> None:
        """Go back to where somebody came from."""
        self.dismiss(False)
