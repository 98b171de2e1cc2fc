"""`steno` and `steno -p PROMPT`: the options, and the choice between terminal and single prompt.

The full screen is painted before anything else is loaded, so this module imports nothing heavy:
`command_table` loads the one interface that is needed, which loads the session after its first
frame.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from steno.app.commands.arguments import add_arguments, parse_number, positive_int
from steno.app.folders import config_folder, home_folder
from steno.cli.arguments import STORE, Subparsers
from steno.cli.command_table import (
    load_full_screen,
    load_headless,
    load_plain_mode,
    load_session_opener,
)
from steno.render.terminal_text import is_dumb_terminal

OUTPUT_FORMATS: Final = ("text", "json", "stream-json")
_TRUE_VALUES: Final = ("1", "true", "yes", "on")
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


def add_commands(commands: Subparsers) -> None:
    """Add the command."""
    run = commands.add_parser(
        "run",
        help="let a model work: steno, or steno -p PROMPT",
        description="Let a model work with the tools it may use: at the terminal, or on one prompt "
        "(-p). `steno ...` is short for `steno run ...`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "first_prompt", nargs="?", metavar="PROMPT", help="what to say first at the terminal"
    )
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
        choices=OUTPUT_FORMATS,
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
    verbosity = run.add_mutually_exclusive_group()
    verbosity.add_argument(
        "-q", "--quiet", action="store_true", help="nothing on stderr but errors"
    )
    verbosity.add_argument(
        "-v", "--verbose", action="store_true", help="also all that a server does not look at"
    )
    run.set_defaults(run=_run_command, parser=run)


def _add_session_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("session")
    resume = group.add_mutually_exclusive_group()
    resume.add_argument(
        "-c",
        "--continue",
        dest="continues",
        action="store_true",
        help="go on with the last session of this folder",
    )
    resume.add_argument("-r", "--resume", metavar="ID", help="go on with a session, or `last`")
    resume.add_argument("--no-session", action="store_true", help="keep nothing on disk")
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
    add_arguments(run, [STORE])


def _add_model_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("model")
    group.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="who answers; `steno models` lists them"
    )
    group.add_argument("--system-prompt", metavar="TEXT", help="in place of the usual one")
    group.add_argument("--append-system-prompt", metavar="TEXT", help="behind the usual one")
    group.add_argument(
        "--max-turns", type=positive_int, metavar="N", help="answers at most (default 50)"
    )
    group.add_argument("--max-seconds", type=parse_number, metavar="S", help="time at most")
    group.add_argument(
        "--max-cost", type=parse_number, metavar="AMOUNT", help="cost at most, in dollars"
    )
    group.add_argument(
        "--max-tokens", type=positive_int, metavar="N", help="length of an answer at most"
    )
    group.add_argument("--temperature", type=parse_number, metavar="T", help="0 to 2")
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
    approval = group.add_mutually_exclusive_group()
    approval.add_argument(
        "--ask", action="store_true", help="ask on the terminal what no rule decides"
    )
    approval.add_argument("--yes", action="store_true", help="allow what would be asked")
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


# -- running ---------------------------------------------------------------------------------


def _run_command(options: argparse.Namespace) -> int:
    _check_session_options(options)
    if is_interactive(options):
        return run_interactive(options)
    return load_headless()(options)


def _check_session_options(options: argparse.Namespace) -> None:
    """Exit if options contradict each other, before a full screen hides the error."""
    refuse, is_new = options.parser.error, options.resume is None and not options.continues
    if options.fork is not None and is_new:
        refuse("--fork: needs --continue or --resume, which say what to fork")
    if options.retry and is_new:
        refuse("--retry: needs --continue or --resume, which say where to try again")
    if options.retry and (options.prompt is not None or options.images):
        refuse("--retry: says again what was said; leave out -p and --image")
    if not is_new and (options.system_prompt or options.append_system_prompt):
        refuse("--system-prompt: a session that goes on has one already")


def is_interactive(options: argparse.Namespace) -> bool:
    """Return whether a user works at a terminal, and no option holds a prompt."""
    if options.prompt is not None or options.images or options.retry:
        return False
    if options.output_format != "text":
        return False
    return bool(options.plain) or (sys.stdin.isatty() and sys.stdout.isatty())


def run_interactive(options: argparse.Namespace) -> int:
    """Run a session at the terminal, full screen or line by line; return the exit status."""
    settings = _read_user_settings(os.environ)
    history = None if options.no_session else _history_file(os.environ)
    if _is_plain(options, settings, os.environ) or not _has_full_screen():
        return load_plain_mode()(options, history)
    # Modules are never garbage: collecting while they load takes time and frees nothing.
    gc.disable()
    try:
        return _run_full_screen(options, settings, history)
    finally:
        gc.enable()


def _read_user_settings(environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return the settings in the user's file that are needed before it is read and checked."""
    folder = config_folder(environ)
    if folder is None:
        return {}
    try:
        return tomllib.loads((folder / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # the settings loader reports the error


def _history_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file that keeps the lines a user has typed."""
    state_folder = environ.get("XDG_STATE_HOME", "")
    home = home_folder(environ)
    if state_folder.startswith("/"):
        return Path(state_folder) / "steno" / "typed.jsonl"
    return None if home is None else home / ".local" / "state" / "steno" / "typed.jsonl"


def _is_plain(
    options: argparse.Namespace, settings: Mapping[str, object], environ: Mapping[str, str]
) -> bool:
    if options.plain is not None:
        return bool(options.plain)
    if "STENO_PLAIN" in environ:
        return environ["STENO_PLAIN"].lower() in _TRUE_VALUES
    return settings.get("plain") is True or is_dumb_terminal(environ)


def _has_full_screen() -> bool:
    """Return whether the full screen is installed; if not, report it once and work line by line."""
    if find_spec("textual") is not None:
        return True
    notice = "the full screen is not installed (pip install 'steno[tui]'); line by line, then"
    print(f"steno: {notice}", file=sys.stderr)
    return False


def _run_full_screen(
    options: argparse.Namespace, settings: Mapping[str, object], history: Path | None
) -> int:
    screen = load_full_screen()
    names = [os.environ.get("STENO_THEME"), settings.get("theme")]
    themes = [screen.theme_named(name) for name in names if isinstance(name, str)]
    theme = next(filter(None, themes), screen.default_theme(os.environ))
    sessions: list[str] = []

    def opener(report: Callable[[str], None]) -> Any:
        return _open_session(options, report, sessions)

    status = screen.run_terminal(
        opener,
        theme=theme,
        history=history,
        first_prompt=options.first_prompt or "",
        is_verbose=options.verbose,
    )
    for session in sessions:
        print(f"session {session}: steno -c goes on with it", file=sys.stderr)
    return status


@asynccontextmanager
async def _open_session(
    options: argparse.Namespace, report: Callable[[str], None], sessions: list[str]
) -> AsyncGenerator[Any]:
    """Open the session; its modules are loaded in a thread, so that the screen stays alive.

    The id of the last session is added to `sessions`, for the notice that names it.
    """
    open_session = await asyncio.to_thread(load_session_opener)
    async with open_session(options, report) as session:
        gc.freeze()  # keep the collector from these objects later, while a user types
        gc.enable()
        try:
            yield session
        finally:
            last: str | None = session.status.session
            sessions.extend([last] if last else [])
