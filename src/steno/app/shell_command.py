"""The shell commands of the user, each as a separate task.

A command runs in the user's own shell and environment, without a sandbox, and no permission rule
applies. When the command exits or its task is cancelled, its child processes are ended too.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.agent import EntryRecorded
from steno.agent.dispatch import ReportedOutput
from steno.agent.session_events import ErrorRaised, ShellEnded, ShellOutput, ShellStarted
from steno.app.environment import user_environment
from steno.app.folders import display_folder
from steno.app.session_state import SessionState, as_steno_error
from steno.errors import InvalidValue, StenoError, ToolFailed, Unavailable
from steno.lazy_task import start_task
from steno.ports import SetupNotice
from steno.records.entry import ShellCommand
from steno.render.quantities import format_count
from steno.tools.shell.process import CommandLimits, CommandProcess, ExitCause, append_notes
from steno.values import is_utf8_text, replace_lone_surrogates

MAX_RECORDED_BYTES: Final = 100_000
"""The maximum number of recorded bytes of an output; the middle of a longer one is omitted."""
MAX_SHOWN_CHARACTERS: Final = 1_000_000
"""The maximum number of characters shown while a command runs; endless output would fill memory."""
_DEFAULT_SHELL: Final = "/bin/sh"
_SHELL_VARIABLES: Final = {
    # There is no pager here, and cursor movements are shown as escapes.
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}
_SHELL_LIMITS: Final = CommandLimits(
    max_output_bytes=1 << 40,
    max_captured_bytes=MAX_RECORDED_BYTES,
    max_processes=1 << 16,
    max_file_bytes=1 << 60,
    max_memory_bytes=None,
)
"""Effectively no limits except for the recorded output: the user can interrupt the command."""
_STOPPED_NOTE: Final = "[stopped]"
_CD_COMMAND: Final = re.compile(r"\s*cd(?:\s+[^;&|\n]*)?")


class ShellResult(NamedTuple):
    """The result of a command."""

    status: int | None
    """The exit status; after a signal, 128 plus its number; None if steno stopped the command."""
    output: str
    """Standard output and standard error; the middle of a long output is omitted."""


@final
class OutputLimiter:
    """Passes on the beginning of an output, and a note that the rest is not shown."""

    def __init__(
        self, emit: Callable[[str], None], max_characters: int = MAX_SHOWN_CHARACTERS
    ) -> None:
        self._emit = emit
        self._remaining = max_characters

    def __call__(self, text: str) -> None:
        """Pass on the next part of the output, up to the limit."""
        if self._remaining <= 0:
            return
        head = text[: self._remaining]
        self._remaining -= len(text)
        gap = "\n[... further output is not shown while the command runs ...]\n"
        self._emit(head if self._remaining > 0 else f"{head}{gap}")


@final
class ShellCommandRunner:
    """Runs the shell commands of the user, one at a time, and records their output."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self.task: asyncio.Task[None] | None = None
        """The task of the last command; None before the first one."""

    async def run(self, command: str) -> None:
        """Start a shell command; its output is recorded as a user message when it ends."""
        state = self._state
        async with state.lock:
            state.check_open()
            if not command.strip():
                raise _empty_command()
            if state.is_shell_running:
                raise StenoError(
                    "your last command is still running; interrupt it or wait until it is done",
                    code="shell_running",
                    place="shell",
                )
            await state.lock.run_cancellable(state.open_store())
            state.check_open()
            is_mid_run = state.is_agent_running and not state.agent.is_waiting
            if state.conversation.outstanding and not is_mid_run:
                raise StenoError(
                    "calls of the last turn have no results yet; use /retry first",
                    code="calls_outstanding",
                    place="shell",
                )
            state.is_shell_running = True
            self.task = start_task(self._run(command))
            self.task.add_done_callback(self._end_unstarted)
            state.emit(ShellStarted(command))
            if _CD_COMMAND.fullmatch(command):
                folder = display_folder(str(state.config.folder))
                text = f"cd has no effect: each ! command starts in {folder}, the session's folder"
                state.emit_input_notice(SetupNotice("cd_ignored", text))

    def _end_unstarted(self, task: asyncio.Task[None]) -> None:
        """Report the end of a command whose task was cancelled before it started."""
        if task is self.task and self._state.is_shell_running:
            self._state.is_shell_running = False
            self._state.emit(ShellEnded(None))

    async def _run(self, command: str) -> None:
        state = self._state
        recorded_output = ReportedOutput(OutputLimiter(lambda text: state.emit(ShellOutput(text))))
        status: int | None = None
        try:
            try:
                result = await run_shell_command(command, state.config.folder, recorded_output.add)
            except asyncio.CancelledError:  # by `interrupt`: the output so far is recorded
                result = ShellResult(
                    None,
                    "\n".join(filter(None, [recorded_output.text.rstrip("\n"), _STOPPED_NOTE])),
                )
            status = result.status
            with state.explain_conflicts():
                self._record(command, result)
        except Exception as exc:  # noqa: BLE001 - any failure is reported to listeners
            error = as_steno_error(exc)
            state.emit(ErrorRaised(str(error), error.code))
        finally:
            state.is_shell_running = False
            state.emit(ShellEnded(status))

    def _record(self, command: str, result: ShellResult) -> None:
        state = self._state
        recorded = ShellCommand(
            command=command, output=replace_lone_surrogates(result.output), status=result.status
        )
        if state.is_agent_running and state.agent.is_running and not state.agent.is_waiting:
            state.agent.steer(recorded)
            return
        state.ensure_recorded()
        audit = {"actor": state.actor}
        state.emit(EntryRecorded(state.conversation.append(recorded, audit=audit)))

    def interrupt(self) -> None:
        """Interrupt the command, if one is running."""
        if self.task is not None and self._state.is_shell_running:
            self.task.cancel()


async def run_shell_command(
    command: str, folder: Path, on_output: Callable[[str], None]
) -> ShellResult:
    """Run a command to its end; `on_output` receives its output as it arrives.

    If the call is cancelled, the command is ended first. Raises InvalidValue if the command is
    empty or not valid text, and Unavailable if it cannot be started.
    """
    if not command.strip() or not is_utf8_text(command) or "\0" in command:
        raise _empty_command()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def on_bytes(data: bytes) -> None:
        if text := decoder.decode(data):
            on_output(text)

    try:
        process = await CommandProcess.start(
            (_user_shell(), "-c", command),
            folder=folder,
            environ={**user_environment(), **_SHELL_VARIABLES},
            limits=_SHELL_LIMITS,
            on_output=on_bytes,
        )
        command_exit = await process.wait()
    except ToolFailed as exc:
        raise Unavailable(exc.message, code="shell_unavailable", place="shell") from exc
    if rest := decoder.decode(b"", final=True):
        on_output(rest)
    output = process.capture.take().decode("utf-8", "replace")
    status = command_exit.exit_code if command_exit.cause is ExitCause.DONE else None
    notes: list[str] = []
    if count := command_exit.leftover_processes:
        left = "process that it left running was", "processes that it left running were"
        notes.append(f"{format_count(count, *left)} ended with it")
    return ShellResult(status, append_notes(output, notes))


def _empty_command() -> InvalidValue:
    return InvalidValue(
        "the command is empty or not valid text; type a command such as !git status",
        code="empty_command",
        place="shell",
    )


def _user_shell() -> str:
    shell = os.environ.get("SHELL", "")
    return shell if shell.startswith("/") and shutil.which(shell) else _DEFAULT_SHELL
