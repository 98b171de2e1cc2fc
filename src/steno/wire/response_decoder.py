"""The base classes of all response decoders, which convert bytes to events.

A splitter cuts the bytes into payloads, and the `StreamDecoder` of a wire converts payloads to
events. The same class decodes a response that is not streamed. This module has no code for a
particular provider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from steno.assemble import Assembler, WireEvent
from steno.errors import CutShort, InvalidValue, ProtocolError, StenoError
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.wire.framing import SseSplitter
from steno.wire.repeated_events import RepeatedEventReader, TextOnlyEvent

_MAX_CHUNK_BYTES: Final = 32 * 1024
"""The size above which a chunk is read in parts, because larger chunks cost more per byte."""

UsageTable: TypeAlias = Mapping[str, tuple[str, ...]]
"""The JSON paths of each field of `Usage` in a protocol; the first path with a value is used."""


class PayloadSplitter(Protocol):
    """The interface of a splitter, which cuts a byte stream into payloads."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads that `data` completes."""
        ...

    def close(self) -> list[bytes]:
        """Return the remaining payloads, which the server did not terminate."""
        ...


class StreamDecoder(ABC):
    """Converts the bytes of one response to events, independently of chunk boundaries.

    An error is raised after the events that precede it: ProviderError for an error that the
    provider reports, ProtocolError for bytes that violate the protocol, and CutShort for a response
    that ends too early. No events follow an error.
    """

    def __init__(
        self, splitter: PayloadSplitter, decode: Callable[[bytes, list[Any]], None]
    ) -> None:
        """Create a decoder for one response; `decode` adds the events of a payload to a list."""
        self._splitter = splitter
        self._decode = decode
        self._is_over = False

    @property
    @abstractmethod
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response (id, model, ...), for the log."""

    @property
    def usage(self) -> Usage | None:
        """The token counts so far; None before any counts arrive.

        They are needed if the response breaks off.
        """
        return None

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        """Decode more bytes; the returned iterator yields their events, then raises any error."""
        if self._is_over:
            raise ProtocolError(
                "feed() was called after the stream ended", code="stream_closed", place="stream"
            )
        if type(data) is not bytes:
            data = _as_bytes(data)
        events: list[WireEvent] = []
        try:
            if len(data) <= _MAX_CHUNK_BYTES:
                self._read_chunk(data, events)
            else:
                # Read in parts, as if they had arrived separately, so that the same limit applies.
                for start in range(0, len(data), _MAX_CHUNK_BYTES):
                    self._read_chunk(data[start : start + _MAX_CHUNK_BYTES], events)
        except StenoError as exc:
            self._is_over = True
            self._abandon(events)
            return _yield_then_raise(events, exc)
        return iter(events)

    def close(self) -> Iterator[WireEvent]:
        """Signal the end of the stream, and return the last events.

        The returned iterator yields the events, then raises any error. Later calls return no
        events.
        """
        if self._is_over:
            return iter(())
        self._is_over = True
        events: list[WireEvent] = []
        try:
            self._decode_rest(events)
            self._finish(events)
        except StenoError as exc:
            self._abandon(events)
            return _yield_then_raise(events, exc)
        return iter(events)

    def decode_whole(self, data: bytes) -> list[WireEvent]:
        """Return the events of a response that is not streamed.

        Raises ProviderError, ProtocolError or CutShort, without returning the events before the
        error.
        """
        self._is_over = True
        events: list[WireEvent] = []
        self._read_whole(data, events)
        return events

    def _read_whole(self, data: bytes, events: list[Any]) -> None:
        """Add the events of a response that is not streamed; by default it is read as a stream."""
        self._read_chunk(data, events)
        self._decode_rest(events)
        self._finish(events)

    def _read_chunk(self, data: bytes, events: list[Any]) -> None:
        """Add the events of one chunk; a wire may override this method with a faster one."""
        for payload in self._splitter.feed(data):
            self._decode(payload, events)

    def _decode_rest(self, events: list[Any]) -> None:
        """Decode payloads that the server did not terminate; an incomplete payload is ignored.

        `_finish` decides whether the stream was cut off.
        """
        with suppress(ProtocolError):
            for payload in self._splitter.close():
                self._decode(payload, events)

    @abstractmethod
    def _finish(self, events: list[Any]) -> None:
        """Add the last events; raise CutShort if the bytes ended too early."""

    def _abandon(  # noqa: B027 - most wires hold nothing back
        self, events: list[Any]
    ) -> None:
        """Add the events of content that was held back; called if an error ends the response."""


def _as_bytes(data: object) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise InvalidValue(
        f"feed() takes bytes, not {type(data).__name__}", code="not_bytes", place="stream"
    )


def _yield_then_raise(events: list[Any], exc: StenoError) -> Iterator[WireEvent]:
    yield from events
    raise exc


def build_cut_short() -> CutShort:
    """Build the error for a stream that ended before the model finished."""
    return CutShort("the response ended before the model finished", place="stream")


class SseStreamDecoder(StreamDecoder):
    """Decodes server-sent events, with a fast path for events that differ only in one text."""

    def __init__(self, decode: Callable[[bytes, list[Any]], None]) -> None:
        """Create a decoder for one response; `decode` adds the events of a payload to a list."""
        self._sse_splitter = SseSplitter()
        super().__init__(self._sse_splitter, decode)
        self._repeated_events = RepeatedEventReader(self._read_text_only)

    def _read_chunk(self, data: bytes, events: list[Any]) -> None:
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

    @abstractmethod
    def _read_text_only(self, payload: bytes) -> TextOnlyEvent | None:
        """Return the content of a payload that is a single text, else None; has no side effects."""


class DecodeResponse(Protocol):
    """A function that decodes a response that is not streamed."""

    def __call__(
        self, data: bytes | str, *, provider: str = ..., model: str | None = ...
    ) -> AssistantMessage:
        """Return the message.

        Its seals, such as signatures and encrypted reasoning, are bound to `provider` and `model`,
        which is the name in the request. Raises ProviderError or ProtocolError.
        """
        ...


def build_decode_response(decoder: Callable[..., StreamDecoder], provider: str) -> DecodeResponse:
    """Return a function that decodes whole responses with the stream decoder of a wire."""
    default = provider

    def decode_response(
        data: bytes | str, *, provider: str = default, model: str | None = None
    ) -> AssistantMessage:
        """Decode a response that is not streamed.

        Seals, such as signatures and encrypted reasoning, are bound to `provider` and `model`,
        which is the name in the request. Raises ProviderError if the provider reports an error,
        and ProtocolError if the data violates the protocol.
        """
        body = data.encode(errors="surrogatepass") if isinstance(data, str) else data
        return assemble_message(decoder(provider=provider, model=model).decode_whole(body))

    return decode_response


def assemble_message(events: list[Any]) -> AssistantMessage:
    """Assemble a message from all events of a response."""
    assembler = Assembler()
    assembler.feed_all(events)
    return assembler.message()


# -- tables ----------------------------------------------------------------------------------


def map_stop_reason(table: Mapping[str, StopReason], raw: str | None) -> StopReason:
    """Return the StopReason for a provider's stop reason; UNKNOWN if it is not in the table."""
    return table.get(raw or "", StopReason.UNKNOWN)


def read_counts(tokens: object, table: UsageTable) -> dict[str, Any]:
    """Return token counts by field of `Usage`; absent and invalid counts are omitted."""
    found: dict[str, Any] = {}
    for field, paths in table.items():
        sent = (_value_at(tokens, path) for path in paths)
        count = next((value for value in sent if value is not None), None)
        if type(count) is int and count >= 0:
            found[field] = count
    return found


def _value_at(tokens: object, path: str) -> object:
    found = tokens
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return found
