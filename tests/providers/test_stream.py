"""A stream is read to its end or its error, and always has the message so far."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest

from steno import (
    Event,
    Finished,
    StenoError,
    StopReason,
    TextDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.errors import CutShort, ProtocolError
from steno.ports import Stream
from steno.providers import SourceStream
from tests.transport.http_server import run

HELLO = (TextDelta(0, "Hel"), TextDelta(0, "lo"), Finished(StopReason.END_TURN, "stop"))


class Script:
    """A source of scripted steps: it returns events, raises errors, and waits at None until closed."""

    def __init__(self, *steps: Iterable[Event] | Exception | None) -> None:
        self.steps = list(steps)
        self.reads = 0
        self.is_closed = False
        self.waits = asyncio.Event()
        self._closing = asyncio.Event()

    async def read(self) -> Iterable[Event] | None:
        self.reads += 1
        if not self.steps:
            return None
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if step is None:
            self.waits.set()
            await self._closing.wait()
            raise ProtocolError("script: closed")
        return step

    def redact(self, error: Exception) -> None:
        error.args = tuple(str(part).replace("secret", "***") for part in error.args)

    def close(self) -> None:
        self.is_closed = True
        self._closing.set()


async def events_of(stream: Stream) -> list[Event]:
    return [event async for event in stream]


@pytest.mark.requirement("S4-03")
def test_events_come_one_by_one_and_the_message_is_whole_after_the_end() -> None:
    async def main() -> None:
        async with SourceStream(Script(HELLO[:1], (), HELLO[1:])) as stream:
            assert await anext(stream) == HELLO[0]
            assert stream.message().text == "Hel"
            assert stream.message().stop_reason is StopReason.UNKNOWN
            assert await events_of(stream) == [*HELLO[1:]]
        assert stream.message().text == "Hello"
        assert stream.message().stop_reason is StopReason.END_TURN

    run(main())


@pytest.mark.requirement("S4-03")
def test_there_is_no_message_before_the_first_event() -> None:
    async def main() -> None:
        stream = SourceStream(Script(HELLO))
        with pytest.raises(StenoError) as caught:
            stream.message()
        assert (caught.value.code, caught.value.place) == ("stream_unread", "stream")
        stream.close()
        with pytest.raises(StenoError) as caught:
            stream.message()
        assert (caught.value.code, caught.value.place) == ("stream_unread", "stream")

    run(main())


@pytest.mark.requirement("S4-03")
def test_reading_again_after_the_end_ends_at_once() -> None:
    async def main() -> None:
        script = Script(HELLO)
        stream = SourceStream(script)
        await events_of(stream)
        reads = script.reads
        assert await events_of(stream) == []
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert script.reads == reads

    run(main())


@pytest.mark.requirement("S4-03", "S4-05")
def test_after_an_error_the_message_is_what_came_before_it() -> None:
    async def main() -> None:
        script = Script(HELLO[:1], CutShort("stream: cut"))
        stream = SourceStream(script)
        assert await anext(stream) == HELLO[0]
        with pytest.raises(CutShort):
            await anext(stream)
        assert stream.message().text == "Hel"
        assert stream.message().stop_reason is StopReason.ERROR
        assert script.is_closed
        assert await events_of(stream) == []

    run(main())


@pytest.mark.requirement("S4-03")
def test_an_error_before_the_first_event_leaves_an_empty_message() -> None:
    async def main() -> None:
        stream = SourceStream(Script(ProtocolError("wire: no")))
        with pytest.raises(ProtocolError):
            await stream.collect()
        assert stream.message().content == ()
        assert stream.message().stop_reason is StopReason.ERROR

    run(main())


def test_an_error_between_two_events_of_one_piece_follows_the_first() -> None:
    def piece() -> Iterator[Event]:
        yield HELLO[0]
        raise ProtocolError("wire: no")

    async def main() -> None:
        stream = SourceStream(Script(piece()))
        assert await anext(stream) == HELLO[0]
        with pytest.raises(ProtocolError):
            await anext(stream)

    run(main())


def test_errors_are_redacted_before_they_are_raised() -> None:
    async def main() -> None:
        with pytest.raises(ProtocolError, match=r"^the \*\*\*$"):
            await SourceStream(Script(ProtocolError("the secret"))).collect()

    run(main())


@pytest.mark.requirement("S4-04")
def test_cancelling_the_reader_leaves_an_aborted_message() -> None:
    async def main() -> None:
        script = Script(HELLO[:1], None)
        stream = SourceStream(script)
        reader = asyncio.create_task(stream.collect())
        await script.waits.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert stream.message().text == "Hel"
        assert stream.message().stop_reason is StopReason.ABORTED
        assert script.is_closed

    run(main())


@pytest.mark.requirement("S4-04")
def test_closing_ends_a_read_that_waits_in_another_task() -> None:
    async def main() -> None:
        script = Script(HELLO[:1], None)
        stream = SourceStream(script)
        reader = asyncio.create_task(events_of(stream))
        await script.waits.wait()
        stream.close()
        assert await reader == [HELLO[0]]
        assert stream.message().stop_reason is StopReason.ABORTED

    run(main())


@pytest.mark.requirement("S4-04")
def test_leaving_early_aborts_and_drops_what_was_not_read() -> None:
    async def main() -> None:
        script = Script(HELLO)
        async with SourceStream(script) as stream:
            async for _ in stream:
                break
        assert script.is_closed
        assert stream.message().text == "Hel"
        assert stream.message().stop_reason is StopReason.ABORTED
        assert await events_of(stream) == []

    run(main())


def test_leaving_after_the_model_finished_keeps_its_own_stop_reason() -> None:
    async def main() -> None:
        async with SourceStream(Script(HELLO, None)) as stream:
            async for event in stream:
                if isinstance(event, Finished):
                    break
        assert stream.message().stop_reason is StopReason.END_TURN

    run(main())


@pytest.mark.parametrize("trouble", [None, ProtocolError("connection: lost")])
def test_connection_errors_after_the_end_of_the_response_are_ignored(
    trouble: Exception | None,
) -> None:
    """The response is complete even if the server does not close the connection or resets it."""

    async def main() -> None:
        script = Script(HELLO, trouble)
        message = await SourceStream(script).collect()
        assert message.text == "Hello"
        assert message.stop_reason is StopReason.END_TURN
        assert script.is_closed

    run(main())


def test_events_are_returned_unchanged() -> None:
    async def main() -> None:
        fragments = (
            ToolCallDelta(None, "a", "read", '{"n": 1}'),
            Finished(StopReason.END_TURN, "stop"),
        )
        stream = SourceStream(Script(fragments))
        begin, delta, end, finished = await events_of(stream)
        assert begin == ToolCallBegin(0, "a", "read")
        assert delta == ToolCallDelta(0, arguments_delta='{"n": 1}')
        assert isinstance(end, ToolCallEnd)
        assert isinstance(finished, Finished)
        assert stream.message().stop_reason is StopReason.TOOL_USE

    run(main())


def test_collecting_needs_no_loop_and_no_context() -> None:
    assert run(SourceStream(Script(HELLO)).collect()).text == "Hello"


def test_a_stream_has_one_reader() -> None:
    async def main() -> None:
        script = Script(HELLO[:1], None)
        stream = SourceStream(script)
        reader = asyncio.create_task(events_of(stream))
        await script.waits.wait()
        with pytest.raises(StenoError) as caught:
            await anext(stream)
        assert (caught.value.code, caught.value.place) == ("stream_busy", "stream")
        stream.close()
        assert await reader == [HELLO[0]]

    run(main())
