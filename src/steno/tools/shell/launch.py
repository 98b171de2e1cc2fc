"""Start the supervisor of a command, and read its final report."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from steno.errors import ToolFailed
from steno.tools.shell.supervisor.orders import LENGTH_BYTES
from steno.tools.shell.supervisor.specification import CommandSpecification, CommandStatus

_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from supervisor.main import main; "
    "main(*map(int, sys.argv[2:]))"
)
"""The supervisor is a package that starts without steno, since its import would take longer."""
_LIMIT_NAMES: Final = frozenset({"", "processes", "memory"})


class Launched(NamedTuple):
    """A started supervisor and the read ends of its pipes."""

    supervisor: subprocess.Popen[bytes]
    output: int
    status: int
    listener: socket.socket | None
    """The socket on which the supervisor hands over a listening socket; None unless requested."""


def launch_supervisor(
    specification: CommandSpecification,
    folder: Path,
    environ: Mapping[str, str],
    *,
    has_listener: bool = False,
) -> Launched:
    """Start the supervisor, which starts the command.

    Raises ToolFailed if it cannot be started.
    """
    output, output_write = os.pipe()
    status, status_write = os.pipe()
    ours, theirs = socket.socketpair() if has_listener else (None, None)
    listener_fd = -1 if theirs is None else theirs.fileno()
    try:
        supervisor = subprocess.Popen(  # noqa: S603 - the purpose of this module
            [
                *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parent)),
                *map(str, (status_write, listener_fd)),
            ],
            stdin=subprocess.PIPE,
            stdout=output_write,
            stderr=output_write,
            bufsize=0,
            cwd=folder,
            env=environ,
            pass_fds=(status_write, *(() if listener_fd < 0 else (listener_fd,))),
            start_new_session=True,
        )
    except OSError as exc:
        os.close(output)
        os.close(status)
        if ours is not None:
            ours.close()
        raise not_started(exc.strerror) from exc
    finally:
        os.close(output_write)
        os.close(status_write)
        if theirs is not None:
            theirs.close()
    # `marshal` is a part of the interpreter, while the module for JSON takes long to load.
    _send_specification(supervisor, marshal.dumps(cast("Any", specification)))
    return Launched(supervisor, output, status, ours)


def read_status(report: bytes) -> CommandStatus | None:
    """Return the report of a supervisor; None if it is not complete.

    Raises ToolFailed if the command could not be started.
    """
    numbers, _, failure = report.decode(errors="replace").partition("\n")
    exit_code, leftover, limit = [*numbers.split(" "), "", "", ""][:3]
    if not (exit_code.isdecimal() and leftover.isdecimal() and limit in _LIMIT_NAMES):
        return None
    if failure:
        raise not_started(failure)
    return {
        "exit_code": int(exit_code),
        "leftover": int(leftover),
        "limit": cast("Literal['', 'processes', 'memory']", limit),
        "failure": "",
    }


def not_started(reason: str | None) -> ToolFailed:
    """Return the error for a command that could not be started."""
    text = f"the command could not be started: {reason}"
    return ToolFailed(text, code="command_not_started", place="bash")


def _send_specification(supervisor: subprocess.Popen[bytes], specification: bytes) -> None:
    """Write the specification to the standard input of the supervisor, after its length.

    An argument could be read by other users, and the kernel limits its length.
    """
    assert supervisor.stdin is not None
    rest = memoryview(len(specification).to_bytes(LENGTH_BYTES, "little") + specification)
    with contextlib.suppress(BrokenPipeError):  # its exit is reported like that of a command
        while rest:
            rest = rest[supervisor.stdin.write(rest) :]
