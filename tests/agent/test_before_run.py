"""A run that waits before it begins, and takes its conversation and its tools then."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from steno import ChatMessage
from steno.agent import EndReason, SteeringPolicy
from steno.errors import InvalidValue, StenoError
from steno.log.conversation import Conversation
from steno.messages.message import UserMessage
from steno.ports import Tool
from steno.store import MemoryStore
from tests.agent.agent_setup import AgentHarness, read_tool, run


def user_texts(harness: AgentHarness) -> list[str | None]:
    messages = harness.agent.conversation.messages()
    return [message.text for message in messages if isinstance(message, UserMessage)]


class WaitingAgent(AgentHarness):
    """An agent that waits for an event before each run."""

    def __init__(self, *turns: str) -> None:
        self.ready = asyncio.Event()
        super().__init__(list(turns), before_run=self.ready.wait)

    async def start(self) -> asyncio.Task[object]:
        """Start a run, which waits."""
        task = asyncio.create_task(self.run("Go."))
        await asyncio.sleep(0)
        assert self.agent.is_running
        assert self.agent.is_waiting
        return task


@pytest.mark.parametrize("policy", SteeringPolicy)
def test_messages_that_are_sent_during_the_wait_follow_the_prompt(policy: SteeringPolicy) -> None:
    async def main() -> None:
        harness = WaitingAgent("Done.", "Done.")
        task = await harness.start()
        harness.agent.steer("And be brief.", policy)
        assert harness.events == []
        harness.ready.set()
        await task
        assert user_texts(harness) == ["Go.", "And be brief."]
        assert not harness.agent.is_running
        harness.check()

    run(main())


@pytest.mark.parametrize("is_ready", [False, True])
def test_an_interrupted_wait_records_nothing(is_ready: bool) -> None:
    async def main() -> None:
        harness = WaitingAgent("Done.")
        task = await harness.start()
        harness.agent.steer("And be brief.")
        if is_ready:  # the wait is over, and the run has not continued yet
            harness.ready.set()
            await asyncio.sleep(0)
            assert harness.agent.is_waiting
        harness.agent.interrupt()
        with pytest.raises(StenoError) as caught:
            await task
        assert caught.value.code == "interrupted"
        assert user_texts(harness) == []
        assert [message.text for message in harness.agent.withdraw()] == ["And be brief."]
        assert not harness.agent.is_running
        harness.ready.set()
        assert (await harness.run("Again.")).end_reason is EndReason.DONE
        assert user_texts(harness) == ["Again."]

    run(main())


def test_a_cancelled_wait_records_the_prompt_and_the_messages_after_it() -> None:
    async def main() -> None:
        harness = WaitingAgent()
        task = await harness.start()
        harness.agent.steer("And be brief.")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert user_texts(harness) == ["Go.", "And be brief."]
        assert not harness.agent.is_running
        harness.check()

    run(main())


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_before_run_can_interrupt_the_run_before_it_waits(is_coroutine: bool) -> None:
    class InterruptingAgent(AgentHarness):
        def __init__(self) -> None:
            before_run = self.interrupt_and_wait if is_coroutine else self.interrupt
            super().__init__(["Done."], before_run=before_run)

        def interrupt(self) -> asyncio.Future[None]:
            assert self.agent.is_running
            self.agent.interrupt()
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        async def interrupt_and_wait(self) -> None:
            await self.interrupt()

    async def main() -> None:
        harness = InterruptingAgent()
        with pytest.raises(StenoError) as caught:
            await harness.run("Go.")
        assert caught.value.code == "interrupted"
        assert user_texts(harness) == []
        assert not harness.agent.is_running

    run(main())


def test_a_cancellation_that_before_run_swallows_ends_the_run() -> None:
    async def wait() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def main() -> None:
        harness = AgentHarness(["Done."], before_run=wait)
        task = asyncio.create_task(harness.run("Go."))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert harness.provider.requests == []

    run(main())


def test_an_error_of_before_run_leaves_the_agent_idle() -> None:
    def fail() -> Any:
        raise RuntimeError("no servers")

    async def main() -> None:
        harness = AgentHarness(["Done."], before_run=fail)
        with pytest.raises(RuntimeError):
            await harness.run("Go.")
        assert not harness.agent.is_running

    run(main())


def test_begin_run_can_interrupt_the_run() -> None:
    class InterruptingAgent(AgentHarness):
        def __init__(self) -> None:
            super().__init__(["Done.", "Done."], begin_run=self.begin)
            self.interrupts = True

        def begin(self) -> tuple[Conversation, list[Tool]]:
            if self.interrupts:
                self.agent.interrupt()
            return self.conversation, []

    async def main() -> None:
        harness = InterruptingAgent()
        result = await harness.run("Go.")
        assert result.end_reason is EndReason.INTERRUPTED
        assert harness.provider.requests == []
        assert user_texts(harness) == ["Go."]
        harness.interrupts = False
        assert (await harness.run("Again.")).end_reason is EndReason.DONE

    run(main())


def test_an_interrupt_of_an_idle_agent_does_not_stop_the_next_run() -> None:
    async def main() -> None:
        harness = AgentHarness(["Done."])
        harness.agent.interrupt()
        assert (await harness.run("Go.")).end_reason is EndReason.DONE

    run(main())


def test_a_waiting_agent_is_busy() -> None:
    async def main() -> None:
        harness = WaitingAgent("Done.")
        task = await harness.start()
        for other in (harness.agent.run("Me too."), harness.agent.compact()):
            with pytest.raises(StenoError) as caught:
                await other
            assert caught.value.code == "agent_busy"
        harness.ready.set()
        await task

    run(main())


def test_a_run_uses_the_conversation_and_the_tools_that_are_there_when_it_begins() -> None:
    store, tools = MemoryStore(), [read_tool("first")]
    recorded = store.new([ChatMessage.system("Work.")])
    harness = AgentHarness(["Done.", "Done."], begin_run=lambda: (recorded, tools))

    async def main() -> None:
        await harness.run("Go.")
        tools.append(read_tool("second"))
        await harness.run("And now?")

    run(main())
    assert harness.agent.conversation is recorded
    assert user_texts(harness) == ["Go.", "And now?"]
    requests = harness.provider.requests
    assert [[tool.name for tool in request.tools] for request in requests] == [
        ["first"],
        ["first", "second"],
    ]


@pytest.mark.parametrize("name", ["before_run", "begin_run"])
def test_a_hook_must_be_a_function(name: str) -> None:
    settings: dict[str, Any] = {name: 0}
    with pytest.raises(InvalidValue) as caught:
        AgentHarness([], **settings)
    assert (caught.value.code, caught.value.place) == ("wrong_type", name)
