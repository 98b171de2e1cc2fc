"""`steno -p`: run a prompt without a user at the keyboard.

Stdout holds the response, or JSON and nothing else; everything else goes to stderr. Before a run
begins, an error is reported like that of any command; from then on there is always a result.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Final, NamedTuple, final

from steno.agent import (
    AllowingApprover,
    Approver,
    CallEnded,
    EndReason,
    EntryRecorded,
    LoopEvent,
    Notice,
    NoticeKind,
    PromptInput,
    RunResult,
    TurnStarted,
)
from steno.app.compose import PreparedRun, prepare_run
from steno.app.errors import UsageError
from steno.app.input_setup import InputSetup, McpOptions
from steno.app.permissions import build_rule_hint
from steno.app.prompt_input import prepare_prompt, prepare_retry
from steno.app.session_lookup import SessionStart
from steno.app.settings_loader import LoadedSettings, load_settings
from steno.cli.arguments import exit_status_for, settings_from_options
from steno.cli.signals import StopSignals
from steno.cli.store_options import session_start_from_options
from steno.errors import Conflict, InvalidValue, StenoError, Unresolved
from steno.log.conversation import Conversation
from steno.messages.content import RecognitionMode
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ChatMessage
from steno.messages.usage import Usage
from steno.ports import SetupNotice
from steno.render.json_output import JsonReporter
from steno.render.output import OutputError
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.render.text_output import RunDescription, RunReporter, TextReporter
from steno.ui.plain.console_approver import NO_TERMINAL, ConsoleApprover, has_terminal
from steno.values import is_utf8_text, replace_lone_surrogates

_MAX_STDIN_BYTES: Final = 10 * 1024 * 1024
_STDIN_WARNING_S: Final = 3.0
"""The time that stdin may stay open before a notice explains the wait."""


class _HeadlessRun(NamedTuple):
    """The options, settings and prompt of one run."""

    options: argparse.Namespace
    loaded: LoadedSettings
    start: SessionStart
    prompt: PromptInput
    reporter: RunReporter


def run_headless(options: argparse.Namespace) -> int:
    """Run the prompt of the command line, and return the exit status."""
    start = session_start_from_options(options)
    if options.ask and not has_terminal():
        options.parser.error(f"--ask: {NO_TERMINAL}; --allow and --yes ask nobody")
    prompt = _read_prompt(options)
    loaded = load_settings(flags=settings_from_options(options))
    run = _HeadlessRun(options, loaded, start, prompt, _build_reporter(options))
    try:
        return asyncio.run(_run_until_signal(run))
    finally:
        run.reporter.close()


def _build_reporter(options: argparse.Namespace) -> RunReporter:
    if options.output_format == "text":
        return TextReporter(quiet=options.quiet, verbose=options.verbose)
    streams = options.output_format == "stream-json"
    return JsonReporter(streams=streams, quiet=options.quiet, verbose=options.verbose)


def _build_approver(options: argparse.Namespace) -> Approver | None:
    if options.yes:
        return AllowingApprover()
    return ConsoleApprover() if options.ask else None


# -- prompt -----------------------------------------------------------------------------------


def _read_prompt(options: argparse.Namespace) -> PromptInput:
    """Return the prompt: the option, followed by stdin."""
    if options.retry:
        return PromptInput("")
    if options.first_prompt is not None and options.prompt not in (None, "-"):
        extra = truncate_to_width(terminal_line(options.first_prompt), 40)
        reason = "nothing is expected there; what has blanks in it has to be in quotes"
        options.parser.error(f"{extra}: {reason}")
    text: str = (options.first_prompt or "") if options.prompt in (None, "-") else options.prompt
    if not is_utf8_text(text):
        raise UsageError("is not UTF-8 text", code="not_utf8", place="--prompt")
    piped = _read_stdin(options.prompt)
    if options.prompt == "-" and not text:
        text, piped = piped, ""
    if not (text.strip() or piped.strip()):
        options.parser.error(
            "say what to do, as in: steno -p 'What does this project do?'; steno --help tells more"
        )
    return PromptInput(text, tuple(options.images), piped)


def _read_stdin(prompt: str | None) -> str:
    """Return the content of stdin; a keyboard is read only if the prompt is `-`."""
    if sys.stdin.isatty() and prompt != "-":
        return ""
    with _warn_if_stdin_stays_open():
        data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise InvalidValue(
            f"more than {_MAX_STDIN_BYTES:,} bytes; name a file instead",
            code="input_too_large",
            place="stdin",
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("is not UTF-8 text", code="not_utf8", place="stdin") from None


@contextmanager
def _warn_if_stdin_stays_open() -> Generator[None]:
    """Print a notice if stdin does not end: many programs leave it open for their children."""
    notice = "reading stdin to its end; if there is none, add < /dev/null"
    timer = Timer(_STDIN_WARNING_S, print_notice, (notice,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _prepare_prompt(
    run: _HeadlessRun, input_setup: InputSetup, conversation: Conversation | None
) -> tuple[PromptInput | None, tuple[SetupNotice, ...]]:
    """Build the message of the prompt, or find the one that could not be sent."""
    options = run.options
    if options.retry:
        mode = None if options.image_mode is None else RecognitionMode(options.image_mode)
        return prepare_retry(conversation, mode), ()
    return await prepare_prompt(run.prompt, input_setup, run.loaded.settings.image_mode)


# -- run -------------------------------------------------------------------------------------


async def _run_until_signal(run: _HeadlessRun) -> int:
    """Run the prompt, and return the exit status; a signal stops it in order."""
    with StopSignals() as signals:
        return await signals.run(_run_to_status(run, signals))


async def _run_to_status(run: _HeadlessRun, signals: StopSignals) -> int:
    result = await _run_agent(run, signals)
    if result.error is not None:
        print_notice(terminal_line(f"{result.error}{_retry_hint(result.error, run)}"))
    if result.end_reason is EndReason.INTERRUPTED and signals.status is not None:
        return signals.status
    return exit_status_for(result.end_reason)


def _retry_hint(error: Exception, run: _HeadlessRun) -> str:
    """Return how to retry where a reference could not be opened; the prompt is recorded."""
    if not isinstance(error, Unresolved) or run.options.no_session:
        return ""
    session = "-c" if run.start.resume is None else "-r last"
    return f"; {session} --retry tries the same again, {session} -p says something else"


async def _run_agent(run: _HeadlessRun, signals: StopSignals) -> RunResult:
    options, reporter = run.options, run.reporter
    reporter.prepare("looking for a model")
    async with prepare_run(
        run.loaded,
        run.start,
        is_persistent=not options.no_session,
        mode=options.mode,
        approver=_build_approver(options),
        read_prompt=partial(_prepare_prompt, run),
        mcp_options=McpOptions(tuple(options.mcp_config), options.no_mcp),
        on_progress=reporter.prepare,
        notify=lambda notice: reporter.on_event(Notice(NoticeKind.INPUT, notice.text, notice.code)),
    ) as prepared:
        reporter.begin(_describe_run(prepared, run))
        if prepared.target.tools is False:
            text = f"{prepared.model} calls no tools: it can only talk"
            reporter.on_event(Notice(NoticeKind.CONTEXT, text, "model_without_tools"))
        if not options.quiet:
            for notice in (*run.loaded.notices, *prepared.notices):
                print_notice(terminal_line(notice.text))
        signals.on_first_signal = prepared.agent.interrupt
        return await _run_and_report(prepared, run)


async def _run_and_report(prepared: PreparedRun, run: _HeadlessRun) -> RunResult:
    """Run the agent, and report its end, also where it ends with an error."""
    totals, reporter = PartialRunResult(), run.reporter
    tools = {tool.definition.name: tool for tool in prepared.tools}

    def on_event(event: LoopEvent) -> None:
        totals.on_event(event)
        reporter.on_event(event)
        if isinstance(event, CallEnded):
            notice = build_rule_hint(event, tools, run.loaded.settings.allow)
            if notice is not None:
                reporter.on_event(notice)

    try:
        result = await prepared.agent.run(prepared.prompt, on_event=on_event)
    except (BrokenPipeError, OutputError):
        raise  # the reader of the output is gone
    except asyncio.CancelledError:
        reporter.end(totals.result(EndReason.INTERRUPTED))
        raise
    except Conflict as exc:
        conflict = Conflict(
            "another program has gone on with it meanwhile, and what it said is kept; "
            "go on behind it with -c, or beside it with --fork",
            code="session_changed",
            place="session",
        )
        reporter.end(totals.result(EndReason.FAILED, conflict))
        raise conflict from exc
    except Exception as exc:
        reporter.end(totals.result(EndReason.FAILED, exc))
        raise
    reporter.end(result)
    return result


def _describe_run(prepared: PreparedRun, run: _HeadlessRun) -> RunDescription:
    conversation = prepared.agent.conversation
    return RunDescription(
        session=None if run.options.no_session else conversation.id,
        branch=conversation.branch,
        model=prepared.model,
        mode=str(conversation.mode),
        folder=replace_lone_surrogates(str(run.start.folder)),
    )


@final
class PartialRunResult:
    """The sum of the events of a run, for a run that ends without a result."""

    def __init__(self) -> None:
        """Start with an empty result."""
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None
        self._unrecorded: list[str] = []

    def on_event(self, event: LoopEvent) -> None:
        """Add an event."""
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
        """Return the result of a run that a signal or an error has ended."""
        message, text = self._message, "".join(self._unrecorded)
        if text:  # it could not be recorded, but it can still be printed
            message = ChatMessage.assistant(text)
        return RunResult(
            ending,
            message,
            self._turns,
            self._usage,
            reason="" if exc is None else str(exc) or type(exc).__name__,
            error=exc if isinstance(exc, StenoError) else None,
        )
