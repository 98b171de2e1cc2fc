r"""Print words on a terminal as they come, harmless whatever they are and wherever they are cut.

What comes in pieces looks like what `printable` makes of the whole: a piece may end within an
escape, so that its end waits for the next one.
"""

from __future__ import annotations

import io
import re
import sys
from typing import Final, final

from steno.cli.output import writing
from steno.printable import printable

_COLOUR: Final = r"(?:\x1b\[|\x9b)[0-9;:]*"
_OPEN: Final = re.compile(
    rf"(?:\r(?:{_COLOUR}m)*)?"  # a line break in two characters, perhaps
    rf"(?:\x1b|{_COLOUR})?\Z"
)
_MOST_HELD: Final = 200
"""No colour is as long as this."""


@final
class Flow:
    """Makes pieces of a text printable, one after the other."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what may be printed by now."""
        text = self._held + piece
        found = _OPEN.search(text, max(len(text) - _MOST_HELD, 0))
        end = len(text) if found is None else found.start()
        self._held = text[end:]
        return printable(text[:end])

    def close(self) -> str:
        """Return what was held back: nothing comes behind it."""
        held, self._held = self._held, ""
        return printable(held)


@final
class Screen:
    """Stdout where it is a terminal, and somebody reads along."""

    def __init__(self) -> None:
        """Begin on a new line."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # where it is not UTF-8
        self._text = Flow()
        self._is_within_line = False

    def write(self, piece: str) -> None:
        """Print a piece of a text."""
        self._print(self._text.feed(piece))

    def end_line(self) -> None:
        """Let whatever comes next begin on a new line."""
        self._print(self._text.close())
        if self._is_within_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        if not text:
            return
        with writing("stdout"):
            print(text, end="", flush=True)
        self._is_within_line = not text.endswith("\n")
