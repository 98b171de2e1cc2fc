"""A scripted session of three turns and four calls that can be stopped between any two steps."""

from __future__ import annotations

import asyncio
from typing import Literal

from steno import Finished, StopReason, TextDelta, ToolCallDelta
from steno.messages.call import ToolCall
from steno.messages.message import ToolResultMessage, UserMessage
from steno.messages.request import Request
from steno.ports import ToolContext
from steno.testing.doubles import ScriptedStep, ScriptedTurn


class Pause(asyncio.Event):
    """Yields to the event loop once."""

    async def wait(self) -> Literal[True]:
        await asyncio.sleep(0)
        return True


def turn(*calls: tuple[str, str], text: str) -> list[ScriptedStep]:
    """Stream a text and calls in chunks."""
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


async def work(call: ToolCall, context: ToolContext) -> str:
    await asyncio.sleep(0)
    context.report_output("half")
    await asyncio.sleep(0)
    return f"result of {call.id}"


async def ticks(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)
