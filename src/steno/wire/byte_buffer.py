"""A buffer for bytes whose end has not arrived, joined once when it has."""

from __future__ import annotations

from typing import Final, NoReturn

from steno.errors import ProtocolError

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""A server that sends more than this without an end is broken or hostile."""


class ByteBuffer:
    """The base of all splitters: holds incomplete bytes, up to a limit."""

    __slots__ = ("_held", "_max_bytes", "_size")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Start empty; `max_bytes` limits the bytes held."""
        self._held: list[bytes] = []
        self._size = 0
        self._max_bytes = max_bytes

    def _hold(self, data: bytes) -> None:
        """Hold `data` until its end arrives. Raises ProtocolError above the limit."""
        self._held.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            self._raise_too_long()

    def _join(self, data: bytes) -> bytes:
        """Return everything held, followed by `data`, and hold nothing."""
        self._held.append(data)
        joined = b"".join(self._held)
        self._held = []
        self._size = 0
        return joined

    def _check_lines(self, lines: list[bytes]) -> None:
        """Refuse a line above the limit that arrived in one chunk, as in several."""
        if max(map(len, lines), default=0) > self._max_bytes:
            self._raise_too_long()

    def _raise_too_long(self) -> NoReturn:
        raise ProtocolError(
            f"more than {self._max_bytes} bytes without an end",
            code="buffer_limit_exceeded",
            place="stream",
        )
