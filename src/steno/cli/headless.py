"""Let a model work without a person at the keyboard: the prompt, the run, and how it ends.

Stdout holds the answer, or JSON and nothing else; everything else goes to stderr. Before a run
begins, what is wrong is an error like that of any command; from then on there is always a result.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
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
    NoticeCode,
    RunResult,
    TurnStarted,
)
from steno.app.compose import PreparedRun, prepare_run
from steno.app.errors import UsageError
from steno.app.folders import working_folder
from steno.app.input_setup import InputSetup, McpOptions
from steno.app.permissions import build_rule_hint
from steno.app.prompt_input import PreparedPrompt, RawPrompt, prepare_prompt, prepare_retry
from steno.app.sessions import SessionStart
from steno.app.settings_loader import LoadedSettings, load_settings
from steno.cli.arguments import settings_from_options
from steno.cli.console_approver import NO_TERMINAL, ConsoleApprover, has_terminal
from steno.cli.signals import StopSignals
from steno.errors import Conflict, InvalidValue, StenoError, Unresolved
from steno.log.conversation import Conversation
from steno.messages.content import RecognitionMode
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ChatMessage
from steno.messages.usage import Usage
from steno.render.json_output import JsonReporter
from steno.render.output import OutputError
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.render.text_output import RunDescription, RunReporter, TextReporter
from steno.values import is_utf8_text, replace_lone_surrogates

# -- tally -----------------------------------------------------------------------------------------
#
# What a run has come to so far, for when it ends in a way that leaves no result.


@final
class PartialRunResult:
    """Watches a run and adds up."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None
        self._unrecorded: list[str] = []

    def on_event(self, event: LoopEvent) -> None:
        """Take note of an event."""
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
        """Return what came of a run that a signal or an error has ended."""
        message, said = self._message, "".join(self._unrecorded)
        if said:  # what could not be recorded can still be read
            message = ChatMessage.assistant(said)
        return RunResult(
            ending,
            message,
            self._turns,
            self._usage,
            reason="" if exc is None else str(exc) or type(exc).__name__,
            error=exc if isinstance(exc, StenoError) else None,
        )


EXIT_LIMIT: Final = 4


_EXIT_STATUSES: Final = {
    EndReason.DONE: 0,
    EndReason.FAILED: 1,
    EndReason.LIMIT: EXIT_LIMIT,
    EndReason.INTERRUPTED: 128 + signal.SIGINT,
}


_MAX_STDIN_BYTES: Final = 10 * 1024 * 1024


_STDIN_WARNING_S: Final = 3.0
"""How long stdin may keep us waiting before we say so."""


class _HeadlessJob(NamedTuple):
    """Everything that was asked for."""

    options: argparse.Namespace
    loaded: LoadedSettings
    start: SessionStart
    prompt: RawPrompt
    reporter: RunReporter


