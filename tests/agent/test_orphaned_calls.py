"""Orphaned calls of an ended program: asked again, acted on, or not run again."""

from __future__ import annotations

import asyncio

import pytest

from steno import ChatMessage, Outcome
from steno.agent import (
    AgentRole,
    ApprovalDecision,
    ApprovalRequest,
    CallbackApprover,
    EndReason,
    Gate,
    Permissions,
)
from steno.agent.permissions.gate import decide_later
from steno.agent.results import ResultCode
from steno.errors import Missing
from steno.log.conversation import Conversation
from steno.log.queries import pending_approvals, result_code
from steno.messages.call import ToolCall
from steno.records.entry import ApprovalStatus, Mode
from steno.store import MemoryStore
from steno.testing import ScriptedTool
from tests.agent.agent_setup import (
    AgentHarness,
    approvals_in,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
    write_tool,
)


class Waiting:
    """An approver whose first question is never answered."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.questions: list[ApprovalRequest] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        self.questions.append(question)
        self.asked.set()
        return await asyncio.Future()


def answering(verdict: bool) -> CallbackApprover:
    return CallbackApprover(lambda _: verdict, actor="eva")


def never_ask(question: ApprovalRequest) -> bool:
    raise AssertionError("nobody was to be asked")


async def ask_and_die(store: MemoryStore, tool: ScriptedTool, *calls: ToolCall) -> str:
    """Leave a session as a program does that is killed while an approval is pending."""
    waiting = Waiting()
    harness = AgentHarness(
        [turn_with_calls(*calls)], tool, store=store, gate=Gate(approver=waiting)
    )
    task = asyncio.create_task(harness.run())
    await waiting.asked.wait()
    session = store.clone(harness.conversation.id).id  # as the disk is in this moment
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    harness.check()
    return session


def orphaned(store: MemoryStore, *calls: ToolCall) -> Conversation:
    """Return a session whose last turn has unanswered calls."""
    return store.new([ChatMessage.user("Go."), turn_with_calls(*calls)])


@pytest.mark.requirement("S2-18")
def test_a_question_that_was_open_is_asked_again_by_the_next_run() -> None:
    store, tool = MemoryStore(), write_tool()
    session = run(ask_and_die(store, tool, call("c1", "write"), call("c2", "write")))
    conversation = store.open(session)
    assert [c.id for c in pending_approvals(conversation.entries())] == ["c1"]
    harness = AgentHarness(
        ["Done."], tool, store=store, conversation=conversation, gate=Gate(approver=answering(True))
    )
    assert run(harness.run("And?")).end_reason is EndReason.DONE
    assert [c.id for c in tool.calls] == ["c1", "c2"]
    assert [r.tool_call_id for r in harness.results] == ["c1", "c2"]
    harness.check()


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("allowed", [True, False])
def test_the_next_run_applies_decisions_made_between_runs(allowed: bool) -> None:
    store, tool = MemoryStore(), write_tool()
    session = run(ask_and_die(store, tool, call("c1", "write")))
    decide_later(store.open(session), "c1", allowed=allowed, actor="eva", reason="so be it")
    harness = AgentHarness(
        ["Done."],
        tool,
        store=store,
        conversation=store.open(session),
        gate=Gate(approver=CallbackApprover(never_ask), trust_record=True),
    )
    run(harness.run(None))
    assert len(tool.calls) == allowed
    if not allowed:
        assert result_code(harness.result) == ResultCode.DENIED_BY_APPROVER
        assert harness.result.text.endswith(": so be it")
    assert approvals_in(harness.conversation.entries())[-1].actor == "eva"
    harness.check()


def test_a_yes_from_meanwhile_does_not_reach_beyond_deny_or_mode() -> None:
    store = MemoryStore()
    for settings, mode in (
        ({"gate": Gate(Permissions.of(deny=["write"]), trust_record=True)}, Mode.ACT),
        ({"gate": gate_allowing("write", trust_record=True)}, Mode.PLAN),
    ):
        tool = write_tool()
        session = run(ask_and_die(store, tool, call("c1", "write")))
        conversation = store.open(session)
        decide_later(conversation, "c1", allowed=True, actor="eva")
        conversation.change_mode(mode)
        harness = AgentHarness(["Done."], tool, store=store, conversation=conversation, **settings)
        run(harness.run())
        assert (tool.calls, harness.result.outcome) == ([], Outcome.DENIED)


def test_a_no_from_meanwhile_holds_against_a_rule_that_would_allow() -> None:
    store, tool = MemoryStore(), write_tool()
    session = run(ask_and_die(store, tool, call("c1", "write")))
    conversation = store.open(session)
    decide_later(conversation, "c1", allowed=False, actor="eva")
    harness = AgentHarness(
        ["Done."], tool, store=store, conversation=conversation, gate=gate_allowing("write")
    )
    run(harness.run())
    assert (tool.calls, harness.result.outcome) == ([], Outcome.DENIED)
    assert result_code(harness.result) == ResultCode.DENIED_BY_APPROVER
    assert "eva" in harness.result.text


def test_a_no_that_was_on_record_when_the_program_ended_is_not_asked_again() -> None:
    store, tool = MemoryStore(), write_tool()
    conversation = orphaned(store, call("c1", "write"))
    conversation.decide("c1", ApprovalStatus.DENIED, actor="eva", reason="never")
    gate = Gate(approver=CallbackApprover(never_ask))
    harness = AgentHarness(["Done."], tool, store=store, conversation=conversation, gate=gate)
    run(harness.run())
    assert tool.calls == []
    assert result_code(harness.result) == ResultCode.DENIED_BY_APPROVER
    assert harness.result.text.endswith(": never")


@pytest.mark.parametrize(
    ("gate", "mode", "code"),
    [
        (Gate(), Mode.ACT, ResultCode.NO_APPROVER),
        (gate_allowing("write"), Mode.PLAN, ResultCode.DENIED_BY_MODE),
        (Gate(Permissions.of(role=AgentRole.PLANNER)), Mode.ACT, ResultCode.DENIED_BY_ROLE),
        (Gate(Permissions.of(deny=["write"])), Mode.ACT, ResultCode.DENIED_BY_RULE),
        (Gate(approver=answering(False)), Mode.ACT, ResultCode.DENIED_BY_APPROVER),
    ],
)
def test_a_repeated_denial_has_the_code_of_the_first(
    gate: Gate, mode: Mode, code: ResultCode
) -> None:
    store, tool = MemoryStore(), write_tool()
    conversation = store.new()
    conversation.change_mode(mode)
    first = AgentHarness(
        [turn_with_calls(call("c1", "write")), "Done."],
        tool,
        store=store,
        conversation=conversation,
        gate=gate,
    )
    run(first.run())
    assert result_code(first.result) == code
    denial = approvals_in(conversation.entries())[-1]

    # The program ended before the result was written; the next one would allow the call.
    conversation = orphaned(store, call("c1", "write"))
    conversation.decide(
        "c1", denial.status, actor=denial.actor, rule=denial.rule, reason=denial.reason
    )
    second = AgentHarness(
        ["Done."], tool, store=store, conversation=conversation, gate=gate_allowing("write")
    )
    run(second.run())
    assert (tool.calls, second.result.outcome) == ([], Outcome.DENIED)
    assert result_code(second.result) == code


def test_a_denial_of_an_older_version_without_an_approver_has_its_code() -> None:
    """Older versions recorded this denial under another rule."""
    store, tool = MemoryStore(), write_tool()
    conversation = orphaned(store, call("c1", "write"))
    rule = "nobody can be asked"
    conversation.decide("c1", ApprovalStatus.DENIED, rule=rule, reason="permission denied")
    harness = AgentHarness(["Done."], tool, store=store, conversation=conversation)
    run(harness.run())
    assert (tool.calls, result_code(harness.result)) == ([], ResultCode.NO_APPROVER)


def test_only_outstanding_calls_can_be_decided_later() -> None:
    conversation = orphaned(MemoryStore(), call("c1", "write"))
    with pytest.raises(Missing) as caught:
        decide_later(conversation, "c2", allowed=True, actor="eva")
    assert (caught.value.code, caught.value.place) == ("call_not_pending", "approval")


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("mode", Mode)
def test_an_approved_call_is_not_repeated_after_a_kill_unless_it_only_reads(mode: Mode) -> None:
    store = MemoryStore()
    tools = [read_tool(), write_tool()]
    conversation = orphaned(store, call("c1", "write"), call("c2", "read"), call("c3", "gone"))
    for name in ("c1", "c2", "c3"):
        conversation.decide(name, ApprovalStatus.APPROVED, rule="allow *")
    conversation.change_mode(mode)
    harness = AgentHarness(
        ["I look."], *tools, store=store, conversation=conversation, gate=gate_allowing("write")
    )
    run(harness.run())
    assert [len(tool.calls) for tool in tools] == [1, 0]
    assert [(r.tool_call_id, r.outcome) for r in harness.results] == [
        ("c1", Outcome.CANCELLED),
        ("c2", Outcome.OK),
        ("c3", Outcome.CANCELLED),
    ]
    assert result_code(harness.results[0]) == ResultCode.OUTCOME_UNKNOWN
    harness.check()


def test_a_yes_that_was_acted_on_once_is_not_acted_on_again() -> None:
    store, tool = MemoryStore(), write_tool()
    conversation = orphaned(store, call("c1", "write"))
    decide_later(conversation, "c1", allowed=True, actor="eva")

    async def main() -> Conversation:
        hanging = write_tool("write", [asyncio.Event(), "never"])
        gate = Gate(trust_record=True)
        harness = AgentHarness([], hanging, store=store, conversation=conversation, gate=gate)
        task = asyncio.create_task(harness.run(None))
        await hanging.begun.wait()
        killed = store.clone(conversation.id)
        task.cancel()
        await asyncio.wait([task])
        return killed

    gate = Gate(trust_record=True)
    harness = AgentHarness(["I look."], tool, store=store, conversation=run(main()), gate=gate)
    run(harness.run())
    assert tool.calls == []
    assert result_code(harness.result) == ResultCode.OUTCOME_UNKNOWN


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("status", [ApprovalStatus.APPROVED, ApprovalStatus.DENIED])
def test_a_decision_about_other_arguments_is_none(status: ApprovalStatus) -> None:
    """The id is the same, the arguments are not: these need a decision."""
    store, tool = MemoryStore(), write_tool()
    conversation = orphaned(store, call("c1", "write", path="a"))
    decided = conversation.decide("c1", status, actor="eva").payload
    other = orphaned(store, call("c1", "write", path="/etc/passwd"))
    other.append(decided, audit={"deferred": True})
    asked: list[str] = []

    def decide(question: ApprovalRequest) -> bool:
        asked.append(question.call.arguments)
        return False

    gate = Gate(approver=CallbackApprover(decide))
    harness = AgentHarness(["Done."], tool, store=store, conversation=other, gate=gate)
    run(harness.run())
    assert asked == ['{"path": "/etc/passwd"}']
    assert (tool.calls, harness.result.outcome) == ([], Outcome.DENIED)
