"""What a stream says over and over, with another word in it each time.

A thousand events of an answer differ in one string. Once such an event was read member by member,
the next ones are compared with it byte for byte, many at once, and only the string is decoded.
What is not the same again is read in full: nothing is guessed, nothing is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec
from msgspec.json import encode

from steno.event import Event, ToolCallDelta
from steno.wire.open import NOT_AS_EXPECTED

_WORD: Final = rb'([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)'
_PADDING: Final = rb"[A-Za-z0-9]*"
"""What providers fill events up with, so that their lengths give nothing away."""
_find_padding: Final = re.compile(rb'"(%b)"\}\Z' % _PADDING).search
_BLANKS: Final = rb" *"
_ANOTHER: Final = "An0ther"
"""A word that takes the place of one, to see what depends on it; padding could be this, too."""
_is_plain: Final = re.compile(rb"(?:event: .*\n)?data: \{.*\}").fullmatch
"""One line of data that begins and ends with its object: what else an event holds would be lost."""

# What a server may cost us that has nothing of the kind, or means ill.
_LONGEST_EVENT: Final = 2048
_LARGEST_BLOCK: Final = 65_536
_MOST_PLACES: Final = 8
_MOST_FAILURES: Final = 8
_NEVER: Final = 1 << 62

_decode_texts: Final = msgspec.json.Decoder(list[str]).decode

_Find: TypeAlias = Callable[[bytes], Sequence[bytes]]
"""Returns the word of each event; an empty one, or none at all, if there is anything new."""


class Told(NamedTuple):
    """All that an event says: a text, and what makes an event of it."""

    make: Callable[[int, str], Event]
    block: int
    text: str


def more_arguments(index: int, fragment: str) -> ToolCallDelta:
    """Make the event of a call that grows."""
    return ToolCallDelta(index, None, None, fragment)


@final
class Refrain:
    """Reads events that are the last one again, but for their text."""

    def __init__(self, tell: Callable[[bytes], Told | None], *, is_lasting: bool = False) -> None:
        """Start without a refrain.

        `tell` returns what a payload says if that is some text and nothing else, and changes
        nothing. `is_lasting` promises that such events are alike in all answers: no id, no time.
        """
        self._tell = tell
        self._is_lasting = is_lasting
        self._latest: tuple[bytes, bytes] | None = None
        self._failures = 0
        self._told: Told | None = None
        self._find: _Find | None = None
        self._payload = b""
        self.is_in_doubt = False
        """Whether anything was read in full since: the same may be said of another block then."""
        self.least = _NEVER
        """How many bytes are worth it: for one event alone this is no shorter way."""

    def note(self, event: bytes, payload: bytes) -> None:
        """Remember an event that was read in full, and its payload: the next may be like it."""
        if self._failures >= _MOST_FAILURES or len(event) > _LONGEST_EVENT:
            return
        if event.endswith(payload) and _is_plain(event):
            self._latest = event.removesuffix(payload), payload
            self.least = 0

    def read(self, block: bytes, events: list[Event]) -> bool:
        """Add what whole events say; False, and nothing, if they are not the refrain alone."""
        if self._latest is not None:
            self._learn(*self._latest)
            self._latest = None
        elif self.is_in_doubt and self._tell(self._payload) != self._told:
            self._forget()
        self.is_in_doubt = False
        if self._find is None or self._told is None or len(block) > _LARGEST_BLOCK:
            return False
        words = self._find(block)
        if not words or not all(words):
            return False
        try:
            texts = _decode_texts(b'["%b"]' % b'","'.join(words))
        except NOT_AS_EXPECTED:  # half a character: its other half comes with the next event
            return False
        make, index, _ = self._told
        events += map(make, repeat(index), texts)
        self._failures = 0
        return True

    def _learn(self, before: bytes, payload: bytes) -> None:
        """Find out where in a payload its text stands, by putting another in its place."""
        self._failures += 1
        self._forget()
        self._payload = payload
        told = self._told = self._tell(payload)
        if told is None or _ANOTHER.encode() in payload:
            return
        text, another = encode(told.text), told._replace(text=_ANOTHER)
        start = -1
        for _ in range(_MOST_PLACES):
            start = payload.find(text, start + 1)
            if start < 0:
                return
            end = start + len(text)
            if self._tell(payload[:start] + encode(_ANOTHER) + payload[end:]) == another:
                tail, loose = self._tail(payload, end - 1, told)
                self._find = self._finder(before, payload[: start + 1], tail, loose)
                self.least = 2 * (len(before) + len(payload))
                return

    def _forget(self) -> None:
        self._find = None
        self.least = _NEVER

    def _tail(self, payload: bytes, start: int, told: Told) -> tuple[bytes, bytes]:
        """Return what follows the text each time, and a pattern for what may not be the same."""
        padding = _find_padding(payload, start)
        if padding is not None:
            begin, end = padding.span(1)
            if self._tell(payload[:begin] + _ANOTHER.encode() + payload[end:]) == told:
                return payload[start:begin], _PADDING + rb'"\}'
        return payload[start:-1].rstrip(b" "), _BLANKS + rb"\}"

    def _finder(self, before: bytes, head: bytes, tail: bytes, loose: bytes) -> _Find:
        if self._is_lasting:
            return _compiled(before, head, tail, loose)
        # An id would make a pattern of its own of each answer, and compiling is dear: what is
        # around the text is taken by its length, and compared.
        find: Any = _compiled(before, len(head), len(tail), loose)
        return lambda block: [
            word if start == head and end == tail else b"" for start, word, end in find(block)
        ]


@lru_cache(maxsize=64)
def _compiled(
    before: bytes, head: bytes | int, tail: bytes | int, loose: bytes
) -> Callable[[bytes], list[bytes]]:
    """Return what finds words between what is known, or between so many bytes and so many."""
    event = re.escape(before) + _known(head) + _WORD + _known(tail) + loose + rb"\n\n"
    return re.compile(event + rb"|.*\n").findall


def _known(part: bytes | int) -> bytes:
    return re.escape(part) if isinstance(part, bytes) else b"(.{%d})" % part
