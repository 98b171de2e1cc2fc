"""How an answer is cut into pieces: a JSON object a line, or one object over many lines.

The first line tells which: the server writes every object on a line of its own, but a whole
answer may have been made readable on its way, and then it begins with a brace alone.
"""

from __future__ import annotations

from typing import Final, final

from steno.wire.ndjson import LineSplitter
from steno.wire.pieces import Pieces

_BOM: Final = b"\xef\xbb\xbf"


@final
class AnswerSplitter(Pieces):
    """Gives out whole lines; those of an answer that is spread over them together, at its end."""

    __slots__ = ("_is_spread", "_lines")

    def __init__(self) -> None:
        """Start at the beginning of an answer."""
        super().__init__()
        self._lines = LineSplitter()
        self._is_spread: bool | None = None
        """None before the first line that is not blank."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are whole now. Raises ProtocolError."""
        lines = self._lines.feed(data)
        if self._is_spread is None:
            self._is_spread = _is_spread(lines)
        if not self._is_spread:
            return lines
        for line in lines:
            self._hold(line + b"\n")
        return []

    def close(self) -> list[bytes]:
        """Return what is left at the end."""
        left = self._lines.close()
        return [self._join(b"".join(left))] if self._is_spread else left


def _is_spread(lines: list[bytes]) -> bool | None:
    for line in lines:
        start = line.removeprefix(_BOM).strip()
        if start:
            return start == b"{"
    return None
