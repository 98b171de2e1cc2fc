"""A command that runs: started, listened to, and ended with all that it has started.

The command is a grandchild. Between it and us stands `supervise`, which finds and ends processes
that a signal to the group would miss, and which does so too if we are gone. Here is only what
has to happen in an event loop. This file knows no shell, no sandbox and no tool.
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
from typing import ClassVar, Final, NamedTuple, cast, final

from msgspec import DecodeError, json

from steno.errors import ToolFailed
from steno.tools.shell import supervise
from steno.tools.shell.capture import Capture
from steno.tools.shell.program import run_alone
from steno.value import Quiet

_PATIENCE_S: Final = 10.0
"""How long the supervisor may take on top of the grace, on a machine that is busy."""
_DRAIN_S: Final = 1.0
"""How long output may come after the end: at once, unless a process could not be ended."""
_HASTE_S: Final = 3.0
"""How long we stop everything else for the end of a command, if told twice to stop."""


@final
class CommandLimits(Quiet, frozen=True, kw_only=True):
    """How much a command may use."""

    timeout_s: int = 120
    """How long it may run unless the call says otherwise."""
    max_timeout_s: int = 600
    """The most that a call can say."""
    max_output_bytes: int = 100_000_000
    """A command that says more is ended."""
    kept_output_bytes: int = 10_000_000
    """Of what it says, so much is kept; beyond that only the beginning and the end."""
    shown_output_bytes: int = 1_000_000
    """So much is shown to people while it runs."""
    max_processes: int = 512
    """A command that has more at once is ended; without root's rights it cannot even have them."""
    max_file_bytes: int = 4 << 30
    max_memory_bytes: int | None = None
    """Address space of each process."""
    max_jobs: int = 16
    """How many commands may run in the background at once."""
    grace_s: float = 2.0
    """How long a process may take to end when it is asked to."""


class Cause(StrEnum):
    """Why a command ended."""

    DONE = "done"
    """By itself."""
    TIME = "time"
    OUTPUT = "output"
    PROCESSES = "processes"
    STOPPED = "stopped"
    """It was told to."""


@final
class CommandEnding(Quiet, frozen=True, kw_only=True):
    """What became of a command."""

    shown: ClassVar[frozenset[str]] = frozenset({"cause", "signal"})

    cause: Cause
    exit_code: int | None
    """As shells have it: 128 and the number of a signal. None if nobody knows."""
    signal: str | None
    """The name of the signal that ended it."""
    left: int
    """How many processes it left behind, which were ended."""
    duration_s: float


