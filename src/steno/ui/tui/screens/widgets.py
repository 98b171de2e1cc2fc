"""Widgets that screens share, a dialog for a line of text, and a dialog to pick from a list.

`TitledScreen` stacks a title, messages and key hints around the content of a screen. In a
`FilteredList`, typed text filters the list while the arrow keys move the cursor. Rows are drawn
when they become visible, so that a list of thousands of rows is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, TypeAlias, TypeVar, final

from textual import on
from textual.app import App, ComposeResult, RenderResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from steno.app.commands.table import Suggestion
from steno.errors import StenoError
from steno.render.terminal_text import (
    display_width,
    terminal_line,
    terminal_text,
    truncate_to_width,
)

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
_INPUT_KEYS: Final = "Enter accept · Esc cancel"
DrawRow: TypeAlias = Callable[[int, Style], Sequence[Content]]
"""Returns the lines of a row, given the maximal width of a line and a style for details."""
_MAX_NAME_LENGTH: Final = 1000
"""Longer names are truncated before they are sanitized, which takes time."""
_DETAIL_OPACITY: Final = 0.8
_BANNER_TEXT: Final = "A tool call needs your approval · Esc back to it"


def balance_rows(widths: Sequence[int], total: int, *, gap: int = 0) -> list[slice]:
    """Split parts into as few rows as possible, filled evenly; return the slice of each row."""
    rows = _fill_rows(widths, total, gap)
    # An almost empty last row looks like a mistake.
    while total > 1 and len(narrower := _fill_rows(widths, total - 1, gap)) == len(rows):
        total, rows = total - 1, narrower
    return rows


def _fill_rows(widths: Sequence[int], total: int, gap: int) -> list[slice]:
    """Return rows that each contain as many parts as fit, and at least one."""
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

    text: reactive[str] = reactive("")

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text

    def render(self) -> RenderResult:
        """Return the title on one line."""
        return Content(terminal_line(self.text))


@final
class MessageBar(Static):
    """A message about the last action; usually empty."""

    DEFAULT_CSS: ClassVar[str] = """
    MessageBar { height: auto; max-height: 4; padding: 0 1; display: none; }
    MessageBar.-error { color: $error; }
    """


@final
class KeyHints(Widget):
    """The key hints at the bottom of a screen: parts with a dot between them.

    A part is never wrapped; it may have several lines.
    """

    DEFAULT_CSS: ClassVar[str] = (
        "KeyHints { height: auto; padding: 0 1; color: $text-muted; background: $panel; }"
    )

    parts: reactive[tuple[str, ...]] = reactive((), layout=True)

    def __init__(self, parts: Sequence[str] = ()) -> None:
        super().__init__()
        self.parts = tuple(parts)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows."""
        return self._wrap_hints(width).get_height({}, width)

    def render(self) -> RenderResult:
        """Return the key hints, wrapped to the width."""
        return self._wrap_hints(self.content_size.width)

    def _wrap_hints(self, width: int) -> Content:
        widths = [display_width(part) for part in self.parts]
        rows = balance_rows(widths, width, gap=len(_HINT_SEPARATOR))
        return Content("\n".join([_HINT_SEPARATOR.join(self.parts[row]) for row in rows]))


@final
class Window(Vertical):
    """The frame of a dialog over the screen."""

    DEFAULT_CSS: ClassVar[str] = """
    Window {
        width: 56; max-width: 100%; height: auto; padding: 0 1;
        border: round $primary; background: $surface;
    }
    """


class LineInput(Input):
    """An input of one line."""

    DEFAULT_CSS: ClassVar[str] = """
    LineInput, LineInput:focus { border: none; }
    LineInput {
        height: 1; padding: 0; background: $panel;
        & > .input--placeholder { color: $text-muted; }
    }
    """

    def validate_value(self, value: str) -> str:
        """Replace pasted control characters, which a terminal would interpret."""
        return terminal_text(value).replace("\n", " ")


def show_approval_banner(app: App[object], *, is_asked: bool) -> None:
    """Show or hide the banner on all screens."""
    if app.has_class(_ASKED_CLASS) != is_asked:
        app.set_class(is_asked, _ASKED_CLASS)


@final
class ApprovalBanner(Static):
    """A line above the key hints of a screen, visible while an approval is pending."""

    DEFAULT_CSS: ClassVar[str] = f"""
    ApprovalBanner {{
        display: none; height: 1; padding: 0 1;
        background: $panel; color: $text-warning; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }}
    App.{_ASKED_CLASS} ApprovalBanner {{ display: block; }}
    """

    SCOPED_CSS: ClassVar[bool] = False  # the rule depends on a class of the app

    def __init__(self) -> None:
        super().__init__(_BANNER_TEXT, markup=False)


