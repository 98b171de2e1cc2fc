"""Errors of a command line."""

from __future__ import annotations

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
