"""`steno replay` and `steno feedback`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, ToolCall
from steno.agent import Agent, Gate, Permissions
from steno.records.entry import Feedback
from steno.records.stored_record import Record
from steno.store import MemoryStore, Store, open_store
from steno.testing import ScriptedProvider, ScriptedTool
from steno.testing.doubles import ScriptedTurn
from tests.cli.program import copy_to_store, run_process, run_steno, store_sample_session


def work(store: Store, turns: list[ScriptedTurn], prompt: str, session: str = "work") -> Any:
    """Let a scripted model work on a session; return what it was asked."""
    provider = ScriptedProvider(turns)
    tools = [ScriptedTool("read", ["3 passed"]), ScriptedTool("look", ["nothing"])]
    agent = Agent(
        provider, store.open(session), tools=tools, gate=Gate(Permissions.of()), model="lab/large"
    )
    asyncio.run(agent.run(prompt))
    return provider.requests


def made_session() -> MemoryStore:
    store = MemoryStore()
    store.new([ChatMessage.system("You mend code.")], id="work")
    call = ToolCall(id="c1", name="read", arguments='{"path": "a"}')
    broken = ToolCall(id="c2", name="nobody", arguments="{}")
    work(store, [ChatMessage.assistant("I look.", [call, broken]), "All green."], "Is it broken?")
    return store


def keep_forged(store: MemoryStore, address: str, number: int, **changes: Any) -> None:
    """Keep the session with something changed in one entry, and leave its digest."""

    def changed(record: Record) -> Record:
        if record.seq != number or record.entry is None:
            return record
        return replace(record, entry=replace(record.entry, **changes))

    with open_store(address) as opened:
        opened.add_session(store.header("work"), map(changed, store.records("work")))


# -- the same --------------------------------------------------------------------------------


def test_the_active_branch_is_replayed_and_named(address: str) -> None:
    store = made_session()
    conversation = store.open("work")
    conversation.fork("other", at=conversation.entries()[0].id)
    conversation.switch("other")
    copy_to_store(store, address)
    assert run_steno("replay", "last").out.splitlines()[-1] == (
        "2 entries of branch other; 9 in the session"
    )
    output = run_steno("replay", "last", "--branch", "main")
    assert output.out.splitlines()[-1] == "8 entries of branch main; 9 in the session"


@pytest.mark.requirement("S1-11")
def test_a_session_is_replayed_and_is_the_same(address: str) -> None:
    store = made_session()
    copy_to_store(store, address)
    output = run_steno("replay", "last")
    digest = store.verify("work").heads["main"]
    assert (output.status, output.err) == (0, "")
    assert output.out.splitlines() == [
        "same: 8 entries, 6 replayed and 2 taken from the log",
        "2 turns, 2 calls",
        f"digest {digest}",
    ]
    replayed = json.loads(run_steno("replay", "work", "--branch", "main", "--json").out)
    assert replayed == {
        "session": "work",
        "branch": "main",
        "same": True,
        "entries": 8,
        "replayed_entries": 6,
        "turns": 2,
        "calls": 2,
        "digest": digest,
        "redacted": [],
        "difference": None,
    }


def test_every_branch_of_a_session_is_replayed(address: str) -> None:
    store_sample_session(address)
    for branch in ("main", "other"):
        assert run_steno("replay", "talk", "--branch", branch).status == 0
    output = run_steno("replay", "talk", "--branch", "third")
    assert (output.status, output.code, output.place) == (1, "branch_missing", "branch")
    assert output.err.endswith(" other, main\n")


def test_redacted_entries_are_named(address: str) -> None:
    store = made_session()
    entry = store.open("work").entries()[2]
    store.redact("work", entry.id, actor="ada", reason="a secret")
    copy_to_store(store, address)
    output = run_steno("replay", "work")
    assert (output.status, output.out.startswith("same: 9 entries")) == (0, True)
    assert output.err.count("\n") == 1
    assert output.err.endswith(": #3\n")


def test_options_for_another_model_need_one(address: str) -> None:
    copy_to_store(made_session(), address)
    output = run_steno("replay", "work", "--yes")
    assert output.status == 2
    assert "need --model" in output.err


# -- something else --------------------------------------------------------------------------


@pytest.mark.requirement("S1-11")
def test_the_entry_that_was_changed_is_shown_with_what_comes_out(address: str) -> None:
    store = made_session()
    entries = store.open("work").entries()
    number = next(n for n, e in enumerate(entries, start=1) if e.decision == "executed")
    keep_forged(store, address, number, decision="failed\x1b[2J")
    output = run_steno("replay", "work")
    assert output.status == 1
    lines = output.out.splitlines()
    assert lines[0].startswith(f"different: {number - 1} entries, ")
    assert lines[3:] == [
        f"#{number} ({entries[number - 1].id}) differs:",
        "  recorded  tool_result [failed\\x1b[2J]  3 passed",
        "  replayed  tool_result [executed]  3 passed",
        "  decision: 17 characters recorded, 10 characters replayed",
    ]
    difference = json.loads(run_steno("replay", "work", "--json").out)["difference"]
    assert difference == {
        "number": number,
        "id": entries[number - 1].id,
        "type": "tool_result",
        "parts": [{"name": "decision", "recorded": 17, "replayed": 10}],
    }


def test_an_entry_that_is_not_that_of_its_digest_is_shown(address: str) -> None:
    store = made_session()
    keep_forged(store, address, 1, payload=ChatMessage.system("You break code."))
    output = run_steno("replay", "work")
    assert output.status == 1
    assert "#1 (" in output.out
    assert "does not match its digest" in output.out
    assert "steno verify" in output.out


# -- another model ---------------------------------------------------------------------------


def test_notices_about_settings_are_printed_without_escape_sequences(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "a\x1b[31mb"
    (project / ".steno").mkdir(parents=True)
    (project / ".steno" / "config.toml").write_text("network = true\n", "utf-8")
    monkeypatch.chdir(project)
    copy_to_store(made_session(), address)
    output = run_steno("replay", "work", "--model", "offline")
    assert f"{tmp_path}/ab/.steno/config.toml: " in output.err
    assert "\x1b" not in output.err


@pytest.mark.requirement("S1-11")
def test_another_model_works_on_the_same_in_a_branch_of_its_own(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_to_store(made_session(), address)
    output = run_steno("replay", "work", "--model", "offline")
    assert output.status == 0, output.err
    assert "different: the first difference is in turn 1" in output.out
    assert "→ read" in output.out
    rows = {line.split("  ")[0]: line.split() for line in output.out.splitlines()}
    assert rows["model"][1:] == ["lab/large", "offline/assistant"]
    assert rows["turns"][1] == "2"
    with open_store(address) as store:
        conversation = store.open("work")
        assert conversation.branch == "main"
        assert store.verify("work").is_intact
        assert set(conversation.branches) == {"main", "replay-offline/assistant"}
    compared = json.loads(
        run_steno("replay", "work", "--model", "offline", "--json", "--quiet").out
    )
    assert compared["branch"] == "replay-offline/assistant-2"
    assert compared["difference"]["recorded"]["calls"][0] == {
        "name": "read",
        "arguments": '{"path": "a"}',
    }
    assert (compared["recorded"]["turns"], compared["stopped"]) == (2, None)
    assert run_steno("replay", "work", "--branch", "replay-offline/assistant").status == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--branch", "third"], (1, "branch_missing", "branch")),
        (["--model", "unknown/large"], (2, "provider_unknown", "--model unknown/large")),
    ],
)
def test_another_model_cannot_work_on_what_is_not_there(
    arguments: list[str],
    error: tuple[int, str, str],
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_to_store(made_session(), address)
    output = run_steno("replay", "work", "--model", "offline", *arguments)
    assert (output.status, output.code, output.place) == error
    with open_store(address) as store:
        assert set(store.open("work").branches) == {"main"}


# -- feedback --------------------------------------------------------------------------------


@pytest.mark.requirement("S1-12")
@pytest.mark.parametrize("name", ["8", "#8", "id", "green"])
def test_a_remark_on_a_message_reaches_the_model_with_the_next_turn(
    name: str, address: str
) -> None:
    store = made_session()
    conversation = store.open("work")
    last = conversation.entries()[-1]
    conversation.label(last.id, "green")
    copy_to_store(store, address)
    output = run_steno(
        "feedback", "work", last.id if name == "id" else name, "Reconsider: it is red."
    )
    assert (output.status, output.out) == (0, "")
    assert output.err.endswith(" branch main\n")
    with open_store(address) as opened:
        remark = opened.open("work").entries()[-1].payload
        assert remark == Feedback(target=last.id, text="Reconsider: it is red.")
        requests = work(opened, ["It is red."], "Well?")
        assert [message.text for message in requests[0].messages[-3:]] == [
            "All green.",
            '[Feedback on the assistant message that begins "All green."]\nReconsider: it is red.',
            "Well?",
        ]
    assert run_steno("replay", "work").status == 0


@pytest.mark.parametrize(
    ("entry", "text", "code", "place"),
    [
        ("99", "No.", "name_unknown", "entry 99"),
        ("2", "No.", "not_a_message", "feedback"),
        ("8", "  ", "remark_invalid", "feedback"),
    ],
)
def test_feedback_that_cannot_be_recorded_is_refused(
    entry: str, text: str, code: str, place: str, address: str
) -> None:
    copy_to_store(made_session(), address)
    output = run_steno("feedback", "work", entry, text)
    assert (output.status, output.code, output.place) == (1, code, place)
    with open_store(address) as store:
        assert len(store.open("work").entries()) == 8


def test_a_remark_is_made_where_its_message_stands(address: str) -> None:
    store_sample_session(address)
    output = run_steno("feedback", "talk", "8", "Why?")
    assert (output.status, output.code) == (1, "not_a_message")
    output = run_steno("feedback", "talk", "11", "Why?", "--branch", "main")
    assert (output.code, output.place) == ("not_on_branch", "feedback")
    assert run_steno("feedback", "talk", "11", "Why?", "--branch", "other").status == 0
    with open_store(address) as store:
        assert isinstance(store.open("talk").entries("other")[-1].payload, Feedback)


def test_both_run_in_a_process_of_their_own(address: str) -> None:
    copy_to_store(made_session(), address)
    assert run_process("feedback", "work", "8", "Sure?").status == 0
    output = run_process("replay", "work")
    assert (output.status, output.err) == (0, "")
    assert output.out.startswith("same: 9 entries")
