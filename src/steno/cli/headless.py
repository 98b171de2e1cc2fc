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
from typing import Any, Final, NamedTuple

from steno.agent import (
    AllowingApprover,
    Approver,
    CallEnded,
    Ending,
    LoopEvent,
    Notice,
    NoticeCode,
    RunResult,
)
from steno.cli.asking import NO_TERMINAL, ConsoleApprover, has_terminal
from steno.cli.commands import Misused
from steno.cli.compose import Harness, compose
from steno.cli.configuration import Loaded, load_settings
from steno.cli.folders import working_folder
from steno.cli.opening import Opened, Outside
from steno.cli.output import Unwritable
from steno.cli.paper import note
from steno.cli.saying import Said, Words, read_words, say_again
from steno.cli.session import Start
from steno.cli.stopping import Stopping
from steno.cli.tally import Tally
from steno.cli.telling import About, Teller, TextTeller
from steno.cli.telling_json import JsonTeller
from steno.cli.uncovered import uncovered
from steno.content import RecognitionMode
from steno.conversation import Conversation
from steno.errors import Conflict, InvalidValue, Unresolved
from steno.printable import cut, on_one_line
from steno.value import is_text, replace_lone_surrogates

AT_LIMIT: Final = 4
_STATUSES: Final = {
    Ending.DONE: 0,
    Ending.FAILED: 1,
    Ending.LIMIT: AT_LIMIT,
    Ending.INTERRUPTED: 128 + signal.SIGINT,
}
_MOST_STDIN: Final = 10 * 1024 * 1024
_PATIENCE_S: Final = 3.0
"""How long stdin may keep us waiting before we say so."""
_FLAGS: Final = (
    *("model", "mode", "allow", "deny", "max_turns", "max_seconds", "max_cost", "max_tokens"),
    *("temperature", "add_dirs", "system_prompt", "append_system_prompt", "image_mode"),
)
"""Options that are settings as well, by their names."""


class _Job(NamedTuple):
    """Everything that was asked for."""

    options: argparse.Namespace
    loaded: Loaded
    start: Start
    prompt: Words
    reporter: Teller


