"""Another model works on the prompts of a recorded session, and the two are compared."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Usage
from steno.agent import Agent, EndReason, Gate, Runner
from steno.agent.permissions.gate import NO_APPROVER_RULE
from steno.agent.replay.comparison import (
    RECORDED_RESULT_RULE,
    ModelComparison,
    RecordedResults,
    rerun,
)
from steno.errors import Conflict, InvalidValue, ProviderError
from steno.log.queries import Price
from steno.messages.content import FileReference, Text
from steno.messages.message import AssistantMessage, UserMessage
from steno.records.entry import Approval, Mode, ModeChange, Resolution, ResolutionStatus
from steno.testing import ScriptedProvider, ScriptedTool
from steno.testing.doubles import ScriptedTurn
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
    write_tool,
)

TOKENS = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


def recorded() -> AgentHarness:
    """Keep a session in which a model reads two files and answers a second question."""
    harness = AgentHarness(
        [
            turn_with_calls(call("c1", "read", path="a", lines=3), text="I look."),
            turn_with_calls(call("c2", "read", path="b")),
            replace(ChatMessage.assistant("All green."), usage=TOKENS),
            "You are welcome.",
        ],
        read_tool("read", "A.", "B."),
        model="lab/large",
    )

    async def talk() -> None:
        await harness.run("Is it broken?")
        await harness.run("Thank you.")

    run(talk())
    return harness


def test_the_context_is_cleared_where_it_was() -> None:
    harness = AgentHarness(["First.", "Second."], model="lab/large")

    async def talk() -> None:
        await harness.run("One?")
        harness.conversation.clear()
        await harness.run("Two?")

    run(talk())
    comparison, provider = again(harness, ["Other first.", "Other second."])
    assert comparison.new.turns == 2
    sent = [[message.text for message in request.messages[1:]] for request in provider.requests]
    assert sent == [["One?"], ["Two?"]]


def again(
    harness: AgentHarness, turns: list[ScriptedTurn], *tools: ScriptedTool, **settings: Any
) -> tuple[ModelComparison, ScriptedProvider]:
    provider = ScriptedProvider(turns)
    gate = settings.pop("gate", Gate())

    def make(reuse: RecordedResults) -> Agent:
        return Agent(
            provider,
            harness.conversation,
            tools=tools,
            gate=reuse.wrap_gate(gate),
            runner=reuse.wrap_runner(Runner()),
            model="lab/small",
        )

    comparison = run(rerun(harness.conversation, make, **{"name": "second"} | settings))
    harness.check()
    return comparison, provider


@pytest.mark.requirement("S1-11")
def test_a_model_with_the_same_calls_gets_the_recorded_results_and_runs_nothing() -> None:
    harness, tool = recorded(), read_tool("read", "never")
    comparison, provider = again(
        harness,
        [
            turn_with_calls(call("x1", "read", lines=3, path="a"), text="I look."),
            turn_with_calls(call("x2", "read", path="b")),
            "All green.",
            "You are welcome.",
        ],
        tool,
    )
    assert (comparison.divergence, comparison.stopped, comparison.reused_results) == (None, None, 2)
    assert tool.calls == []
    texts_of_rerun = [message.text for message in harness.conversation.messages("second")]
    assert texts_of_rerun == [message.text for message in harness.conversation.messages("main")]
    assert provider.requests[0].messages == harness.provider.requests[0].messages


@pytest.mark.requirement("S1-11")
def test_the_first_answer_that_is_another_one_is_shown_and_both_are_summed_up() -> None:
    price = Price(input=Decimal(1), output=Decimal(2))
    comparison, _ = again(
        recorded(),
        [turn_with_calls(call("x1", "read", path="b")), "Red.", "Bye."],
        read_tool("read"),
        price_of=lambda model: price if model == "lab/large" else None,
    )
    parting = comparison.divergence
    assert parting is not None
    assert parting.recorded is not None
    assert parting.new is not None
    assert parting.turn == 1
    assert [[c.name for c in answer.tool_calls] for answer in (parting.recorded, parting.new)] == [
        ["read"],
        ["read"],
    ]
    old, new = comparison.recorded, comparison.new
    assert (old.model, old.turns, old.calls, old.cost) == ("lab/large", 4, 2, Decimal(3))
    assert (new.model, new.turns, new.calls, new.cost) == ("lab/small", 3, 1, None)
    assert (old.text, new.text) == ("You are welcome.", "Bye.")
    assert (old.stop_reasons, new.stop_reasons) == (
        ("end_turn", "end_turn"),
        ("end_turn", "end_turn"),
    )
    assert (old.usage, new.usage) == (TOKENS, Usage())


def test_it_works_in_a_branch_of_its_own_and_the_other_stays_as_it_was_and_active() -> None:
    harness = recorded()
    before = harness.conversation.entries("main")
    comparison, _ = again(harness, ["Yes.", "Bye."])
    entries = harness.conversation.entries("main")
    assert entries[: len(before)] == before
    assert [entry.message for entry in entries[len(before) :]] == [None]
    assert (comparison.branch, harness.conversation.branch) == ("second", "main")
    first = next(e for e in before if isinstance(e.payload, UserMessage))
    assert first in harness.conversation.entries("second")


def test_each_result_on_record_is_used_once_and_other_calls_pass_the_gate() -> None:
    harness, tool = recorded(), read_tool("read", "A, read again.")
    writing = write_tool("write")
    comparison, _ = again(
        harness,
        [
            turn_with_calls(
                call("x1", "read", path="a", lines=3), call("x2", "read", path="a", lines=3)
            ),
            turn_with_calls(call("x3", "write")),
            "Done.",
            "Bye.",
        ],
        tool,
        writing,
    )
    assert comparison.reused_results == 1
    assert [c.id for c in tool.calls] == ["x2"]
    assert writing.calls == []  # there is no approver
    approvals = [
        (entry.payload.call_id, entry.payload.rule, entry.audit)
        for entry in harness.conversation.entries("second")
        if isinstance(entry.payload, Approval)
    ]
    results = [e for e in harness.conversation.entries("main") if e.decision == "executed"]
    assert approvals[0] == ("x1", RECORDED_RESULT_RULE, {"result_of": results[0].id})
    assert [rule for _, rule, _ in approvals[1:]] == ["default read", NO_APPROVER_RULE]


def test_a_call_denied_earlier_may_be_allowed_now() -> None:
    harness = AgentHarness([turn_with_calls(call("c1", "write")), "Denied."], write_tool("write"))
    run(harness.run())
    tool = write_tool("write", "Written.")
    comparison, _ = again(
        harness, [turn_with_calls(call("x1", "write")), "Done."], tool, gate=gate_allowing("write")
    )
    assert ([c.id for c in tool.calls], comparison.reused_results) == (["x1"], 0)


def test_modes_are_changed_and_files_resolved_where_they_were() -> None:
    harness = AgentHarness(["One.", "Two."], model="lab/large")
    conversation = harness.conversation
    run(harness.run("First"))
    conversation.change_mode(Mode.PLAN)
    asked = conversation.append(ChatMessage.user([Text("See "), FileReference(path="a.txt")]))
    conversation.append(
        Resolution(
            target=asked.id, block=1, status=ResolutionStatus.RESOLVED, content=(Text("A."),)
        )
    )
    run(harness.run(None))
    _, provider = again(harness, ["One.", "Two."])
    assert provider.requests[1].messages == harness.provider.requests[1].messages
    kinds = [type(entry.payload) for entry in conversation.entries("second")]
    assert (ModeChange in kinds, kinds.count(Resolution)) == (True, 1)


@pytest.mark.parametrize(
    ("turns", "ending"), [([ProviderError("no")], EndReason.FAILED), (["Yes."], None)]
)
def test_it_ends_with_a_run_that_failed(
    turns: list[ScriptedTurn], ending: EndReason | None
) -> None:
    comparison, provider = again(recorded(), [*turns, "Bye."])
    stopped = comparison.stopped
    assert (None if stopped is None else stopped.end_reason) == ending
    assert len(provider.requests) == (1 if ending else 2)
    assert comparison.divergence is not None
    assert (comparison.divergence.new is None) == bool(ending)


def unmade(_: RecordedResults) -> Agent:
    raise AssertionError("nothing should be begun")


def test_a_branch_without_user_messages_cannot_be_rerun() -> None:
    harness = AgentHarness([])
    with pytest.raises(InvalidValue) as caught:
        run(rerun(harness.conversation, unmade, name="second"))
    assert (caught.value.code, caught.value.place) == ("no_user_message", "replay")


def test_a_name_that_is_taken_is_refused() -> None:
    harness = recorded()
    with pytest.raises(Conflict):
        again(harness, [], name="main")


def test_an_unanswered_prompt_is_answered() -> None:
    harness = AgentHarness([])
    harness.conversation.append(ChatMessage.user("Well?"))
    comparison, _ = again(harness, ["Yes."])
    assert (comparison.recorded.turns, comparison.new.text) == (0, "Yes.")


def test_the_branch_is_left_in_order_if_it_is_stopped() -> None:
    harness = recorded()

    def stop(_: Any) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        again(harness, ["Yes."], on_event=stop)
    harness.check()
    assert harness.conversation.branch == "main"
    answers = [
        e for e in harness.conversation.entries("second") if isinstance(e.payload, AssistantMessage)
    ]
    assert answers == []
