"""Ask the user at the terminal whether a call may run.

The terminal itself is opened, not stdin and stdout: a prompt may come from a pipe, and the response
may go to a program. Waiting for a key leaves the event loop free, and can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
import errno
import os
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TextIO, final

from steno.app.folders import user_name
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.render.table_output import load_rich
from steno.render.terminal_text import terminal_text
from steno.ui.plain.line_writer import shorten_lines

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
_DIFF_STYLES: Final = {"@@": "cyan", "+": "green", "-": "red"}
_MAX_LINES: Final = 60
_MAX_LINE_LENGTH: Final = 2_000
NO_TERMINAL: Final = "there is no terminal at which somebody could be asked"


class _Answer(NamedTuple):
    """An answer to a request, and when it is offered."""

    letter: str
    choice: str
    """The answer as the prompt shows it."""
    help: str = ""
    needs_rule: bool = False
    needs_long_preview: bool = False


_ANSWERS: Final = (
    _Answer("y", "[y]es, once", "let this call run, with exactly these arguments"),
    _Answer(
        "s",
        "for the [s]ession",
        "and whatever else the rule covers, in this session",
        needs_rule=True,
    ),
    _Answer(
        "p",
        "[p]roject",
        "and whatever else the rule covers, in this folder from now on",
        needs_rule=True,
    ),
    _Answer(
        "u",
        "[u]ser",
        "and whatever else the rule covers, in all folders from now on",
        needs_rule=True,
    ),
    _Answer("n", "[n]o", "do not let it run; the model is told so, and goes on"),
    _Answer("e", "no, and [e]xplain why", "do not let it run, and tell the model why"),
    _Answer("v", "[v]iew all of it", "show all of what the call would do", needs_long_preview=True),
    _Answer("?", "[?]"),
)


@final
class ConsoleApprover:
    """Asks one question after the other; the end of the input is a denial."""

    def __init__(self, *, terminal: str | None = None, actor: str | None = None) -> None:
        """Take a terminal other than that of this process, or a name other than the user's."""
        self._terminal = terminal
        self._actor = actor or user_name() or f"user {os.getuid()}"
        self._lock = asyncio.Lock()

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Show a preview of the call, and return the decision of the user."""
        async with self._lock:
            try:
                with _open_terminal(self._terminal or _terminal_path()) as terminal:
                    return await self._read_decision(request, terminal)
            except OSError:
                return ApprovalDecision(allowed=False, actor="nobody", reason=NO_TERMINAL)

    async def _read_decision(
        self, request: ApprovalRequest, terminal: _Terminal
    ) -> ApprovalDecision:
        lines = terminal_text(request.preview.text or request.call.arguments).split("\n")
        preview = shorten_lines([_shorten_line(line) for line in lines], _MAX_LINES)
        terminal.show(f"{request.call.name} asks for permission to {request.capability}:")
        terminal.quote(preview)
        if request.rule:
            terminal.show(f"rule for more than once: {terminal_text(request.rule)}")
        offered = _offered_answers(has_rule=bool(request.rule), is_shortened=preview != lines)
        prompt = " / ".join([answer.choice for answer in offered]) + "? "
        while True:
            line = await terminal.read_line(prompt)
            choice = None if line is None else line.strip().lower()
            scope = _SCOPE_ANSWERS.get(choice or "")
            if scope is not None and (request.rule or scope is GrantScope.ONCE):
                rule = None if scope is GrantScope.ONCE else request.rule
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
                for answer in offered:
                    if answer.help:
                        terminal.show(f"  {answer.letter}  {answer.help}")


def has_terminal() -> bool:
    """Return whether this process has a terminal at which it can ask."""
    try:
        with _open_terminal(_terminal_path()):
            return True
    except OSError:
        return False


def _offered_answers(*, has_rule: bool, is_shortened: bool) -> list[_Answer]:
    return [
        answer
        for answer in _ANSWERS
        if (has_rule or not answer.needs_rule) and (is_shortened or not answer.needs_long_preview)
    ]


def _shorten_line(line: str) -> str:
    omitted = len(line) - _MAX_LINE_LENGTH
    return line if omitted <= 0 else f"{line[:_MAX_LINE_LENGTH]} … and {omitted:,} more characters"


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
    input_fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not os.isatty(input_fd):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        output_fd = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(output_fd, "w", errors="backslashreplace") as stream:
            yield _Terminal(input_fd, stream)
    finally:
        os.close(input_fd)


@final
class _Terminal:
    """Shows lines and reads lines."""

    def __init__(self, input_fd: int, output: TextIO) -> None:
        self._input_fd = input_fd
        self._output = output
        self._rich = load_rich(output)

    def show(self, text: str, style: str = "") -> None:
        """Print a line, which has to be printable."""
        if self._rich is not None and style:
            self._rich.print([(text, style)])
        else:
            print(text, file=self._output, flush=True)

    def quote(self, lines: Sequence[str]) -> None:
        """Print untrusted text after a bar, so that it cannot pass for a question of steno."""
        is_diff = any(line.startswith("@@ ") for line in lines)
        for line in lines:
            styles = [style for mark, style in _DIFF_STYLES.items() if line.startswith(mark)]
            self.show(f"│ {line}", styles[0] if is_diff and styles else "")

    async def read_line(self, prompt: str) -> str | None:
        """Return the next line that is typed from now on; None at the end of the input."""
        with suppress(termios.error):
            # Keys that were typed before the question appeared are no answer to it.
            termios.tcflush(self._input_fd, termios.TCIFLUSH)
        print(prompt, end="", file=self._output, flush=True)
        typed: bytes | None = None
        try:
            typed = await self._read_typed()
        finally:
            if typed is None:  # the line of the question has no end yet
                with suppress(OSError):
                    print(file=self._output, flush=True)
        return None if typed is None else typed.decode(errors="replace")

    async def _read_typed(self) -> bytes | None:
        typed = b""
        while not typed.endswith(b"\n"):
            await self._wait_until_readable()
            try:
                piece = os.read(self._input_fd, 4096)
            except BlockingIOError:  # another reader took it
                continue
            if not piece:
                return None
            typed += piece
        return typed

    async def _wait_until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._input_fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._input_fd)
