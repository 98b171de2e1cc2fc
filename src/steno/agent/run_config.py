"""How far a run may go, and how one can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple, final

from steno.agent.dispatch import Dispatcher
from steno.agent.references import ReferenceResolver
from steno.agent.telemetry.spans import Telemetry
from steno.context import ContextBuilder, CountTokens, ModelTarget
from steno.errors import InvalidValue
from steno.log.queries import Price
from steno.ports import Provider
from steno.values import RedactedRepr

_LIMIT_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "turns": ((int,), "a whole number"),
    "tokens": ((int,), "a whole number"),
    "seconds": ((int, float), "a number of seconds"),
    "cost": ((int, Decimal), 'a Decimal, such as Decimal("0.50")'),
    "invalid_calls": ((int,), "a whole number"),
}
"""What a limit is, for programs and for people."""


@final
class Limits(RedactedRepr, frozen=True, kw_only=True):
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
        for name, (kinds, words) in _LIMIT_TYPES.items():
            limit = getattr(self, name)
            if limit is None and name != "invalid_calls":
                continue
            if not isinstance(limit, kinds) or isinstance(limit, bool):
                kind = type(limit).__name__
                raise InvalidValue(f"limits.{name}: must be {words}, not {kind}")
            if not _is_positive(limit):
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


def _is_positive(limit: Any) -> bool:
    if isinstance(limit, Decimal) and limit.is_nan():  # which must not even be compared
        return False
    return bool(limit > 0)


# -- setup -----------------------------------------------------------------------------------------
#
# Everything that a run is made with.


class RunConfig(NamedTuple):
    """Everything that a run is made with."""

    provider: Provider
    dispatcher: Dispatcher
    references: ReferenceResolver | None
    """Opens what messages point at; None where nobody does."""
    context_builder: ContextBuilder
    count_tokens: CountTokens
    """Counts tokens."""
    target: ModelTarget
    model: str
    """What the record calls the model."""
    limits: Limits
    telemetry: Telemetry
    price_of: Callable[[str], Price | None]
    actor: str | None
    sleep: Callable[[float], Awaitable[object]]
