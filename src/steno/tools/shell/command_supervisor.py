"""A small program between steno and a command, which limits, watches and ends the command.

It runs as a script, imports nothing from steno and needs only Python:

    python -I -S command_supervisor.py STATUS_FD SPECIFICATION   (JSON: see `CommandSpecification`)

Orphaned processes of the command become children of the supervisor, which can therefore find and
end even processes that have left the session of the command. The supervisor ends the command on an
order from standard input, or when standard input closes, so that no process keeps running if steno
crashes. When all processes have ended, it writes a `CommandStatus` to STATUS_FD as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, TypedDict, cast

TERMINATE: Final = b"t"
"""Ask all processes to end, and kill those that still run after the grace period."""
KILL: Final = b"k"
"""Kill all processes now."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_TICK_S: Final = 0.1
_LINGER_S: Final = 0.3
"""The time that processes may outlive the command, such as the last process of a pipeline."""
_KILL_TIMEOUT_S: Final = 5.0
"""The time limit for killing: a process of another user, after `sudo`, cannot be killed."""
_HAS_PROC: Final = Path("/proc/self/stat").exists()
_HAS_CHILDREN_FILE: Final = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class CommandSpecification(TypedDict):
    """The command to run and its limits."""

    argv: list[str]
    is_wrapped: bool
    """Whether the first process is a sandbox, which must outlive the processes inside it."""
    grace_s: float
    max_processes: int
    max_file_bytes: int
    max_memory_bytes: int | None


class CommandStatus(TypedDict):
    """The final report of the supervisor about the command."""

    exit_code: int
    """The exit code of the command.

    If a signal ended the command, this is 128 plus the number of the signal, as in shells.
    """
    leftover: int
    """The number of processes that were still running after the command and had to be ended."""
    has_too_many_processes: bool
    """Whether the command was ended because it had too many processes."""
    failure: str | None
    """The reason why the command could not be started; None if it was started."""


def main(status_fd: int, specification: CommandSpecification) -> None:
    """Run the command and write its status."""
    os.set_inheritable(status_fd, False)
    wake_fd, wake_write_fd = os.pipe()
    os.set_blocking(wake_write_fd, False)
    signal.set_wakeup_fd(wake_write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ignore_signal)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    status = _CommandWatcher(specification, wake_fd).run()
    os.write(status_fd, json.dumps(status).encode())


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing, since these signals only wake the supervisor."""


class _CommandWatcher:
    """Starts a command, and watches and ends every process of the command."""

    def __init__(self, specification: CommandSpecification, wake_fd: int) -> None:
        self._specification = specification
        self._wake_fd = wake_fd
        self._exit_code: int | None = None
        self._failure_fd, write_fd = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _exec_command(specification, write_fd)
        os.close(write_fd)
        # Only the command may hold the output open, so that steno detects the end of the output.
        with Path(os.devnull).open("rb+") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)

    def run(self) -> CommandStatus:
        """Wait for the command or end it, then end the processes that it left running."""
        order, leftover, has_too_many_processes = b"", 0, False
        while self._exit_code is None and not order:
            order = self._wait_for_order(_TICK_S)
            self._reap()
            if len(_find_descendants()) > self._specification["max_processes"]:
                order, has_too_many_processes = KILL, True
        if not order and not self._wait_for_all(_LINGER_S):
            leftover = len(_find_descendants())
        if order != KILL:
            self._signal_all(signal.SIGTERM)
            self._wait_for_all(self._specification["grace_s"])
        self._kill()
        return {
            "exit_code": 128 + signal.SIGKILL if self._exit_code is None else self._exit_code,
            "leftover": leftover,
            "has_too_many_processes": has_too_many_processes,
            "failure": os.read(self._failure_fd, 4096).decode(errors="replace") or None,
        }

    def _wait_for_order(self, seconds: float) -> bytes:
        """Wait for an order, the end of a child or the timeout; return the order or empty bytes.

        The end of standard input counts as `TERMINATE`.
        """
        ready, _, _ = select.select([0, self._wake_fd], [], [], seconds)
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
        if 0 not in ready:
            return b""
        return os.read(0, 1) or TERMINATE

    def _reap(self) -> bool:
        """Reap every ended child, including adopted ones; return whether any children are left.

        Without children there are no descendants either, since this process adopts all orphans.
        """
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self._exit_code = 128 - code if code < 0 else code
        except ChildProcessError:
            return False
        return True

    def _wait_for_all(self, seconds: float) -> bool:
        """Wait until all processes have ended; return False on timeout or an order to kill."""
        end = time.monotonic() + seconds
        while self._reap():
            rest = end - time.monotonic()
            if rest <= 0:
                return False
            order = self._wait_for_order(min(_TICK_S, rest))
            if order == KILL:
                return False
            if order:
                # Standard input is closed and always ready, so `select` does not wait.
                time.sleep(min(_TICK_S, rest))
        return True

    def _signal_all(self, number: signal.Signals) -> None:
        # Ending a sandbox kills the processes inside it without a grace period.
        spares_sandbox = self._specification["is_wrapped"] and number != signal.SIGKILL
        # The kernel may reuse the ID of a reaped process. Without /proc, only the group is known.
        as_group = not spares_sandbox and (self._exit_code is None or not _HAS_PROC)
        if as_group:
            _send_signal(-self._pid, number)
        for pid in _find_descendants():
            # Signal each process once: a second signal would run cleanup handlers again.
            with contextlib.suppress(ProcessLookupError):
                is_signalled = as_group and os.getpgid(pid) == self._pid
                if not is_signalled and not (spares_sandbox and pid == self._pid):
                    _send_signal(pid, number)

    def _kill(self) -> None:
        """Kill the remaining processes, in rounds, since each round may miss new processes."""
        end = time.monotonic() + _KILL_TIMEOUT_S
        while True:
            self._signal_all(signal.SIGKILL)
            if not self._reap() or time.monotonic() > end:
                return
            time.sleep(0.005)


# -- the command -----------------------------------------------------------------------------


def _exec_command(specification: CommandSpecification, failure_fd: int) -> NoReturn:
    """Replace this process with the command; write the reason to `failure_fd` if that fails."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Python ignores these two signals, and the command would inherit this setting.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        _set_limits(specification)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        argv = specification["argv"]
        os.execvp(argv[0], argv)  # noqa: S606 - the purpose of this program
    except (OSError, ValueError) as exc:
        os.write(failure_fd, str(exc).encode())
    finally:
        os._exit(127)


