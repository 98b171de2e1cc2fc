"""A line with history and completion, as GNU readline edits it; in a thread, since it waits.

Readline cannot be told to stop while it waits for a key. So Ctrl+C is a key while it does, and
no signal: it clears the line and ends it with a mark. Who is cancelled leaves the thread behind
with whatever it waits for, and the terminal as it was.
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

from steno.errors import StenoError
from steno.tui.desk import Candidate
from steno.tui.prompt.completion import Completion, put_in, word_at

_CTRL_C: Final = "\x03"
# Keys that no keyboard has, so that nobody's own settings mean something else by them.
_BINDINGS: Final = (
    r'"\e[9999;1~": kill-whole-line',
    r'"\e[9999;2~": quoted-insert',
    r'"\e[9999;3~": accept-line',
    r'"\C-c": "\e[9999;1~\e[9999;2~\C-c\e[9999;3~"',
)
_SETTINGS: Final = (
    *("$if mode=vi", "set keymap vi-command", *_BINDINGS, "set keymap vi-insert", "$endif"),
    *_BINDINGS,
    "tab: complete",
)
_PASTE_AS_BEFORE: Final = "\x1b[?2004l"
_FEATURELESS: Final = ("", "dumb", "unknown")
_PATIENCE_S: Final = 2.0

Complete: TypeAlias = Callable[[str], Coroutine[Any, Any, Sequence[Candidate]]]
"""Returns what may be meant by what was typed; see `Desk.complete`."""


class Interrupted(Exception):
    """The line was given up."""


def has_readline(environ: Mapping[str, str]) -> bool:
    """Tell whether lines of this process's own terminal can be edited."""
    streams = ((sys.stdin, 0), (sys.stdout, 1))
    try:
        is_own = all(one.fileno() == number and one.isatty() for one, number in streams)
        readline = import_module("readline")
    except (ImportError, OSError, ValueError, AttributeError):
        return False
    is_gnu = "libedit" not in (readline.__doc__ or "")
    return is_own and is_gnu and environ.get("TERM", "") not in _FEATURELESS


@final
class Editor:
    """Lets a person type a line on the terminal of this process."""

    def __init__(self, complete: Complete, history: Sequence[str] = ()) -> None:
        """Take what knows what may be meant, and what was typed before."""
        self._complete = complete
        self._readline: Any = import_module("readline")
        self._loop = asyncio.get_running_loop()
        self._draft = ""
        self._matches: list[str] = []
        self._readline.set_auto_history(False)
        self._readline.set_completer_delims(" \t\n")
        self._readline.set_completer(self._match)
        self._readline.set_startup_hook(self._put_draft)
        for line in _SETTINGS:
            self._readline.parse_and_bind(line)
        for text in history:
            self.add_history(text)

    @property
    def typed(self) -> str:
        """What stands on the line now."""
        return str(self._readline.get_line_buffer())

    def add_history(self, text: str) -> None:
        """Offer a text to whoever goes back."""
        self._readline.add_history(text)

    def prefill(self, text: str) -> None:
        """Begin the next line with a text."""
        self._draft = text

    async def read_line(self, prompt: str) -> str | None:
        """Return a line; None at the end of the input. Raises Interrupted for Ctrl+C."""
        done: asyncio.Future[str | None] = self._loop.create_future()

        def settle(line: str | None) -> None:
            if not done.done():
                done.set_result(line)

        def read() -> None:
            try:
                line: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                line = None
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(settle, line)

        with _without_ctrl_c(0):
            Thread(target=read, daemon=True, name="steno-line").start()
            try:
                line = await done
            except asyncio.CancelledError:
                sys.stdout.write(f"{_PASTE_AS_BEFORE}\n")
                sys.stdout.flush()
                raise
        if line == _CTRL_C:
            raise Interrupted
        return line

    def close(self) -> None:
        """Offer nothing any more."""
        self._readline.set_completer(None)
        self._readline.set_startup_hook(None)

    # -- called in the thread that reads -----------------------------------------------------

    def _put_draft(self) -> None:
        if self._draft:
            draft, self._draft = self._draft, ""
            self._readline.insert_text(draft)

    def _match(self, _: str, number: int) -> str | None:
        if number == 0:
            self._matches = self._find()
        return self._matches[number] if number < len(self._matches) else None

    def _find(self) -> list[str]:
        line, begin = self.typed, int(self._readline.get_begidx())
        word = word_at(line, int(self._readline.get_endidx()), is_all=True)
        if word is None or word.start > begin:
            return []
        completion = Completion()
        completion.set_word(word)
        completion.set_suggestions(word.typed, self._fetch_completions(word.typed))
        return [(line[: word.start] + put_in(one))[begin:] for one in completion.choices]

    def _fetch_completions(self, typed: str) -> Sequence[Candidate]:
        asked = asyncio.run_coroutine_threadsafe(self._complete(typed), self._loop)
        try:
            return asked.result(_PATIENCE_S)
        except (TimeoutError, CancelledError, StenoError, OSError):
            asked.cancel()
            return ()


@contextmanager
def _without_ctrl_c(descriptor: int) -> Generator[None]:
    """Let Ctrl+C be a key as long as the block lasts; the terminal is as before in any case."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        yield
        return
    during = termios.tcgetattr(descriptor)
    during[6][termios.VINTR] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
    termios.tcsetattr(descriptor, termios.TCSANOW, during)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
