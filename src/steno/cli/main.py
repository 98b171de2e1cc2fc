"""Read the command line, run one command, turn errors into words and an exit status.

0  done
1  it could not be done: the message on stderr says why
2  the command line makes no sense
3  done, but not without loss (where that was forbidden)
4  stopped at a limit
129, 130, 143  ended by a signal: hang-up, Ctrl-C, kill
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from steno import StenoError, __version__
from steno.cli.command_line import WRONG, CommandLine
from steno.cli.commands import Misused
from steno.cli.nearest import meant
from steno.cli.output import Unwritable, writing
from steno.printable import cut, on_one_line, printable

FAILED: Final = 1
STDOUT: Final = "stdout"
_COMMANDS: Final = {
    "run": "run",
    "models": "models",
    "doctor": "doctor",
    "sessions": "sessions",
    "approvals": "approvals",
    "explain": "explain",
    "inputs": "inputs",
    "audit": "audit",
    "verify": "audit",
    "store": "stores",
    "usage": "usage",
    "replay": "replay",
    "feedback": "feedback",
    "permissions": "grants",
    "mcp": "mcp",
    "config": "config",
    "ocr": "ocr",
    "decode": "wires",
    "convert": "wires",
}
"""The file of each command, in the order in which help lists them."""
_EPILOG: Final = """\
work with a model:
  steno                           at the terminal; steno "PROMPT" says something first
  steno -c                        go on with the last session of this folder; -r ID with another
  steno --plain                   line by line, for screen readers and pipes
  steno -p "PROMPT"               on one prompt, and print the answer
  --model NAME  --mode plan  --allow RULE  --no-session        with all of these

'steno run --help' tells the rest of it, 'steno COMMAND --help' more about a command.
"""
_LONGEST_NAME: Final = 40
_EXTRA: Final = "pip install 'steno["
"""What is said of a part that is not installed, and of nothing else that cannot be imported."""
_OF_ITS_OWN: Final = ("-h", "--help", "--version")
"""Options that belong to no command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    _open_missing_streams()
    given = _with_command(sys.argv[1:] if arguments is None else list(arguments))
    try:
        parser = _parser(given)
        _check_command(given, parser)
        options = parser.parse_args(given)
        status: int = options.run(options)
        with writing(STDOUT):
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()  # whoever read our output has gone: there is nothing to say
        return FAILED
    except (StenoError, Unwritable) as exc:
        if isinstance(exc, Unwritable) and exc.filename == STDOUT:
            _forget_stdout()
        print(f"steno: {printable(str(exc))}", file=sys.stderr)
        return WRONG if isinstance(exc, Misused) else FAILED
    except ImportError as exc:
        if _EXTRA not in str(exc):
            raise
        print(f"steno: {exc}", file=sys.stderr)
        return FAILED
    except OSError as exc:
        rule = exc.strerror or str(exc) or type(exc).__name__
        place = printable(str(exc.filename or "stdin"))
        print(f"steno: {place}: {printable(rule)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _with_command(given: list[str]) -> list[str]:
    """Return the arguments with the command that is meant where none is named: `steno [PROMPT]`."""
    if not given:
        return ["run"]
    if " " in given[0] and not given[0].startswith("-"):  # no command has a blank in its name
        return ["run", *given]
    names_none = given[0].startswith("-") and given[0] not in _OF_ITS_OWN
    return ["run", *given] if names_none else given


def _check_command(given: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Say what may be meant where there is no such command, and exit."""
    name = given[0]
    if name in _COMMANDS or name in _OF_ITS_OWN:
        return
    near = meant(name, _COMMANDS)
    hint = f"do you mean {near}?" if near else "steno -p PROMPT lets a model work on something"
    parser.error(f"there is no command {cut(on_one_line(name), _LONGEST_NAME)}; {hint}")


def _open_missing_streams() -> None:
    """Open what whoever started us has closed, so that no file of ours takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _forget_stdout() -> None:
    """Keep Python from trying once more to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the command line, with no more of it than these arguments need."""
    parser = CommandLine(
        prog="steno",
        description="Let a model work; keep, translate and replay what a person, a model and tools "
        "say to each other.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"steno {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in _groups(arguments):
        import_module(f"steno.cli.{group}").add_commands(commands)
    return parser


def _groups(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the files whose commands may be meant."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    return (_COMMANDS[first],) if first in _COMMANDS else tuple(dict.fromkeys(_COMMANDS.values()))
