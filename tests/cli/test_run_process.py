"""`steno -p` as a process: signals, kills, closed pipes, places that cannot be written to."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from steno.app.session_edit import begin_session
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage, ChatMessage, ToolResultMessage
from steno.messages.order import check_order
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.records.entry import Mode, ShellCommand
from steno.render import run_output
from steno.store import open_store
from tests.app.project_setup import OFFLINE, make_project, result_of, scripted_model, write_settings
from tests.app.scripted_vendor import Call
from tests.cli.program import COMMAND, ProgramOutput, loaded_by, run_process, run_steno
from tests.cli.running_program import PATIENCE_S, becomes_true, is_running, start_program

CALL = ToolCall(id="c1", name="read", arguments='{"path": "x"}')
_connect: Callable[..., sqlite3.Connection] = sqlite3.connect
SIGNALS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def go_on() -> ProgramOutput:
    return run_steno("-c", "-p", "go on", "--output-format", "json", "-q")


def is_in_order(session: str) -> bool:
    """Return whether a session can be sent to a model and its log is intact."""
    with open_store() as store:
        check_order(store.open(session).messages())
    return run_steno("verify", session).status == 0


# -- signals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), SIGNALS.items())
@pytest.mark.requirement("S4-14")
def test_a_signal_during_a_response_keeps_the_received_text(
    home: Path, number: signal.Signals, status: int
) -> None:
    never = Event()
    with scripted_model(home, ["Half of ", never], "The rest.") as model:
        with start_program("-p", "x") as process:
            process.until("text")
            process.process.send_signal(number)
            output = process.end()
        result = result_of(output)
        assert (output.status, output.err) == (status, "")
        assert (result["ending"], result["text"]) == ("interrupted", "Half of ")
        with open_store() as store:
            partial = store.open(result["session"]).messages()[-1]
        assert isinstance(partial, AssistantMessage)
        assert partial.stop_reason is StopReason.ABORTED
        assert is_in_order(result["session"])
        assert result_of(go_on())["text"] == "The rest."
        never.set()
    assert model.sent_roles()[-1] == "user"


@pytest.mark.parametrize(("number", "status"), SIGNALS.items())
def test_a_signal_while_a_tool_runs_ends_what_it_started(
    home: Path, number: signal.Signals, status: int
) -> None:
    nap = f"{600 + os.getpid()}.{int(number)}"
    call = Call("bash", {"command": f"echo begun; sleep {nap} & sleep {nap}"})
    with scripted_model(home, [call], "I see."):
        with start_program("-p", "x", "--yes") as process:
            process.until("output")
            assert becomes_true(lambda: is_running(nap))
            process.process.send_signal(number)
            output = process.end()
        assert output.status == status
        assert becomes_true(lambda: not is_running(nap))
        session = result_of(output)["session"]
        with open_store() as store:
            (answer,) = store.open(session).messages()[-1:]
        assert isinstance(answer, ToolResultMessage)
        assert answer.outcome is Outcome.CANCELLED
        assert is_in_order(session)
        assert result_of(go_on())["text"] == "I see."


def test_a_second_signal_does_not_harm_the_session(home: Path) -> None:
    never = Event()
    with scripted_model(home, ["Half", never], "The rest."):
        with start_program("-p", "x") as process:
            process.until("text")
            for _ in range(2):
                process.process.send_signal(signal.SIGTERM)
            output = process.end()
        assert output.status == 143
        assert result_of(output)["ending"] == "interrupted"
        assert is_in_order(result_of(output)["session"])
        assert result_of(go_on())["text"] == "The rest."
        never.set()


@pytest.mark.parametrize(("number", "status"), SIGNALS.items())
def test_a_signal_before_anything_begins_leaves_nothing(
    home: Path, number: signal.Signals, status: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        write_settings(home, f'[providers.lab]\nlike = "vllm"\nbase_url = "{address}"\n')
        with start_program("-p", "x") as process:
            with silent.accept()[0]:  # it asks which models there are
                process.process.send_signal(number)
                out, err = process.process.communicate(timeout=PATIENCE_S)
            assert (process.process.returncode, out, err) == (status, b"", b"")
    assert not (home / ".local").exists()


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_a_signal_while_a_server_starts_leaves_nothing(
    home: Path, tmp_path: Path, output_format: str
) -> None:
    started = tmp_path / "started"
    servers, script = tmp_path / "servers.json", f"touch {started}; exec sleep 600"
    spec = {"command": "sh", "args": ["-c", script]}
    servers.write_text(json.dumps({"mcpServers": {"slow": spec}}))
    with subprocess.Popen(
        [*COMMAND, "-p", "x", *OFFLINE, "--mcp-config", servers, "--output-format", output_format],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert becomes_true(started.exists)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, b"Traceback" in err) == (143, b"", False)
    assert run_steno("sessions", "list", "--json").out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(
    home: Path, number: signal.Signals
) -> None:
    """As with `nohup`, and in the background of a script."""
    go = Event()
    with scripted_model(home, ["Half, ", go, "and all."]):
        ignoring = [sys.executable, "-c", _IGNORING, str(int(number)), *COMMAND]
        with subprocess.Popen(
            [*ignoring, "-p", "x", "--output-format", "stream-json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            while b'"text"' not in process.stdout.readline():
                pass
            process.send_signal(number)
            go.set()
            last = process.stdout.read().splitlines()[-1].decode()
        assert process.returncode == 0
        assert result_of(ProgramOutput(0, last, ""))["text"] == "Half, and all."


_IGNORING = """\
import os, signal, sys
signal.signal(int(sys.argv[1]), signal.SIG_IGN)
os.execv(sys.argv[2], sys.argv[2:])
"""


# -- kills -----------------------------------------------------------------------------------------


def test_a_run_killed_during_a_response_resumes(home: Path) -> None:
    never = Event()
    with scripted_model(home, ["Half of ", never], "All of it.") as model:
        with start_program("-p", "x") as process:
            session = process.until("session")["session"]
            process.until("text")
            process.process.kill()
        assert is_in_order(session)
        result = result_of(go_on())
        never.set()
    assert (result["session"], result["text"]) == (session, "All of it.")
    assert [message["content"] for message in model.seen[-1]["messages"][1:]] == ["x\n\ngo on"]


def test_a_run_killed_during_a_call_resumes_and_runs_nothing_twice(
    home: Path, project: Path
) -> None:
    nap = f"{600 + os.getpid()}.9"
    call = Call("bash", {"command": f"echo once >> log; echo begun; sleep {nap}"})
    with scripted_model(home, [call], "I see.") as model:
        with start_program("-p", "x", "--yes") as process:
            process.until("output")
            process.process.kill()
        assert becomes_true(lambda: not is_running(nap))
        assert result_of(go_on())["text"] == "I see."
    (answer,) = [texts for texts in model.seen[-1]["messages"] if texts["role"] == "tool"]
    assert "check before you repeat it" in answer["content"]
    assert (project / "log").read_text() == "once\n"


# -- two at once -----------------------------------------------------------------------------------


def test_two_at_once_on_a_session_lose_nothing(home: Path) -> None:
    go = Event()
    with scripted_model(home, "One.", ["Two", go, "."], "Three.", "Four."):
        session = result_of(run_steno("-p", "a", "--output-format", "json"))["session"]
        with start_program("-c", "-p", "b") as slow:
            slow.until("text")
            quick = go_on()
            assert result_of(quick)["text"] == "Three."
            go.set()
            output = slow.end()
        assert output.status == 1
        assert output.named_place == "session"
        assert all(option in output.err for option in (" -c", " --fork"))
        assert output.err.count("\n") == 1
        result = result_of(output)
        assert (result["ending"], result["error"]) == ("failed", "Conflict")
        assert result["text"] == "Two."  # what could not be recorded can be read
        assert is_in_order(session)
        assert result_of(go_on())["text"] == "Four."
    with open_store() as store:
        texts = [message.text for message in store.open(session).messages()]
    assert texts[1:] == ["a", "One.", "b", "go on", "Three.", "go on", "Four."]


# -- pipes -----------------------------------------------------------------------------------------


def test_a_reader_that_has_gone_ends_the_run_in_order(home: Path) -> None:
    go = Event()
    with scripted_model(home, ["Half", go, " and all."], "The rest."):
        with start_program("-p", "x") as process:
            session = process.until("session")["session"]
            process.until("text")
            assert process.process.stdout is not None
            process.process.stdout.close()
            go.set()
            assert process.process.stderr is not None
            assert process.process.stderr.read() == b""
            assert process.process.wait(PATIENCE_S) == 1
        assert is_in_order(session)
        assert result_of(go_on())["text"] == "The rest."


def test_lines_are_there_as_soon_as_something_happens(home: Path) -> None:
    go = Event()
    with scripted_model(home, ["First, ", go, "second."]), start_program("-p", "x") as process:
        assert process.until("text") == {"type": "text", "text": "First, "}
        go.set()
        assert process.until("text")["text"] == "second."
        assert process.end().status == 0


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_an_answer_that_cannot_be_written_is_an_error_in_one_line(home: Path, format: str) -> None:
    with scripted_model(home, "Hello."), Path("/dev/full").open("wb") as full:
        output = subprocess.run(
            [*COMMAND, "-p", "x", "-q", "--output-format", format],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert output.returncode == 1
    [line] = output.stderr.decode().splitlines()
    assert line.startswith("steno: stdout: ")
    assert os.strerror(errno.ENOSPC) in line


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_ends_that_are_closed_do_no_harm(closed: str) -> None:
    line = f"{sys.executable} -m steno -p 'read note.txt' --model offline {closed}"
    output = subprocess.run(line, shell=True, capture_output=True, check=False, timeout=60)
    assert output.returncode == 0
    assert b"Traceback" not in output.stderr
    assert run_steno("sessions", "show", "last").status == 0


def test_stdin_that_does_not_end_is_reported() -> None:
    process = subprocess.Popen(
        [*COMMAND, "-p", "read note.txt", *OFFLINE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process:
        assert process.stderr.readline() == (
            b"steno: still reading stdin; if nothing is piped in, add < /dev/null\n"
        )
        out, _ = process.communicate(b"read note.txt", timeout=PATIENCE_S)
    assert b"forty-two" in out


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_store_that_cannot_be_made_is_an_error_with_a_way_out(kind: str) -> None:
    output = run_process("-p", "read note.txt", *OFFLINE, "--store", f"{kind}:/proc/nothing/store")
    assert (output.status, output.out) == (1, "")
    assert output.err.startswith("steno: ")
    assert "--no-session" in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("home", ["/proc", ""])
def test_without_a_home_a_run_works_if_nothing_is_stored(home: str) -> None:
    arguments = ("-p", "read note.txt", *OFFLINE)
    output = run_process(*arguments, HOME=home)
    assert (output.status, output.out) == (1, "")
    assert output.err.count("\n") == 1
    output = run_process(*arguments, "--no-session", HOME=home)
    assert output.status == 0
    assert "forty-two" in output.out


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_a_disk_that_fills_up_is_reported_and_the_session_continues(
    home: Path, tmp_path: Path, kind: str, format: str
) -> None:
    store = f"{kind}:{tmp_path / 'store'}"
    with scripted_model(home, "One.", "x" * 3_000_000, "Three."):
        first = run_process("-p", "a", "--store", store, "--output-format", format)
        assert first.status == 0
        output = subprocess.run(
            [*COMMAND, "-c", "-p", "b", "--store", store, "--output-format", format, "-q"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
        )
        assert output.returncode == 1
        assert output.stderr.startswith(b"steno: ")
        assert output.stderr.count(b"\n") == 1
        result = result_of(ProgramOutput(1, output.stdout.decode(), ""))
        assert (result["ending"], result["error"]) == ("failed", "Unavailable")
        assert len(result["text"]) == 3_000_000
        again = run_process("-c", "-p", "c", "--store", store, "--output-format", format)
        assert result_of(again)["text"] == "Three."


def test_a_deleted_working_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    output = run_steno("-p", "x", *OFFLINE)
    assert (output.status, output.code, output.place) == (1, "folder_missing", "folder")
    assert run_steno("sessions", "list").status == 0


# -- what is loaded --------------------------------------------------------------------------------


def test_a_run_loads_only_what_it_needs() -> None:
    loaded = loaded_by("-p", "read note.txt", "--model", "offline", "--no-session")
    heavy = {"aiohttp", "rich", "psycopg", "mcp", "textual", "opentelemetry", "genai_prices"}
    assert loaded.isdisjoint(heavy | {"sqlite3", "xllamacpp"})


def test_settings_are_loaded_for_a_store_only_where_there_are_any(home: Path) -> None:
    assert "steno.app.settings" not in loaded_by("sessions", "list")
    write_settings(home, "")
    assert "steno.app.settings" in loaded_by("sessions", "list")


def test_a_log_that_cannot_be_written_gives_a_failed_result(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:{project.parent / 'locked.db'}"
    assert run_steno("-p", "list files", *OFFLINE, "--store", store).status == 0
    database = sqlite3.connect(project.parent / "locked.db", isolation_level=None)

    def connect_impatiently(*arguments: Any, timeout: float, **options: Any) -> sqlite3.Connection:
        """Open a database that waits for a lock for a moment, and not for half a minute."""
        return _connect(*arguments, timeout=min(timeout, 0.1), **options)

    monkeypatch.setattr(sqlite3, "connect", connect_impatiently)
    try:
        database.execute("BEGIN IMMEDIATE")
        output = run_steno(
            *("-c", "-p", "list files", *OFFLINE, "--store", store, "--output-format", "json")
        )
    finally:
        database.close()
    result = result_of(output)
    assert (output.status, result["ending"], result["error"]) == (1, "failed", "Unavailable")


def test_a_fault_of_the_reporter_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program must not go on with tools if nothing of it can be reported."""

    def fail(event: object) -> None:
        raise ValueError("no such event")

    monkeypatch.setattr(run_output, "event_as_json", fail)
    with pytest.raises(ValueError, match="no such event"):
        run_steno("-p", "run ls", *OFFLINE, "--yes", "--output-format", "stream-json")
    with open_store() as store:
        [header] = store.headers()
        messages = store.open(header.id).messages()
    assert not any(isinstance(message, ToolResultMessage) for message in messages)


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ([ChatMessage.assistant(None, [CALL])], 2),
        ([ChatMessage.assistant(None, [CALL]), ChatMessage.tool_result("c1", "text")], 2),
        ([ChatMessage.assistant("Yes."), ShellCommand(command="ls", output="x")], 0),
        ([], 0),
    ],
)
def test_retry_answers_a_prompt_and_runs_no_call(
    project: Path, last: list[ChatMessage | ShellCommand], status: int
) -> None:
    with open_store() as store:
        conversation = begin_session(store, project, "You help.", Mode.ACT)
        conversation.append(ChatMessage.user("list files"))
        for payload in last:
            conversation.append(payload)
    output = run_steno("-c", "--retry", *OFFLINE)
    assert output.status == status
    assert not status or output.code == "nothing_unsent"
