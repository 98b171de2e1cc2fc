"""Choose the model of a run, merge its limits and capabilities, and list all models.

The properties of a model come from settings, its server, the catalog and the price list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Final, TypeVar

from msgspec.structs import replace

from steno.app.commands.arguments import UsageError
from steno.app.commands.table import Suggestion
from steno.app.environment import user_environment
from steno.app.settings import LoadedSettings, ModelSettings, Settings, variable_name
from steno.context import ModelTarget
from steno.errors import InvalidValue, NotFound, StenoError
from steno.invisible import is_visible
from steno.json_object import JsonObject
from steno.providers.endpoint import highest_temperature
from steno.providers.model_discovery import (
    DEFAULT_DISCOVERY_TIMEOUTS,
    EMBEDDED,
    OFFLINE,
    DiscoveryResult,
    DiscoveryTimeouts,
    ModelSelection,
    discover_models,
    find_model,
    format_model_name,
    open_vendor_probe,
    probe_embedded,
    probe_offline,
)
from steno.providers.models import Model
from steno.providers.prices import find_context_tokens, find_price
from steno.providers.vendor import UNKNOWN_CAPABILITIES, Capabilities, Vendor
from steno.render.terminal_text import terminal_line
from steno.suggest import suggest_name

T = TypeVar("T")
MODEL_FLAG: Final = "--model"
TEMPERATURE_FLAG: Final = "--temperature"
_ERROR_PLACES: Final = ("model", "embedded")
"""The places of errors about a model name; they are replaced with the origin of the name."""
_EMBEDDED_MAX_TOKENS: Final = 512
"""The default token limit of a response of an embedded model; a small model may never stop."""
_LOOKUP_TIMEOUTS: Final = DiscoveryTimeouts(local_s=0.5, hosted_s=3)
"""The timeouts for a list of models. They are short, because the user waits for the list."""


# -- the model of a run -----------------------------------------------------------------------


async def choose_model(loaded: LoadedSettings, recorded_model: str = "") -> ModelSelection:
    """Return the model that the flag or variable names, else the recorded or configured model.

    `recorded_model` is the model of the session, which takes precedence over the settings files. If
    no model is named, an available one is selected. Raises UsageError, InvalidValue, NotFound or
    AuthenticationFailed, with the name of the model.
    """
    name, origin = loaded.settings.model or "", loaded.origins.get("model", ("",))[-1]
    is_explicit = origin in (MODEL_FLAG, variable_name("model"))
    if recorded_model and not is_explicit:
        try:
            return await find_model(
                recorded_model, vendors=loaded.settings.providers, environ=user_environment()
            )
        except StenoError as exc:
            raise InvalidValue(
                f"{exc}; or choose another model with {MODEL_FLAG}",
                code=exc.code,
                place=f"recorded model {terminal_line(recorded_model)}",
            ) from exc
    with name_model_in_errors(name, origin if is_explicit else f"{origin}: model"):
        return await find_model(
            name if is_explicit else "",
            configured=name,
            vendors=loaded.settings.providers,
            environ=user_environment(),
        )


def check_temperature(loaded: LoadedSettings, model: ModelSelection) -> None:
    """Raise UsageError if the temperature of the command line is too high for a model.

    A temperature of the settings is meant for any model, so `build_target` lowers it.
    """
    if loaded.origins.get("temperature", ("",))[-1] != TEMPERATURE_FLAG:
        return
    lowered = lowered_temperature(model.vendor, loaded.settings)
    if lowered != loaded.settings.temperature:
        raise UsageError(
            f"must be between 0 and {lowered:g} for {model.name}",
            code="out_of_range",
            place=TEMPERATURE_FLAG,
        )


@contextmanager
def name_model_in_errors(name: str, origin: str) -> Generator[None]:
    """Add the name of the model and its origin to errors about the model."""
    try:
        yield
    except (InvalidValue, NotFound) as exc:
        text, place = str(exc), ""
        if name:
            # An error about the name, or about the vendor where only a vendor was named.
            text = exc.text_unless_at(*_ERROR_PLACES, name)
            place = f"{origin} {terminal_line(name)}"
        if isinstance(exc, NotFound):
            raise NotFound(text, code=exc.code, place=place) from exc
        error = UsageError if origin == MODEL_FLAG else InvalidValue
        raise error(text, code=exc.code, place=place) from exc


# -- limits and capabilities ------------------------------------------------------------------


def unknown_model(model: str) -> Model:
    """Return a model without any known properties."""
    return Model(id=model, raw=JsonObject({}))


def apply_model_settings(name: str, vendor: str, reported: Model, settings: Settings) -> Model:
    """Return a model with the properties in effect.

    `name` is the full name of the model, and `reported` has the properties that its server reports.
    The settings of the user take precedence over the server, and the server over the row of the
    vendor. If none of them has a context size, it is taken from the price list. The maximum length
    of a response is that of the server or the vendor, which `max_tokens` can lower but not raise.
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


