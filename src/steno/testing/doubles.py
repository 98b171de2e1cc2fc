"""Providers for tests: one that says what a script says, and one that plays recorded bytes.

    provider = ScriptedProvider(["Hello.", RateLimited("later")])
    message = await provider.stream(request).collect()
    assert provider.requests == [request]

Nothing here sleeps or looks at a clock. A script waits where it holds an `asyncio.Event`, until
the test sets it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, final

from msgspec.structs import replace

from steno.assemble import events_from_message
from steno.errors import CutShort, InvalidValue
from steno.messages.call import ToolCall
from steno.messages.event import Event, Finished
from steno.messages.message import AssistantMessage, ChatMessage
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.ports import Capability, Stream, ToolContext, ToolOutput
from steno.providers.stream import SourceStream
from steno.transport.replay import RecordedResponse, ReplayedResponse
from steno.wire import EncodedRequest, Wire, load_wire

ScriptedStep: TypeAlias = Event | asyncio.Event | Exception
"""What happens in a turn: something is said, the test is waited for, something goes wrong."""


ScriptedTurn: TypeAlias = (
    str
    | AssistantMessage
    | Sequence[ScriptedStep]
    | Exception
    | Callable[[Request], "ScriptedTurn"]
)
"""The answer to one request: text, a message, events, an error, or a function that returns one."""


class ScriptRanOut(BaseException):
    """More was asked of a scripted provider or tool, or of a recording, than its test prepared.

    It is the test that is wrong, so nothing in between may take this for a failure that it can
    handle: an agent makes a result of whatever `Exception` a tool raises. Hence it is none, like
    what `pytest.fail` raises.
    """


# -- scripted --------------------------------------------------------------------------------


@final
class ScriptedProvider:
    """Answers requests with the turns of a script, in order, and remembers the requests.

    A turn is a message (text for short), told in one event for each block; or a list of events,
    with an `asyncio.Event` wherever the test is to be waited for and an exception where one is
    raised; or an exception; or a function that takes the request and returns any of these. A
    message without a stop reason gets one; a list of events that does not end in `Finished` is
    a stream that was cut short.
    """

    def __init__(self, turns: Iterable[ScriptedTurn]) -> None:
        """Take the turns. An iterator is asked for the next turn when it is needed."""
        if isinstance(turns, str):
            raise TypeError("turns must be a list of turns, not one text")
        self._turns = iter(turns)
        self.requests: list[Request] = []
        """Every request that was sent: from which something was read."""

    def stream(self, request: Request) -> Stream:
        """Return the answer of the next turn; it is taken when the first event is asked for.

        Reading raises ScriptRanOut if there is no turn left.
        """
        return _ScriptedStream(_ScriptedSource(lambda: self._take(request)))

    def _take(self, request: Request) -> ScriptedTurn:
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise ScriptRanOut(f"script: there is no turn for request {len(self.requests)}")
        while callable(turn):
            turn = turn(request)
        return turn


class _ScriptedStream(SourceStream):
    """A stream whose message at the end is the one that was scripted, whatever is odd in it."""

    def __init__(self, source: _ScriptedSource) -> None:
        super().__init__(source)
        self._script = source

    def message(self) -> AssistantMessage:
        return self._script.final_message or super().message()


class _ScriptedSource:
    """Plays one turn, step by step."""

    def __init__(self, take: Callable[[], ScriptedTurn]) -> None:
        self._take = take
        self._steps: Iterable[ScriptedStep] | None = None
        self._message: AssistantMessage | None = None
        self.final_message: AssistantMessage | None = None
        """The message of the turn, once it was told to its end."""
        self._has_finished = False
        self._waiting: asyncio.Timeout | None = None

    async def read(self) -> Iterable[Event] | None:
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
            raise CutShort("script: it ended without a Finished")
        self.final_message = self._message
        return None

    def redact(self, error: Exception) -> None:
        """Leave it: there is nothing secret in a script."""

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.reschedule(0)

    def _begin(self, turn: ScriptedTurn) -> Iterable[ScriptedStep]:
        if isinstance(turn, str):
            turn = ChatMessage.assistant(turn)
        if isinstance(turn, AssistantMessage):
            self._message = _with_stop_reason(turn)
            return events_from_message(self._message)
        if isinstance(turn, Exception):
            return (turn,)
        assert not callable(turn)
        return turn

    async def _wait(self, event: asyncio.Event) -> bool:
        """Wait for the test; tell whether it came, rather than the end of the stream."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting = None
        return True


