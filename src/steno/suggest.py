"""Suggestions of known names for an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest_name(name: str, known: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the known name most similar to `name`, ignoring case; None if no name is similar.

    `cutoff` is the minimum similarity of a match, from 0 (any name) to 1 (an identical name).
    """
    by_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_case, n=3, cutoff=cutoff)
    # Two swapped letters are the most frequent typo: --modle means --model, not --mode.
    near.sort(key=lambda each: sorted(each) != sorted(name.lower()))
    return by_case[near[0]] if near else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the closest known name, or lists all known names."""
    names = list(known)
    near = closest_name(name, names)
    return f"did you mean {near}?" if near is not None else f"use one of {', '.join(names)}"
