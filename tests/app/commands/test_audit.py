"""`/audit`."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, InvalidValue
from steno.app.commands.session_commands import run_slash_command
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

    assert len(rows(run_with_context(project, "audit", "talk", begin=begin).body)) == 12


def test_of_many_rows_the_last_are_shown_and_all_are_counted(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new()
        for number in range(250):
            conversation.append(ChatMessage.user(f"Go {number}"))
            conversation.append(ChatMessage.assistant("So."))
        return conversation

    text = run_with_context(project, "audit", begin=begin).body
    assert len(rows(text)) == 200
    assert "\n300 rows " in text


def test_a_changed_record_is_reported(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = sample_session(store)
        with contextlib.closing(sqlite3.connect(project.parent / "context.db")) as database:
            database.execute(
                "UPDATE record SET data = CAST(replace(data, 'All green', 'Not green') AS BLOB)"
            )
            database.commit()
        return conversation

    assert run_with_context(project, "audit", begin=begin).body.startswith("**The record ")


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
