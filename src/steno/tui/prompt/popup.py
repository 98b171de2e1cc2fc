"""The list above a prompt: what may be meant, one thing a line. It never has the focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, final

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from steno.printable import cut, on_one_line, width_of
from steno.tui.prompt.completion import Choice

MOST_ROWS: Final = 8
_KEYS: Final = "Tab/Enter take · Esc close"
_LONGEST: Final = 400
"""How much of a text is looked at; no line is longer."""


@final
class Popup(Widget, can_focus=False):
    """Some choices, one of which is chosen."""

    DEFAULT_CSS = """
    Popup {
        display: none;
        overlay: screen;
        offset-y: -100%;
        width: 100%;
        height: auto;
        background: $panel;
        color: $foreground;

        & .popup--about { color: $text-muted; }
        & .popup--chosen {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"popup--about", "popup--chosen"}

    class Clicked(Message):
        """A choice was clicked at, and is chosen now."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: Sequence[Choice] = ()
        self._at = 0
        self._top = 0

    @property
    def chosen(self) -> Choice | None:
        """What is chosen; None where nothing is shown."""
        return self._choices[self._at] if self._choices else None

    def show(self, choices: Sequence[Choice], *, chosen: Choice | None = None) -> None:
        """Show some choices. One may be chosen already, if it is among them; else it is the first."""
        if not choices:
            self.hide()
            return
        is_another_size = _height(choices) != _height(self._choices)
        self._at = choices.index(chosen) if chosen in choices else 0
        self._choices = choices
        self._scroll()
        self.display = True
        self.refresh(layout=is_another_size)

    def hide(self) -> None:
        """Show nothing."""
        if self._choices:
            self._choices = ()
            self._at = self._top = 0
            self.display = False

    def move(self, rows: int) -> None:
        """Choose another; behind the last comes the first."""
        if self._choices:
            self._at = (self._at + rows) % len(self._choices)
            self._scroll()
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows it takes."""
        return _height(self._choices)

    def render_line(self, y: int) -> Strip:
        """Draw one choice, or below them how many there are besides and what keys do."""
        index, width = self._top + y, self.size.width
        if y == _rows(self._choices):
            hidden = len(self._choices) - y
            foot = f"  … {hidden} more · {_KEYS}" if hidden else f"  {_KEYS}"
            below = Segment(cut(foot, width), self._about_style)
            return Strip([below]).adjust_cell_length(width, self.rich_style)
        if index >= len(self._choices):
            return Strip.blank(width, self.rich_style)
        is_chosen = index == self._at
        style = self.get_component_rich_style("popup--chosen") if is_chosen else self.rich_style
        beside = style if is_chosen else self._about_style
        choice = self._choices[index]
        text = cut(_shown(choice), width - 2)
        # The sign beside it is for those who see no colours.
        row = f"{'▸' if is_chosen else ' '} {_padded(text, self._text_width(width))}"
        about = cut(f"  {choice.about}", max(0, width - width_of(row))) if choice.about else ""
        segments = [Segment(row, style), Segment(about, beside)]
        return Strip(segments).adjust_cell_length(width, style)

    def on_click(self, event: Click) -> None:
        """Choose what was clicked at."""
        event.stop()
        if event.y < _rows(self._choices):
            self._at = self._top + event.y
            self.refresh()
            self.post_message(self.Clicked())

    @property
    def _about_style(self) -> Style:
        return self.get_component_rich_style("popup--about")

    def _text_width(self, width: int) -> int:
        """Return where what is said about choices begins; a long one pushes that further."""
        shown = self._choices[self._top : self._top + MOST_ROWS]
        return min(max(width_of(_shown(one)) for one in shown), width // 2)

    def _scroll(self) -> None:
        last_top = max(0, len(self._choices) - MOST_ROWS)
        self._top = min(max(self._top, self._at - MOST_ROWS + 1, 0), self._at, last_top)


def _rows(choices: Sequence[Choice]) -> int:
    """Return how many of them are shown."""
    return min(MOST_ROWS, len(choices))


def _height(choices: Sequence[Choice]) -> int:
    """Return how many rows are taken: one more tells what keys do."""
    return _rows(choices) + bool(choices)


def _shown(choice: Choice) -> str:
    return on_one_line(f"{choice.text[:_LONGEST]} {choice.argument}")


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - width_of(text))
