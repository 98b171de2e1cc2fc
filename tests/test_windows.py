"""The library works without the POSIX parts of Python, as on Windows.

No Windows machine runs these tests. They hide what Windows lacks: modules such as `fcntl` and
`termios`, and the functions and flags of `os` and `signal` that only POSIX systems have.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from steno.cli.command_table import COMMAND_NAMES

HIDE_POSIX = """
import asyncio, os, signal, sys
from importlib.abc import MetaPathFinder

# Imported before: the standard library of this system is built on the hidden parts.
import sqlite3, subprocess

HIDDEN = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}

class HidePosix(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

for name in HIDDEN:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, HidePosix())
for name in (
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fchown fdatasync fork getegid geteuid getgid "
    "getuid killpg mkfifo pread pwrite register_at_fork setsid statvfs sysconf uname"
).split():
    vars(os).pop(name, None)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGWINCH"):
    vars(signal).pop(name, None)
"""

USE_THE_LIBRARY = """
import steno, steno.agent, steno.codec, steno.context, steno.formats, steno.log, steno.providers
from steno import ChatMessage, Request
from steno.store import open_store
from steno.wire import WIRES, load_wire

messages = [ChatMessage.system("Be brief."), ChatMessage.user("Name a colour.")]
for name in WIRES:
    wire = load_wire(name)
    request = Request(model="m", messages=tuple(messages), max_tokens=10)
    body = wire.encode_request(request).body
    assert wire.decode_request(body).messages[-1].text == "Name a colour.", name

for address in ("memory:", "sqlite:work.db"):
    with open_store(address) as store:
        conversation = store.new(messages)
        conversation.append(ChatMessage.assistant("Red."))
        conversation.fork("other", at=conversation.entries()[1].id)
        assert [hit.session for hit in store.search("colour")] == [conversation.id]
        store.redact(conversation.id, conversation.entries()[2].id, actor="ada", reason="test")
        assert store.verify(conversation.id).is_intact
with open_store("sqlite:work.db") as store:
    assert len(store.open(conversation.id).entries()) == 4  # with the record of the redaction
try:
    open_store("jsonl:log")
except steno.StenoError as exc:
    assert exc.code == "no_file_locks"
else:
    raise AssertionError("a JSONL store opened without file locks")
print("done")
"""

SHOW_ALL_HELP = """
from steno.cli.command_table import COMMAND_NAMES
from steno.cli.main import main

for name in COMMAND_NAMES:
    try:
        status = main([name, "--help"])
    except SystemExit as exc:
        status = exc.code
    print(f"{name}={status}")
"""

RUN_A_COMMAND = """
from steno.cli.main import main

sys.exit(main(sys.argv[1:]))
"""


def run_without_posix(
    code: str, *arguments: str, home: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE_POSIX + code, *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=60,
        check=False,
        cwd=home,
        env={**os.environ, "HOME": str(home)},
    )


@pytest.mark.requirement("P-03")
def test_vocabulary_wires_and_stores_work_without_posix(tmp_path: Path) -> None:
    run = run_without_posix(USE_THE_LIBRARY, home=tmp_path)
    assert (run.stdout, run.stderr) == ("done\n", "")


@pytest.mark.requirement("P-03")
@pytest.mark.parametrize(
    "command",
    [
        ("--version",),
        ("--help",),
        ("verify", "--help"),
        ("decode", "--wire", "openai_chat"),
    ],
    ids=" ".join,
)
def test_commands_about_records_run_without_posix(command: tuple[str, ...], tmp_path: Path) -> None:
    body = '{"choices": [{"message": {"role": "assistant", "content": "Red."}, "finish_reason": "stop"}]}'
    run = run_without_posix(RUN_A_COMMAND, *command, home=tmp_path, stdin=body)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.requirement("P-03")
@pytest.mark.parametrize("command", [("-p", "hello"), ("--plain",), ("doctor",)], ids=" ".join)
def test_commands_that_need_posix_name_the_systems(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    run = run_without_posix(RUN_A_COMMAND, *command, home=tmp_path)
    assert (run.returncode, run.stdout) == (1, "")
    assert "Linux or macOS" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.requirement("P-03")
def test_every_command_shows_its_help_or_names_the_systems(tmp_path: Path) -> None:
    run = run_without_posix(SHOW_ALL_HELP, home=tmp_path)
    statuses = dict(re.findall(r"^([a-z]+)=(\w+)$", run.stdout, re.MULTILINE))
    assert statuses.keys() == set(COMMAND_NAMES)
    assert set(statuses.values()) == {"0", "1"}
    assert run.stderr.count("Linux or macOS") == list(statuses.values()).count("1")
    assert "Traceback" not in run.stderr


@pytest.mark.requirement("P-03")
def test_text_of_an_image_file_is_read_without_posix(tmp_path: Path) -> None:
    run = run_without_posix(RUN_A_COMMAND, "ocr", "missing.png", home=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("steno: missing.png: ")
