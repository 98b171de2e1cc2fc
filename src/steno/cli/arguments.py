"""What groups of commands have in common on the command line."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from steno.ids import utc_now
from steno.render.terminal_text import terminal_line


class Subparsers(Protocol):
    """Where a command is added: what `add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        ...


def positive_int(text: str) -> int:
    """Read how many are wanted: 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a number of 1 or more")
    return int(text)


def parse_number(text: str) -> float:
    """Read how much is wanted."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {terminal_line(text)}") from None


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Let a command be told which store to use."""
    parser.add_argument(
        "--store",
        default=argparse.SUPPRESS,  # so that it may stand before or behind the command
        metavar="ADDRESS",
        help="sqlite:FILE, jsonl:FOLDER or postgresql://...; else what the environment variable "
        "STENO_STORE says, or the setting `store`; else sqlite:~/.local/share/steno/steno.db",
    )


# -- headless --------------------------------------------------------------------------------------
#
# Let a model work without a person at the keyboard: the prompt, the run, and how it ends.
#
# Stdout holds the answer, or JSON and nothing else; everything else goes to stderr. Before a run
# begins, what is wrong is an error like that of any command; from then on there is always a result.


_SETTING_OPTIONS: Final = (
    *("model", "mode", "allow", "deny", "max_turns", "max_seconds", "max_cost", "max_tokens"),
    *("temperature", "add_dirs", "system_prompt", "append_system_prompt", "image_mode"),
)
"""Options that are settings as well, by their names."""


def settings_from_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are settings as well."""
    flags: dict[str, Any] = {name: getattr(options, name) for name in _SETTING_OPTIONS}
    return flags | {"store": getattr(options, "store", None)}


# -- moments ---------------------------------------------------------------------------------------
#
# Times, as people read and write them on a command line.


_TIME_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


_TIME_AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])")


def parse_time(text: str) -> datetime:
    """Read a time of the command line: ISO 8601, or how long ago (`90m`, `2h`, `3d`, `1w`)."""
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
