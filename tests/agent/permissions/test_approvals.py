"""Decisions by rules, grants and approvers, and errors while deciding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from steno import Outcome
from steno.agent import (
    AgentRole,
    AllowingApprover,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequested,
    CallbackApprover,
    DenyingApprover,
    EndReason,
    Gate,
    GrantScope,
    Permissions,
)
from steno.agent.results import ResultCode
from steno.errors import LogError, ToolFailed, Unavailable
from steno.log.queries import pending_approvals, result_code
from steno.ports import Approver, Capability
from steno.records.entry import Mode
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

TURNS = [turn_with_calls(call("c1", "write", path="a")), "Done."]


class Grants:
    """Grants beyond a session, in a list."""

    def __init__(self, *rules: str) -> None:
        self.added: list[tuple[str, GrantScope]] = []
        self._rules = rules

    def rules(self) -> tuple[str, ...]:
        return (*self._rules, *(rule for rule, _ in self.added))

    def add(self, rule: str, scope: GrantScope) -> None:
        self.added.append((rule, scope))


def answering(verdict: Any) -> CallbackApprover:
    return CallbackApprover(lambda _: verdict, actor="eva")


def never_ask(question: ApprovalRequest) -> bool:
    raise AssertionError("nobody was to be asked")


# -- by rule, by the user, by no approver --------------------------------------------------------


@pytest.mark.requirement("S2-18", "S1-10")
@pytest.mark.parametrize(
    ("gate", "status", "actor", "rule"),
    [
        (gate_allowing("write"), "approved", None, "allow write"),
        (Gate(Permissions.of(deny=["write"])), "denied", None, "deny write"),
        (Gate(approver=answering(True)), "approved", "eva", None),
        (Gate(approver=answering(False)), "denied", "eva", None),
        (Gate(approver=DenyingApprover()), "denied", "headless", None),
        (Gate(approver=AllowingApprover()), "approved", "--yes", None),
        (Gate(), "denied", None, "no approver"),
    ],
)
def test_a_decision_is_recorded_with_its_actor_or_its_rule(
    gate: Gate, status: str, actor: str | None, rule: str | None
) -> None:
    tool = write_tool()
    harness = AgentHarness(TURNS, tool, gate=gate)
    assert run(harness.run()).end_reason is EndReason.DONE
    last = approvals_in(harness.conversation.entries())[-1]
    assert (str(last.status), last.actor, last.rule) == (status, actor, rule)
    assert len(tool.calls) == (status == "approved")
    if status == "denied":
        assert harness.result.outcome is Outcome.DENIED
        by_rule = {"deny write": ResultCode.DENIED_BY_RULE, None: ResultCode.DENIED_BY_APPROVER}
        assert result_code(harness.result) == by_rule.get(rule, ResultCode.NO_APPROVER)
    harness.check()


@pytest.mark.requirement("S2-18")
def test_a_question_shows_the_call_and_is_on_record_while_it_is_asked() -> None:
    seen: list[tuple[str, ...]] = []

    def decide(question: ApprovalRequest) -> bool:
        pending = pending_approvals(harness.conversation.entries())
        seen.append(tuple(c.id for c in pending))
        assert (question.call.id, question.preview.text) == ("c1", "would write a")
        assert (question.capability, [each.text for each in question.subjects]) == (
            Capability.WRITE,
            ["a"],
        )
        return True

    tool = write_tool(subjects=["a"], preview="would write a")
    harness = AgentHarness(TURNS, tool, gate=Gate(approver=CallbackApprover(decide)))
    run(harness.run())
    assert seen == [("c1",)]
    assert pending_approvals(harness.conversation.entries()) == ()
    assert [event.request.call.id for event in harness.events_of(ApprovalRequested)] == ["c1"]
    assert [status for _, status in harness.approvals] == ["pending", "approved"]


# -- how far it reaches --------------------------------------------------------------------------


def twice(
    harness_settings: Callable[[], dict[str, Any]], verdict: ApprovalDecision
) -> tuple[int, Grants]:
    """Let a tool be called twice with one verdict for all; return how often it was asked."""
    asked: list[ApprovalRequest] = []
    grants = Grants()

    def decide(question: ApprovalRequest) -> ApprovalDecision:
        asked.append(question)
        return verdict

    turns = [turn_with_calls(call("c1", "write")), turn_with_calls(call("c2", "write")), "Done."]
    gate = Gate(approver=CallbackApprover(decide), grants=grants)
    harness = AgentHarness(turns, write_tool(subjects=["a"]), gate=gate, **harness_settings())
    run(harness.run())
    assert all(r.outcome is Outcome.OK for r in harness.results)
    return len(asked), grants


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    ("scope", "times", "added"),
    [
        (GrantScope.ONCE, 2, []),
        (GrantScope.SESSION, 1, []),
        (GrantScope.PROJECT, 1, [("write(a)", GrantScope.PROJECT)]),
        (GrantScope.USER, 1, [("write(a)", GrantScope.USER)]),
    ],
)
def test_a_verdict_reaches_as_far_as_its_scope(
    scope: GrantScope, times: int, added: list[tuple[str, GrantScope]]
) -> None:
    verdict = ApprovalDecision(allowed=True, actor="eva", scope=scope, rule="write(a)")
    asked, grants = twice(dict, verdict)
    assert (asked, grants.added) == (times, added)


@pytest.mark.requirement("S2-18")
def test_a_grant_for_the_session_holds_after_a_restart_and_not_in_another_session() -> None:
    store = MemoryStore()
    verdict = ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION, rule="write(a)")
    first = AgentHarness(
        TURNS, write_tool(subjects=["a"]), store=store, gate=Gate(approver=answering(verdict))
    )
    run(first.run())
    for conversation, outcome in (
        (store.open(first.conversation.id), Outcome.OK),
        (store.new(), Outcome.DENIED),
    ):
        turns = [turn_with_calls(call("c9", "write")), "Done."]
        later = AgentHarness(
            turns,
            write_tool(subjects=["a"]),
            store=store,
            conversation=conversation,
            gate=Gate(trust_record=True),
        )
        run(later.run())
        assert later.results[-1].outcome is outcome


def test_a_grant_that_was_rewound_does_not_hold() -> None:
    verdict = ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION, rule="write")
    answers: Iterator[ApprovalDecision | bool] = iter([verdict, False])
    gate = Gate(approver=CallbackApprover(lambda _: next(answers)))
    turns = [turn_with_calls(call("c1", "write"), call("c2", "write")), "Done."]
    harness = AgentHarness([*turns, *TURNS], write_tool(), gate=gate)
    before = harness.conversation.entries()[-1]
    run(harness.run())
    assert [r.outcome for r in harness.results] == [Outcome.OK, Outcome.OK]
    harness.conversation.rewind(before)
    run(harness.run())
    assert [r.outcome for r in harness.results] == [Outcome.DENIED]


# -- what nothing reaches beyond -----------------------------------------------------------------


@pytest.mark.requirement("S2-14", "S2-22")
@pytest.mark.parametrize("capability", [c for c in Capability if c is not Capability.READ])
def test_plan_mode_offers_reading_only_and_denies_the_rest(capability: Capability) -> None:
    tools = [read_tool(), ScriptedTool("do", capability=capability)]
    gate = Gate(
        Permissions.of(allow=["*"]), CallbackApprover(never_ask), grants=Grants("do", "read")
    )
    turns = [turn_with_calls(call("c1", "do"), call("c2", "read")), "Planned."]
    harness = AgentHarness(turns, *tools, gate=gate)
    harness.conversation.change_mode(Mode.PLAN)
    run(harness.run())
    assert [[t.name for t in request.tools] for request in harness.provider.requests] == [
        ["read"]
    ] * 2
    assert "plan" in (harness.provider.requests[0].messages[0].text or "").lower()
    denied, allowed = harness.results
    assert denied.outcome is Outcome.DENIED
    assert result_code(denied) == ResultCode.DENIED_BY_MODE
    assert allowed.outcome is Outcome.OK
    assert [len(tool.calls) for tool in tools] == [1, 0]


@pytest.mark.requirement("S2-22")
def test_another_mode_offers_other_tools_from_the_next_request_on() -> None:
    harness = AgentHarness(
        ["Planned.", "Done."], read_tool(), write_tool(), gate=gate_allowing("write")
    )
    harness.conversation.change_mode(Mode.PLAN)
    run(harness.run())
    harness.conversation.change_mode(Mode.ACT)
    run(harness.run())
    offered = [[t.name for t in request.tools] for request in harness.provider.requests]
    assert offered == [["read"], ["read", "write"]]


@pytest.mark.requirement("S2-14")
def test_a_planner_is_offered_reading_only_and_denied_the_rest() -> None:
    tool = write_tool()
    permissions = Permissions.of(role=AgentRole.PLANNER, allow=["*"])
    harness = AgentHarness(
        TURNS, read_tool(), tool, gate=Gate(permissions, CallbackApprover(never_ask))
    )
    run(harness.run())
    assert [t.name for t in harness.provider.requests[0].tools] == ["read"]
    assert harness.result.outcome is Outcome.DENIED
    assert result_code(harness.result) == ResultCode.DENIED_BY_ROLE
    assert tool.calls == []


def test_deny_counts_more_than_rules_grants_and_people() -> None:
    permissions = Permissions.of(allow=["*", "write"], deny=["write(a)"])
    gate = Gate(permissions, CallbackApprover(never_ask), grants=Grants("write"))
    tool = write_tool(subjects=["b", "a"])
    harness = AgentHarness(TURNS, tool, gate=gate)
    run(harness.run())
    assert (tool.calls, harness.result.outcome) == ([], Outcome.DENIED)
    assert approvals_in(harness.conversation.entries())[-1].rule == "deny write(a)"


# -- what goes wrong while it is decided ---------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected", "has_traceback"),
    [
        ({"subjects": ToolFailed("no such folder")}, "no such folder", False),
        ({"subjects": KeyError("path")}, "KeyError: 'path'", True),
        ({"subjects": lambda _: None}, "TypeError", True),
        ({"preview": ToolFailed("nothing to replace")}, "nothing to replace", False),
        ({"preview": RuntimeError("odd")}, "RuntimeError: odd", True),
        ({"preview": lambda _: 7}, "InvalidTool", True),
    ],
)
def test_a_tool_that_stumbles_before_it_runs_answers_with_an_error(
    settings: dict[str, Any], expected: str, has_traceback: bool
) -> None:
    tool = write_tool(**settings)
    harness = AgentHarness(TURNS, tool, gate=Gate(approver=answering(True)))
    assert run(harness.run()).text == "Done."
    assert tool.calls == []
    assert harness.result.outcome is Outcome.ERROR
    assert expected in harness.result.text
    assert harness.result.failure is not None
    assert (harness.result.failure.traceback is not None) is has_traceback
    harness.check()


def test_a_path_that_cannot_be_written_down_is_asked_about_and_never_granted() -> None:
    rules: list[str] = []

    def decide(question: ApprovalRequest) -> ApprovalDecision:
        rules.append(question.rule)
        return ApprovalDecision(allowed=True, actor="eva", scope=GrantScope.SESSION)

    tool = write_tool(subjects=["caf\udce9.txt"], preview="caf\udce9.txt")
    harness = AgentHarness(TURNS, tool, gate=Gate(approver=CallbackApprover(decide)))
    run(harness.run())
    assert rules == [""]
    assert len(tool.calls) == 1
    harness.check()


class Failing:
    """An approver that cannot ask."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        raise self._error


@pytest.mark.parametrize(
    ("approver", "error"),
    [
        (Failing(Unavailable("grants: gone")), LogError),
        (Failing(EOFError()), EOFError),
        (answering("yes"), ValueError),
        (answering(ApprovalDecision(allowed=True, actor="\ud800")), ValueError),
    ],
)
def test_an_approver_that_fails_ends_the_run_and_lets_nothing_pass(
    approver: Approver, error: type[Exception]
) -> None:
    tool = write_tool()
    harness = AgentHarness([*TURNS, "Well."], tool, gate=Gate(approver=approver))
    with pytest.raises(error):
        run(harness.run())
    assert (tool.calls, harness.result.outcome) == ([], Outcome.CANCELLED)
    harness.check()


def test_an_approver_that_takes_no_notice_of_a_cancellation_lets_nothing_pass() -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def decide(question: ApprovalRequest) -> bool:
            asked.set()
            try:
                await asyncio.Future()
            except asyncio.CancelledError:
                return True
            raise AssertionError

        tool = write_tool()
        harness = AgentHarness(TURNS, tool, gate=Gate(approver=CallbackApprover(decide)))
        task = asyncio.create_task(harness.run())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tool.calls == []
        harness.check()

    run(main())
