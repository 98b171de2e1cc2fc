"""A scripted tool plays its script, and records its calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steno import Outcome, ToolCall, ToolDefinition
from steno.agent import Agent, LoopEvent
from steno.errors import ToolFailed
from steno.log.conversation import Conversation
from steno.ports import Capability, Tool, ToolContext, ToolOutput
from steno.testing import ScriptedProvider, ScriptedTool, ScriptRanOut
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
)

pytestmark = pytest.mark.requirement("S4-16")


class Aside:
    """A ToolContext that records."""

    subjects = None
    access = ()

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def is_denied(self, subject: str) -> bool:
        return False

    def report_output(self, text: str) -> None:
        self.outputs.append(text)

    def put_blob(self, data: bytes) -> str:
        raise NotImplementedError

    def read_blob(self, sha256: str) -> bytes:
        raise NotImplementedError


def answers_of(tool: Tool, times: int = 1) -> list[Any]:
    async def main() -> list[Any]:
        found: list[Any] = []
        for number in range(times):
            try:
                found.append(await tool.run(call(f"c{number}", "t"), Aside()))
            except Exception as exc:  # noqa: BLE001 - scripts raise anything
                found.append(exc)
        return found

    return run(main())


def test_texts_outputs_exceptions_and_functions_are_answers() -> None:
    output, failure = ToolOutput.of("whole", details={"n": 1}), ToolFailed("no")

    def plain(call: ToolCall, stage: ToolContext) -> str:
        stage.report_output("hm")
        return f"for {call.id}"

    async def later(call: ToolCall, stage: ToolContext) -> Any:
        return plain

    tool = ScriptedTool("t", ["text", output, failure, plain, later])
    assert answers_of(tool, 5) == [
        ToolOutput.of("text"),
        output,
        failure,
        ToolOutput.of("for c3"),
        ToolOutput.of("for c4"),
    ]
    assert [c.id for c in tool.calls] == [c.id for c in tool.ended] == [f"c{n}" for n in range(5)]


def test_without_a_script_every_call_returns_ok() -> None:
    assert answers_of(ScriptedTool("t"), 3) == [ToolOutput.of("ok")] * 3


def test_a_script_that_ran_out_raises() -> None:
    tool = ScriptedTool("t", ["one"])
    assert answers_of(tool) == [ToolOutput.of("one")]
    with pytest.raises(ScriptRanOut, match="t has no answer for call 2"):
        answers_of(tool)


@pytest.mark.parametrize("capability", [Capability.READ, Capability.WRITE])
def test_a_script_that_ran_out_ends_the_run_and_fails_the_test(capability: Capability) -> None:
    tool = ScriptedTool("t", ["one"], capability=capability)
    turns = [turn_with_calls(call("c1", "t"), call("c2", "t"), call("c3", "t")), "It went well."]
    desk = AgentHarness(turns, tool, gate=gate_allowing("t"))
    with pytest.raises(ScriptRanOut, match="t has no answer for call 2"):
        run(desk.run())
    assert desk.results[0].text == "one"
    assert {result.outcome for result in desk.results[1:]} == {Outcome.CANCELLED}
    desk.check()


def test_a_script_that_ran_out_raises_from_the_events_of_a_run() -> None:
    async def main() -> list[LoopEvent]:
        agent = Agent(
            ScriptedProvider([turn_with_calls(call("c1", "t"))]),
            Conversation(),
            tools=[read_tool("t")],
        )
        return [event async for event in agent.events("Go.")]

    with pytest.raises(ScriptRanOut, match="request 2"):
        run(main())


def test_an_assertion_error_in_a_script_is_an_error_of_the_tool() -> None:
    desk = AgentHarness(
        [turn_with_calls(call("c1", "t")), "Done."], read_tool("t", AssertionError("no"))
    )
    assert run(desk.run()).text == "Done."
    assert desk.result.outcome is Outcome.ERROR


def test_a_string_for_a_list_of_answers_is_refused() -> None:
    with pytest.raises(TypeError, match="a list of answers"):
        ScriptedTool("t", "text")


def test_a_script_waits_for_the_test_and_records_cancelled_calls() -> None:
    async def main() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        tool = ScriptedTool("t", [[first, second, "done"], [asyncio.Event(), "never"]])
        task = asyncio.create_task(tool.run(call("c1", "t"), Aside()))
        await tool.begun.wait()
        first.set()
        await asyncio.sleep(0)
        assert (tool.ended, task.done()) == ([], False)
        second.set()
        assert await task == ToolOutput.of("done")
        stopped = asyncio.create_task(tool.run(call("c2", "t"), Aside()))
        await asyncio.sleep(0)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert [c.id for c in tool.stopped] == ["c2"]
        assert [c.id for c in tool.ended] == ["c1"]

    run(main())


def test_capability_subjects_and_preview_are_what_the_script_says() -> None:
    async def shown(tool: ScriptedTool) -> tuple[tuple[str, ...], str]:
        return tool.subjects(call("c1", "t")), (await tool.preview(call("c1", "t"))).text

    fixed = ScriptedTool("t", capability=Capability.EXECUTE, subjects=["ls"], preview="$ ls")
    assert fixed.capability is Capability.EXECUTE
    assert run(shown(fixed)) == (("ls",), "$ ls")
    made = ScriptedTool("t", subjects=lambda c: (c.id,), preview=lambda c: c.name)
    assert run(shown(made)) == (("c1",), "t")
    for broken in (
        ScriptedTool("t", subjects=ToolFailed("no")),
        ScriptedTool("t", preview=ToolFailed("no")),
    ):
        with pytest.raises(ToolFailed):
            run(shown(broken))


def test_any_arguments_are_valid_unless_parameters_restrict_them() -> None:
    anything = ScriptedTool("t").definition
    assert isinstance(anything, ToolDefinition)
    assert anything.check(call("c1", "t", whatever=[1, {"a": None}])) == ()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert ScriptedTool("t", parameters=schema).definition.check(call("c1", "t", n="x"))


def test_an_agent_uses_it_like_any_tool() -> None:
    weather = ScriptedTool("weather", ["Sunny."])
    provider = ScriptedProvider(
        [turn_with_calls(call("c1", "weather", town="Oslo")), "It is sunny."]
    )
    agent = Agent(provider, Conversation(), tools=[weather])
    assert run(agent.run("How is the weather?")).text == "It is sunny."
    assert weather.calls[0].get("town", str) == "Oslo"
