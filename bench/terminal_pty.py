"""A pseudo-terminal of 100 columns and 30 lines for a measured program; Linux only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

COLUMNS, LINES = 100, 30


def cpu_until(shown: bytes, command: Sequence[str], home: Path) -> float:
    """Return the CPU time of a program up to when its screen shows a text."""
    with _started(command, home) as (process, terminal):
        screen = b""
        for piece in _pieces(terminal):
            screen += piece
            if shown in screen:
                return _cpu_of(process.pid)
    raise RuntimeError(f"{command}: {shown!r} was never shown, but {screen[-2000:]!r}")


def run_through(command: Sequence[str], home: Path) -> None:
    """Run a program to its end."""
    with _started(command, home) as (process, terminal):
        screen = b"".join(_pieces(terminal))
        if process.wait() != 0:
            raise RuntimeError(f"{command}: failed with the output {screen[-2000:]!r}")


@contextmanager
def _started(command: Sequence[str], home: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    here, there = pty.openpty()
    termios.tcsetwinsize(there, (LINES, COLUMNS))
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=there,
        stdout=there,
        stderr=there,
        cwd=home,
        env=environment,
        start_new_session=True,
    )
    os.close(there)
    try:
        yield process, here
    finally:
        process.kill()
        process.wait()
        os.close(here)


def _pieces(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # EIO: on Linux, the other end is closed
            return
        if not piece:
            return
        yield piece


def _cpu_of(pid: int) -> float:
    """Return the CPU clock of another process with its threads, as clock_getcpuclockid(3) does."""
    return time.clock_gettime((~pid) << 3 | 2)
