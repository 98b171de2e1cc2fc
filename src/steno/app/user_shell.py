"""A command that a person runs: in their own shell and environment, and in no sandbox.

It is theirs, so no rule is asked; but it ends with all that it has started, by itself or when
whoever waits for it is cancelled.
"""

from __future__ import annotations

import codecs
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.errors import InvalidValue, ToolFailed, Unavailable
from steno.render.quantities import format_count
from steno.tools.shell.process import (
    CommandExit,
    CommandLimits,
    CommandProcess,
    ExitCause,
    append_notes,
)
from steno.values import is_utf8_text

MAX_RECORDED_BYTES: Final = 100_000
"""How many bytes of what a command says go on record: those at the beginning and at the end."""
MAX_SHOWN_CHARACTERS: Final = 1_000_000
"""How many characters are shown while it runs: one that never ends would fill the memory."""
_DEFAULT_SHELL: Final = "/bin/sh"
_SHELL_VARIABLES: Final = {
    # Nobody can turn pages here, and what moves the cursor is shown as an escape.
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}
_SHELL_LIMITS: Final = CommandLimits(
    max_output_bytes=1 << 40,
    kept_output_bytes=MAX_RECORDED_BYTES,
    max_processes=1 << 16,
    max_file_bytes=1 << 60,
)
"""No limits to speak of: whoever types the command can also interrupt it."""


class ShellResult(NamedTuple):
    """What came of a command."""

    status: int | None
    """As shells have it: 128 and the number of a signal. None where it was ended from outside."""
    output: str
    """What it printed, also as errors; of much, the beginning and the end."""


@final
class OutputLimiter:
    """Tells the beginning of what a command prints, and that there is more."""

    def __init__(
        self, emit: Callable[[str], None], max_characters: int = MAX_SHOWN_CHARACTERS
    ) -> None:
        """Take whoever is to hear it."""
        self._emit = emit
        self._remaining = max_characters

    def __call__(self, text: str) -> None:
        """Take what it prints next."""
        if self._remaining <= 0:
            return
        shown = text[: self._remaining]
        self._remaining -= len(text)
        gap = "\n[... there is more, which is not shown while it runs ...]\n"
        self._emit(shown if self._remaining > 0 else f"{shown}{gap}")


async def run_shell(command: str, folder: Path, on_output: Callable[[str], None]) -> ShellResult:
    """Run a command to its end; `tell` gets what it prints as it comes.

    When cancelled, all of it is ended first. Raises InvalidValue, Unavailable.
    """
    if not command.strip() or not is_utf8_text(command) or "\0" in command:
        raise InvalidValue(
            "say which command to run, as in !git status", code="empty_command", place="shell"
        )
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def on_bytes(data: bytes) -> None:
        if text := decoder.decode(data):
            on_output(text)

    try:
        process = await CommandProcess.start(
            (_user_shell(), "-c", command),
            folder=folder,
            environ={**os.environ, **_SHELL_VARIABLES},
            limits=_SHELL_LIMITS,
            is_wrapped=False,
            on_output=on_bytes,
        )
        ending = await process.wait()
    except ToolFailed as exc:
        raise Unavailable(exc.message, code="shell_unavailable", place="shell") from exc
    if rest := decoder.decode(b"", final=True):
        on_output(rest)
    output = process.capture.take().decode("utf-8", "replace")
    return ShellResult(_exit_status(ending), append_notes(output, _leftover_notes(ending)))


def _user_shell() -> str:
    """Return the person's own shell, if it is there."""
    named = os.environ.get("SHELL", "")
    return named if named.startswith("/") and shutil.which(named) else _DEFAULT_SHELL


def _exit_status(ending: CommandExit) -> int | None:
    return ending.exit_code if ending.cause is ExitCause.DONE else None


def _leftover_notes(ending: CommandExit) -> list[str]:
    if not ending.left:
        return []
    left = format_count(
        ending.left, "process that it left behind was", "processes that it left were"
    )
    return [f"{left} ended with it"]
