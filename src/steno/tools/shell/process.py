"""Run one command: start it, capture its output, end it with its descendants, report its exit.

The command is a grandchild. `command_supervisor` stands between it and steno: it finds and ends
processes that a signal to the group would miss, and does so too after steno itself is gone. This
module does the part that needs an event loop. It knows no shell, no sandbox and no tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, cast, final

from msgspec import DecodeError, json
from msgspec.structs import replace

from steno.bounded_text import BoundedText
from steno.errors import ToolFailed
from steno.messages.outcome import Outcome
from steno.tools.programs import isolated_python_command
from steno.tools.shell import command_supervisor
from steno.values import RedactedRepr


@final
class CommandLimits(RedactedRepr, frozen=True, kw_only=True):
    """How much a command may use."""

    timeout_s: int = 120
    """How long it may run unless the call sets another limit."""
    max_timeout_s: int = 600
    """The most that a call can ask for."""
    max_output_bytes: int = 100_000_000
    """A command that writes more is ended."""
    max_captured_bytes: int = 10_000_000
    """How much output is kept; of more, only the beginning and the end."""
    max_live_bytes: int = 1_000_000
    """How much output people see while it runs."""
    max_processes: int = 512
    """A command that has more at once is ended; without root's rights it cannot even have them."""
    max_file_bytes: int = 4 << 30
    max_memory_bytes: int | None = None
    """Address space of each process."""
    max_jobs: int = 16
    """How many commands may run in the background at once."""
    grace_s: float = 2.0
    """How long a process may take to end when it is asked to."""


class ExitCause(StrEnum):
    """Why a command ended."""

    DONE = "done"
    """By itself."""
    TIME = "time"
    OUTPUT = "output"
    PROCESSES = "processes"
    STOPPED = "stopped"
    """It was ended on request."""


_CAUSE_TEXTS: Final = {
    ExitCause.TIME: "ended after {duration:g} s: it took longer than it may",
    ExitCause.OUTPUT: "ended: it wrote more than it may",
    ExitCause.PROCESSES: "ended: it started more processes than it may",
    ExitCause.STOPPED: "ended on request",
}


