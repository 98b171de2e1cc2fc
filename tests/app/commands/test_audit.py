"""`/audit`."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, ToolCall
from steno.app.commands.dispatch import SESSION_COMMANDS
from steno.app.session_state import CommandContext
from steno.records.entry import ApprovalStatus
from steno.store import MemoryStore, Store
from tests.app.command_setup import open_context, with_context
from tests.app.project_setup import make_project
from tests.cli.program import sample_session


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


async def ask(context: CommandContext) -> str:
    return (await SESSION_COMMANDS["audit"](context, "")).text


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.requirement("S2-18")
def test_decisions_are_listed_with_actor_and_outcome(project: Path) -> None:
    text = with_context(project, ask, begin=sample_session)
    assert not text.startswith("**")  # as it does where the record was changed
    assert " 12 entries" in text.splitlines()[0]
    [row] = rows(text)
    assert row[1:] == ['`run_tests {"path": "tests"}`', "approved", "ada", "ok"]
    assert "\n1 call " in text
    assert "`steno audit talk`" in text


@pytest.mark.requirement("S2-18")
def test_each_call_has_one_row_with_the_last_decision_about_it(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new([ChatMessage.user("Go")])
        calls = [
            ToolCall(id=id, name="bash", arguments=f'{{"command": "{id} | *x*"}}')
            for id in ("a", "b")
        ]
        for _ in range(2):  # a provider may use its ids again
            conversation.append(ChatMessage.assistant("", calls))
            conversation.decide("a", ApprovalStatus.PENDING)
            conversation.decide("a", ApprovalStatus.DENIED, actor="eve|**", reason="no")
            conversation.append(ChatMessage.tool_result("a", "no"))
            conversation.decide("b", ApprovalStatus.APPROVED, rule="allow bash")
            conversation.append(ChatMessage.tool_result("b", "done"))
        conversation.append(ChatMessage.assistant("", calls[:1]))
        conversation.decide("a", ApprovalStatus.PENDING)
        return conversation

    text = with_context(project, ask, begin=begin)
    assert [row[2:] for row in rows(text)] == [
        ["denied", "eve\\\\|\\*\\*", "ok"],
        ["approved", "rule allow bash", "ok"],
        ["denied", "eve\\\\|\\*\\*", "ok"],
        ["approved", "rule allow bash", "ok"],
        ["pending", "", ""],
    ]


def test_of_many_decisions_the_last_are_shown_and_all_are_counted(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new([ChatMessage.user("Go")])
        calls = [ToolCall(id=f"c{number}", name="bash") for number in range(60)]
        conversation.append(ChatMessage.assistant("", calls))
        for call in calls:
            conversation.decide(call.id, ApprovalStatus.APPROVED, rule="allow bash")
        return conversation

    text = with_context(project, ask, begin=begin)
    assert len(rows(text)) == 50
    [line] = [line for line in text.splitlines() if line.startswith("60 calls ")]
    assert line.endswith(" 50.")


def test_a_changed_record_is_reported(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = sample_session(store)
        with contextlib.closing(sqlite3.connect(project.parent / "context.db")) as database:
            database.execute(
                "UPDATE record SET data = CAST(replace(data, 'All green', 'Not green') AS BLOB)"
            )
            database.commit()
        return conversation

    assert with_context(project, ask, begin=begin).startswith("**The record ")


def test_before_the_first_prompt_nothing_is_recorded(project: Path) -> None:
    text = with_context(project, ask, begin=lambda store: Conversation())
    assert rows(text) == []
    assert "steno audit" not in text


def test_a_session_that_is_not_stored_is_reported(project: Path) -> None:
    async def main() -> str:
        with MemoryStore() as store:
            conversation = store.new([ChatMessage.user("Go")])
            async with open_context(
                project, store=store, conversation=conversation, keeps=False
            ) as context:
                return await ask(context)

    text = asyncio.run(main())
    assert "in memory" in text
    assert "steno audit" not in text
