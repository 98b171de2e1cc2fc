"""The `steno` program as tests run it: in this process, in one of its own, or on a terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from steno import ChatMessage, Conversation, ToolCall, Usage
from steno.cli.main import report_error, run_command
from steno.errors import MissingExtra, StenoError
from steno.records.entry import ApprovalStatus, Mode
from steno.store import MemoryStore, Store, convert_store, open_store

COMMAND = [sys.executable, "-m", "steno"]


class ProgramOutput(NamedTuple):
    """The exit status and the output of a run of the program."""

    status: int
    out: str
    err: str

    @property
    def named_place(self) -> str:
        """The place that the last line on stderr names, as in `steno: PLACE: ...`."""
        last = self.err.rstrip("\n").rpartition("\n")[2]
        return last.removeprefix("steno: ").partition(": ")[0]


class CommandOutput(ProgramOutput):
    """The output of a command in this process, with code and place of the error that ended it.

    The code of an error of the system is the name of its errno, and its place is the file; the
    place of a missing extra is the extra.
    """

    code: str = ""
    place: str = ""


def run_steno(*arguments: str | Path, data: bytes = b"") -> CommandOutput:
    """Run the program in this process; its output is no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
    error: Exception | None = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = run_command([str(argument) for argument in arguments])
            except SystemExit as exc:
                status = exc.code if isinstance(exc.code, int) else 1
            except (StenoError, MissingExtra, OSError) as exc:
                status, error = report_error(exc), exc
    finally:
        sys.stdin = stdin
    texts = []
    for file in (out, err):
        file.flush()
        file.seek(0)
        texts.append(file.read())
    output = CommandOutput(status, *texts)
    match error:
        case StenoError():
            output.code, output.place = error.code, error.place
        case MissingExtra():
            output.code, output.place = error.code, error.extra
        case OSError():
            output.code = errno.errorcode.get(error.errno or 0, "")
            output.place = str(error.filename or "")
        case _:
            pass
    return output


def run_process(*arguments: str | Path, data: bytes = b"", **environment: str) -> ProgramOutput:
    """Run the program in a process of its own."""
    ran = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )
    return ProgramOutput(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a run of the program loads."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "steno", *arguments],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return {line.rpartition("|")[2].strip() for line in ran.stderr.decode().splitlines()}


def on_terminal(
    *arguments: str | Path,
    answer: str = "",
    environment: dict[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> ProgramOutput:
    """Run the program with all of its ends at a terminal of 80 columns; both outputs are `out`."""
    main_end, other_end = pty.openpty()
    surroundings = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"} | (environment or {})
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env=surroundings,
        start_new_session=True,
    )
    os.close(other_end)
    if answer:
        os.write(main_end, answer.encode())
    shown = b"".join(_pieces(main_end))
    os.close(main_end)
    return ProgramOutput(process.wait(timeout=60), shown.decode().replace("\r\n", "\n"), "")


def _pieces(descriptor: int) -> Iterator[bytes]:
    while select.select([descriptor], [], [], 60)[0]:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # the other end was closed
            return
        if not piece:
            return
        yield piece


# -- a session to read ---------------------------------------------------------------------------


def sample_session(
    store: Store, *, id: str = "talk", title: str | None = "Mend the build"
) -> Conversation:
    """Store a session with calls, decisions, two branches, a label and a rewind."""
    conversation = store.new(id=id, title=title)
    conversation.append(ChatMessage.system("You mend code."))
    conversation.append(ChatMessage.user("Is it broken?"))
    call = ToolCall(id="c1", name="run_tests", arguments='{"path": "tests"}')
    usage = Usage(input_tokens=1200, output_tokens=33)
    conversation.append(ChatMessage.assistant("I look.", [call], usage=usage))
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="ada", reason="it only reads")
    conversation.append(
        ChatMessage.tool_result("c1", "3 passed", tool_name="run_tests", duration_s=1.5)
    )
    green = conversation.append(ChatMessage.assistant("All green."))
    conversation.label(green.id, "green")
    conversation.change_mode(Mode.PLAN)
    conversation.append(ChatMessage.user("What next?"))
    conversation.fork("other", at=green.id)
    conversation.append(ChatMessage.user("Another way"), branch="other")
    conversation.rewind(green.id, branch="main")
    conversation.append(ChatMessage.user("Once more"), branch="main")
    return conversation


def store_sample_session(address: str) -> Conversation:
    """Store that session in the store at an address."""
    made = MemoryStore()
    conversation = sample_session(made)
    copy_to_store(made, address)
    return conversation


def copy_to_store(made: Store, address: str) -> None:
    """Copy sessions to a store on disk, which is faster than to make them there."""
    with open_store(address) as store:
        convert_store(made, store)
