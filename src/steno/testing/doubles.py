"""Test doubles: a scripted provider, a provider that replays recorded bytes, and a scripted tool.

    provider = ScriptedProvider(["Hello.", RateLimited("later")])
    message = await provider.stream(request).collect()
    assert provider.requests == [request]

The doubles do not sleep and do not read a clock. A script waits at an `asyncio.Event` until the
test sets it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, final

from msgspec.structs import replace

from steno.assemble import WireEvent, events_from_message
from steno.errors import CutShort, InvalidValue
from steno.messages.call import ToolCall
from steno.messages.change import Change
from steno.messages.event import Finished
from steno.messages.message import AssistantMessage, ChatMessage
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.ports import CallPreview, Capability, Stream, ToolContext, ToolOutput, default_headline
from steno.providers.stream import SourceStream
from steno.transport.replay import RecordedResponse, ReplayedResponse
from steno.wire import EncodedRequest, Wire, load_wire

ScriptedStep: TypeAlias = WireEvent | asyncio.Event | Exception
"""A step of a turn: an event to stream, an `asyncio.Event` to wait for, or an error to raise."""
ScriptedTurn: TypeAlias = (
    str
    | AssistantMessage
    | Sequence[ScriptedStep]
    | Exception
    | Callable[[Request], "ScriptedTurn"]
)
"""The response to one request: text, a message, steps, an error, or a function that returns one."""
RecordedBody: TypeAlias = bytes | Path | RecordedResponse
"""The bytes of a response, a file with them, or a response with status, headers and waits."""
ScriptedAnswer: TypeAlias = (
    str
    | ToolOutput
    | BaseException
    | Sequence["asyncio.Event | ScriptedAnswer"]
    | Callable[[ToolCall, ToolContext], "ScriptedAnswer | Awaitable[ScriptedAnswer]"]
)
"""The result of one call: text, an output, or an exception to raise.

It may also be a function, plain or async, that returns a result, or a sequence of events to wait
for with the result at the end.
"""
_RECORDING_TYPES: Final = "bytes, Path or RecordedResponse"
_ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}


class ScriptRanOut(BaseException):
    """A test double received more requests or calls than the test prepared.

    It is a `BaseException`, like the exception of `pytest.fail`, because it is an error in the
    test. An agent converts every `Exception` of a tool to a result and would hide the error.
    """


# -- scripted provider -------------------------------------------------------------------------


@final
class ScriptedProvider:
    """A provider that streams the turns of a script, in order, and records the requests.

    A turn is one of:

    - a message, or its text, which is streamed as one event for each block;
      a message without a stop reason gets `tool_use` if it has calls, otherwise `end_turn`
    - a list of steps: events to stream, `asyncio.Event`s to wait for, exceptions to raise;
      if it does not end with `Finished`, reading the stream raises CutShort
    - an exception to raise
    - a function that takes the request and returns one of these
    """

    def __init__(self, turns: Iterable[ScriptedTurn]) -> None:
        """Create the provider. If `turns` is an iterator, each turn is taken when it is needed."""
        if isinstance(turns, str):
            raise TypeError("turns must be a list of turns, not a string")
        self._turns = iter(turns)
        self.requests: list[Request] = []
        """The requests whose streams were read, in order."""

    def stream(self, request: Request) -> Stream:
        """Return the stream of the next turn, which is chosen when the first event is read.

        Reading raises ScriptRanOut if there is no turn left.
        """
        return _ScriptedStream(_ScriptedSource(lambda: self._take(request)))

    def _take(self, request: Request) -> ScriptedTurn:
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise ScriptRanOut(f"script: no turn left for request {len(self.requests)}")
        while callable(turn):
            turn = turn(request)
        return turn


class _ScriptedStream(SourceStream):
    """A stream whose final message is the scripted message, even if events cannot express it."""

    def __init__(self, source: _ScriptedSource) -> None:
        super().__init__(source)
        self._script = source

    def message(self) -> AssistantMessage:
        return self._script.final_message or super().message()


class _ScriptedSource:
    def __init__(self, take: Callable[[], ScriptedTurn]) -> None:
        self._take = take
        self._steps: Iterable[ScriptedStep] | None = None
        self._message: AssistantMessage | None = None
        self.final_message: AssistantMessage | None = None
        """The scripted message; None until all of its events were streamed."""
        self._has_finished = False
        self._waiting: asyncio.Timeout | None = None

    async def read(self) -> Iterable[WireEvent] | None:
        if self._steps is None:
            self._steps = iter(self._begin(self._take()))
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                if not await self._wait(step):
                    return None
                continue
            self._has_finished = self._has_finished or isinstance(step, Finished)
            return (step,)
        if not self._has_finished:
            raise CutShort("script: the turn ended without a Finished event")
        self.final_message = self._message
        return None

    def redact(self, error: Exception) -> None:
        """Do nothing, because a script has no secrets."""

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.reschedule(0)

    def _begin(self, turn: ScriptedTurn) -> Iterable[ScriptedStep]:
        if isinstance(turn, str):
            turn = ChatMessage.assistant(turn)
        if isinstance(turn, AssistantMessage):
            if turn.stop_reason is None:
                reason = StopReason.TOOL_USE if turn.tool_calls else StopReason.END_TURN
                turn = replace(turn, stop_reason=reason)
            self._message = turn
            return events_from_message(turn)
        if isinstance(turn, Exception):
            return (turn,)
        assert not callable(turn)
        return turn

    async def _wait(self, event: asyncio.Event) -> bool:
        """Wait for the test to set the event; return False if the stream is closed first."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting = None
        return True


