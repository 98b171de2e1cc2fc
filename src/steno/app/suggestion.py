"""A completion of typed text. The first paint of the full screen needs it: nothing heavy is imported."""

from __future__ import annotations

from typing import NamedTuple


class Suggestion(NamedTuple):
    """A completion of the typed text."""

    text: str
    """The replacement, including the sign: `@src/main.py`, `@docs:readme://x`, `/mode`."""
    description: str = ""
    expects_more: bool = False
    """Whether more follows: a folder, a command with an argument."""
    argument: str = ""
    """The argument, which is shown and not inserted."""
