"""The command-line parser, the exit statuses, and options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, NamedTuple, NoReturn, Protocol, final

from steno.app.commands.arguments import (
    Argument,
    CommandParser,
    OneOf,
    UsageError,
    add_arguments,
    argument,
)
from steno.bounded_text import truncate_middle
from steno.render.output import STDOUT, report_write_errors
from steno.render.terminal_text import terminal_line


@final
class ExitStatus(IntEnum):
    """The exit status of a command; after a signal, it is 128 plus the signal number."""

    OK = 0
    FAILED = 1
    """The command failed; a message on stderr states the reason."""
    USAGE = 2
    """The command line is invalid."""
    INCOMPLETE = 3
    """The command ended, but content was lost or could not be checked."""
    LIMIT = 4
    """The run stopped at a limit."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT."""


_RUN_EXIT_STATUSES: Final = {
    "done": ExitStatus.OK,
    "failed": ExitStatus.FAILED,
    "limit": ExitStatus.LIMIT,
    "interrupted": ExitStatus.INTERRUPTED,
}
"""Exit statuses by value of `EndReason`.

`EndReason` is not imported, because most commands do not need the agent.
"""


def exit_status_for(end_reason: str) -> ExitStatus:
    """Return the exit status for the end reason of a run, a value of `EndReason`."""
    return _RUN_EXIT_STATUSES[end_reason]


class Subparsers(Protocol):
    """The return type of `ArgumentParser.add_subparsers`, which has no public name."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command and return its parser."""
        ...


def bound_message(text: str) -> str:
    """Return an error message, without its middle if it is too long to read."""
    return truncate_middle(
        text, max_head=1500, max_tail=500, note=" [... {omitted} characters ...] "
    )


@final
class CommandLineParser(CommandParser):
    """The parser of the command line; an error exits the program."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help on stdout or an error on stderr.

        Raises OutputError if help cannot be written; some versions of argparse ignore that. A
        failure of stderr is ignored, so that the exit status is that of the error.
        """
        if file is sys.stdout:
            with report_write_errors(STDOUT):
                sys.stdout.write(message)
                sys.stdout.flush()
        else:
            with suppress(OSError):
                super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print a usage error on stderr, and exit."""
        reason = bound_message(message.removeprefix("argument "))  # added by argparse
        self.exit(
            ExitStatus.USAGE,
            f"usage: {self.prog} ... (see '{self.prog} --help')\nsteno: {reason}\n",
        )


# -- options ---------------------------------------------------------------------------------


STORE_ADDRESSES: Final = "sqlite:FILE, jsonl:FOLDER or postgresql://..."
"""The forms of store addresses, for help texts."""
STORE: Final = argument(
    "--store",
    default=argparse.SUPPRESS,  # so that the option may precede or follow the command
    metavar="ADDRESS",
    help=f"the session store: {STORE_ADDRESSES} (default: $STENO_STORE, the setting `store`, "
    "or sqlite:~/.local/share/steno/steno.db)",
)


FOLDER: Final = argument(
    "--folder",
    metavar="FOLDER",
    help="work in this folder instead of the working directory; an imported session requires it",
)


def enter_folder(folder: str | None) -> None:
    """Change the working directory, unless `folder` is None.

    Raises UsageError if the folder does not exist or may not be entered.
    """
    if folder is None:
        return
    try:
        os.chdir(folder)
    except (OSError, ValueError) as exc:  # ValueError: a NUL character
        reason = (exc.strerror if isinstance(exc, OSError) else None) or "not a path"
        raise UsageError(
            f"{terminal_line(folder)}: {reason}", code="folder_missing", place="--folder"
        ) from None


class GroupCommand(NamedTuple):
    """A command of a group; the fields are the parameters of `add_command`."""

    name: str
    run: Callable[[argparse.Namespace], int]
    help: str
    description: str
    arguments: tuple[Argument | OneOf, ...] = ()
    epilog: str | None = None


def add_command(
    commands: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
    description: str,
    *,
    arguments: Iterable[Argument | OneOf] = (),
    epilog: str | None = None,
) -> None:
    """Add a command to the command line or to a group; `run` returns the exit status."""
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    add_arguments(parser, arguments)
    parser.set_defaults(run=run, parser=parser)


def add_group(
    commands: Subparsers,
    name: str,
    actions: Iterable[GroupCommand],
    *,
    is_required: bool = True,
    **settings: Any,
) -> argparse.ArgumentParser:
    """Add a group of commands and return its parser; `settings` are passed to `add_parser`."""
    group = commands.add_parser(name, **settings)
    subparsers = group.add_subparsers(title="commands", metavar="COMMAND", required=is_required)
    for action in actions:
        add_command(subparsers, **action._asdict())
    return group
