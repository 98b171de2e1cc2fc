"""Textual's driver for terminals, with what comes in mended (`incoming`).

Imported by whoever starts the full-screen terminal, and only where terminals are files.
"""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Final, final

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
        self._incoming = Incoming()

    def feed(self, data: str) -> Iterable[Message]:
        mended = self._incoming.feed(data)
        return super().feed(mended) if mended else ()  # nothing at all would mean the end


@final
class TerminalDriver(LinuxDriver):
    """Reads keys and what is pasted; one never becomes the other."""

    def run_input_thread(self) -> None:
        """Read until the terminal is left; Textual's own method takes no other parser."""
        parser = _Parser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_PATIENCE_S):
                    data = os.read(self.fileno, _CHUNK)
                    if not data:
                        return  # nobody is there any more
                    if characters := decode(data):
                        for message in parser.feed(characters):
                            self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
