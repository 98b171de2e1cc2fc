"""Start writers in processes of their own, hear what they wrote, and end them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Final, NamedTuple, Self

from steno.testing.stores.expecting import Unmet
from steno.testing.stores.subject import Subject

_LONGEST_S: Final = 120
"""After this time a writer hangs."""
# Run as a file, it does not load the rest of `steno.testing` before it.
_PROGRAM: Final = Path(__file__).with_name("writer.py")


class Acknowledged(NamedTuple):
    """Something that a writer was told is durable."""

    kind: str
    branch: str = ""
    entry: str = ""
    digest: str = ""


class Writer:
    """A process that writes to the place of a subject."""

    def __init__(self, subject: Subject, session: str, *settings: str) -> None:
        """Start it; it waits for `go`."""
        command = [sys.executable, "-P", str(_PROGRAM), subject.address, session]
        self._process = subprocess.Popen(  # noqa: S603 - it is our own program
            [*command, "--opener", subject.opener, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._timeout = Timer(_LONGEST_S, self._process.kill)
        self._timeout.start()

    def start_writing(self) -> None:
        """Let it begin as soon as it is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Wait until the store is open. Raises Unmet if it cannot be."""
        if self._read() != "ready":
            raise Unmet(f"a writer in another process must begin: {self.last_error_line()}")

    def acknowledgements(self) -> Iterator[Acknowledged]:
        """Return what is durable as it is told, up to the end of the process."""
        while line := self._read():
            if line != "ready":
                yield Acknowledged(*line.split(" "))

    def kill(self) -> None:
        """End it at once, wherever it is; what it told until then can still be read."""
        self._process.kill()

    def finish(self) -> list[Acknowledged]:
        """Read to its end, which must be a good one."""
        found = list(self.acknowledgements())
        if self._process.wait() != 0:
            raise Unmet(f"a writer in another process must not fail: {self.last_error_line()}")
        return found

    def was_killed(self) -> bool:
        """Tell whether it ended because it was killed, once it has ended."""
        return self._process.wait() < 0

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line[:-1] if line.endswith("\n") else ""

    def last_error_line(self) -> str:
        """Return the last that it said about its end, once it has ended."""
        self._process.wait()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"it ended with {self._process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timeout.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue
