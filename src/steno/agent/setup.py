"""Everything that a run is made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from steno.agent.dispatch import Dispatcher
from steno.agent.limits import Limits
from steno.agent.lookup import Lookup
from steno.agent.telemetry import Telemetry
from steno.context import ContextBuilder, Count, Target
from steno.ports import Provider
from steno.views import Price


class Setup(NamedTuple):
    """Everything that a run is made with."""

    provider: Provider
    dispatcher: Dispatcher
    references: Lookup | None
    """Opens what messages point at; None where nobody does."""
    context_builder: ContextBuilder
    count_tokens: Count
    """Counts tokens."""
    target: Target
    model: str
    """What the record calls the model."""
    limits: Limits
    telemetry: Telemetry
    price_of: Callable[[str], Price | None]
    actor: str | None
    sleep: Callable[[float], Awaitable[object]]
