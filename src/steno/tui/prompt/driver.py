"""Textual's driver for terminals, with what comes in mended (`incoming`), and an end in order.

A terminal that hangs up takes nothing more and says nothing more. Textual's own driver then waits
for ever for what it has written to be taken; this one lets go of it, and ends the program in order.

Imported by whoever starts the full-screen terminal, and only where terminals are files.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, TextIO, cast, final

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from steno.tui.prompt.incoming import Incoming

_CHUNK: Final = 4096
_PATIENCE_S: Final = 0.1


@final
class _Parser(XTermParser):
    """Reads what is mended."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._sanitizer = Incoming()

    def feed(self, data: str) -> Iterable[Message]:
        mended = self._sanitizer.feed(data)
        return super().feed(mended) if mended else ()  # nothing at all would mean the end


@final
class _Screen:
    """A file to draw on: what nobody is there to see any more is lost, and that is no fault."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()


@final
class TerminalDriver(LinuxDriver):
    """Reads keys and what is pasted; one never becomes the other."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert sys.__stderr__ is not None
        self._file = cast("Any", _Screen(sys.__stderr__))  # all of it that Textual uses

    def _sigcont_application(self, *_: object) -> None:
        """Draw everything again after a stop; Textual's own method begins with what changes next.

        Whoever goes on without a stop draws already, and would read and draw twice: the signal also
        comes when a terminal hangs up.
        """
        if self._must_signal_resume:
            super()._sigcont_application()
            self._app.call_later(self._app.refresh, layout=True)

    def run_input_thread(self) -> None:
        """Read until the terminal is left; Textual's own method takes no other parser."""
        parser = _Parser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_PATIENCE_S):
                    data = self._read()
                    if not data:
                        signal.raise_signal(signal.SIGHUP)  # nobody is there any more
                        return
                    if characters := decode(data):
                        for message in parser.feed(characters):
                            self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, _CHUNK)
        except OSError:  # the terminal has hung up
            return b""