def build_target(name: str, vendor: str, reported: Model, settings: Settings) -> ModelTarget:
    """Return the target of requests to a model.

    `name` is the full name of the model, and `reported` has the properties that its server reports.
    """
    model = apply_model_settings(name, vendor, reported, settings)
    return ModelTarget(
        model=model.id,
        context_tokens=model.context_tokens,
        max_tokens=settings.max_tokens or (_EMBEDDED_MAX_TOKENS if vendor == EMBEDDED else None),
        max_output_tokens=model.max_output_tokens,
        vision=model.capabilities.vision,
        tools=model.capabilities.tools,
        temperature=lowered_temperature(vendor, settings),
        resource_tokens=settings.resource_tokens,
    )


def lowered_temperature(vendor: str, settings: Settings) -> float | None:
    """Return the temperature of the settings, but at most the highest that a vendor accepts."""
    temperature, row = settings.temperature, settings.providers.get(vendor)
    if temperature is None or row is None:
        return temperature
    return min(temperature, highest_temperature(row))


def _first_known(values: Iterable[T | None]) -> T | None:
    """Return the first value that is not None; None if there is no such value."""
    return next((value for value in values if value is not None), None)


# -- all models -------------------------------------------------------------------------------


async def find_models(
    settings: Settings,
    provider: str | None = None,
    *,
    timeouts: DiscoveryTimeouts = DEFAULT_DISCOVERY_TIMEOUTS,
) -> list[DiscoveryResult]:
    """Return the models of every provider, or only of the named one, with the settings applied.

    Raises UsageError if the provider is unknown.
    """
    results = await _ask_providers(settings.providers, provider, timeouts)
    # The price list is slow to load.
    return await asyncio.to_thread(
        lambda: [_apply_settings(result, settings) for result in results]
    )


async def _ask_providers(
    vendors: Mapping[str, Vendor], name: str | None, timeouts: DiscoveryTimeouts
) -> Sequence[DiscoveryResult]:
    if name is None:
        return await discover_models(vendors, user_environment(), timeouts=timeouts)
    if name == EMBEDDED:
        return (await probe_embedded(),)
    if name == OFFLINE:
        return (await probe_offline(),)
    vendor = vendors.get(name)
    if vendor is None:
        known = [*sorted(vendors), EMBEDDED, OFFLINE]
        raise UsageError(
            f"unknown provider; {suggest_name(name, known)}",
            code="provider_unknown",
            place=f"--provider {terminal_line(name)}",
        )
    async with open_vendor_probe(user_environment(), timeouts) as probe:
        return (await probe(vendor),)


def _apply_settings(result: DiscoveryResult, settings: Settings) -> DiscoveryResult:
    models = [
        apply_model_settings(
            format_model_name(result.where, model.id), result.where, model, settings
        )
        for model in result.models
    ]
    return replace(result, models=tuple(models))


def usable_models(results: Iterable[DiscoveryResult]) -> list[tuple[str, Model]]:
    """Return the models of usable providers, each with the name that `--model` accepts."""
    return [
        (format_model_name(result.where, model.id), model)
        for result in results
        if result.is_usable
        for model in result.models
    ]


async def list_models(loaded: LoadedSettings) -> Sequence[Suggestion]:
    """Return the models of all usable providers, except those that respond too slowly."""
    results = await find_models(loaded.settings, timeouts=_LOOKUP_TIMEOUTS)
    return await asyncio.to_thread(
        lambda: [
            Suggestion(name, " · ".join(_model_facts(name, model)))
            for name, model in usable_models(results)
            if is_visible(model.id)  # a name that cannot be shown cannot be chosen either
        ]
    )


def _model_facts(name: str, model: Model) -> Iterator[str]:
    if model.title and model.title != model.id:
        yield terminal_line(model.title)
    if model.context_tokens is not None:
        yield f"{model.context_tokens:,} tokens"
    if (price := find_price(name)) is not None:
        yield f"${_format_price(price.input)} in, ${_format_price(price.output)} out per million"
    if model.capabilities.vision is not None:
        yield "vision" if model.capabilities.vision else "no vision"
    if model.capabilities.tools is False:
        yield "no tools"


def _format_price(amount: Decimal) -> str:
    return f"{amount:.2f}" if amount >= Decimal("0.1") or not amount else f"{amount.normalize():f}"
