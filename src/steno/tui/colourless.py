"""The screen without any colour, for those who say NO_COLOR.

What stood out by its background is shown in reverse, so that a cursor or a choice can still be
seen. Textual's own way is to write shades of grey, which are colours, too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, final

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_STANDS_OUT: Final = 0.35
"""How much brighter or darker than the screen a background is that is there to be seen."""


@final
class Colourless(LineFilter):
    """Takes the colours out of what is drawn."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same without colours."""
        return [
            Segment(text, None if style is None else _plain(style, background), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=1024)
def _plain(style: Style, background: Color) -> Style:
    stands_out = _brightness(style.bgcolor, background) > _STANDS_OUT
    return Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        reverse=bool(style.reverse) is not stands_out,
        meta=style.meta or None,
    )


def _brightness(colour: RichColor | None, background: Color) -> float:
    """Return how far the brightness of a colour is from that of the screen."""
    if colour is None or colour.is_default:
        return 0.0
    return abs(Color.from_rich_color(colour).brightness - background.brightness)
