"""Many calls of one turn: each decided on its own, readers together, writers alone, all in order."""

from __future__ import annotations

import asyncio

import pytest

from steno import Outcome
from steno.agent import (
    ApprovalRequest,
    CallbackApprover,
    CallEnded,
    CallStarted,
    EndReason,
    EntryRecorded,
    Gate,
    LoopEvent,
)
from steno.errors import InvalidValue
from steno.messages.call import ToolCall
from steno.ports import ToolContext
from steno.records.entry import Approval
from steno.testing import ScriptedTool
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
    write_tool,
)


@pytest.mark.requirement("S2-17")
def test_readers_run_together_and_are_recorded_in_the_order_of_their_calls() -> None:
    async def main() -> None:
        began = [asyncio.Event() for _ in range(3)]

        async def overlap(call: ToolCall, stage: ToolContext) -> str:
            number = int(call.id[1:])
            began[number].set()
            for other in began:  # no call ends before all have begun
                await other.wait()
            if number < 2:  # and the last call ends first
                await ended[number + 1].wait()
            ended[number].set()
            return f"result {number}"

        ended = [asyncio.Event() for _ in range(3)]
        tool = read_tool("read", overlap, overlap, overlap)
        turn = turn_with_calls(*[call(f"c{n}", "read") for n in range(3)])
        harness = AgentHarness([turn, "Done."], tool)
        assert (await harness.run()).end_reason is EndReason.DONE
        assert [c.id for c in tool.ended] == ["c2", "c1", "c0"]
        assert [(r.tool_call_id, r.text) for r in harness.results] == [
            (f"c{n}", f"result {n}") for n in range(3)
        ]
        assert [event.call.id for event in harness.events_of(CallEnded)] == ["c0", "c1", "c2"]
        harness.check()

    run(main())


@pytest.mark.requirement("S2-17")
def test_a_writer_runs_alone_and_in_its_place() -> None:
    running: set[str] = set()
    seen: list[tuple[str, frozenset[str]]] = []

    async def observe(call: ToolCall, stage: ToolContext) -> str:
        running.add(call.id)
        for _ in range(3):  # let the other calls begin
            await asyncio.sleep(0)
        seen.append((call.id, frozenset(running)))
        await asyncio.sleep(0)
        running.discard(call.id)
        return call.id

    tools = [
        ScriptedTool("read", iter(lambda: observe, None)),
        write_tool("write", *[observe] * 2),
    ]
    order = ["read", "read", "write", "write", "read", "read"]
    turn = turn_with_calls(*[call(f"c{n}", name) for n, name in enumerate(order)])
    harness = AgentHarness([turn, "Done."], *tools, gate=gate_allowing("write"))
    run(harness.run())
    together = dict(seen)
    assert together["c0"] == together["c1"] == {"c0", "c1"}
    assert together["c2"] == {"c2"}
    assert together["c3"] == {"c3"}
    assert together["c4"] == together["c5"] == {"c4", "c5"}
    assert [event.call.id for event in harness.events_of(CallStarted)] == [
        f"c{n}" for n in range(6)
    ]
    assert [r.tool_call_id for r in harness.results] == [f"c{n}" for n in range(6)]


@pytest.mark.requirement("S2-17", "S2-18")
def test_each_call_has_a_decision_of_its_own() -> None:
    asked: list[str] = []

    def decide(question: ApprovalRequest) -> bool:
        asked.append(question.call.id)
        return question.call.id != "c1"

    tool = write_tool()
    turn = turn_with_calls(call("c0", "write"), call("c1", "write"), call("c2", "write"))
    harness = AgentHarness(
        [turn, "Done."], tool, gate=Gate(approver=CallbackApprover(decide, actor="eva"))
    )
    run(harness.run())
    assert asked == ["c0", "c1", "c2"]
    assert [c.id for c in tool.calls] == ["c0", "c2"]
    assert [r.outcome for r in harness.results] == [Outcome.OK, Outcome.DENIED, Outcome.OK]
    assert harness.approvals == [
        ("c0", "pending"),
        ("c0", "approved"),
        ("c1", "pending"),
        ("c1", "denied"),
        ("c2", "pending"),
        ("c2", "approved"),
    ]


@pytest.mark.requirement("S2-17")
def test_a_failing_call_does_not_stop_the_others() -> None:
    tool = read_tool("read", "one", ValueError("two"), "three")
    turn = turn_with_calls(call("c1", "read"), call("c2", "read"), call("c3", "read"))
    harness = AgentHarness([turn, "Done."], tool)
    assert run(harness.run()).end_reason is EndReason.DONE
    assert [r.outcome for r in harness.results] == [Outcome.OK, Outcome.ERROR, Outcome.OK]


def test_calls_that_cannot_be_run_stand_among_the_others() -> None:
    turn = turn_with_calls(call("c1", "read"), call("c2", "fly"), call("c3", "read"))
    harness = AgentHarness([turn, "Done."], read_tool())
    run(harness.run())
    assert [(r.tool_call_id, r.outcome) for r in harness.results] == [
        ("c1", Outcome.OK),
        ("c2", Outcome.UNAVAILABLE),
        ("c3", Outcome.OK),
    ]
    harness.check()


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        AgentHarness([], read_tool(), read_tool())
    assert (caught.value.code, caught.value.place) == ("duplicate_tool_name", "tools")


# -- test very many calls --------------------------------------------------------------------------
#
# A turn with very many calls: it can be stopped, and each event is emitted once.


def test_an_interrupt_takes_effect_before_all_calls_are_decided() -> None:
    harness = AgentHarness(
        [turn_with_calls(*[call(f"c{number}", "read") for number in range(200)])], read_tool()
    )

    async def main() -> None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None

        def watch(event: LoopEvent) -> None:
            if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, Approval):
                loop.call_soon(task.cancel)

        await harness.agent.run("Go.", on_event=watch)

    with pytest.raises(asyncio.CancelledError):
        run(main())
    assert 0 < len(harness.approvals) < 10
    harness.check()
