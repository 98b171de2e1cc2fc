"""Wires with one fault each, which real clients have or had."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec.structs import replace

from steno import (
    AssistantMessage,
    BlockAdded,
    Finished,
    Message,
    ProtocolError,
    ProviderError,
    Request,
    StopReason,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Usage,
)
from steno.assemble import ToolCallPart, WireEvent
from steno.testing.conformance.servers import AnthropicMessagesServer, OpenAIChatServer
from steno.wire import EncodedRequest, StreamDecoder, Wire, anthropic_messages, openai_chat


class Decoder(StreamDecoder):
    """A decoder that wraps a correct one."""

    def __init__(self, inner: StreamDecoder) -> None:
        self.inner = inner

    @property
    def envelope(self) -> dict[str, Any]:
        return self.inner.envelope

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        return self.change(self.inner.feed(self.prepare(data)))

    def close(self) -> Iterator[WireEvent]:
        return self.change(self.inner.close())

    def _finish(self, events: list[WireEvent]) -> None: ...

    def prepare(self, data: bytes) -> bytes:
        return data

    def change(self, events: Iterator[WireEvent]) -> Iterator[WireEvent]:
        return chain.from_iterable(map(self.change_one, events))

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        return (event,)


class BrokenWire:
    """A correct wire with one fault: in its decoder, or in an override of a subclass."""

    def __init__(self, decoder: type[Decoder] = Decoder, good: Wire = openai_chat) -> None:
        self.decoder = decoder
        self.good = good

    @property
    def NAME(self) -> str:
        return self.good.NAME

    def StreamDecoder(self, **settings: Any) -> StreamDecoder:
        return self.decoder(self.good.StreamDecoder(**settings))

    def decode_response(self, data: bytes | str, **settings: Any) -> AssistantMessage:
        return self.good.decode_response(data, **settings)

    def decode_request(self, data: bytes | str, **settings: Any) -> Request:
        return self.good.decode_request(data, **settings)

    def encode_request(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        return self.good.encode_request(request, stream=stream)

    def decode_error(
        self, status: int, body: bytes | str, headers: Mapping[str, str] | None = None
    ) -> ProviderError:
        return self.good.decode_error(status, body, headers)


def server_for(wire: BrokenWire) -> OpenAIChatServer | AnthropicMessagesServer:
    server = OpenAIChatServer() if wire.good is openai_chat else AnthropicMessagesServer()
    server.wire = wire
    return server


# -- calls -----------------------------------------------------------------------------------------


class MergesCalls(Decoder):
    """Finds calls by index only, so that all of them become one."""

    has_begun = False

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if not isinstance(event, ToolCallPart):
            return (event,)
        id = None if self.has_begun else event.id
        self.has_begun = True
        return (ToolCallPart(0, id, event.name, event.arguments),)


class CrashesWithoutIndex(Decoder):
    """Assumes that every fragment has an index."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if isinstance(event, ToolCallPart):
            assert event.block + 1  # type: ignore[operator] # the fault
        return (event,)


class TakesEmptyForAnId(Decoder):
    """Begins a call for every id, even an empty one, and ignores late members."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if not isinstance(event, ToolCallPart):
            return (event,)
        if event.id == "" or (event.name and not event.arguments):
            return (ToolCallPart(9, "empty", "none", event.arguments),)
        late = event.id and not event.name
        return (replace(event, id="another", name="late") if late else event,)


class GuessesArguments(Decoder):
    """Repairs invalid arguments, and adds a member to missing ones."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if not isinstance(event, ToolCallPart):
            return (event,)
        given = event.arguments
        try:
            json.loads(given or "")
        except ValueError:
            given = '{"guess":1}'
        return (replace(event, arguments='{"guess":1}' if given == "{}" else given),)


# -- bytes -----------------------------------------------------------------------------------------


class SplitsLinesAsStrings(Decoder):
    """Splits lines with `str.splitlines`, as httpx does."""

    def prepare(self, data: bytes) -> bytes:
        text = data.decode(errors="replace")
        lines = text.splitlines(keepends=True)
        return "".join(f"{line}\n" if line[-1:] > "\r" else line for line in lines).encode()


class NeedsWholeEvents(Decoder):
    """Reads every chunk of bytes as one whole event, including line ends."""

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        if not data.endswith(b"\n\n") or b"\r" in data or data.startswith(b"\xef"):
            raise ProtocolError("stream: not an event")
        return super().feed(data)


class ReplacesCharacters(Decoder):
    """Converts text to ASCII, and ignores lone surrogates."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if isinstance(event, TextDelta):
            return (TextDelta(event.index, event.text.encode("ascii", "replace").decode()),)
        return (event,)


class StripsText(Decoder):
    """Strips whitespace and invisible characters."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if isinstance(event, TextDelta):
            return (TextDelta(event.index, event.text.strip().replace("\0", "")),)
        return (event,)


