"""Approvers that need no terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from steno import InvalidValue, ToolCall
from steno.agent.permissions.gate import AllowingApprover, CallbackApprover, DenyingApprover
from steno.ports import ApprovalDecision, ApprovalRequest, Approver, Capability, GrantScope

QUESTION = ApprovalRequest(call=ToolCall.create("bash", {}, id="c1"), capability=Capability.EXECUTE)


def ask(approver: Approver) -> ApprovalDecision:
    return asyncio.run(approver.ask(QUESTION))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_function_decides_about_one_call(allowed: bool) -> None:
    seen: list[ApprovalRequest] = []

    def decide(question: ApprovalRequest) -> bool:
        seen.append(question)
        return allowed

    verdict = ask(CallbackApprover(decide, actor="policy"))
    assert verdict == ApprovalDecision(allowed=allowed, actor="policy", scope=GrantScope.ONCE)
    assert seen == [QUESTION]
    assert ask(CallbackApprover(decide)).actor == "callback"


def test_a_function_may_return_a_verdict_and_take_its_time() -> None:
    wanted = ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.SESSION, rule="bash")

    async def decide(question: ApprovalRequest) -> ApprovalDecision:
        await asyncio.sleep(0)
        return wanted

    assert ask(CallbackApprover(decide)) == wanted


@pytest.mark.parametrize(
    "answer", [None, 1, "no", "yes", [ApprovalDecision(allowed=True, actor="a")]]
)
def test_an_invalid_decision_never_allows_a_call(answer: Any) -> None:
    async def later() -> Any:
        return answer

    def awaited(question: ApprovalRequest) -> Awaitable[Any]:
        return later()

    for function in (lambda question: answer, awaited):
        with pytest.raises(InvalidValue) as caught:
            ask(CallbackApprover(function))
        assert (caught.value.code, caught.value.place) == ("invalid_approval", "approver")


def test_without_an_approver_the_denial_names_the_remedy() -> None:
    verdict = ask(DenyingApprover())
    assert (verdict.allowed, verdict.actor) == (False, "headless")
    assert "allow it with a rule" in (verdict.reason or "")
    assert ask(DenyingApprover("not now", actor="ci")).reason == "not now"


def test_yes_to_everything_is_yes_to_each_call_and_on_record_as_such() -> None:
    assert ask(AllowingApprover()) == ApprovalDecision(
        allowed=True, actor="--yes", scope=GrantScope.ONCE
    )
