"""Lines that somebody types, or that come from a pipe; read without keeping anything waiting.

The terminal is left as it is: it does the editing, and sends a line when it is done.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, final

_MOST_AT_ONCE: Final = 65_536


@final
class Lines:
    """Reads lines from a descriptor, as long as somebody listens."""

    def __init__(self, descriptor: int) -> None:
        """Take where they come from; it is not closed here."""
        self._descriptor = descriptor
        self.is_terminal: Final = os.isatty(descriptor)
        self._buffer = b""
        self._has_ended = False

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more comes, and everything was taken."""
        return self._has_ended and not self._buffer

    def next_line(self) -> str | None:
        """Return the next line if it is there already."""
        line, end, rest = self._buffer.partition(b"\n")
        if not end and not (self._has_ended and line):
            return None
        self._buffer = rest
        return line.decode(errors="replace").removesuffix("\r")

    def discard(self) -> None:
        """Drop what was typed up to now. From a pipe nothing is dropped: it was meant to come."""
        if self.is_terminal:
            self._buffer = b""
            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    @contextmanager
    def reading(self, heard: Callable[[], object]) -> Generator[None]:
        """Read what comes as long as the block lasts, and say so each time."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            self._read_chunk()
            if self._has_ended:
                loop.remove_reader(self._descriptor)
            heard()

        if self._has_next():
            yield
            return
        try:
            loop.add_reader(self._descriptor, read)
        except PermissionError:  # a file on disk, which is never waited for
            while not self._has_next():
                self._read_chunk()
            yield
            return
        try:
            yield
        finally:
            loop.remove_reader(self._descriptor)

    def _has_next(self) -> bool:
        """Tell whether nothing has to be read: there is a line, or nothing more."""
        return self._has_ended or b"\n" in self._buffer

    def _read_chunk(self) -> None:
        try:
            piece = os.read(self._descriptor, _MOST_AT_ONCE)
        except BlockingIOError:  # somebody else took it
            return
        except OSError:  # the terminal has gone away
            piece = b""
        self._buffer += piece
        self._has_ended = not piece
