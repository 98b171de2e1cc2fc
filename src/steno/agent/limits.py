"""How far a run may go, and how one can end."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, final

from steno.errors import InvalidValue, StenoError
from steno.message import AssistantMessage
from steno.usage import Usage
from steno.value import Quiet

_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "turns": ((int,), "a whole number"),
    "tokens": ((int,), "a whole number"),
    "seconds": ((int, float), "a number of seconds"),
    "cost": ((int, Decimal), 'a Decimal, such as Decimal("0.50")'),
    "invalid_calls": ((int,), "a whole number"),
}
"""What a limit is, for programs and for people."""


@final
class Limits(Quiet, frozen=True, kw_only=True):
    """What one run may use at most; None means as much as it takes."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"turns", "tokens", "seconds", "cost", "invalid_calls"}
    )

    turns: int | None = 50
    """Answers of the model."""
    tokens: int | None = None
    """Read and written by the model, as its provider counts."""
    seconds: float | None = None
    cost: Decimal | None = None
    """In the currency of the prices."""
    invalid_calls: int = 3
    """Turns in a row of which no call can be run: no such tool, arguments that do not fit. So often
    the model is told, and the next time the run ends."""

    def __post_init__(self) -> None:
        """Refuse limits that nothing could keep. Raises InvalidValue."""
        for name, (kinds, words) in _KINDS.items():
            limit = getattr(self, name)
            if limit is None and name != "invalid_calls":
                continue
            if not isinstance(limit, kinds) or isinstance(limit, bool):
                kind = type(limit).__name__
                raise InvalidValue(f"limits.{name}: must be {words}, not {kind}")
            if not _is_above_0(limit):
                raise InvalidValue(f"limits.{name}: must be above 0")

    def describe_reached(
        self, *, turns: int, tokens: int, cost: Decimal | None, invalid_calls: int
    ) -> str | None:
        """Return which limit a run has reached, in words; None if it may go on."""
        if self.turns is not None and turns >= self.turns:
            return f"{self.turns} turns"
        if self.tokens is not None and tokens >= self.tokens:
            return f"{self.tokens:,} tokens"
        if self.cost is not None and cost is not None and cost >= self.cost:
            return f"a cost of {self.cost}"
        if invalid_calls > self.invalid_calls:
            return f"{self.invalid_calls} turns in a row with calls that could not be run"
        return None


def _is_above_0(limit: Any) -> bool:
    if isinstance(limit, Decimal) and limit.is_nan():  # which must not even be compared
        return False
    return bool(limit > 0)


class Ending(StrEnum):
    """Why a run ended."""

    DONE = "done"
    """The model had nothing more to do."""
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The provider failed for good."""


class RunResult(NamedTuple):
    """What came of a run. The conversation is in order, however it ended."""

    ending: Ending
    message: AssistantMessage | None
    """The last thing that the model said in this run."""
    turns: int
    usage: Usage
    cost: Decimal | None = None
    """None where the price of the model is not known."""
    reason: str = ""
    """Which limit it was, what went wrong, or why the last answer is not whole; else empty."""
    error: StenoError | None = None

    @property
    def text(self) -> str:
        """The last words of the model; empty if there were none."""
        return (self.message.text if self.message is not None else None) or ""
