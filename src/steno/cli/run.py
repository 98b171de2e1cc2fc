"""`steno` and `steno -p PROMPT`: what they can be told on the command line.

What they do is in `interactive` and in `headless`; only the one that is meant is loaded.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any, Final

from steno.cli.commands import Commands, add_store_option, count, number
from steno.cli.interactive import is_interactive, run_interactive

FORMATS: Final = ("text", "json", "stream-json")

_EPILOG: Final = """\
examples:
  steno                                     # work at the terminal; steno -c goes on with the last session
  steno -p "What does this project do?"
  git diff | steno -p "Review this change." --output-format json
  steno -p "Mend the failing test." --allow 'write(src/**)' --allow 'edit(src/**)' --allow 'bash(pytest *)'
  steno -c -p "Now add a test for it." --yes
  steno -p "What is wrong in @src/main.py:10-40, given @docs/ and @'notes/to do.txt'?"
  steno -p "What does this error say?" --image screenshot.png

exit status:
  0  the model is done
  1  it could not be done: the message on stderr says why
  2  the command line makes no sense
  4  a limit was reached (--max-turns, --max-seconds, --max-cost); -c goes on
  129, 130, 143  ended by a signal (hang-up, Ctrl-C, kill); -c goes on

What no rule allows and a person would have to be asked about is denied, unless --ask or --yes.
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    run = commands.add_parser(
        "run",
        help="let a model work: steno, or steno -p PROMPT",
        description="Let a model work with the tools it may use: at the terminal, or on one prompt "
        "(-p). `steno ...` is short for `steno run ...`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("words", nargs="?", metavar="PROMPT", help="what to say first at the terminal")
    run.add_argument(
        "-p",
        "--prompt",
        nargs="?",
        const="-",
        metavar="PROMPT",
        help="what to do without a terminal; stdin is appended; alone or - it is stdin",
    )
    run.add_argument(
        "--plain",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="without -p: work line by line, as screen readers and pipes like it",
    )
    run.add_argument(
        "--output-format",
        choices=FORMATS,
        default="text",
        help="the answer as text (default), one JSON object, or a line of JSON for each event",
    )
    run.add_argument(
        "--image",
        dest="images",
        action="append",
        default=[],
        metavar="FILE|URL",
        help="an image to show with the prompt; may be repeated",
    )
    _add_session_options(run)
    _add_model_options(run)
    _add_permission_options(run)
    how_much = run.add_mutually_exclusive_group()
    how_much.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    how_much.add_argument(
        "-v", "--verbose", action="store_true", help="also all that a server does not look at"
    )
    run.set_defaults(run=_run, parser=run)


def _run(options: argparse.Namespace) -> int:
    _check_session_options(options)
    if is_interactive(options):
        return run_interactive(options)
    headless: Any = import_module("steno.cli.headless")
    status: int = headless.run_headless(options)
    return status


def _check_session_options(options: argparse.Namespace) -> None:
    """Refuse what makes no sense together, and exit: before a screen hides what is wrong."""
    refuse, is_new = options.parser.error, options.resume is None and not options.continues
    if options.fork is not None and is_new:
        refuse("--fork: needs --continue or --resume, which say what to fork")
    if options.retry and is_new:
        refuse("--retry: needs --continue or --resume, which say where to try again")
    if options.retry and (options.prompt is not None or options.images):
        refuse("--retry: says again what was said; leave out -p and --image")
    if not is_new and (options.system_prompt or options.append_system_prompt):
        refuse("--system-prompt: a session that goes on has one already")


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
    group.add_argument(
        "--retry",
        action="store_true",
        help="with -c or -r: say again what could not be sent, since a file or image was not there",
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
    group.add_argument("--max-seconds", type=number, metavar="S", help="time at most")
    group.add_argument("--max-cost", type=number, metavar="AMOUNT", help="cost at most, in dollars")
    group.add_argument("--max-tokens", type=count, metavar="N", help="length of an answer at most")
    group.add_argument("--temperature", type=number, metavar="T", help="0 to 2")
    group.add_argument(
        "--image-mode",
        choices=("auto", "vision", "ocr"),
        help="images as they are, as the text in them, or whichever the model can take (default)",
    )


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
    servers = group.add_mutually_exclusive_group()
    servers.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="MCP servers beside those that are set up, in the form of .mcp.json",
    )
    servers.add_argument("--no-mcp", action="store_true", help="start no MCP server")
