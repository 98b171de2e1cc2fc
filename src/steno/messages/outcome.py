"""The outcome of a tool call, and the reason for a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import final

from steno.values import Value


class Outcome(StrEnum):
    """The outcome of a tool call."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"


@final
class Failure(Value, frozen=True, kw_only=True):
    """The reason for a failure, for people and audits; the model reads the result's content."""

    message: str
    traceback: str | None = None
    recoverable: bool = True
