"""`/usage`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, Usage
from steno.records.entry import Compaction
from steno.render.items import TextForm
from steno.store import Store
from tests.app.command_setup import run_with_context
from tests.app.project_setup import make_project, write_settings

HEAD = (
    "| model | turns | input | cached | output | USD |\n| --- | ---: | ---: | ---: | ---: | ---: |"
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_settings(home, '[models."offline/assistant"]\ncontext_tokens = 10000\n')
    return make_project(tmp_path, monkeypatch)


def append_turn(conversation: Conversation, read: int, written: int) -> None:
    usage = Usage(input_tokens=read, output_tokens=written, cache_read_tokens=read // 2)
    conversation.append(ChatMessage.user("Go"))
    conversation.append(ChatMessage.assistant("So.", usage=usage))


def two_branches(store: Store) -> Conversation:
    conversation = store.new()
    conversation.change_model("openai/gpt-4o")
    append_turn(conversation, 1_000_000, 100_000)
    conversation.fork("other")
    append_turn(conversation, 2_000, 200)
    conversation.switch("other")
    conversation.change_model("lab/own|*x*")
    append_turn(conversation, 2_000, 500)
    return conversation


def test_tokens_and_cost_are_listed_by_model_for_the_branch_and_in_total(
    project: Path,
) -> None:
    branch, everything = run_with_context(project, "usage", begin=two_branches).body.split(
        "**All branches"
    )
    assert branch.startswith(f"**Branch other**\n\n{HEAD}\n")
    assert "| `openai/gpt-4o` | 1 | 1,000,000 | 500,000 | 100,000 | 2\\.8750 |" in branch
    assert "| `lab/own\\|*x*` | 1 | 2,000 | 1,000 | 500 | – |" in branch
    assert "| `total` | 2 | 1,002,000 | 501,000 | 100,500 | 2\\.8750+ |" in branch
    assert "| `openai/gpt-4o` | 2 | 1,002,000 |" in everything
    assert " lab/own\\|\\*x\\* is unknown; " in everything


def test_the_context_is_measured_by_the_last_response(project: Path) -> None:
    text = run_with_context(project, "usage", begin=two_branches).body
    last = text.splitlines()[-1]
    assert all(fact in last for fact in (" 2,500 ", " 10,000 tokens (25%)"))


def test_a_single_branch_is_listed_once_and_without_a_total(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = store.new()
        conversation.change_model("openai/gpt-4o")
        append_turn(conversation, 2_000, 200)
        return conversation

    text = run_with_context(project, "usage", begin=begin).body
    assert "total" not in text
    assert "All branches" not in text
    assert text.count(HEAD) == 1


def test_a_summary_makes_room(project: Path) -> None:
    def begin(store: Store) -> Conversation:
        conversation = two_branches(store)
        through = conversation.entries()[-1].id
        conversation.append(Compaction(through=through, summary="They talked."))
        return conversation

    assert run_with_context(project, "usage", begin=begin).plain_text.endswith(
        " 10,000 tokens (0%)."
    )


def test_before_the_first_prompt_nothing_was_used(project: Path) -> None:
    text = run_with_context(project, "usage", begin=lambda store: Conversation()).body
    assert HEAD not in text


def test_json_is_that_of_the_command_line(project: Path) -> None:
    report = run_with_context(project, "usage", "--json", begin=two_branches)
    assert report.form is TextForm.PLAIN
    models = [json.loads(line)["model"] for line in report.body.splitlines()]
    assert models == ["openai/gpt-4o", "lab/own|*x*"]


def test_options_of_the_command_line_can_be_typed(project: Path) -> None:
    report = run_with_context(project, "usage", "--by day --all", begin=two_branches)
    [table] = report.tables
    assert [column.title for column in table.columns][:2] == ["day", "turns"]
    assert [row[1] for row in table.rows] == ["3"]
    assert len(run_with_context(project, "usage", "--since 1h", begin=two_branches).tables) == 2
