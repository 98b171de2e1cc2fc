"""The command `steno run`, with its options and the choice of the interface.

The full screen is painted before anything else is loaded, so this module imports nothing heavy.
`command_table` loads the selected interface, which loads the session after its first frame.
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

from steno.app.commands.arguments import (
    SESSION_NAMES,
    add_arguments,
    parse_boolean,
    parse_number,
    positive_int,
)
from steno.app.folders import config_folder, home_folder
from steno.cli.arguments import FOLDER, STORE, Subparsers, enter_folder
from steno.cli.command_table import (
    load_full_screen,
    load_headless,
    load_plain_mode,
    load_session_opener,
)
from steno.errors import install_command
from steno.regular_file import open_regular_file
from steno.render.terminal_text import is_dumb_terminal

OUTPUT_FORMATS: Final = ("text", "json", "stream-json")
_EPILOG: Final = """\
examples:
  steno                                     # open a session; steno -c continues the last one
  steno -p "What does this project do?"
  git diff | steno -p "Review this change." --output-format json
  steno -p "Fix the failing test." --allow 'write(src/**)' --allow 'edit(src/**)' --allow 'bash(pytest *)'
  steno -c -p "Now add a test for it." --yes
  steno -p "What is wrong in @src/main.py:10-40, given @docs/ and @'notes/to do.txt'?"
  steno -p "What does this error say?" --image screenshot.png

exit status:
  0  the run is complete
  1  the run failed; see stderr for the reason
  2  the command line is invalid
  4  the run stopped at a limit (--max-turns, --max-seconds, --max-cost); -c continues
  129, 130, 143  stopped by a signal (hang-up, Ctrl-C, kill); -c continues

