"""The choices below a call: a letter and a word each, in as few rows as they fit into.

What cannot be chosen is left out; why, is said elsewhere.
"""

from __future__ import annotations

from typing import Final, final

from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from steno.tui.screens.deciding import Choice, Offer
from steno.tui.screens.furniture import rows_of

_CHOICE: Final = "choice"
_BETWEEN: Final = " "


@final
class Choices(Widget, can_focus=False):
    """Draws offers. What is highlighted has arrows around it, for terminals without colours."""

    DEFAULT_CSS = "Choices { height: auto; }"

    @final
    class Clicked(Message):
        """Somebody has clicked on a choice."""

        def __init__(self, choice: Choice) -> None:
            """Say on which."""
            super().__init__()
            self.choice = choice

    def __init__(self) -> None:
        """Offer nothing yet."""
        super().__init__()
        self._offers: tuple[Offer, ...] = ()
        self._highlighted: Offer | None = None

    def show(self, offers: tuple[Offer, ...], highlighted: Offer | None) -> None:
        """Offer these, one of them highlighted or none."""
        offers = tuple([offer for offer in offers if not offer.obstacle])
        if (offers, highlighted) != (self._offers, self._highlighted):
            self._offers, self._highlighted = offers, highlighted
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows it takes."""
        return len(self._rows(width))

    def render(self) -> Content:
        """Draw all of them."""
        rows = self._rows(self.size.width)
        return Content("\n").join([Content(_BETWEEN).join(map(self._drawn, row)) for row in rows])

    def on_click(self, event: Click) -> None:
        """Say what was clicked on."""
        choice = event.style.meta.get(_CHOICE)
        if choice is not None:
            self.post_message(self.Clicked(Choice(choice)))

    def _rows(self, width: int) -> list[tuple[Offer, ...]]:
        widths = [len(self._text(offer)) for offer in self._offers]
        return [self._offers[row] for row in rows_of(widths, width, gap=len(_BETWEEN))]

    def _text(self, offer: Offer) -> str:
        before, behind = "▸◂" if offer == self._highlighted else "  "
        return f"{before}{offer.letter} {offer.label}{behind}"

    def _drawn(self, offer: Offer) -> Content:
        text = Content(self._text(offer))
        text = text.stylize(Style.from_meta({_CHOICE: str(offer.choice)}))
        if offer == self._highlighted:
            return text.stylize("bold reverse")
        return text.stylize("$primary bold underline", 1, 2)
