"""Suggestions for names that do not exist: the known name that is most like one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like a name, in any case; None if none is.

    A name counts from a similarity of `cutoff` on: 0 for any name, 1 for the same one.
    """
    by_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_case, n=3, cutoff=cutoff)
    # Two swapped letters are the most frequent slip: --modle is --model, not --mode.
    near.sort(key=lambda each: sorted(each) != sorted(name.lower()))
    return by_case[near[0]] if near else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return advice on an unknown name: the closest known one, or all of them."""
    names = list(known)
    near = closest_name(name, names)
    return f"do you mean {near}?" if near is not None else f"there are {', '.join(names)}"
