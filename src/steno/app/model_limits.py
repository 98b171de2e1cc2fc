"""The limits and capabilities of a model, merged from settings, server, catalog and price list."""

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
"""The default length of a response of an embedded model: small models do not stop by themselves."""


def unknown_model(model: str) -> Model:
    """Return a model without any known facts."""
    return Model(id=model, raw=JsonObject({}))


def apply_model_settings(name: str, vendor: str, reported: Model, settings: Settings) -> Model:
    """Return a model with the facts in force, from its full name and the facts of its server.

    The settings of the user count most, then the server, then the row of the vendor; the size of
    the context may come from the price list. The user cannot raise the length of a response:
    `max_tokens` asks for less.
    """
    user = settings.models.get(name, ModelSettings())
    row = settings.providers.get(vendor)
    vendor_context, vendor_output = (
        (None, None) if row is None else (row.context_tokens, row.max_output_tokens)
    )
    context_tokens = _first_known([user.context_tokens, reported.context_tokens, vendor_context])
    sources = (
        Capabilities(tools=user.tools, vision=user.vision),
        reported.capabilities,
        row.capabilities if row is not None else UNKNOWN_CAPABILITIES,
    )
    return replace(
        reported,
        context_tokens=find_context_tokens(name) if context_tokens is None else context_tokens,
        max_output_tokens=_first_known([reported.max_output_tokens, vendor_output]),
        capabilities=Capabilities(
            tools=_first_known(source.tools for source in sources),
            vision=_first_known(source.vision for source in sources),
            thinking=_first_known(source.thinking for source in sources),
            strict=_first_known(source.strict for source in sources),
        ),
    )


def apply_settings_to_models(result: DiscoveryResult, settings: Settings) -> DiscoveryResult:
    """Return a result with the settings of the user applied to its models."""
    models = [
        apply_model_settings(
            format_model_name(result.where, model.id), result.where, model, settings
        )
        for model in result.models
    ]
    return replace(result, models=tuple(models))


def build_target(name: str, vendor: str, reported: Model, settings: Settings) -> ModelTarget:
    """Return the target of requests to a model, from its full name and the facts of its server."""
    model = apply_model_settings(name, vendor, reported, settings)
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


def _first_known(values: Iterable[T | None]) -> T | None:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)
