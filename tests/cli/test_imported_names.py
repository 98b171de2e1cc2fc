"""Tools of imported sessions: commands and exports use the names of the imported file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steno import ChatMessage, ToolCall
from steno.messages.call import map_tool_name
from steno.records.entry import ApprovalStatus
from steno.store import open_store
from tests.cli.program import run_steno
from tests.formats.sample_files import AUDIT_EXAMPLE

MAPPED = map_tool_name("fs.read")


@pytest.fixture
def imported(address: str, tmp_path: Path) -> str:
    """Import the example of the audit log, and return the id of the session."""
    file = tmp_path / "audit.json"
    file.write_bytes(AUDIT_EXAMPLE)
    assert run_steno("sessions", "import", file, "--id", "imported").status == 0
    return "imported"


@pytest.fixture
def undecided(address: str, imported: str) -> str:
    """Add a call of the imported tool to the session; it waits for approval."""
    with open_store(address) as store:
        conversation = store.open(imported)
        conversation.append(ChatMessage.user("Again"))
        call = ToolCall(id="c9", name=MAPPED, original_name="fs.read")
        conversation.append(ChatMessage.assistant(None, [call]))
        conversation.decide("c9", ApprovalStatus.PENDING)
    return imported


@pytest.mark.requirement("S1-08")
def test_an_imported_audit_log_is_exported_as_it_was(imported: str) -> None:
    output = run_steno("sessions", "export", imported, "--format", "audit", "--quiet")
    assert json.loads(output.out) == json.loads(AUDIT_EXAMPLE)


@pytest.mark.requirement("P-13")
@pytest.mark.parametrize("name", ["fs.read", MAPPED])
def test_the_audit_finds_calls_by_their_imported_and_their_mapped_name(
    undecided: str, name: str
) -> None:
    lines = run_steno("audit", undecided, "--tool", name).out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["#3", "#4", "#6", "#7"]


@pytest.mark.requirement("P-13")
def test_tables_show_the_imported_name(undecided: str) -> None:
    for command in (["audit"], ["sessions", "show"], ["approvals"]):
        output = run_steno(*command, undecided)
        assert output.status == 0
        assert "fs.read" in output.out
        assert MAPPED not in output.out
    (waiting,) = run_steno("approvals", undecided, "--json").out.splitlines()
    assert json.loads(waiting)["tool"] == "fs.read"


@pytest.mark.requirement("P-13")
def test_a_comparison_of_models_shows_the_imported_name(address: str) -> None:
    call = ToolCall(id="c1", name=MAPPED, original_name="fs.read")
    with open_store(address) as store:
        store.new([ChatMessage.user("Hi"), ChatMessage.assistant(None, [call])], id="named")
    output = run_steno("replay", "named", "--model", "offline", "--json")
    calls = json.loads(output.out)["difference"]["recorded"]["calls"]
    assert [call["name"] for call in calls] == ["fs.read"]
    text = run_steno("replay", "named", "--model", "offline").out
    assert "→ fs.read" in text
    assert MAPPED not in text


@pytest.mark.requirement("P-13")
@pytest.mark.parametrize("format", ["markdown", "html", "session", "rows", "chat"])
def test_exports_have_the_imported_name(undecided: str, format: str) -> None:
    output = run_steno("sessions", "export", undecided, "--format", format, "--quiet")
    assert output.status == 0
    assert "fs.read" in output.out
    assert MAPPED not in output.out


@pytest.mark.requirement("S1-08")
def test_audit_logs_have_the_imported_name(undecided: str) -> None:
    output = run_steno("audit", undecided, "--tool", "fs.read", "--json")
    messages = [row["message"] for row in json.loads(output.out)["entries"]]
    named = [message["tool_name"] for message in messages if "tool_name" in message]
    assert named == ["fs.read"] * 3


@pytest.mark.requirement("S1-08")
def test_the_audit_counts_the_bytes_of_a_result_in_a_blob(address: str) -> None:
    text = "é" * 300_000
    with open_store(address) as store:
        conversation = store.new([ChatMessage.user("Go.")], id="large")
        conversation.append(ChatMessage.assistant(None, [ToolCall(id="c", name="read")]))
        conversation.append(ChatMessage.tool_result("c", text, tool_name="read", duration_s=0.0416))
    exported = run_steno("sessions", "export", "large", "--format", "audit", "--quiet").out
    selected = run_steno("audit", "large", "--kind", "tool_result", "--json").out
    for output in (exported, selected):
        row = json.loads(output)["entries"][-1]
        assert row["message"]["result"] == text
        assert row["audit"]["execution_time_ms"] == 42
        assert row["audit"]["result_size_bytes"] == 600_000
