"""Start a command, capture its output, end it with its descendants and report its exit.

The command is a grandchild of steno. The program between them is `supervisor`, which finds and ends
processes that a signal to the process group would miss, even after steno itself has ended. This
module contains the part that needs an event loop. It does not depend on the shell, the sandbox or
the tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, final

from msgspec import field
from msgspec.structs import replace

from steno.bounded_text import BoundedText
from steno.messages.outcome import Outcome
from steno.tools.shell.launch import Launched, launch_supervisor, read_status
from steno.tools.shell.supervisor.orders import KILL, TERMINATE
from steno.tools.shell.supervisor.specification import CommandSpecification, Confinement
from steno.values import RedactedRepr


def default_memory_limit() -> int | None:
    """Return half of the memory of this machine; None if its size is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (OSError, ValueError):
        return None


@final
class CommandLimits(RedactedRepr, frozen=True, kw_only=True):
    """The limits of a command for time, output, processes, files and memory."""

    timeout_s: int = 120
    """The time limit if the call does not set one."""
    max_timeout_s: int = 600
    """The highest time limit that a call can set."""
    max_output_bytes: int = 100_000_000
    """The maximum amount of output; a command that writes more is ended."""
    max_captured_bytes: int = 10_000_000
    """The amount of output to retain; longer output loses its middle."""
    max_live_bytes: int = 1_000_000
    """The amount of output to show while the command runs."""
    max_processes: int = 512
    """The maximum number of processes at once; a command with more is ended.

    The kernel also refuses to start further processes, except for root.
    """
    max_file_bytes: int = 4 << 30
    """The maximum size of a file that a command writes."""
    max_memory_bytes: int | None = field(default_factory=default_memory_limit)
    """The maximum memory of all processes together; a command with more is ended. None: no limit.

    By default, this is half of the memory of the machine.
    """
    max_jobs: int = 16
    """The maximum number of commands that run in the background at once."""
    grace_s: float = 2.0
    """The time between SIGTERM and SIGKILL when a process is ended."""


class ExitCause(StrEnum):
    """The reason why a command ended."""

    DONE = "done"
    """The command ended by itself."""
    TIME = "time"
    OUTPUT = "output"
    PROCESSES = "processes"
    MEMORY = "memory"
    FILE_SIZE = "file_size"
    STOPPED = "stopped"
    """The command was ended on request."""


_FILE_SIZE_EXIT: Final = 128 + signal.SIGXFSZ
_CAUSE_TEXTS: Final = {
    ExitCause.TIME: "ended after {duration:g} s: it exceeded the time limit",
    ExitCause.OUTPUT: "ended: it exceeded the output limit",
    ExitCause.PROCESSES: "ended: it exceeded the process limit",
    ExitCause.MEMORY: "ended: it exceeded the memory limit",
    ExitCause.FILE_SIZE: "ended: it exceeded the limit for the size of a file",
    ExitCause.STOPPED: "ended on request",
}


@final
class CommandExit(RedactedRepr, frozen=True, kw_only=True):
    """The cause, exit code and duration of an ended command, and the processes it left running."""

    shown: ClassVar[frozenset[str]] = frozenset({"cause", "signal"})

    cause: ExitCause
    exit_code: int | None
    """As in shells, 128 plus the signal number if a signal ended the command; None if unknown."""
    signal: str | None
    """The name of the signal that ended the command; None if no signal ended it."""
    leftover_processes: int
    """The number of processes that outlived the command and were then ended."""
    duration_s: float

    @property
    def outcome(self) -> Outcome:
        """The outcome for the tool result."""
        if self.cause is ExitCause.TIME:
            return Outcome.TIMEOUT
        is_good = self.cause is ExitCause.DONE and self.exit_code == 0
        return Outcome.OK if is_good else Outcome.ERROR

    @property
    def notes(self) -> list[str]:
        """Notes for the model about a failure and about processes that the command left running."""
        notes: list[str] = []
        if self.cause is not ExitCause.DONE:
            notes.append(_CAUSE_TEXTS[self.cause].format(duration=self.duration_s))
        elif self.exit_code is None:
            notes.append("ended from outside steno; the exit code is unknown")
        elif self.exit_code:
            by = f", ended by signal {self.signal}" if self.signal else ""
            notes.append(f"exit code {self.exit_code}{by}")
        if left := self.leftover_processes:
            ended = f"{left} of its processes still ran when it ended, and were then ended"
            notes.append(f"{ended}; set background to keep a command running")
        return notes

    @property
    def details(self) -> dict[str, Any]:
        """The details of the tool result."""
        return {
            "cause": str(self.cause),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "left": self.leftover_processes,
            "duration_s": self.duration_s,
        }


