"""What is known of a model, put together out of all who say something about it.

This decides whose word counts, for what is shown of a model and for what is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from steno.cli.settings import ModelSettings, Settings
from steno.context import Target
from steno.json_object import JsonObject
from steno.providers.finding import model_name
from steno.providers.looking import EMBEDDED, Looked
from steno.providers.models import Model
from steno.providers.prices import context_tokens_of
from steno.providers.vendor import UNKNOWN, Capabilities

T = TypeVar("T")
_SHORT: Final = 512
"""How long an answer of an embedded model may be unless somebody says: a small one finds no end."""


def unheard_of(model: str) -> Model:
    """Return a model that nobody said anything about."""
    return Model(id=model, raw=JsonObject({}))


def as_used(name: str, vendor: str, said: Model, settings: Settings) -> Model:
    """Return a model as it is used here, by its whole name and what its server said of it.

    The user's word counts most, then that of the server, then the row of the vendor. How much it
    reads at once may at last be in the list of prices. How much it says is not for the user to
    tell: `max_tokens` asks for less.
    """
    own = settings.models.get(name, ModelSettings())
    row = settings.providers.get(vendor)
    reads, says = (None, None) if row is None else (row.context_tokens, row.max_output_tokens)
    context = _first([own.context_tokens, said.context_tokens, reads])
    able = (
        Capabilities(tools=own.tools, vision=own.vision),
        said.capabilities,
        row.capabilities if row is not None else UNKNOWN,
    )
    return replace(
        said,
        context_tokens=context_tokens_of(name) if context is None else context,
        max_output_tokens=_first([said.max_output_tokens, says]),
        capabilities=Capabilities(
            tools=_first(one.tools for one in able),
            vision=_first(one.vision for one in able),
            thinking=_first(one.thinking for one in able),
            strict=_first(one.strict for one in able),
        ),
    )


def all_as_used(place: Looked, settings: Settings) -> Looked:
    """Return a place with its models as they would be used, and not as their server tells them."""
    models = [
        as_used(model_name(place.where, model.id), place.where, model, settings)
        for model in place.models
    ]
    return replace(place, models=tuple(models))


def target_of(name: str, vendor: str, said: Model, settings: Settings) -> Target:
    """Return what is asked of a model, by its whole name and what its server said of it."""
    model = as_used(name, vendor, said, settings)
    return Target(
        model=model.id,
        context_tokens=model.context_tokens,
        max_tokens=settings.max_tokens or (_SHORT if vendor == EMBEDDED else None),
        max_output_tokens=model.max_output_tokens,
        vision=model.capabilities.vision,
        tools=model.capabilities.tools,
        temperature=settings.temperature,
        resource_tokens=settings.resource_tokens,
    )


def _first(words: Iterable[T | None]) -> T | None:
    """Return the first word that was said at all."""
    return next((word for word in words if word is not None), None)
