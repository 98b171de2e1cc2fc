"""What may be meant where somebody wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str]) -> str | None:
    """Return the name that is most like another, in any case; None if none is."""
    by_case = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_case, n=3)
    # Two letters the wrong way round are the most usual slip: --modle is --model, not --mode.
    near.sort(key=lambda one: sorted(one) != sorted(name.lower()))
    return by_case[near[0]] if near else None


def advice(name: str, known: Iterable[str]) -> str:
    """Return what to say behind a name that is not known: the one that is meant, or all."""
    names = list(known)
    near = meant(name, names)
    return f"do you mean {near}?" if near is not None else f"there are {', '.join(names)}"
