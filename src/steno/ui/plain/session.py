"""The line-by-line interface, which reads prompts and commands and writes events as lines.

It is for screen readers, simple terminals and pipes. It imports `app.session`, not Textual.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO, final

from steno.agent import PromptInput
from steno.agent.events import EntryRecorded
from steno.agent.session_events import BranchChanged, InputReturned, SessionEvent
from steno.app.commands.report import Report, text_report
from steno.app.commands.table import QUIT_HINT, QUIT_WORDS, TypedCommand, parse_slash_command
from steno.app.session import AgentSession
from steno.app.session_log import BranchTreeRow
from steno.app.session_lookup import SessionSummary
from steno.errors import InvalidValue, Missing, StenoError
from steno.ids import utc_now
from steno.lazy_task import start_task
from steno.log.queries import searchable_text
from steno.render.describe import entry_position
from steno.render.headed_text import ITEM_HEADINGS, headed_item
from steno.render.items import ItemKind
from steno.render.quantities import format_age, format_count
from steno.render.session_items import ChangeSummarizer, describe_bug, returned_prompt_item
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.ui.compare_state import CompareState
from steno.ui.help_text import UNFINISHED_NOTICE, build_help
from steno.ui.plain.approvals import LineApprovals
from steno.ui.plain.event_writer import EventWriter, write_headed, write_recap
from steno.ui.plain.line_input import (
    InputNoLongerNeeded,
    LineInterrupted,
    LineReader,
    MultilineInput,
    ReadlineEditor,
    has_readline,
)
from steno.ui.plain.line_writer import LineWriter
from steno.ui.prompt_state import PromptHistory, sanitize_pasted

_PLAIN_KEYS: Final = (
    ("Enter", "send the prompt; during a run, steer the model"),
    ("\\ at the end of a line", "continue the prompt on the next line"),
    ('""" before and after', "type a prompt of several lines"),
    ("Ctrl+C", "interrupt, or clear the line; press twice to quit"),
    ("Ctrl+D", "quit"),
    ("Tab, arrow up", "complete a word, recall a prompt (if supported by the terminal)"),
    ("/model 2", "use the second model of the list"),
    ("/resume 3", "resume the third session of the list"),
    ("/resume find WORDS", "list the sessions that contain all of the words"),
    ("/resume rename 3 TITLE", "rename the third session"),
    ("/resume delete 3", "delete the third session permanently, after a confirmation"),
    ("/tree 12", "show entry 12 in full"),
    ("/tree go NAME", "switch to a branch"),
    ("/tree fork 12 NAME", "start a branch after entry 12"),
    ("/tree label 12 NAME", "label entry 12"),
    ("/tree edit 12", "edit and resend your prompt of entry 12, in a new branch"),
    ("/tree compare ONE OTHER", "list the entries that only one of two branches has"),
)
"""The keys, and the command arguments that only the plain mode accepts."""
_MAX_LINE_WIDTH: Final = 100
_CONTINUATION_PROMPT: Final = "... "
_YES: Final = "yes"
_RECENT_ENTRIES: Final = 5
"""The number of last entries to check; if the user has seen one of them, no recap is written."""


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
    """Run a session line by line until the user quits; return the exit status.

    `history` is the file of typed prompts, and `stdin` is a file descriptor. `first_prompt` is sent
    before any input is read. The caller must close the session.
    """
    reader, prompt_history = LineReader(stdin), PromptHistory(history)
    writer = LineWriter(sys.stdout if stdout is None else stdout, environ)
    editor: ReadlineEditor | None = None
    if stdin == 0 and stdout is None and has_readline(environ):
        editor = ReadlineEditor(session.complete, prompt_history.entries())
    plain = _PlainSession(
        session, writer, reader, editor=editor, history=prompt_history, is_verbose=is_verbose
    )
    try:
        with _handle_ctrl_c(plain.interrupt, is_enabled=reader.is_terminal):
            await plain.run(first_prompt)
        session_id = session.status.session
        if session_id and reader.is_terminal:
            writer.write("Session", f"{session_id}; continue it with steno -c")
    finally:
        writer.set_typed_line(None)
        if editor is not None:
            editor.close()
    return 1 if writer.is_closed else 0


@contextmanager
def _handle_ctrl_c(handler: Callable[[], None], *, is_enabled: bool) -> Generator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    # A process that a shell starts in the background ignores SIGINT and must not handle it.
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
    """Reads lines, runs them as prompts or commands, and writes the events of the session."""

    def __init__(
        self,
        session: AgentSession,
        writer: LineWriter,
        reader: LineReader,
        *,
        editor: ReadlineEditor | None,
        history: PromptHistory,
        is_verbose: bool,
    ) -> None:
        self._session = session
        self._writer = writer
        self._reader = reader
        self._is_verbose = is_verbose
        self._event_writer = EventWriter(writer, session.headline, is_verbose=is_verbose)
        self._editor = editor
        self._history = history
        self._approvals = LineApprovals(session, writer, self._read_answer)
        self._lists = _ListCommands(session, writer, self._confirm)
        self._multiline = MultilineInput()
        self._wake = asyncio.Event()
        self._current_task: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._interrupt_count = 0
        """The number of times Ctrl+C was pressed since the last line."""
        self._is_stopped = False
        self._last_entry: str | None = None
        self._shown_session: str | None = ""

    async def run(self, first_prompt: str = "") -> None:
        """Read and run lines until the user quits."""
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
        """Write the status, and a recap unless the user has seen one of the last entries."""
        status, entries = self._session.status, self._session.entries()
        title = status.title or "new session"
        context = f"branch {status.branch}, {status.model}, {status.mode} mode; /help shows help"
        self._writer.write("Session", f"{title}, {context}")
        recent_ids = [entry.id for entry in entries[-_RECENT_ENTRIES:]]
        if self._last_entry is None or self._last_entry not in recent_ids:
            write_recap(self._writer, entries, self._session.headline)
        self._last_entry = entries[-1].id if entries else None
        # The notice is not repeated when the user only switches branches inside the session.
        is_opened, self._shown_session = status.session != self._shown_session, status.session
        if is_opened and self._session.is_unfinished and not self._session.is_running:
            self._writer.write("Notice", UNFINISHED_NOTICE)

    # -- input ----------------------------------------------------------------------------

    async def _wait_for_run(self) -> None:
        """Ask about a due approval request, or read a typed line, which steers the run.

        From a pipe, only answers to approval requests are read during a run, because the next line
        is the next prompt.
        """
        if self._approvals.is_due:
            input_ended = await self._approvals.ask()
            if input_ended and self._reader.is_terminal:
                self._is_leaving = True  # the request is recorded, and repeated on resume
            elif input_ended:
                self._approvals.deny_all()
                await self._wait_for_event(lambda: self._approvals.is_due)
        elif self._reader.is_terminal:
            try:
                line = await self._next_line(self._is_run_undisturbed)
            except InputNoLongerNeeded:
                return
            await self._handle_line(line)
        else:
            await self._wait_for_event(self._is_run_undisturbed)

    def _is_run_undisturbed(self) -> bool:
        return self._session.is_running and not self._approvals.is_due

    async def _wait_for_event(self, should_wait: Callable[[], bool]) -> None:
        self._wake.clear()
        if should_wait():
            await self._wake.wait()

    async def _read_prompt(self) -> None:
        mode_prompt = f"{self._session.status.mode}> "
        prompt = _CONTINUATION_PROMPT if self._multiline.is_open else mode_prompt
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
            self._writer.write("Notice", "press Ctrl+C again to quit")

    async def _read_typed(self, prompt: str) -> str | None:
        """Return the line typed at a prompt; None at the end of the input.

        Raises LineInterrupted on Ctrl+C. Without readline, raises InputNoLongerNeeded on Ctrl+C or
        once a run starts.
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
            self._writer.end_line()  # Ctrl+D does not end the line
        return line

    async def _next_line(self, is_current: Callable[[], bool]) -> str | None:
        """Return the next line; None at the end of the input or of the session.

        Raises InputNoLongerNeeded once `is_current` returns False.
        """
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
        """Write a prompt and return the line typed after it; None at the end of the input.

        Raises InputNoLongerNeeded once `is_current` returns False.
        """
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
            prompt = f"{question} type {_YES} to confirm: "
            typed = await self._read_answer(prompt, lambda: not self._is_stopped)
        except InputNoLongerNeeded:
            typed = None
        is_confirmed = (typed or "").strip().lower() == _YES
        if not is_confirmed:
            self._writer.write("Notice", "nothing was changed")
        return is_confirmed

    async def _handle_line(self, line: str | None) -> None:
        """Add a typed line, and submit the text once it is complete.

        At the end of the input, `line` is None. The session then ends, after an unfinished text
        from a pipe is submitted.
        """
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
        execution = self._execute(sanitize_pasted(text).text, is_typed=is_typed)
        self._current_task = start_task(execution)
        try:
            await self._current_task
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the session was cancelled, not this command
        finally:
            self._current_task = None

    def interrupt(self) -> None:
        """Interrupt the run; at the prompt, discard the line, or quit on the second Ctrl+C."""
        self._wake.set()
        if self._session.is_running:
            self._writer.end_line()  # the terminal echoes ^C
            self._session.interrupt()
            return
        if self._current_task is not None:
            self._session.interrupt()  # a prompt may be in preparation, before its run starts
        self._interrupt_count += 1
        self._is_stopped = True
        if self._interrupt_count > 1:
            self._is_leaving = True
            if self._current_task is not None:
                self._current_task.cancel()

    # -- requests -------------------------------------------------------------------------

    async def _execute(self, text: str, *, is_typed: bool) -> None:
        """Run a text as a prompt or a command; text that was not typed is never a command."""
        if not self._reader.is_terminal:
            self._writer.write("You", text)
        try:
            is_shell = is_typed and text.startswith("!")
            if is_shell and "\n" in text.strip():
                raise InvalidValue(
                    "a command must be one line; put several lines in a script",
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
            self._writer.write(ITEM_HEADINGS[ItemKind.ERROR], str(exc))
        except Exception as exc:  # noqa: BLE001 - a bug in steno must not end the session
            self._writer.write(ITEM_HEADINGS[ItemKind.ERROR], describe_bug(exc))

    async def _send(self, text: str) -> None:
        """Send a prompt; a rejected prompt returns to the editor, or is written as not sent."""
        is_steering = self._session.is_running
        try:
            await self._session.send(PromptInput(text))
        except (StenoError, OSError):
            if self._editor is not None:
                self._editor.prefill(text)
            elif self._reader.is_terminal:  # a line from a pipe was echoed when it was read
                write_headed(self._writer, headed_item(returned_prompt_item(text)))
            raise
        if is_steering:
            self._event_writer.note_queued(text)

    async def _run_command(self, typed: TypedCommand) -> None:
        match typed:
            case TypedCommand("quit", _):
                self._is_leaving = True
            case TypedCommand("help", _):
                self._write_report(text_report(build_help(_PLAIN_KEYS), "help"))
            case TypedCommand("theme", _):
                self._writer.write("Notice", "the plain mode has no themes")
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
            self._writer.write("Prompt", prompt.text)
            self._writer.write("Notice", "type the edited prompt to continue in the new branch")

    def _write_report(self, report: Report) -> None:
        if (text := report.plain_text).strip():
            title = (
                report.title[:1].upper() + report.title[1:]
            )  # capitalize() would write "Mcp servers"
            self._writer.write(title or "Reply", text)


# -- lists and choices from them ------------------------------------------------------------------


@final
class _ListCommands:
    """The commands `/model`, `/resume` and `/tree`, which write a list and accept its numbers."""

    def __init__(
        self, session: AgentSession, writer: LineWriter, confirm: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._session = session
        self._writer = writer
        self._confirm = confirm
        self._models: list[str] = []
        self._sessions: list[SessionSummary] = []

    # -- models ------------------------------------------------------------------------------

    async def list_models(self) -> None:
        models = await self._session.list_models()
        self._models = [model.text for model in models]
        current_model = self._session.status.model
        self._writer.write("Models", f"{len(models)}; current model {current_model}")
        self._write_numbered([_describe(model.text, model.description) for model in models])

    def model_named(self, argument: str) -> str:
        """Return the name of a model, given its name or its number in the last list of models.

        Raises Missing if the list has no such number.
        """
        number = _parse_number(argument, len(self._models))
        if number is None and _is_number(argument):
            raise _no_such_number(argument, len(self._models), "/model")
        return argument if number is None else self._models[number]

    # -- sessions ----------------------------------------------------------------------------

    async def run_resume(self, argument: str) -> None:
        word, _, rest = argument.partition(" ")
        if word in ("", "find"):
            await self._list_sessions(rest.strip())
        elif word == "rename":
            name, _, title = rest.strip().partition(" ")
            await self._session.session_list.rename(self._find_session_id(name), title.strip())
            self._writer.write("Session", f"renamed to {title.strip()}")
        elif word == "delete":
            session = self._find_session_id(rest.strip())
            if await self._confirm(f"delete session {terminal_line(session)} permanently?"):
                await self._session.session_list.delete(session)
                self._writer.write("Session", "deleted")
        else:
            await self._resume(argument)

    async def _resume(self, argument: str) -> None:
        try:
            await self._session.session_list.resume(self._find_session_id(argument))
        except Missing as exc:
            if exc.code == "name_unknown" and _is_number(argument):  # an ID may also be a number
                raise _no_such_number(argument, len(self._sessions), "/resume") from exc
            raise

    async def _list_sessions(self, search: str) -> None:
        self._sessions = list(await self._session.session_list.summaries(search))
        self._writer.write("Sessions", f"{len(self._sessions)}, latest first")
        now = utc_now()
        self._write_numbered(
            [
                _describe(
                    summary.title or "no title",
                    format_count(summary.entries, "entry", "entries"),
                    format_age(summary.changed_at, now),
                    "" if summary.is_in_this_folder else summary.folder or "",
                    summary.snippet,
                )
                for summary in self._sessions
            ]
        )

    def _find_session_id(self, argument: str) -> str:
        if not argument:
            raise InvalidValue(
                "no session given; add the number of a session in the list, or its ID",
                code="session_not_named",
                place="/resume",
            )
        number = _parse_number(argument, len(self._sessions))
        return argument if number is None else self._sessions[number].id

    # -- the tree ----------------------------------------------------------------------------

    async def run_tree(self, argument: str) -> PromptInput | None:
        """Run a `/tree` command; return the prompt that the user wants to edit, or None."""
        word, _, rest = argument.partition(" ")
        name, _, text = rest.strip().partition(" ")
        branches = self._session.branches
        match word:
            case "":
                await self._write_tree()
            case "go":
                branches.switch(rest.strip())
            case "fork":
                branches.fork(text.strip(), at=(await self._find_row(name)).entry.id)
            case "label":
                branches.label((await self._find_row(name)).entry.id, text.strip())
                self._writer.write("Notice", f"label added to entry {name.removeprefix('#')}")
            case "edit":
                return branches.fork_before((await self._find_row(name)).entry.id, text.strip())
            case "compare":
                await self._compare(name, text.strip())
            case _:
                row = await self._find_row(word)
                text = searchable_text(row.entry).strip() or row.summary
                self._writer.write(_row_head(row), text)
        return None

    async def _write_tree(self) -> None:
        rows = await self._session.branches.rows()
        shown = [row for row in rows if row.is_notable]
        names = self._session.branches.names()
        about = [
            format_count(len(rows), "entry", "entries"),
            f"{'branch' if len(names) == 1 else 'branches'} {', '.join(names)}",
            *([f"the {len(shown)} most important are listed"] if len(shown) < len(rows) else []),
        ]
        self._writer.write("Tree", "; ".join(about))
        self._write_short(
            [f"{row.graph_prefix}{_row_head(row)}: {terminal_line(row.summary)}" for row in shown]
        )

    async def _find_row(self, number: str) -> BranchTreeRow:
        rows = await self._session.branches.rows()
        found = [row for row in rows if str(row.number) == number.removeprefix("#")]
        if not found:
            raise Missing(
                f"entry {terminal_line(number)} not found; /tree lists the entries",
                code="entry_missing",
                place="/tree",
            )
        return found[0]

    async def _compare(self, left: str, right: str) -> None:
        names = self._session.branches.names()
        if left not in names or right not in names:
            raise Missing(
                f"unknown or missing branch; name two of these branches: {', '.join(names)}",
                code="branches_not_named",
                place="/tree compare",
            )
        state = CompareState(self._session, await self._session.branches.rows(), left, right)
        self._writer.write("Shared", format_count(state.shared, "entry", "entries"))
        for side, name in enumerate(state.names):
            rows = state.own_rows(side)
            self._writer.write(f"Only in {name}", format_count(len(rows), "entry", "entries"))
            self._write_short([f"{row.number}. {_row_summary(row)}" for row in rows])

    def _write_numbered(self, texts: Iterable[str]) -> None:
        self._write_short([f"{number}. {text}" for number, text in enumerate(texts, 1)])

    def _write_short(self, lines: Iterable[str]) -> None:
        self._writer.write_lines([truncate_to_width(line, _MAX_LINE_WIDTH) for line in lines])


def _parse_number(argument: str, count: int) -> int | None:
    """Return the index for a number between 1 and `count`; None for any other text."""
    return int(argument) - 1 if _is_number(argument) and int(argument) <= count else None


def _is_number(argument: str) -> bool:
    return argument.isascii() and argument.isdigit() and not argument.startswith("0")


def _no_such_number(argument: str, count: int, command: str) -> Missing:
    listed = f"the list ends at {count}" if count else "no list was shown yet"
    return Missing(
        f"unknown number {argument}: {listed}; type {command} to show the list",
        code="no_such_number",
        place=command,
    )


def _describe(name: str, *facts: str) -> str:
    known_facts = ", ".join(map(terminal_line, filter(None, facts)))
    return ": ".join(filter(None, [terminal_line(name), known_facts]))


def _row_head(row: BranchTreeRow) -> str:
    facts = entry_position(row.labels, row.branches, is_active=row.is_active)
    about = f" ({', '.join(facts)})" if facts else ""
    return f"{row.number}. {terminal_line(row.kind)}{about}"


def _row_summary(row: BranchTreeRow) -> str:
    # Only text that may fit is sanitized, because summaries can be long.
    return terminal_line(f"{row.kind}: {row.summary[: 10 * _MAX_LINE_WIDTH]}")
