"""`steno -p PROMPT`: let a model work without a person at the keyboard.

Stdout holds the answer, or JSON and nothing else; everything else goes to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Any, Final

from steno.agent import AllowingApprover, Approver, Ending, RunResult
from steno.cli.asking import ConsoleApprover
from steno.cli.commands import Commands, count
from steno.cli.compose import Harness, compose
from steno.cli.configuration import Loaded, load_settings
from steno.cli.paper import note
from steno.cli.place import add_store_option
from steno.cli.printable import printable
from steno.cli.session import Start
from steno.cli.telling import FORMATS, About, Teller, new_teller
from steno.errors import InvalidValue

AT_LIMIT: Final = 4
_STATUSES: Final = {
    Ending.DONE: 0,
    Ending.FAILED: 1,
    Ending.LIMIT: AT_LIMIT,
    Ending.INTERRUPTED: 128 + signal.SIGINT,
}
_MOST_STDIN: Final = 10 * 1024 * 1024
_EPILOG: Final = """\
examples:
  steno -p "What does this project do?"
  git diff | steno -p "Review this change." --output-format json
  steno -p "Mend the failing test." --allow 'write(src/**)' --allow 'edit(src/**)' --allow 'bash(pytest *)'
  steno -c -p "Now add a test for it." --yes

exit status:
  0  the model is done
  1  it could not be done: the message on stderr says why
  2  the command line makes no sense
  4  a limit was reached (--max-turns, --max-seconds, --max-cost); -c goes on
  130, 143  interrupted; the session is in order, and -c goes on

What no rule allows and a person would have to be asked about is denied, unless --ask or --yes.
"""
_FLAGS: Final = (
    *("model", "mode", "allow", "deny", "max_turns", "max_seconds", "max_cost", "max_tokens"),
    *("temperature", "add_dirs", "system_prompt", "append_system_prompt"),
)
"""Options that are settings as well, by their names."""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    run = commands.add_parser(
        "run",
        help="let a model work: steno -p PROMPT",
        description="Let a model work on a prompt, with the tools it may use. "
        "`steno -p ...` is short for `steno run -p ...`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("-p", "--prompt", metavar="PROMPT", help="what to do; stdin is appended")
    run.add_argument(
        "--output-format",
        choices=FORMATS,
        default="text",
        help="the answer as text (default), one JSON object, or a line of JSON for each event",
    )
    _add_session_options(run)
    _add_model_options(run)
    _add_permission_options(run)
    run.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    run.set_defaults(run=_run)


def _add_session_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("session")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c",
        "--continue",
        dest="continues",
        action="store_true",
        help="go on with the last session of this folder",
    )
    which.add_argument("-r", "--resume", metavar="ID", help="go on with a session, or `last`")
    which.add_argument("--no-session", action="store_true", help="keep nothing on disk")
    group.add_argument(
        "--fork",
        nargs="?",
        const="",
        metavar="BRANCH",
        help="with -c or -r: go on in a branch of its own, and leave the other as it is",
    )
    add_store_option(run)


def _add_model_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("model")
    group.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="who answers; `steno models` lists them"
    )
    group.add_argument("--system-prompt", metavar="TEXT", help="in place of the usual one")
    group.add_argument("--append-system-prompt", metavar="TEXT", help="behind the usual one")
    group.add_argument("--max-turns", type=count, metavar="N", help="answers at most (default 50)")
    group.add_argument("--max-seconds", type=float, metavar="S", help="time at most")
    group.add_argument("--max-cost", type=float, metavar="AMOUNT", help="cost at most, in dollars")
    group.add_argument("--max-tokens", type=count, metavar="N", help="length of an answer at most")
    group.add_argument("--temperature", type=float, metavar="T", help="0 to 2")


def _add_permission_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("what it may do")
    group.add_argument("--mode", choices=("plan", "act"), help="plan reads only; act may do all")
    group.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="such as 'bash(git log *)', 'write(src/**)'",
    )
    group.add_argument(
        "--deny", action="append", metavar="RULE", help="counts more than any --allow"
    )
    whom = group.add_mutually_exclusive_group()
    whom.add_argument("--ask", action="store_true", help="ask on the terminal what no rule decides")
    whom.add_argument("--yes", action="store_true", help="allow what would be asked")
    group.add_argument(
        "--add-dir",
        action="append",
        dest="add_dirs",
        metavar="FOLDER",
        help="another folder that tools may work in",
    )


# -- the command -----------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    start = Start(Path.cwd(), resume=options.resume, continues=options.continues, fork=options.fork)
    _check(options, start)
    prompt = _prompt(options.prompt)
    flags: dict[str, Any] = {name: getattr(options, name) for name in _FLAGS}
    loaded = load_settings(flags=flags | {"store": getattr(options, "store", None)})
    if not options.quiet:
        for text in loaded.notes:
            note(text)
    teller = new_teller(options.output_format, quiet=options.quiet)
    result = asyncio.run(_go(options, loaded, start, prompt, teller))
    if result.error is not None:
        print(f"steno: {printable(str(result.error))}", file=sys.stderr)
    return _STATUSES[result.ending]


def _check(options: argparse.Namespace, start: Start) -> None:
    if start.fork is not None and start.is_new:
        raise InvalidValue("--fork: needs --continue or --resume, which say what to fork")
    if not start.is_new and (options.system_prompt or options.append_system_prompt):
        raise InvalidValue("--system-prompt: a session that goes on has one already")


def _prompt(said: str | None) -> str:
    """Return what to do: what the option says, and behind it what stdin holds."""
    piped = ""
    if not sys.stdin.isatty():
        data = sys.stdin.buffer.read(_MOST_STDIN + 1)
        if len(data) > _MOST_STDIN:
            raise InvalidValue(f"stdin: more than {_MOST_STDIN:,} bytes; name a file instead")
        try:
            piped = data.decode()
        except UnicodeDecodeError:
            raise InvalidValue("stdin: is not UTF-8 text") from None
    parts = [part for part in (said or "", piped) if part.strip()]
    if not parts:
        raise InvalidValue("prompt: say what to do, as in: steno -p 'What does this project do?'")
    return "\n\n".join(parts)


async def _go(
    options: argparse.Namespace, loaded: Loaded, start: Start, prompt: str, teller: Teller
) -> RunResult:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with compose(
        loaded,
        start,
        keeps=not options.no_session,
        mode=options.mode,
        approver=_approver(options),
    ) as harness:
        teller.begin(_about(harness, options))
        result = await harness.agent.run(prompt, watch=teller.watch)
    teller.end(result)
    return result


def _about(harness: Harness, options: argparse.Namespace) -> About:
    conversation = harness.agent.conversation
    return About(
        session=None if options.no_session else conversation.id,
        branch=conversation.branch,
        model=harness.model,
        mode=str(conversation.mode),
        folder=str(Path.cwd()),
    )


def _approver(options: argparse.Namespace) -> Approver | None:
    if options.yes:
        return AllowingApprover()
    return ConsoleApprover() if options.ask else None
