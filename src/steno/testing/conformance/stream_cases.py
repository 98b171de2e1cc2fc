"""Harnesses for providers, and the cases about reading, interrupting and closing their streams.

Each case is a coroutine function that any test can await; `run_stream_cases` runs all cases.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Final

from steno.errors import CutShort, ProviderError, StenoError
from steno.lazy_task import start_task
from steno.messages.content import Text
from steno.messages.event import (
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.message import UserMessage
from steno.messages.request import Request
from steno.messages.usage import StopReason
from steno.ports import Provider, Stream
from steno.providers import HttpProvider, Retries, Vendor
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.conformance.scripted_server import (
    MODEL,
    CallFragment,
    NotExpressible,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    StalledConnection,
    TextPiece,
    ThinkingPiece,
    TurnEnd,
    WholeCall,
)
from steno.testing.doubles import ReplayingProvider, ScriptedProvider, ScriptedStep
from steno.transport.replay import RecordedResponse, ReplayStep, ReplayTransport

REQUEST: Final = Request(model=MODEL, messages=(UserMessage((Text("Hello?"),)),), max_tokens=1000)
_EVENT_LOOP_STEPS: Final = 20


# -- providers that stream scripts -------------------------------------------------------------


class ProviderHarness(ABC):
    """Builds a provider that streams scripts as its responses."""

    name: str
    """The name of the provider in the matrix."""

    @abstractmethod
    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams one script for each request, in order.

        At a `StalledConnection`, the server stops sending and keeps the connection open. At the
        end of a script without a `TurnEnd`, the server closes the connection.
        Raises NotExpressible if the provider cannot stream a line of a script.
        """


class HttpProviderHarness(ProviderHarness):
    """A harness for `HttpProvider`, with a scripted server in place of the network."""

    def __init__(self, server: ScriptedServer) -> None:
        """Create the harness; `Vendor` must accept the name of the server's wire."""
        self._server = server
        self.name: str = f"http/{server.wire.NAME}"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams one script for each request, in order."""
        vendor = Vendor(name="stage", wire=self._server.wire.NAME, base_url="http://127.0.0.1")
        transport = ReplayTransport([_record_script(self._server, script) for script in scripts])
        return HttpProvider(vendor, transport=transport, retries=Retries(max_retries=0))


class ReplayProviderHarness(ProviderHarness):
    """A harness for `ReplayingProvider`, for any wire."""

    def __init__(self, server: ScriptedServer) -> None:
        """Create the harness from a server, which encodes the scripts."""
        self._server = server
        self.name: str = f"replay/{server.wire.NAME}"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams one script for each request, in order."""
        recordings = [_record_script(self._server, script) for script in scripts]
        return ReplayingProvider(self._server.wire, recordings)


