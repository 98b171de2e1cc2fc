"""Ask the person at the terminal about a call.

The terminal itself is opened, not stdin and stdout: a prompt may come from a pipe, and answers go
to a program. Waiting for a key leaves the event loop free, and can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
import errno
import getpass
import importlib
import os
import termios
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO, final

from steno.ports import Question, Scope, Verdict
from steno.printable import printable

_SCOPES: Final = {
    "y": Scope.ONCE,
    "yes": Scope.ONCE,
    "s": Scope.SESSION,
    "session": Scope.SESSION,
    "p": Scope.PROJECT,
    "project": Scope.PROJECT,
    "u": Scope.USER,
    "user": Scope.USER,
}
_ONCE: Final = ("[y]es, once",)
_ALWAYS: Final = ("for the [s]ession", "[p]roject", "[u]ser")
_NO: Final = ("[n]o", "no, and [e]xplain why")
_VIEW: Final = ("[v]iew all of it",)
_HELP: Final = ("[?]",)
_LETTERS: Final = (
    ("y", "let this call run, with exactly these arguments"),
    ("s", "and whatever else the rule covers, in this session"),
    ("p", "and whatever else the rule covers, in this folder from now on"),
    ("u", "and whatever else the rule covers, in all folders from now on"),
    ("n", "do not let it run; the model is told so, and goes on"),
    ("e", "do not let it run, and tell the model why"),
    ("v", "show all of what the call would do"),
)
"""What each answer means; those that are not offered are not explained."""
_STYLES: Final = {"@@": "cyan", "+": "green", "-": "red"}
_MOST_LINES: Final = 60
_LONGEST_LINE: Final = 2_000
NO_TERMINAL: Final = "there is no terminal at which somebody could be asked"


@final
class ConsoleApprover:
    """Asks one question after the other; who closes the input or goes away has said no."""

    def __init__(self, *, terminal: str | None = None, actor: str | None = None) -> None:
        """Take another terminal than that of this process, or another name for who sits there."""
        self._terminal = terminal
        self._actor = _user() if actor is None else actor
        self._lock = asyncio.Lock()

    async def ask(self, question: Question) -> Verdict:
        """Show what the call would do, and return what the person says."""
        async with self._lock:
            try:
                with _opened(self._terminal or _own_terminal()) as terminal:
                    return await self._read_decision(question, terminal)
            except OSError:
                return Verdict(allowed=False, actor="nobody", reason=NO_TERMINAL)

    async def _read_decision(self, question: Question, terminal: _Terminal) -> Verdict:
        lines = printable(question.preview or question.call.arguments).split("\n")
        shown = _shortened(lines)
        terminal.show(f"{question.call.name} asks for permission to {question.capability}:")
        terminal.quote(shown)
        if question.rule:
            terminal.show(f"rule for more than once: {printable(question.rule)}")
        always = _ALWAYS if question.rule else ()
        view = _VIEW if shown != lines else ()
        prompt = " / ".join(_ONCE + always + _NO + view + _HELP) + "? "
        while True:
            answer = await terminal.read_line(prompt)
            word = None if answer is None else answer.strip().lower()
            scope = _SCOPES.get(word or "")
            if scope is not None and (question.rule or scope is Scope.ONCE):
                rule = None if scope is Scope.ONCE else question.rule
                return Verdict(allowed=True, actor=self._actor, scope=scope, rule=rule)
            if word in (None, "n", "no"):
                return Verdict(allowed=False, actor=self._actor)
            if word in ("e", "explain"):
                reason = await terminal.read_line("what should the model know? ")
                return Verdict(
                    allowed=False, actor=self._actor, reason=(reason or "").strip() or None
                )
            if word in ("v", "view"):
                terminal.quote(lines)
            if word in ("?", "h", "help"):
                for letter, meaning in _LETTERS:
                    if f"[{letter}]" in prompt:
                        terminal.show(f"  {letter}  {meaning}")


def has_terminal() -> bool:
    """Tell whether somebody could be asked at the terminal of this process."""
    try:
        with _opened(_own_terminal()):
            return True
    except OSError:
        return False


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}"


def _shortened(lines: Sequence[str]) -> list[str]:
    """Return as many lines as one looks at; what is left out is said."""
    kept = [
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]} … and {len(line) - _LONGEST_LINE:,} more characters"
        for line in lines
    ]
    if len(kept) <= _MOST_LINES:
        return kept
    half = _MOST_LINES // 2
    return [*kept[:half], f"… {len(kept) - 2 * half:,} lines are not shown …", *kept[-half:]]


# -- the terminal ----------------------------------------------------------------------------------


def _own_terminal() -> str:
    # By its own name if possible: not every system can wait for /dev/tty.
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            return os.ttyname(descriptor)
    return "/dev/tty"


@contextmanager
def _opened(name: str) -> Generator[_Terminal]:
    """Open a terminal twice: what keeps reads from blocking must not cut off what is written."""
    keys = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not os.isatty(keys):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        screen = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(screen, "w", errors="backslashreplace") as stream:
            yield _Terminal(keys, stream)
    finally:
        os.close(keys)


@final
class _Terminal:
    """Shows lines and reads lines."""

    def __init__(self, keys: int, screen: TextIO) -> None:
        self._keys = keys
        self._screen = screen
        self._print_styled = _load_rich(screen)

    def show(self, text: str, style: str = "") -> None:
        """Print a line; it is printable."""
        if self._print_styled is not None and style:
            self._print_styled(text, style)
        else:
            print(text, file=self._screen, flush=True)

    def quote(self, lines: Sequence[str]) -> None:
        """Print what somebody else wrote, so that nobody takes it for a question of ours."""
        is_diff = any(line.startswith("@@ ") for line in lines)
        for line in lines:
            style = next((of for mark, of in _STYLES.items() if line.startswith(mark)), "")
            self.show(f"│ {line}", style if is_diff else "")

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line that is typed from now on; None at the end of the input."""
        with suppress(termios.error):
            # What was typed before the question was there to be read is no answer to it.
            termios.tcflush(self._keys, termios.TCIFLUSH)
        print(prompt, end="", file=self._screen, flush=True)
        typed: bytes | None = None
        try:
            typed = await self._read_typed()
        finally:
            if typed is None:  # nobody has ended the line of the question
                with suppress(OSError):
                    print(file=self._screen, flush=True)
        return None if typed is None else typed.decode(errors="replace")

    async def _read_typed(self) -> bytes | None:
        typed = b""
        while not typed.endswith(b"\n"):
            await self._wait_until_readable()
            try:
                piece = os.read(self._keys, 4096)
            except BlockingIOError:  # somebody else took it
                continue
            if not piece:
                return None
            typed += piece
        return typed

    async def _wait_until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._keys, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._keys)


def _load_rich(screen: TextIO) -> Callable[[str, str], None] | None:
    """Return what prints a text in a style, if rich is there (`pip install 'steno[cli]'`)."""
    try:
        console = importlib.import_module("rich.console").Console(file=screen)
        text = importlib.import_module("rich.text").Text
    except ImportError:
        return None

    def styled(line: str, style: str) -> None:
        console.print(text(line, style), soft_wrap=True)

    return styled
