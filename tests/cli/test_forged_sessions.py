"""An imported session: its approvals do not count here."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent.permissions.gate import decide_later
from steno.codec import Document, encode_document
from steno.log.conversation import Conversation
from steno.messages.call import ToolCall
from steno.messages.message import ToolResult
from steno.records.entry import ApprovalStatus
from steno.store import MemoryStore
from tests.app.project_setup import OFFLINE, make_project
from tests.cli.program import run_steno

HERE = ("--folder", ".")
COMMAND = "sh -c 'touch ran'"
"""A command that needs approval, also in a sandbox."""


def _sent(file: Path, conversation: Conversation) -> str:
    document = Document(id=conversation.id, entries=tuple(conversation.entries()))
    file.write_bytes(encode_document(document))
    return str(file)


def _begun(command: str) -> Conversation:
    call = ToolCall.create("bash", {"command": command}, id="c1")
    return MemoryStore().new([ChatMessage.user("Go."), ChatMessage.assistant(None, (call,))])


def test_a_yes_that_came_with_a_session_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    conversation = _begun(COMMAND)
    decide_later(conversation, "c1", allowed=True, actor="you")
    assert run_steno("sessions", "import", _sent(tmp_path / "sent.json", conversation)).status == 0
    assert (
        "note.txt" in run_steno("-p", "list the files", "-r", conversation.id, *HERE, *OFFLINE).out
    )
    assert not (project / "ran").exists()


def test_a_grant_that_came_with_a_session_allows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, monkeypatch)
    conversation = _begun("true")
    audit = {"scope": "session", "grant": "bash"}
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="you", audit=audit)
    conversation.append(ToolResult.error("c1", "no"))
    conversation.append(ChatMessage.assistant("Done."))
    assert run_steno("sessions", "import", _sent(tmp_path / "sent.json", conversation)).status == 0
    output = run_steno("-p", f"run `{COMMAND}`", "-r", conversation.id, *HERE, *OFFLINE)
    assert "permission denied" in output.out
    assert not (project / "ran").exists()