def run_headless(options: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit status."""
    start = SessionStart(
        working_folder(), resume=options.resume, continues=options.continues, fork=options.fork
    )
    if options.ask and not has_terminal():
        options.parser.error(f"--ask: {NO_TERMINAL}; --allow and --yes ask nobody")
    words = _read_prompt(options)
    loaded = load_settings(flags=settings_from_options(options))
    job = _HeadlessJob(options, loaded, start, words, _build_reporter(options))
    try:
        return asyncio.run(_run_until_signal(job))
    finally:
        job.reporter.close()


def _build_reporter(options: argparse.Namespace) -> RunReporter:
    if options.output_format == "text":
        return TextReporter(quiet=options.quiet, verbose=options.verbose)
    streams = options.output_format == "stream-json"
    return JsonReporter(streams=streams, quiet=options.quiet, verbose=options.verbose)


def _build_approver(options: argparse.Namespace) -> Approver | None:
    if options.yes:
        return AllowingApprover()
    return ConsoleApprover() if options.ask else None


# -- what to do ------------------------------------------------------------------------------


def _read_prompt(options: argparse.Namespace) -> RawPrompt:
    """Return what to do: what the option says, and behind it what stdin holds."""
    if options.retry:
        return RawPrompt("")
    if options.words is not None and options.prompt not in (None, "-"):
        extra = truncate_to_width(terminal_line(options.words), 40)
        rule = "nothing is expected there; what has blanks in it has to be in quotes"
        options.parser.error(f"{extra}: {rule}")
    said: str = (options.words or "") if options.prompt in (None, "-") else options.prompt
    if not is_utf8_text(said):
        raise UsageError("--prompt: is not UTF-8 text")
    piped = _read_stdin(options.prompt)
    if options.prompt == "-" and not said:
        said, piped = piped, ""
    if not (said.strip() or piped.strip()):
        options.parser.error(
            "say what to do, as in: steno -p 'What does this project do?'; steno --help tells more"
        )
    return RawPrompt(said, piped, tuple(options.images))


def _read_stdin(prompt: str | None) -> str:
    """Return what stdin holds; a person at a keyboard is read only if that is asked for."""
    if sys.stdin.isatty() and prompt != "-":
        return ""
    with _warn_if_stdin_stays_open():
        data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise InvalidValue(f"stdin: more than {_MAX_STDIN_BYTES:,} bytes; name a file instead")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("stdin: is not UTF-8 text") from None


@contextmanager
def _warn_if_stdin_stays_open() -> Generator[None]:
    """Say so if stdin does not end: many programs leave it open for those that they start."""
    told = "reading stdin to its end; if there is none, add < /dev/null"
    timer = Timer(_STDIN_WARNING_S, print_notice, (told,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _prepare_prompt(
    job: _HeadlessJob, opened: InputSetup, going_on: Conversation | None
) -> PreparedPrompt:
    """Make a message of what was said, or find the one that could not be sent."""
    options = job.options
    if options.retry:
        mode = None if options.image_mode is None else RecognitionMode(options.image_mode)
        return prepare_retry(going_on, mode)
    return await prepare_prompt(job.prompt, opened, job.loaded.settings.image_mode)


# -- doing it --------------------------------------------------------------------------------


async def _run_until_signal(job: _HeadlessJob) -> int:
    """Do what was asked for, and return the exit status; a signal ends it in order."""
    with StopSignals() as stopping:
        try:
            result = await _run_job(job, stopping)
        except asyncio.CancelledError:
            if stopping.status is None:
                raise
            return stopping.status
    if result.error is not None:
        print_notice(terminal_line(f"{result.error}{_retry_hint(result.error, job)}"))
    if result.ending is EndReason.INTERRUPTED and stopping.status is not None:
        return stopping.status
    return _EXIT_STATUSES[result.ending]


def _retry_hint(error: Exception, job: _HeadlessJob) -> str:
    """Say how to try again where something could not be opened; it is on record what was said."""
    if not isinstance(error, Unresolved) or job.options.no_session:
        return ""
    session = "-c" if job.start.resume is None else "-r last"
    return f"; {session} --retry tries the same again, {session} -p says something else"


async def _run_job(job: _HeadlessJob, stopping: StopSignals) -> RunResult:
    options, teller = job.options, job.reporter
    teller.prepare("looking for a model")
    async with prepare_run(
        job.loaded,
        job.start,
        keeps=not options.no_session,
        mode=options.mode,
        approver=_build_approver(options),
        read=partial(_prepare_prompt, job),
        outside=McpOptions(tuple(options.mcp_config), options.no_mcp),
        say=teller.prepare,
        notify=lambda text: teller.on_event(Notice(NoticeCode.INPUT, text)),
    ) as harness:
        teller.begin(_describe_run(harness, job))
        if harness.target.tools is False:
            told = f"{harness.model} calls no tools: it can only talk"
            teller.on_event(Notice(NoticeCode.CONTEXT, told))
        if not options.quiet:
            for text in (*job.loaded.notes, *harness.notes):
                print_notice(terminal_line(text))
        stopping.on_first_signal = harness.agent.interrupt
        return await _run_and_report(harness, job)


async def _run_and_report(harness: PreparedRun, job: _HeadlessJob) -> RunResult:
    """Run the agent. Whatever comes of it, somebody is told: nobody has to guess from silence."""
    tally, teller = PartialRunResult(), job.reporter
    tools = {tool.definition.name: tool for tool in harness.tools}

    def watch(event: LoopEvent) -> None:
        tally.on_event(event)
        teller.on_event(event)
        if isinstance(event, CallEnded):
            notice = build_rule_hint(event, tools, job.loaded.settings.allow)
            if notice is not None:
                teller.on_event(notice)

    try:
        said = harness.prompt
        result = await harness.agent.run(said.message, watch=watch, origin=said.origin)
    except (BrokenPipeError, OutputError):
        raise  # there is nobody to tell
    except asyncio.CancelledError:
        teller.end(tally.result(EndReason.INTERRUPTED))
        raise
    except Conflict as exc:
        told = Conflict(
            "session: another program has gone on with it meanwhile, and what it said is kept; "
            "go on behind it with -c, or beside it with --fork"
        )
        teller.end(tally.result(EndReason.FAILED, told))
        raise told from exc
    except Exception as exc:
        teller.end(tally.result(EndReason.FAILED, exc))
        raise
    teller.end(result)
    return result


def _describe_run(harness: PreparedRun, job: _HeadlessJob) -> RunDescription:
    conversation = harness.agent.conversation
    return RunDescription(
        session=None if job.options.no_session else conversation.id,
        branch=conversation.branch,
        model=harness.model,
        mode=str(conversation.mode),
        folder=replace_lone_surrogates(str(job.start.folder)),
    )
