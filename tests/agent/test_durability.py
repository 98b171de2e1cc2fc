"""What is durable before what happens: the message before its calls, a result before the next turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage, ToolResultMessage
from steno.agent import Agent, ApprovalRequest, ApprovalRequested, CallbackApprover, EndReason, Gate
from steno.agent.results import ResultCode
from steno.errors import Conflict, LogError, Overloaded, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import result_code
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.ports import ToolContext
from steno.records.entry import Approval
from steno.store import MemoryStore, open_store
from steno.testing import ScriptedProvider
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    check_record,
    gate_allowing,
    results_of,
    run,
    turn_with_calls,
    write_tool,
)
from tests.log.journals import Journal

every_store = pytest.mark.parametrize("kind", ["jsonl", "sqlite"])


@every_store
@pytest.mark.requirement("S4-14", "S2-18")
def test_everything_is_on_disk_before_the_next_thing_happens(kind: str, tmp_path: Path) -> None:
    """Another reader of the same files checks each step."""
    address = f"{kind}:{tmp_path / 'log'}"
    store = open_store(address)
    conversation = store.new([ChatMessage.system("Work.")])

    def on_disk() -> list[str]:
        with open_store(address) as other:
            entries = other.open(conversation.id).entries()
        return [
            str(p.status) if isinstance(p := entry.payload, Approval) else type(p).__name__
            for entry in entries
        ]

    seen: dict[str, list[str]] = {}

    def decide(question: ApprovalRequest) -> bool:
        seen["asked"] = on_disk()
        return True

    def observe(call: ToolCall, stage: ToolContext) -> str:
        seen["run"] = on_disk()
        return "done"

    def second_turn(request: Request) -> str:
        seen["next turn"] = on_disk()
        return "Finished."

    harness = AgentHarness(
        [turn_with_calls(call("c1", "write")), second_turn],
        write_tool("write", observe),
        store=store,
        conversation=conversation,
        gate=Gate(approver=CallbackApprover(decide)),
    )
    assert run(harness.run()).end_reason is EndReason.DONE
    messages = ["SystemMessage", "UserMessage", "AssistantMessage"]
    assert seen["asked"] == [*messages, "pending"]
    assert seen["run"] == [*messages, "pending", "approved"]
    assert seen["next turn"] == [*messages, "pending", "approved", "ToolResultMessage"]
    harness.check()
    store.close()


# -- a store that fails --------------------------------------------------------------------------


class Interrupted(BaseException):
    """As bad as Ctrl-C in the middle of a write."""


def steps_of(conversation: Conversation) -> int:
    return len(conversation.entries())


def session(journal: Journal) -> tuple[Agent, Conversation]:
    conversation = journal.open()
    turns: list[Any] = [turn_with_calls(call("c1", "write"), call("c2", "write")), "Done."]
    agent = Agent(
        ScriptedProvider(turns), conversation, tools=[write_tool()], gate=gate_allowing("write")
    )
    return agent, conversation


def entries_of_a_session() -> int:
    agent, conversation = session(Journal())
    run(agent.run("Go."))
    return steps_of(conversation)


@pytest.mark.parametrize("number", range(entries_of_a_session()))
def test_a_store_that_fails_at_any_write_ends_the_run_and_can_be_resumed(number: int) -> None:
    journal = Journal()
    agent, conversation = session(journal)
    left = iter(range(number))

    def fill_up() -> None:
        journal.is_full = next(left, None) is None

    journal.before_append = fill_up
    with pytest.raises(Unavailable, match="the disk is full"):
        run(agent.run("Go."))
    assert conversation.messages() == journal.again().open().messages()
    assert steps_of(conversation) == number
    assert not agent.is_running

    journal.is_full, journal.before_append = False, lambda: None
    harness = AgentHarness(
        ["Well."],
        write_tool(),
        store=journal.store,
        conversation=journal.again().open(),
        gate=gate_allowing("write"),
    )
    assert run(harness.run("Once more.")).text == "Well."
    harness.check()


@pytest.mark.parametrize("number", range(entries_of_a_session()))
def test_a_write_interrupted_after_the_disk_is_recorded(number: int) -> None:
    """The entry is durable, but its writer was not informed."""
    writes = iter(range(number + 1))

    class Broken(Journal):
        """A journal that is interrupted once, after a write."""

        def append(self, *args: Any, **named: Any) -> None:
            super().append(*args, **named)
            if next(writes, None) == number:
                raise Interrupted

    journal = Broken()
    agent, _ = session(journal)
    with pytest.raises(Interrupted):
        run(agent.run("Go."))
    harness = AgentHarness(
        ["Well."],
        write_tool(),
        store=journal.store,
        conversation=journal.store.open(journal.session),
        gate=gate_allowing("write"),
    )
    assert run(harness.run("Once more.")).text == "Well."
    harness.check()


def test_a_call_whose_record_fails_is_neither_asked_about_nor_run() -> None:
    journal = Journal()
    tool = write_tool()
    asked: list[ApprovalRequest] = []

    def decide(question: ApprovalRequest) -> bool:
        asked.append(question)
        return True

    conversation = journal.open()

    def fill_up(request: Request) -> AssistantMessage:
        journal.is_full = True
        return turn_with_calls(call("c1", "write"))

    harness = AgentHarness(
        [fill_up],
        tool,
        store=journal.store,
        conversation=conversation,
        gate=Gate(approver=CallbackApprover(decide)),
    )
    with pytest.raises(LogError):
        run(harness.run())
    assert (tool.calls, asked, harness.events_of(ApprovalRequested)) == ([], [], [])
    journal.is_full = False
    check_record(conversation, journal.store)
    assert results_of(conversation) == []
    assert not any(isinstance(m, ToolResultMessage) for m in conversation.messages())


def test_another_writer_ends_the_run_and_nothing_is_lost() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("Work.")])
    other = store.open(conversation.id)

    def meanwhile(call: ToolCall, stage: ToolContext) -> str:
        other.refresh()
        other.label(other.entries()[0], "mine")
        return "done"

    harness = AgentHarness(
        [turn_with_calls(call("c1", "write"))],
        write_tool("write", meanwhile),
        store=store,
        conversation=conversation,
        gate=gate_allowing("write"),
    )
    with pytest.raises(Conflict):
        run(harness.run())
    tool = write_tool()
    again = AgentHarness(["I look."], tool, store=store, conversation=store.open(conversation.id))
    assert run(again.run("And?")).text == "I look."
    assert tool.calls == []  # it may have been run, and was
    assert result_code(again.result) == ResultCode.OUTCOME_UNKNOWN
    assert again.conversation.labels == {"mine": conversation.entries()[0].id}
    again.check()


def test_a_run_that_cannot_record_its_end_raises_instead_of_ending_well() -> None:
    journal = Journal()

    def fail(request: Request) -> Exception:
        harness.agent.steer("Are you there?")
        journal.is_full = True
        return Overloaded("busy")

    harness = AgentHarness([fail], store=journal.store, conversation=journal.open())
    with pytest.raises(Unavailable):
        run(harness.run())
