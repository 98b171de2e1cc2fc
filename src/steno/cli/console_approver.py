"""Ask the user at the terminal whether a call may run.

The terminal itself is opened, not stdin and stdout: a prompt may come from a pipe, and the response
may go to a program. Waiting for a key leaves the event loop free, and can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import os
import termios
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO, final

from steno.app.folders import user_name
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.render.terminal_text import terminal_text

_SCOPE_ANSWERS: Final = {
    "y": GrantScope.ONCE,
    "yes": GrantScope.ONCE,
    "s": GrantScope.SESSION,
    "session": GrantScope.SESSION,
    "p": GrantScope.PROJECT,
    "project": GrantScope.PROJECT,
    "u": GrantScope.USER,
    "user": GrantScope.USER,
}
_ONCE_CHOICES: Final = ("[y]es, once",)
_LASTING_CHOICES: Final = ("for the [s]ession", "[p]roject", "[u]ser")
_DENY_CHOICES: Final = ("[n]o", "no, and [e]xplain why")
_VIEW_CHOICES: Final = ("[v]iew all of it",)
_HELP_CHOICES: Final = ("[?]",)
_ANSWER_HELP: Final = (
    ("y", "let this call run, with exactly these arguments"),
    ("s", "and whatever else the rule covers, in this session"),
    ("p", "and whatever else the rule covers, in this folder from now on"),
    ("u", "and whatever else the rule covers, in all folders from now on"),
    ("n", "do not let it run; the model is told so, and goes on"),
    ("e", "do not let it run, and tell the model why"),
    ("v", "show all of what the call would do"),
)
"""The meaning of each answer; only those that are offered are explained."""
_DIFF_STYLES: Final = {"@@": "cyan", "+": "green", "-": "red"}
_MAX_LINES: Final = 60
_MAX_LINE_LENGTH: Final = 2_000
NO_TERMINAL: Final = "there is no terminal at which somebody could be asked"


@final
class ConsoleApprover:
    """Asks one question after the other; the end of the input is a denial."""

    def __init__(self, *, terminal: str | None = None, actor: str | None = None) -> None:
        """Take a terminal other than that of this process, or a name other than the user's."""
        self._terminal = terminal
        self._actor = actor or user_name() or f"user {os.getuid()}"
        self._lock = asyncio.Lock()

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        """Show a preview of the call, and return the decision of the user."""
        async with self._lock:
            try:
                with _open_terminal(self._terminal or _terminal_path()) as terminal:
                    return await self._read_decision(question, terminal)
            except OSError:
                return ApprovalDecision(allowed=False, actor="nobody", reason=NO_TERMINAL)

    async def _read_decision(
        self, question: ApprovalRequest, terminal: _Terminal
    ) -> ApprovalDecision:
        lines = terminal_text(question.preview or question.call.arguments).split("\n")
        preview = _truncate_lines(lines)
        terminal.show(f"{question.call.name} asks for permission to {question.capability}:")
        terminal.quote(preview)
        if question.rule:
            terminal.show(f"rule for more than once: {terminal_text(question.rule)}")
        lasting = _LASTING_CHOICES if question.rule else ()
        view = _VIEW_CHOICES if preview != lines else ()
        prompt = " / ".join(_ONCE_CHOICES + lasting + _DENY_CHOICES + view + _HELP_CHOICES) + "? "
        while True:
            answer = await terminal.read_line(prompt)
            choice = None if answer is None else answer.strip().lower()
            scope = _SCOPE_ANSWERS.get(choice or "")
            if scope is not None and (question.rule or scope is GrantScope.ONCE):
                rule = None if scope is GrantScope.ONCE else question.rule
                return ApprovalDecision(allowed=True, actor=self._actor, scope=scope, rule=rule)
            if choice in (None, "n", "no"):
                return ApprovalDecision(allowed=False, actor=self._actor)
            if choice in ("e", "explain"):
                reason = await terminal.read_line("what should the model know? ")
                return ApprovalDecision(
                    allowed=False, actor=self._actor, reason=(reason or "").strip() or None
                )
            if choice in ("v", "view"):
                terminal.quote(lines)
            if choice in ("?", "h", "help"):
                for letter, meaning in _ANSWER_HELP:
                    if f"[{letter}]" in prompt:
                        terminal.show(f"  {letter}  {meaning}")


def has_terminal() -> bool:
    """Return whether this process has a terminal at which it can ask."""
    try:
        with _open_terminal(_terminal_path()):
            return True
    except OSError:
        return False


def _truncate_lines(lines: Sequence[str]) -> list[str]:
    """Return the first and last lines of a long text, with the number of lines between them."""
    kept = [
        line
        if len(line) <= _MAX_LINE_LENGTH
        else f"{line[:_MAX_LINE_LENGTH]} … and {len(line) - _MAX_LINE_LENGTH:,} more characters"
        for line in lines
    ]
    if len(kept) <= _MAX_LINES:
        return kept
    half = _MAX_LINES // 2
    return [*kept[:half], f"… {len(kept) - 2 * half:,} lines are not shown …", *kept[-half:]]


# -- the terminal ----------------------------------------------------------------------------------


def _terminal_path() -> str:
    # By its own name if possible: not every system can wait for /dev/tty.
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            return os.ttyname(descriptor)
    return "/dev/tty"


@contextmanager
def _open_terminal(name: str) -> Generator[_Terminal]:
    """Open a terminal twice: reads must not block, and writes must not be cut off."""
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
        """Print a line, which has to be printable."""
        if self._print_styled is not None and style:
            self._print_styled(text, style)
        else:
            print(text, file=self._screen, flush=True)

    def quote(self, lines: Sequence[str]) -> None:
        """Print untrusted text after a bar, so that it cannot pass for a question of steno."""
        is_diff = any(line.startswith("@@ ") for line in lines)
        for line in lines:
            style = next((of for mark, of in _DIFF_STYLES.items() if line.startswith(mark)), "")
            self.show(f"│ {line}", style if is_diff else "")

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line that is typed from now on; None at the end of the input."""
        with suppress(termios.error):
            # Keys that were typed before the question appeared are no answer to it.
            termios.tcflush(self._keys, termios.TCIFLUSH)
        print(prompt, end="", file=self._screen, flush=True)
        typed: bytes | None = None
        try:
            typed = await self._read_typed()
        finally:
            if typed is None:  # the line of the question has no end yet
                with suppress(OSError):
                    print(file=self._screen, flush=True)
        return None if typed is None else typed.decode(errors="replace")

    async def _read_typed(self) -> bytes | None:
        typed = b""
        while not typed.endswith(b"\n"):
            await self._wait_until_readable()
            try:
                piece = os.read(self._keys, 4096)
            except BlockingIOError:  # another reader took it
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
    """Return a function that prints styled text; None if rich is not installed (`steno[cli]`)."""
    try:
        console = importlib.import_module("rich.console").Console(file=screen)
        text = importlib.import_module("rich.text").Text
    except ImportError:
        return None

    def styled(line: str, style: str) -> None:
        console.print(text(line, style), soft_wrap=True)

    return styled
