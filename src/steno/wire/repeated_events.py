"""A fast path for stream events that differ from an earlier event in a single text.

Most events of a response differ in one string only. After such an event has been decoded in full,
the following events are compared with it byte by byte, many at once, and only the string is
decoded. Any other event is decoded in full, so that no content is guessed or skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec
from msgspec.json import encode

from steno.assemble import ToolCallPart, WireEvent
from steno.messages.event import TextDelta, ThinkingDelta
from steno.wire.tolerant import DECODE_ERRORS

_STRING_BODY: Final = rb'(?!")[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*'
"""Matches the characters of a nonempty JSON string; an empty one may have a special meaning."""
_PADDING: Final = rb"[A-Za-z0-9]*"
"""Matches the padding with which OpenAI and Mistral hide the length of the text of an event."""
_find_padding: Final = re.compile(rb'"(%b)"\}\Z' % _PADDING).search
_SPACES: Final = rb" *"
_PROBE_TEXT: Final = "An0ther"
"""Replaces the text or the padding of an event, to test how the decoded event changes."""
_match_single_data_event: Final = re.compile(rb"(?:event: .*\n)?data: \{.*\}").fullmatch
"""Matches an event with one data line and one object; other content would be lost."""

# Limits on the cost if a server is hostile, or if its events do not repeat.
_MAX_EVENT_BYTES: Final = 2048
_MAX_BATCH_BYTES: Final = 65_536
_MAX_INDEX: Final = 1 << 32
_MAX_CANDIDATES: Final = 8
_MAX_FAILURES: Final = 8
_DISABLED: Final = 1 << 62

_FindTexts: TypeAlias = Callable[[bytes], tuple[list[bytes], bytes]]
"""Returns the texts of the repeated events at the start of a block, and the remaining bytes."""


class TextOnlyEvent(NamedTuple):
    """An event whose only content is one text; `make` builds steno's event from block and text."""

    make: Callable[[int, str], WireEvent]
    block: int
    text: str


def build_arguments_delta(index: int, fragment: str) -> ToolCallPart:
    """Build the event for a fragment of the arguments of a call."""
    return ToolCallPart(index, None, None, fragment)


class _BatchReader(NamedTuple):
    """Finds the texts of repeated events, and decodes them as a JSON array of steno's events."""

    find: _FindTexts
    start: bytes
    between: bytes
    end: bytes
    decode: Callable[[bytes], list[WireEvent]]


@final
class RepeatedEventReader:
    """Reads events that equal an earlier event except for their text."""

    def __init__(self, read_text_only: Callable[[bytes], TextOnlyEvent | None]) -> None:
        """Start without a known event.

        `read_text_only` returns the content of a payload that is a single text, else None. It must
        not have side effects.
        """
        self._read_text_only = read_text_only
        self._latest_event: tuple[bytes, bytes] | None = None
        self._failures = 0
        self._expected: TextOnlyEvent | None = None
        self._batch_reader: _BatchReader | None = None
        self._payload = b""
        self.needs_check: bool = False
        """Whether an event was decoded in full, so that equal bytes may now mean another block."""
        self.min_bytes: int = _DISABLED
        """The minimum size of a batch for the fast path, which is not faster for a single event."""

    def remember(self, event: bytes, payload: bytes) -> None:
        """Remember an event that was decoded in full, and its payload, for later repetitions."""
        if self._failures >= _MAX_FAILURES or len(event) > _MAX_EVENT_BYTES:
            return
        if event.endswith(payload) and _match_single_data_event(event):
            self._latest_event = event.removesuffix(payload), payload
            self.min_bytes = 1

    def read(self, block: bytes, events: list[WireEvent]) -> bytes:
        """Decode the events at the start of `block` that repeat the known event.

        Return the remaining bytes, which the caller decodes in full.
        """
        if self._latest_event is not None:
            self._learn(*self._latest_event)
            self._latest_event = None
        elif self.needs_check and self._read_text_only(self._payload) != self._expected:
            self._forget()
        self.needs_check = False
        if self._batch_reader is None or len(block) > _MAX_BATCH_BYTES:
            return block
        find, start, between, end, decode = self._batch_reader
        texts, rest = find(block)
        if not texts:
            return block
        try:
            events += decode(start + between.join(texts) + end)
        except DECODE_ERRORS:  # half a surrogate pair; the other half arrives with the next event
            return block
        self._failures = 0
        return rest

    def _learn(self, before: bytes, payload: bytes) -> None:
        """Find the position of the text in a payload by replacing candidates with a probe text."""
        self._failures += 1
        self._forget()
        self._payload = payload
        expected = self._expected = self._read_text_only(payload)
        if expected is None or expected.block > _MAX_INDEX or _PROBE_TEXT.encode() in payload:
            return
        text, probe = encode(expected.text), expected._replace(text=_PROBE_TEXT)
        start = -1
        for _ in range(_MAX_CANDIDATES):
            start = payload.find(text, start + 1)
            if start < 0:
                return
            end = start + len(text)
            if self._read_text_only(payload[:start] + encode(_PROBE_TEXT) + payload[end:]) == probe:
                tail, variable = self._split_tail(payload, end - 1, expected)
                self._batch_reader = _build_batch_reader(
                    before + payload[: start + 1], tail, variable, probe
                )
                self.min_bytes = 2 * (len(before) + len(payload))
                return

    def _forget(self) -> None:
        self._batch_reader = None
        self.min_bytes = _DISABLED

    def _split_tail(
        self, payload: bytes, start: int, expected: TextOnlyEvent
    ) -> tuple[bytes, bytes]:
        """Return the constant bytes after the text, and a pattern for the variable bytes."""
        padding = _find_padding(payload, start)
        if padding is not None:
            begin, end = padding.span(1)
            probe = payload[:begin] + _PROBE_TEXT.encode() + payload[end:]
            if self._read_text_only(probe) == expected:
                return payload[start:begin], _PADDING + rb'"\}'
        return payload[start:-1].rstrip(b" "), _SPACES + rb"\}"


