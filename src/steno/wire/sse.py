"""Server-sent events: bytes, however they are chunked, become the payloads of `data:` lines.

Accepts what real servers send: CRLF, lone CR, comments, a byte order mark, no empty line at the
end, many events in one chunk and one event in many. Lines break at CR and LF only, so U+2028
inside a string stays inside it. This file knows no provider and does not read the JSON.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Final, Self, final

import msgspec

from steno.wire.byte_buffer import MAX_BUFFERED_BYTES, ByteBuffer

_find_simple_events: Final = re.compile(rb"(?:event: (?!error\n).*\n)?data: (.+)\n\n|.*\n").findall
"""Finds the data of nearly all events: one line, maybe after a name; else an empty one."""
_LF: Final = b"\n"
_EVENT_END: Final = b"\n\n"
_CR: Final = ord("\r")
"""As a number: a single byte is found five times faster than bytes of length one."""
_find_lone_cr: Final = re.compile(rb"\r(?!\n)").search
_LETTER_E: Final = ord("e")


@final
class ErrorPayload(bytes):
    """The data of an event that the server named "error", which the data may not repeat.

    The mark makes it invalid JSON, so that no decoder takes it for another event.
    """

    def __new__(cls, data: bytes) -> Self:
        """Put the mark before the data."""
        return super().__new__(cls, b"!" + data)

    @property
    def data(self) -> bytes:
        """The data as it arrived."""
        return bytes(self[1:])


@final
class SseSplitter(ByteBuffer):
    """Splits a byte stream into payloads."""

    __slots__ = ("_after_cr", "_is_first")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Start at the beginning of a stream."""
        super().__init__(max_bytes=max_bytes)
        self._after_cr = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are complete now. Raises ProtocolError."""
        return self.split_payloads(self.take_whole_events(data))

    def take_whole_events(self, data: bytes) -> bytes:
        """Take more bytes; return the complete events as they arrived, except for line ends.

        Raises ProtocolError for an event that has no end.
        """
        if self._after_cr or _CR in data:
            data = self._normalize(data)
        if not self._held and data.endswith(_EVENT_END) and len(data) <= self._max_bytes:
            return data
        end = data.rfind(_EVENT_END) + 2
        if end < 2:
            if not (self._held and data.startswith(_LF) and self._held[-1].endswith(_LF)):
                if data:
                    self._hold(data)
                return b""
            end = 1  # it was cut between the two line feeds
        events, rest = data[:end], data[end:]
        if self._held:
            events = self._join(events)
        if len(events) > self._max_bytes:
            self._check_lines([event + _EVENT_END for event in events.split(_EVENT_END)])
        if rest:
            self._hold(rest)
        return events

    def split_payloads(self, events: bytes) -> list[bytes]:
        """Return the payloads of complete events."""
        if not events:
            return []
        found: list[bytes] = _find_simple_events(events)
        if b"" not in found:
            self._is_first = False
            return found
        return self._read_lines(events.split(_LF))

    def close(self) -> list[bytes]:
        """Return the last payloads: servers forget the last empty line."""
        return self._read_lines([*self._join(b"").split(_LF), b""])

    def _read_lines(self, lines: list[bytes]) -> list[bytes]:
        """Return the payloads of events, read line by line."""
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(BOM_UTF8)
        found: list[bytes] = []
        data: bytes | None = None
        others: list[bytes] = []
        for line in lines:
            if not line:
                if others:
                    found += _read_event(data, others)
                    others = []
                elif data:
                    found.append(data)
                data = None
            elif line[0] == _LETTER_E and line != b"event: error" and line.startswith(b"event: "):
                pass  # the data repeats the name of the event
            elif data is None and line.startswith(b"data: "):
                data = line[6:]
            else:
                others.append(line)
        return found

    def _normalize(self, data: bytes) -> bytes:
        """Turn every line end into a line feed; a CRLF may have been cut in two."""
        if self._after_cr:
            if not data:
                return data
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        if _find_lone_cr(data) is None:
            return data.replace(b"\r", b"")  # half the cost of replacing pairs
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read_event(data: bytes | None, lines: list[bytes]) -> list[bytes]:
    """Read an unusual event: several lines of data, an error, or no event at all.

    `data` is its first line of data, `lines` are the others.
    """
    if data is None and lines[0].lstrip()[:1] in (b"{", b"["):
        return [_LF.join(lines)]  # an error body that was put into the stream as it was
    payloads = [] if data is None else [data]
    is_error = False
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data" or (field == b"error" and value[:1] == b"{"):
            payloads.append(value)
        is_error = is_error or field == b"error" or (field == b"event" and value == b"error")
    if len(payloads) > 1 and not _is_json(payloads[0]):
        payloads = [_LF.join(payloads)]  # one payload; else events without empty lines
    return [ErrorPayload(text) if is_error else text for text in payloads if text.strip()]


def _is_json(text: bytes) -> bool:
    try:
        _decode_raw(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


_decode_raw: Final = msgspec.json.Decoder(msgspec.Raw).decode
