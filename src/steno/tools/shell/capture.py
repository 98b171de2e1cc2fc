"""What a command has said, in bounded memory: all of it, or its beginning and its end."""

from __future__ import annotations

from typing import final


@final
class Capture:
    """Takes output piece by piece, and forgets the middle of what is too long."""

    def __init__(self, most_bytes: int) -> None:
        self._most_in_head = most_bytes - most_bytes // 2
        self._most_in_tail = most_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """How many bytes came in all."""

    def feed(self, data: bytes) -> None:
        """Take what came next."""
        self.total += len(data)
        room = self._most_in_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cut rarely, so that each byte is moved but once on average.
        if len(self._tail) > 2 * self._most_in_tail:
            del self._tail[: len(self._tail) - self._most_in_tail]

    def restore(self, data: bytes) -> None:
        """Put what was taken before what came since, as if it had not been taken."""
        since = self.take()
        self.feed(data)
        self.feed(since)

    def take(self) -> bytes:
        """Return what came since this was last called, with a line where something is missing."""
        tail = self._tail[max(0, len(self._tail) - self._most_in_tail) :]
        missing = self.total - len(self._head) - len(tail)
        gap = f"\n[... {missing:,} bytes were not kept ...]\n".encode() if missing else b""
        whole = bytes(self._head) + gap + bytes(tail)
        self._head.clear()
        self._tail.clear()
        self.total = 0
        return whole
