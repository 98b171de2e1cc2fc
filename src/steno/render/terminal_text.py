r"""Functions that make untrusted text safe for a terminal and fit it into a width.

Colours are removed. Every other character that is invisible or that a terminal interprets becomes a
visible escape (`\x1b`, `\u202e`), because hidden characters may be an attack. Text to read keeps
the joiners and selectors of emoji and letters; `exact_text` and `exact_line` escape them too, and
are for text that a decision depends on. The characters are listed in `steno.invisible`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, final

from steno.invisible import (
    HIDDEN_LOOKBEHIND,
    escape_hidden,
    escape_invisible,
    escape_invisible_in_json,
)

_COLOR_PREFIX: Final = r"(?:\x1b\[|\x9b)[0-9;:]*"
_COLOR_SEQUENCE: Final = re.compile(rf"{_COLOR_PREFIX}m")
_INCOMPLETE_END: Final = re.compile(
    rf"(?:\r(?:{_COLOR_PREFIX}m)*)?"  # possibly the first half of \r\n
    rf"(?:\x1b|{_COLOR_PREFIX})?\Z"
)
_MAX_PENDING: Final = 200
"""The maximum length of an incomplete colour sequence."""
_DUMB_TERMINALS: Final = ("", "dumb", "unknown")


def terminal_text(text: str) -> str:
    """Return a text that is safe to print; line breaks and tabs are preserved."""
    if text.isascii() and text.isprintable():
        return text
    return escape_hidden(_remove_colors(text))


def terminal_line(text: str) -> str:
    """Return a text as one line that is safe to print.

    Each sequence of whitespace becomes one space. Whitespace at the beginning and end is removed.
    """
    return " ".join(terminal_text(text).split())


def exact_text(text: str) -> str:
    """Return a text that is safe to print and shows every invisible character as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return escape_invisible(_remove_colors(text))


def exact_line(text: str) -> str:
    """Return a text as `exact_text` does, on one line, as `terminal_line` does."""
    return " ".join(exact_text(text).split())


def terminal_json(data: bytes) -> bytes:
    """Return equivalent JSON that is safe to print."""
    return escape_invisible_in_json(data.decode()).encode()


def _remove_colors(text: str) -> str:
    return _COLOR_SEQUENCE.sub("", text).replace("\r\n", "\n")


@final
class TerminalTextStream:
    """Makes streamed text printable, with the same result as `terminal_text` of the whole text.

    If a chunk ends inside an escape sequence, the incomplete sequence waits for the next chunk.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._last = ""  # the last characters, on which the escape of the next one depends

    def feed(self, chunk: str) -> str:
        """Add a chunk, and return the text that can be printed now."""
        text = self._pending + chunk
        match = _INCOMPLETE_END.search(text, max(len(text) - _MAX_PENDING, 0))
        end = len(text) if match is None else match.start()
        self._pending = text[end:]
        return self._escape(text[:end])

    def close(self) -> str:
        """Return the remaining text at the end of the stream."""
        pending, self._pending = self._pending, ""
        return self._escape(pending)

    def _escape(self, text: str) -> str:
        before, plain = self._last, _remove_colors(text)
        self._last = (before + plain)[-HIDDEN_LOOKBEHIND:]
        return escape_hidden(before + plain)[len(escape_hidden(before)) :]


# -- width -----------------------------------------------------------------------------------


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text occupies."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def truncate_to_width(text: str, width: int) -> str:
    """Return a text, truncated with an ellipsis if it is wider than `width` columns."""
    if display_width(text) <= width:
        return text
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used >= width:
            return f"{text[:position]}…"
    return text


def is_dumb_terminal(environ: Mapping[str, str]) -> bool:
    """Return whether the variable TERM names a terminal that can only print lines."""
    return environ.get("TERM", "") in _DUMB_TERMINALS
