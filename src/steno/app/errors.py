"""Errors of a command line."""

from __future__ import annotations

from typing import final

from steno.errors import InvalidValue


@final
class UsageError(InvalidValue):
    """The command line makes no sense; the exit status is 2."""

    code = "usage_error"
