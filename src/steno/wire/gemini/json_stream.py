r"""Split a stream into payloads: server-sent events, or one JSON array that grows.

The first byte decides: without `alt=sse` the API streams `[{...},\n{...}]`. A single object is an
error, or the response of a proxy that does not stream.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import Final, final

from steno.json_object import is_json_text
from steno.wire.byte_buffer import MAX_BUFFERED_BYTES, ByteBuffer
from steno.wire.sse import ErrorPayload, SseSplitter

_LEADING_BLANKS: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
_WHITESPACE: Final = b" \t\r\n"
_DONE_PAYLOAD: Final = b"[DONE]"


@final
class SseOrArraySplitter:
    """Splits a response of either form into payloads."""

    def __init__(self) -> None:
        self._splitter: SseSplitter | JsonObjectSplitter | None = None
        self._start = b""
        self.is_cut: bool = False
        """Whether the bytes ended inside a payload; set by `close`."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the payloads that are complete now. Raises ProtocolError."""
        if self._splitter is None:
            data = self._start + data
            data = data[_count_leading_blanks(data) :]
            if BOM_UTF8.startswith(data):
                self._start = data
                return []
            self._splitter = JsonObjectSplitter() if data[:1] in (b"[", b"{") else SseSplitter()
        return self._splitter.feed(data)

    def close(self) -> list[bytes]:
        """Return the last payloads, if they are complete."""
        rest = [] if self._splitter is None else self._splitter.close()
        complete = [payload for payload in rest if _is_complete(payload)]
        self.is_cut = len(complete) < len(rest)
        return complete


def _count_leading_blanks(data: bytes) -> int:
    """Return the number of blanks and byte order marks at the start."""
    match = _LEADING_BLANKS.match(data)
    assert match is not None  # the pattern also matches nothing
    return match.end()


def _is_complete(payload: bytes) -> bool:
    if type(payload) is ErrorPayload or payload == _DONE_PAYLOAD:
        return True
    return is_json_text(payload.decode(errors="replace"))


_find_mark: Final = re.compile(rb'["{}]').search
# Without possessive quantifiers: the first releases of Python 3.11 have a bug in them.
_match_string_rest: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL).match
_QUOTE, _OPENING, _BACKSLASH = b'"{\\'


@final
class JsonObjectSplitter(ByteBuffer):
    """Splits a JSON array, or bare objects, into objects; each byte is read once."""

    __slots__ = ("_depth", "_in_string", "_is_escaped")

    def __init__(self, *, max_bytes: int = MAX_BUFFERED_BYTES) -> None:
        """Start at the beginning of a stream."""
        super().__init__(max_bytes=max_bytes)
        self._depth = 0
        self._in_string = False
        self._is_escaped = False
        """Whether the bytes ended with a backslash inside a string."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the objects that are complete now. Raises ProtocolError."""
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
        """Return the bytes after the last object: half an object, or other text."""
        return _find_text_between(self._join(b""))

    def _skip_string(self, data: bytes, at: int) -> int:
        """Return the end of a string from `at` on: after its quote, or the end of the data."""
        match = _match_string_rest(data, at + self._is_escaped)
        assert match is not None  # the pattern also matches nothing
        end = match.end()
        self._is_escaped = end == len(data) - 1 and data[end] == _BACKSLASH
        self._in_string = data[end : end + 1] != b'"'
        return len(data) if self._in_string else end + 1


def _find_text_between(text: bytes) -> list[bytes]:
    """Return the text between two objects, if it is more than punctuation."""
    return [text] if text.strip(_WHITESPACE + b"[],") else []
