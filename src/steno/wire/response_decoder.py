"""The part that all stream decoders share: pieces in, events out, faults last."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

from steno.assemble import Assembler
from steno.errors import CutShort, InvalidValue, ProtocolError, StenoError
from steno.messages.event import Event
from steno.messages.message import AssistantMessage
from steno.messages.usage import Usage
from steno.wire.repeated_events import RepeatedEventReader, TextOnlyEvent
from steno.wire.sse import SseSplitter

_MAX_CHUNK_BYTES: Final = 32 * 1024
"""So much is read at once: what is larger is dearer to read, letter by letter."""


class PayloadSplitter(Protocol):
    """Cuts a byte stream into payloads."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the payloads that are whole now."""
        ...

    def close(self) -> list[bytes]:
        """Return what is left."""
        ...


class StreamDecoder(ABC):
    """Turns the bytes of one answer into events, however they are cut into pieces.

    Faults are raised behind the events that came before them: a ProviderError for what the
    provider reported, a ProtocolError for bytes that make no sense, CutShort for an answer that
    ends too early. After a fault there is nothing more.
    """

    def __init__(
        self, splitter: PayloadSplitter, decode: Callable[[bytes, list[Event]], None]
    ) -> None:
        """Start with a splitter and a function that adds the events of one payload to a list."""
        self._splitter = splitter
        self._decode = decode
        self._is_over = False

    @property
    @abstractmethod
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer (id, model, ...), for the record."""

    @property
    def usage(self) -> Usage | None:
        """What was counted so far, if that is told on the way: all there is of a broken answer."""
        return None

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take more bytes; return the events in them."""
        if self._is_over:
            raise ProtocolError("stream: fed after its end")
        if type(data) is not bytes:
            data = _as_bytes(data)
        events: list[Event] = []
        try:
            if len(data) <= _MAX_CHUNK_BYTES:
                self._read_chunk(data, events)
            else:
                # As if it had come so: what is too long to wait for costs nothing before it.
                for start in range(0, len(data), _MAX_CHUNK_BYTES):
                    self._read_chunk(data[start : start + _MAX_CHUNK_BYTES], events)
        except StenoError as exc:
            self._is_over = True
            self._abandon(events)
            return _yield_then_raise(events, exc)
        return iter(events)

    def close(self) -> Iterator[Event]:
        """Say that there are no more bytes; return the last events. Calling it twice is fine."""
        if self._is_over:
            return iter(())
        self._is_over = True
        events: list[Event] = []
        try:
            self._decode_rest(events)
            self._finish(events)
        except StenoError as exc:
            self._abandon(events)
            return _yield_then_raise(events, exc)
        return iter(events)

    def _read_chunk(self, data: bytes, events: list[Event]) -> None:
        """Add the events of more bytes; for a wire that knows a shorter way to override."""
        for payload in self._splitter.feed(data):
            self._decode(payload, events)

    def _decode_rest(self, events: list[Event]) -> None:
        """Decode what has no end of its own, if it is whole: servers forget to end it.

        Else it was cut, and what that means is for `_finish` to say.
        """
        with suppress(ProtocolError):
            for payload in self._splitter.close():
                self._decode(payload, events)

    @abstractmethod
    def _finish(self, events: list[Event]) -> None:
        """Add what the end of the bytes means; raise CutShort if it comes too early."""

    def _abandon(  # noqa: B027 - most wires hold nothing back
        self, events: list[Event]
    ) -> None:
        """Add what was held back and is worth keeping, now that a fault ends it all."""


class SseStreamDecoder(StreamDecoder):
    """Decodes server-sent events, most of which repeat one another but for a word."""

    def __init__(
        self,
        decode: Callable[[bytes, list[Event]], None],
        tell: Callable[[bytes], TextOnlyEvent | None],
    ) -> None:
        """Start with a function that adds the events of a payload; for `tell` see `RepeatedEventReader`."""
        self._sse_splitter = SseSplitter()
        super().__init__(self._sse_splitter, decode)
        self._repeated_events = RepeatedEventReader(tell)

    def _read_chunk(self, data: bytes, events: list[Event]) -> None:
        whole = self._sse_splitter.take_whole_events(data)
        if len(whole) >= self._repeated_events.min_bytes:
            whole = self._repeated_events.read(whole, events)
        if not whole:
            return
        payloads = self._sse_splitter.split_payloads(whole)
        for payload in payloads:
            self._decode(payload, events)
        self._repeated_events.needs_check = True
        if len(payloads) > 1:
            self._repeated_events.remember(
                whole[whole.rfind(b"\n\n", 0, -2) + 2 : -2], payloads[-1]
            )


def _as_bytes(data: object) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise InvalidValue(f"stream: takes bytes as they arrive, not {type(data).__name__}")


def _yield_then_raise(events: list[Event], exc: StenoError) -> Iterator[Event]:
    yield from events
    raise exc


def build_cut_short() -> CutShort:
    """Make the error of a stream that ended before the model did."""
    return CutShort("stream: it ended before the model had finished")


def assemble_message(events: list[Event]) -> AssistantMessage:
    """Make the message of a whole turn."""
    assembler = Assembler()
    assembler.feed_all(events)
    return assembler.message()
