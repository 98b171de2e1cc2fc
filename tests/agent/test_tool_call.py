"""One call: decided about, run, captured, recorded, and sent back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from steno import Outcome
from steno.agent import (
    CallEnded,
    CallOutput,
    CallStarted,
    EndReason,
    EntryRecorded,
    RunEnded,
    Runner,
    TurnStarted,
)
from steno.agent.results import ResultCode
from steno.errors import Missing, ToolFailed
from steno.log.queries import result_code
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.ports import ToolContext, ToolOutput
from steno.records.entry import Approval, ApprovalStatus
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

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


class Clock:
    """A clock that advances by two and a half seconds at every read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2.5
        return self.now


@pytest.mark.requirement("S2-16", "S1-10", "S4-14")
def test_a_call_is_decided_about_run_recorded_and_sent_back() -> None:
    tool = read_tool("read", "It says hello.")
    harness = AgentHarness([turn_with_calls(call("c1", "read", path="a")), "Done."], tool)
    result = run(harness.run("What does a say?"))

    assert (result.end_reason, result.text, result.turns) == (EndReason.DONE, "Done.", 2)
    assert [(c.id, c.arguments) for c in tool.calls] == [("c1", '{"path": "a"}')]
    assert harness.result.text == "It says hello."
    messages, sent = harness.conversation.messages(), harness.provider.requests
    assert [type(m) for m in messages[1:]] == [
        UserMessage,
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]
    assert [request.messages[1:] for request in sent] == [messages[1:2], messages[1:4]]
    assert [tool.name for tool in sent[0].tools] == ["read"]
    harness.check()


@pytest.mark.requirement("S1-10")
def test_every_decision_is_on_record_with_what_took_it() -> None:
    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], read_tool())
    run(harness.run())
    entries = harness.conversation.entries()
    (approved,) = [e for e in entries if isinstance(e.payload, Approval)]
    assert isinstance(approved.payload, Approval)
    assert approved.payload.status is ApprovalStatus.APPROVED
    assert approved.payload.rule == "default read"
    assert approved.decision == "approved"
    (done,) = [e for e in entries if isinstance(e.payload, ToolResultMessage)]
    assert done.decision == "executed"
    assert entries.index(approved) < entries.index(done)


@pytest.mark.requirement("S1-10")
@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ("fine", "executed"),
        (ToolFailed("no"), "failed"),
        (ValueError("odd"), "failed"),
        (ToolOutput.of("late", outcome=Outcome.TIMEOUT), "timeout"),
    ],
)
def test_the_record_has_the_outcome_of_a_call(answer: Any, decision: str) -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", answer)
    )
    run(harness.run())
    entries = harness.conversation.entries()
    assert [e.decision for e in entries if isinstance(e.payload, ToolResultMessage)] == [decision]


def test_events_are_emitted_in_order() -> None:
    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], read_tool())
    run(harness.run())
    kinds = [type(e) for e in harness.events]
    order = [TurnStarted, CallStarted, CallEnded, TurnStarted, RunEnded]
    assert [kind for kind in kinds if kind in order] == order
    events = [event.entry for event in harness.events_of(EntryRecorded)]
    assert events == list(harness.conversation.entries()[1:])


@pytest.mark.requirement("S2-19", "S4-08")
def test_a_success_has_its_call_its_content_its_time_and_its_duration() -> None:
    output = ToolOutput(content=(Text("a"), Text("b")), details={"lines": 2})
    runner = Runner(now=lambda: NOON, clock=Clock())
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", output), runner=runner
    )
    run(harness.run())
    result = harness.result
    assert (result.tool_call_id, result.tool_name, result.outcome) == ("c1", "read", Outcome.OK)
    assert result.content == output.content
    assert dict(result.details or {}) == {"lines": 2}
    assert (result.started_at, result.duration_s) == (NOON, 2.5)
    assert result.failure is None


@pytest.mark.requirement("S2-20", "S4-08")
@pytest.mark.parametrize("recoverable", [True, False])
def test_a_failure_that_the_tool_reports_has_a_message_and_no_traceback(recoverable: bool) -> None:
    failing = read_tool("read", ToolFailed("there is no file a", recoverable=recoverable))
    runner = Runner(now=lambda: NOON, clock=Clock())
    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], failing, runner=runner)
    assert run(harness.run()).end_reason is EndReason.DONE
    result = harness.result
    assert (result.tool_call_id, result.outcome) == ("c1", Outcome.ERROR)
    assert result.text == "there is no file a"
    assert result.failure is not None
    assert result.failure.message == "there is no file a"
    assert result.failure.traceback is None
    assert result.failure.recoverable is recoverable
    assert (result.started_at, result.duration_s) == (NOON, 2.5)


@pytest.mark.requirement("S2-20", "S4-08")
def test_a_fault_of_the_tool_has_a_traceback_and_is_not_recoverable() -> None:
    def stumble(call: ToolCall, stage: ToolContext) -> str:
        raise ZeroDivisionError("by nothing")

    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", stumble)
    )
    assert run(harness.run()).end_reason is EndReason.DONE
    result = harness.result
    assert result.outcome is Outcome.ERROR
    assert result.text == "ZeroDivisionError: by nothing"
    failure = result.failure
    assert failure is not None
    assert failure.traceback is not None
    assert "in stumble" in failure.traceback
    assert "runner.py" not in failure.traceback
    assert not failure.recoverable
    assert "Traceback" not in result.text
    harness.check()


