"""Errors of a command line, and suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import final

from steno.errors import InvalidValue, StenoError


@final
class UsageError(InvalidValue):
    """The command line makes no sense; the exit status is 2."""

    code = "usage_error"


def text_without_place(error: StenoError, *places: str) -> str:
    """Return the text of an error without its place, if that is one of these: the caller names it."""
    text = str(error)
    return text[len(f"{error.place}: ") :] if error.place in places else text


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a name, in any case; None if none is."""
    by_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_case, n=3)
    # Two swapped letters are the most frequent slip: --modle is --model, not --mode.
    near.sort(key=lambda each: sorted(each) != sorted(name.lower()))
    return by_case[near[0]] if near else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return advice on an unknown name: the closest known one, or all of them."""
    names = list(known)
    near = closest_name(name, names)
    return f"do you mean {near}?" if near is not None else f"there are {', '.join(names)}"
