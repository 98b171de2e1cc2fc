"""Ask for a name or a few words, in a small window over what is there.

What is done with the words is tried while the window is still open: where that is refused, the
reason is shown and nothing that was typed is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import ClassVar, TypeVar, final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from steno.errors import Conflict, InvalidValue, StenoError
from steno.printable import on_one_line, printable

T = TypeVar("T")


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
    if text.startswith("#") or text.isdigit():
        raise InvalidValue("label: it reads like the number of an entry; call it otherwise")
    return text


def free_name(stem: str, taken: Collection[str]) -> str:
    """Return a name that can be offered: `fork-1`, or the first number that is free."""
    return next(name for number in count(1) if (name := f"{stem}-{number}") not in taken)


def _name(typed: str, what: str) -> str:
    name = on_one_line(typed)
    if not name:
        raise InvalidValue(f"{what}: it is blank; type a name, or press Esc")
    return name


# -- the window --------------------------------------------------------------------------------


@final
class _Line(Input):
    """What is typed."""

    def validate_value(self, value: str) -> str:
        """Keep out what a terminal would act on; it may be pasted."""
        return printable(value).replace("\n", " ")


@final
class NameScreen(ModalScreen[T | None]):
    """Asks for a name until something can be done with it; None where nobody wants to any more."""

    DEFAULT_CSS = """
    NameScreen {
        align: center middle;
        & > Vertical {
            width: 56;
            max-width: 100%;
            height: auto;
            padding: 0 1;
            border: round $primary;
            background: $surface;
        }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $panel; }
        #question { text-style: bold; }
        #refusal { color: $error; }
        #keys { color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "cancel", show=False)]

    def __init__(self, question: str, accept: Callable[[str], T], *, default: str = "") -> None:
        """Take what is asked, what to do with the answer, and an answer to offer.

        What `accept` returns is the result; where it raises StenoError, the question stays.
        """
        super().__init__()
        self._question = question
        self._accept = accept
        self._default = default

    def compose(self) -> ComposeResult:
        """Put the question above a line to type in, and what was wrong below it."""
        with Vertical():
            yield Static(Content(on_one_line(self._question)), id="question")
            # As soon as something is typed, the offer gives way to it.
            yield _Line(self._default, select_on_focus=True)
            yield Static(id="refusal")
            yield Static(Content("Enter accepts · Esc cancels"), id="keys")

    @on(Input.Submitted)
    def try_it(self, event: Input.Submitted) -> None:
        """Do what the name is for, or say why that cannot be."""
        event.stop()
        try:
            result = self._accept(event.value)
        except StenoError as exc:
            self.query_one("#refusal", Static).update(Content(on_one_line(str(exc))))
        else:
            self.dismiss(result)

    def action_leave(self) -> None:
        """Ask no more."""
        self.dismiss(None)
