"""What a stream says over and over, with another word in it each time.

A thousand events of an answer differ in one string. Once such an event was read member by member,
the next ones are compared with it byte for byte, many at once, and only the string is decoded.
What is not the same again is read in full: nothing is guessed, nothing is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec
from msgspec.json import encode

from steno.messages.event import Event, TextDelta, ThinkingDelta, ToolCallDelta
from steno.wire.tolerant import DECODE_ERRORS

_STRING_BODY: Final = rb'(?!")[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*'
"""What stands between two quotes; an empty text may mean something else to a wire."""
_PADDING: Final = rb"[A-Za-z0-9]*"
"""What providers fill events up with, so that their lengths give nothing away."""
_find_padding: Final = re.compile(rb'"(%b)"\}\Z' % _PADDING).search
_SPACES: Final = rb" *"
_PROBE_TEXT: Final = "An0ther"
"""A word that takes the place of one, to see what depends on it; padding could be this, too."""
_match_single_data_event: Final = re.compile(rb"(?:event: .*\n)?data: \{.*\}").fullmatch
"""One line of data that begins and ends with its object: what else an event holds would be lost."""

# What a server may cost us that has nothing of the kind, or means ill.
_MAX_EVENT_BYTES: Final = 2048
_MAX_BATCH_BYTES: Final = 65_536
_MAX_INDEX: Final = 1 << 32
_MAX_CANDIDATES: Final = 8
_MAX_FAILURES: Final = 8
_DISABLED: Final = 1 << 62

_FindTexts: TypeAlias = Callable[[bytes], tuple[list[bytes], bytes]]
"""Returns the words of events up to the first that holds anything new, and those from there on."""


class TextOnlyEvent(NamedTuple):
    """All that an event says: a text, and what makes an event of it, whose last member it is."""

    make: Callable[[int, str], Event]
    block: int
    text: str


def build_arguments_delta(index: int, fragment: str) -> ToolCallDelta:
    """Make the event of a call that grows."""
    return ToolCallDelta(index, None, None, fragment)


class _BatchReader(NamedTuple):
    """Finds the words, and makes events of them: what stands between those becomes our JSON."""

    find: _FindTexts
    start: bytes
    between: bytes
    end: bytes
    decode: Callable[[bytes], list[Event]]


@final
class RepeatedEventReader:
    """Reads events that are the last one again, but for their text."""

    def __init__(self, tell: Callable[[bytes], TextOnlyEvent | None]) -> None:
        """Start without a refrain.

        `tell` returns what a payload says if that is some text and nothing else, and changes
        nothing.
        """
        self._read_text_only = tell
        self._latest_event: tuple[bytes, bytes] | None = None
        self._failures = 0
        self._expected: TextOnlyEvent | None = None
        self._batch_reader: _BatchReader | None = None
        self._payload = b""
        self.needs_check = False
        """Whether anything was read in full since: the same may be said of another block then."""
        self.min_bytes = _DISABLED
        """How many bytes are worth it: for one event alone this is no shorter way."""

    def remember(self, event: bytes, payload: bytes) -> None:
        """Remember an event that was read in full, and its payload: the next may be like it."""
        if self._failures >= _MAX_FAILURES or len(event) > _MAX_EVENT_BYTES:
            return
        if event.endswith(payload) and _match_single_data_event(event):
            self._latest_event = event.removesuffix(payload), payload
            self.min_bytes = 1

    def read(self, block: bytes, events: list[Event]) -> bytes:
        """Add what whole events say as long as they are the refrain; return the rest of them."""
        if self._latest_event is not None:
            self._learn(*self._latest_event)
            self._latest_event = None
        elif self.needs_check and self._read_text_only(self._payload) != self._expected:
            self._forget()
        self.needs_check = False
        if self._batch_reader is None or len(block) > _MAX_BATCH_BYTES:
            return block
        find, start, between, end, decode = self._batch_reader
        words, rest = find(block)
        if not words:
            return block
        try:
            events += decode(start + between.join(words) + end)
        except DECODE_ERRORS:  # half a character: its other half comes with the next event
            return block
        self._failures = 0
        return rest

    def _learn(self, before: bytes, payload: bytes) -> None:
        """Find out where in a payload its text stands, by putting another in its place."""
        self._failures += 1
        self._forget()
        self._payload = payload
        told = self._expected = self._read_text_only(payload)
        if told is None or told.block > _MAX_INDEX or _PROBE_TEXT.encode() in payload:
            return
        text, another = encode(told.text), told._replace(text=_PROBE_TEXT)
        start = -1
        for _ in range(_MAX_CANDIDATES):
            start = payload.find(text, start + 1)
            if start < 0:
                return
            end = start + len(text)
            if (
                self._read_text_only(payload[:start] + encode(_PROBE_TEXT) + payload[end:])
                == another
            ):
                tail, loose = self._tail(payload, end - 1, told)
                self._batch_reader = _build_batch_reader(
                    before + payload[: start + 1], tail, loose, another
                )
                self.min_bytes = 2 * (len(before) + len(payload))
                return

    def _forget(self) -> None:
        self._batch_reader = None
        self.min_bytes = _DISABLED

    def _tail(self, payload: bytes, start: int, told: TextOnlyEvent) -> tuple[bytes, bytes]:
        """Return what follows the text each time, and a pattern for what may not be the same."""
        padding = _find_padding(payload, start)
        if padding is not None:
            begin, end = padding.span(1)
            if self._read_text_only(payload[:begin] + _PROBE_TEXT.encode() + payload[end:]) == told:
                return payload[start:begin], _PADDING + rb'"\}'
        return payload[start:-1].rstrip(b" "), _SPACES + rb"\}"


def _build_batch_reader(
    head: bytes, tail: bytes, loose: bytes, another: TextOnlyEvent
) -> _BatchReader:
    """Return what reads events with such a text between `head` and `tail`."""
    event = another.make(another.block, another.text)
    start, end = encode(event).split(_PROBE_TEXT.encode())
    start = b"{" + start.partition(b",")[2]  # in a list of one kind nobody has to say which
    decode = _EVENT_DECODERS[type(event)]
    if tail == end and loose.startswith(_SPACES):
        # What closes the object that the text stands in closes ours as well, blanks and all.
        return _BatchReader(_build_last_text_finder(head), b"[" + start, b"," + start, b"]", decode)
    find = _build_inner_text_finder(head, tail, loose)
    return _BatchReader(find, b"[" + start, end + b"," + start, end + b"]", decode)


# An id would make a pattern of its own of each answer, and compiling is dear: what is around the
# text is taken by its length, and compared.


def _build_last_text_finder(head: bytes) -> _FindTexts:
    """Return what finds texts that are the last of an event, each with what closes its object."""
    words = _compile_finder(rb'(?s:.{%d})(%b"\}%b)\}' % (len(head), _STRING_BODY, _SPACES))
    last = b"}\n\n"
    between = last + head

    def find(block: bytes) -> tuple[list[bytes], bytes]:
        found = words(block)
        if head + between.join(found) + last == block:
            return found, b""
        at = 0
        for number, word in enumerate(found):
            if not word or not block.startswith(head, at):
                return found[:number], block[at:]
            at += len(between) + len(word)
        return [], block

    return find


def _build_inner_text_finder(head: bytes, tail: bytes, loose: bytes) -> _FindTexts:
    """Return what finds texts with more behind them."""
    # The tail begins with the quote that ends the text, so there is one way to match it.
    event = rb'((?s:.{%d}))(%b)("(?s:.{%d}))%b' % (len(head), _STRING_BODY, len(tail) - 1, loose)
    parts: Any = _compile_finder(event)

    def find(block: bytes) -> tuple[list[bytes], bytes]:
        words = [
            word if start == head and end == tail else b"" for start, word, end in parts(block)
        ]
        if all(words):
            return words, b""
        known = words.index(b"")
        return words[:known], block.split(b"\n\n", known)[known]

    return find


@lru_cache(maxsize=64)
def _compile_finder(event: bytes) -> Callable[[bytes], list[bytes]]:
    """Return what finds the groups of an event; they are empty in lines of any other."""
    return re.compile(event + rb"\n\n|.*\n").findall


_EVENT_DECODERS: Final[dict[type[Event], Callable[[bytes], list[Any]]]] = {
    TextDelta: msgspec.json.Decoder(list[TextDelta]).decode,
    ThinkingDelta: msgspec.json.Decoder(list[ThinkingDelta]).decode,
    ToolCallDelta: msgspec.json.Decoder(list[ToolCallDelta]).decode,
}
