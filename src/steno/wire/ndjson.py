"""Newline-delimited JSON: bytes, however they are chunked, become whole lines.

Lines break at LF only. JSON allows a CR and blanks around a value, so those stay, and so may the
LF. Empty lines are left out; the reader of the lines skips one that holds only blanks.
"""

from __future__ import annotations

from typing import final

from steno.wire.byte_buffer import ByteBuffer


@final
class LineSplitter(ByteBuffer):
    """Splits a byte stream into lines."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the lines that are complete now. Raises ProtocolError."""
        line_end = data.find(b"\n")
        if line_end < 0:
            self._hold(data)
            return []
        if self._held:
            data = self._join(data)
        elif line_end == len(data) - 1 < self._max_bytes:
            # One line: many servers send one per chunk.
            return [data]
        lines = data.split(b"\n")
        if len(data) > self._max_bytes:
            self._check_lines(lines)
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return lines if all(lines) else [line for line in lines if line]

    def close(self) -> list[bytes]:
        """Return the last line: servers forget its line feed."""
        rest = self._join(b"")
        return [rest] if rest.strip() else []
