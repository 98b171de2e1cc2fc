"""The outcome of a tool call, and the reason for a failure."""

from __future__ import annotations

from enum import StrEnum
from typing import final

from steno.values import NOTHING, Value, check_fields


class Outcome(StrEnum):
    """The outcome of a tool call; every value except `OK` counts as an error."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"


@final
class Failure(Value, frozen=True, kw_only=True):
    """The reason why a tool call failed, for users and audits; it is not sent to the model."""

    message: str
    traceback: str | None = None
    recoverable: bool = True

    def __post_init__(self) -> None:
        # Written inline for speed, because each call that fails has one.
        recoverable: object = self.recoverable  # not checked yet
        is_usual = (
            type(self.message) is str
            and self.message.isascii()
            and self.traceback is None
            and type(recoverable) is bool
            and self.unknown is NOTHING
        )
        if not is_usual:
            check_fields(self)
