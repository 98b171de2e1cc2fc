"""The entry point of the command line, which runs one command and reports errors.

Exit status:
0  success
1  the command failed; a message on stderr states the reason
2  the command line is invalid
3  content was lost or could not be checked
4  the run stopped at a limit
129, 130, 143  stopped by a signal (hang-up, Ctrl-C, kill)
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TextIO

from steno import StenoError, __version__
from steno.app.commands.arguments import UsageError
from steno.app.environment import hide_keys
from steno.cli.arguments import CommandLineParser, ExitStatus, Subparsers, bound_message
from steno.cli.command_table import COMMAND_NAMES, load_command
from steno.cli.process_hardening import erase_initial_variables, harden_process
from steno.errors import MissingExtra
from steno.render.output import STDOUT, OutputError, report_write_errors
from steno.render.terminal_text import terminal_line, terminal_text, truncate_to_width
from steno.suggest import closest_name

_EPILOG: Final = """\
start a session:
  steno                 open an interactive session
  steno "PROMPT"        open a session and send a first prompt
  steno -c              continue the last session of this folder (-r ID: any session)
  steno -p "PROMPT"     run one prompt, print the response and exit
  steno --plain         work line by line, for screen readers and pipes

common options:
  --model NAME  --mode plan  --allow RULE  --no-session

exit status:
  0  success
  1  the command failed; see stderr for the reason
  2  the command line is invalid
  3  content was lost or could not be checked (--strict, verify)
  4  the run stopped at a limit
  129, 130, 143  stopped by a signal (hang-up, Ctrl-C, kill)

Run 'steno run --help' for the options of a session, 'steno COMMAND --help' for those of a command.
"""
_MAX_NAME_LENGTH: Final = 40
_POSIX_MODULES: Final = ("fcntl", "resource", "termios")
"""Modules of the standard library that Windows lacks."""
_OTHER_NAMES: Final = {
    "help": "--help",
    "version": "--version",
    "export": "sessions export",
    "import": "sessions import",
    "list": "sessions list",
    "resume": "--resume",
    "continue": "--continue",
    "tools": "mcp tools",
}
"""Command names of other programs, and their equivalents in steno."""
_GLOBAL_OPTIONS: Final = ("-h", "--help", "--version")
"""Options that are valid without a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    The arguments default to those of this process, which then is a program of its own.
    """
    if arguments is None:
        erase_initial_variables(hide_keys())
        harden_process()
    _open_missing_streams()
    _buffer_output()
    try:
        return _run_and_report(sys.argv[1:] if arguments is None else arguments)
    finally:
        _flush_stderr()


def _run_and_report(arguments: Sequence[str]) -> int:
    try:
        return run_command(arguments)
    except (StenoError, MissingExtra, OSError, KeyboardInterrupt) as exc:
        return report_error(exc)
    except ModuleNotFoundError as exc:
        if exc.name not in _POSIX_MODULES:
            raise
        _print_error("this command needs Linux or macOS; on Windows, run it in WSL")
        return ExitStatus.FAILED


def run_command(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status.

    Raises StenoError, MissingExtra or OSError if the command fails.
    """
    command_line = _add_default_command(list(arguments))
    parser = build_parser(command_line)
    _check_command(command_line, parser)
    options = parser.parse_args(command_line)
    is_literal = command_line == list(arguments) or "--" in arguments
    if not is_literal and (name := getattr(options, "first_prompt", None)) in COMMAND_NAMES:
        parser.error(
            f"write the command {name} before its options: steno {name} ...; to send the word as a "
            f"prompt, use steno run {name}"
        )
    status: int = options.run(options)
    with report_write_errors(STDOUT):
        sys.stdout.flush()
    return status


def report_error(error: StenoError | MissingExtra | OSError | KeyboardInterrupt) -> ExitStatus:
    """Print an error that ended a command, and return the exit status."""
    match error:
        case KeyboardInterrupt():
            return ExitStatus.INTERRUPTED
        case BrokenPipeError():
            _discard(sys.stdout)  # not an error: the reader of the output has closed the pipe
        case OutputError() | StenoError():
            if isinstance(error, OutputError) and error.is_stdout:
                _discard(sys.stdout)
            _print_error(str(error))
        case MissingExtra():
            _print_error(str(error))
        case OSError():
            reason = error.strerror or str(error) or type(error).__name__
            _print_error(f"{error.filename or 'stdin'}: {reason}")
    return ExitStatus.USAGE if isinstance(error, UsageError) else ExitStatus.FAILED


def _open_missing_streams() -> None:
    """Replace closed standard streams with /dev/null, so that no file gets their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _buffer_output() -> None:
    """Give stdout and stderr a buffer if they have none, as with PYTHONUNBUFFERED.

    A full disk or a signal can cut a write to an unbuffered stream short, and Python ignores that.
    A buffer writes the rest, or raises the error.
    """
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        raw: object = getattr(stream, "buffer", None)
        if isinstance(raw, io.RawIOBase):
            buffered = io.TextIOWrapper(
                io.BufferedWriter(raw),
                stream.encoding,
                stream.errors,
                line_buffering=True,
                write_through=True,
            )
            setattr(sys, name, buffered)


def _add_default_command(arguments: list[str]) -> list[str]:
    """Return the arguments, with the command `run` first if they name no command."""
    if not arguments:
        return ["run"]
    first = arguments[0]
    if first.startswith("-"):
        has_command = first in _GLOBAL_OPTIONS
    else:
        # A text with spaces is a prompt, and so is one in another script, which may have no spaces.
        has_command = " " not in first and first.isascii()
    return arguments if has_command else ["run", *arguments]


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser that contains only the commands that the arguments need."""
    parser = CommandLineParser(
        prog="steno",
        description="A coding agent for the terminal that records, branches and replays every "
        "session.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"steno {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    first = arguments[0]
    if first != "--version":
        if first in COMMAND_NAMES:
            load_command(first)(commands)
        else:
            _add_all_commands(commands)
    return parser


def _add_all_commands(commands: Subparsers) -> None:
    """Add all commands; on Windows, omit the commands that need POSIX."""
    for name in COMMAND_NAMES:
        try:
            load_command(name)(commands)
        except ModuleNotFoundError as exc:
            if exc.name not in _POSIX_MODULES:
                raise


def _check_command(arguments: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Exit if the command is unknown, and suggest the closest one."""
    name = arguments[0]
    if name in COMMAND_NAMES or name in _GLOBAL_OPTIONS:
        return
    meant = _OTHER_NAMES.get(name) or closest_name(name, COMMAND_NAMES)
    hint = (
        f"did you mean steno {meant}?" if meant else "to send it as a prompt, use steno run PROMPT"
    )
    parser.error(
        f"unknown command {truncate_to_width(terminal_line(name), _MAX_NAME_LENGTH)}; {hint}"
    )


def _print_error(text: str) -> None:
    """Print an error on stderr. If that is not possible, the error is not printed."""
    with suppress(OSError):
        print(f"steno: {bound_message(terminal_text(text))}", file=sys.stderr)


def _flush_stderr() -> None:
    try:
        sys.stderr.flush()
    except OSError:  # its reader is gone, or its disk is full
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