@pytest.mark.requirement("S2-20")
def test_an_outcome_that_the_tool_reports_is_a_failure_with_its_first_line() -> None:
    output = ToolOutput.of("\n2 tests failed\nand more", outcome=Outcome.ERROR)
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", output)
    )
    run(harness.run())
    assert harness.result.failure is not None
    assert harness.result.failure.message == "2 tests failed"
    assert harness.result.failure.traceback is None
    assert harness.result.text.endswith("and more")


wrong: Any = ("text",)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda call, stage: 7, "TypeError: the tool must return a ToolOutput, not int"),
        (lambda call, stage: None, "TypeError: the tool must return a ToolOutput, not NoneType"),
        (lambda call, stage: ToolOutput.of("half \ud800"), "InvalidMessage"),
        (lambda call, stage: ToolOutput(content=wrong), "InvalidMessage"),
        (lambda call, stage: ToolOutput.of("x", details={"o": object()}), "Invalid"),
        (ValueError("half \ud800"), "ValueError: half \ufffd"),
        (ToolFailed("half \ud800"), "half \ufffd"),
        (ToolFailed(""), "without an error message"),
        (Unprintable(), "Unprintable"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (Missing("blob: there is none"), "blob: there is none"),
    ],
)
def test_every_call_gets_a_result_whatever_the_tool_does(answer: Any, expected: str) -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", answer)
    )
    result = run(harness.run())
    assert (result.end_reason, result.text) == (EndReason.DONE, "Done.")
    assert harness.result.outcome is Outcome.ERROR
    assert expected in harness.result.text
    harness.check()


def test_a_long_exception_message_is_truncated() -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done."], read_tool("read", ValueError("x" * 10**6))
    )
    run(harness.run())
    assert len(harness.result.text) < 11_000
    assert harness.result.failure is not None
    assert len(harness.result.failure.traceback or "") < 11_000


@pytest.mark.requirement("S2-16")
@pytest.mark.parametrize(
    ("asked", "code", "named"),
    [
        (
            InvalidToolCall(id="c1", name="read", arguments="{", reason="no JSON"),
            ResultCode.INVALID_CALL,
            "no JSON",
        ),
        (call("c1", "fly"), ResultCode.UNKNOWN_TOOL, ": read."),
        (call("c1", "read", path=7), ResultCode.INVALID_ARGUMENTS, "/path: "),
    ],
)
def test_an_invalid_call_gets_a_result_and_no_decision(
    asked: Any, code: ResultCode, named: str
) -> None:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = read_tool("read", parameters=parameters)
    harness = AgentHarness([turn_with_calls(asked), "Sorry."], tool)
    assert run(harness.run()).end_reason is EndReason.DONE
    assert result_code(harness.result) == code
    assert named in harness.result.text
    assert harness.result.is_error
    assert (tool.calls, harness.approvals) == ([], [])


def test_a_call_about_something_else_than_was_decided_is_not_run() -> None:
    targets = iter(["a.txt", "/etc/passwd"])
    tool = write_tool("write", subjects=lambda _: (next(targets),))
    harness = AgentHarness(
        [turn_with_calls(call("c1", "write")), "Hm."], tool, gate=gate_allowing("write(a.txt)")
    )
    run(harness.run())
    assert tool.calls == []
    assert result_code(harness.result) == ResultCode.SUBJECTS_CHANGED
    assert harness.result.outcome is Outcome.DENIED


# -- while it runs -------------------------------------------------------------------------------


def test_output_of_a_running_tool_is_emitted_and_not_recorded() -> None:
    async def speak(call: ToolCall, stage: ToolContext) -> str:
        stage.report_output("first \ud800")
        await asyncio.to_thread(stage.report_output, "from a thread")
        return "whole"

    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], read_tool("read", speak))
    run(harness.run())
    printed = [(event.call_id, event.text) for event in harness.events_of(CallOutput)]
    assert printed == [("c1", "first \ufffd"), ("c1", "from a thread")]
    assert harness.result.text == "whole"


def test_a_blob_of_a_tool_is_in_the_store() -> None:
    def keep(call: ToolCall, stage: ToolContext) -> ToolOutput:
        digest = stage.put_blob(b"all of it")
        assert stage.read_blob(digest) == b"all of it"
        return ToolOutput.of("some of it", details={"sha256": digest})

    store = MemoryStore()
    turns = [turn_with_calls(call("c1", "read")), "Done."]
    harness = AgentHarness(turns, read_tool("read", keep), store=store, runner=Runner(store))
    run(harness.run())
    assert store.blob((harness.result.details or {})["sha256"]) == b"all of it"


def test_without_a_store_a_blob_of_a_tool_lasts_as_long_as_the_agent() -> None:
    def keep(call: ToolCall, stage: ToolContext) -> str:
        assert stage.read_blob(stage.put_blob(b"x")) == b"x"
        with pytest.raises(Missing):
            stage.read_blob("0" * 64)
        return "kept"

    harness = AgentHarness([turn_with_calls(call("c1", "read")), "Done."], read_tool("read", keep))
    run(harness.run())
    assert harness.result.text == "kept"
