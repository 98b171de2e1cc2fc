r"""How an answer is cut into pieces: server-sent events, or one JSON array that grows.

The first byte tells which: without `alt=sse` the API streams `[{...},\n{...}]`. An object where
a stream was asked for is an error, or the answer of a proxy that does not stream.
"""

from __future__ import annotations

import re
from typing import Final, final

from steno.json_object import is_json_text
from steno.wire.byte_buffer import MAX_BUFFERED_BYTES, ByteBuffer
from steno.wire.sse import ErrorPayload, SseSplitter

BOM: Final = b"\xef\xbb\xbf"
"""What some servers put before everything."""
_LEADING_BLANKS: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
_WHITESPACE: Final = b" \t\r\n"
_DONE_PAYLOAD: Final = b"[DONE]"


@final
class SseOrArraySplitter:
    """Cuts an answer in either form into the payloads of its chunks."""

    def __init__(self) -> None:
        self._splitter: SseSplitter | JsonObjectSplitter | None = None
        self._start = b""
        self.is_cut = False
        """Whether the bytes ended inside a chunk; known when closed."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are whole now. Raises ProtocolError."""
        if self._splitter is None:
            data = self._start + data
            data = data[_count_leading_blanks(data) :]
            if BOM.startswith(data):
                self._start = data
                return []
            self._splitter = JsonObjectSplitter() if data[:1] in (b"[", b"{") else SseSplitter()
        return self._splitter.feed(data)

    def close(self) -> list[bytes]:
        """Return what is left, unless the stream broke off inside it."""
        left = [] if self._splitter is None else self._splitter.close()
        whole = [payload for payload in left if _is_complete(payload)]
        self.is_cut = len(whole) < len(left)
        return whole


def _count_leading_blanks(data: bytes) -> int:
    """Return how much at the start says nothing: blanks and byte order marks."""
    match = _LEADING_BLANKS.match(data)
    assert match is not None  # the pattern takes nothing as well
    return match.end()


def _is_complete(payload: bytes) -> bool:
    if type(payload) is ErrorPayload or payload == _DONE_PAYLOAD:
        return True
    return is_json_text(payload.decode(errors="replace"))


_find_mark: Final = re.compile(rb'["{}]').search
# Nothing possessive here: Python 3.11 got that wrong in its first releases.
_match_string_rest: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL).match
_QUOTE, _OPENING, _BACKSLASH = b'"{\\'


@final
class JsonObjectSplitter(ByteBuffer):
    """Cuts JSON objects out of an array, or out of nothing around them; each byte is read once."""

    __slots__ = ("_depth", "_in_string", "_is_escaped")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Start at the beginning of a stream."""
        super().__init__(max_bytes=max_bytes)
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        """Whether a backslash waits for what it escapes."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the objects that are whole now. Raises ProtocolError."""
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
        """Return what is left at the end: half an object, or what is none."""
        return _find_text_between(self._join(b""))

    def _skip_string(self, data: bytes, at: int) -> int:
        """Return where a string ends that goes on at `at`: behind its quote, or with the data."""
        match = _match_string_rest(data, at + self._is_escaped)
        assert match is not None  # the pattern takes nothing as well
        end = match.end()
        self._is_escaped = end == len(data) - 1 and data[end] == _BACKSLASH
        self._in_string = data[end : end + 1] != b'"'
        return len(data) if self._in_string else end + 1


def _find_text_between(text: bytes) -> list[bytes]:
    """Return what stands between two objects, if it is more than punctuation."""
    return [text] if text.strip(_WHITESPACE + b"[],") else []