def _build_batch_reader(
    head: bytes, tail: bytes, variable: bytes, probe: TextOnlyEvent
) -> _BatchReader:
    """Return a reader of events whose text is between `head` and `tail`."""
    event = probe.make(probe.block, probe.text)
    start, end = encode(event).split(_PROBE_TEXT.encode())
    start = b"{" + start.partition(b",")[2]  # without the tag, since all elements have one type
    decode = _EVENT_DECODERS[type(event)]
    if tail == end and variable.startswith(_SPACES):
        # The bytes that close the object around the text also close steno's event.
        return _BatchReader(_build_last_text_finder(head), b"[" + start, b"," + start, b"]", decode)
    find = _build_inner_text_finder(head, tail, variable)
    return _BatchReader(find, b"[" + start, end + b"," + start, end + b"]", decode)


# Compiling a pattern for each response id would be expensive, so the bytes around the text are
# matched only by their length and compared afterwards.


def _build_last_text_finder(head: bytes) -> _FindTexts:
    """Return a finder for texts that end an event, each with the bytes that close its object."""
    find_texts = _compile_finder(rb'(?s:.{%d})(%b"\}%b)\}' % (len(head), _STRING_BODY, _SPACES))
    last = b"}\n\n"
    between = last + head

    def find(block: bytes) -> tuple[list[bytes], bytes]:
        found = find_texts(block)
        if head + between.join(found) + last == block:
            return found, b""
        at = 0
        for number, text in enumerate(found):
            if not text or not block.startswith(head, at):
                return found[:number], block[at:]
            at += len(between) + len(text)
        return [], block

    return find


def _build_inner_text_finder(head: bytes, tail: bytes, variable: bytes) -> _FindTexts:
    """Return a finder for texts that are followed by other members."""
    # The tail begins with the quote that ends the text, so there is one way to match it.
    event = rb'((?s:.{%d}))(%b)("(?s:.{%d}))%b' % (len(head), _STRING_BODY, len(tail) - 1, variable)
    find_parts: Any = _compile_finder(event)

    def find(block: bytes) -> tuple[list[bytes], bytes]:
        texts = [
            text if start == head and end == tail else b"" for start, text, end in find_parts(block)
        ]
        if all(texts):
            return texts, b""
        known = texts.index(b"")
        return texts[:known], block.split(b"\n\n", known)[known]

    return find


@lru_cache(maxsize=64)
def _compile_finder(event: bytes) -> Callable[[bytes], list[bytes]]:
    """Return a function that finds the groups of matching events; other lines have empty groups."""
    return re.compile(event + rb"\n\n|.*\n").findall


_EVENT_DECODERS: Final[dict[type[WireEvent], Callable[[bytes], list[Any]]]] = {
    TextDelta: msgspec.json.Decoder(list[TextDelta]).decode,
    ThinkingDelta: msgspec.json.Decoder(list[ThinkingDelta]).decode,
    ToolCallPart: msgspec.json.Decoder(list[ToolCallPart]).decode,
}
