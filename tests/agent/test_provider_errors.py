"""Providers that fail, break off, or cannot read so much; and conversations that become too long."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from steno import (
    ChatMessage,
    Finished,
    Outcome,
    StopReason,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from steno.agent import ContextChanged, EndReason, ModelTarget, Notice, NoticeKind
from steno.agent.results import ResultCode
from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    CutShort,
    InvalidRequest,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
)
from steno.log.queries import result_code
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage, Message, ToolResultMessage
from steno.messages.request import Request
from steno.ports import Stream
from steno.records.entry import Compaction, Repair, Rewind
from steno.store import MemoryStore
from steno.testing import ScriptedProvider
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls

BUSY = Overloaded("busy", retryable=True)
HALF = [TextDelta(0, "Half an ans")]
HALF_A_CALL = [TextDelta(0, "I look."), ToolCallDelta(0, "c1", "read", '{"path": "a'), BUSY]


class Patience:
    """Sleeps in no time, and remembers for how long."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def texts(messages: Iterable[Any]) -> list[str | None]:
    return [message.text for message in messages]


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("wrong key", status=401),
        RateLimited("later", retryable=True),
        BUSY,
        ProtocolError("not JSON"),
        CutShort("hung up"),
    ],
)
def test_an_error_before_the_first_text_is_surfaced_and_nothing_is_lost(error: Exception) -> None:
    """The provider decides whether to retry before the first text."""
    harness = AgentHarness([error, "Here I am."])
    result = run(harness.run("Anybody?"))
    assert (result.end_reason, result.error, result.reason) == (EndReason.FAILED, error, str(error))
    assert (result.turns, result.message) == (1, None)
    assert texts(harness.conversation.messages()) == ["Work.", "Anybody?"]
    harness.check()
    assert run(harness.run(None)).text == "Here I am."


@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize("error", [BUSY, CutShort("hung up")])
def test_a_turn_that_broke_off_is_tried_again_and_what_came_lies_beside_the_branch(
    error: Exception,
) -> None:
    patience = Patience()
    harness = AgentHarness([[*HALF, error], "A whole answer."], sleep=patience.sleep)
    result = run(harness.run())
    assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "A whole answer.", 1)
    assert texts(harness.provider.requests[1].messages) == texts(
        harness.provider.requests[0].messages
    )
    entries = harness.conversation.entries()
    assert texts(harness.conversation.messages()) == ["Work.", "Go.", "A whole answer."]
    (rewind,) = [e.payload for e in entries if isinstance(e.payload, Rewind)]
    partial = harness.conversation.entry(rewind.left).payload
    assert isinstance(partial, AssistantMessage)
    assert (partial.text, partial.stop_reason) == ("Half an ans", StopReason.ERROR)
    assert patience.waited == [1.0]
    (notice,) = harness.events_of(Notice)
    assert notice.kind is NoticeKind.RETRY
    harness.check()


def test_calls_of_a_turn_that_broke_off_are_never_run() -> None:
    tool = read_tool()
    harness = AgentHarness([HALF_A_CALL, "Again."], tool, sleep=Patience().sleep)
    assert run(harness.run()).text == "Again."
    assert (tool.calls, harness.results) == ([], [])
    entries = harness.conversation.entries()
    (rewind,) = [e.payload for e in entries if isinstance(e.payload, Rewind)]
    left = harness.conversation.entry(rewind.left).message
    assert isinstance(left, ToolResultMessage)
    assert (left.tool_call_id, result_code(left)) == ("c1", ResultCode.CALL_NOT_RUN)
    harness.check()


def test_the_retry_delay_of_a_provider_is_used() -> None:
    patience = Patience()
    slow = RateLimited("later", retryable=True, retry_after_s=7.5)
    harness = AgentHarness([[*HALF, slow], [*HALF, BUSY], "Here."], sleep=patience.sleep)
    assert run(harness.run()).text == "Here."
    assert patience.waited == [7.5, 2.0]


def test_a_turn_that_breaks_off_again_and_again_is_surfaced_with_what_came_last() -> None:
    harness = AgentHarness([HALF_A_CALL] * 3, read_tool(), sleep=Patience().sleep)
    result = run(harness.run())
    assert (result.end_reason, result.error) == (EndReason.FAILED, BUSY)
    assert result.text == "I look."
    assert result_code(harness.result) == ResultCode.CALL_NOT_RUN
    assert harness.result.outcome is Outcome.CANCELLED
    assert len(harness.provider.requests) == 3
    harness.check()


def test_an_error_that_will_not_go_away_is_surfaced_and_what_came_stays() -> None:
    refused = ProviderError("the account is closed", status=200)
    harness = AgentHarness([[*HALF, refused], "Well."])
    result = run(harness.run())
    assert (result.end_reason, result.error, result.text) == (
        EndReason.FAILED,
        refused,
        "Half an ans",
    )
    assert texts(harness.conversation.messages()) == ["Work.", "Go.", "Half an ans"]
    harness.check()
    assert run(harness.run("And now?")).text == "Well."


