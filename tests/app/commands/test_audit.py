"""`/audit`."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, FileReference, InvalidValue, Outcome, ToolCall
from steno.app.commands.audit import ENTRY_KINDS
from steno.app.commands.slash_commands import run_slash_command
from steno.log.queries import as_version_2
from steno.records.entry import (
    ApprovalStatus,
    Clear,
    Compaction,
    Entry,
    Feedback,
    GrantRevoked,
    ImageAnalysis,
    ModelChange,
    Repair,
    Resolution,
    ResolutionStatus,
    ShellCommand,
)
from steno.render.items import TextForm
from steno.store import MemoryStore, Store
from tests.app.command_setup import open_context, run_with_context
from tests.app.project_setup import make_project
from tests.cli.program import run_steno, sample_session


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.requirement("S2-18")
def test_decisions_are_listed_with_actor_and_outcome_below_the_state_of_the_record(
    project: Path,
) -> None:
    text = run_with_context(project, "audit", begin=sample_session).body
    assert " digest of this branch is `" in text.splitlines()[0]
    assert not text.startswith("**")  # as it does where the record was changed
    assert " 12 entries" in text.splitlines()[0]
    listed = rows(text)
    assert len(listed) == 12
    [approval] = [row for row in listed if row[2] == "approval"]
    assert approval[3:6] == ["approved", "run\\_tests", "ada"]
    assert "tests" in approval[-1]
    [result] = [row for row in listed if row[2] == "tool\\_result"]
    assert "ok" in result


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    "options", [["--tool", "run_tests"], ["--decision", "approved"], ["--kind", "user"], []]
)
def test_a_terminal_and_the_command_line_list_the_same_rows(
    project: Path, options: list[str]
) -> None:
    report = run_with_context(project, "audit", " ".join(options), begin=sample_session)
    [table] = report.tables
    _, listed = table.complete_rows
    address = f"sqlite:{project.parent / 'context.db'}"
    printed = run_steno("audit", "talk", *options, "--store", address).out
    assert listed
    assert [" ".join(row).split() for row in listed] == [
        line.split() for line in printed.splitlines()[1:]
    ]


def decided_session(store: Store) -> Conversation:
    conversation = store.new([ChatMessage.user("Go")])
    calls = [
        ToolCall(id=id, name="bash", arguments=f'{{"command": "{id} | *x*"}}') for id in ("a", "b")
    ]
    for _ in range(2):  # a provider may use its ids again
        conversation.append(ChatMessage.assistant("", calls))
        conversation.decide("a", ApprovalStatus.PENDING)
        conversation.decide("a", ApprovalStatus.DENIED, actor="eve|**", reason="no")
        conversation.append(ChatMessage.tool_result("a", "no", tool_name="bash"))
        conversation.decide("b", ApprovalStatus.APPROVED, rule="allow bash")
        conversation.append(ChatMessage.tool_result("b", "done", tool_name="bash"))
    conversation.append(ChatMessage.assistant("", calls[:1]))
    conversation.decide("a", ApprovalStatus.PENDING)
    return conversation


@pytest.mark.requirement("S2-18")
def test_each_decision_is_listed_also_about_calls_with_the_same_id(project: Path) -> None:
    text = run_with_context(project, "audit", "--kind approval", begin=decided_session).body
    once = [
        ["pending", "bash", ""],
        ["denied", "bash", "eve\\\\|\\*\\*"],
        ["approved", "bash", "rule allow bash"],
    ]
    assert [row[3:6] for row in rows(text)] == [*once, *once, ["pending", "bash", ""]]
    assert "\\*x\\*" in text


@pytest.mark.requirement("S2-18")
def test_a_call_that_waits_for_a_decision_has_no_result(project: Path) -> None:
    text = run_with_context(project, "audit", "--tool bash", begin=decided_session).body
    *_, call, decision = rows(text)
    assert call[2].endswith("assistant\\_action")
    assert (decision[2], decision[3]) == ("approval", "pending")
    assert len([row for row in rows(text) if row[2] == "tool\\_result"]) == 4


def session_of_every_kind(store: Store) -> Conversation:
    conversation = sample_session(store)
    conversation.switch("other")
    image = conversation.append(ChatMessage.user([FileReference(path="a.txt")]))
    conversation.append(ChatMessage.assistant("I try.", [ToolCall(id="c9", name="bash")]))
    conversation.append(ChatMessage.tool_result("c9", "no", outcome=Outcome.ERROR))
    turn = conversation.append(ChatMessage.assistant("It fails."))
    for payload in (
        ShellCommand(command="ls", output="a", status=0),
        ModelChange(old="", new="offline/assistant"),
        Compaction(through=turn.id, summary="So far."),
        Resolution(target=image.id, block=0, status=ResolutionStatus.FAILED, error="gone"),
        ImageAnalysis(target=image.id, block=0, answer=turn.id),
        Feedback(target=turn.id, text="good"),
        Repair(code="orphaned_call", explanation="it was answered"),
        GrantRevoked(grant="bash(ls)", target=turn.id),
        Clear(),
    ):
        conversation.append(payload)
    store.redact(conversation.id, image.id, actor="ada", reason="a secret")
    return store.open(conversation.id)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("kind", ENTRY_KINDS)
def test_every_kind_of_the_help_finds_its_entries(project: Path, kind: str) -> None:
    report = run_with_context(project, "audit", f"--kind {kind}", begin=session_of_every_kind)
    assert rows(report.body)


@pytest.mark.parametrize(
    ("kind", "audit"), [("shell_command", {"shell": "ls", "status": 0}), ("user", {"shell": "ls"})]
)
def test_a_shell_command_of_an_older_session_is_found_by_both_names(
    project: Path, kind: str, audit: dict[str, object]
) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new([ChatMessage.user("Go"), ChatMessage.assistant("So.")])
        conversation.append(ChatMessage.user("$ ls\na.py"), audit=audit)
        return conversation

    listed = rows(run_with_context(project, "audit", f"--kind {kind}", begin=begin).body)
    assert [row[0] for row in listed][-1] == "`#3`"


@pytest.mark.parametrize("kind", ["repair", "grant_revoked"])
@pytest.mark.parametrize("in_version", [lambda entry: entry, as_version_2], ids=["new", "old"])
def test_a_revoked_grant_is_found_by_both_names(
    project: Path, kind: str, in_version: Callable[[Entry], Entry]
) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new([ChatMessage.user("Go"), ChatMessage.assistant("So.")])
        revoked = GrantRevoked(grant="bash(ls *)", target=conversation.entries()[0].id)
        entry = in_version(Entry(id="x", payload=revoked))
        conversation.append(entry.payload, audit=entry.audit)
        return conversation

    listed = rows(run_with_context(project, "audit", f"--kind {kind}", begin=begin).body)
    assert [(row[0], row[2]) for row in listed] == [("`#3`", "grant\\_revoked")]


@pytest.mark.parametrize(
    "argument", ["--tol bash", "--since never", "--kind nothing", "talk other", "--tool 'open"]
)
def test_options_that_make_no_sense_are_refused(project: Path, argument: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        run_with_context(project, "audit", argument, begin=sample_session)
    assert caught.value.code == "invalid_usage"


def test_help_lists_the_options(project: Path) -> None:
    report = run_with_context(project, "audit", "--help", begin=sample_session)
    assert "--decision" in report.body
    assert report.form is TextForm.PLAIN


def test_another_session_of_the_store_can_be_named(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        sample_session(store)
        return store.new([ChatMessage.user("Go")])

    named = run_with_context(project, "audit", "talk", begin=begin)
    assert len(rows(named.body)) == 12
    assert "digest of this branch" not in named.plain_text


def test_of_many_rows_the_last_are_shown_and_all_are_counted(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new()
        for number in range(250):
            conversation.append(ChatMessage.user(f"Go {number}"))
            conversation.append(ChatMessage.assistant("So."))
        return conversation

    text = run_with_context(project, "audit", begin=begin).body
    assert len(rows(text)) == 200
    assert "\n300 earlier rows " in text


def test_a_changed_record_is_reported(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = sample_session(store)
        with contextlib.closing(sqlite3.connect(project.parent / "context.db")) as database:
            database.execute(
                "UPDATE record SET data = CAST(replace(data, 'All green', 'Not green') AS BLOB)"
            )
            database.commit()
        return conversation

    assert run_with_context(project, "audit", begin=begin).body.startswith("**The log was changed")


def test_before_the_first_prompt_nothing_is_recorded(project: Path) -> None:
    text = run_with_context(project, "audit", begin=lambda store: Conversation()).body
    assert rows(text) == []


def test_a_session_that_is_not_stored_is_reported(project: Path) -> None:
    async def main() -> str:
        with MemoryStore() as store:
            conversation = store.new([ChatMessage.user("Go")])
            async with open_context(
                project, store=store, conversation=conversation, keeps=False
            ) as context:
                return (await run_slash_command(context, "audit", "")).body

    text = asyncio.run(main())
    assert "in memory" in text
