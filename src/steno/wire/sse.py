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
_USUAL: Final = rb"(?:event: (?!error\n).*\n)?data: (.+)\n\n"
"""Nearly all events: one line of data, with or without a name."""
_match_usual: Final = re.compile(_USUAL).fullmatch
_find_usual: Final = re.compile(_USUAL + rb"|.*\n").findall
"""Finds the data of each; whatever else there is comes out empty."""
_LF: Final = 10
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
        if _LF not in data:
            self._hold(data)
            return []
        is_between = self._data is None and not self._others
        if self._held:
            data = self._join(data)
        elif is_between and data.endswith(b"\n\n") and len(data) <= self._max_bytes:
            only = _match_usual(data)
            if only is not None:
                self._is_first = False
                return [only[1]]
        found: list[bytes] = []
        if is_between and len(data) <= self._max_bytes:
            end = data.rfind(b"\n\n") + 2
            found = _find_usual(data, 0, end) if end > 1 else []
            if not all(found):
                found = []
            elif found:
                self._is_first = False
                data = data[end:]
        if _LF in data:
            return found + self._read_closely(data)
        if data:
            self._hold(data)
        return found

    def close(self) -> list[bytes]:
        """Return what is left at the end: servers forget the last empty line."""
        return self._read([self._join(b""), b""])

    def _read_closely(self, data: bytes) -> list[bytes]:
        """Read line by line."""
        lines = data.split(b"\n")
        if len(data) > self._max_bytes:
            self._check_lines(lines)
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return self._read(lines)

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


def _is_json(text: bytes) -> bool:
    try:
        _skip(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode
