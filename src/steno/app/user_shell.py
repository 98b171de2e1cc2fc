"""A shell command of the user: in their own shell and environment, without a sandbox.

No permission rule applies. The command ends together with its children, by itself or when its task
is cancelled.
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
"""How many bytes of the output are recorded: the beginning and the end."""
MAX_SHOWN_CHARACTERS: Final = 1_000_000
"""How many characters are shown while it runs: endless output would fill the memory."""
_DEFAULT_SHELL: Final = "/bin/sh"
_SHELL_VARIABLES: Final = {
    # There is no pager here, and cursor movements are shown as escapes.
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
"""Effectively no limits: the user can interrupt the command."""


class ShellResult(NamedTuple):
    """The result of a command."""

    status: int | None
    """As in shells: 128 plus the number of a signal. None if it was ended from outside."""
    output: str
    """Standard output and errors; of a long one, the beginning and the end."""


@final
class OutputLimiter:
    """Passes on the beginning of an output, and a line about the rest."""

    def __init__(
        self, emit: Callable[[str], None], max_characters: int = MAX_SHOWN_CHARACTERS
    ) -> None:
        """Take the function that receives the text, and the limit."""
        self._emit = emit
        self._remaining = max_characters

    def __call__(self, text: str) -> None:
        """Pass on the next text."""
        if self._remaining <= 0:
            return
        shown = text[: self._remaining]
        self._remaining -= len(text)
        gap = "\n[... there is more, which is not shown while it runs ...]\n"
        self._emit(shown if self._remaining > 0 else f"{shown}{gap}")


async def run_shell(command: str, folder: Path, on_output: Callable[[str], None]) -> ShellResult:
    """Run a command to its end; `on_output` receives its output as it arrives.

    When cancelled, it ends the command first. Raises InvalidValue, Unavailable.
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
    """Return the user's own shell, if it exists."""
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
