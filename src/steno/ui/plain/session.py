"""A session line by line: typed lines become requests, events become lines.

For screen readers, terminals without features, and pipes. It imports `app.session`, not Textual.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO, final

from steno.agent import PromptInput
from steno.agent.events import EntryRecorded
from steno.agent.session_events import BranchChanged, InputReturned, SessionEvent
from steno.app.commands.report import Report, text_report
from steno.app.commands.table import QUIT_HINT, QUIT_WORDS, TypedCommand, parse_slash_command
from steno.app.session import AgentSession
from steno.errors import InvalidValue, StenoError
from steno.render.describe_run import ChangeSummarizer, describe_bug
from steno.ui.help_text import UNFINISHED_NOTICE, build_help
from steno.ui.plain.approvals import LineApprovals
from steno.ui.plain.event_writer import EventWriter, write_recap
from steno.ui.plain.line_input import (
    InputNoLongerNeeded,
    LineInterrupted,
    LineReader,
    MultilineInput,
    ReadlineEditor,
    has_readline,
)
from steno.ui.plain.line_writer import LineWriter
from steno.ui.plain.list_commands import LIST_COMMAND_HINTS, ListCommands
from steno.ui.prompt_state import PromptHistory, sanitize_pasted

_PLAIN_KEYS: Final = (
    ("Enter", "send; while a turn runs, steer it"),
    ("\\ at the end of a line", "the next line belongs to it"),
    ('""" before and behind', "a text of several lines"),
    ("Ctrl+C", "interrupt, or clear the line; twice leaves"),
    ("Ctrl+D", "leave"),
    ("Tab, arrow up", "complete, and what was typed before; where the terminal can"),
)
_CONTINUATION_PROMPT: Final = "... "
_YES: Final = "yes"
"""The answer that confirms."""
_RECENT_ENTRIES: Final = 5
"""A user who returns within this number of entries does not need a recap."""


async def run_plain(
    session: AgentSession,
    *,
    history: Path | None = None,
    stdin: int = 0,
    stdout: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    is_verbose: bool = False,
    first_prompt: str = "",
) -> int:
    """Run a session line by line until the user leaves; return the exit status.

    `history` is the file of typed prompts, `stdin` a descriptor; `first_prompt` is sent first. The
    session stays open.
    """
    reader, prompt_history = LineReader(stdin), PromptHistory(history)
    writer = LineWriter(sys.stdout if stdout is None else stdout, environ)
    editor: ReadlineEditor | None = None
    if stdin == 0 and stdout is None and has_readline(environ):
        editor = ReadlineEditor(session.complete, prompt_history.entries())
    plain = _PlainSession(session, writer, reader, is_verbose=is_verbose)
    plain.use_editor(editor, prompt_history)
    try:
        with _handle_ctrl_c(plain.interrupt, is_enabled=reader.is_terminal):
            await plain.run(first_prompt)
        session_id = session.status.session
        if session_id and reader.is_terminal:
            writer.write("Session", f"{session_id}: steno -c goes on with it")
    finally:
        writer.set_typed_line(None)
        if editor is not None:
            editor.close()
    return 1 if writer.is_closed else 0


@contextmanager
def _handle_ctrl_c(handler: Callable[[], None], *, is_enabled: bool) -> Generator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    # A process that was started in the background ignores it.
    if not (is_enabled and is_main) or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, handler)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@final
class _PlainSession:
    """Reads lines, runs them, and writes events."""

    def __init__(
        self, session: AgentSession, writer: LineWriter, reader: LineReader, *, is_verbose: bool
    ) -> None:
        self._session = session
        self._writer = writer
        self._reader = reader
        self._is_verbose = is_verbose
        self._event_writer = EventWriter(writer, session.headline, is_verbose=is_verbose)
        self._editor: ReadlineEditor | None = None
        self._history = PromptHistory()
        self._approvals = LineApprovals(session, writer, self._read_answer)
        self._lists = ListCommands(session, writer, self._confirm)
        self._multiline = MultilineInput()
        self._wake = asyncio.Event()
        self._current_task: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._interrupt_count = 0
        """The number of times Ctrl+C was pressed since the last line."""
        self._is_stopped = False
        self._last_entry: str | None = None
        """The last written entry."""
        self._shown_session: str | None = ""
        """The session that was shown last."""

    def use_editor(self, editor: ReadlineEditor | None, history: PromptHistory) -> None:
        """Set the line editor, if there is one, and the history."""
        self._editor, self._history = editor, history

    async def run(self, first_prompt: str = "") -> None:
        """Read and run lines until the user leaves."""
        self._session.subscribe(ChangeSummarizer(self._on_event, is_verbose=self._is_verbose))
        self._show_status()
        if first_prompt:
            await self._submit(first_prompt, is_typed=False)
        while not self._is_leaving and not self._writer.is_closed:
            if self._session.is_running:
                await self._wait_for_run()
            else:
                await self._read_prompt()

    # -- events ---------------------------------------------------------------------------

    def _on_event(self, event: SessionEvent) -> None:
        self._wake.set()
        if isinstance(event, EntryRecorded):
            self._last_entry, self._shown_session = event.entry.id, self._session.status.session
        if isinstance(event, BranchChanged):
            self._show_status()
        else:
            self._event_writer.write_event(event)
        if isinstance(event, InputReturned) and self._editor is not None:
            self._editor.prefill(" ".join([prompt.text for prompt in event.prompts]))

    def _show_status(self) -> None:
        """Write the status, and a recap unless the user knows the last entries."""
        status, entries = self._session.status, self._session.entries()
        title = status.title or "a new session"
        context = f"branch {status.branch}, {status.model}, {status.mode} mode; /help helps"
        self._writer.write("Session", f"{title}, {context}")
        recent_ids = [entry.id for entry in entries[-_RECENT_ENTRIES:]]
        if self._last_entry is None or self._last_entry not in recent_ids:
            write_recap(self._writer, entries, self._session.headline)
        self._last_entry = entries[-1].id if entries else None
        # A user who moves inside a session knows where it stopped.
        is_opened, self._shown_session = status.session != self._shown_session, status.session
        if is_opened and self._session.is_unfinished and not self._session.is_running:
            self._writer.write("Notice", UNFINISHED_NOTICE)

    # -- input ----------------------------------------------------------------------------

    async def _wait_for_run(self) -> None:
        """Wait for the run: typed lines steer it, and its requests are asked.

        A pipe is not read before the turn is over: its next line belongs to the time after it.
        """
        if self._approvals.is_due:
            input_ended = await self._approvals.ask()
            if input_ended and self._reader.is_terminal:
                self._is_leaving = True  # the request is on record, and will be repeated
            elif input_ended:
                self._approvals.deny_all()
                await self._wait_for_event(lambda: self._approvals.is_due)
        elif self._reader.is_terminal:
            try:
                line = await self._next_line(
                    lambda: self._session.is_running and not self._approvals.is_due
                )
            except InputNoLongerNeeded:
                return
            await self._handle_line(line)
        else:
            await self._wait_for_event(
                lambda: self._session.is_running and not self._approvals.is_due
            )

    async def _wait_for_event(self, should_wait: Callable[[], bool]) -> None:
        self._wake.clear()
        if should_wait():
            await self._wake.wait()

    async def _read_prompt(self) -> None:
        prompt = (
            _CONTINUATION_PROMPT if self._multiline.is_open else f"{self._session.status.mode}> "
        )
        try:
            await self._handle_line(await self._read_typed(prompt))
        except InputNoLongerNeeded:
            self._writer.end_line()
            if self._is_stopped:
                self._discard_line()
        except LineInterrupted:
            self.interrupt()
            self._discard_line()

    def _discard_line(self) -> None:
        self._is_stopped = False
        self._multiline.end()
        if not self._is_leaving:
            self._writer.write("Notice", "Ctrl+C again leaves")

    async def _read_typed(self, prompt: str) -> str | None:
        """Return a line typed at the prompt.

        Raises LineInterrupted or InputNoLongerNeeded on Ctrl+C.
        """
        editor = self._editor
        try:
            if editor is not None:
                self._writer.set_typed_line(lambda: prompt + editor.typed)
                line = await editor.read_line(prompt)
            else:
                if self._reader.is_terminal:
                    self._writer.write_prompt(prompt)
                    self._writer.set_typed_line(lambda: prompt)
                line = await self._next_line(
                    lambda: not (self._is_stopped or self._session.is_running)
                )
        finally:
            self._writer.set_typed_line(None)
        if line is None and self._reader.is_terminal:
            self._writer.end_line()  # the terminal has not
        return line

    async def _next_line(self, is_current: Callable[[], bool]) -> str | None:
        """Return the next line; None at the end of the input. Raises InputNoLongerNeeded."""
        with self._reader.reading(self._wake.set):
            while True:
                self._wake.clear()
                if not is_current():
                    raise InputNoLongerNeeded
                if (line := self._reader.next_line()) is not None:
                    return line
                if self._reader.is_exhausted or self._writer.is_closed or self._is_leaving:
                    return None
                await self._wake.wait()

    async def _read_answer(self, prompt: str, is_current: Callable[[], bool]) -> str | None:
        """Return a line that was typed after the question. Raises InputNoLongerNeeded."""
        self._reader.discard()
        self._writer.write_prompt(prompt)
        self._writer.set_typed_line(lambda: prompt)
        line: str | None = None
        try:
            line = await self._next_line(is_current)
        finally:
            self._writer.set_typed_line(None)
            if line is None or not self._reader.is_terminal:  # an unfinished line
                self._writer.end_line()
        return line

    async def _confirm(self, question: str) -> bool:
        try:
            typed = await self._read_answer(f"{question} {_YES}: ", lambda: not self._is_stopped)
        except InputNoLongerNeeded:
            typed = None
        is_confirmed = (typed or "").strip().lower() == _YES
        if not is_confirmed:
            self._writer.write("Notice", "nothing was done")
        return is_confirmed

    async def _handle_line(self, line: str | None) -> None:
        """Run the typed text once it is complete."""
        if line is not None:
            self._interrupt_count, self._is_stopped = 0, False
            text = self._multiline.feed(line)
        elif self._multiline.is_open and not self._reader.is_terminal:
            text = self._multiline.end()  # the input has ended, so the text is complete
        else:
            self._is_leaving = True
            return
        if text is not None and text.strip():
            await self._submit(text)

    async def _submit(self, text: str, *, is_typed: bool = True) -> None:
        if (failure := self._history.add(text)) is not None:
            self._writer.write("Notice", failure)
        if self._editor is not None:
            self._editor.add_history(text)
        self._current_task = asyncio.create_task(
            self._execute(sanitize_pasted(text).text, is_typed=is_typed)
        )
        try:
            await self._current_task
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the session was cancelled, not this command
        finally:
            self._current_task = None

    def interrupt(self) -> None:
        """Interrupt the run; at the prompt, drop the line, and leave on the second time."""
        self._wake.set()
        if self._session.is_running:
            self._writer.end_line()  # there is a ^C on it
            self._session.interrupt()
            return
        if self._current_task is not None:
            self._session.interrupt()  # the prompt may still be read
        self._interrupt_count += 1
        self._is_stopped = True
        if self._interrupt_count > 1:
            self._is_leaving = True
            if self._current_task is not None:
                self._current_task.cancel()

    # -- requests -------------------------------------------------------------------------

    async def _execute(self, text: str, *, is_typed: bool) -> None:
        """Run a line; text that was not typed here is always a prompt."""
        if not self._reader.is_terminal:
            self._writer.write("You", text)
        try:
            is_shell = is_typed and text.startswith("!")
            if is_shell and "\n" in text.strip():
                raise InvalidValue(
                    "a command is one line; type it without the others",
                    code="multiline_command",
                    place="shell",
                )
            if is_shell:
                await self._session.run_shell(text[1:].strip())
            elif text.strip() in QUIT_WORDS:
                self._writer.write("Notice", QUIT_HINT)
            elif is_typed and (typed := parse_slash_command(text)) is not None:
                await self._run_command(typed)
            else:
                await self._send(text)
        except (StenoError, OSError) as exc:
            self._writer.write("Trouble", str(exc))
        except Exception as exc:  # noqa: BLE001 - a bug in steno must not end the session
            self._writer.write("Trouble", describe_bug(exc))

    async def _send(self, text: str) -> None:
        """Send a prompt; a rejected one returns to the line."""
        is_steering = self._session.is_running
        try:
            await self._session.send(PromptInput(text))
        except (StenoError, OSError):
            if self._editor is not None:
                self._editor.prefill(text)
            elif self._reader.is_terminal:  # a line from a pipe was echoed when it was read
                self._writer.write("Not said", text)
            raise
        if is_steering:
            self._event_writer.note_queued(text)

    async def _run_command(self, typed: TypedCommand) -> None:
        match typed:
            case TypedCommand("quit", _):
                self._is_leaving = True
            case TypedCommand("help", _):
                help_text = build_help((*_PLAIN_KEYS, *LIST_COMMAND_HINTS))
                self._write_report(text_report(help_text, "help"))
            case TypedCommand("theme", _):
                self._writer.write("Notice", "there are no themes here: lines have no colours")
            case TypedCommand("tree", argument):
                self._offer_edit(await self._lists.run_tree(argument))
            case TypedCommand("resume", argument):
                await self._lists.run_resume(argument)
            case TypedCommand("model", ""):
                await self._lists.list_models()
                self._write_report(await self._session.run_command("model"))
            case TypedCommand("model", name):
                self._write_report(await self._session.change_model(self._lists.model_named(name)))
            case TypedCommand(name, argument):
                self._write_report(await self._session.run_command(name, argument))

    def _offer_edit(self, prompt: PromptInput | None) -> None:
        if prompt is None:
            return
        if self._editor is not None:
            self._editor.prefill(prompt.text)
        else:
            self._writer.write("You said", prompt.text)
            self._writer.write("Notice", "say it otherwise, and it goes on here")

    def _write_report(self, report: Report) -> None:
        if (text := report.plain_text).strip():
            self._writer.write(report.title.capitalize() or "Reply", text)
