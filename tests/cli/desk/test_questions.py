"""Questions that wait for a person: answered one by one, several in one go, or ahead."""

from __future__ import annotations

import asyncio

import pytest

from steno.call import ToolCall
from steno.cli.desk.questions import Questions
from steno.errors import Missing
from steno.ports import Capability, Question, Verdict
from tests.cli.desk.seated import run

pytestmark = pytest.mark.requirement("S2-18")
CALLS = {id: ToolCall.create("write", {"path": id}, id=id) for id in ("c1", "c2", "c3")}
YES = Verdict(allowed=True, actor="ann")
NO = Verdict(allowed=False, actor="ann")


def question(id: str) -> Question:
    return Question(call=CALLS[id], capability=Capability.WRITE, subjects=(id,))


async def asked(questions: Questions, id: str) -> asyncio.Task[Verdict]:
    """Ask about a call, and return who waits for the answer."""
    task = asyncio.create_task(questions.ask(question(id)))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("order", [("c1", "c2", "c3"), ("c3", "c1", "c2"), ("c2", "c3", "c1")])
def test_all_calls_of_a_turn_are_decided_in_one_go_in_any_order(order: tuple[str, ...]) -> None:
    async def main() -> None:
        questions = Questions(lambda: None)
        first = await asked(questions, "c1")
        for id in order:
            questions.decide(id, YES, CALLS)
        assert await first == YES
        assert [await questions.ask(question(id)) for id in ("c2", "c3")] == [YES, YES]

    run(main())


def test_what_has_its_answer_is_not_pending_and_cannot_be_answered_again() -> None:
    async def main() -> None:
        questions = Questions(lambda: None)
        first, second = await asked(questions, "c1"), await asked(questions, "c2")
        questions.decide("c1", NO, CALLS)
        assert [one.call.id for one in questions.pending(CALLS.values())] == ["c2", "c3"]
        with pytest.raises(Missing):
            questions.decide("c1", YES, CALLS)
        assert await first == NO
        questions.decide("c2", YES, CALLS)
        assert await second == YES

    run(main())


def test_nothing_is_decided_ahead_when_nobody_was_asked() -> None:
    async def main() -> None:
        questions = Questions(lambda: None)
        with pytest.raises(Missing):
            questions.decide("c2", YES, CALLS)
        task = await asked(questions, "c1")
        questions.decide("c1", YES, CALLS)
        await task
        with pytest.raises(Missing):
            questions.decide("c2", YES, CALLS)

    run(main())