def test_tokens_of_turns_that_failed_are_counted_where_they_are_known() -> None:
    usage = Usage(input_tokens=10, output_tokens=1)
    first = turn_with_calls(call("c1", "read"))
    counted = ChatMessage.assistant(None, first.tool_calls, usage=usage)
    harness = AgentHarness([counted, BUSY], read_tool())
    result = run(harness.run())
    assert (result.end_reason, result.usage) == (EndReason.FAILED, usage)


class Choosy:
    """A provider that cannot express everything."""

    def stream(self, request: Request) -> Stream:
        raise InvalidRequest("choosy: takes no such thing")


def test_a_request_that_a_provider_cannot_write_is_a_failure_of_the_run() -> None:
    harness = AgentHarness(Choosy())
    result = run(harness.run())
    assert result.end_reason is EndReason.FAILED
    assert isinstance(result.error, InvalidRequest)
    harness.check()


def test_an_unexpected_exception_is_raised_and_the_log_stays_valid() -> None:
    harness = AgentHarness([[*HALF, ZeroDivisionError("oops")]])
    with pytest.raises(ZeroDivisionError):
        run(harness.run())
    assert texts(harness.conversation.messages()) == ["Work.", "Go.", "Half an ans"]
    harness.check()


def test_a_call_that_was_cut_by_the_length_of_the_answer_goes_back_as_an_error() -> None:
    cut = [
        ToolCallDelta(0, "c1", "read", '{"path": "a'),
        Finished(StopReason.LENGTH),
    ]
    tool = read_tool()
    harness = AgentHarness([cut, "Shorter then."], tool)
    assert run(harness.run()).text == "Shorter then."
    assert tool.calls == []
    assert result_code(harness.result) == ResultCode.INVALID_CALL


def test_an_empty_turn_is_left_out_for_the_model_and_that_is_recorded_once() -> None:
    nothing = ChatMessage.assistant(None, stop_reason=StopReason.END_TURN)
    harness = AgentHarness([nothing, "One.", "Two."])

    async def main() -> None:
        for _ in range(3):
            await harness.run()

    run(main())
    assert texts(harness.provider.requests[-1].messages) == ["Work.", "Go.", "Go.", "One.", "Go."]
    (repair,) = [e.payload for e in harness.conversation.entries() if isinstance(e.payload, Repair)]
    assert (repair.code, "turn_empty" in repair.explanation) == ("repaired", True)


def test_every_turn_that_is_left_out_is_reported_and_recorded() -> None:
    nothing = ChatMessage.assistant(None, stop_reason=StopReason.END_TURN)
    question = ChatMessage.user("Go.")
    store = MemoryStore()
    conversation = store.new([question, nothing, question, nothing])
    harness = AgentHarness(["One.", "Two."], store=store, conversation=conversation)
    empty = [entry.id for entry in conversation.entries() if entry.payload == nothing]
    run(harness.run())
    left_out = [event.change for event in harness.events_of(ContextChanged)]
    assert left_out == [Change(ChangeCode.REPAIRED, "turn_empty", entry=id) for id in empty]

    def repaired() -> list[str | None]:
        payloads = [entry.payload for entry in conversation.entries()]
        return [payload.target for payload in payloads if isinstance(payload, Repair)]

    assert repaired() == empty
    run(harness.run())  # what is on record is not recorded again
    assert repaired() == empty


def test_a_repair_that_another_version_has_explained_is_not_recorded_again() -> None:
    nothing = ChatMessage.assistant(None, stop_reason=StopReason.END_TURN)
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("Go."), nothing])
    target = conversation.entries()[-1].id
    repair = Repair(code="repaired", explanation="in other words", target=target)
    conversation.append(repair)
    harness = AgentHarness(["One."], store=store, conversation=conversation)
    run(harness.run())
    payloads = [entry.payload for entry in conversation.entries()]
    assert [payload for payload in payloads if isinstance(payload, Repair)] == [repair]


# -- too long ------------------------------------------------------------------------------------


def long_talk(store: MemoryStore, exchanges: int = 12) -> Any:
    talk: list[Message] = [ChatMessage.system("Work.")]
    for number in range(exchanges):
        talk += [ChatMessage.user(f"Question {number}. " + "why " * 200)]
        talk += [ChatMessage.assistant(f"Answer {number}. " + "so " * 200)]
    return store.new(talk)


