"""The program as a process: what it loads, signals, closed pipes, places it may not write to."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.store import MemoryStore, open_store
from tests.cli.program import (
    COMMAND,
    copy_to_store,
    loaded_by,
    run_process,
    run_steno,
    sample_session,
    store_sample_session,
)

HEAVY = ("rich", "sqlite3", "asyncio", "aiohttp", "psycopg", "steno.store", "steno.wire")


def test_the_version_is_printed_without_loading_the_commands() -> None:
    assert loaded_by("--version").isdisjoint(HEAVY)


def test_a_command_loads_only_what_it_needs(address: str) -> None:
    store_sample_session(address)
    loaded = loaded_by("sessions", "list")
    assert loaded.isdisjoint({"rich", "asyncio", "aiohttp", "psycopg", "steno.wire"})
    assert ("sqlite3" in loaded) == address.startswith("sqlite")


def test_all_commands_are_in_the_help() -> None:
    output = run_steno("--help")
    assert output.status == 0
    for command in ("sessions", "audit", "verify", "store", "decode", "convert"):
        assert f"    {command}" in output.out
        assert run_steno(command, "--help").status == 0


@pytest.mark.parametrize(
    "action",
    ["list", "show", "tree", "search", "export", "import", "fork", "label", "redact", "rm"],
)
def test_every_command_explains_itself(action: str) -> None:
    output = run_steno("sessions", action, "--help")
    assert output.status == 0
    assert "--store ADDRESS" in output.out


@pytest.mark.parametrize(
    "arguments",
    [["sessions", "show"], ["sessions", "burn"], ["session"], ["--shop"]],
)
def test_an_invalid_argument_is_explained(arguments: list[str]) -> None:
    output = run_steno(*arguments)
    assert output.status == 2
    assert output.err.startswith("usage: steno")


# -- signals and pipes ---------------------------------------------------------------------------


def start(*arguments: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Where tests run in the background, signals are ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def interrupted(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Interrupt a process, and return its output.

    Repeated if needed: between its last check of signals and a read, Python misses a signal.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        for _ in range(10):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                break
        return process.stdout.read(), process.stderr.read()


def test_an_interrupted_import_adds_nothing_and_prints_nothing(home: Path) -> None:
    process = start("sessions", "import", "-")
    assert process.stdin is not None
    process.stdin.write(b"[" * 300_000)  # more than a pipe holds: it is reading by then
    process.stdin.flush()
    assert interrupted(process) == (b"", b"")
    assert process.returncode == 130
    assert list(home.iterdir()) == []


def test_an_interrupted_question_removes_nothing(address: str) -> None:
    store_sample_session(address)
    main_end, other_end = os.openpty()
    process = start("sessions", "rm", "talk", stdin=other_end)
    assert process.stderr is not None
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(process.stderr.fileno(), 1000)
    interrupted(process)
    os.close(main_end)
    os.close(other_end)
    assert process.returncode == 130
    assert "talk" in run_steno("sessions", "list").out


@pytest.mark.parametrize("command", ["show many --all", "tree many --all", "show many --json"])
def test_a_reader_that_has_gone_is_no_error_to_talk_about(address: str, command: str) -> None:
    made = MemoryStore()
    made.new([ChatMessage.user("word " * 200) for _ in range(300)], id="many")
    copy_to_store(made, address)
    line = f"{sys.executable} -m steno sessions {command} | head -n 1"
    output = subprocess.run(line, shell=True, capture_output=True, check=False, timeout=60)
    assert output.stderr == b""
    assert output.stdout.count(b"\n") == 1


def test_a_full_disk_is_reported_once_and_leaves_nothing(address: str) -> None:
    store_sample_session(address)
    with Path("/dev/full").open("wb") as full:
        output = subprocess.run(
            [*COMMAND, "sessions", "show", "talk"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert output.returncode == 1
    [line] = output.stderr.decode().splitlines()
    assert line.startswith("steno: stdout: ")
    assert os.strerror(errno.ENOSPC) in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "import", "chat.json"],
        ["sessions", "import", "chat.json", "--json"],
        ["store", "gc"],
        ["store", "convert", "sqlite:a.db", "jsonl:copy"],
    ],
)
def test_a_result_that_cannot_be_written_at_once_names_stdout(
    tmp_path: Path, arguments: list[str]
) -> None:
    """With `PYTHONUNBUFFERED`, as in containers, writing fails while the command runs."""
    (tmp_path / "chat.json").write_bytes(b'[{"role": "user", "content": "Hi"}]')
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "STENO_STORE": "sqlite:a.db"}
    store_sample_session(f"sqlite:{tmp_path / 'a.db'}")
    with Path("/dev/full").open("wb") as full:
        output = subprocess.run(
            [*COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=tmp_path,
            check=False,
            timeout=60,
        )
    assert output.returncode == 1
    assert output.stderr.decode().splitlines()[-1].startswith("steno: stdout: ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["export", "long"], ["export", "long", "--format=markdown"]])
def test_output_that_is_cut_short_is_an_error(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    """Without a buffer, a write to a full disk may write a part of its data and succeed."""
    address = f"sqlite:{tmp_path / 'a.db'}"
    with open_store(address) as store:
        store.new(id="long").append(ChatMessage.user("x" * 300_000))
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered, "STENO_STORE": address}
    with (tmp_path / "out").open("wb") as out:
        output = subprocess.run(
            ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *COMMAND, "sessions", *arguments],
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
            timeout=60,
        )
    assert output.returncode == 1
    assert output.stderr.decode().splitlines()[-1].startswith("steno: stdout: ")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_that_cannot_be_written_is_an_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        output = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert output.returncode == 1
    [line] = output.stderr.decode().splitlines()
    assert line.startswith("steno: stdout: ")


@pytest.mark.parametrize("arguments", [["sessions", "nope"], ["sessions", "--store", ""]])
def test_an_error_that_cannot_be_written_keeps_its_status(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        output = subprocess.run([*COMMAND, *arguments], stderr=full, check=False, timeout=60)
    assert output.returncode == 2


# -- where nothing may be written ----------------------------------------------------------------

AS_UNPRIVILEGED_USER = """\
import locale, os, sys  # what is loaded late cannot be read by everybody
import steno.app.commands.audit, steno.cli.report_command, steno.cli.sessions, steno.cli.store
import steno.cli.verify, steno.store.jsonl.store, steno.store.sqlite.store
from steno.cli.main import main
if os.getuid() == 0:  # who may write everywhere
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "jsonl"])
def read_only(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a store that may be read and not written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "store"
        folder.mkdir()
        place = folder / "steno.db" if request.param == "sqlite" else folder
        with open_store(f"{request.param}:{place}") as store:
            sample_session(store)
        paths = [Path(name), folder, *folder.rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield f"{request.param}:{place}"
        for path in paths:
            if path.exists():
                path.chmod(0o755)


def as_unprivileged_user(*arguments: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", AS_UNPRIVILEGED_USER, *arguments],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


@pytest.mark.parametrize(
    "command",
    [
        ["sessions", "list"],
        ["sessions", "show", "talk"],
        ["sessions", "tree", "last"],
        ["sessions", "search", "green"],
        ["sessions", "export", "talk"],
        ["audit", "talk"],
        ["verify", "talk"],
        ["store", "info"],
    ],
)
def test_a_read_only_store_can_be_read(read_only: str, command: list[str]) -> None:
    status, out, _ = as_unprivileged_user(*command, "--store", read_only)
    assert status == 0
    assert out


@pytest.mark.parametrize(
    "command",
    [
        ["sessions", "fork", "talk"],
        ["sessions", "label", "talk", "1", "name"],
        ["sessions", "redact", "talk", "1", "--reason", "x", "--actor", "ada", "--yes"],
        ["sessions", "rm", "talk", "--yes"],
    ],
)
def test_a_read_only_store_is_left_alone(read_only: str, command: list[str]) -> None:
    before = run_process("sessions", "show", "talk", "--json", "--store", read_only)
    status, out, err = as_unprivileged_user(*command, "--store", read_only)
    assert (status, out) == (1, "")
    assert err.startswith("steno: ")
    assert err.count("\n") == 1
    assert run_process("sessions", "show", "talk", "--json", "--store", read_only) == before


def test_errors_of_slash_commands_begin_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "/model 99\n/resume 99\n/rename\n/retry\n/fork\n/diff nosuch\n/permissions deny\n"
    output = run_process("--plain", "--model", "offline", data=script.encode())
    assert output.status == 0
    places = [line.split()[1] for line in output.out.splitlines() if line.startswith("Error: /")]
    commands = ("/model:", "/resume:", "/rename:", "/retry:", "/fork:", "/diff:", "/permissions:")
    assert places == list(commands)


def test_help_offers_no_command_that_only_reports_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = run_process("--plain", "--model", "offline", data=b"/permissions nosuch\n")
    assert "revoke" in output.out
    assert "deny" not in output.out
