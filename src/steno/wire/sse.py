"""Server-sent events: bytes in any pieces become the payloads of `data:` lines.

Takes what real servers do: CRLF, lone CR, comments, a byte order mark, no empty line at the end,
many events in one piece and one event in many. Lines break at CR and LF alone, so U+2028 inside
a string stays inside it. This file knows no provider and does not read the JSON.
"""

from __future__ import annotations

import re
from typing import Final, final

import msgspec

from steno.wire.pieces import MAX_BYTES, Pieces

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = ord("\r")
"""As a number: a single byte is found five times faster than bytes of length one."""
_LONE_CR: Final = re.compile(rb"\r(?!\n)").search
_E: Final = ord("e")


@final
class ErrorPayload(bytes):
    """The data of an event that the server named "error", which the data may not repeat."""


@final
class EventSplitter(Pieces):
    """Collects bytes and gives out whole payloads."""

    __slots__ = ("_after_cr", "_data", "_is_first", "_others")

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        """Start at the beginning of a stream."""
        super().__init__(max_bytes=max_bytes)
        self._after_cr = False
        self._is_first = True
        self._data: bytes | None = None
        """The only `data:` line of the event so far; nearly all have but one."""
        self._others: list[bytes] = []
        """The other lines of an event that has more to it."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are whole now. Raises ProtocolError."""
        if self._after_cr or _CR in data:
            data = self._normalise(data)
        line_end = data.find(b"\n")
        if line_end < 0:
            self._hold(data)
            return []
        if self._held:
            data = self._join(data)
        elif data.endswith(b"\n\n") and self._data is None and not self._others:
            start = _start_of_only_data(data, line_end)
            if start and len(data) <= self._max_bytes:
                self._is_first = False
                return [data[start:-2]]
        lines = data.split(b"\n")
        if len(data) > self._max_bytes:
            self._check_lines(lines)
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return self._read(lines)

    def close(self) -> list[bytes]:
        """Return what is left at the end: servers forget the last empty line."""
        return self._read([self._join(b""), b""])

    def _read(self, lines: list[bytes]) -> list[bytes]:
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(_BOM)
        found: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if self._others:
                    found += self._read_event(data)
                elif data is not None:
                    found.append(data)
                data = None
            elif line[0] == _E and line != b"event: error" and line.startswith(b"event: "):
                pass  # what the event is called, its data says as well
            elif data is None and line.startswith(b"data: "):
                data = line[6:]
            else:
                self._keep(line)
        self._data = data
        return found

    def _keep(self, line: bytes) -> None:
        """Put aside a line that only few events have."""
        self._others.append(line)
        self._count(line)

    def _read_event(self, data: bytes | None) -> list[bytes]:
        """Read an event line by line: several of data, an error, or no event at all."""
        lines, self._others = self._others, []
        self._size -= sum(map(len, lines))
        if data is None and lines[0].lstrip()[:1] in (b"{", b"["):
            return [b"\n".join(lines)]  # an error body that was put into the stream as it was
        payloads = [] if data is None else [data]
        is_error = False
        for line in lines:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data" or (field == b"error" and value[:1] == b"{"):
                payloads.append(value)
            is_error = is_error or field == b"error" or (field == b"event" and value == b"error")
        if len(payloads) > 1 and not _is_json(payloads[0]):
            payloads = [b"\n".join(payloads)]  # one payload; else events without empty lines
        return [ErrorPayload(text) if is_error else text for text in payloads if text]

    def _normalise(self, data: bytes) -> bytes:
        """Turn every line end into a line feed; a CRLF may have been cut in two."""
        if self._after_cr:
            if not data:
                return data
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        if _LONE_CR(data) is None:
            return data.replace(b"\r", b"")  # half the price of replacing pairs
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _start_of_only_data(data: bytes, line_end: int) -> int:
    """Return where the payload starts in a piece that is one event in a usual shape, else 0.

    Many servers send each event in a piece of its own.
    """
    end = len(data) - 2
    if line_end == end and data.startswith(b"data: "):
        return 6
    start = line_end + 1
    if (
        data.startswith(b"data: ", start)
        and data.find(b"\n", start) == end
        and data.startswith(b"event: ")
        and not data.startswith(b"event: error\n")
    ):
        return start + 6
    return 0


def _is_json(text: bytes) -> bool:
    try:
        _skip(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode
