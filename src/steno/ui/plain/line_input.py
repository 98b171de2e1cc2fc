"""Input line by line: a line editor, multi-line input, and a reader of lines.

GNU readline edits the line in a thread, because it blocks and cannot be stopped while it waits for
a key. During that time, Ctrl+C is a key and not a signal. The key binding for Ctrl+C replaces the
line with a Ctrl+C character and submits the line. A cancelled read restores the terminal, but its
thread continues to wait.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import Any, Final, TypeAlias, final

from steno.app.commands.table import Suggestion
from steno.errors import StenoError
from steno.render.terminal_text import is_dumb_terminal
from steno.ui.prompt_state import CompletionState, insertion_text, word_at

_CTRL_C: Final = "\x03"
# Uses key sequences that no keyboard sends, to avoid collisions with the bindings of the user.
_READLINE_BINDINGS: Final = (
    r'"\e[9999;1~": kill-whole-line',
    r'"\e[9999;2~": quoted-insert',
    r'"\e[9999;3~": accept-line',
    r'"\C-c": "\e[9999;1~\e[9999;2~\C-c\e[9999;3~"',
)
_READLINE_SETTINGS: Final = (
    *(
        "$if mode=vi",
        "set keymap vi-command",
        *_READLINE_BINDINGS,
        "set keymap vi-insert",
        "$endif",
    ),
    *_READLINE_BINDINGS,
    "tab: complete",
)
_BRACKETED_PASTE_OFF: Final = "\x1b[?2004l"
_COMPLETION_TIMEOUT_S: Final = 2.0
FindCompletions: TypeAlias = Callable[[str], Coroutine[Any, Any, Sequence[Suggestion]]]
"""Returns suggestions for the typed text; see `AgentSession.complete`."""
_TRIPLE_QUOTES: Final = '"""'
_READ_SIZE: Final = 65_536


class InputNoLongerNeeded(Exception):
    """Raised when a line is no longer needed, for example because its request was withdrawn."""


class LineInterrupted(Exception):
    """Raised when the user presses Ctrl+C in the line editor."""


def has_readline(environ: Mapping[str, str]) -> bool:
    """Return whether GNU readline can edit lines on the terminal of this process."""
    streams = ((sys.stdin, 0), (sys.stdout, 1))
    try:
        is_own = all(
            stream.fileno() == descriptor and stream.isatty() for stream, descriptor in streams
        )
        readline = import_module("readline")
    except (ImportError, OSError, ValueError, AttributeError):
        return False
    is_gnu = "libedit" not in (readline.__doc__ or "")
    return is_own and is_gnu and not is_dumb_terminal(environ)


@final
class ReadlineEditor:
    """A line editor that uses GNU readline on the terminal of this process."""

    def __init__(self, complete: FindCompletions, history: Sequence[str] = ()) -> None:
        self._complete = complete
        self._readline: Any = import_module("readline")
        self._loop = asyncio.get_running_loop()
        self._draft = ""
        self._matches: list[str] = []
        self._readline.set_auto_history(False)
        self._readline.set_completer_delims(" \t\n")
        self._readline.set_completer(self._match)
        self._readline.set_startup_hook(self._put_draft)
        for line in _READLINE_SETTINGS:
            self._readline.parse_and_bind(line)
        for text in history:
            self.add_history(text)

    @property
    def typed(self) -> str:
        """The text that the user has typed so far."""
        return str(self._readline.get_line_buffer())

    def add_history(self, text: str) -> None:
        """Add a text to the history of the editor."""
        self._readline.add_history(text)

    def prefill(self, text: str) -> None:
        """Insert a text at the start of the next line, for the user to edit."""
        self._draft = text

    async def read_line(self, prompt: str) -> str | None:
        """Read a line; return None at the end of the input. Raises LineInterrupted on Ctrl+C."""
        done: asyncio.Future[str | None] = self._loop.create_future()

        def set_result(line: str | None) -> None:
            if not done.done():
                done.set_result(line)

        def read() -> None:
            try:
                line: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                line = None
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(set_result, line)

        with _without_ctrl_c(0):
            Thread(target=read, daemon=True, name="steno-line").start()
            try:
                line = await done
            except asyncio.CancelledError:
                sys.stdout.write(f"{_BRACKETED_PASTE_OFF}\n")
                sys.stdout.flush()
                raise
        if line == _CTRL_C:
            raise LineInterrupted
        return line

    def close(self) -> None:
        """Remove the completer and the startup hook."""
        self._readline.set_completer(None)
        self._readline.set_startup_hook(None)

    # -- called in the thread of readline ----------------------------------------------------

    def _put_draft(self) -> None:
        if self._draft:
            draft, self._draft = self._draft, ""
            self._readline.insert_text(draft)

    def _match(self, _: str, number: int) -> str | None:
        if number == 0:
            self._matches = self._find_matches()
        return self._matches[number] if number < len(self._matches) else None

    def _find_matches(self) -> list[str]:
        line, begin = self.typed, int(self._readline.get_begidx())
        word = word_at(line, int(self._readline.get_endidx()), is_whole_text=True)
        if word is None or word.start > begin:
            return []
        completion = CompletionState()
        completion.set_word(word)
        completion.set_suggestions(word.typed, self._fetch_completions(word.typed))
        return [
            (line[: word.start] + insertion_text(choice))[begin:] for choice in completion.choices
        ]

    def _fetch_completions(self, typed: str) -> Sequence[Suggestion]:
        future = asyncio.run_coroutine_threadsafe(self._complete(typed), self._loop)
        try:
            return future.result(_COMPLETION_TIMEOUT_S)
        except (TimeoutError, CancelledError, StenoError, OSError):
            future.cancel()
            return ()