class ScriptedProviderHarness(ProviderHarness):
    """A harness for `ScriptedProvider`, which needs no wire."""

    name = "scripted"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams one script for each request, in order."""
        return ScriptedProvider([[_scripted_step(line) for line in script] for script in scripts])


def _record_script(server: ScriptedServer, script: Script) -> RecordedResponse:
    """Return the script as a recorded response; a `StalledConnection` is an endless wait."""
    sent = [line for line in script if not isinstance(line, StalledConnection)]
    steps: list[ReplayStep] = list(server.frames(sent))
    if len(sent) < len(script):
        steps.append(math.inf)  # a `StalledConnection` is always the last line
    return RecordedResponse(tuple(steps))


def _scripted_step(line: ScriptLine) -> ScriptedStep:
    match line:
        case TextPiece():
            return TextDelta(0, line.text)
        case ThinkingPiece():
            return ThinkingDelta(1, line.text)
        case CallFragment():
            return ToolCallDelta(line.index, line.id, line.name, line.arguments)
        case WholeCall():
            return ToolCallDelta(None, line.id, line.name, line.arguments)
        case TurnEnd():
            return Finished(line.reason, line.raw, line.usage)
        case ServerFailure():
            return ProviderError(line.message, status=200)
        case StalledConnection():
            return asyncio.Event()
        case _:
            raise NotExpressible(line)


def _stream(harness: ProviderHarness, *script: ScriptLine) -> Stream:
    return harness.provider(script).stream(REQUEST)


async def _read_to_end(stream: Stream) -> tuple[list[Event], StenoError | None]:
    events: list[Event] = []
    try:
        async for event in stream:
            events.append(event)  # noqa: PERF401 - keeps the events before an error
    except StenoError as exc:
        return events, exc
    return events, None


def _expect_message(stream: Stream, text: str, stop_reason: StopReason) -> None:
    expect(stream.message().text, text, "text")
    expect(stream.message().stop_reason, stop_reason, "stop reason")


def _joined_text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


# -- reading -----------------------------------------------------------------------------------


async def complete_stream(harness: ProviderHarness) -> None:
    """Check that a stream yields its events in order, with one `Finished` as the last event."""
    events, error = await _read_to_end(
        _stream(harness, TextPiece("Hel"), TextPiece("lo"), TurnEnd())
    )
    expect(error, None, "the error")
    expect(_joined_text(events), "Hello", "text")
    expect([type(event) for event in events].count(Finished), 1, "number of Finished events")
    require(isinstance(events[-1], Finished), "Finished is not the last event")


async def message_after_end(harness: ProviderHarness) -> None:
    """Check that the message is complete after the end, and that closing does not change it."""
    stream = _stream(harness, TextPiece("Hel"), TextPiece("lo"), TurnEnd(StopReason.LENGTH))
    async with stream:
        await _read_to_end(stream)
    _expect_message(stream, "Hello", StopReason.LENGTH)
    stream.close()
    expect(stream.message().stop_reason, StopReason.LENGTH, "stop reason, closed after the end")


async def collect(harness: ProviderHarness) -> None:
    """Check that `collect` reads the stream and returns the message."""
    message = await _stream(harness, TextPiece("Hel"), TextPiece("lo"), TurnEnd()).collect()
    expect((message.text, message.stop_reason), ("Hello", StopReason.END_TURN), "the message")


async def message_before_first_read(harness: ProviderHarness) -> None:
    """Check that `message` raises an error before the stream is read."""
    stream = _stream(harness, TextPiece("Hello"), TurnEnd())
    try:
        stream.message()
    except StenoError:
        return
    raise CaseFailure("message() returned a message although the stream was not read")


async def message_while_reading(harness: ProviderHarness) -> None:
    """Check that, between events, the message has the content so far and an unknown stop reason."""
    stream = _stream(harness, TextPiece("Hel"), TextPiece("lo"), TurnEnd())
    await anext(stream)
    _expect_message(stream, "Hel", StopReason.UNKNOWN)
    stream.close()


async def read_after_end(harness: ProviderHarness) -> None:
    """Check that a stream that has ended yields no more events and raises no error."""
    stream = _stream(harness, TextPiece("Hello"), TurnEnd())
    await _read_to_end(stream)
    expect(await _read_to_end(stream), ([], None), "events after the end")


async def successive_requests(harness: ProviderHarness) -> None:
    """Check that each request receives its own response, in order."""
    provider = harness.provider([TextPiece("One"), TurnEnd()], [TextPiece("Two"), TurnEnd()])
    first = await provider.stream(REQUEST).collect()
    second = await provider.stream(REQUEST).collect()
    expect([first.text, second.text], ["One", "Two"], "texts")


async def interleaved_tool_call_deltas(harness: ProviderHarness) -> None:
    """Check that two calls with interleaved fragments each begin once and end once, complete."""
    stream = _stream(
        harness,
        CallFragment(0, "a", "read", '{"path"'),
        CallFragment(1, "b", "write", '{"path":'),
        CallFragment(0, None, None, ':"x.py"}'),
        CallFragment(1, None, None, '"y.py"}'),
        TurnEnd(StopReason.TOOL_USE),
    )
    events, error = await _read_to_end(stream)
    expect(error, None, "the error")
    begun = [(event.index, event.id) for event in events if isinstance(event, ToolCallBegin)]
    expect(begun, [(0, "a"), (1, "b")], "ToolCallBegin events")
    ended = [event.call for event in events if isinstance(event, ToolCallEnd)]
    expect(sorted(call.id for call in ended if call is not None), ["a", "b"], "ToolCallEnd events")
    expect(set(stream.message().tool_calls), set(ended), "calls of the message")
    arguments = [call.arguments for call in stream.message().tool_calls]
    expect(arguments, ['{"path":"x.py"}', '{"path":"y.py"}'], "arguments")


# -- errors ------------------------------------------------------------------------------------


async def error_is_raised(harness: ProviderHarness) -> None:
    """Check that an error of the server is raised as ProviderError after the preceding events."""
    events, error = await _read_to_end(
        _stream(harness, TextPiece("Hal"), TextPiece("lo"), ServerFailure("the engine died"))
    )
    expect(_joined_text(events), "Hallo", "text before the error")
    require(isinstance(error, ProviderError), f"raised {type(error).__name__}, not ProviderError")
    require("the engine died" in str(error), "the error lacks the provider's message")


async def partial_after_error(harness: ProviderHarness) -> None:
    """Check that after an error the message has the earlier content and the stop reason `error`."""
    stream = _stream(harness, TextPiece("Hal"), TextPiece("lo"), ServerFailure("the engine died"))
    await _read_to_end(stream)
    _expect_message(stream, "Hallo", StopReason.ERROR)
    expect(await _read_to_end(stream), ([], None), "events after the error")


async def partial_after_cut(harness: ProviderHarness) -> None:
    """Check that a connection that ends too early raises CutShort and preserves the content."""
    stream = _stream(harness, TextPiece("Hal"), TextPiece("lo"))
    _, error = await _read_to_end(stream)
    require(isinstance(error, CutShort), f"raised {type(error).__name__}, not CutShort")
    _expect_message(stream, "Hallo", StopReason.ERROR)


# -- interruptions -----------------------------------------------------------------------------


async def cancel_while_waiting(harness: ProviderHarness) -> None:
    """Check that cancelling ends a waiting read, and that the stop reason is `aborted`."""
    stream = _stream(harness, TextPiece("Hal"), StalledConnection())
    await anext(stream)
    reading = await _start_blocked_read(anext(stream))
    reading.cancel()
    await asyncio.wait([reading])
    require(reading.cancelled(), "a cancelled read did not end as cancelled")
    _expect_message(stream, "Hal", StopReason.ABORTED)
    expect(await _read_to_end(stream), ([], None), "events after the read was cancelled")


async def cancel_before_first_event(harness: ProviderHarness) -> None:
    """Check that a read that waits for the first event can be cancelled."""
    stream = _stream(harness, StalledConnection())
    reading = await _start_blocked_read(anext(stream))
    reading.cancel()
    await asyncio.wait([reading])
    require(reading.cancelled(), "a cancelled read did not end as cancelled")
    expect(stream.message().stop_reason, StopReason.ABORTED, "stop reason")


async def close_unblocks_read(harness: ProviderHarness) -> None:
    """Check that closing a stream ends a waiting read in another task, without an error."""
    for script in ([TextPiece("Hal"), StalledConnection()], [StalledConnection()]):
        stream = _stream(harness, *script)
        if len(script) > 1:
            await anext(stream)
        reading = await _start_blocked_read(_read_to_end(stream))
        stream.close()
        expect(await reading, ([], None), "the result of the read")
        expect(stream.message().stop_reason, StopReason.ABORTED, "stop reason")


async def early_exit_closes_stream(harness: ProviderHarness) -> None:
    """Check that leaving `async with` early closes the stream, with the stop reason `aborted`."""
    async with _stream(harness, TextPiece("Hal"), TextPiece("lo"), TurnEnd()) as stream:
        await anext(stream)
    expect(await _read_to_end(stream), ([], None), "events after the stream was closed")
    _expect_message(stream, "Hal", StopReason.ABORTED)


async def close_before_first_read(harness: ProviderHarness) -> None:
    """Check that a stream that is closed before reading has no events and can be closed twice."""
    stream = _stream(harness, TextPiece("Hello"), TurnEnd())
    stream.close()
    stream.close()
    expect(await _read_to_end(stream), ([], None), "events")


async def _start_blocked_read(read: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a read in a task, and return the task when the read waits for the server."""
    reading = start_task(read)
    for _ in range(_EVENT_LOOP_STEPS):
        await asyncio.sleep(0)
    require(not reading.done(), "a read ended although the server sent nothing")
    return reading
