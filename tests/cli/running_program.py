"""The program while it runs: what it prints is read as it comes, and it gets keys and signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cli.program import COMMAND, ProgramOutput

PATIENCE_S = 60


def read_pieces(descriptor: int) -> Iterator[bytes]:
    """Return what comes, until nothing comes any more; what does not come fails the test."""
    while True:
        assert select.select([descriptor], [], [], PATIENCE_S)[0], "nothing comes"
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # the other end of a terminal was closed
            return
        if not piece:
            return
        yield piece


def _unblock_signals() -> None:
    # Where tests run in the background, signals are ignored, and children inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _sit_down() -> None:
    _unblock_signals()
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal


# -- a run whose events are read -------------------------------------------------------------------


class RunningProgram:
    """A run that prints an event a line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = self._read(process.stdout.fileno())
        self.events: list[dict[str, Any]] = []

    def until(self, kind: str) -> dict[str, Any]:
        """Wait for an event of a kind."""
        for line in self._lines:
            self.events.append(json.loads(line))
            if self.events[-1]["type"] == kind:
                return self.events[-1]
        raise AssertionError(f"no {kind} came")

    def end(self) -> ProgramOutput:
        """Wait for the end, and return the result as the output."""
        self.events += map(json.loads, self._lines)
        assert self.process.stderr is not None
        err = self.process.stderr.read().decode()
        status = self.process.wait(timeout=PATIENCE_S)
        return ProgramOutput(status, json.dumps(self.events[-1]), err)

    def _read(self, descriptor: int) -> Iterator[bytes]:
        rest = b""
        for piece in read_pieces(descriptor):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
        assert rest == b""  # every line is whole


@contextmanager
def start_program(*arguments: str | Path, **settings: Any) -> Generator[RunningProgram]:
    """Start a run; it does not outlive the block."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--output-format", "stream-json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_unblock_signals,
        **settings,
    )
    with process:
        try:
            yield RunningProgram(process)
        finally:
            process.kill()


# -- a run on a terminal ---------------------------------------------------------------------------


class TerminalUser:
    """A user at the terminal of a run."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self._end = end
        self._pieces = read_pieces(end)
        self.screen = ""
        """Everything that was shown."""
        self._seen = 0

    def see(self, text: str) -> None:
        """Wait until a text is shown after the one that was awaited before."""
        while text not in self.screen[self._seen :]:
            self.screen += next(self._pieces).decode().replace("\r\n", "\n")
        self._seen = self.screen.index(text, self._seen) + len(text)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._end, keys.encode())

    def end(self) -> int:
        """Wait for the end of the run, and return its status."""
        self.screen += b"".join(self._pieces).decode().replace("\r\n", "\n")
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def start_on_terminal(
    *arguments: str | Path, stdin: int | None = None, stdout: int | None = None
) -> Generator[TerminalUser]:
    """Start a run on a terminal of 80 columns; ends that are named are elsewhere."""
    end, other_end = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=other_end if stdin is None else stdin,
        stdout=other_end if stdout is None else stdout,
        stderr=other_end,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"},
        start_new_session=True,
        preexec_fn=_sit_down,
    )
    os.close(other_end)
    with process:
        try:
            yield TerminalUser(process, end)
        finally:
            process.kill()
            os.close(end)


# -- processes -------------------------------------------------------------------------------------


def is_running(marker: str) -> bool:
    """Return whether any process has this argument."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (place / "cmdline").read_bytes().split(b"\0"):
                return True
    return False


def becomes_true(is_so: Callable[[], bool]) -> bool:
    """Return whether a condition holds within the time limit; processes send no events."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        select.select([], [], [], 0.02)
    return True
