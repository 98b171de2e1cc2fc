"""Grants that cannot be read or stored, invalid decisions, approvers that fail."""

from __future__ import annotations

from typing import Any

import pytest

from steno.agent import (
    ApprovalDecision,
    CallbackApprover,
    Gate,
    GrantScope,
    Notice,
    NoticeKind,
    decide_later,
)
from steno.errors import InvalidDocument, Missing, StenoError, ToolFailed, Unavailable
from steno.messages.outcome import Outcome
from steno.records.entry import Approval, ApprovalStatus
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls, write_tool


class Broken:
    """Grants that cannot be read or stored."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads

    def rules(self) -> tuple[str, ...]:
        if self._reads:
            return ()
        raise InvalidDocument("grants.toml: line 1: nothing that we know")

    def add(self, rule: str, scope: GrantScope) -> None:
        raise Unavailable("grants.toml: the disk is full")


def asked(answer: Any) -> CallbackApprover:
    return CallbackApprover(lambda _: answer)


def notices(harness: AgentHarness) -> list[str]:
    events = harness.events_of(Notice)
    return [event.code for event in events if event.kind is NoticeKind.PERMISSION]


def test_grants_that_cannot_be_read_allow_nothing_and_stop_nothing() -> None:
    turns = [
        turn_with_calls(call("c1", "read"), call("c2", "read")),
        turn_with_calls(call("c3", "write")),
        "Done.",
    ]
    harness = AgentHarness(turns, read_tool(), write_tool(), gate=Gate(grants=Broken(reads=False)))
    run(harness.run())
    assert [result.outcome for result in harness.results] == [
        *(Outcome.OK, Outcome.OK, Outcome.DENIED)
    ]
    assert notices(harness) == ["grants_unreadable"]
    harness.check()


def test_a_grant_that_cannot_be_stored_still_allows_the_call() -> None:
    verdict = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.USER, rule="write")
    gate = Gate(approver=asked(verdict), grants=Broken(reads=True))
    harness = AgentHarness([turn_with_calls(call("c1", "write")), "Done."], write_tool(), gate=gate)
    run(harness.run())
    assert harness.result.outcome is Outcome.OK
    assert notices(harness) == ["grant_not_kept"]
    harness.check()


@pytest.mark.parametrize(("rule", "reason"), [("write(", "rule_invalid"), ("", "no_rule_fits")])
def test_a_verdict_whose_rule_is_none_allows_this_call_alone(rule: str, reason: str) -> None:
    verdict = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.SESSION, rule=rule)
    turns = [turn_with_calls(call("c1", "write")), turn_with_calls(call("c2", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(), gate=Gate(approver=asked(verdict)))
    run(harness.run())
    assert [status for _, status in harness.approvals] == ["pending", "approved"] * 2
    assert notices(harness)[0] == reason
    harness.check()


def test_a_grant_without_a_store_is_recorded_for_the_session() -> None:
    verdict = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.PROJECT, rule="write")
    turns = [turn_with_calls(call("c1", "write")), turn_with_calls(call("c2", "write")), "Done."]
    harness = AgentHarness(turns, write_tool(), gate=Gate(approver=asked(verdict)))
    run(harness.run())
    assert [status for _, status in harness.approvals] == ["pending", "approved", "approved"]
    audits = [e.audit for e in harness.conversation.entries() if isinstance(e.payload, Approval)]
    assert (audits[1] or {})["scope"] == "session"


@pytest.mark.parametrize("error", [OSError("gone"), ToolFailed("not mine"), Missing("nothing")])
def test_an_approver_that_fails_has_allowed_nothing_and_that_is_on_record(error: Exception) -> None:
    def fail(_: object) -> bool:
        raise error

    tool = write_tool()
    gate = Gate(approver=CallbackApprover(fail))
    harness = AgentHarness([turn_with_calls(call("c1", "write")), "Done."], tool, gate=gate)
    with pytest.raises(StenoError if isinstance(error, StenoError) else type(error)):
        run(harness.run())
    assert tool.calls == []
    assert harness.approvals == [("c1", "pending"), ("c1", "denied")]
    harness.check()


def test_an_approved_call_that_may_have_run_cannot_be_decided_again() -> None:
    harness = AgentHarness([], write_tool())
    harness.conversation.append(turn_with_calls(call("c1", "write")))
    harness.conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada")
    with pytest.raises(Missing) as caught:
        decide_later(harness.conversation, "c1", allowed=True, actor="ada")
    assert (caught.value.code, caught.value.place) == ("already_decided", "approval")
