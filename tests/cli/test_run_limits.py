"""`steno -p`: what a model may do, how far it may go, and what becomes of failures."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from tests.app.project_setup import OFFLINE, make_project, result_of, scripted_model, write_settings
from tests.app.scripted_vendor import Call, Fault
from tests.cli.program import ProgramOutput, run_steno


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def as_json(*arguments: str | Path) -> ProgramOutput:
    return run_steno(*arguments, "--output-format", "json", "-q")


# -- what it may do --------------------------------------------------------------------------------


def write(path: str = "new.txt") -> Call:
    return Call("write", {"path": path, "content": "made\n"})


def test_a_call_that_no_rule_allows_is_denied_and_the_run_continues(
    home: Path, project: Path
) -> None:
    with scripted_model(home, [write()], "Too bad."):
        result = result_of(as_json("-p", "x"))
    assert (result["ending"], result["text"]) == ("done", "Too bad.")
    (denied,) = result["denied"]
    assert (denied["call_id"], denied["tool"]) == ("call_1", "write")
    assert "there is no approver" in denied["reason"]
    assert not (project / "new.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "is_made"),
    [
        (["--yes"], True),
        (["--allow", "write(*.txt)"], True),
        (["--allow", "write(src/**)"], False),
        (["--allow", "write", "--deny", "write(new.txt)"], False),
        (["--yes", "--deny", "write"], False),
        (["--yes", "--mode", "plan"], False),
    ],
)
def test_rules_and_modes_decide(
    home: Path, project: Path, arguments: list[str], is_made: bool
) -> None:
    with scripted_model(home, [write()], "Done."):
        assert run_steno("-p", "x", *arguments).status == 0
    assert (project / "new.txt").exists() == is_made


def test_a_mode_of_the_command_line_lasts(home: Path) -> None:
    with scripted_model(home, "a", "b") as model:
        run_steno("-p", "x", "--mode", "plan")
        run_steno("-c", "-p", "y", "--yes")
    for request in model.seen:
        names = {tool["function"]["name"] for tool in request["tools"]}
        assert "read" in names
        assert "write" not in names


def test_another_folder_has_to_be_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "note.txt").write_text("next door")
    read_call = Call("read", {"path": str(tmp_path / "beside" / "note.txt")})
    with scripted_model(home, [read_call], "a", [read_call], "b") as model:
        run_steno("-p", "x")
        run_steno("-p", "x", "--add-dir", "../beside")
    results = [request["messages"][-1]["content"] for request in (model.seen[1], model.seen[3])]
    assert "next door" not in results[0]
    assert "next door" in results[1]


def test_an_invalid_rule_is_reported_with_its_place() -> None:
    output = run_steno("-p", "x", "--allow", "read", "--allow", "bash(", *OFFLINE)
    assert output.status == 2
    assert output.err.startswith("steno: --allow[1]: ")


def test_a_folder_that_holds_all_others_is_warned_of(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"steno: {Path.cwd()}: " not in run_steno("-p", "list files", *OFFLINE).err
    for folder in (home, home.parent, Path("/")):
        monkeypatch.chdir(folder)
        output = run_steno("-p", "read note.txt", *OFFLINE, "--no-session")
        assert output.status == 0
        assert f"steno: {folder}: " in output.err


# -- limits and failures ---------------------------------------------------------------------------


def test_a_limit_has_an_exit_status_of_its_own_and_the_session_continues(home: Path) -> None:
    read_call = [Call("read", {"path": "note.txt"})]
    with scripted_model(home, read_call, "Forty-two.") as model:
        output = as_json("-p", "x", "--max-turns", "1")
        assert output.status == 4
        assert (result_of(output)["ending"], result_of(output)["reason"]) == ("limit", "1 turn")
        assert result_of(as_json("-c", "-p", "go on"))["text"] == "Forty-two."
    assert model.sent_roles() == ["system", "user", "assistant", "tool", "user"]


def test_a_limit_is_reported_with_the_way_to_continue(home: Path) -> None:
    read_call = [Call("read", {"path": "note.txt"})]
    with scripted_model(home, read_call, read_call):
        stored = run_steno("-p", "x", "--max-turns", "1")
        unstored = run_steno("-p", "x", "--max-turns", "1", "--no-session")
    assert stored.err.endswith("! stopped at the limit: 1 turn; continue with -c\n")
    assert unstored.err.endswith("! stopped at the limit: 1 turn\n")


def test_a_time_limit_keeps_the_received_text(home: Path) -> None:
    never = Event()
    with scripted_model(home, ["Half of ", never], "The rest."):
        output = as_json("-p", "x", "--max-seconds", "0.3")
        assert output.status == 4
        assert result_of(output)["reason"] == "0.3 seconds"
        assert result_of(as_json("-c", "-p", "go on"))["text"] == "The rest."
        never.set()


def test_an_unknown_cost_is_no_limit_and_is_reported(home: Path) -> None:
    with scripted_model(home, "Hello."):
        output = run_steno("-p", "x", "--max-cost", "0.5")
    assert output.status == 0
    [notice] = [line for line in output.err.splitlines() if "max_cost: " in line]
    assert "lab/tester" in notice


def test_a_failing_model_is_reported_on_stderr_and_by_the_status(home: Path) -> None:
    with scripted_model(home, Fault(401, "no such key\x1b[2J"), "Better."):
        output = run_steno("-p", "x")
        assert (output.status, output.out) == (1, "")
        assert "steno: no such key" in output.err
        assert "\x1b" not in output.err
        assert run_steno("-c", "-p", "again").out == "Better.\n"


@pytest.mark.parametrize(
    "setting", ["telemetry = true", "telemetry = true\ncapture_content = true"]
)
def test_traces_can_be_wanted(home: Path, setting: str) -> None:
    with scripted_model(home, "Hello.", settings=setting):
        assert run_steno("-p", "x").out == "Hello.\n"


@pytest.mark.parametrize("text", ["max_turns = 0", "nonsense", 'mdoel = "x"'])
def test_broken_settings_are_an_error_in_one_line(home: Path, text: str) -> None:
    file = write_settings(home, text)
    output = run_steno("-p", "x", *OFFLINE)
    assert (output.status, output.out) == (1, "")
    assert output.err.startswith(f"steno: {file}: ")
    assert output.err.count("\n") == 1
