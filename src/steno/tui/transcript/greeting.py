"""What is said where nobody has said anything yet: what there is to work with, and how to begin.

Needed for the first paint: nothing heavy is imported here.
"""

from __future__ import annotations

from typing import Final

from textual.strip import Strip

from steno.tui.transcript.lines import head_line, strip
from steno.tui.transcript.look import Look

# Each fits into the narrowest terminal that there is room in.
HOW_TO_BEGIN: Final = (
    "Say what to do, then Enter; @file points at a file.",
    "/help tells the rest · Esc interrupts · Ctrl+D leaves",
)


def greeting(about: str, width: int, look: Look) -> list[Strip]:
    """Return it as lines; `about` says what there is to work with, and may be empty."""
    said = [(about, look.head)] if about else []
    said += [(line, look.dim) for line in HOW_TO_BEGIN]
    return [Strip([]), *[strip((head_line(text, width), style)) for text, style in said]]
