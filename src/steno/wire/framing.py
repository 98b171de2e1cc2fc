"""Split byte streams into payloads, independently of chunk boundaries and of the provider.

Each splitter buffers the bytes of an incomplete payload, up to a limit, and joins them once.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Final, NoReturn, Self, final

from steno.errors import ProtocolError
from steno.json_object import is_json_text

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""The size limit of one payload; a server that sends a larger one is broken or hostile."""
_LF: Final = b"\n"
_EVENT_END: Final = b"\n\n"


class ByteBuffer:
    """A base class for splitters that buffers the bytes of an incomplete payload up to a limit."""

    __slots__ = ("_held", "_max_bytes", "_size")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Create an empty buffer that holds at most `max_bytes`."""
        self._held: list[bytes] = []
        self._size = 0
        self._max_bytes = max_bytes

    def _hold(self, data: bytes) -> None:
        """Buffer a part of a payload. Raises ProtocolError if the buffer exceeds its limit."""
        self._held.append(data)
        self._size += len(data)
        if self._size > self._max_bytes:
            self._raise_too_long()

    def _join(self, data: bytes) -> bytes:
        """Return the buffered bytes followed by `data`, and empty the buffer."""
        self._held.append(data)
        joined = b"".join(self._held)
        self._held = []
        self._size = 0
        return joined

    def _check_lines(self, lines: list[bytes]) -> None:
        """Raise ProtocolError if a line exceeds the limit, even if it arrived in a single chunk."""
        if max(map(len, lines), default=0) > self._max_bytes:
            self._raise_too_long()

    def _raise_too_long(self) -> NoReturn:
        raise ProtocolError(
            f"a line or event is longer than {self._max_bytes} bytes",
            code="buffer_limit_exceeded",
            place="stream",
        )


# -- lines of JSON ---------------------------------------------------------------------------


@final
class LineSplitter(ByteBuffer):
    """Splits a byte stream into lines of JSON.

    Lines end at LF only. JSON allows whitespace around a value, so a returned line may end with
    CR or LF. Empty lines are dropped; the caller skips lines that contain only whitespace.
    """

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. Raises ProtocolError if a line is too long."""
        line_end = data.find(b"\n")
        if line_end < 0:
            self._hold(data)
            return []
        if self._held:
            data = self._join(data)
        elif line_end == len(data) - 1 < self._max_bytes:
            # A fast path: many servers send one line per chunk.
            return [data]
        lines = data.split(b"\n")
        if len(data) > self._max_bytes:
            self._check_lines(lines)
        rest = lines.pop()
        if rest:
            self._hold(rest)
        return lines if all(lines) else [line for line in lines if line]

    def close(self) -> list[bytes]:
        """Return the last line, if the server sent it without a line feed."""
        rest = self._join(b"")
        return [rest] if rest.strip() else []


@final
class LineOrObjectSplitter(ByteBuffer):
    """Splits a byte stream into lines, or returns an indented JSON object as one payload.

    Servers write one object per line, but a proxy may indent a whole response. Its first line is
    then a single brace.
    """

    __slots__ = ("_is_multiline", "_lines")

    def __init__(self) -> None:
        super().__init__()
        self._lines = LineSplitter()
        self._is_multiline: bool | None = None
        """Whether the first line is a single brace; None before the first nonblank line."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes. Raises ProtocolError if one is too long."""
        lines = self._lines.feed(data)
        if self._is_multiline is None:
            self._is_multiline = _is_multiline_object(lines)
        if not self._is_multiline:
            return lines
        for line in lines:
            self._hold(line + b"\n")
        return []

    def close(self) -> list[bytes]:
        """Return the payload that remains at the end of the stream, if any."""
        rest = self._lines.close()
        return [self._join(b"".join(rest))] if self._is_multiline else rest


def _is_multiline_object(lines: list[bytes]) -> bool | None:
    for line in lines:
        start = line.removeprefix(BOM_UTF8).strip()
        if start:
            return start == b"{"
    return None


# -- server-sent events ----------------------------------------------------------------------

_find_simple_events: Final = re.compile(rb"(?:event: (?!error\n).*\n)?data: (.+)\n\n|.*\n").findall
"""Returns the data of events with one data line and at most an event name; b"" for other lines."""
_CR: Final = ord("\r")
"""An int, since `int in bytes` is five times faster than a search for bytes of length one."""
_find_lone_cr: Final = re.compile(rb"\r(?!\n)").search
_LETTER_E: Final = ord("e")


@final
class ErrorPayload(bytes):
    """The data of an SSE error event, whose JSON may not show that it is an error.

    A prefix makes the data invalid JSON, so that no decoder reads it as another event.
    """

    def __new__(cls, data: bytes) -> Self:
        """Prefix the data with `!`."""
        return super().__new__(cls, b"!" + data)

    @property
    def data(self) -> bytes:
        """The data without the prefix."""
        return bytes(self[1:])


