"""What may be meant where somebody wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import final

from steno.errors import InvalidValue

# -- commands --------------------------------------------------------------------------------------
#
# What groups of commands have in common on the command line.


@final
class UsageError(InvalidValue):
    """What was asked for on the command line makes no sense; the exit status says so."""


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name that is most like another, in any case; None if none is."""
    by_case = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_case, n=3)
    # Two letters the wrong way round are the most usual slip: --modle is --model, not --mode.
    near.sort(key=lambda one: sorted(one) != sorted(name.lower()))
    return by_case[near[0]] if near else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return what to say behind a name that is not known: the one that is meant, or all."""
    names = list(known)
    near = closest_name(name, names)
    return f"do you mean {near}?" if near is not None else f"there are {', '.join(names)}"
