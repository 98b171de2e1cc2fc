"""Run a command, watch it, and end it with all its processes.

Orphaned processes of the command become children of the supervisor, which can therefore find and
end even processes that have left the session of the command. The supervisor ends the command on an
order from standard input, or when standard input closes, so that no process keeps running if steno
crashes.
"""

from __future__ import annotations

import marshal
import os
import select
import time

from .cgroup import ControlGroup
from .command import exec_command
from .kernel import PR_SET_CHILD_SUBREAPER, prctl
from .listener import send_listener
from .orders import KILL, LENGTH_BYTES, TERMINATE
from .placeholders import hold_new_files, hold_placeholders, release_placeholders
from .processes import HAS_PROC, find_descendants, uses_more_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import Final, Literal

    from .specification import CommandSpecification, CommandStatus
else:
    import _signal as signal  # without enumerations, whose module takes long to load

_TICK_S: Final = 0.1
_LINGER_S: Final = 0.3
"""The time that processes may outlive the command, such as the last process of a pipeline."""
_KILL_TIMEOUT_S: Final = 5.0
"""The time limit for killing: a process of another user, after `sudo`, cannot be killed."""


def main(status_fd: int, listener_fd: int) -> None:
    """Run the command and write its status.

    Standard input begins with the length of a `CommandSpecification` and the specification itself;
    orders follow. `listener_fd` is the socket on which steno receives the listener, or -1.
    """
    length = int.from_bytes(_read_input(LENGTH_BYTES), "little")
    encoded = _read_input(length)
    specification: CommandSpecification = marshal.loads(encoded)  # noqa: S302 - steno wrote it
    os.set_inheritable(status_fd, False)
    if listener_fd >= 0:
        os.set_inheritable(listener_fd, False)
    wake_fd, wake_write_fd = os.pipe()
    os.set_blocking(wake_write_fd, False)
    signal.set_wakeup_fd(wake_write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ignore_signal)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    confinement = specification["confinement"]
    held = hold_placeholders(() if confinement is None else confinement["placeholders"])
    new_files = hold_new_files(() if confinement is None else confinement["new_files"])
    try:
        status = _CommandWatcher(specification, wake_fd, listener_fd).run()
    finally:
        release_placeholders(new_files)
        release_placeholders(held)
    # Numbers and a name on the first line, which needs no module to encode.
    line = f"{status['exit_code']} {status['leftover']} {status['limit']}\n{status['failure']}"
    os.write(status_fd, line.encode(errors="replace"))


def _read_input(length: int) -> bytes:
    """Return the next bytes of standard input; exit if steno has ended before sending them."""
    data = b""
    while len(data) < length:
        part = os.read(0, length - len(data))
        if not part:
            raise SystemExit(1)
        data += part
    return data


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing, since these signals only wake the supervisor."""


class _CommandWatcher:
    """Starts a command, and watches and ends every process of the command."""

    def __init__(self, specification: CommandSpecification, wake_fd: int, listener_fd: int) -> None:
        self._specification = specification
        self._wake_fd = wake_fd
        self._exit_code: int | None = None
        confinement = specification["confinement"]
        self._is_wrapped = confinement is not None and confinement["mechanism"] == "bubblewrap"
        """Whether the first process is a sandbox, which must outlive the processes inside it."""
        self._group = ControlGroup.create(
            max_processes=specification["max_processes"],
            max_memory_bytes=specification["max_memory_bytes"],
        )
        self._failure_fd, failure_write_fd = os.pipe()
        info, block = (os.pipe(), os.pipe()) if listener_fd >= 0 else (None, None)
        self._pid = os.fork()
        if self._pid == 0:
            exec_command(
                specification,
                failure_write_fd,
                group=self._group,
                listener_fds=None if info is None or block is None else (info[1], block[0]),
            )
        os.close(failure_write_fd)
        # Only the command may hold the output open, so that steno detects the end of the output.
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        if info is not None and block is not None:
            os.close(info[1])
            os.close(block[0])
            _start_listener(info[0], block[1], listener_fd)

    def run(self) -> CommandStatus:
        """Wait for the command or end it, then end the processes that it left running."""
        order, leftover = b"", 0
        limit: Literal["", "processes", "memory"] = ""
        while self._exit_code is None and not order:
            order = self._wait_for_order(_TICK_S)
            self._reap()
            if limit := self._exceeded_limit():
                order = KILL
        if not order and not self._wait_for_all(_LINGER_S):
            leftover = len(find_descendants())
        if order != KILL:
            self._signal_all(signal.SIGTERM)
            self._wait_for_all(self._specification["grace_s"])
        self._kill()
        group_limit = "" if self._group is None else self._group.remove()
        failure = os.read(self._failure_fd, 4096).decode(errors="replace")
        return {
            "exit_code": 128 + signal.SIGKILL if self._exit_code is None else self._exit_code,
            "leftover": leftover,
            "limit": limit or (group_limit if self._exit_code else ""),
            "failure": failure,
        }

    def _exceeded_limit(self) -> Literal["", "processes", "memory"]:
        """Return the limit that the processes of the command exceed together."""
        pids = find_descendants()
        if len(pids) > self._specification["max_processes"]:
            return "processes"
        max_memory = self._specification["max_memory_bytes"]
        if max_memory is not None and uses_more_memory(pids, max_memory):
            return "memory"
        return ""

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

    def _signal_all(self, number: int) -> None:
        # Ending a sandbox kills the processes inside it without a grace period.
        spares_sandbox = self._is_wrapped and number != signal.SIGKILL
        # The kernel may reuse the ID of a reaped process. Without /proc, only the group is known.
        as_group = not spares_sandbox and (self._exit_code is None or not HAS_PROC)
        if as_group:
            _send_signal(-self._pid, number)
        for pid in find_descendants():
            # Signal each process once: a second signal would run cleanup handlers again.
            try:
                is_signalled = as_group and os.getpgid(pid) == self._pid
            except ProcessLookupError:
                continue
            if not is_signalled and not (spares_sandbox and pid == self._pid):
                _send_signal(pid, number)

    def _kill(self) -> None:
        """Kill the remaining processes, in rounds, since each round may miss new processes."""
        end = time.monotonic() + _KILL_TIMEOUT_S
        while True:
            if self._group is not None:
                self._group.kill()
            self._signal_all(signal.SIGKILL)
            if not self._reap() or time.monotonic() > end:
                return
            time.sleep(0.005)


def _start_listener(info_fd: int, block_fd: int, steno_fd: int) -> None:
    """Start a process that hands a listening socket to steno, and then lets the command begin.

    If it fails, the command begins without the socket and so without any network.
    """
    if os.fork() == 0:
        try:
            send_listener(info_fd, steno_fd)
            os.write(block_fd, b"g")
        except (OSError, ValueError):
            pass
        finally:
            os._exit(0)
    # `info_fd` stays open: bwrap writes more to it later, and would end if nobody could read that.
    os.close(block_fd)
    os.close(steno_fd)


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
