"""Errors of the application: of a command line, and of code that raises no error of ours."""

from __future__ import annotations

from typing import final

from steno.errors import InvalidValue, StenoError


@final
class UsageError(InvalidValue):
    """The command line makes no sense; the exit status is 2."""

    code = "usage_error"


def as_steno_error(exc: Exception) -> StenoError:
    """Return an error that has a message and a code."""
    if isinstance(exc, StenoError) and str(exc):
        return exc
    return StenoError(str(exc) or type(exc).__name__, code="internal_error")
