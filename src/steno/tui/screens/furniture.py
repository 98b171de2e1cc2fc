"""What screens are put together from: a title, a remark, a small window, a line to type into."""

from __future__ import annotations

from typing import Final, final

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from steno.printable import on_one_line, printable

WALKING: Final[tuple[BindingType, ...]] = (
    Binding("up", "move(-1)", "up", show=False),
    Binding("down", "move(1)", "down", show=False),
    Binding("pageup", "page(-1)", "page up", show=False),
    Binding("pagedown", "page(1)", "page down", show=False),
    Binding("home", "edge(False)", "first", show=False),
    Binding("end", "edge(True)", "last", show=False),
)
"""The keys of whatever has a cursor that goes from one thing to the next."""


@final
class Title(Static):
    """What a screen is about, at its top."""

    DEFAULT_CSS = """
    Title {
        height: 1; padding: 0 1; background: $panel; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(on_one_line(text), markup=False)


@final
class Remark(Static):
    """What there is to be said about what somebody did; nothing, most of the time."""

    DEFAULT_CSS = """
    Remark { height: auto; max-height: 4; padding: 0 1; display: none; }
    Remark.-trouble { color: $error; }
    """

    def say(self, text: str, *, is_trouble: bool = False) -> None:
        """Say something; nothing takes back what was said."""
        self.update(Content(on_one_line(text)))
        self.set_class(is_trouble, "-trouble")
        self.display = bool(text)


@final
class Window(Vertical):
    """A small window over what is there."""

    DEFAULT_CSS = """
    Window {
        width: 56; max-width: 100%; height: auto; padding: 0 1;
        border: round $primary; background: $surface;
    }
    """


class Line(Input):
    """A line to type into."""

    DEFAULT_CSS = """
    Line, Line:focus { border: none; }
    Line {
        height: 1; padding: 0; background: $panel;
        & > .input--placeholder { color: $text-muted; }
    }
    """

    def validate_value(self, value: str) -> str:
        """Keep out what a terminal would act on; it may be pasted."""
        return printable(value).replace("\n", " ")
