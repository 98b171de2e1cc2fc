"""A Textual driver for terminals, with sanitized input and a clean exit after a hangup.

After a hangup, Textual's own driver would wait forever for the terminal to read its output. This
driver discards the output and ends the program.

It works on Linux and macOS only, because LinuxDriver needs `termios`.
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

from steno.ui.prompt_state import strip_escape_sequences

_ESCAPE: Final = "\x1b"
_PASTE_START: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
# Textual has no key for the first sequence of Alt+Enter, but parses the second.
_ALT_ENTER: Final = "\x1b\r"
_ALT_ENTER_IN_FULL: Final = "\x1b[13;3u"
_CHUNK: Final = 4096
_POLL_S: Final = 0.1


@final
class InputSanitizer:
    """Removes escape sequences from pastes in a stream of terminal input.

    Outside pastes, it only replaces the sequence of Alt+Enter.
    """

    def __init__(self) -> None:
        self._is_pasting = False
        self._typed_tail = ""
        """The last typed characters, because the start sequence of a paste may arrive in parts."""
        self._held = ""
        """Characters that may be the beginning of a paste's end sequence."""

    def feed(self, data: str) -> str:
        """Return the input with escape sequences removed from pastes."""
        sanitized: list[str] = []
        while data:
            step = self._feed_pasted if self._is_pasting else self._feed_typed
            part, data = step(data)
            sanitized.append(part)
        return "".join(sanitized)

    def _feed_typed(self, data: str) -> tuple[str, str]:
        received = self._typed_tail + data
        start = received.find(_PASTE_START)
        if start < 0:
            self._typed_tail = received[1 - len(_PASTE_START) :]
            return data.replace(_ALT_ENTER, _ALT_ENTER_IN_FULL), ""
        end = start + len(_PASTE_START) - len(self._typed_tail)
        self._is_pasting, self._typed_tail = True, ""
        typed = data[: max(0, end - len(_PASTE_START))]
        return typed.replace(_ALT_ENTER, _ALT_ENTER_IN_FULL) + data[len(typed) : end], data[end:]

    def _feed_pasted(self, data: str) -> tuple[str, str]:
        received = self._held + data
        end = received.find(_PASTE_END)
        if end < 0:
            partial = next(
                (n for n in range(len(_PASTE_END) - 1, 0, -1) if received.endswith(_PASTE_END[:n])),
                0,
            )
            self._held = received[len(received) - partial :]
            return _visible_text(received[: len(received) - partial]), ""
        # Pasted text may contain the end sequence, so the last one before another paste counts.
        next_start = received.find(_PASTE_START, end)
        end = received.rfind(_PASTE_END, end, next_start if next_start >= 0 else len(received))
        self._is_pasting, self._held = False, ""
        return _visible_text(received[:end]) + _PASTE_END, received[end + len(_PASTE_END) :]


def _visible_text(text: str) -> str:
    return strip_escape_sequences(text).replace(_ESCAPE, "")


@final
class _SanitizingParser(XTermParser):
    """A parser that sanitizes terminal input before parsing it."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._sanitizer = InputSanitizer()

    def feed(self, data: str) -> Iterable[Message]:
        sanitized = self._sanitizer.feed(data)
        return super().feed(sanitized) if sanitized else ()  # an empty feed means the end of input


@final
class _HangupSafeFile:
    """The output file of the driver, which discards output after a hangup."""

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
    """The driver of the full-screen interface, which never interprets pasted text as keys."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert sys.__stderr__ is not None
        # _HangupSafeFile has every method that Textual calls.
        self._file = cast("Any", _HangupSafeFile(sys.__stderr__))

    def _sigcont_application(self, *_: object) -> None:
        """Redraw the screen when the process continues after a stop, which Textual does not do.

        SIGCONT also arrives when a terminal hangs up. If the process was not stopped, Textual's
        method would start a second input thread.
        """
        if self._must_signal_resume:
            super()._sigcont_application()
            self._app.call_later(self._app.refresh, layout=True)

    def run_input_thread(self) -> None:
        """Read input until the app exits. Textual's own method cannot use another parser."""
        parser = _SanitizingParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_POLL_S):
                    data = self._read()
                    if not data:
                        signal.raise_signal(signal.SIGHUP)  # the terminal was closed
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
