"""Small windows: a line to type, and a list to pick from.

Typed text filters the list, and the arrow keys move in it at the same time. Rows are drawn when
they are visible and for the current width, so that thousands cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, final

from textual import on
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.styles import RulesMap
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from steno.errors import StenoError
from steno.render.session_events import Suggestion
from steno.render.terminal_text import display_width, terminal_line, truncate_to_width
from steno.ui.tui.screens.widgets import LineInput, Window

T = TypeVar("T")
_INPUT_KEYS: Final = "Enter accepts · Esc cancels"
DrawRow: TypeAlias = Callable[[int, Style], Sequence[Content]]
"""Returns the lines of a row for a width, of which none may be wider; gets a style for details."""
_MAX_NAME_LENGTH: Final = 1000
"""Longer names are cut before they are sanitized, which takes time."""
_DETAIL_OPACITY: Final = 0.8
"""The opacity of a detail next to a name."""


# -- the window --------------------------------------------------------------------------------


@final
class InputScreen(ModalScreen[T | None]):
    """Asks for a line until it is accepted; the result is None if the user leaves."""

    DEFAULT_CSS: ClassVar[str] = """
    InputScreen {
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
        replaces_default: bool = True,
        keys: str = _INPUT_KEYS,
    ) -> None:
        """Take the question, the function that accepts the line, and a default.

        The result of `accept` is the result of the screen; if it raises StenoError, the screen
        stays. An offer is replaced by typed text; any other default can be edited.
        """
        super().__init__()
        self._question = question
        self._accept = accept
        self._default = default
        self._replaces_default = replaces_default
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Stack the question, the input, and the refusal."""
        with Window():
            yield Static(Content(terminal_line(self._question)), id="question")
            yield LineInput(self._default, select_on_focus=self._replaces_default)
            yield Static(id="refusal")
            yield Static(Content(self._keys), id="keys")

    @on(Input.Submitted)
    def accept_line(self, event: Input.Submitted) -> None:
        """Accept the line, or show the refusal."""
        event.stop()
        try:
            result = self._accept(event.value)
        except StenoError as exc:
            self.query_one("#refusal", Static).update(Content(terminal_line(str(exc))))
        else:
            self.dismiss(result)


def fit_name(text: str, width: int) -> str:
    """Return an untrusted name on one line, sanitized, and cut to a width."""
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
        """Draw it; see Visual."""
        # Based on the style of the row, whose colour differs under the cursor.
        color = style.foreground
        detail = (
            Style() if color is None else Style(foreground=color.multiply_alpha(_DETAIL_OPACITY))
        )
        return [
            strip
            for line in self._draw(width, detail)
            for strip in line.render_strips(width, 1, style, options)
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Take the whole width."""
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Return how many lines it has, without drawing it."""
        return self._height


@final
class _ColumnHeader(Widget):
    """The header above the rows of a list, as wide as they are."""

    def __init__(self, draw: DrawRow, rows: OptionList) -> None:
        super().__init__()
        self._draw = draw
        self._rows = rows

    def on_mount(self) -> None:
        """Follow the rows, which make room for a scrollbar."""
        self.watch(self._rows, "show_vertical_scrollbar", self._follow, init=False)

    def _follow(self) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        """Draw it; see Widget."""
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
        Binding("up", "move('cursor_up')", show=False),
        Binding("down", "move('cursor_down')", show=False),
        Binding("pageup", "move('page_up')", show=False),
        Binding("pagedown", "move('page_down')", show=False),
        Binding("ctrl+home", "move('first')", show=False),
        Binding("ctrl+end", "move('last')", show=False),
    ]

    @final
    class Chosen(Message):
        """A row was chosen, with Enter or the mouse."""

        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self, placeholder: str = "", head: DrawRow | None = None) -> None:
        """Take the placeholder of the input, and the header of the rows."""
        super().__init__()
        self._input = LineInput(placeholder=placeholder, select_on_focus=False)
        self._list = OptionList(markup=False)
        self._list.can_focus = False
        self._head = None if head is None else _ColumnHeader(head, self._list)

    def compose(self) -> ComposeResult:
        """Build it; see Widget."""
        yield self._input
        if self._head is not None:
            yield self._head
        yield self._list

    @property
    def typed(self) -> str:
        """The typed text, without blanks around it."""
        return self._input.value.strip()

    @property
    def index(self) -> int | None:
        """The row that the cursor is on; None where there are no rows."""
        return self._list.highlighted

    def show(self, rows: Iterable[ListRow], index: int = 0) -> None:
        """Show other rows, with the cursor on one of them."""
        self._list.set_options([Option(row) for row in rows])
        self._list.highlighted = index if self._list.option_count else None

    def action_move(self, direction: str) -> None:
        """Move the cursor in the list while the user types."""
        moves: dict[str, Callable[[], None]] = {
            "cursor_up": self._list.action_cursor_up,
            "cursor_down": self._list.action_cursor_down,
            "page_up": self._list.action_page_up,
            "page_down": self._list.action_page_down,
            "first": self._list.action_first,
            "last": self._list.action_last,
        }
        moves[direction]()

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
    """A list to pick from; the result is the text of the choice, or None."""

    DEFAULT_CSS: ClassVar[str] = """
    PickerScreen {
        align: center middle;
        & > Window { width: 80; max-height: 90%; }
        & .picker--note { height: 1; color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, title: str, candidates: Sequence[Suggestion], current: str | None = None):
        super().__init__()
        self._title = title
        self._all = list(candidates)
        self._matching = self._all
        self._current = current
        self._name_width = max(
            [display_width(fit_name(choice.text, 40)) for choice in self._all], default=0
        )
        self._list = FilteredList("type to filter")
        self._note = Static(markup=False, classes="picker--note")

    def compose(self) -> ComposeResult:
        """Build it; see Widget."""
        with Window() as window:
            window.border_title = Content(terminal_line(self._title))
            window.styles.height = len(self._all) + 4  # the border, the filter, the note
            yield self._list
            yield self._note

    def on_mount(self) -> None:
        """Show everything, with the cursor on the current choice."""
        self._filter()

    @on(Input.Changed)
    def _filter(self) -> None:
        """Show the choices that contain all words; those that start with them first."""
        words = self._list.typed.lower().split()
        matching = [choice for choice in self._all if _matches_words(choice, words)]
        if words:
            matching.sort(key=lambda choice: not choice.text.lower().startswith(words[0]))
        self._matching = matching
        names = [choice.text for choice in matching]
        index = names.index(self._current) if not words and self._current in names else 0
        self._list.show([ListRow(self._row_drawer(choice)) for choice in matching], index)
        count = f"{len(matching)} of {len(self._all)}" if matching else "nothing holds these words"
        self._note.update(f"{count} · Enter picks, Esc leaves things as they are")

    def _row_drawer(self, choice: Suggestion) -> DrawRow:
        def draw(width: int, detail: Style) -> Sequence[Content]:
            mark = "● " if choice.text == self._current else "  "
            name = fit_name(choice.text, min(width - 2, 40 if choice.description else width))
            gap = " " * max(self._name_width - display_width(name), 0)
            about = fit_name(
                choice.description, max(width - 4 - max(self._name_width, display_width(name)), 0)
            )
            return [Content.assemble(mark, name, gap, "  ", (about, detail))]

        return draw

    @on(FilteredList.Chosen)
    def _choose(self, event: FilteredList.Chosen) -> None:
        self.dismiss(self._matching[event.index].text)


def _matches_words(choice: Suggestion, words: Sequence[str]) -> bool:
    text = f"{choice.text} {choice.description}".lower()
    return all(word in text for word in words)
