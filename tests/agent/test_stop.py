"""Stopped anywhere, by any means: the record is intact, and the next run continues.

One session of three turns and four calls is stopped at every event, and at every
turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import count, repeat
from typing import Any

import pytest

from steno import Outcome
from steno.agent import (
    ApprovalRequest,
    CallbackApprover,
    EndReason,
    Gate,
    LoopEvent,
    SteeringPolicy,
    TurnStarted,
)
from steno.agent.results import PARTIAL_OUTPUT_HEADING, ResultCode
from steno.log.queries import result_code
from steno.messages.content import Text
from steno.messages.message import UserMessage
from steno.testing import ScriptedTool
from tests.agent.agent_setup import AgentHarness, run, write_tool
from tests.agent.stepwise_session import answer, ticks, work


async def decide(question: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


class Session(AgentHarness):
    """The session that is stopped."""

    def __init__(self) -> None:
        self.read = ScriptedTool("read", repeat(work))
        self.write = write_tool("write", *[work] * 2)
        gate = Gate(approver=CallbackApprover(decide))
        self.was_begun = True
        """Else it was cancelled before it did anything."""
        super().__init__(repeat(answer), self.read, self.write, gate=gate)

    async def check_and_go_on(self) -> None:
        """Fail unless the record is in order, true, and can be continued."""
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not self.agent.is_running
        self.check()
        begun = {c.id for tool in (self.read, self.write) for c in tool.calls}
        for result in self.results:
            if result.outcome is Outcome.OK:
                assert result.text == f"result of {result.tool_call_id}"
            else:
                assert result.outcome is Outcome.CANCELLED
                _, *more = [block.text for block in result.content if isinstance(block, Text)]
                assert result_code(result) in (ResultCode.CALL_STOPPED, ResultCode.CALL_NOT_RUN)
                assert more in ([], [f"{PARTIAL_OUTPUT_HEADING}\nhalf"])
            if result.tool_call_id in begun:
                assert result_code(result) != ResultCode.CALL_NOT_RUN
        user_texts = [m.text for m in self.conversation.messages() if isinstance(m, UserMessage)]
        assert user_texts[:1] == (["Go."] if self.was_begun else [])
        assert {r.tool_call_id for r in self.results} >= begun
        written = len(self.write.calls)
        later = AgentHarness(
            repeat(answer),
            self.read,
            self.write,
            store=self.store,
            conversation=self.store.open(self.conversation.id),
        )
        assert (await later.run("And now?")).text == "Well."
        later.check()
        assert len(self.write.calls) == written


Stop = Callable[[Session, "asyncio.Task[Any]"], object]


def cancel(session: Session, task: asyncio.Task[Any]) -> None:
    task.cancel()


def interrupt(session: Session, task: asyncio.Task[Any]) -> None:
    session.agent.interrupt()


def steer(session: Session, task: asyncio.Task[Any]) -> None:
    if session.agent.is_running:
        session.agent.steer("Rather not.", SteeringPolicy.INTERRUPT)


every_stop = pytest.mark.parametrize("stop", [cancel, interrupt, steer])


async def ending_of(task: asyncio.Task[Any]) -> EndReason | None:
    """Return how a run ended; None if it was cancelled."""
    await asyncio.wait([task])
    return None if task.cancelled() else task.result().end_reason


def expected(stop: Stop) -> set[EndReason | None]:
    """Return how a run may end that was stopped so; it may have been done in that moment."""
    if stop is cancel:
        return {None, EndReason.DONE}
    return {EndReason.INTERRUPTED, EndReason.DONE} if stop is interrupt else {EndReason.DONE}


# -- at every event, and at every turn of the loop ----------------------------------------------


@every_stop
@pytest.mark.requirement("S4-14")
def test_a_run_can_be_stopped_at_every_event(stop: Stop) -> None:
    async def stopped_at(number: int) -> bool:
        session = Session()
        seen: list[LoopEvent] = []

        def watch(event: LoopEvent) -> None:
            seen.append(event)
            if len(seen) == number + 1:
                stop(session, task)

        task = asyncio.create_task(session.agent.run("Go.", on_event=watch))
        ending = await ending_of(task)
        was_reached = len(seen) > number
        if was_reached:
            assert ending in expected(stop)
        if stop is not steer:  # the model is not asked again
            assert not any(isinstance(event, TurnStarted) for event in seen[number + 1 :])
        await session.check_and_go_on()
        return was_reached

    numbers = stops_until_the_end(stopped_at)
    assert numbers > 40


@every_stop
@pytest.mark.requirement("S4-14")
def test_a_run_can_be_stopped_at_every_turn_of_the_event_loop(stop: Stop) -> None:
    async def stopped_at(number: int) -> bool:
        session = Session()
        task = asyncio.create_task(session.run("Go."))
        session.was_begun = number > 0 or stop is not cancel
        await ticks(number)
        was_reached = not task.done()
        stop(session, task)
        ending = await ending_of(task)
        if was_reached:
            assert ending in expected(stop)
        await session.check_and_go_on()
        return was_reached

    assert stops_until_the_end(stopped_at) > 40


def test_a_second_interrupt_does_not_wait_and_leaves_the_record_in_order() -> None:
    async def stopped_at(number: int) -> bool:
        session = Session()
        task = asyncio.create_task(session.run("Go."))
        session.was_begun = number > 0
        await ticks(number)
        was_reached = not task.done()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await ticks(3)  # tools that were left alone end on their own
        await session.check_and_go_on()
        return was_reached

    assert stops_until_the_end(stopped_at) > 40


def test_leaving_the_events_stops_the_run() -> None:
    async def stopped_at(number: int) -> bool:
        session = Session()
        seen = 0
        async with aclosing(session.agent.events("Go.")) as events:
            async for _ in events:
                seen += 1
                if seen > number:
                    break
        await session.check_and_go_on()
        return seen > number

    assert stops_until_the_end(stopped_at) > 40


def stops_until_the_end(stopped_at: Callable[[int], Any]) -> int:
    """Stop ever later; return how often that was before the end."""
    return next(number for number in count() if not run(stopped_at(number)))
