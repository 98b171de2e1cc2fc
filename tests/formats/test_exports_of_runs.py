"""Exports of a run of the agent: names of tools, decisions, times and sizes of results."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    Entry,
    InvalidToolCall,
    Text,
    ToolCall,
)
from steno.errors import ToolFailed
from steno.formats import FORMATS, build_records
from steno.formats import audit as audit_format
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageBlob, ImageData, ImageUrl, Resource
from steno.messages.message import ResultBlock, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import ApprovalStatus, Mode, ShellCommand
from steno.records.stored_record import Header
from steno.store import MemoryStore
from steno.testing import ScriptedTool
from tests.agent.agent_setup import (
    AgentHarness,
    gate_allowing,
    read_tool,
    run,
    write_tool,
)

AUDIT = FORMATS["audit"]
HEADER = Header(id="s")


def call(id: str, name: str, original_name: str | None = None) -> ToolCall:
    return ToolCall(id=id, name=name, original_name=original_name)


def raising_tool(name: str) -> ScriptedTool:
    return read_tool(name, ToolFailed("no such file"))


def run_every_kind_of_call() -> tuple[Entry, ...]:
    """Run approved, denied, failed, unknown and invalid calls, and return the entries."""
    invalid = InvalidToolCall(id="invalid", name="no name at all", arguments="{", reason="cut off")
    calls = [
        call("read", "read_1", "fs.read"),
        call("denied", "write"),
        call("failed", "fail"),
        call("unknown", "missing"),
    ]
    turn = AssistantMessage(content=(Text("I look."), *calls, invalid))
    harness = AgentHarness(
        [turn, "Done."],
        read_tool("read_1", "größer"),
        write_tool("write"),
        raising_tool("fail"),
        gate=gate_allowing("read_1", "fail"),
    )
    run(harness.run())
    harness.conversation.change_mode(Mode.PLAN)
    harness.conversation.append(ShellCommand(command="ls", output="a.py", status=0))
    harness.check()
    return harness.conversation.entries()


def audit_rows(*entries: Entry) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(AUDIT.encode(HEADER, entries).data)["entries"]
    return rows


def results_by_call(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    kinds = ("tool_result", "tool_error")
    return {row["message"]["tool_id"]: row for row in rows if row["message"]["type"] in kinds}


def content(*blocks: ResultBlock) -> ToolResultMessage:
    return ChatMessage.tool_result("c1", blocks, tool_name="read", duration_s=0.0416)


def key(entry: Entry) -> tuple[object, ...]:
    return (entry.id, entry.time, entry.payload, entry.decision, entry.audit, entry.unknown)


# -- tool names ----------------------------------------------------------------------------------

ORIGINAL_NAMES = {
    "read": "fs.read",
    "denied": "write",
    "failed": "fail",
    "unknown": "missing",
    "invalid": "no name at all",
}


@pytest.mark.requirement("S1-03", "S1-08")
def test_every_result_in_an_audit_log_has_the_original_name_of_its_tool() -> None:
    rows = results_by_call(audit_rows(*run_every_kind_of_call()))
    assert {id: row["message"]["tool_name"] for id, row in rows.items()} == ORIGINAL_NAMES


@pytest.mark.requirement("S4-11", "P-13")
def test_every_result_in_a_session_file_has_the_original_name_of_its_tool() -> None:
    document = json.loads(FORMATS["session"].encode(HEADER, run_every_kind_of_call()).data)
    names = {
        message["tool_call_id"]: message["tool_name"]
        for message in document["messages"]
        if message["type"] == "tool_result"
    }
    assert names == ORIGINAL_NAMES


@pytest.mark.requirement("S3-03")
def test_every_result_in_database_rows_has_the_original_name_of_its_tool() -> None:
    rows = json.loads(FORMATS["rows"].encode(HEADER, run_every_kind_of_call()).data)
    found = [json.loads(row["data_json"]) for row in rows if row["kind"] == "tool_result"]
    assert {data["tool_call_id"]: data["name"] for data in found} == ORIGINAL_NAMES


def test_files_without_tool_names_in_results_are_exported_as_they_were() -> None:
    call = {"type": "tool_call", "id": "c1", "name": "read", "arguments": {}}
    result = {"type": "tool_result", "tool_call_id": "c1", "tool_name": "", "is_error": False}
    text = [{"type": "text", "text": "-"}]
    session = {
        "version": 1,
        "messages": [
            {"type": "assistant", "content": [call]},
            result | {"content": text, "timestamp": "2026-02-18T12:00:00Z"},
        ],
    }
    rows = [
        {"kind": "tool_call", "data_json": '{"tool_call_id":"c1","name":"fs.read"}'},
        {"kind": "tool_result", "data_json": '{"tool_call_id":"c1","output":"-","success":true}'},
    ]
    for name, document in (("session", session), ("rows", rows)):
        format = FORMATS[name]
        exported = format.encode(*format.decode(json.dumps(document).encode()))
        assert json.loads(exported.data) == document
        assert "exact_form" not in {loss.reason for loss in exported.losses}


def test_a_call_id_that_is_used_again_names_the_tool_of_each_turn() -> None:
    conversation = Conversation([ChatMessage.user("Go.")])
    for name in ("read", "write"):
        conversation.append(ChatMessage.assistant(None, [call("c", name)]))
        status = ApprovalStatus.APPROVED if name == "read" else ApprovalStatus.DENIED
        conversation.decide("c", status, actor="ada")
        conversation.append(ChatMessage.tool_result("c", "-"))
    rows = audit_rows(*conversation.entries())
    named = [(row["decision"], row["message"].get("tool_name")) for row in rows]
    assert named == [
        ("user_message", None),
        ("tool_call_approved", "read"),
        ("approved", None),
        ("executed", "read"),
        ("tool_call_denied", "write"),
        ("denied", None),
        ("executed", "write"),
    ]


# -- times and sizes -----------------------------------------------------------------------------


@pytest.mark.requirement("S1-08")
def test_the_audit_data_of_a_result_has_its_time_and_size_if_the_tool_ran() -> None:
    entries = run_every_kind_of_call()
    rows = results_by_call(audit_rows(*entries))
    for id, size in (("read", len("größer".encode())), ("failed", len("no such file"))):
        assert rows[id]["audit"]["result_size_bytes"] == size
        assert type(rows[id]["audit"]["execution_time_ms"]) is int
    for id in ("denied", "unknown", "invalid"):
        assert not {"execution_time_ms", "result_size_bytes"} & rows[id]["audit"].keys()


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (content(Text("é"), Text("ab")), {"execution_time_ms": 42, "result_size_bytes": 4}),
        (content(), {"execution_time_ms": 42, "result_size_bytes": 0}),
        (
            content(
                Image(source=ImageData(b"12345"), mime_type="image/png"),
                Image(source=ImageBlob(sha256="0" * 64, size=20_000), mime_type="image/png"),
                Resource(server="s", uri="u:a", text="é"),
                Resource(server="s", uri="u:b", data=b"123"),
            ),
            {"execution_time_ms": 42, "result_size_bytes": 20_010},
        ),
        # The record does not contain the content of these, so the size is not known.
        (content(Image(source=ImageUrl("https://example.org/a.png"))), {"execution_time_ms": 42}),
        (content(Resource(server="s", uri="u:c")), {"execution_time_ms": 42}),
        (ChatMessage.tool_result("c1", "abc", tool_name="read"), {"result_size_bytes": 3}),
    ],
)
def test_the_size_of_a_result_counts_the_bytes_of_its_content(
    result: ToolResultMessage, expected: dict[str, int]
) -> None:
    (row,) = audit_rows(Entry(id="e", payload=result))
    names = ("execution_time_ms", "result_size_bytes")
    assert {name: row["audit"][name] for name in names if name in row["audit"]} == expected


def test_audit_data_of_an_entry_is_not_replaced_by_computed_values() -> None:
    entry = Entry(id="e", payload=content(Text("a")), audit={"execution_time_ms": 7, "by": "ada"})
    (row,) = audit_rows(entry)
    assert row["audit"]["execution_time_ms"] == 7
    assert row["audit"]["by"] == "ada"
    assert row["audit"]["result_size_bytes"] == 1
    assert AUDIT.decode(AUDIT.encode(HEADER, [entry]).data).entries == (entry,)


# -- decisions -----------------------------------------------------------------------------------


@pytest.mark.requirement("S1-08")
def test_every_row_of_an_audit_log_has_a_decision() -> None:
    rows = audit_rows(*run_every_kind_of_call())
    found = [
        (row["message"]["type"], row["message"].get("tool_id"), row["decision"]) for row in rows
    ]
    assert found[:2] == [
        ("system_context", None, "system_context"),
        ("user", None, "user_message"),
    ]
    assert [decision for kind, _, decision in found if kind == "assistant_text"] == [
        "planning",
        "answer",
    ]
    decisions = {id: decision for kind, id, decision in found if kind == "assistant_action"}
    assert decisions == {
        "read": "tool_call_approved",
        "denied": "tool_call_denied",
        "failed": "tool_call_approved",
        "unknown": "tool_call",
        "invalid": "tool_call_invalid",
    }
    # The agent records the decisions about results itself.
    assert {id: row["decision"] for id, row in results_by_call(rows).items()} == {
        "read": "executed",
        "denied": "denied",
        "failed": "failed",
        "unknown": "failed",
        "invalid": "failed",
    }
    assert [decision for *_, decision in found[-2:]] == ["mode_change", "shell_command"]


@pytest.mark.requirement("S1-08")
@pytest.mark.parametrize(
    ("outcome", "decision"),
    [
        (Outcome.OK, "executed"),
        (Outcome.ERROR, "failed"),
        (Outcome.DENIED, "denied"),
        (Outcome.SKIPPED, "skipped"),
        (Outcome.TIMEOUT, "timeout"),
        (Outcome.CANCELLED, "cancelled"),
        (Outcome.UNAVAILABLE, "failed"),
    ],
)
def test_a_result_without_a_decision_is_described_by_its_outcome(
    outcome: Outcome, decision: str
) -> None:
    result = ChatMessage.tool_result("c1", "-", outcome=outcome)
    assert [row["decision"] for row in audit_rows(Entry(id="e", payload=result))] == [decision]


@pytest.mark.requirement("P-14")
def test_derived_values_are_named() -> None:
    noon = datetime(2026, 2, 10, 12, tzinfo=UTC)
    result = content(Text("a"))
    derived = audit_rows(
        Entry(id="a", time=noon, payload=ChatMessage.user("Hi")),
        Entry(id="b", time=noon, payload=ChatMessage.user("Hi"), decision="asked"),
        Entry(id="c", time=noon, payload=result),
        Entry(id="d", time=noon, payload=result, decision="executed"),
        Entry(id="e", payload=ChatMessage.user("Hi"), decision="asked"),
        Entry(id="f", payload=ChatMessage.user("Hi")),
    )
    assert [row["audit"].get("steno_derived") for row in derived] == [
        ["decision"],
        None,
        ["decision", "execution_time_ms", "result_size_bytes"],
        ["execution_time_ms", "result_size_bytes"],
        ["timestamp"],
        ["decision", "timestamp"],
    ]


# -- there and back ------------------------------------------------------------------------------


@pytest.mark.requirement("S1-08", "S1-09", "P-14")
def test_the_audit_log_of_a_run_is_imported_with_equal_entries() -> None:
    entries = run_every_kind_of_call()
    data = AUDIT.encode(HEADER, entries).data
    again = AUDIT.decode(data).entries
    ours = [entry for entry in entries if not isinstance(entry.payload, ShellCommand)]
    assert list(map(key, again[: len(ours)])) == list(map(key, ours))
    assert AUDIT.encode(HEADER, again).data == data


@pytest.mark.requirement("S1-08")
def test_selected_entries_have_the_names_and_decisions_of_the_whole_log() -> None:
    entries = run_every_kind_of_call()
    rows = audit_rows(*entries)
    for number, entry in enumerate(entries):
        if isinstance(entry.payload, ShellCommand):
            continue
        exported = audit_format.encode(HEADER, [entry], log_entries=entries).data
        for row in json.loads(exported)["entries"]:
            (full,) = [each for each in rows if each["id"] == row["id"]]
            assert (row["message"], row["decision"]) == (full["message"], full["decision"]), number
        (again,) = AUDIT.decode(exported).entries
        assert key(again) == key(entry)


@pytest.mark.requirement("S1-08")
def test_a_log_that_continues_an_imported_one_keeps_the_imported_decisions() -> None:
    row = {
        "id": "e",
        "timestamp": "2026-02-10T15:30:00Z",
        "message": {"type": "assistant_text", "content": "Hm."},
        "decision": "answer",
        "audit": {},
    }
    header, found = AUDIT.decode(json.dumps({"entries": [row]}).encode())
    store = MemoryStore()
    store.add_session(header, build_records(found))
    conversation = store.open(header.id)
    conversation.append(ChatMessage.user("Why?"))
    entries = conversation.entries()
    data = AUDIT.encode(header, entries).data
    first, second = json.loads(data)["entries"]
    assert first == row
    assert second["decision"] == "user_message"
    assert AUDIT.decode(data).entries == entries