# -- replaying provider ------------------------------------------------------------------------


@final
class ReplayingProvider:
    """A provider that replays recorded responses, in order, and decodes them with a wire.

        provider = ReplayingProvider("openai_chat", [Path("response.sse")])

    Bytes that begin with `HTTP/1.` are parsed as an HTTP response with status and headers; any
    other bytes are the body of a stream.
    """

    def __init__(self, wire: str | Wire, recordings: Iterable[RecordedBody]) -> None:
        """Create the provider from a wire (a name or a module) and recordings.

        If `recordings` is an iterator, each recording is taken when it is needed. Raises
        InvalidValue if an item is not a recording; the items of an iterator are checked when a
        stream is read.
        """
        given: object = recordings
        if isinstance(given, (bytes, str)) or not isinstance(given, Iterable):
            kind = type(given).__name__
            raise InvalidValue(f"recordings: must be a list of {_RECORDING_TYPES}, not {kind}")
        if isinstance(given, Sequence):
            for recording in given:
                _check_recording(recording)
        self._wire = load_wire(wire) if isinstance(wire, str) else wire
        self._recordings = map(_read_recording, recordings)
        self.requests: list[Request] = []
        """The requests whose streams were read, in order."""
        self.sent: list[EncodedRequest] = []
        """The items of `requests` as encoded by the wire, with losses."""

    def stream(self, request: Request) -> Stream:
        """Return a stream of the next recording, which is chosen when the first event is read.

        Raises InvalidRequest if the wire cannot encode the request. Reading raises ScriptRanOut
        if there is no recording left.
        """
        encoded = self._wire.encode_request(request, stream=True)

        def open_next() -> ReplayedResponse:
            self.requests.append(request)
            self.sent.append(encoded)
            recorded = next(self._recordings, None)
            if recorded is None:
                raise ScriptRanOut(f"replay: no recording left for request {len(self.requests)}")
            return ReplayedResponse(recorded)

        source = _ReplaySource(open_next, self._wire, request.model)
        return _ReplayingStream(source, encoded.losses)


class _ReplayingStream(SourceStream):
    """A recorded response, with the losses of the request that it answers."""

    def __init__(self, source: _ReplaySource, losses: tuple[Change, ...]) -> None:
        super().__init__(source)
        self.losses: Final = losses


class _ReplaySource:
    def __init__(self, open_next: Callable[[], ReplayedResponse], wire: Wire, model: str) -> None:
        self._open_next = open_next
        self._wire = wire
        self._decoder = wire.StreamDecoder(model=model)
        self._response: ReplayedResponse | None = None
        self._is_at_end = False

    async def read(self) -> Iterable[WireEvent] | None:
        if self._is_at_end:
            return None
        if self._response is None:
            self._response = self._open_next()
            if not 200 <= self._response.status < 300:
                body = await self._read_all(self._response)
                raise self._wire.decode_error(self._response.status, body, self._response.headers)
            if self._response.headers.get("content-type", "").startswith("application/json"):
                body = await self._read_all(self._response)
                return self._decoder.decode_whole(body)
        piece = await self._response.read()
        if piece:
            return self._decoder.feed(piece)
        self._is_at_end = True
        return self._decoder.close()

    def redact(self, error: Exception) -> None:
        """Do nothing, because a replay sends no API key."""

    def close(self) -> None:
        if self._response is not None:
            self._response.close()

    async def _read_all(self, response: ReplayedResponse) -> bytes:
        self._is_at_end = True
        pieces: list[bytes] = []
        while piece := await response.read():
            pieces.append(piece)
        return b"".join(pieces)


