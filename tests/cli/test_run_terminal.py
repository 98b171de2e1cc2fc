"""`steno -p` on a terminal, which is a real one with a test at its other end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from threading import Event

import pytest

from tests.app.project_setup import make_project, result_of, scripted_model
from tests.app.scripted_vendor import Call, Fault
from tests.cli.program import ProgramOutput, run_steno
from tests.cli.running_program import start_on_terminal

ASKED = "h help? "
_WAIT_LINE = re.compile(r"\r\x1b\[K(?:waiting for [^\r]*)?")
"""The indicator that steno shows, and erases, while a busy machine makes it wait."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def write(text: str = "made\n") -> Call:
    return Call("write", {"path": "new.txt", "content": text})


# -- what is shown ---------------------------------------------------------------------------------


def test_the_answer_appears_as_it_comes(home: Path) -> None:
    go = Event()
    with (
        scripted_model(home, ["Half of ", go, "it."]),
        start_on_terminal("-p", "x", "-q") as person,
    ):
        person.see("Half of ")
        go.set()
        assert person.end() == 0
        assert person.screen == "Half of it.\n"


def test_all_text_of_the_model_appears_with_its_calls(home: Path) -> None:
    read_call = Call("read", {"path": "note.txt"})
    with (
        scripted_model(home, ["I look.", read_call], "Forty-two."),
        start_on_terminal("-p", "x") as person,
    ):
        assert person.end() == 0
    lines = _WAIT_LINE.sub("", person.screen).splitlines()
    assert lines[1:] == ["I look.", '→ read {"path": "note.txt"}', "Forty-two."]


def test_escapes_of_a_model_do_not_reach_the_terminal(home: Path) -> None:
    chunks = ["\x1b", "[31mred\x1b[", "0m \x1b]0;title\x07 \x9b2J a\r", "\nb \u202e c\x1b"]
    with scripted_model(home, chunks), start_on_terminal("-p", "x", "-q") as person:
        assert person.end() == 0
    assert person.screen == "red \\x1b]0;title\\x07 \\x9b2J a\nb \\u202e c\\x1b\n"


def test_escapes_in_calls_and_errors_do_not_reach_the_terminal(home: Path) -> None:
    call = Call("read", {"path": "a\x1b[2J\x9b2J.txt"})
    with (
        scripted_model(home, [call], Fault(401, "no\x1b[2J\x9b2J")),
        start_on_terminal("-p", "x") as person,
    ):
        assert person.end() == 1
    assert "\x1b[2J" not in person.screen  # steno itself erases a line on a busy machine
    assert "\x9b" not in person.screen
    assert "steno: no" in person.screen


def test_json_on_a_terminal_is_harmless_too(home: Path) -> None:
    with (
        scripted_model(home, "a\x9b2J\u202e"),
        start_on_terminal("-p", "x", "-q", "--output-format", "stream-json") as person,
    ):
        assert person.end() == 0
    assert "\x9b" not in person.screen
    assert result_of(ProgramOutput(0, person.screen, ""))["text"] == "a\x9b2J\u202e"


def test_a_pipe_gets_the_last_text_unchanged(home: Path) -> None:
    with scripted_model(
        home, ["I look.", Call("read", {"path": "note.txt"})], "\x1b[31mred\x1b[0m"
    ):
        output = run_steno("-p", "x", "-q")
    assert output.out == "\x1b[31mred\x1b[0m\n"


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_model_that_is_silent_for_long_is_waited_for_visibly(home: Path, format: str) -> None:
    go = Event()
    with (
        scripted_model(home, [go, "Here."]),
        start_on_terminal("-p", "x", "--output-format", format) as person,
    ):
        person.see("\r\x1b[Kwaiting for lab/tester … 1 s")
        go.set()
        person.see("\r\x1b[K")  # and nothing of it is left
        person.see("Here.")
        assert person.end() == 0


def test_quiet_shows_no_waiting(home: Path) -> None:
    go = Event()
    with scripted_model(home, ["a", go, "b"]), start_on_terminal("-p", "x", "-q") as person:
        person.see("a")
        go.set()
        assert person.end() == 0
        assert "\x1b" not in person.screen


def test_a_tool_that_takes_long_is_waited_for_visibly(home: Path, project: Path) -> None:
    call = Call("bash", {"command": "until [ -e go ]; do sleep 0.05; done"})
    with scripted_model(home, [call], "Done."), start_on_terminal("-p", "x", "--yes") as person:
        person.see("\r\x1b[Kbash … 1 s")
        (project / "go").touch()
        assert person.end() == 0
        assert person.screen.endswith("\r\x1b[KDone.\n")


def test_ctrl_c_ends_it_in_order(home: Path) -> None:
    never = Event()
    with scripted_model(home, ["Half", never], "The rest."):
        with start_on_terminal("-p", "x") as person:
            person.see("Half")
            person.type("\x03")
            assert person.end() == 130
        assert person.screen.endswith("Half^C\n! interrupted; continue with -c\n")
        assert run_steno("-c", "-p", "go on", "-q").out == "The rest.\n"
        never.set()


# -- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "is_made"), [("o\n", True), ("d\n", False)])
def test_a_person_is_asked_where_that_is_wanted(
    home: Path, project: Path, keys: str, is_made: bool
) -> None:
    with scripted_model(home, [write()], "Done."), start_on_terminal("-p", "x", "--ask") as person:
        person.see("write asks for permission to write\n")
        person.see(ASKED)
        person.type(keys)
        assert person.end() == 0
    assert (project / "new.txt").exists() == is_made


def test_a_person_is_asked_while_a_program_reads_the_output(home: Path, project: Path) -> None:
    with (
        scripted_model(home, [write()], "Done."),
        start_on_terminal(
            *("-p", "x", "--ask", "--output-format", "json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as person,
    ):
        person.see(ASKED)
        person.type("o\n")
        assert person.process.stdout is not None
        out = person.process.stdout.read().decode()
        assert person.end() == 0
    assert result_of(ProgramOutput(0, out, ""))["text"] == "Done."
    assert out.count("\n") == 1
    assert (project / "new.txt").exists()


def test_a_session_grant_is_not_asked_about_again(home: Path, project: Path) -> None:
    with scripted_model(home, [write()], "Done.", [write("again\n")], "Done."):
        with start_on_terminal("-p", "x", "--ask") as person:
            person.see(ASKED)
            person.type("s\n")
            assert person.end() == 0
        (project / "new.txt").unlink()
        assert run_steno("-c", "-p", "y", "-q").status == 0
    assert (project / "new.txt").read_text() == "again\n"