def run_headless(options: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit status."""
    start = Start(
        working_folder(), resume=options.resume, continues=options.continues, fork=options.fork
    )
    if options.ask and not has_terminal():
        options.parser.error(f"--ask: {NO_TERMINAL}; --allow and --yes ask nobody")
    words = _words(options)
    loaded = load_settings(flags=flags_of(options))
    job = _Job(options, loaded, start, words, _teller(options))
    try:
        return asyncio.run(_go(job))
    finally:
        job.reporter.close()


def flags_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are settings as well."""
    flags: dict[str, Any] = {name: getattr(options, name) for name in _FLAGS}
    return flags | {"store": getattr(options, "store", None)}


def _teller(options: argparse.Namespace) -> Teller:
    if options.output_format == "text":
        return TextTeller(quiet=options.quiet, verbose=options.verbose)
    streams = options.output_format == "stream-json"
    return JsonTeller(streams=streams, quiet=options.quiet, verbose=options.verbose)


def _approver(options: argparse.Namespace) -> Approver | None:
    if options.yes:
        return AllowingApprover()
    return ConsoleApprover() if options.ask else None


# -- what to do ------------------------------------------------------------------------------


def _words(options: argparse.Namespace) -> Words:
    """Return what to do: what the option says, and behind it what stdin holds."""
    if options.retry:
        return Words("")
    if options.words is not None and options.prompt not in (None, "-"):
        extra = cut(on_one_line(options.words), 40)
        rule = "nothing is expected there; what has blanks in it has to be in quotes"
        options.parser.error(f"{extra}: {rule}")
    said: str = (options.words or "") if options.prompt in (None, "-") else options.prompt
    if not is_text(said):
        raise Misused("--prompt: is not UTF-8 text")
    piped = _piped(options.prompt)
    if options.prompt == "-" and not said:
        said, piped = piped, ""
    if not (said.strip() or piped.strip()):
        options.parser.error(
            "say what to do, as in: steno -p 'What does this project do?'; steno --help tells more"
        )
    return Words(said, piped, tuple(options.images))


def _piped(prompt: str | None) -> str:
    """Return what stdin holds; a person at a keyboard is read only if that is asked for."""
    if sys.stdin.isatty() and prompt != "-":
        return ""
    with _saying_what_it_waits_for():
        data = sys.stdin.buffer.read(_MOST_STDIN + 1)
    if len(data) > _MOST_STDIN:
        raise InvalidValue(f"stdin: more than {_MOST_STDIN:,} bytes; name a file instead")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("stdin: is not UTF-8 text") from None


@contextmanager
def _saying_what_it_waits_for() -> Generator[None]:
    """Say so if stdin does not end: many programs leave it open for those that they start."""
    told = "reading stdin to its end; if there is none, add < /dev/null"
    timer = Timer(_PATIENCE_S, note, (told,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def _read(job: _Job, opened: Opened, going_on: Conversation | None) -> Said:
    """Make a message of what was said, or find the one that could not be sent."""
    options = job.options
    if options.retry:
        mode = None if options.image_mode is None else RecognitionMode(options.image_mode)
        return say_again(going_on, mode)
    return await read_words(job.prompt, opened, job.loaded.settings.image_mode)


# -- doing it --------------------------------------------------------------------------------


async def _go(job: _Job) -> int:
    """Do what was asked for, and return the exit status; a signal ends it in order."""
    with Stopping() as stopping:
        try:
            result = await _work(job, stopping)
        except asyncio.CancelledError:
            if stopping.status is None:
                raise
            return stopping.status
    if result.error is not None:
        note(on_one_line(f"{result.error}{_way_out(result.error, job)}"))
    if result.ending is Ending.INTERRUPTED and stopping.status is not None:
        return stopping.status
    return _STATUSES[result.ending]


def _way_out(error: Exception, job: _Job) -> str:
    """Say how to try again where something could not be opened; it is on record what was said."""
    if not isinstance(error, Unresolved) or job.options.no_session:
        return ""
    session = "-c" if job.start.resume is None else "-r last"
    return f"; {session} --retry tries the same again, {session} -p says something else"


async def _work(job: _Job, stopping: Stopping) -> RunResult:
    options, teller = job.options, job.reporter
    teller.prepare("looking for a model")
    async with compose(
        job.loaded,
        job.start,
        keeps=not options.no_session,
        mode=options.mode,
        approver=_approver(options),
        read=partial(_read, job),
        outside=Outside(tuple(options.mcp_config), options.no_mcp),
        say=teller.prepare,
        notify=lambda text: teller.on_event(Notice(NoticeCode.INPUT, text)),
    ) as harness:
        teller.begin(_about(harness, job))
        if harness.target.tools is False:
            told = f"{harness.model} calls no tools: it can only talk"
            teller.on_event(Notice(NoticeCode.CONTEXT, told))
        if not options.quiet:
            for text in (*job.loaded.notes, *harness.notes):
                note(on_one_line(text))
        stopping.on_first_signal = harness.agent.interrupt
        return await _told(harness, job)


async def _told(harness: Harness, job: _Job) -> RunResult:
    """Run the agent. Whatever comes of it, somebody is told: nobody has to guess from silence."""
    tally, teller = Tally(), job.reporter
    tools = {tool.definition.name: tool for tool in harness.tools}

    def watch(event: LoopEvent) -> None:
        tally.on_event(event)
        teller.on_event(event)
        if isinstance(event, CallEnded):
            notice = uncovered(event, tools, job.loaded.settings.allow)
            if notice is not None:
                teller.on_event(notice)

    try:
        said = harness.prompt
        result = await harness.agent.run(said.message, watch=watch, origin=said.origin)
    except (BrokenPipeError, Unwritable):
        raise  # there is nobody to tell
    except asyncio.CancelledError:
        teller.end(tally.result(Ending.INTERRUPTED))
        raise
    except Conflict as exc:
        told = Conflict(
            "session: another program has gone on with it meanwhile, and what it said is kept; "
            "go on behind it with -c, or beside it with --fork"
        )
        teller.end(tally.result(Ending.FAILED, told))
        raise told from exc
    except Exception as exc:
        teller.end(tally.result(Ending.FAILED, exc))
        raise
    teller.end(result)
    return result


def _about(harness: Harness, job: _Job) -> About:
    conversation = harness.agent.conversation
    return About(
        session=None if job.options.no_session else conversation.id,
        branch=conversation.branch,
        model=harness.model,
        mode=str(conversation.mode),
        folder=replace_lone_surrogates(str(job.start.folder)),
    )
