"""The configuration of a run: provider, tools, model, limits and the other parts it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple, final

from steno.agent.dispatch import Dispatcher
from steno.agent.resolve_references import ReferenceResolver
from steno.agent.telemetry.spans import Telemetry
from steno.context import BuiltRequest, ContextBuilder, CountTokens, ModelTarget
from steno.errors import InvalidValue
from steno.log.conversation import Conversation
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
"""The accepted types of each limit, and their description for errors."""


@final
class Limits(RedactedRepr, frozen=True, kw_only=True):
    """The limits of one run; None means no limit."""

    shown: ClassVar[frozenset[str]] = frozenset(_LIMIT_TYPES)

    turns: int | None = 50
    """The number of model responses."""
    tokens: int | None = None
    """The number of input and output tokens, as counted by the provider."""
    seconds: float | None = None
    cost: Decimal | None = None
    """The cost, in the currency of the model prices."""
    invalid_calls: int = 3
    """The number of consecutive turns in which no call can be run, because of unknown tools or
    invalid arguments. The run ends after one more such turn."""

    def __post_init__(self) -> None:
        for name, (kinds, expected) in _LIMIT_TYPES.items():
            limit = getattr(self, name)
            if limit is None and name != "invalid_calls":
                continue
            place = f"limits.{name}"
            if not isinstance(limit, kinds) or isinstance(limit, bool):
                message = f"must be {expected}, not {type(limit).__name__}"
                raise InvalidValue(message, place=place, code="limit_type")
            if not _is_positive(limit):
                raise InvalidValue("must be greater than 0", place=place, code="limit_not_positive")

    def describe_reached(
        self, *, turns: int, tokens: int, cost: Decimal | None, invalid_calls: int
    ) -> str | None:
        """Return a description of the limit that a run has reached; None if it may continue."""
        if self.turns is not None and turns >= self.turns:
            return "1 turn" if self.turns == 1 else f"{self.turns} turns"
        if self.tokens is not None and tokens >= self.tokens:
            return "1 token" if self.tokens == 1 else f"{self.tokens:,} tokens"
        if self.cost is not None and cost is not None and cost >= self.cost:
            return f"a cost of {self.cost}"
        if invalid_calls > self.invalid_calls:
            limit = "1 turn" if self.invalid_calls == 1 else f"{self.invalid_calls} turns in a row"
            return f"{limit} with calls that could not be run"
        return None


def _is_positive(limit: Any) -> bool:
    if isinstance(limit, Decimal) and limit.is_nan():  # comparing NaN raises InvalidOperation
        return False
    return bool(limit > 0)


class RunConfig(NamedTuple):
    """The parts and settings of an agent that every run uses."""

    provider: Provider
    dispatcher: Dispatcher
    references: ReferenceResolver | None
    """The resolver of references in messages; None if references are not resolved."""
    context_builder: ContextBuilder
    count_tokens: CountTokens
    target: ModelTarget
    model: str
    """The name of the model in the log."""
    limits: Limits
    telemetry: Telemetry
    price_of: Callable[[str], Price | None]
    actor: str | None
    sleep: Callable[[float], Awaitable[object]]

    def build_request(
        self, conversation: Conversation, target: ModelTarget, builder: ContextBuilder | None = None
    ) -> BuiltRequest:
        """Build the next request for a conversation, with `builder` or the default builder."""
        return (builder or self.context_builder).build(
            conversation.entries_view(),
            target,
            self.dispatcher.offered_definitions(conversation.mode),
            restore_blobs=conversation.restore_blobs,
        )