def _set_limits(specification: CommandSpecification) -> None:
    """Set the limits of this process and its descendants; some limits do not apply to root."""
    import resource  # noqa: PLC0415 - not on every platform that may import this file

    # The kernel counts tasks per user, so the tasks that already run have to be added.
    most_tasks = _count_user_tasks() + specification["max_processes"] if _HAS_PROC else None
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: specification["max_file_bytes"],
        resource.RLIMIT_NPROC: most_tasks,
        resource.RLIMIT_AS: specification["max_memory_bytes"],
    }
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        if value is not None:
            lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (lower, lower))


def _count_user_tasks() -> int:
    """Return the number of threads of the user, which is what RLIMIT_NPROC counts."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))  # noqa: PTH208 - names are enough
    return count


# -- processes -------------------------------------------------------------------------------


def _find_descendants() -> list[int]:
    """Return the ids of all living descendants of this process; empty without /proc."""
    read_children = _read_children if _HAS_CHILDREN_FILE else _build_children_lookup()
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        children = read_children(pending.pop())
        pending.extend(children)
        found.extend(children)
    return [
        pid for pid in dict.fromkeys(found) if _read_process_state(pid)[0] not in {b"", b"Z", b"X"}
    ]


def _read_children(pid: int) -> list[int]:
    """Return the children of all threads of a process; empty if the process has ended."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                children.extend(map(int, (task / "children").read_bytes().split()))
    return children


def _build_children_lookup() -> Callable[[int], list[int]]:
    """Return a function like `_read_children`, for kernels that do not list children."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        children.setdefault(_read_process_state(pid)[1], []).append(pid)
    return lambda pid: children.pop(pid, [])


def _read_process_state(pid: int) -> tuple[bytes, int]:
    """Return the state letter of a process and the id of its parent.

    `Z` means that the process has ended but is not reaped. The letter is empty if the process does
    not exist.
    """
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return b"", 0
    return state, int(parent)


def _send_signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; do nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), cast("CommandSpecification", json.loads(sys.argv[2])))
