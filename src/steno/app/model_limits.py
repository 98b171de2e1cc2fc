"""What is known of a model, put together out of all who say something about it.

This decides whose word counts, for what is shown of a model and for what is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from steno.app.settings import ModelSettings, Settings
from steno.context import ModelTarget
from steno.json_object import JsonObject
from steno.providers.model_discovery import EMBEDDED, DiscoveryResult, format_model_name
from steno.providers.models import Model
from steno.providers.prices import find_context_tokens
from steno.providers.vendor import UNKNOWN_CAPABILITIES, Capabilities

T = TypeVar("T")
_EMBEDDED_MAX_TOKENS: Final = 512
"""How long an answer of an embedded model may be unless somebody says: a small one finds no end."""


def unknown_model(model: str) -> Model:
    """Return a model that nobody said anything about."""
    return Model(id=model, raw=JsonObject({}))


def apply_model_settings(name: str, vendor: str, said: Model, settings: Settings) -> Model:
    """Return a model as it is used here, by its whole name and what its server said of it.

    The user's word counts most, then that of the server, then the row of the vendor. How much it
    reads at once may at last be in the list of prices. How much it says is not for the user to
    tell: `max_tokens` asks for less.
    """
    own = settings.models.get(name, ModelSettings())
    row = settings.providers.get(vendor)
    reads, says = (None, None) if row is None else (row.context_tokens, row.max_output_tokens)
    context = _first_known([own.context_tokens, said.context_tokens, reads])
    able = (
        Capabilities(tools=own.tools, vision=own.vision),
        said.capabilities,
        row.capabilities if row is not None else UNKNOWN_CAPABILITIES,
    )
    return replace(
        said,
        context_tokens=find_context_tokens(name) if context is None else context,
        max_output_tokens=_first_known([said.max_output_tokens, says]),
        capabilities=Capabilities(
            tools=_first_known(one.tools for one in able),
            vision=_first_known(one.vision for one in able),
            thinking=_first_known(one.thinking for one in able),
            strict=_first_known(one.strict for one in able),
        ),
    )


def apply_settings_to_models(place: DiscoveryResult, settings: Settings) -> DiscoveryResult:
    """Return a place with its models as they would be used, and not as their server tells them."""
    models = [
        apply_model_settings(format_model_name(place.where, model.id), place.where, model, settings)
        for model in place.models
    ]
    return replace(place, models=tuple(models))


def build_target(name: str, vendor: str, said: Model, settings: Settings) -> ModelTarget:
    """Return what is asked of a model, by its whole name and what its server said of it."""
    model = apply_model_settings(name, vendor, said, settings)
    return ModelTarget(
        model=model.id,
        context_tokens=model.context_tokens,
        max_tokens=settings.max_tokens or (_EMBEDDED_MAX_TOKENS if vendor == EMBEDDED else None),
        max_output_tokens=model.max_output_tokens,
        vision=model.capabilities.vision,
        tools=model.capabilities.tools,
        temperature=settings.temperature,
        resource_tokens=settings.resource_tokens,
    )


def _first_known(words: Iterable[T | None]) -> T | None:
    """Return the first word that was said at all."""
    return next((word for word in words if word is not None), None)