def _with_stop_reason(message: AssistantMessage) -> AssistantMessage:
    if message.stop_reason is not None:
        return message
    reason = StopReason.TOOL_USE if message.tool_calls else StopReason.END_TURN
    return replace(message, stop_reason=reason)


# -- replaying -------------------------------------------------------------------------------

RecordedBody: TypeAlias = bytes | Path | RecordedResponse
"""The body of an answer, a file that holds one, or one with status, headers and waits."""


_RECORDING_TYPES: Final = "bytes, Path or RecordedResponse"


@final
class ReplayingProvider:
    """Answers requests with recorded bytes of one protocol, read by its wire.

        provider = ReplayingProvider("openai_chat", [Path("answer.sse")])

    Bytes that begin like an HTTP response are read as one, with status and headers; others are
    the body of a stream.
    """

    def __init__(self, wire: str | Wire, recordings: Iterable[RecordedBody]) -> None:
        """Take the wire, by name or a module of your own, and the answers in order.

        An iterator is asked for the next answer when it is needed. Raises InvalidValue for what
        is no recording; where an iterator brings it, reading raises it.
        """
        _check_recordings(recordings)
        self._wire = load_wire(wire) if isinstance(wire, str) else wire
        self._recordings = map(_read_recording, recordings)
        self.requests: list[Request] = []
        """Every request that was sent: from which something was read."""
        self.sent: list[EncodedRequest] = []
        """The same in the words of the wire, with what got lost."""

    def stream(self, request: Request) -> Stream:
        """Return the next recorded answer, opened when the first event is asked for.

        Reading raises ScriptRanOut if there is none left. Raises InvalidRequest as the wire does.
        """
        encoded = self._wire.encode_request(request, stream=True)

        def open_next() -> ReplayedResponse:
            self.requests.append(request)
            self.sent.append(encoded)
            recorded = next(self._recordings, None)
            if recorded is None:
                raise ScriptRanOut(f"replay: there is no answer to request {len(self.requests)}")
            return ReplayedResponse(recorded)

        return SourceStream(_ReplaySource(open_next, self._wire, request.model))


class _ReplaySource:
    """Reads one recorded answer."""

    def __init__(self, open_next: Callable[[], ReplayedResponse], wire: Wire, model: str) -> None:
        self._open_next = open_next
        self._wire = wire
        self._model = model
        self._decoder = wire.StreamDecoder(model=model)
        self._answer: ReplayedResponse | None = None
        self._is_at_end = False

    async def read(self) -> Iterable[Event] | None:
        if self._is_at_end:
            return None
        if self._answer is None:
            self._answer = self._open_next()
            if not 200 <= self._answer.status < 300:
                body = await self._read_all(self._answer)
                raise self._wire.decode_error(self._answer.status, body, self._answer.headers)
            if self._answer.headers.get("content-type", "").startswith("application/json"):
                body = await self._read_all(self._answer)
                return events_from_message(self._wire.decode_response(body, model=self._model))
        piece = await self._answer.read()
        if piece:
            return self._decoder.feed(piece)
        self._is_at_end = True
        return self._decoder.close()

    def redact(self, error: Exception) -> None:
        """Leave it: there is no key."""

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()

    async def _read_all(self, answer: ReplayedResponse) -> bytes:
        self._is_at_end = True
        pieces: list[bytes] = []
        while piece := await answer.read():
            pieces.append(piece)
        return b"".join(pieces)


def _check_recordings(recordings: object) -> None:
    if isinstance(recordings, (bytes, str)) or not isinstance(recordings, Iterable):
        kind = type(recordings).__name__
        raise InvalidValue(f"recordings: must be a list of {_RECORDING_TYPES}, not {kind}")
    if isinstance(recordings, Sequence):
        for recording in recordings:
            _check_recording(recording)


def _check_recording(recording: object) -> None:
    if not isinstance(recording, (bytes, Path, RecordedResponse)):
        hint = "; a file is named by its Path" if isinstance(recording, str) else ""
        kind = type(recording).__name__
        raise InvalidValue(f"recordings: each must be {_RECORDING_TYPES}, not {kind}{hint}")


