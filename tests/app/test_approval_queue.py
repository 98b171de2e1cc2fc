"""The queue of approvals: decided one by one, several at once, or early."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from steno.agent.permissions.subjects import normalize_subject
from steno.app.approval_queue import ApprovalQueue
from steno.errors import Missing
from steno.messages.call import ToolCall
from steno.ports import (
    AccessKind,
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    SandboxAccess,
)
from tests.app.session_setup import run

pytestmark = pytest.mark.requirement("S2-18")
CALLS = {id: ToolCall.create("write", {"path": id}, id=id) for id in ("c1", "c2", "c3")}
YES = ApprovalDecision(allowed=True, actor="ann")
NO = ApprovalDecision(allowed=False, actor="ann")


def question(id: str, preview: str = "") -> ApprovalRequest:
    return ApprovalRequest(
        call=CALLS[id],
        capability=Capability.WRITE,
        subjects=(normalize_subject(id, Capability.WRITE),),
        preview=CallPreview.of(preview),
    )


async def asked(
    questions: ApprovalQueue, id: str, preview: str = ""
) -> asyncio.Task[ApprovalDecision]:
    """Ask about a call, and return who waits for the answer."""
    task = asyncio.create_task(questions.ask(question(id, preview)))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("order", [("c1", "c2", "c3"), ("c3", "c1", "c2"), ("c2", "c3", "c1")])
def test_all_calls_of_a_turn_are_decided_in_one_go_in_any_order(order: tuple[str, ...]) -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        first = await asked(questions, "c1")
        for id in order:
            questions.decide(id, YES, CALLS)
        assert await first == YES
        assert [await questions.ask(question(id)) for id in ("c2", "c3")] == [YES, YES]

    run(main())


def test_a_decided_call_is_not_pending_and_cannot_be_decided_again() -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        first, second = await asked(questions, "c1"), await asked(questions, "c2")
        questions.decide("c1", NO, CALLS)
        assert [one.call.id for one in questions.pending_calls(CALLS.values())] == ["c2", "c3"]
        with pytest.raises(Missing):
            questions.decide("c1", YES, CALLS)
        assert await first == NO
        questions.decide("c2", YES, CALLS)
        assert await second == YES

    run(main())


def test_an_early_decision_is_listed_until_its_request() -> None:
    async def main() -> None:
        reported: list[list[tuple[str, ApprovalDecision | None]]] = []
        waiting = dict(CALLS)

        def listed() -> list[tuple[str, ApprovalDecision | None]]:
            return [
                (one.call.id, one.decision) for one in questions.pending_calls(waiting.values())
            ]

        questions = ApprovalQueue(lambda: reported.append(listed()))
        first = await asked(questions, "c1")
        questions.decide("c2", NO, CALLS)
        assert listed() == [("c1", None), ("c2", NO), ("c3", None)]
        questions.decide("c1", YES, CALLS)
        assert await first == YES
        del waiting["c1"]
        assert listed() == [("c2", NO)]  # while the first call runs, and nothing is asked
        questions.decide("c2", YES, waiting)
        reported.clear()
        assert await questions.ask(question("c2")) == YES
        assert reported == [[]]

    run(main())


@pytest.mark.parametrize("verdict", [YES, NO])
@pytest.mark.parametrize("now", ["as it was", "something else"])
def test_an_early_approval_is_asked_again_if_the_call_would_do_something_else(
    verdict: ApprovalDecision, now: str
) -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        first = await asked(questions, "c1")
        questions.record_preview(CALLS["c2"], CallPreview.of("as it was"))
        questions.decide("c2", verdict, CALLS)
        questions.decide("c1", YES, CALLS)
        await first
        second = await asked(questions, "c2", now)
        is_asked_anew = now != "as it was" and verdict.allowed
        assert [one.call.id for one in questions.pending_calls([])] == ["c2"][:is_asked_anew]
        if is_asked_anew:
            questions.decide("c2", NO, CALLS)
        assert await second == (NO if is_asked_anew else verdict)

    run(main())


def test_an_early_approval_does_not_answer_a_later_question_about_access() -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        first = await asked(questions, "c1")
        questions.decide("c2", YES, CALLS)
        questions.decide("c1", YES, CALLS)
        await first
        blocked = (SandboxAccess(AccessKind.NETWORK, "pypi.org"),)
        asking = asyncio.create_task(questions.ask(replace(question("c2"), access=blocked)))
        await asyncio.sleep(0)
        assert not asking.done()
        questions.decide("c2", NO, CALLS)
        assert await asking == NO

    run(main())


def test_nothing_is_decided_early_without_a_pending_question() -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        with pytest.raises(Missing):
            questions.decide("c2", YES, CALLS)
        task = await asked(questions, "c1")
        questions.decide("c1", YES, CALLS)
        await task
        with pytest.raises(Missing):
            questions.decide("c2", YES, CALLS)

    run(main())


def test_a_request_can_be_decided_from_its_announcement_on() -> None:
    """Also one that belongs to no call of the turn, such as a reference of the user."""

    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        request = question("c1")
        questions.announce(request)
        assert [one.request for one in questions.pending_calls([])] == [request]
        questions.decide("c1", YES, {})
        assert questions.pending_calls([]) == []
        assert await questions.ask(request) == YES

    run(main())


def test_a_request_of_an_interrupted_run_is_withdrawn() -> None:
    async def main() -> None:
        questions = ApprovalQueue(lambda: None)
        questions.announce(question("c1"))
        questions.forget_all()
        assert questions.pending_calls([]) == []
        with pytest.raises(Missing):
            questions.decide("c1", YES, {})

    run(main())
