"""What is being done when a run is stopped: tools, streams, questions; and who does not listen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import repeat

import pytest

from steno import ChatMessage, Finished, Outcome, StopReason, TextDelta
from steno.agent import (
    CallOutput,
    CallStarted,
    EndReason,
    EntryRecorded,
    Limits,
    LoopEvent,
    RunResult,
)
from steno.agent.replay.verify import replay
from steno.agent.results import PARTIAL_OUTPUT_HEADING, RESULT_TEXTS, ResultCode
from steno.log.queries import result_code
from steno.messages.call import ToolCall
from steno.messages.content import Text
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.request import Request
from steno.ports import ToolContext
from steno.testing import ScriptedTool
from tests.agent.agent_setup import (
    LIMIT_S,
    AgentHarness,
    call,
    check_record,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
    write_tool,
)
from tests.agent.stepwise_session import answer, ticks, work


def test_a_tool_that_is_stopped_may_end_what_it_began() -> None:
    async def main() -> None:
        cleaned: list[str] = []

        async def hang(call: ToolCall, stage: ToolContext) -> str:
            try:
                await asyncio.Future()
            finally:
                await asyncio.sleep(0)
                cleaned.append(call.id)
            return "never"

        tool = write_tool("write", hang)
        harness = AgentHarness(
            [turn_with_calls(call("c1", "write"))], tool, gate=gate_allowing("write")
        )
        task = asyncio.create_task(harness.run())
        await tool.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == ["c1"]
        assert result_code(harness.result) == ResultCode.CALL_STOPPED
        assert harness.result.outcome is Outcome.CANCELLED
        harness.check()

    run(main())


def test_a_stopped_call_has_its_output_in_the_result() -> None:
    async def main() -> None:
        printed = asyncio.Event()

        async def speak(call: ToolCall, stage: ToolContext) -> str:
            stage.report_output("one\n")
            await asyncio.to_thread(stage.report_output, "two \udcff\n")
            printed.set()
            try:
                await asyncio.Future()
            finally:
                stage.report_output("and the last\n")
            return "never"

        tool = read_tool("read", speak)
        turn = turn_with_calls(call("c1", "read"))
        harness = AgentHarness([turn, "Well."], tool)
        task = asyncio.create_task(harness.run())
        await printed.wait()
        harness.agent.interrupt()
        await task
        text = f"{PARTIAL_OUTPUT_HEADING}\none\ntwo \ufffd\nand the last\n"
        assert result_code(harness.result) == ResultCode.CALL_STOPPED
        assert harness.result.content[1:] == (Text(text),)
        assert [event.text for event in harness.events_of(CallOutput)][:2] == [
            "one\n",
            "two \ufffd\n",
        ]
        assert harness.result.failure is not None
        assert harness.result.content[0] == Text(harness.result.failure.message)
        harness.check()
        records = list(harness.store.records(harness.conversation.id))
        again = await replay(records)
        assert (again.is_same, again.made_by_loop) == (True, len(records) - 1)

    run(main())


def test_the_output_of_a_stopped_call_is_truncated() -> None:
    async def main() -> None:
        async def speak(call: ToolCall, stage: ToolContext) -> str:
            for number in range(30_000):
                stage.report_output(f"{number}\n")
            await asyncio.Future()
            return "never"

        tool = read_tool("read", speak)
        harness = AgentHarness([turn_with_calls(call("c1", "read"))], tool)
        task = asyncio.create_task(harness.run())
        await tool.begun.wait()
        await ticks(2)
        harness.agent.interrupt()
        await task
        lines = harness.result.text.split("\n")
        assert lines[:3] == [
            f"{RESULT_TEXTS[ResultCode.CALL_STOPPED]}{PARTIAL_OUTPUT_HEADING}",
            "0",
            "1",
        ]
        assert lines[-2:] == ["29999", ""]
        assert len([line for line in lines if line.endswith("characters left out here ...]")]) == 1
        assert len(harness.result.text) < 21_000

    run(main())


def test_calls_stopped_together_are_replayed_with_the_output_of_each() -> None:
    async def main() -> None:
        async def speak(call: ToolCall, stage: ToolContext) -> str:
            stage.report_output(call.id)
            await asyncio.Future()
            return "never"

        first, second, silent = (
            read_tool("first", speak),
            read_tool("second", speak),
            read_tool("silent", [asyncio.Event(), ""]),
        )
        turn = turn_with_calls(call("c1", "first"), call("c2", "second"), call("c3", "silent"))
        harness = AgentHarness([turn], first, second, silent)
        task = asyncio.create_task(harness.run())
        await silent.begun.wait()
        harness.agent.interrupt()
        await task
        assert [len(result.content) for result in harness.results] == [2, 2, 1]
        assert (await replay(list(harness.store.records(harness.conversation.id)))).is_same

    run(main())


def test_a_call_that_ends_during_cancellation_is_recorded_as_done() -> None:
    async def main() -> None:
        async def finish(call: ToolCall, stage: ToolContext) -> str:
            try:
                await asyncio.Future()
            except asyncio.CancelledError:
                return "done all the same"
            raise AssertionError

        tool = write_tool("write", finish, "second")
        turns = [turn_with_calls(call("c1", "write"), call("c2", "write")), "Never said."]
        harness = AgentHarness(turns, tool, gate=gate_allowing("write"))
        task = asyncio.create_task(harness.run())
        await tool.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert harness.results[0].text == "done all the same"
        assert list(map(result_code, harness.results)) == [None, ResultCode.CALL_NOT_RUN]
        assert len(harness.provider.requests) == 1
        harness.check()

    run(main())


def test_readers_that_ended_before_the_others_were_stopped_keep_their_results() -> None:
    async def main() -> None:
        hanging = read_tool("hang", [asyncio.Event(), "never"])
        quick = read_tool("quick", "soon")
        turn = turn_with_calls(call("c1", "hang"), call("c2", "quick"))
        harness = AgentHarness([turn], hanging, quick)
        task = asyncio.create_task(harness.run())
        await quick.begun.wait()
        await ticks(2)
        harness.agent.interrupt()
        assert (await task).end_reason is EndReason.INTERRUPTED
        assert [(result_code(r), r.outcome) for r in harness.results] == [
            (ResultCode.CALL_STOPPED, Outcome.CANCELLED),
            (None, Outcome.OK),
        ]
        assert harness.results[1].text == "soon"
        assert hanging.stopped
        harness.check()

    run(main())


class Leaping(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    leapt_s = 0.0

    def time(self) -> float:
        return super().time() + self.leapt_s


def out_of_time(harness: AgentHarness, kind: type[LoopEvent]) -> RunResult:
    """Run with a limit of ten seconds, which are up at the first event of a kind."""

    async def main() -> RunResult:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Leaping)

        def watch(event: LoopEvent) -> None:
            if isinstance(event, kind):
                loop.leapt_s = 11

        async with asyncio.timeout(LIMIT_S):
            return await harness.agent.run("Go.", on_event=watch)

    with asyncio.Runner(loop_factory=Leaping) as runner:
        return runner.run(main())


@pytest.mark.requirement("S4-14")
def test_a_tool_that_runs_when_time_is_up_is_stopped() -> None:
    tool = read_tool("read", [asyncio.Event(), "never"])
    harness = AgentHarness([turn_with_calls(call("c1", "read"))], tool, limits=Limits(seconds=10))
    result = out_of_time(harness, CallStarted)
    assert (result.end_reason, result.reason) == (EndReason.LIMIT, "10 seconds")
    assert result_code(harness.result) == ResultCode.CALL_STOPPED
    assert len(tool.stopped) == 1
    harness.check()


@pytest.mark.requirement("S4-14")
def test_a_time_limit_cuts_a_response_and_keeps_its_text() -> None:
    harness = AgentHarness([[TextDelta(0, "I think"), asyncio.Event()]], limits=Limits(seconds=10))
    result = out_of_time(harness, TextDelta)
    assert (result.end_reason, result.text) == (EndReason.LIMIT, "I think")
    assert harness.conversation.messages()[-1].text == "I think"
    harness.check()


def test_time_is_up_also_for_tools_that_take_no_notice() -> None:
    async def stubborn(call: ToolCall, stage: ToolContext) -> str:
        try:
            await asyncio.Future()
        except asyncio.CancelledError:
            return "so what"
        raise AssertionError

    tool = read_tool("read", *[stubborn] * 2)
    harness = AgentHarness(repeat(answer), tool, limits=Limits(seconds=10))
    assert out_of_time(harness, CallStarted).end_reason is EndReason.LIMIT
    assert [r.text for r in harness.results] == ["so what", "so what"]
    harness.check()


@pytest.mark.parametrize("prompt", ["And now?", None])
def test_an_interruption_while_old_calls_are_settled_keeps_the_prompt(prompt: str | None) -> None:
    async def main() -> None:
        hanging = read_tool("read", [asyncio.Event(), "never"])
        harness = AgentHarness(["Well."], hanging)
        harness.conversation.append(ChatMessage.user("Go."))
        harness.conversation.append(turn_with_calls(call("c1", "read"), call("c2", "read")))
        task = asyncio.create_task(harness.run(prompt))
        await hanging.begun.wait()
        harness.agent.interrupt()
        result = await task
        assert (result.end_reason, result.turns) == (EndReason.INTERRUPTED, 0)
        texts = [m.text for m in harness.conversation.messages() if isinstance(m, UserMessage)]
        assert texts == ["Go.", *([] if prompt is None else [prompt])]
        assert list(map(result_code, harness.results)) == [
            ResultCode.CALL_STOPPED,
            ResultCode.CALL_NOT_RUN,
        ]
        harness.check()

    run(main())


def test_an_interruption_from_between_two_steps_is_not_lost() -> None:
    harness = AgentHarness(repeat(answer), ScriptedTool("read", repeat(work)))

    def watch(event: LoopEvent) -> None:
        message = event.entry.message if isinstance(event, EntryRecorded) else None
        if isinstance(message, ToolResultMessage) and message.tool_call_id == "c1":
            harness.agent.steer("Later.")
        elif isinstance(message, UserMessage) and message.text == "Later.":
            harness.agent.interrupt()  # it was just sent: no step is under way

    result = run(harness.agent.run("Go.", on_event=watch))
    assert (result.end_reason, result.turns) == (EndReason.INTERRUPTED, 1)
    check_record(harness.conversation, harness.store)


def test_nothing_happens_if_an_idle_agent_is_interrupted() -> None:
    harness = AgentHarness(["Done."])
    harness.agent.interrupt()
    assert run(harness.run()).end_reason is EndReason.DONE


def test_keyboard_interrupt_in_a_tool_ends_the_program_and_not_the_record() -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read"), call("c2", "read"))],
        read_tool("read", KeyboardInterrupt(), "ok"),
    )
    with pytest.raises(KeyboardInterrupt):
        run(harness.run())
    assert not harness.agent.is_running
    harness.check()


def test_a_task_that_was_cancelled_before_may_still_interrupt_a_run() -> None:
    """An agent that runs in cleanup after a cancellation can be stopped, too."""

    async def main() -> None:
        hanging = read_tool("read", [asyncio.Event(), "never"])
        harness = AgentHarness([turn_with_calls(call("c1", "read"))], hanging)

        async def clean_up() -> EndReason:
            try:
                await asyncio.Future()
            except asyncio.CancelledError:
                result = await harness.run()
                return result.end_reason
            raise AssertionError

        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        await hanging.begun.wait()
        harness.agent.interrupt()
        assert await task is EndReason.INTERRUPTED

    run(main())


class Deaf:
    """A provider, and its stream, that takes no notice of a cancellation."""

    def __init__(self) -> None:
        self.reading = asyncio.Event()
        events: list[Event] = [TextDelta(0, "Never mind."), Finished(StopReason.END_TURN)]
        self._events = iter(events)

    def stream(self, request: Request) -> Deaf:
        return self

    def __aiter__(self) -> Deaf:
        return self

    async def __anext__(self) -> Event:
        if not self.reading.is_set():
            self.reading.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Future()
        for event in self._events:
            return event
        raise StopAsyncIteration

    async def __aenter__(self) -> Deaf:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    def message(self) -> AssistantMessage:
        return ChatMessage.assistant("Never mind.", stop_reason=StopReason.END_TURN)


def test_a_provider_that_ignores_cancellation_does_not_block_it() -> None:
    async def main() -> None:
        deaf = Deaf()
        harness = AgentHarness(deaf)
        task = asyncio.create_task(harness.run())
        await deaf.reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert harness.conversation.messages()[-1].text == "Never mind."
        harness.check()

    run(main())