def _check_recording(recording: object) -> None:
    if not isinstance(recording, (bytes, Path, RecordedResponse)):
        hint = "; for a file, pass a Path" if isinstance(recording, str) else ""
        kind = type(recording).__name__
        raise InvalidValue(f"recordings: each must be {_RECORDING_TYPES}, not {kind}{hint}")


def _read_recording(recording: RecordedBody) -> RecordedResponse:
    _check_recording(recording)
    if isinstance(recording, RecordedResponse):
        return recording
    body = recording.read_bytes() if isinstance(recording, Path) else recording
    is_http = body.startswith(b"HTTP/1.")
    return RecordedResponse.from_http(body) if is_http else RecordedResponse((body,))


# -- scripted tool -----------------------------------------------------------------------------


@final
class ScriptedTool:
    """A tool that returns the answers of a script, in order, and records the calls.

        weather = ScriptedTool("weather", ["Sunny.", ToolFailed("no such town")])
        await Agent(provider, conversation, tools=[weather]).run("What about Oslo?")
        assert weather.calls[0].get("town", str) == "Oslo"

    Without `answers`, every call returns `ok`; otherwise there must be an answer for every call.
    `subjects` and `preview` are each a value, a function of the call, or an exception to raise.
    The tool accepts any arguments unless `parameters` restricts them.
    """

    headline = staticmethod(default_headline)

    def __init__(
        self,
        name: str,
        answers: Iterable[ScriptedAnswer] | None = None,
        *,
        capability: Capability = Capability.READ,
        subjects: Sequence[str] | Callable[[ToolCall], tuple[str, ...]] | Exception = (),
        preview: str | Callable[[ToolCall], str | CallPreview] | Exception = "",
        parameters: Mapping[str, Any] = _ANY_OBJECT,
        description: str = "Returns the answers of a test script.",
    ) -> None:
        """Create the tool. If `answers` is an iterator, each answer is taken when it is needed."""
        if isinstance(answers, str):
            raise TypeError("answers must be a list of answers, not a string")
        self.definition: Final = ToolDefinition(
            name=name, description=description, parameters=parameters, strict=False
        )
        self.capability: Final = capability
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self._answers = iter(repeat("ok") if answers is None else answers)
        self._subjects = subjects
        self._preview = preview
        self.calls: Final[list[ToolCall]] = []
        """All calls of the tool, in the order in which they began."""
        self.ended: Final[list[ToolCall]] = []
        """The calls that returned an output or raised an exception, except cancelled calls."""
        self.stopped: Final[list[ToolCall]] = []
        """The calls that were cancelled while they waited."""
        self.begun: Final = asyncio.Event()
        """Set as soon as a call begins."""

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the scripted subjects of a call, or raise the scripted exception."""
        if isinstance(self._subjects, Exception):
            raise self._subjects
        return self._subjects(call) if callable(self._subjects) else tuple(self._subjects)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the scripted preview of a call, or raise the scripted exception."""
        if isinstance(self._preview, Exception):
            raise self._preview
        preview = self._preview(call) if callable(self._preview) else self._preview
        return CallPreview.of(preview) if isinstance(preview, str) else preview

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Return the next answer of the script, or raise it if it is an exception.

        Raises ScriptRanOut if there is no answer left; this exception also ends an agent's run.
        """
        self.calls.append(call)
        self.begun.set()
        finished = self.ended
        try:
            return await self._play(next(self._answers, None), call, context)
        except asyncio.CancelledError:
            finished = self.stopped
            raise
        finally:
            finished.append(call)

    async def _play(self, answer: Any, call: ToolCall, context: ToolContext) -> ToolOutput:
        if answer is None:
            name, number = self.definition.name, len(self.calls)
            raise ScriptRanOut(f"script: {name} has no answer for call {number}")
        while True:
            if callable(answer):
                answer = answer(call, context)
            elif inspect.isawaitable(answer):
                answer = await answer
            elif isinstance(answer, BaseException):
                raise answer
            elif isinstance(answer, str):
                return ToolOutput.of(answer)
            elif isinstance(answer, (list, tuple)):
                *steps, answer = answer
                for step in steps:
                    await step.wait()
            else:
                return cast("ToolOutput", answer)  # a test may return an invalid value on purpose
