"""The command `steno -p`, which runs a prompt without a user at the keyboard.

Only the response, or only JSON, is printed on stdout; all other output is on stderr. An error
before the run starts is reported like an error of any command; once the run has started, its result
is always reported.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Final, final

from steno.agent import (
    EndReason,
    EntryRecorded,
    LoopEvent,
    Notice,
    NoticeKind,
    PromptInput,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import (
    BranchChanged,
    ErrorRaised,
    InputReturned,
    PendingCallsChanged,
    RunFailed,
    RunStarted,
    SessionEvent,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.app.commands.arguments import UsageError
from steno.app.folders import working_folder
from steno.app.session import AgentSession
from steno.cli.arguments import exit_status_for
from steno.cli.open_session import open_session_from_options
from steno.cli.signals import StopSignals
from steno.errors import InvalidValue, LogError, StenoError, Unresolved
from steno.messages.content import RecognitionMode
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ChatMessage
from steno.messages.usage import Usage
from steno.render.items import ItemHint, SessionStatus
from steno.render.output import OutputError
from steno.render.run_output import (
    HintTexts,
    JsonReporter,
    RunDescription,
    RunReporter,
    TextReporter,
)
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.ui.plain.approvals import NO_TERMINAL, ConsoleApprover, has_terminal
from steno.values import is_utf8_text, replace_lone_surrogates

_MAX_STDIN_BYTES: Final = 10 * 1024 * 1024
_HINTS: Final[HintTexts] = {
    ItemHint.CONTINUE: "; continue with -c",
    ItemHint.SHOW_IGNORED: "; use --verbose to list them",
}
_STDIN_WARNING_S: Final = 3.0
"""The number of seconds that stdin may stay open before a notice explains the wait."""


def run_headless(options: argparse.Namespace) -> int:
    """Run the prompt of the command line, and return the exit status."""
    if options.ask and not has_terminal():
        options.parser.error(f"--ask: {NO_TERMINAL}; use --allow or --yes")
    prompt = None if options.retry else _read_prompt(options)
    reporter: RunReporter
    if options.output_format == "text":
        reporter = TextReporter(quiet=options.quiet, verbose=options.verbose, hints=_HINTS)
    else:
        streams = options.output_format == "stream-json"
        reporter = JsonReporter(
            streams=streams, quiet=options.quiet, verbose=options.verbose, hints=_HINTS
        )
    try:
        return asyncio.run(HeadlessRun(options, reporter).run(prompt))
    finally:
        reporter.close()


# -- prompt -----------------------------------------------------------------------------------


def _read_prompt(options: argparse.Namespace) -> PromptInput:
    """Return the prompt from the command line, followed by the content of stdin."""
    if options.first_prompt is not None and options.prompt not in (None, "-"):
        extra = truncate_to_width(terminal_line(options.first_prompt), 40)
        options.parser.error(f"{extra}: unexpected argument; quote a prompt that contains spaces")
    text: str = (options.first_prompt or "") if options.prompt in (None, "-") else options.prompt
    if not is_utf8_text(text):
        raise UsageError("is not UTF-8 text", code="not_utf8", place="--prompt")
    piped = _read_stdin(options.prompt)
    if options.prompt == "-" and not text:
        text, piped = piped, ""
    if not (text.strip() or piped.strip()):
        options.parser.error(
            "the prompt is empty; pass one, as in: steno -p 'What does this project do?'"
        )
    return PromptInput(text, tuple(options.images), piped)


def _read_stdin(prompt: str | None) -> str:
    """Return the content of stdin; a terminal is read only if the prompt is `-`."""
    if sys.stdin.isatty() and prompt != "-":
        return ""
    with _warn_if_stdin_stays_open():
        data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise InvalidValue(
            f"larger than {_MAX_STDIN_BYTES:,} bytes; refer to a file in the prompt instead: @FILE",
            code="input_too_large",
            place="stdin",
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("is not UTF-8 text", code="not_utf8", place="stdin") from None


@contextmanager
def _warn_if_stdin_stays_open() -> Generator[None]:
    """Print a notice if stdin stays open, as many programs leave it open for their children."""
    notice = "still reading stdin; if nothing is piped in, add < /dev/null"
    timer = Timer(_STDIN_WARNING_S, print_notice, (notice,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# -- run -------------------------------------------------------------------------------------


@final
class HeadlessRun:
    """Runs one prompt, reports the events of its session, and returns an exit status."""

    def __init__(self, options: argparse.Namespace, reporter: RunReporter) -> None:
        self._options = options
        self._reporter = reporter
        self._totals = PartialRunResult()
        self._has_started = False
        self._notices: list[Notice] = []
        """Notices from before the run, which are printed when it starts."""
        self._failure: Exception | None = None
        """The error that ended reporting, such as a closed pipe."""

    async def run(self, prompt: PromptInput | None) -> int:
        """Run the prompt, or retry the last prompt if it is None; return the exit status.

        A signal stops the run gracefully.
        """
        with StopSignals() as signals:
            return await signals.run(self._run_session(prompt, signals))

    async def _run_session(self, prompt: PromptInput | None, signals: StopSignals) -> int:
        async with open_session_from_options(
            self._options,
            self._reporter.prepare,
            approver=ConsoleApprover() if self._options.ask else None,
            is_interactive=False,
            on_skipped=lambda notice: print_notice(notice.text),
        ) as session:
            session.subscribe(partial(self._on_event, session))
            signals.on_first_signal = session.interrupt
            try:
                result = await self._run_prompt(session, prompt)
            except StenoError as exc:
                if exc.code == "interrupted" and signals.status is not None:
                    return signals.status  # the run was stopped before it started
                raise
        if result.error is not None:
            print_notice(terminal_line(f"{result.error}{self._retry_hint(result.error)}"))
        if result.end_reason is EndReason.INTERRUPTED and signals.status is not None:
            return signals.status
        return exit_status_for(result.end_reason)

    async def _run_prompt(self, session: AgentSession, prompt: PromptInput | None) -> RunResult:
        """Run a prompt, report its result, and return the result.

        If the run has started, a result is reported even if an error or a signal ends it.
        """
        try:
            with _name_image_option():
                await self._send(session, prompt)
            result = await session.wait()
            if self._failure is not None:
                raise self._failure
        except asyncio.CancelledError:
            await session.close()  # records and reports the calls that it stops
            self._end(self._totals.result(EndReason.INTERRUPTED))
            raise
        except Exception as exc:  # noqa: BLE001 - reported, then raised again
            error = self._failure or exc
            is_recorded = bool(session.status.session)
            if isinstance(error, LogError) and is_recorded and not self._has_started:
                self._begin(session.status)  # the session exists, but the prompt was not recorded
            if not isinstance(error, (BrokenPipeError, OutputError)):
                self._end(self._totals.result(EndReason.FAILED, error))
            raise error from exc.__cause__
        self._end(result)
        return result

    async def _send(self, session: AgentSession, prompt: PromptInput | None) -> None:
        if prompt is not None:
            await session.send(prompt)
        elif session.has_unanswered_prompt:
            image_mode = self._options.image_mode
            await session.retry(None if image_mode is None else RecognitionMode(image_mode))
        else:
            raise UsageError(
                "every prompt already has a response; send a new prompt with -p",
                code="nothing_unsent",
                place="--retry",
            )

    def _end(self, result: RunResult) -> None:
        if self._has_started:
            self._reporter.end(result)

    def _on_event(self, session: AgentSession, event: SessionEvent) -> None:
        if self._failure is not None:
            return
        try:
            self._report(session, event)
        except Exception as exc:  # noqa: BLE001 - a run without output must not continue
            self._failure = exc
            session.interrupt()

    def _report(self, session: AgentSession, event: SessionEvent) -> None:
        match event:
            case RunStarted():
                self._begin(session.status)
            case Notice() if not self._has_started:
                self._notices.append(event)
            case RunFailed():
                pass  # `wait` raises the error
            case PendingCallsChanged() | BranchChanged() | InputReturned() | ErrorRaised():
                pass
            case ShellStarted() | ShellOutput() | ShellEnded():
                pass
            case _ if self._has_started:
                self._totals.on_event(event)
                self._reporter.on_event(event)
            case _:
                pass  # the first entries of a new session

    def _begin(self, status: SessionStatus) -> None:
        self._has_started = True
        self._reporter.begin(
            RunDescription(
                session=status.session,
                branch=status.branch,
                model=status.model,
                mode=str(status.mode),
                folder=replace_lone_surrogates(str(working_folder())),
            )
        )
        for notice in self._notices:
            is_about_run = notice.code == "model_without_tools"
            if notice.kind is NoticeKind.INPUT or is_about_run:  # also part of the JSON output
                self._reporter.on_event(notice)
            elif not self._options.quiet:
                print_notice(terminal_line(notice.text))

    def _retry_hint(self, error: Exception) -> str:
        """Return a hint on how to retry a prompt with an unresolved reference; else empty."""
        if not isinstance(error, Unresolved) or self._options.no_session:
            return ""
        session = "-c" if self._options.resume is None else "-r last"
        return f"; retry with {session} --retry, or send another prompt with {session} -p"


@contextmanager
def _name_image_option() -> Generator[None]:
    """Raise errors about an image with the place `--image`.

    They occur before the prompt is recorded, so `--retry` would send an older prompt.
    """
    try:
        yield
    except InvalidValue as exc:
        if exc.place != "image":
            raise
        message = f"{exc.message}; nothing was sent or recorded"
        raise InvalidValue(message, code=exc.code, place="--image") from exc


@final
class PartialRunResult:
    """A result that is computed from events, for a run that ends without a result."""

    def __init__(self) -> None:
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None
        self._unrecorded: list[str] = []

    def on_event(self, event: LoopEvent) -> None:
        """Add an event to the result."""
        match event:
            case TurnStarted(number):
                self._turns = number
            case TextDelta():
                self._unrecorded.append(event.text)
            case EntryRecorded(entry) if isinstance(entry.payload, AssistantMessage):
                self._message = entry.payload
                self._usage += entry.payload.usage or Usage()
                self._unrecorded = []
            case _:
                pass

    def result(self, ending: EndReason, exc: Exception | None = None) -> RunResult:
        """Return the result of a run that was ended by a signal or an error."""
        message, text = self._message, "".join(self._unrecorded)
        if text:  # text that was not recorded can still be printed
            message = ChatMessage.assistant(text)
        return RunResult(
            ending,
            message,
            self._turns,
            self._usage,
            reason="" if exc is None else str(exc) or type(exc).__name__,
            error=exc if isinstance(exc, StenoError) else None,
        )
