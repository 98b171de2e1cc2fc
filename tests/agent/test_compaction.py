"""A summary on request: it replaces earlier messages, and all of them stay recorded."""

from __future__ import annotations

import asyncio

import pytest

from steno import ChatMessage, Usage
from steno.agent import EntryRecorded, Notice, NoticeKind, PromptInput, RunEnded
from steno.errors import ProviderError, StenoError
from steno.messages.message import UserMessage
from steno.records.entry import Compaction, ModelChange
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls

pytestmark = pytest.mark.requirement("S4-14")
TOOK = Usage(input_tokens=40, output_tokens=4)


def talk(harness: AgentHarness) -> None:
    """Let there be something to sum up."""
    for question, answer in (("One?", "One."), ("Two?", "Two.")):
        harness.conversation.append(ChatMessage.user(question))
        harness.conversation.append(ChatMessage.assistant(answer))


def summary(harness: AgentHarness) -> Compaction:
    [found] = [
        e.payload for e in harness.conversation.entries() if isinstance(e.payload, Compaction)
    ]
    return found


def test_a_summary_takes_the_place_of_all_but_the_last_message() -> None:
    async def main() -> None:
        harness = AgentHarness(
            [ChatMessage.assistant("They count.", usage=TOOK), "Three."], model="lab/m"
        )
        talk(harness)
        entry = await harness.agent.compact(on_event=harness.events.append)
        assert entry is not None
        assert entry.payload == summary(harness)
        assert (summary(harness).summary, summary(harness).usage) == ("They count.", TOOK)
        assert dict(entry.audit or {}) == {"model": "lab/m"}
        assert not harness.agent.is_running
        await harness.run("Three?")
        sent = [message.text or "" for message in harness.provider.requests[1].messages]
        assert "They count." in sent[1]
        assert sent[2:] == ["Two.", "Three?"]
        user_texts = [m.text for m in harness.conversation.messages() if isinstance(m, UserMessage)]
        assert user_texts == ["One?", "Two?", "Three?"]
        harness.check()

    run(main())


def test_compaction_emits_its_entries_and_no_run() -> None:
    async def main() -> None:
        harness = AgentHarness(["They count."], model="lab/m")
        talk(harness)
        await harness.agent.compact(on_event=harness.events.append)
        payloads = [event.entry.payload for event in harness.events_of(EntryRecorded)]
        assert [type(payload) for payload in payloads] == [ModelChange, Compaction]
        assert harness.events_of(RunEnded) == []

    run(main())


@pytest.mark.parametrize("prompts", [(), ("Hello?",)])
def test_without_anything_to_summarize_no_request_is_sent(prompts: tuple[str, ...]) -> None:
    async def main() -> None:
        harness = AgentHarness([], model="lab/m")
        for text in prompts:
            harness.conversation.append(ChatMessage.user(text))
        before = harness.conversation.entries()
        assert await harness.agent.compact() is None
        assert harness.conversation.entries() == before
        assert harness.provider.requests == []

    run(main())


def test_summarised_entries_are_not_summarised_again() -> None:
    async def main() -> None:
        harness = AgentHarness(["They count."])
        talk(harness)
        await harness.agent.compact()
        assert await harness.agent.compact() is None

    run(main())


def test_a_failed_summary_is_reported_and_changes_nothing() -> None:
    async def main() -> None:
        harness = AgentHarness([ProviderError("not today")])
        talk(harness)
        before = harness.conversation.entries()
        assert await harness.agent.compact(on_event=harness.events.append) is None
        [notice] = harness.events_of(Notice)
        assert (notice.kind, notice.code) == (NoticeKind.CONTEXT, "summary_failed")
        assert harness.conversation.entries() == before

    run(main())


def test_calls_that_wait_for_their_results_are_left_alone() -> None:
    async def main() -> None:
        harness = AgentHarness(["They count.", "Done."], read_tool("read", "text"))
        talk(harness)
        harness.conversation.append(ChatMessage.user("Read."))
        harness.conversation.append(turn_with_calls(call("c1", "read")))
        assert await harness.agent.compact() is not None
        assert harness.conversation.outstanding == ("c1",)
        await harness.run(None)
        harness.check()

    run(main())


def test_to_sum_up_can_be_interrupted() -> None:
    async def main() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        def answer(_: object) -> list[asyncio.Event]:
            asked.set()
            return [never]

        harness = AgentHarness([answer])
        talk(harness)
        task = asyncio.create_task(harness.agent.compact())
        await asked.wait()
        assert harness.agent.is_running
        with pytest.raises(StenoError) as caught:
            await harness.agent.compact()
        assert (caught.value.code, caught.value.place) == ("agent_busy", "agent")
        with pytest.raises(StenoError) as caught:
            await harness.run("Now?")
        assert (caught.value.code, caught.value.place) == ("agent_busy", "agent")
        harness.agent.interrupt()
        assert await task is None
        assert not harness.agent.is_running

    run(main())


def test_input_during_compaction_is_recorded_for_the_next_run() -> None:
    async def main() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        def answer(_: object) -> list[asyncio.Event]:
            asked.set()
            return [never]

        harness = AgentHarness([answer])
        talk(harness)
        task = asyncio.create_task(harness.agent.compact())
        await asked.wait()
        harness.agent.steer(PromptInput("Three?", audit={"origin": "/lab:three"}))
        harness.agent.interrupt()
        await task
        last = harness.conversation.entries()[-1]
        assert last.payload == ChatMessage.user("Three?")
        assert dict(last.audit or {}) == {"origin": "/lab:three"}

    run(main())


def test_the_audit_of_steering_input_is_recorded() -> None:
    async def main() -> None:
        go = asyncio.Event()
        tool = read_tool("read", [go, "text"])
        harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], tool, actor="ada")
        task = asyncio.create_task(harness.run("Read."))
        await tool.begun.wait()
        harness.agent.steer(PromptInput("$ ls", audit={"shell": "ls", "status": 0}))
        go.set()
        await task
        [entry] = [
            e for e in harness.conversation.entries() if e.payload == ChatMessage.user("$ ls")
        ]
        assert dict(entry.audit or {}) == {"actor": "ada", "shell": "ls", "status": 0}
        harness.check()

    run(main())