With -p, calls that need approval are denied unless you pass --ask or --yes.
"""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    run = commands.add_parser(
        "run",
        help="start a session or run one prompt (the default command)",
        description="Start an interactive session, or run one prompt with -p. `steno ...` is "
        "short for `steno run ...`.",
        epilog=_EPILOG,
    )
    run.add_argument(
        "first_prompt", nargs="?", metavar="PROMPT", help="the first prompt of the session"
    )
    run.add_argument(
        "-p",
        "--prompt",
        nargs="?",
        const="-",
        metavar="PROMPT",
        help="run this prompt, print the response and exit; stdin is appended to PROMPT, or is "
        "the prompt if PROMPT is omitted or -",
    )
    run.add_argument(
        "--plain",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="without -p: work line by line, for screen readers and pipes",
    )
    run.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="print the response as text (default), as one JSON object, or as one JSON object "
        "per event",
    )
    run.add_argument(
        "--image",
        dest="images",
        action="append",
        default=[],
        metavar="FILE|URL",
        help="attach an image to the prompt; repeatable",
    )
    _add_session_options(run)
    _add_model_options(run)
    _add_permission_options(run)
    verbosity = run.add_mutually_exclusive_group()
    verbosity.add_argument(
        "-q", "--quiet", action="store_true", help="on stderr, print only errors"
    )
    verbosity.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="report every change to a request, including each field that the server ignores; with "
        "--plain, also print thinking",
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
        help="continue the last session of this folder",
    )
    resume.add_argument("-r", "--resume", metavar="ID", help=f"resume a session: {SESSION_NAMES}")
    resume.add_argument("--no-session", action="store_true", help="do not store the session")
    group.add_argument(
        "--fork",
        nargs="?",
        const="",
        metavar="BRANCH",
        help="with -c or -r: continue in a new branch",
    )
    group.add_argument(
        "--retry",
        action="store_true",
        help="with -c or -r: send the last prompt again, for example after an error",
    )
    add_arguments(run, [FOLDER, STORE])


def _add_model_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("model")
    group.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="the model to use; see `steno models`"
    )
    group.add_argument("--system-prompt", metavar="TEXT", help="replace the system prompt")
    group.add_argument("--append-system-prompt", metavar="TEXT", help="append to the system prompt")
    group.add_argument(
        "--max-turns", type=positive_int, metavar="N", help="stop after N responses (default: 50)"
    )
    group.add_argument("--max-seconds", type=parse_number, metavar="S", help="stop after S seconds")
    group.add_argument(
        "--max-cost", type=parse_number, metavar="AMOUNT", help="stop at this cost, in US dollars"
    )
    group.add_argument(
        "--max-tokens", type=positive_int, metavar="N", help="limit each response to N tokens"
    )
    group.add_argument(
        "--temperature", type=parse_number, metavar="T", help="the sampling temperature, 0 to 2"
    )
    group.add_argument(
        "--image-mode",
        choices=("auto", "vision", "ocr"),
        help="send images (vision), the text in them (ocr), or whichever the model supports (auto, "
        "the default)",
    )


def _add_permission_options(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("permissions and tools")
    group.add_argument(
        "--mode",
        choices=("plan", "act"),
        help="plan: only read; act: also write files and run commands, with permission (default)",
    )
    group.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="allow calls that match this rule, such as 'bash(git log *)' or 'write(src/**)'; "
        "repeatable",
    )
    group.add_argument(
        "--deny",
        action="append",
        metavar="RULE",
        help="deny calls that match this rule; overrides --allow; repeatable",
    )
    approval = group.add_mutually_exclusive_group()
    approval.add_argument(
        "--ask", action="store_true", help="ask on the terminal about calls that need approval"
    )
    approval.add_argument("--yes", action="store_true", help="allow calls that need approval")
    group.add_argument(
        "--add-dir",
        action="append",
        dest="add_dirs",
        metavar="FOLDER",
        help="also give tools access to this folder; repeatable",
    )
    servers = group.add_mutually_exclusive_group()
    servers.add_argument(
        "--mcp-config",
        action="append",
        default=[],
        metavar="FILE",
        help="also use the MCP servers in FILE, which has the format of .mcp.json; repeatable",
    )
    servers.add_argument("--no-mcp", action="store_true", help="start no MCP servers")


# -- running ---------------------------------------------------------------------------------


def _run_command(options: argparse.Namespace) -> int:
    _check_session_options(options)
    enter_folder(options.folder)
    if is_interactive(options):
        return run_interactive(options)
    return load_headless()(options)


def _check_session_options(options: argparse.Namespace) -> None:
    """Exit if options contradict each other, before the full screen hides the error."""
    refuse, is_new = options.parser.error, options.resume is None and not options.continues
    if options.fork is not None and is_new:
        refuse("--fork: needs --continue or --resume")
    if options.retry and is_new:
        refuse("--retry: needs --continue or --resume")
    if options.retry and (options.prompt is not None or options.images):
        refuse("--retry: sends the last prompt again; omit -p and --image")
    for option in ("--system-prompt", "--append-system-prompt"):
        if not is_new and getattr(options, option[2:].replace("-", "_")):
            refuse(f"{option}: the resumed session already has a system prompt")


def is_interactive(options: argparse.Namespace) -> bool:
    """Return whether to start a session at the terminal instead of running one prompt."""
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
    # Modules are never garbage; a collection while they load takes time and frees nothing.
    gc.disable()
    try:
        return _run_full_screen(options, settings, history)
    finally:
        gc.enable()


def _read_user_settings(environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return the user's settings without validation; empty if they cannot be read.

    They are needed before the session is loaded.
    """
    folder = config_folder(environ)
    if folder is None:
        return {}
    try:
        with open_regular_file(folder / "config.toml") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        return {}  # the settings loader reports the error


def _history_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the prompt history; None if the home folder is unknown."""
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
    if variable := environ.get("STENO_PLAIN"):
        return parse_boolean(variable) is True
    return settings.get("plain") is True or is_dumb_terminal(environ)


def _has_full_screen() -> bool:
    """Return whether the full screen is installed; print a notice if it is not."""
    if find_spec("textual") is not None:
        return True
    notice = f"the full screen is not installed ({install_command('tui')}); using --plain"
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
        print(f"session {session}: continue it with steno -c", file=sys.stderr)
    return status


@asynccontextmanager
async def _open_session(
    options: argparse.Namespace, report: Callable[[str], None], sessions: list[str]
) -> AsyncGenerator[Any]:
    """Open the session; its modules are loaded in a thread, so that the screen stays responsive.

    At the end, the ID of the current session is appended to `sessions`, for the closing notice.
    """
    open_session = await asyncio.to_thread(load_session_opener)
    async with open_session(options, report) as session:
        gc.freeze()  # exempt the loaded objects from collections while the user types
        gc.enable()
        try:
            yield session
        finally:
            last: str | None = session.status.session
            sessions.extend([last] if last else [])
