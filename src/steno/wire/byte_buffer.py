"""Pieces of something that is not whole yet, joined once when it is."""

from __future__ import annotations

from typing import Final, NoReturn

from steno.errors import ProtocolError

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""More than this without an end is a broken or hostile server, not an answer."""


class ByteBuffer:
    """What all splitters share: bytes that wait for their end, however many there are."""

    __slots__ = ("_held", "_max_bytes", "_size")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Start with nothing; `max_bytes` is what may wait for its end."""
        self._held: list[bytes] = []
        self._size = 0
        self._max_bytes = max_bytes

    def _hold(self, data: bytes) -> None:
        """Keep `data` for later. Raises ProtocolError when it is too much."""
        self._held.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            self._raise_too_long()

    def _join(self, data: bytes) -> bytes:
        """Return everything held with `data` behind it, and hold nothing."""
        self._held.append(data)
        whole = b"".join(self._held)
        self._held = []
        self._size = 0
        return whole

    def _check_lines(self, lines: list[bytes]) -> None:
        """Refuse a line that came in one piece and would have been refused in many."""
        if max(map(len, lines), default=0) > self._max_bytes:
            self._raise_too_long()

    def _raise_too_long(self) -> NoReturn:
        raise ProtocolError(f"stream: more than {self._max_bytes} bytes without an end")