def _read_recording(recording: RecordedBody) -> RecordedResponse:
    _check_recording(recording)
    if isinstance(recording, RecordedResponse):
        return recording
    body = recording.read_bytes() if isinstance(recording, Path) else recording
    return (
        RecordedResponse.from_http(body)
        if body.startswith(b"HTTP/1.")
        else RecordedResponse((body,))
    )


# -- tools -----------------------------------------------------------------------------------------
#
# A tool for tests that does what a script says.
#
# weather = ScriptedTool("weather", ["Sunny.", ToolFailed("no such town")])
# await Agent(provider, conversation, tools=[weather]).run("What about Oslo?")
# assert weather.calls[0].get("town", str) == "Oslo"
#
# Nothing here sleeps or looks at a clock. A script waits where it holds an `asyncio.Event`, until
# the test sets it.


ScriptedAnswer: TypeAlias = (
    str
    | ToolOutput
    | BaseException
    | Sequence["asyncio.Event | ScriptedAnswer"]
    | Callable[[ToolCall, ToolContext], "ScriptedAnswer | Awaitable[ScriptedAnswer]"]
)
"""What comes of one call: text, an output, something that is raised, events to wait for and then
one of these, or a function, plain or async, that returns one."""


_ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}


@final
class ScriptedTool:
    """Answers calls with the answers of a script, in order, and remembers the calls.

    Without answers every call is answered with `ok`; a list of answers has to last. What a call
    is about (`subjects`) and what is shown of it (`preview`) is always the same, or what a
    function makes of the call; an exception is raised. Any arguments fit, unless `parameters`
    say otherwise.
    """

    def __init__(
        self,
        name: str,
        answers: Iterable[ScriptedAnswer] | None = None,
        *,
        capability: Capability = Capability.READ,
        subjects: Sequence[str] | Callable[[ToolCall], tuple[str, ...]] | Exception = (),
        preview: str | Callable[[ToolCall], str] | Exception = "",
        parameters: Mapping[str, Any] = _ANY_OBJECT,
        description: str = "Does what a test says.",
    ) -> None:
        """Take the script. An iterator is asked for the next answer when it is needed."""
        if isinstance(answers, str):
            raise TypeError("answers must be a list of answers, not one text")
        self.definition: Final = ToolDefinition(
            name=name, description=description, parameters=parameters, strict=False
        )
        self.capability: Final = capability
        self.ruled_as: Final[tuple[str, ...]] = ()
        self._answers = iter(repeat("ok") if answers is None else answers)
        self._subjects = subjects
        self._preview = preview
        self.calls: Final[list[ToolCall]] = []
        """Every call that was begun."""
        self.ended: Final[list[ToolCall]] = []
        """Those that came to their end, with an output or an exception of the script."""
        self.stopped: Final[list[ToolCall]] = []
        """Those that were cancelled while they waited."""
        self.begun: Final = asyncio.Event()
        """Set as soon as a call begins."""

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return what the script says a call is about."""
        if isinstance(self._subjects, Exception):
            raise self._subjects
        return self._subjects(call) if callable(self._subjects) else tuple(self._subjects)

    async def preview(self, call: ToolCall) -> str:
        """Return what the script shows of a call."""
        if isinstance(self._preview, Exception):
            raise self._preview
        return self._preview(call) if callable(self._preview) else self._preview

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Do what the script says.

        Raises ScriptRanOut if there is no answer left, which ends the run of an agent as well.
        """
        self.calls.append(call)
        self.begun.set()
        try:
            output = await self._play(self._next(), call, context)
        except asyncio.CancelledError:
            self.stopped.append(call)
            raise
        except BaseException:
            self.ended.append(call)
            raise
        self.ended.append(call)
        return output

    def _next(self) -> ScriptedAnswer:
        answer = next(self._answers, None)
        if answer is None:
            name, number = self.definition.name, len(self.calls)
            raise ScriptRanOut(f"script: {name} has no answer for call {number}")
        return answer

    async def _play(self, answer: Any, call: ToolCall, context: ToolContext) -> ToolOutput:
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
                return cast("ToolOutput", answer)  # a test may want something else to come back
