"""The `on_event` callback of a run: what it receives, and what happens if it fails."""

from __future__ import annotations

import asyncio

import pytest

from steno import (
    ChatMessage,
    Conversation,
    TextDelta,
)
from steno.agent import (
    Agent,
    CallOutput,
    CallStarted,
    EntryRecorded,
    LoopEvent,
    RunEnded,
    TurnStarted,
)
from steno.messages.call import ToolCall
from steno.ports import ToolContext
from steno.testing import ScriptedProvider
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls


class Broken(Exception):
    """The terminal is gone."""


@pytest.mark.parametrize("kind", [TurnStarted, EntryRecorded, CallStarted, TextDelta, CallOutput])
def test_a_callback_that_raises_ends_the_run_and_is_not_called_again(kind: type) -> None:
    received: list[LoopEvent] = []

    def watch(event: LoopEvent) -> None:
        received.append(event)
        if isinstance(event, kind):
            raise Broken

    async def speak(call: ToolCall, stage: ToolContext) -> str:
        await asyncio.to_thread(stage.report_output, "hello")
        return "ok"

    turn = ChatMessage.assistant("I look.", [call("c1", "read"), call("c2", "read")])
    harness = AgentHarness([turn, "Done."], read_tool("read", speak, speak))
    with pytest.raises(Broken):
        run(harness.agent.run("Go.", on_event=watch))
    assert isinstance(received[-1], kind)
    assert not harness.agent.is_running
    harness.check()
    assert (
        run(
            AgentHarness(["Well."], store=harness.store, conversation=harness.conversation).run()
        ).text
        == "Well."
    )


def test_a_watcher_that_raises_takes_no_result_away() -> None:
    """A call that ran is recorded as run, though the callback failed."""

    def watch(event: LoopEvent) -> None:
        if isinstance(event, CallStarted) and event.call.id == "c3":
            raise Broken

    tool = read_tool()
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read"), call("c2", "read"), call("c3", "read"))], tool
    )
    with pytest.raises(Broken):
        run(harness.agent.run("Go.", on_event=watch))
    assert [r.text for r in harness.results[:2]] == ["ok", "ok"]
    harness.check()


def test_events_yields_what_the_callback_receives_until_the_end() -> None:
    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."] * 2, read_tool())

    async def main() -> list[type]:
        return [type(event) async for event in harness.agent.events("Go.")]

    kinds = run(main())
    run(harness.run("Go."))
    assert kinds == [type(event) for event in harness.events]
    assert kinds[-1] is RunEnded


def test_events_of_a_run_that_raises_raise_at_their_end() -> None:
    harness = AgentHarness([ValueError("a provider of one's own")])

    async def main() -> None:
        async for _ in harness.agent.events("Go."):
            pass

    with pytest.raises(ValueError, match="one's own"):
        run(main())
    harness.check()


def test_an_agent_without_a_store_works_in_memory() -> None:
    conversation = Conversation()
    agent = Agent(ScriptedProvider(["Hello."]), conversation)
    assert run(agent.run("Hi.")).text == "Hello."
    assert [m.text for m in conversation.messages()] == ["Hi.", "Hello."]


def test_output_of_a_tool_after_the_end_is_dropped() -> None:
    stages: list[ToolContext] = []

    def remember(call: ToolCall, stage: ToolContext) -> str:
        stages.append(stage)
        return "ok"

    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", remember)
    )
    run(harness.run())
    stages[0].report_output("late")
    assert isinstance(harness.events[-1], RunEnded)
