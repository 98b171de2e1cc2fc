r"""Functions that make untrusted text safe for a terminal and fit it into a width.

Colours are removed. Every other character that is invisible or that a terminal interprets becomes a
visible escape (`\x1b`, `\u202e`), because hidden characters may be an attack.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, final

_COLOR_PREFIX: Final = r"(?:\x1b\[|\x9b)[0-9;:]*"
_COLOR_SEQUENCE: Final = re.compile(rf"{_COLOR_PREFIX}m")
_INCOMPLETE_END: Final = re.compile(
    rf"(?:\r(?:{_COLOR_PREFIX}m)*)?"  # possibly the first half of \r\n
    rf"(?:\x1b|{_COLOR_PREFIX})?\Z"
)
_MAX_PENDING: Final = 200
"""The maximum length of an incomplete colour sequence."""
_UNSAFE_NON_ASCII: Final = (
    "\x7f-\x9f"  # DEL, and the C1 control characters of ISO 6429
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # text direction
    "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible
)
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE_NON_ASCII}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[{_UNSAFE_NON_ASCII}]")
_DUMB_TERMINALS: Final = ("", "dumb", "unknown")


def terminal_text(text: str) -> str:
    """Return a text that is safe to print; line breaks and tabs are preserved."""
    if text.isprintable():
        return _UNSAFE.sub(_escape, text)
    return _UNSAFE.sub(_escape, _COLOR_SEQUENCE.sub("", text).replace("\r\n", "\n"))


def terminal_line(text: str) -> str:
    """Return a text as one line that is safe to print.

    Each sequence of whitespace becomes one space. Whitespace at the beginning and end is removed.
    """
    return " ".join(terminal_text(text).split())


def terminal_json(data: bytes) -> bytes:
    """Return equivalent JSON that is safe to print."""
    return _UNSAFE_IN_JSON.sub(_escape_in_json, data.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escape_in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join([f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)])


@final
class TerminalTextStream:
    """Makes streamed text printable, with the same result as `terminal_text` of the whole text.

    If a chunk ends inside an escape sequence, the incomplete sequence waits for the next chunk.
    """

    def __init__(self) -> None:
        self._pending = ""

    def feed(self, chunk: str) -> str:
        """Add a chunk, and return the text that can be printed now."""
        text = self._pending + chunk
        match = _INCOMPLETE_END.search(text, max(len(text) - _MAX_PENDING, 0))
        end = len(text) if match is None else match.start()
        self._pending = text[end:]
        return terminal_text(text[:end])

    def close(self) -> str:
        """Return the remaining text at the end of the stream."""
        pending, self._pending = self._pending, ""
        return terminal_text(pending)


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
