"""The arguments of commands: the parser, and the values that it reads.

A command declares its arguments once, for argparse. The command line reads them from its
arguments, and a terminal from the text after a slash command.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, final

from steno.errors import InvalidValue
from steno.ids import utc_now
from steno.render.output import is_shared_target
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.suggest import closest_name, suggest_name

_MAX_SHOWN_LENGTH: Final = 40
_TIME_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_BOOLEANS: Final[Mapping[str, bool]] = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_TIME_AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])")


@final
class UsageError(InvalidValue):
    """The command line is invalid; the exit status is 2."""

    code = "usage_error"


@final
class HelpFormatter(argparse.HelpFormatter):
    """Wraps a text of one paragraph, and leaves a text with line breaks unchanged."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument, and count the indentation of group commands, which argparse ignores."""
        super().add_argument(action)
        self._action_max_length += len(_subcommand_names(action)) and self._indent_increment

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text.strip():
            return super()._fill_text(text, width, indent)
        return "".join([f"{indent}{line}" for line in text.splitlines(keepends=True)])


class CommandParser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line, and suggests the closest name.

    Argparse prints the complete usage before an error. For an unknown option of a group command, it
    prints the usage of the whole program. This parser reports the error for the group command.
    """

    def __init__(self, **settings: Any) -> None:
        """Take the settings of argparse. No option can be abbreviated: `--all` is not `--allow`."""
        settings.setdefault("formatter_class", HelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    # The types are those of argparse; only its overloads are not repeated here.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments, and report unknown ones as an error."""
        arguments = sys.argv[1:] if args is None else list(args)
        self._check_options(arguments)
        parsed, unknown = super().parse_known_args(arguments, namespace)
        if unknown:
            self._refuse(next((text for text in unknown if text.startswith("-")), unknown[0]))
        return parsed, unknown

    def parser_for(self, arguments: Sequence[str]) -> argparse.ArgumentParser:
        """Return the parser of the group command that `arguments` begin with, else this parser."""
        for action in self._actions:
            choices: object = action.choices
            if isinstance(choices, Mapping) and arguments[0] in choices:
                subparser: argparse.ArgumentParser = choices[arguments[0]]
                return subparser
        return self

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        reason = message.removeprefix("argument ")  # added by argparse
        raise UsageError(reason, code="invalid_usage", place=self.prog)

    def _check_options(self, arguments: Sequence[str]) -> None:
        """Report unknown long options before argparse reports a missing argument."""
        commands = [name for action in self._actions for name in _subcommand_names(action)]
        for text in arguments:
            if text == "--" or text in commands:  # the rest are values, or for another parser
                return
            name = text.partition("=")[0]
            is_option = text.startswith("--") and " " not in name
            if is_option and name not in self._option_string_actions:
                self._refuse(name)

    def _refuse(self, text: str) -> NoReturn:
        shown = _shorten(text)
        if not text.startswith("-"):
            self.error(
                f"{shown}: unexpected argument; see --help, and quote a value that contains spaces"
            )
        closest = closest_name(
            text, [name for name in self._option_string_actions if name[:2] == "--"]
        )
        self.error(f"unknown option {shown}" + (f"; did you mean {closest}?" if closest else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not one of the choices; argparse would print Python literals."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        if _subcommand_names(action):
            raise argparse.ArgumentError(
                None, f"unknown command {_shorten(value)}; {suggest_name(value, names)}"
            )
        reason = f"must be one of {', '.join(names)}, not {_shorten(value)}"
        raise argparse.ArgumentError(action, reason)


def _subcommand_names(action: argparse.Action) -> Sequence[str]:
    choices: object = action.choices
    # The action that `add_subparsers` returns has a mapping.
    return list(choices) if isinstance(choices, Mapping) else ()


def _shorten(text: object) -> str:
    return truncate_to_width(terminal_line(str(text)), _MAX_SHOWN_LENGTH)


# -- declarations ----------------------------------------------------------------------------


class Argument(NamedTuple):
    """An argument of a command, for `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


class OneOf(NamedTuple):
    """Options that exclude each other."""

    arguments: tuple[Argument, ...]
    is_required: bool = False


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument with the settings of `add_argument`."""
    return Argument(names, settings)


def flag(*names: str, help: str) -> Argument:
    """Return an option without a value."""
    return Argument(names, {"action": "store_true", "help": help})


def add_arguments(parser: argparse.ArgumentParser, arguments: Iterable[Argument | OneOf]) -> None:
    """Add arguments to a parser, in their order."""
    for item in arguments:
        if isinstance(item, OneOf):
            group = parser.add_mutually_exclusive_group(required=item.is_required)
            for names, settings in item.arguments:
                group.add_argument(*names, **settings)
        else:
            parser.add_argument(*item.names, **item.settings)


# -- typed text ------------------------------------------------------------------------------


def split_words(text: str) -> list[str]:
    """Split the text after a slash command like a shell. Raises InvalidValue if a quote is open."""
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidValue("a quote is not closed", code="invalid_usage") from None


def keep_text(text: str) -> list[str]:
    """Return the text after a slash command as one argument; no argument if it is empty."""
    return ["--", text] if text else []


TEXT: Final = argument("text", nargs="?", default="")
"""The argument of a slash command that takes any text."""
SESSION_NAMES: Final = (
    "a session ID, a prefix of one, or 'last' (the session that was written to, copied or imported "
    "last, in any folder)"
)
"""The names of a session, as help shows them."""
SESSION: Final = argument("session", metavar="ID", help=SESSION_NAMES)
BRANCH: Final = argument(
    "--branch", metavar="B", help="use this branch (default: the most recently changed one)"
)
ENTRY_NAMES: Final = "the number (12 or #12), the ID or a prefix of it, or a label"
"""The names of an entry, as help shows them."""
ENTRY: Final = argument("entry", metavar="ENTRY", help=f"an entry: {ENTRY_NAMES}")


def with_optional_session(arguments: Iterable[Argument]) -> list[Argument]:
    """Return the arguments for a terminal, where the session is by default the open one."""
    return [
        Argument(item.names, {**item.settings, "nargs": "?"})
        if item.names == SESSION.names
        else item
        for item in arguments
    ]


# -- values ----------------------------------------------------------------------------------


def positive_int(text: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number of 1 or more")
    return int(text)


def parse_number(text: str) -> float:
    """Read a number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be a number, not {terminal_line(text)}")
    return number


def parse_boolean(text: str) -> bool | None:
    """Read a boolean of an environment variable; None if the text is neither true nor false."""
    return _BOOLEANS.get(text.lower())


def parse_time(text: str) -> datetime:
    """Read a time: ISO 8601, or an age (`90m`, `2h`, `3d`, `1w`)."""
    ago = _TIME_AGO.fullmatch(text)
    try:
        if ago is not None:
            return utc_now() - timedelta(**{_TIME_UNITS[ago[2]]: int(ago[1])})
        time = datetime.fromisoformat(text)
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            "must be a time such as 2024-05-17 or 2024-05-17T06:30:00Z, or an age such as 2h or 3d"
        ) from None


def check_target(target: str | Path, *, may_replace: bool) -> None:
    """Raise InvalidValue if the target is a folder, or exists and `--force` is not set.

    Targets such as pipes and devices are allowed, because writing to them replaces nothing.
    """
    path = Path(target)
    if not path.exists() or is_shared_target(path):
        return
    if path.is_dir():
        raise InvalidValue("is a folder; choose another name", code="not_a_file", place=str(target))
    if not may_replace:
        raise InvalidValue(
            "the file already exists; choose another name or add --force",
            code="file_exists",
            place=str(target),
        )
