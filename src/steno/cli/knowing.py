"""What is known of a model, put together out of all who say something about it.

This decides whose word counts, for what is shown of a model and for what is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from steno.cli.settings import ModelSettings, Settings
from steno.providers.models import Model
from steno.providers.prices import context_tokens_of
from steno.providers.vendor import UNKNOWN, Capabilities

T = TypeVar("T")


def as_used(name: str, vendor: str, said: Model, settings: Settings) -> Model:
    """Return a model as it is used here, by its whole name and what its server said of it.

    The user's word counts most, then that of the server, then the row of the vendor. How much it
    reads at once may at last be in the list of prices.
    """
    own = settings.models.get(name, ModelSettings())
    row = settings.providers.get(vendor)
    of_row = None if row is None else row.context_tokens
    context = _first([own.context_tokens, said.context_tokens, of_row])
    able = (
        Capabilities(tools=own.tools, vision=own.vision),
        said.capabilities,
        row.capabilities if row is not None else UNKNOWN,
    )
    return replace(
        said,
        context_tokens=context_tokens_of(name) if context is None else context,
        capabilities=Capabilities(
            tools=_first(one.tools for one in able),
            vision=_first(one.vision for one in able),
            thinking=_first(one.thinking for one in able),
            strict=_first(one.strict for one in able),
        ),
    )


def _first(words: Iterable[T | None]) -> T | None:
    """Return the first word that was said at all."""
    return next((word for word in words if word is not None), None)
