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
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, final

from steno import StenoError, __version__
from steno.app.errors import UsageError, closest_name, suggest_name
from steno.render.output import OutputError, report_write_errors
from steno.render.terminal_text import terminal_line, terminal_text, truncate_to_width

# -- command line ----------------------------------------------------------------------------------
#
# Read options in our words: what is wrong stands in one line, the last, and it is ours.
#
# Argparse prints all of a usage before it, and that of another command for an option that there is
# not. Here the command that is meant answers, with what may be meant; its help has the rest.


EXIT_USAGE: Final = 2
"""The exit status where a command line makes no sense."""


_MAX_SHOWN_LENGTH: Final = 40


@final
class CommandParser(argparse.ArgumentParser):
    """The options of a command; those of its subcommands are of the same kind."""

    def __init__(self, **settings: Any) -> None:
        """Take what argparse takes. Options are written in full: `--all` is no `--allow`."""
        super().__init__(allow_abbrev=False, **settings)

    # What is given and returned is what argparse says; only its overloads are not repeated here.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and exit if anything is not known: nothing is left over."""
        given = sys.argv[1:] if args is None else list(args)
        self._check_options(given)
        parsed, left = super().parse_known_args(given, namespace)
        if left:
            self._refuse(next((text for text in left if text.startswith("-")), left[0]))
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit."""
        rule = message.removeprefix("argument ")
        self.exit(EXIT_USAGE, f"usage: {self.prog} ... (see '{self.prog} --help')\nsteno: {rule}\n")

    def _check_options(self, given: Sequence[str]) -> None:
        """Refuse long options that there are not, before argparse misses something else."""
        commands = [name for action in self._actions for name in _subcommand_names(action)]
        for text in given:
            if text == "--" or text in commands:  # what follows is for somebody else
                return
            name = text.partition("=")[0]
            is_option = text.startswith("--") and " " not in name
            if is_option and name not in self._option_string_actions:
                self._refuse(name)

    def _refuse(self, text: str) -> NoReturn:
        shown = _shorten(text)
        if not text.startswith("-"):
            self.error(
                f"{shown}: nothing is expected there; what has blanks in it has to be in quotes"
            )
        near = closest_name(
            text, [name for name in self._option_string_actions if name[:2] == "--"]
        )
        self.error(f"there is no option {shown}" + (f"; do you mean {near}?" if near else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices; argparse would quote Python at people."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if _subcommand_names(action):
            raise argparse.ArgumentError(
                None, f"there is no command {_shorten(value)}; {suggest_name(value, names)}"
            )
        rule = f"must be {' or '.join(names)}, not {_shorten(value)}"
        raise argparse.ArgumentError(action, rule)


def _subcommand_names(action: argparse.Action) -> Sequence[str]:
    choices: object = action.choices
    return list(choices) if isinstance(choices, Mapping) else ()  # what `add_subparsers` makes


def _shorten(text: object) -> str:
    return truncate_to_width(terminal_line(str(text)), _MAX_SHOWN_LENGTH)


EXIT_FAILED: Final = 1


STDOUT: Final = "stdout"


_COMMAND_MODULES: Final = {
    "run": "run",
    "models": "models",
    "doctor": "doctor",
    "sessions": "sessions",
    "approvals": "approvals",
    "explain": "explain",
    "inputs": "inputs",
    "audit": "audit",
    "verify": "audit",
    "store": "store",
    "usage": "usage",
    "replay": "replay",
    "feedback": "feedback",
    "permissions": "permissions",
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


_MAX_NAME_LENGTH: Final = 40


_INSTALL_HINT: Final = "pip install 'steno["
"""What is said of a part that is not installed, and of nothing else that cannot be imported."""


_GLOBAL_OPTIONS: Final = ("-h", "--help", "--version")
"""Options that belong to no command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    _open_missing_streams()
    given = _add_default_command(sys.argv[1:] if arguments is None else list(arguments))
    try:
        parser = _build_parser(given)
        _check_command(given, parser)
        options = parser.parse_args(given)
        status: int = options.run(options)
        with report_write_errors(STDOUT):
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()  # whoever read our output has gone: there is nothing to say
        return EXIT_FAILED
    except (StenoError, OutputError) as exc:
        if isinstance(exc, OutputError) and exc.filename == STDOUT:
            _discard_stdout()
        print(f"steno: {terminal_text(str(exc))}", file=sys.stderr)
        return EXIT_USAGE if isinstance(exc, UsageError) else EXIT_FAILED
    except ImportError as exc:
        if _INSTALL_HINT not in str(exc):
            raise
        print(f"steno: {exc}", file=sys.stderr)
        return EXIT_FAILED
    except OSError as exc:
        rule = exc.strerror or str(exc) or type(exc).__name__
        place = terminal_text(str(exc.filename or "stdin"))
        print(f"steno: {place}: {terminal_text(rule)}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _add_default_command(given: list[str]) -> list[str]:
    """Return the arguments with the command that is meant where none is named: `steno [PROMPT]`."""
    if not given:
        return ["run"]
    if " " in given[0] and not given[0].startswith("-"):  # no command has a blank in its name
        return ["run", *given]
    names_none = given[0].startswith("-") and given[0] not in _GLOBAL_OPTIONS
    return ["run", *given] if names_none else given


def _check_command(given: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Say what may be meant where there is no such command, and exit."""
    name = given[0]
    if name in _COMMAND_MODULES or name in _GLOBAL_OPTIONS:
        return
    near = closest_name(name, _COMMAND_MODULES)
    hint = f"do you mean {near}?" if near else "steno -p PROMPT lets a model work on something"
    parser.error(
        f"there is no command {truncate_to_width(terminal_line(name), _MAX_NAME_LENGTH)}; {hint}"
    )


def _open_missing_streams() -> None:
    """Open what whoever started us has closed, so that no file of ours takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _discard_stdout() -> None:
    """Keep Python from trying once more to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the command line, with no more of it than these arguments need."""
    parser = CommandParser(
        prog="steno",
        description="Let a model work; keep, translate and replay what a person, a model and tools "
        "say to each other.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"steno {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in _command_modules(arguments):
        import_module(f"steno.cli.{group}").add_commands(commands)
    return parser


def _command_modules(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the files whose commands may be meant."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    return (
        (_COMMAND_MODULES[first],)
        if first in _COMMAND_MODULES
        else tuple(dict.fromkeys(_COMMAND_MODULES.values()))
    )