@final
class SseSplitter(ByteBuffer):
    """Splits server-sent events into the payloads of their `data:` lines.

    Accepts CRLF, lone CR, comments, a byte order mark, a missing empty line at the end, several
    events in one chunk, and one event in several chunks. Lines end at CR and LF only, as the HTML
    standard requires, so U+2028 inside a string does not end a line. Payloads are not parsed.
    """

    __slots__ = ("_after_cr", "_is_first")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        super().__init__(max_bytes=max_bytes)
        self._after_cr = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes. Raises ProtocolError if one is too long."""
        return self.split_payloads(self.take_whole_events(data))

    def take_whole_events(self, data: bytes) -> bytes:
        """Return the events that `data` completes, with every line ending converted to LF.

        Raises ProtocolError if an event is too long.
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
            end = 1  # the chunk boundary is between the two line feeds
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
        """Return the last payloads, if the server omitted the final empty line."""
        return self._read_lines([*self._join(b"").split(_LF), b""])

    def _read_lines(self, lines: list[bytes]) -> list[bytes]:
        """Read complete events line by line, and return their payloads."""
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
                pass  # providers repeat the name of the event in its data
            elif data is None and line.startswith(b"data: "):
                data = line[6:]
            else:
                others.append(line)
        return found

    def _normalize(self, data: bytes) -> bytes:
        """Convert every line ending to LF; a CRLF may be split over two chunks."""
        if self._after_cr:
            if not data:
                return data
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        if _find_lone_cr(data) is None:
            return data.replace(b"\r", b"")  # half the cost of replacing CRLF by LF
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read_event(data: bytes | None, lines: list[bytes]) -> list[bytes]:
    """Return the payloads of an event with several data lines, an error, or JSON without `data:`.

    `data` is the value of the first data line, if there is one; `lines` are the other lines.
    """
    if data is None and lines[0].lstrip()[:1] in (b"{", b"["):
        return [_LF.join(lines)]  # a JSON error body that was written into the stream unchanged
    payloads = [] if data is None else [data]
    is_error = False
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data" or (field == b"error" and value[:1] == b"{"):
            payloads.append(value)
        is_error = is_error or field == b"error" or (field == b"event" and value == b"error")
    # If the first data line is complete JSON, the server omits the empty lines between events.
    if len(payloads) > 1 and not is_json_text(payloads[0].decode(errors="replace")):
        payloads = [_LF.join(payloads)]
    return [ErrorPayload(text) if is_error else text for text in payloads if text.strip()]


# -- a streamed JSON array -------------------------------------------------------------------

_LEADING_BLANKS: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
_WHITESPACE: Final = b" \t\r\n"
_DONE_PAYLOAD: Final = b"[DONE]"
_find_mark: Final = re.compile(rb'["{}]').search
# No possessive quantifiers: the first releases of Python 3.11 implement them incorrectly.
_match_string_rest: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL).match
_QUOTE, _OPENING, _BACKSLASH = b'"{\\'


@final
class JsonObjectSplitter(ByteBuffer):
    """Splits a JSON array, or a sequence of JSON objects, into objects; scans each byte once.

    Text between the objects, such as an error message, is returned as a separate payload.
    """

    __slots__ = ("_depth", "_in_string", "_is_escaped")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        super().__init__(max_bytes=max_bytes)
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        """Whether the latest chunk ended with a backslash inside a string."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes. Raises ProtocolError if one is too long."""
        if not data:
            return []
        found: list[bytes] = []
        start = 0
        at = self._skip_string(data, 0) if self._in_string else 0
        while (match := _find_mark(data, at)) is not None:
            at = match.end()
            mark = data[at - 1]
            if mark == _QUOTE:
                at = self._skip_string(data, at)
            elif mark == _OPENING:
                if self._depth == 0:
                    found += _find_text_between(self._join(data[start : at - 1]))
                    start = at - 1
                self._depth += 1
            elif self._depth > 0:
                self._depth -= 1
                if self._depth == 0:
                    found.append(self._join(data[start:at]))
                    start = at
        if start < len(data):
            self._hold(data[start:])
        self._check_lines(found)
        return found

    def close(self) -> list[bytes]:
        """Return the bytes after the last object, if any: an incomplete object or other text."""
        return _find_text_between(self._join(b""))

    def _skip_string(self, data: bytes, at: int) -> int:
        """Return the position after the closing quote of a string, or the end of the data."""
        match = _match_string_rest(data, at + self._is_escaped)
        assert match is not None  # the pattern matches the empty string
        end = match.end()
        self._is_escaped = end == len(data) - 1 and data[end] == _BACKSLASH
        self._in_string = data[end : end + 1] != b'"'
        return len(data) if self._in_string else end + 1


def _find_text_between(text: bytes) -> list[bytes]:
    """Return text outside of objects as a list; empty for whitespace, brackets and commas."""
    return [text] if text.strip(_WHITESPACE + b"[],") else []


@final
class SseOrArraySplitter:
    """Splits a stream of server-sent events, or a JSON array of objects, into payloads.

    Google streams an array unless the URL has `alt=sse`.
    """

    def __init__(self) -> None:
        self._splitter: SseSplitter | JsonObjectSplitter | None = None
        self._start = b""
        self.is_cut: bool = False
        """Whether the bytes ended inside a payload; set by `close`."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes. Raises ProtocolError if one is too long."""
        if self._splitter is None:
            data = self._start + data
            match = _LEADING_BLANKS.match(data)
            assert match is not None  # the pattern matches the empty string
            data = data[match.end() :]
            if BOM_UTF8.startswith(data):
                self._start = data
                return []
            self._splitter = JsonObjectSplitter() if data[:1] in (b"[", b"{") else SseSplitter()
        return self._splitter.feed(data)

    def close(self) -> list[bytes]:
        """Return the remaining payloads that are complete, and set `is_cut`."""
        rest = [] if self._splitter is None else self._splitter.close()
        complete = [payload for payload in rest if _is_complete(payload)]
        self.is_cut = len(complete) < len(rest)
        return complete


def _is_complete(payload: bytes) -> bool:
    if type(payload) is ErrorPayload or payload == _DONE_PAYLOAD:
        return True
    return is_json_text(payload.decode(errors="replace"))