# -- ends ------------------------------------------------------------------------------------------


class LosesWhatCameBefore(Decoder):
    """Returns the events of a chunk only if all of it was decoded."""

    def change(self, events: Iterator[WireEvent]) -> Iterator[WireEvent]:
        return iter(list(events))


class EndsQuietly(Decoder):
    """Ends the turn at the end of the bytes, and ignores errors."""

    has_ended = False

    def change(self, events: Iterator[WireEvent]) -> Iterator[WireEvent]:
        try:
            for event in events:
                self.has_ended = self.has_ended or isinstance(event, Finished)
                yield event
        except (ProviderError, ProtocolError):
            if not self.has_ended:
                yield Finished(StopReason.END_TURN)


class EndsAgainAndAgain(Decoder):
    """Ends the turn at the stop reason and again at the marker, without a stop reason."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if not isinstance(event, Finished):
            return (event,)
        end = Finished(StopReason.END_TURN, "stop", Usage(input_tokens=1, output_tokens=1))
        return (end, end)

    def close(self) -> Iterator[WireEvent]:
        yield from super().close()
        yield Finished(StopReason.ERROR)


class WaitsForTheMark(Decoder):
    """Requires the end marker."""

    tail = b""

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        self.tail = (self.tail + data)[-20:]
        return super().feed(data)

    def close(self) -> Iterator[WireEvent]:
        if b"[DONE]" not in self.tail:
            raise ProtocolError("stream: no mark")
        return super().close()


# -- content ---------------------------------------------------------------------------------------


class SaysWhatItThinks(Decoder):
    """Decodes thinking as text."""

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        if isinstance(event, ThinkingDelta):
            return (TextDelta(0, event.text),)
        return (event,)


class DropsUnknownBlocks(Decoder):
    """Drops unknown members, events and blocks."""

    @property
    def envelope(self) -> dict[str, Any]:
        return {}

    def change_one(self, event: WireEvent) -> Iterable[WireEvent]:
        return () if isinstance(event, BlockAdded) else (event,)


class SaysThatItIsAlive(Decoder):
    """Returns text for every keep-alive, which has no content."""

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        yield from (TextDelta(0, "…") for _ in range(data.count(b": keep")))
        yield from super().feed(data)


class HearsNothing(Decoder):
    """Understands nothing."""

    def feed(self, data: bytes) -> Iterator[WireEvent]:
        return iter(())

    def close(self) -> Iterator[WireEvent]:
        return iter((Finished(StopReason.UNKNOWN),))


# -- other functions -------------------------------------------------------------------------------


class AnswersAnything(BrokenWire):
    """Decodes no whole response, reads errors only as JSON, and never sends the same bytes twice."""

    def decode_response(self, data: bytes | str, **settings: Any) -> AssistantMessage:
        return AssistantMessage(content=(), stop_reason=StopReason.ERROR)

    def decode_error(
        self, status: int, body: bytes | str, headers: Mapping[str, str] | None = None
    ) -> ProviderError:
        return ProviderError(json.loads(body)["error"]["message"], status=status)

    def encode_request(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        return EncodedRequest(json.dumps({"seed": random.random()}).encode())


class CountsMessages(BrokenWire):
    """Writes the number of messages before them."""

    def encode_request(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        encoded = super().encode_request(request, stream=stream)
        return replace(encoded, body=b'{"count":%d,' % len(request.messages) + encoded.body[1:])


class RemembersTooMuch(BrokenWire):
    """Has an encoder that assumes that a conversation only grows."""

    class Encoder:
        def __init__(self) -> None:
            self.seen: tuple[Message, ...] = ()

        def encode(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
            self.seen += request.messages[len(self.seen) :]
            return openai_chat.encode_request(replace(request, messages=self.seen), stream=stream)


class SendsAnything(BrokenWire):
    """Sends seals, blocks and ids to any target, and reports no loss."""

    def encode_request(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        encoded = super().encode_request(request, stream=stream)
        everything = [repr(_all_of(block)) for m in request.messages for block in m.content]
        body = encoded.json | {"everything": everything}
        return EncodedRequest(json.dumps(body, ensure_ascii=False).encode())


def _all_of(block: Any) -> Any:
    seal = block.seal.data if isinstance(block, Thinking) and block.seal else None
    return getattr(block, "raw", None), seal


BROKEN = {
    **{cls.__name__: BrokenWire(cls) for cls in Decoder.__subclasses__()},
    "DropsUnknownBlocks": BrokenWire(DropsUnknownBlocks, anthropic_messages),
    "AnswersAnything": AnswersAnything(),
    "CountsMessages": CountsMessages(),
    "RemembersTooMuch": RemembersTooMuch(),
    "SendsAnything": SendsAnything(good=anthropic_messages),
}