@final
class CommandProcess:
    """A running command with every process it started.

    Create it with `start`, and call `wait` or `aclose` to release its resources.
    """

    def __init__(
        self,
        launched: Launched,
        *,
        limits: CommandLimits,
        on_output: Callable[[bytes], None] | None,
        on_listener: Callable[[socket.socket], None] | None,
    ) -> None:
        """Create a process from a supervisor and its pipes for the output and the final report."""
        self.capture: OutputCapture = OutputCapture(limits.max_captured_bytes)
        self._child = launched.supervisor
        self._limits = limits
        self._on_output = on_output
        self._started = time.monotonic()
        self._cause = ExitCause.DONE
        self._total = 0
        self._report = bytearray()
        self._output = _ReadPipe(launched.output, self._receive)
        self._status = _ReadPipe(launched.status, self._report.extend)
        self._listener = launched.listener
        self._on_listener = on_listener

    @classmethod
    async def start(
        cls,
        argv: tuple[str, ...],
        *,
        folder: Path,
        environ: Mapping[str, str],
        limits: CommandLimits,
        confinement: Confinement | None = None,
        on_output: Callable[[bytes], None] | None = None,
        on_listener: Callable[[socket.socket], None] | None = None,
    ) -> CommandProcess:
        """Start a command.

        `confinement` is the sandbox of the command; None for none. `on_output` receives output as
        it arrives. `on_listener` receives a socket that listens on LISTENER_PORT inside the network
        of a confinement that `listens`; the caller closes it. Raises ToolFailed if the command
        cannot be started.
        """
        specification: CommandSpecification = {
            "argv": [*argv],
            "confinement": confinement,
            "grace_s": limits.grace_s,
            "max_processes": limits.max_processes,
            "max_file_bytes": limits.max_file_bytes,
            "max_memory_bytes": limits.max_memory_bytes,
        }
        listens = confinement is not None and confinement.get("listens") is True
        launched = launch_supervisor(specification, folder, environ, has_listener=listens)
        process = cls(launched, limits=limits, on_output=on_output, on_listener=on_listener)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(process._release)
            await process._output.connect()
            await process._status.connect()
            if process._listener is not None:
                loop = asyncio.get_running_loop()
                loop.add_reader(process._listener, process._receive_listener)
            cleanup.pop_all()
        return process

    @property
    def is_running(self) -> bool:
        """Whether any process of the command is still running."""
        return not self._status.closed.is_set()

    def stop(self, cause: ExitCause = ExitCause.STOPPED) -> None:
        """Begin to end the command; `wait` returns when it has ended."""
        if self.is_running and self._cause is ExitCause.DONE:
            self._cause = cause
            self._send_order(TERMINATE)

    async def wait(self, timeout_s: float | None = None) -> CommandExit:
        """Wait until all processes have ended, and return the exit of the command.

        The processes are ended after `timeout_s` seconds, or if the waiting task is cancelled.
        Raises ToolFailed if the command could not be started.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._status.closed.wait()
        except TimeoutError:
            self.stop(ExitCause.TIME)
        finally:
            await self.aclose()
        return self._build_exit()

    async def aclose(self) -> None:
        """End the command if it is still running, and release its resources."""
        self.stop()
        try:
            await _wait_at_most(self._limits.grace_s + _SUPERVISOR_TIMEOUT_S, self._status.closed)
            await _wait_at_most(_DRAIN_TIMEOUT_S, self._output.closed)
        finally:
            self._release()

    def _receive(self, data: bytes) -> None:
        self.capture.feed(data)
        self._total += len(data)
        if self._total > self._limits.max_output_bytes:
            self.stop(ExitCause.OUTPUT)
        if self._on_output is not None:
            self._on_output(data)

    def _receive_listener(self) -> None:
        """Pass the listening socket to the caller; the supervisor sends one at most."""
        assert self._listener is not None
        _, files, _, _ = socket.recv_fds(self._listener, 1, 1)
        self._close_listener()
        for file in files:
            listener = socket.socket(fileno=file)
            listener.setblocking(False)
            if self._on_listener is None:
                listener.close()
            else:
                self._on_listener(listener)

    def _close_listener(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _send_order(self, order: bytes) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._child.stdin.write(order)
        # Resume the supervisor, which a command without a sandbox can stop with a signal.
        self._child.send_signal(signal.SIGCONT)

    def _release(self) -> None:
        """Reap the supervisor and close the pipes; block only if the command must be killed."""
        if self.is_running:
            self._send_order(KILL)
        try:
            self._child.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._output.disconnect()
        self._status.disconnect()
        self._close_listener()

    def _build_exit(self) -> CommandExit:
        unknown = CommandExit(
            cause=self._cause,
            exit_code=None,
            signal=None,
            leftover_processes=0,
            duration_s=round(time.monotonic() - self._started, 3),
        )
        status = read_status(bytes(self._report))
        if status is None:  # the supervisor itself was killed
            return unknown
        exit_code, cause = status["exit_code"], self._cause
        if status["limit"]:
            cause = ExitCause(status["limit"])
        elif cause is ExitCause.DONE and exit_code == _FILE_SIZE_EXIT:
            cause = ExitCause.FILE_SIZE
        return replace(
            unknown,
            cause=cause,
            exit_code=exit_code,
            signal=_signal_name(exit_code),
            leftover_processes=status["leftover"],
        )


@final
class OutputCapture:
    """Collects output in bounded memory, and drops the middle of long output."""

    def __init__(self, max_bytes: int) -> None:
        max_tail = max_bytes // 2
        self._kept = BoundedText(b"".join, max_head=max_bytes - max_tail, max_tail=max_tail)

    @property
    def total(self) -> int:
        """The number of bytes received since the last call of `take`."""
        return self._kept.total

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._kept.add(data)

    def restore(self, data: bytes) -> None:
        """Return taken output to the buffer, ahead of the output that has arrived since."""
        since = self.take()
        self.feed(data)
        self.feed(since)

    def take(self) -> bytes:
        """Return the output since the last call, with a line where a part is missing."""
        head, missing, tail = self._kept.ends()
        self._kept.clear()
        gap = f"\n[... {missing:,} bytes were not kept ...]\n" if missing else ""
        return head + gap.encode() + tail


def append_notes(output: str, notes: list[str]) -> str:
    """Return the output followed by notes, each on its own line."""
    lines = output if not output or output.endswith("\n") else f"{output}\n"
    return lines + "\n".join([f"[{note}]" for note in notes]) if notes else output


# -- pipes and the supervisor ---------------------------------------------------------------------

_SUPERVISOR_TIMEOUT_S: Final = 10.0
"""The time that the supervisor may take beyond the grace period, on a busy machine."""
_DRAIN_TIMEOUT_S: Final = 1.0
"""The time to wait for the end of the output, which is late only if a process was not ended."""
_KILL_TIMEOUT_S: Final = 3.0
"""The time that the event loop may block until a killed command has ended."""


class _ReadPipe(asyncio.Protocol):
    """The read end of a pipe, connected to the event loop."""

    def __init__(self, file: int, on_data: Callable[[bytes], None]) -> None:
        self.closed = asyncio.Event()
        self._file = os.fdopen(file, "rb", buffering=0)
        self._on_data = on_data
        self._transport: asyncio.BaseTransport | None = None

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self, self._file)

    def disconnect(self) -> None:
        (self._transport or self._file).close()

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _signal_name(exit_code: int) -> str | None:
    """Return the name of the signal that an exit code represents; None for other exit codes."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None