@pytest.mark.requirement("S4-14")
def test_a_conversation_over_its_budget_is_summed_up_and_the_originals_stay() -> None:
    store = MemoryStore()
    conversation = long_talk(store)
    before = conversation.messages()
    summary = ChatMessage.assistant("They asked why.", usage=Usage(output_tokens=9))
    pieces = 3  # what is to be summed up is more than the model reads at once
    harness = AgentHarness(
        [*[summary] * pieces, "Because."],
        store=store,
        conversation=conversation,
        target=ModelTarget(context_tokens=3_000),
        model="lab/small",
    )
    result = run(harness.run("And now?"))
    assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "Because.", 1)
    assert result.usage.output_tokens == 9 * pieces
    (entry,) = [e for e in conversation.entries() if isinstance(e.payload, Compaction)]
    assert entry.payload.summary == "They asked why."
    assert (entry.audit or {})["model"] == "lab/small"
    *asked, sent = harness.provider.requests
    assert all("summary" in (one.messages[-1].text or "") for one in asked)
    assert [sum("They asked why." in (t or "") for t in texts(one.messages)) for one in asked] == [
        *(0, 1, 1)
    ]
    assert any("They asked why." in (text or "") for text in texts(sent.messages))
    assert not any("Question 0." in (text or "") for text in texts(sent.messages))
    assert sent.messages[-1].text == "And now?"
    assert conversation.messages()[: len(before)] == before
    changes = [event.change for event in harness.events_of(ContextChanged)]
    assert changes == [Change(ChangeCode.COMPACTED, "summary", entry=entry.id)]
    harness.check()


@pytest.mark.parametrize("context_tokens", [1_500, 2_500, 3_500])
def test_content_of_a_summary_is_part_of_every_later_summary(context_tokens: int) -> None:
    """However small the window: the summary of a summary still holds the first facts."""
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("Work.")])

    def answer(request: Request) -> Any:
        text_sent = " ".join(text or "" for text in texts(request.messages))
        if "Write a summary" in (request.messages[-1].text or ""):
            return " ".join(sorted(set(re.findall(r"fact-[0-9]+", text_sent))))
        return "so " * 200

    harness = AgentHarness(
        iter(lambda: answer, None),
        store=store,
        conversation=conversation,
        target=ModelTarget(context_tokens=context_tokens),
    )
    for number in range(20):
        run(harness.run(f"Remember fact-{number}. " + "why " * 100))
    summaries = [e for e in conversation.entries() if isinstance(e.payload, Compaction)]
    assert len(summaries) > 1
    last = " ".join(text or "" for text in texts(harness.provider.requests[-1].messages))
    assert all(f"fact-{number}." in last or f"fact-{number} " in last for number in range(20))


@pytest.mark.parametrize(
    "failure",
    [
        BUSY,
        ContextOverflow("too long"),
        [TextDelta(0, "Half"), CutShort("hung up")],
        ChatMessage.assistant(None, stop_reason=StopReason.END_TURN),
    ],
)
def test_a_summary_that_cannot_be_made_does_not_stop_the_run(failure: Any) -> None:
    store = MemoryStore()
    conversation = long_talk(store)
    harness = AgentHarness(
        [failure, "Because."],
        store=store,
        conversation=conversation,
        target=ModelTarget(context_tokens=3_000),
    )
    result = run(harness.run("And now?"))
    assert (result.end_reason, result.text) == (EndReason.DONE, "Because.")
    assert not any(isinstance(e.payload, Compaction) for e in conversation.entries())
    assert "summary_failed" in [notice.code for notice in harness.events_of(Notice)]
    harness.check()


@pytest.mark.requirement("S4-14")
@pytest.mark.parametrize(
    "target",
    [
        None,
        ModelTarget(max_tokens=10**6, max_output_tokens=10),
        ModelTarget(max_tokens=10**6),
        ModelTarget(max_tokens=10**6, context_tokens=10**6),
    ],
)
def test_a_request_that_is_too_long_is_tried_again_with_less(target: ModelTarget | None) -> None:
    store = MemoryStore()
    too_long = ContextOverflow("too long", status=400)
    sizes: list[int] = []
    limits: list[int] = []

    def answer(request: Request) -> Any:
        size = sum(len(m.text or "") for m in request.messages)
        if "summary" in (request.messages[-1].text or ""):
            return too_long
        sizes.append(size)
        limits.append(request.max_tokens or 0)
        return too_long if len(sizes) < 3 else "It fits."

    provider = ScriptedProvider(iter(lambda: answer, None))
    harness = AgentHarness(provider, store=store, conversation=long_talk(store), target=target)
    result = run(harness.run("And now?"))
    assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "It fits.", 1)
    assert sizes[0] > sizes[1] > sizes[2]
    assert limits[0] >= limits[1] >= limits[2]
    assert limits[2] <= sizes[2]  # a long answer is not what is too much any more
    assert "request_shortened" in [notice.code for notice in harness.events_of(Notice)]
    harness.check()


def test_a_request_that_stays_too_long_is_surfaced() -> None:
    harness = AgentHarness([ContextOverflow("too long")] * 3)
    result = run(harness.run("word " * 500))
    assert result.end_reason is EndReason.FAILED
    assert isinstance(result.error, ContextOverflow)
    harness.check()


def test_an_overflow_in_the_middle_of_an_answer_leaves_what_came_beside_the_branch() -> None:
    harness = AgentHarness([[*HALF, ContextOverflow("too long")], "Shorter."])
    assert run(harness.run()).text == "Shorter."
    assert texts(harness.conversation.messages()) == ["Work.", "Go.", "Shorter."]
    assert texts(harness.provider.requests[1].messages)[-1] == "Go."
    harness.check()
