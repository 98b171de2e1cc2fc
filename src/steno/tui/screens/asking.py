"""Ask for a name or a few words, in a small window over what is there.

What is done with the words is tried while the window is still open: where that is refused, the
reason is shown and nothing that was typed is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar, Final, TypeVar, final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from steno.captions import check_label
from steno.errors import Conflict, InvalidValue, StenoError
from steno.printable import on_one_line
from steno.tui.screens.furniture import Line, Window

T = TypeVar("T")

_KEYS: Final = "Enter accepts · Esc cancels"


# -- what a name may be ------------------------------------------------------------------------


def branch_name(typed: str, taken: Collection[str]) -> str:
    """Return what a new branch is to be called. Raises InvalidValue, Conflict."""
    name = _name(typed, "branch")
    if name in taken:
        raise Conflict("branch: there is one of this name; choose another")
    return name


def label_text(typed: str) -> str:
    """Return what an entry is to be called. Raises InvalidValue."""
    text = _name(typed, "label")
    check_label(text)
    return text


def _name(typed: str, what: str) -> str:
    name = on_one_line(typed)
    if not name:
        raise InvalidValue(f"{what}: it is blank; type a name, or press Esc")
    return name


# -- the window --------------------------------------------------------------------------------


@final
class LineScreen(ModalScreen[T | None]):
    """Asks for a line until something can be done with it; None where nobody wants to any more."""

    DEFAULT_CSS = """
    LineScreen {
        align: center middle;
        #question { text-style: bold; }
        #refusal { color: $error; }
        #keys { color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "cancel", show=False)
    ]

    def __init__(
        self,
        question: str,
        accept: Callable[[str], T],
        *,
        default: str = "",
        is_offer: bool = True,
        keys: str = _KEYS,
    ) -> None:
        """Take what is asked, what to do with the answer, and an answer to begin with.

        What `accept` returns is the result; where it raises StenoError, the question stays. An
        offer gives way to what is typed; anything else is there to be changed.
        """
        super().__init__()
        self._question = question
        self._accept = accept
        self._default = default
        self._is_offer = is_offer
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Put the question above a line to type in, and what was wrong below it."""
        with Window():
            yield Static(Content(on_one_line(self._question)), id="question")
            yield Line(self._default, select_on_focus=self._is_offer)
            yield Static(id="refusal")
            yield Static(Content(self._keys), id="keys")

    @on(Input.Submitted)
    def accept_line(self, event: Input.Submitted) -> None:
        """Do what the line is for, or say why that cannot be."""
        event.stop()
        try:
            result = self._accept(event.value)
        except StenoError as exc:
            self.query_one("#refusal", Static).update(Content(on_one_line(str(exc))))
        else:
            self.dismiss(result)
