"""What groups of commands have in common on the command line."""

from __future__ import annotations

import argparse
from typing import Any, Protocol


class Commands(Protocol):
    """Where a command is added: what `add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        ...


def count(text: str) -> int:
    """Read how many are wanted: 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError("a number of 1 or more")
    return int(text)
