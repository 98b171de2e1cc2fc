"""A run from its prompt to its end: limits, steering, and one run at a time."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from itertools import repeat
from typing import Any

import pytest

from steno import (
    ChatMessage,
    Conversation,
    InvalidMessage,
    StopReason,
    TextDelta,
    Usage,
    UserMessage,
)
from steno.agent import EndReason, Limits, LoopEvent, Notice, NoticeKind, RunEnded, SteeringPolicy
from steno.errors import InvalidRequest, InvalidValue, StenoError
from steno.log.queries import Price
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.ports import ToolContext
from steno.records.entry import ModelChange
from steno.store import MemoryStore
from tests.agent.agent_setup import (
    AgentHarness,
    call,
    gate_allowing,
    read_tool,
    run,
    turn_with_calls,
    write_tool,
)

EACH = Usage(input_tokens=10, output_tokens=5)


def endless(request: Request) -> Any:
    """Call for something, again and again."""
    return ChatMessage.assistant(None, [call(f"c{len(request.messages)}", "read")], usage=EACH)


def user_texts(harness: AgentHarness) -> list[str]:
    return [m.text for m in harness.conversation.messages() if isinstance(m, UserMessage)]


# -- from the prompt to the end ------------------------------------------------------------------


@pytest.mark.requirement("S4-14")
def test_a_run_without_calls_is_one_turn() -> None:
    harness = AgentHarness([ChatMessage.assistant("Hello.", usage=EACH)])
    result = run(harness.run("Hi."))
    assert (result.end_reason, result.text, result.turns, result.usage) == (
        EndReason.DONE,
        "Hello.",
        1,
        EACH,
    )
    assert result.message == harness.conversation.messages()[-1]
    assert (result.reason, result.error, result.cost) == ("", None, None)


def test_a_run_without_a_prompt_continues_where_the_conversation_stopped() -> None:
    harness = AgentHarness(["Yes."])
    harness.conversation.append(ChatMessage.user("Are you there?"))
    run(harness.run(None))
    assert [m.text for m in harness.provider.requests[0].messages] == ["Work.", "Are you there?"]


def test_a_prompt_may_be_a_message_and_is_recorded_with_its_actor() -> None:
    message = ChatMessage.user("Look.")
    harness = AgentHarness(["I see."], actor="eva")
    run(harness.run(message))
    (entry,) = [e for e in harness.conversation.entries() if e.payload == message]
    assert dict(entry.audit or {}) == {"actor": "eva"}


@pytest.mark.parametrize("prompt", ["", " ", 7])
def test_an_empty_prompt_is_refused_before_anything_happens(prompt: Any) -> None:
    harness = AgentHarness(["Never."])
    with pytest.raises(InvalidMessage):
        run(harness.run(prompt))
    assert len(harness.conversation) == 1
    assert not harness.agent.is_running


def test_an_empty_response_ends_the_run() -> None:
    harness = AgentHarness([ChatMessage.assistant(None, stop_reason=StopReason.END_TURN)])
    result = run(harness.run())
    assert (result.end_reason, result.text) == (EndReason.DONE, "")


def test_a_paused_turn_is_continued() -> None:
    paused = ChatMessage.assistant("Wait…", stop_reason=StopReason.PAUSE)
    harness = AgentHarness([paused, "Here."])
    assert run(harness.run()).text == "Here."
    assert [m.text for m in harness.conversation.messages()[2:]] == ["Wait…", "Here."]


def test_a_conversation_with_nothing_in_it_cannot_be_run_without_a_prompt() -> None:
    harness = AgentHarness(["Never."], conversation=Conversation())
    result = run(harness.run(None))
    assert result.end_reason is EndReason.FAILED
    assert isinstance(result.error, InvalidRequest)


def test_another_model_is_on_record_from_its_first_turn_on() -> None:
    store = MemoryStore()
    first = AgentHarness(["One."], store=store, model="lab/small")
    run(first.run())
    second = AgentHarness(["Two."], store=store, conversation=first.conversation, model="lab/large")
    run(second.run())
    changes = [
        e.payload for e in first.conversation.entries() if isinstance(e.payload, ModelChange)
    ]
    assert [(c.old, c.new) for c in changes] == [("", "lab/small"), ("lab/small", "lab/large")]
    assert second.conversation.model == "lab/large"


def test_one_agent_runs_again_and_again() -> None:
    harness = AgentHarness(["One.", "Two."])

    async def main() -> list[str]:
        return [(await harness.run("a")).text, (await harness.run("b")).text]

    assert run(main()) == ["One.", "Two."]
    assert [r.turns for r in (event.result for event in harness.events_of(RunEnded))] == [1, 1]


@pytest.mark.requirement("S4-14")
def test_two_runs_at_once_are_refused_and_the_first_continues() -> None:
    async def main() -> None:
        going = asyncio.Event()
        tool = read_tool("read", [going, "ok"])
        harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], tool)
        task = asyncio.create_task(harness.run())
        await tool.begun.wait()
        assert harness.agent.is_running
        with pytest.raises(StenoError) as caught:
            await harness.agent.run("Me too.")
        assert (caught.value.code, caught.value.place) == ("agent_busy", "agent")
        going.set()
        assert (await task).text == "Done."
        assert user_texts(harness) == ["Go."]

    run(main())


# -- limits --------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize(
    ("limits", "turns", "reason"),
    [
        (Limits(turns=2), 2, "2 turns"),
        (Limits(tokens=40), 3, "40 tokens"),
        (Limits(cost=Decimal("0.5")), 4, "a cost of 0.5"),
        (Limits(turns=None, tokens=15), 1, "15 tokens"),
    ],
)
def test_a_limit_ends_a_run_with_all_calls_answered(
    limits: Limits, turns: int, reason: str
) -> None:
    price = Price(input=Decimal(10_000), output=Decimal(10_000))  # a million tokens each
    harness = AgentHarness(
        repeat(endless), read_tool(), limits=limits, price_of=lambda _: price, model="lab/small"
    )
    result = run(harness.run())
    assert (result.end_reason, result.turns, result.reason) == (EndReason.LIMIT, turns, reason)
    assert result.usage.total_tokens == 15 * turns
    assert result.cost == Decimal("0.15") * turns
    assert len(harness.results) == turns
    (notice,) = harness.events_of(Notice)
    assert (notice.kind, notice.code) == (NoticeKind.LIMIT, "limit_reached")
    harness.check()


def test_a_limit_is_for_one_run_and_the_next_one_continues() -> None:
    harness = AgentHarness([*[endless] * 2, "Done."], read_tool(), limits=Limits(turns=2))

    async def main() -> list[EndReason]:
        return [(await harness.run()).end_reason, (await harness.run(None)).end_reason]

    assert run(main()) == [EndReason.LIMIT, EndReason.DONE]


def test_a_model_that_is_done_with_its_last_turn_is_done() -> None:
    assert run(AgentHarness(["Done."], limits=Limits(turns=1)).run()).end_reason is EndReason.DONE


def test_an_unknown_cost_limits_nothing() -> None:
    harness = AgentHarness([endless, "Done."], read_tool(), limits=Limits(cost=Decimal("0.01")))
    assert run(harness.run()).end_reason is EndReason.DONE


@pytest.mark.requirement("S4-14")
def test_calls_that_cannot_be_run_go_back_three_times_and_then_the_run_ends() -> None:
    wrong = [turn_with_calls(call(f"c{n}", "fly")) for n in range(9)]
    harness = AgentHarness(wrong, read_tool())
    result = run(harness.run())
    assert result.end_reason is EndReason.LIMIT
    assert "3 turns in a row" in result.reason
    assert len(harness.provider.requests) == 4  # the first, and three that brought back an error
    assert len(harness.results) == 4
    harness.check()


def test_wrong_calls_of_one_turn_count_once_and_a_right_one_starts_anew() -> None:
    many = turn_with_calls(*[call(f"m{n}", "fly") for n in range(6)])
    wrong = [turn_with_calls(call(f"c{n}", "fly")) for n in range(3)]
    mixed = turn_with_calls(call("r1", "read"), call("r2", "fly"))
    more = [turn_with_calls(call(f"d{n}", "fly")) for n in range(2)]
    harness = AgentHarness([many, *wrong[:2], mixed, *more, many, "Done."], read_tool())
    assert run(harness.run()).end_reason is EndReason.DONE


@pytest.mark.parametrize("name", ["turns", "tokens", "seconds", "cost", "invalid_calls"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_below_one_is_refused(name: str, value: int) -> None:
    with pytest.raises(InvalidValue) as caught:
        Limits(**{name: value})  # type: ignore[arg-type] # as a reader of configuration would
    assert caught.value.place == f"limits.{name}"


# -- steering ------------------------------------------------------------------------------------


def steered(policy: SteeringPolicy) -> tuple[AgentHarness, list[list[str | None]]]:
    """Steer while the first of two calls runs; return the end of each request."""
    harness: AgentHarness

    def speak(call: ToolCall, stage: ToolContext) -> str:
        harness.agent.steer("Also this.", policy)
        return "first"

    turns = [
        turn_with_calls(call("c1", "write"), call("c2", "write")),
        "I see.",
        "All done.",
    ]
    harness = AgentHarness(turns, write_tool("write", speak, "second"), gate=gate_allowing("write"))
    run(harness.run())
    harness.check()
    ends = [[m.text for m in request.messages[2:]] for request in harness.provider.requests]
    return harness, ends


@pytest.mark.requirement("S4-14")
def test_steering_input_is_sent_after_the_calls_of_the_turn() -> None:
    harness, seen = steered(SteeringPolicy.AFTER_CALLS)
    assert seen == [[], [None, "first", "second", "Also this."]]
    assert harness.events_of(RunEnded)[0].result.text == "I see."


@pytest.mark.requirement("S4-14")
def test_steering_input_is_sent_when_the_model_would_be_done() -> None:
    harness, seen = steered(SteeringPolicy.AFTER_RUN)
    assert seen == [
        [],
        [None, "first", "second"],
        [None, "first", "second", "I see.", "Also this."],
    ]
    assert harness.events_of(RunEnded)[0].result.text == "All done."


@pytest.mark.requirement("S4-14")
def test_steering_interrupts_at_once_and_the_run_continues() -> None:
    async def main() -> None:
        never = asyncio.Event()
        hanging = write_tool("write", [never, "never"])
        turns = [turn_with_calls(call("c1", "write"), call("c2", "write")), "I do that."]
        harness = AgentHarness(turns, hanging, gate=gate_allowing("write"))
        task = asyncio.create_task(harness.run())
        await hanging.begun.wait()
        harness.agent.steer("Stop, do that.", SteeringPolicy.INTERRUPT)
        result = await task
        assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "I do that.", 2)
        assert [c.id for c in hanging.calls] == ["c1"]
        assert [m.text for m in harness.provider.requests[1].messages][-1] == "Stop, do that."
        harness.check()

    run(main())


def test_steering_during_a_response_keeps_its_text() -> None:
    async def main() -> None:
        from_model = asyncio.Event()

        def watch(event: LoopEvent) -> None:
            if getattr(event, "text", None) == "I was ab":
                harness.agent.steer("No.", SteeringPolicy.INTERRUPT)

        harness = AgentHarness([[TextDelta(0, "I was ab"), from_model], "Fine."])
        result = await harness.agent.run("Go.", on_event=watch)
        assert result.text == "Fine."
        partial = harness.conversation.messages()[2]
        assert isinstance(partial, AssistantMessage)
        assert (partial.text, partial.stop_reason) == ("I was ab", StopReason.ABORTED)

    run(main())


def test_unsent_input_is_recorded_however_the_run_ends() -> None:
    def speak(call: ToolCall, stage: ToolContext) -> str:
        harness.agent.steer("And then?", SteeringPolicy.AFTER_RUN)
        return "ok"

    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Yes."],
        read_tool("read", speak),
        limits=Limits(turns=1),
    )
    assert run(harness.run()).end_reason is EndReason.LIMIT
    assert user_texts(harness) == ["Go.", "And then?"]
    run(harness.run(None))
    assert harness.conversation.messages()[-1].text == "Yes."
    harness.check()


def test_nothing_can_be_steered_while_nothing_runs() -> None:
    with pytest.raises(StenoError) as caught:
        AgentHarness([]).agent.steer("Hello?")
    assert (caught.value.code, caught.value.place) == ("agent_idle", "agent")
