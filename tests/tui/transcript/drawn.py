"""Blocks drawn for tests, without a terminal."""

from __future__ import annotations

from rich.style import Style

from steno.tui.block import Block
from steno.tui.transcript.drawing import Drawing
from steno.tui.transcript.look import PARTS, Look

PLAIN_LOOK = Look(**{part: Style() for part in PARTS}, is_dark=True)


def drawing_of(block: Block, width: int = 60, look: Look = PLAIN_LOOK) -> Drawing:
    drawing = Drawing(block, width, look, lambda data, width: [])
    drawing.draw()
    return drawing


def lines_of(block: Block, width: int = 60) -> list[str]:
    """Return what is drawn of a block, without blanks at the ends of lines."""
    return [line.text.rstrip() for line in drawing_of(block, width).lines]


def text_of(block: Block, width: int = 60) -> str:
    return "\n".join(lines_of(block, width))
