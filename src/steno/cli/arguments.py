"""Options and values that several commands share, and the parser that reads them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, final

from steno.errors import InvalidValue
from steno.ids import utc_now
from steno.render.output import is_shared_target
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.suggest import closest_name, suggest_name

_MAX_SHOWN_LENGTH: Final = 40
_SETTING_OPTIONS: Final = (
    *("model", "mode", "allow", "deny", "max_turns", "max_seconds", "max_cost", "max_tokens"),
    *("temperature", "add_dirs", "system_prompt", "append_system_prompt", "image_mode"),
)
"""Options that are settings as well, by their names."""
_TIME_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TIME_AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])")


@final
class ExitStatus(IntEnum):
    """The exit status of a command; a signal adds its number to 128."""

    OK = 0
    FAILED = 1
    """The command failed; the message on stderr gives the reason."""
    USAGE = 2
    """The command line is invalid."""
    INCOMPLETE = 3
    """Done, but something was lost or could not be checked, and that was forbidden."""
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
"""By the values of `EndReason`: every command loads this module, and only some need the agent."""


def exit_status_for(end_reason: str) -> ExitStatus:
    """Return the exit status of a run that ended for a reason, an `EndReason`."""
    return _RUN_EXIT_STATUSES[end_reason]


class Subparsers(Protocol):
    """The return type of `add_subparsers`, which has no public name: commands are added to it."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        ...


@final
class CommandParser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line.

    Argparse prints a complete usage first, and for an unknown option that of the wrong command.
    Here the command that was meant reports the error, with the closest name; its help has the rest.
    """

    def __init__(self, **settings: Any) -> None:
        """Take the settings of argparse. Options are written in full: `--all` is not `--allow`."""
        super().__init__(allow_abbrev=False, **settings)

    # The types are those of argparse; only its overloads are not repeated here.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and exit if an argument is unknown: nothing is left over."""
        arguments = sys.argv[1:] if args is None else list(args)
        self._check_options(arguments)
        parsed, unknown = super().parse_known_args(arguments, namespace)
        if unknown:
            self._refuse(next((text for text in unknown if text.startswith("-")), unknown[0]))
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print an error, and exit."""
        reason = message.removeprefix("argument ")  # a text of argparse
        self.exit(
            ExitStatus.USAGE,
            f"usage: {self.prog} ... (see '{self.prog} --help')\nsteno: {reason}\n",
        )

    def _check_options(self, arguments: Sequence[str]) -> None:
        """Refuse unknown long options, before argparse reports something else as missing."""
        commands = [name for action in self._actions for name in _subcommand_names(action)]
        for text in arguments:
            if text == "--" or text in commands:  # the rest belongs to another parser
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
        closest = closest_name(
            text, [name for name in self._option_string_actions if name[:2] == "--"]
        )
        self.error(f"there is no option {shown}" + (f"; do you mean {closest}?" if closest else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not one of the choices; argparse would print Python literals."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if _subcommand_names(action):
            raise argparse.ArgumentError(
                None, f"there is no command {_shorten(value)}; {suggest_name(value, names)}"
            )
        reason = f"must be {' or '.join(names)}, not {_shorten(value)}"
        raise argparse.ArgumentError(action, reason)


def _subcommand_names(action: argparse.Action) -> Sequence[str]:
    choices: object = action.choices
    # The action that `add_subparsers` returns has a mapping.
    return list(choices) if isinstance(choices, Mapping) else ()


def _shorten(text: object) -> str:
    return truncate_to_width(terminal_line(str(text)), _MAX_SHOWN_LENGTH)


# -- options ---------------------------------------------------------------------------------


STORE_ADDRESSES: Final = "sqlite:FILE, jsonl:FOLDER or postgresql://..."
"""The addresses of stores, as help shows them."""


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Add `--store`, which names the store that a command uses."""
    parser.add_argument(
        "--store",
        default=argparse.SUPPRESS,  # so that it may come before or after the command
        metavar="ADDRESS",
        help=f"{STORE_ADDRESSES}; else what the environment variable "
        "STENO_STORE says, or the setting `store`; else sqlite:~/.local/share/steno/steno.db",
    )


def settings_from_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are settings as well."""
    flags: dict[str, Any] = {name: getattr(options, name) for name in _SETTING_OPTIONS}
    return flags | {"store": getattr(options, "store", None)}


def check_target(target: str | Path, *, may_replace: bool) -> None:
    """Refuse to replace a file that exists without `--force`. Raises InvalidValue.

    A shared target is appended to, so that nothing is lost.
    """
    path = Path(target)
    if path.exists() and not may_replace and not is_shared_target(path):
        raise InvalidValue(
            "it is there already; choose another name, or add --force",
            code="file_exists",
            place=str(target),
        )


# -- values ----------------------------------------------------------------------------------


def positive_int(text: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a number of 1 or more")
    return int(text)


def parse_number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {terminal_line(text)}") from None


def parse_time(text: str) -> datetime:
    """Read a time: ISO 8601, or how long ago it was (`90m`, `2h`, `3d`, `1w`)."""
    ago = _TIME_AGO.fullmatch(text)
    try:
        if ago is not None:
            return utc_now() - timedelta(**{_TIME_UNITS[ago[2]]: int(ago[1])})
        time = datetime.fromisoformat(text)
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            "a time is written as 2024-05-17, 2024-05-17T06:30:00Z or 2h, 3d (ago)"
        ) from None
