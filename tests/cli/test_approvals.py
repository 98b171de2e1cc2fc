"""`steno approvals`: what was asked when a program ended is decided later, and then acted on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.project_setup import make_project, result_of, scripted_model
from tests.app.scripted_vendor import Call, Turn
from tests.cli.program import run_steno
from tests.cli.running_program import start_on_terminal


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def write(name: str, id: str) -> Call:
    return Call("write", {"path": name, "content": "made\n"}, id)


def kill_while_asking(prompt: str = "x") -> None:
    """Kill a run while it waits for an approval."""
    with start_on_terminal("-p", prompt, "--ask") as person:
        person.see("h help? ")
        person.process.kill()


def waiting() -> list[dict[str, Any]]:
    output = run_steno("approvals", "--json")
    assert output.status == 0
    return [json.loads(line) for line in output.out.splitlines()]


def go_on(*arguments: str) -> dict[str, Any]:
    output = run_steno("-c", "-p", "go on", "-q", "--output-format", "json", *arguments)
    assert output.status == 0, output.err
    return result_of(output)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize(
    ("decision", "status", "is_made"),
    [("--approve", "approved", True), ("--deny", "denied", False)],
)
def test_a_question_survives_the_program_and_its_answer_is_acted_on(
    home: Path, project: Path, decision: str, status: str, is_made: bool
) -> None:
    with scripted_model(home, [write("new.txt", "call_1")], "I see.") as model:
        kill_while_asking()
        (call,) = waiting()
        assert (call["call_id"], call["tool"], call["status"]) == (
            "call_1",
            "write",
            "undecided",
        ) or (call["status"] == "pending")
        assert not (project / "new.txt").exists()
        shown = run_steno("approvals").out.splitlines()
        assert shown[0].endswith(" write new.txt")
        assert shown[1:] == ['    path: "new.txt"', "    content:", "      │ made", "      │ "]
        output = run_steno("approvals", "last", decision, "call", "--reason", "because")
        assert output.status == 0
        assert f"call_1 {status} by " in output.out
        assert not (project / "new.txt").exists()  # nothing happens until the session continues
        (call,) = waiting()
        assert call["status"] == status
        assert go_on()["text"] == "I see."
    assert (project / "new.txt").exists() == is_made
    (answer,) = [sent for sent in model.seen[-1]["messages"] if sent["role"] == "tool"]
    assert ("because" in answer["content"]) == (not is_made)
    assert waiting() == []
    assert status in run_steno("audit", "last").out


@pytest.mark.requirement("S2-18")
def test_calls_are_decided_one_by_one(home: Path, project: Path) -> None:
    calls: Turn = [write("a.txt", "first"), write("b.txt", "second")]
    with scripted_model(home, calls, "I see."):
        kill_while_asking()
        assert [call["call_id"] for call in waiting()] == ["first"]  # one question at a time
        assert run_steno("approvals", "--approve", "first").status == 0
        result = go_on()
    assert (project / "a.txt").exists()
    assert not (project / "b.txt").exists()
    assert [denied["call_id"] for denied in result["denied"]] == ["second"]


def test_an_undecided_question_is_asked_again(home: Path, project: Path) -> None:
    with scripted_model(home, [write("new.txt", "call_1")], "I see."):
        kill_while_asking()
        with start_on_terminal("-c", "-p", "go on", "--ask") as person:
            person.see("h help? ")
            person.type("o\n")
            assert person.end() == 0
    assert (project / "new.txt").exists()


def test_a_rule_counts_more_than_an_answer_given_before(home: Path, project: Path) -> None:
    with scripted_model(home, [write("new.txt", "call_1")], "I see."):
        kill_while_asking()
        assert run_steno("approvals", "--approve", "call_1").status == 0
        go_on("--deny", "write")
    assert not (project / "new.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "code", "place"),
    [
        (["--approve", "nope"], 1, "name_unknown", "call nope"),
        (["--approve", ""], 1, "name_unknown", "call "),
        (["--approve", "call_1", "--deny", "call"], 2, "", ""),
        (["--approve", "call_1", "--deny", "nope"], 1, "name_unknown", "call nope"),
    ],
)
def test_invalid_arguments_of_approvals_decide_nothing(
    home: Path, arguments: list[str], status: int, code: str, place: str
) -> None:
    with scripted_model(home, [write("new.txt", "call_1")]):
        kill_while_asking()
        refused = run_steno("approvals", "last", *arguments)
        assert (refused.status, refused.code, refused.place) == (status, code, place)
        assert [call["actor"] for call in waiting()] == [None]


def test_no_pending_approval_is_reported(home: Path) -> None:
    with scripted_model(home, "Hello."):
        run_steno("-p", "x")
    output = run_steno("approvals")
    assert (output.status, output.out, output.err.count("\n")) == (0, "", 1)


def test_no_session_is_an_error() -> None:
    output = run_steno("approvals")
    assert (output.status, output.code, output.place) == (1, "store_empty", "session")


def test_text_of_a_model_is_escaped_on_the_terminal(home: Path) -> None:
    with scripted_model(home, [Call("write", {"path": "a\x1b[2J", "content": "\x9b"}, "id\x9b")]):
        kill_while_asking()
        output = run_steno("approvals")
    assert output.status == 0
    assert "\x1b" not in output.out
    assert "\x9b" not in output.out
