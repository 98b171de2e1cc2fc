"""What groups of commands have in common on the command line."""

from __future__ import annotations

import argparse
from typing import Any, Protocol, final

from steno.errors import InvalidValue
from steno.printable import on_one_line


@final
class Misused(InvalidValue):
    """What was asked for on the command line makes no sense; the exit status says so."""


class Commands(Protocol):
    """Where a command is added: what `add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        ...


def count(text: str) -> int:
    """Read how many are wanted: 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a number of 1 or more")
    return int(text)


def number(text: str) -> float:
    """Read how much is wanted."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {on_one_line(text)}") from None


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Let a command be told which store to use."""
    parser.add_argument(
        "--store",
        default=argparse.SUPPRESS,  # so that it may stand before or behind the command
        metavar="ADDRESS",
        help="sqlite:FILE, jsonl:FOLDER or postgresql://...; else what the environment variable "
        "STENO_STORE says, or the setting `store`; else sqlite:~/.local/share/steno/steno.db",
    )