@contextmanager
def _without_ctrl_c(descriptor: int) -> Generator[None]:
    """Treat Ctrl+C as an ordinary key inside the `with` block, then restore the terminal."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        yield
        return
    modified = termios.tcgetattr(descriptor)
    modified[6][termios.VINTR] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
    termios.tcsetattr(descriptor, termios.TCSANOW, modified)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


@final
class MultilineInput:
    """Joins lines that end with a backslash, or that are enclosed in triple quotes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._is_quoted = False

    @property
    def is_open(self) -> bool:
        """Whether the text needs more lines."""
        return self._is_quoted or bool(self._lines)

    def feed(self, line: str) -> str | None:
        """Add a line; return the complete text, or None if more lines must follow."""
        if not self.is_open and line.startswith(_TRIPLE_QUOTES):
            self._is_quoted = True
            line = line.removeprefix(_TRIPLE_QUOTES)
            if not line:
                return None
        if self._is_quoted:
            is_last = line.rstrip().endswith(_TRIPLE_QUOTES)
            self._lines.append(line.rstrip().removesuffix(_TRIPLE_QUOTES) if is_last else line)
        else:
            is_last = not line.endswith("\\")
            self._lines.append(line if is_last else line[:-1])
        return self.end() if is_last else None

    def end(self) -> str:
        """Return the text so far, even if it is incomplete, and start a new text."""
        text = "\n".join(self._lines)
        if self._is_quoted:
            text = text.removesuffix("\n")  # the closing quotes were on their own line
        self._lines, self._is_quoted = [], False
        return text


@final
class LineReader:
    """Reads lines from a file descriptor, only inside a `reading` block."""

    def __init__(self, descriptor: int) -> None:
        """Set the file descriptor, which the caller must close."""
        self._descriptor = descriptor
        self.is_terminal: Final = os.isatty(descriptor)
        self._buffer = b""
        self.has_ended: bool = False

    @property
    def has_line(self) -> bool:
        """Whether a complete line was received."""
        return b"\n" in self._buffer

    @property
    def is_exhausted(self) -> bool:
        """Whether the input has ended and every line was read."""
        return self.has_ended and not self._buffer

    def next_line(self) -> str | None:
        """Return the next line; None if no complete line was received.

        At the end of the input, the last line need not have a line break.
        """
        line, end, rest = self._buffer.partition(b"\n")
        if not end and not (self.has_ended and line):
            return None
        self._buffer = rest
        return line.decode(errors="replace").removesuffix("\r")

    def discard(self) -> None:
        """Discard the lines typed so far; lines from a pipe are retained."""
        if self.is_terminal:
            self._buffer = b""
            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    @contextmanager
    def reading(self, on_input: Callable[[], object]) -> Generator[None]:
        """Read input inside the `with` block, and call `on_input` after each read.

        Nothing is read if a line was already received. A regular file is read before the block,
        at least up to the next line, without a call of `on_input`.
        """
        loop = asyncio.get_running_loop()

        def read() -> None:
            self._read_chunk()
            if self.has_ended:
                loop.remove_reader(self._descriptor)
            on_input()

        if self._has_next():
            yield
            return
        try:
            loop.add_reader(self._descriptor, read)
        except PermissionError:  # epoll rejects regular files, which never block
            while not self._has_next():
                self._read_chunk()
            yield
            return
        try:
            yield
        finally:
            loop.remove_reader(self._descriptor)

    def _has_next(self) -> bool:
        return self.has_ended or self.has_line

    def _read_chunk(self) -> None:
        try:
            chunk = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:  # another reader took the input
            return
        except OSError:  # the terminal was closed
            chunk = b""
        self._buffer += chunk
        self.has_ended = not chunk