@final
class CommandExit(RedactedRepr, frozen=True, kw_only=True):
    """The result of a command."""

    shown: ClassVar[frozenset[str]] = frozenset({"cause", "signal"})

    cause: ExitCause
    exit_code: int | None
    """As shells have it: 128 and the number of a signal. None if it is unknown."""
    signal: str | None
    """The name of the signal that ended it."""
    leftover_processes: int
    """How many processes still ran when it ended, and were ended, too."""
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
        """Notes for the model; none if the command succeeded."""
        notes: list[str] = []
        if self.cause is not ExitCause.DONE:
            notes.append(_CAUSE_TEXTS[self.cause].format(duration=self.duration_s))
        elif self.exit_code is None:
            notes.append("ended from outside: what became of it is not known")
        elif self.exit_code:
            by = f", ended by signal {self.signal}" if self.signal else ""
            notes.append(f"exit code {self.exit_code}{by}")
        if left := self.leftover_processes:
            ended = f"{left} of its processes still ran when it ended, and were ended too"
            notes.append(f"{ended}; set background for what should go on")
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
    """A command and all that it has started. Made by `start`; ends with `wait` or `aclose`."""

    def __init__(
        self,
        supervisor: subprocess.Popen[bytes],
        output: int,
        status: int,
        *,
        limits: CommandLimits,
        on_output: Callable[[bytes], None] | None,
    ) -> None:
        """Take the supervisor, and the pipes of the command's output and of its own report."""
        self.capture: OutputCapture = OutputCapture(limits.max_captured_bytes)
        self._child = supervisor
        self._limits = limits
        self._on_output = on_output
        self._started = time.monotonic()
        self._cause = ExitCause.DONE
        self._total = 0
        self._report = bytearray()
        self._output = _ReadPipe(output, self._receive)
        self._status = _ReadPipe(status, self._report.extend)

    @classmethod
    async def start(
        cls,
        argv: tuple[str, ...],
        *,
        folder: Path,
        environ: Mapping[str, str],
        limits: CommandLimits,
        is_wrapped: bool,
        on_output: Callable[[bytes], None] | None = None,
    ) -> CommandProcess:
        """Start a command. `is_wrapped`: its first process is a sandbox that stays.

        `on_output` gets the output as it arrives. Raises ToolFailed if it cannot be started.
        """
        specification: command_supervisor.CommandSpecification = {
            "argv": list(argv),
            "is_wrapped": is_wrapped,
            "grace_s": limits.grace_s,
            "max_processes": limits.max_processes,
            "max_file_bytes": limits.max_file_bytes,
            "max_memory_bytes": limits.max_memory_bytes,
        }
        pipes = _spawn_supervisor(json.encode(specification).decode(), folder, environ)
        process = cls(*pipes, limits=limits, on_output=on_output)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(process._release)
            await process._output.connect()
            await process._status.connect()
            cleanup.pop_all()
        return process

    @property
    def is_running(self) -> bool:
        """Whether something of it is still there."""
        return not self._status.closed.is_set()

    def stop(self, cause: ExitCause = ExitCause.STOPPED) -> None:
        """Begin to end it; `wait` returns when that is done."""
        if self.is_running and self._cause is ExitCause.DONE:
            self._cause = cause
            self._send_order(command_supervisor.TERMINATE)

    async def wait(self, timeout_s: float | None = None) -> CommandExit:
        """Wait until all of it is gone; end it when the time is over, or when cancelled.

        Raises ToolFailed if it turns out that it never ran.
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
        """End it, if it has not ended, and let go of it."""
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

    def _send_order(self, order: bytes) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._child.stdin.write(order)
        # A command without a sandbox can stop the supervisor with a signal.
        self._child.send_signal(signal.SIGCONT)

    def _release(self) -> None:
        """Collect the supervisor; blocks only if it has to be killed."""
        if self.is_running:
            self._send_order(command_supervisor.KILL)
        try:
            self._child.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._output.disconnect()
        self._status.disconnect()

    def _build_exit(self) -> CommandExit:
        unknown = CommandExit(
            cause=self._cause,
            exit_code=None,
            signal=None,
            leftover_processes=0,
            duration_s=round(time.monotonic() - self._started, 3),
        )
        try:
            status = cast("command_supervisor.CommandStatus", json.decode(self._report))
        except DecodeError:  # the supervisor was killed itself
            return unknown
        if status["failure"]:
            raise _not_started(status["failure"])
        return replace(
            unknown,
            cause=ExitCause.PROCESSES if status["has_too_many_processes"] else self._cause,
            exit_code=status["exit_code"],
            signal=_signal_name(status["exit_code"]),
            leftover_processes=status["leftover"],
        )


@final
class OutputCapture:
    """Collects output in bounded memory, and drops the middle of what is too long."""

    def __init__(self, max_bytes: int) -> None:
        max_tail = max_bytes // 2
        self._kept = BoundedText(b"".join, max_head=max_bytes - max_tail, max_tail=max_tail)

    @property
    def total(self) -> int:
        """How many bytes came in all."""
        return self._kept.total

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._kept.add(data)

    def restore(self, data: bytes) -> None:
        """Put taken output back before the output that came since."""
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
    """Return the output followed by notes, each in its own line."""
    lines = output if not output or output.endswith("\n") else f"{output}\n"
    return lines + "\n".join([f"[{note}]" for note in notes]) if notes else output


# -- pipes and the supervisor ---------------------------------------------------------------------

_SUPERVISOR_TIMEOUT_S: Final = 10.0
"""How long the supervisor may take on top of the grace, on a machine that is busy."""
_DRAIN_TIMEOUT_S: Final = 1.0
"""How long output may come after the end: at once, unless a process could not be ended."""
_KILL_TIMEOUT_S: Final = 3.0
"""How long the event loop may block for the end of a command that is killed."""


class _ReadPipe(asyncio.Protocol):
    """The read end of a pipe."""

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


def _spawn_supervisor(
    specification: str, folder: Path, environ: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the supervisor, and with it the command; return the pipes of output and report, too."""
    output, output_write = os.pipe()
    status, status_write = os.pipe()
    try:
        supervisor = subprocess.Popen(  # noqa: S603 - the purpose of this module
            [
                *isolated_python_command(command_supervisor.__file__),
                str(status_write),
                specification,
            ],
            stdin=subprocess.PIPE,
            stdout=output_write,
            stderr=output_write,
            bufsize=0,
            cwd=folder,
            env=environ,
            pass_fds=(status_write,),
            start_new_session=True,
        )
    except OSError as exc:
        os.close(output)
        os.close(status)
        raise _not_started(exc.strerror) from exc
    finally:
        os.close(output_write)
        os.close(status_write)
    return supervisor, output, status


def _not_started(reason: str | None) -> ToolFailed:
    text = f"the command could not be started: {reason}"
    return ToolFailed(text, code="command_not_started", place="bash")


async def _wait_at_most(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _signal_name(exit_code: int) -> str | None:
    """Return the name of the signal of an exit code, if it has one."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None
