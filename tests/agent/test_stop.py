"""Stopped anywhere, by whatever means: the record is whole, and the next run goes on.

One session of three turns and four calls is stopped at every event that is told, and at every
turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import count, repeat
from typing import Any, Literal

import pytest

from steno import Finished, Outcome, StopReason, TextDelta, ToolCallDelta
from steno.agent import (
    ApprovalRequest,
    CallbackApprover,
    EndReason,
    Gate,
    LoopEvent,
    SteeringPolicy,
    TurnStarted,
)
from steno.agent.dispatch import CALL_STOPPED_TEXT, PARTIAL_OUTPUT_HEADING
from steno.agent.loop import CALL_NOT_RUN_TEXT
from steno.messages.call import ToolCall
from steno.messages.content import Text
from steno.messages.message import ToolResultMessage, UserMessage
from steno.messages.request import Request
from steno.ports import ToolContext
from steno.testing import ScriptedTool
from steno.testing.doubles import ScriptedStep, ScriptedTurn
from tests.agent.agent_setup import AgentHarness, run, write_tool


class Pause(asyncio.Event):
    """Lets others have a turn, and waits for nobody."""

    async def wait(self) -> Literal[True]:
        await asyncio.sleep(0)
        return True


def turn(*calls: tuple[str, str], text: str) -> list[ScriptedStep]:
    """Say a text and call for something, piece by piece."""
    steps: list[ScriptedStep] = [Pause(), TextDelta(0, text[:2]), Pause(), TextDelta(0, text[2:])]
    for index, (id, name) in enumerate(calls):
        steps += [Pause(), ToolCallDelta(index, id, name, '{"a":'), Pause()]
        steps += [ToolCallDelta(index, None, None, " 1}")]
    reason = StopReason.TOOL_USE if calls else StopReason.END_TURN
    return [*steps, Pause(), Finished(reason), Pause()]


def answer(request: Request) -> ScriptedTurn:
    last = request.messages[-1]
    if isinstance(last, UserMessage) and last.text != "Go.":
        return turn(text="Well.")
    answered = sum(isinstance(message, ToolResultMessage) for message in request.messages)
    if answered == 0:
        return turn(("c1", "read"), ("c2", "read"), text="I look.")
    if answered == 2:
        return turn(("c3", "write"), ("c4", "read"), text="I write.")
    return turn(text="Done.")


async def work(call: ToolCall, stage: ToolContext) -> str:
    await asyncio.sleep(0)
    stage.report_output("half")
    await asyncio.sleep(0)
    return f"result of {call.id}"


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
        """Fail unless everything is in order, true, and can be gone on with."""
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not self.agent.is_running
        self.check()
        begun = {c.id for tool in (self.read, self.write) for c in tool.calls}
        for result in self.results:
            if result.outcome is Outcome.OK:
                assert result.text == f"result of {result.tool_call_id}"
            else:
                assert result.outcome is Outcome.CANCELLED
                first, *more = [block.text for block in result.content if isinstance(block, Text)]
                assert first in (CALL_STOPPED_TEXT, CALL_NOT_RUN_TEXT)
                assert more in ([], [f"{PARTIAL_OUTPUT_HEADING}\nhalf"])
            if result.tool_call_id in begun:
                assert result.text != CALL_NOT_RUN_TEXT
        said = [m.text for m in self.conversation.messages() if isinstance(m, UserMessage)]
        assert said[:1] == (["Go."] if self.was_begun else [])
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


async def ticks(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


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
    return None if task.cancelled() else task.result().ending


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

        task = asyncio.create_task(session.agent.run("Go.", watch=watch))
        ending = await ending_of(task)
        was_reached = len(seen) > number
        if was_reached:
            assert ending in expected(stop)
        if stop is not steer:  # nobody asks the model again
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


def test_who_stops_twice_does_not_wait_and_leaves_everything_in_order() -> None:
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
