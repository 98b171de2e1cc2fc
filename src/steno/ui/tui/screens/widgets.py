"""Widgets of all screens: title, message bar, key hints, window, input and approval banner.

`TitledScreen` stacks them around the content of a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

from textual.app import App, ComposeResult, RenderResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from steno.render.terminal_text import display_width, terminal_line, terminal_text

T = TypeVar("T")
CURSOR_KEYS: Final[tuple[BindingType, ...]] = (
    ("up", "move(-1)"),
    ("down", "move(1)"),
    ("pageup", "page(-1)"),
    ("pagedown", "page(1)"),
    ("home", "edge(False)"),
    ("end", "edge(True)"),
)
"""The keys of a widget with a cursor: lines, pages, and both ends."""
_HINT_SEPARATOR: Final = " · "
_ASKED_CLASS: Final = "-asked"
_BANNER_TEXT: Final = "steno asks you about a call: Esc leads there"


def balance_rows(widths: Sequence[int], total: int, *, gap: int = 0) -> list[slice]:
    """Return the slice of each row, by widths: as few rows as possible, filled evenly."""
    rows = _fill_rows(widths, total, gap)
    # An almost empty last row looks like a mistake.
    while total > 1 and len(narrower := _fill_rows(widths, total - 1, gap)) == len(rows):
        total, rows = total - 1, narrower
    return rows


def _fill_rows(widths: Sequence[int], total: int, gap: int) -> list[slice]:
    """Return rows of which each takes as many widths as fit, and at least one."""
    rows: list[slice] = []
    remaining = 0
    for index, width in enumerate(widths):
        if not rows or gap + width > remaining:
            rows.append(slice(index, index + 1))
            remaining = total - width
        else:
            rows[-1] = slice(rows[-1].start, index + 1)
            remaining -= gap + width
    return rows


@final
class Title(Widget):
    """The title of a screen."""

    DEFAULT_CSS: ClassVar[str] = """
    Title {
        height: 1; padding: 0 1; background: $panel; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text

    def update(self, text: str) -> None:
        """Set the text."""
        self._text = text
        self.refresh()

    def render(self) -> RenderResult:
        """Draw it; see Widget."""
        return Content(terminal_line(self._text))


@final
class MessageBar(Static):
    """A message about the last action; usually empty."""

    DEFAULT_CSS: ClassVar[str] = """
    MessageBar { height: auto; max-height: 4; padding: 0 1; display: none; }
    MessageBar.-error { color: $error; }
    """

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Set the message."""
        self.update(Content(terminal_line(text)))
        self.set_class(is_error, "-error")
        self.display = bool(text)


@final
class KeyHints(Widget):
    """The keys of a screen, at its bottom: parts with a dot between them.

    A part is never broken; it may have several lines.
    """

    DEFAULT_CSS: ClassVar[str] = (
        "KeyHints { height: auto; padding: 0 1; color: $text-muted; background: $panel; }"
    )

    def __init__(self, parts: Sequence[str] = ()) -> None:
        super().__init__()
        self._parts = tuple(parts)

    def update(self, parts: Sequence[str]) -> None:
        """Set the parts."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows it takes."""
        return self._wrap_hints(width).get_height({}, width)

    def render(self) -> RenderResult:
        """Draw it; see Widget."""
        return self._wrap_hints(self.content_size.width)

    def _wrap_hints(self, width: int) -> Content:
        widths = [display_width(part) for part in self._parts]
        rows = balance_rows(widths, width, gap=len(_HINT_SEPARATOR))
        return Content("\n".join([_HINT_SEPARATOR.join(self._parts[row]) for row in rows]))


@final
class Window(Vertical):
    """A small window over the screen."""

    DEFAULT_CSS: ClassVar[str] = """
    Window {
        width: 56; max-width: 100%; height: auto; padding: 0 1;
        border: round $primary; background: $surface;
    }
    """


class LineInput(Input):
    """A line to type into."""

    DEFAULT_CSS: ClassVar[str] = """
    LineInput, LineInput:focus { border: none; }
    LineInput {
        height: 1; padding: 0; background: $panel;
        & > .input--placeholder { color: $text-muted; }
    }
    """

    def validate_value(self, value: str) -> str:
        """Remove characters that a terminal acts on; they may be pasted."""
        return terminal_text(value).replace("\n", " ")


def show_approval_banner(app: App[object], *, is_asked: bool) -> None:
    """Show or hide the banner on all screens."""
    if app.has_class(_ASKED_CLASS) != is_asked:
        app.set_class(is_asked, _ASKED_CLASS)


@final
class ApprovalBanner(Static):
    """A line above the keys of a screen; it is empty unless a request is pending."""

    DEFAULT_CSS: ClassVar[str] = f"""
    ApprovalBanner {{
        display: none; height: 1; padding: 0 1;
        background: $panel; color: $text-warning; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }}
    App.{_ASKED_CLASS} ApprovalBanner {{ display: block; }}
    """

    SCOPED_CSS: ClassVar[bool] = False  # it depends on a class of the app

    def __init__(self) -> None:
        super().__init__(_BANNER_TEXT, markup=False)


class TitledScreen(ModalScreen[T]):
    """A screen with a title, a content, a message about the last action, and its keys."""

    def __init__(self, title: str = "", keys: Sequence[str] = ()) -> None:
        super().__init__()
        self.title_bar: Final = Title(title)
        self._message_bar = MessageBar()
        self.key_hints: Final = KeyHints(keys)

    def compose(self) -> ComposeResult:
        """Stack everything; see Widget."""
        yield self.title_bar
        yield from self.compose_content()
        yield self._message_bar
        yield ApprovalBanner()
        yield self.key_hints

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between the title and the message."""
        raise NotImplementedError

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show a message at the bottom, or none."""
        self._message_bar.show_message(text, is_error=is_error)
