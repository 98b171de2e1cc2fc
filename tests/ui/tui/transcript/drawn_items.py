"""Items drawn for tests, without a terminal."""

from __future__ import annotations

from rich.style import Style

from steno.render.items import TranscriptItem
from steno.ui.tui.transcript.item_drawing import ItemDrawing
from steno.ui.tui.transcript.text_lines import STYLE_PARTS, TranscriptStyles

PLAIN_STYLES = TranscriptStyles(**{part: Style() for part in STYLE_PARTS}, is_dark=True)


def drawing_of(
    item: TranscriptItem, width: int = 60, styles: TranscriptStyles = PLAIN_STYLES
) -> ItemDrawing:
    drawing = ItemDrawing(item, width, styles, lambda item, data, width: [])
    drawing.draw()
    return drawing


def lines_of(item: TranscriptItem, width: int = 60) -> list[str]:
    """Return the lines of an item, without trailing blanks."""
    return [line.text.rstrip() for line in drawing_of(item, width).lines]


def text_of(item: TranscriptItem, width: int = 60) -> str:
    return "\n".join(lines_of(item, width))