class TitledScreen(ModalScreen[T]):
    """A screen with a title, content, a message about the last action, and key hints."""

    def __init__(self, title: str = "", keys: Sequence[str] = ()) -> None:
        super().__init__()
        self.title_bar: Final = Title(title)
        self._message_bar = MessageBar()
        self.key_hints: Final = KeyHints(keys)

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield self.title_bar
        yield from self.compose_content()
        yield self._message_bar
        yield ApprovalBanner()
        yield self.key_hints

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between the title and the message."""
        raise NotImplementedError

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show a message at the bottom; an empty text hides the message."""
        self._message_bar.update(Content(terminal_line(text)))
        self._message_bar.set_class(is_error, "-error")
        self._message_bar.display = bool(text)

    @contextmanager
    def showing_errors(self) -> Generator[None]:
        """Show a StenoError that the `with` block raises as a message."""
        try:
            yield
        except StenoError as exc:
            self.show_message(str(exc), is_error=True)


# -- a line of text ----------------------------------------------------------------------------


@final
class InputScreen(ModalScreen[T | None]):
    """A dialog for one line of text. The result is None if the user cancels it."""

    DEFAULT_CSS: ClassVar[str] = """
    InputScreen {
        align: center middle;
        #question { text-style: bold; }
        #refusal { color: $error; }
        #keys { color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)")]

    def __init__(
        self,
        question: str,
        accept: Callable[[str], T],
        *,
        default: str = "",
        replaces_default: bool = True,
        keys: str = _INPUT_KEYS,
    ) -> None:
        """Set the question, the function that accepts the line, and a default.

        The result of `accept` is the result of the screen; if it raises StenoError, the screen
        shows the error and stays. With `replaces_default`, the default is selected, so that typed
        text replaces it.
        """
        super().__init__()
        self._accept = accept
        self._question, self._keys = question, keys
        self._default, self._replaces_default = default, replaces_default
        self._refusal = Static(id="refusal")

    def compose(self) -> ComposeResult:
        """Yield the question, the input, the error, and the key hints."""
        with Window():
            yield Static(Content(terminal_line(self._question)), id="question")
            yield LineInput(self._default, select_on_focus=self._replaces_default)
            yield self._refusal
            yield Static(Content(self._keys), id="keys")

    @on(Input.Submitted)
    def accept_line(self, event: Input.Submitted) -> None:
        """Accept the line, or show the error."""
        event.stop()
        try:
            result = self._accept(event.value)
        except StenoError as exc:
            self._refusal.update(Content(terminal_line(str(exc))))
        else:
            self.dismiss(result)


def fit_name(text: str, width: int) -> str:
    """Return an untrusted name on one line, sanitized, and truncated to a width."""
    return truncate_to_width(terminal_line(text[:_MAX_NAME_LENGTH]), width)


# -- a list with a filter ----------------------------------------------------------------------


@final
class ListRow(Visual):
    """A row of a list; it is drawn when it becomes visible."""

    def __init__(self, draw: DrawRow, height: int = 1) -> None:
        self._draw = draw
        self._height = height

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        """Return the lines of the row."""
        # Derived from the style of the row, whose colour differs under the cursor.
        color = style.foreground and style.foreground.multiply_alpha(_DETAIL_OPACITY)
        lines = self._draw(width, Style(foreground=color))
        return [strip for line in lines for strip in line.render_strips(width, 1, style, options)]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Return the width of the container, which the row fills."""
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Return the number of lines, without drawing them."""
        return self._height


@final
class _ColumnHeader(Widget):
    """The header above the rows of a list, with the same width."""

    def __init__(self, draw: DrawRow, rows: OptionList) -> None:
        super().__init__()
        self._draw = draw
        self._rows = rows

    def on_mount(self) -> None:
        """Follow the width of the rows, which changes with the scrollbar."""
        self.watch(self._rows, "show_vertical_scrollbar", self._follow, init=False)

    def _follow(self) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        """Return the header."""
        width = self._rows.scrollable_content_region.width
        return Content("\n").join(self._draw(width, Style()))


@final
class FilteredList(Vertical):
    """An input, and a list below it. The owner changes the list on Input.Changed."""

    DEFAULT_CSS: ClassVar[str] = """
    FilteredList {
        height: 1fr;
        & > LineInput { padding: 0 1; }
        & > _ColumnHeader { height: 1; color: $text-muted; }
        & > OptionList {
            height: 1fr; border: none; padding: 0; background: transparent;
            scrollbar-size-vertical: 1; text-wrap: nowrap; text-overflow: ellipsis;
            & > .option-list--option-highlighted {
                color: $block-cursor-foreground; background: $block-cursor-background;
                text-style: $block-cursor-text-style;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move('cursor_up')"),
        ("down", "move('cursor_down')"),
        ("pageup", "move('page_up')"),
        ("pagedown", "move('page_down')"),
        ("ctrl+home", "move('first')"),
        ("ctrl+end", "move('last')"),
    ]

    @dataclass
    class Chosen(Message):
        """A row was chosen, with Enter or the mouse."""

        index: int

    def __init__(self, placeholder: str = "", head: DrawRow | None = None) -> None:
        super().__init__()
        self._input = LineInput(placeholder=placeholder, select_on_focus=False)
        self._list = OptionList(markup=False)
        self._list.can_focus = False
        self._head = None if head is None else _ColumnHeader(head, self._list)

    def compose(self) -> ComposeResult:
        """Yield the input, the header if there is one, and the list."""
        yield self._input
        if self._head is not None:
            yield self._head
        yield self._list

    @property
    def typed(self) -> str:
        """The typed text, without whitespace at the beginning and end."""
        return self._input.value.strip()

    @property
    def index(self) -> int | None:
        """The index of the row under the cursor; None if there are no rows."""
        return self._list.highlighted

    def show(self, rows: Iterable[ListRow], index: int = 0) -> None:
        """Replace the rows, and move the cursor to the row at `index`."""
        self._list.set_options([Option(row) for row in rows])
        self._list.highlighted = index if self._list.option_count else None

    async def action_move(self, action: str) -> None:
        """Move the cursor in the list while the user types."""
        await self._list.run_action(action)

    @on(Input.Submitted)
    def _choose_highlighted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.index is not None:
            self.post_message(self.Chosen(self.index))

    @on(OptionList.OptionSelected)
    def _choose_clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(event.option_index))


# -- one of several ----------------------------------------------------------------------------


@final
class PickerScreen(ModalScreen[str | None]):
    """A dialog to pick from a list. The result is the text of the choice; None if cancelled."""

    DEFAULT_CSS: ClassVar[str] = """
    PickerScreen {
        align: center middle;
        & > Window { width: 80; max-height: 90%; }
        & .picker--note { height: 1; color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)")]

    def __init__(self, title: str, candidates: Sequence[Suggestion], current: str | None = None):
        super().__init__()
        self._title = title
        self._all = list(candidates)
        self._matching = self._all
        self._current = current
        widths = [display_width(fit_name(choice.text, 40)) for choice in self._all]
        self._name_width = max(widths, default=0)
        self._list = FilteredList("type to filter")
        self._note = Static(markup=False, classes="picker--note")

    def compose(self) -> ComposeResult:
        """Yield a window with the list and a note."""
        with Window() as window:
            window.border_title = Content(terminal_line(self._title))
            window.styles.height = len(self._all) + 4  # two borders, the filter, the note
            yield self._list
            yield self._note

    def on_mount(self) -> None:
        """Show all choices, with the cursor on the current choice."""
        self._filter()

    @on(Input.Changed)
    def _filter(self) -> None:
        """Show the choices that contain all typed words.

        Choices that start with the first typed word precede the others.
        """
        words = self._list.typed.lower().split()
        matching = [
            choice
            for choice in self._all
            if all(word in f"{choice.text} {choice.description}".lower() for word in words)
        ]
        if words:
            matching.sort(key=lambda choice: not choice.text.lower().startswith(words[0]))
        self._matching = matching
        names = [choice.text for choice in matching]
        index = names.index(self._current) if not words and self._current in names else 0
        self._list.show([ListRow(partial(self._draw_choice, choice)) for choice in matching], index)
        count = f"{len(matching)} of {len(self._all)}" if matching else "no match"
        self._note.update(f"{count} · Enter select · Esc cancel")

    def _draw_choice(self, choice: Suggestion, width: int, detail: Style) -> Sequence[Content]:
        mark = "● " if choice.text == self._current else "  "
        name = fit_name(choice.text, min(width - 2, 40 if choice.description else width))
        name_width = max(self._name_width, display_width(name))
        gap = " " * (name_width - display_width(name))
        about = fit_name(choice.description, max(width - 4 - name_width, 0))
        return [Content.assemble(mark, name, gap, "  ", (about, detail))]

    @on(FilteredList.Chosen)
    def _choose(self, event: FilteredList.Chosen) -> None:
        self.dismiss(self._matching[event.index].text)