@final
class Process:
    """A command and all that it has started. Made by `start`; ends with `wait` or `aclose`."""

    def __init__(
        self, spawned: _Spawned, limits: CommandLimits, listener: Callable[[bytes], None] | None
    ) -> None:
        self.capture = Capture(limits.kept_output_bytes)
        self._child = spawned.supervisor
        self._limits = limits
        self._listener = listener
        self._started = time.monotonic()
        self._cause = Cause.DONE
        self._total = 0
        self._report = bytearray()
        self._output = _Pipe(spawned.output, self._receive)
        self._status = _Pipe(spawned.status, self._report.extend)

    @classmethod
    async def start(
        cls,
        argv: tuple[str, ...],
        *,
        folder: Path,
        environ: Mapping[str, str],
        limits: CommandLimits,
        is_wrapped: bool,
        listener: Callable[[bytes], None] | None = None,
    ) -> Process:
        """Start a command. `is_wrapped` tells that its first process is a sandbox that stays.

        `listener` gets what it says as it comes. Raises ToolFailed if it cannot be started.
        """
        specification: supervise.Specification = {
            "argv": list(argv),
            "is_wrapped": is_wrapped,
            "grace_s": limits.grace_s,
            "max_processes": limits.max_processes,
            "max_file_bytes": limits.max_file_bytes,
            "max_memory_bytes": limits.max_memory_bytes,
        }
        spawned = _spawn(json.encode(specification).decode(), folder, environ)
        process = cls(spawned, limits, listener)
        with contextlib.ExitStack() as unless_connected:
            unless_connected.callback(process._release)
            await process._output.connect()
            await process._status.connect()
            unless_connected.pop_all()
        return process

    @property
    def is_running(self) -> bool:
        """Whether something of it is still there."""
        return not self._status.closed.is_set()

    def stop(self, cause: Cause = Cause.STOPPED) -> None:
        """Begin to end it; `wait` returns when that is done."""
        if self.is_running and self._cause is Cause.DONE:
            self._cause = cause
            self._send_order(supervise.TERMINATE)

    async def wait(self, timeout_s: float | None = None) -> CommandEnding:
        """Wait until all of it is gone; end it when the time is over, or when cancelled.

        Raises ToolFailed if it turns out that it never ran.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._status.closed.wait()
        except TimeoutError:
            self.stop(Cause.TIME)
        finally:
            await self.aclose()
        return self._build_exit()

    async def aclose(self) -> None:
        """End it, if it has not ended, and let go of it."""
        self.stop()
        try:
            await _within(self._limits.grace_s + _PATIENCE_S, self._status.closed)
            await _within(_DRAIN_S, self._output.closed)
        finally:
            self._release()

    def _receive(self, data: bytes) -> None:
        self.capture.feed(data)
        self._total += len(data)
        if self._total > self._limits.max_output_bytes:
            self.stop(Cause.OUTPUT)
        if self._listener is not None:
            self._listener(data)

    def _send_order(self, order: bytes) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._child.stdin.write(order)
        # A command without a sandbox can stop the one who is to end it.
        self._child.send_signal(signal.SIGCONT)

    def _release(self) -> None:
        """Collect the supervisor. Blocks only if it still has work to do, and then in haste."""
        if self.is_running:
            self._send_order(supervise.KILL)
        try:
            self._child.wait(_HASTE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._output.disconnect()
        self._status.disconnect()

    def _build_exit(self) -> CommandEnding:
        status = _read_status(bytes(self._report))
        if status is not None and status["failure"]:
            raise ToolFailed(f"bash: the command could not be started: {status['failure']}")
        cause = self._cause
        if status is not None and status["too_many"]:
            cause = Cause.PROCESSES
        exit_code = None if status is None else status["exit_code"]
        return CommandEnding(
            cause=cause,
            exit_code=exit_code,
            signal=_signal_name(exit_code),
            left=0 if status is None else status["left"],
            duration_s=round(time.monotonic() - self._started, 3),
        )


class _Pipe(asyncio.Protocol):
    """The end of a pipe that we read."""

    def __init__(self, file: int, take: Callable[[bytes], None]) -> None:
        self.closed = asyncio.Event()
        self._file = os.fdopen(file, "rb", buffering=0)
        self._take = take
        self._transport: asyncio.BaseTransport | None = None

    async def connect(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: self, self._file)

    def disconnect(self) -> None:
        """Read no more."""
        (self._transport or self._file).close()

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that nothing more will come."""
        self.closed.set()


class _Spawned(NamedTuple):
    supervisor: subprocess.Popen[bytes]
    output: int
    """Where the command's output comes."""
    status: int
    """Where the supervisor's report comes."""


def _spawn(specification: str, folder: Path, environ: Mapping[str, str]) -> _Spawned:
    """Start the supervisor, and with it the command."""
    output, output_write = os.pipe()
    status, status_write = os.pipe()
    try:
        supervisor = subprocess.Popen(  # noqa: S603 - what we are for
            [*run_alone(supervise.__file__), str(status_write), specification],
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
        raise ToolFailed(f"bash: the command could not be started: {exc.strerror}") from exc
    finally:
        os.close(output_write)
        os.close(status_write)
    return _Spawned(supervisor, output, status)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _read_status(report: bytes) -> supervise.Status | None:
    """Return what the supervisor said; nothing if it was itself ended."""
    try:
        return cast("supervise.Status", json.decode(report))
    except DecodeError:
        return None


def _signal_name(exit_code: int | None) -> str | None:
    if exit_code is None or exit_code <= 128:
        return None
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return None
