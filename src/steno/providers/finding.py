"""Find a model to talk to: the one that was asked for, else the best that there is.

In this order: the one named, the one configured, vendors of the configuration, vendors for whom
the environment holds a key, a server on this machine (Ollama first), the embedded model, and at
last the offline assistant, which is always there. So with nothing configured something answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from steno.errors import AuthenticationFailed, InvalidValue, NotFound
from steno.ports import Provider
from steno.providers.catalog import CATALOG
from steno.providers.connect import connect
from steno.providers.embedded import EmbeddedProvider, find_bundled_model
from steno.providers.looking import (
    DEFAULT_PATIENCE,
    EMBEDDED,
    OFFLINE,
    Look,
    Looked,
    Patience,
    in_order,
    look_embedded,
    look_offline,
    looking,
    variable_with_key,
)
from steno.providers.models import Model
from steno.providers.offline import OfflineProvider
from steno.providers.vendor import Vendor, meant_vendor, no_such_vendor

_REMEDY: Final = "a row [providers.NAME] in the configuration adds one"


class ModelProvider(Provider, Protocol):
    """A provider that knows about its model, and is closed when it is not needed any more."""

    async def describe(self) -> Model:
        """Return what is known of the model."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Found(NamedTuple):
    """A model, and how it was found."""

    vendor: str
    model: str
    """Its id; of an embedded model the path, empty for the one that comes in a package."""
    reason: str
    """Why this one, in words."""
    open: Callable[[], ModelProvider]
    """Make a provider that asks it; nothing is sent or loaded yet."""
    known: Model | None = None
    """What its server said about it, where it was asked."""
    searched: tuple[Looked, ...] = ()
    """Where was looked before."""

    @property
    def name(self) -> str:
        """What to ask for it by the next time: `vendor/model`."""
        return model_name(self.vendor, self.model)


def model_name(vendor: str, model: str) -> str:
    """Return what `parse_model_name` reads; the embedded model has no name, only a path."""
    if vendor != EMBEDDED:
        return f"{vendor}/{model}"
    return f"{EMBEDDED}:{model}" if Path(model).is_absolute() else EMBEDDED


class ModelName(NamedTuple):
    """`vendor/model` taken apart; the model is empty where only the vendor was named."""

    vendor: str
    model: str = ""


def parse_model_name(text: str, vendors: Mapping[str, Vendor] = CATALOG) -> ModelName:
    """Read `vendor/model`, `embedded`, `embedded:/path.gguf` or `offline`. Raises InvalidValue.

    The model is everything behind the first slash: `openrouter/meta/llama`.
    """
    if text in (OFFLINE, f"{OFFLINE}/assistant"):
        return ModelName(OFFLINE, "assistant")
    vendor, _, path = text.partition(":")
    if vendor == EMBEDDED:
        return ModelName(EMBEDDED, path)
    vendor, slash, model = text.partition("/")
    if vendor not in vendors:
        known = [*sorted(vendors), EMBEDDED, OFFLINE]
        if (vendor and slash) or meant_vendor(vendor, known):
            raise InvalidValue(f"model: {no_such_vendor(vendor, known, _REMEDY)}")
        listed = ", ".join(known)
        raise InvalidValue(f"model: must be written vendor/model, with a vendor out of {listed}")
    return ModelName(vendor, model)


async def find_model(
    wanted: str = "",
    *,
    configured: str = "",
    vendors: Mapping[str, Vendor] = CATALOG,
    environ: Mapping[str, str] | None = None,
    patience: Patience = DEFAULT_PATIENCE,
    bundled: Callable[[], Path] = find_bundled_model,
) -> Found:
    """Find a model. `wanted` is what a person named: `vendor/model`, `embedded`, `offline`.

    If nothing is wanted, what is `configured` counts. A model that is named is taken without
    asking anybody; a vendor that is named without a model is asked which ones it has. `vendors`
    are all that are known, those of the user included. Raises InvalidValue for a vendor that is
    not among them, AuthenticationFailed if its key is missing, NotFound if there is no such file
    or the vendor has no model to use.
    """
    environ = os.environ if environ is None else environ
    named, how = (wanted, "asked for") if wanted else (configured, "configured")
    async with looking(environ, patience) as look:
        if named:
            return await _take(parse_model_name(named, vendors), how, vendors, environ, look)
        looked = await _first_usable(look, in_order(vendors))
    if not (looked and looked[-1].is_usable):
        looked.append(await look_embedded(bundled))
    if not looked[-1].is_usable:
        looked.append(await look_offline())
    return _found(looked, vendors, environ, bundled)


async def _take(
    name: ModelName,
    how: str,
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    look: Look,
) -> Found:
    """Return what was named; only a vendor without a model has to be asked."""
    if name.vendor == OFFLINE:
        return Found(OFFLINE, name.model, how, OfflineProvider, await OfflineProvider().describe())
    if name.vendor == EMBEDDED:
        provider = EmbeddedProvider(name.model or None)  # raises for what is missing
        path = str(provider.path) if name.model else ""
        open_ = partial(EmbeddedProvider, path or None)
        return Found(EMBEDDED, path, how, open_, await provider.describe())
    vendor = vendors[name.vendor]
    if vendor.needs_key and not variable_with_key(vendor, environ):
        names = " or ".join(vendor.key_variables)
        advice = f"set {names}" if names else "name a variable for it in key_variables of its row"
        raise AuthenticationFailed(f"{vendor.name}: no key; {advice}")
    if name.model:
        connect(vendor, model=name.model, environ=environ)  # raises for what is missing
        return Found(vendor.name, name.model, how, _opening(vendor, name.model, environ))
    looked = await look(vendor)
    if not looked.is_usable:
        raise NotFound(f"{vendor.name}: {looked.outcome}")
    open_there = _opening(vendor, looked.choice, environ)
    how = f"{how} as {vendor.name} alone; {looked.outcome}"
    return Found(vendor.name, looked.choice, how, open_there, _model(looked), (looked,))


async def _first_usable(look: Look, rows: Iterable[Vendor]) -> list[Looked]:
    """Ask all of them at once, and return the answers up to the first that is of use."""
    tasks = [asyncio.create_task(look(vendor)) for vendor in rows]
    looked: list[Looked] = []
    try:
        for task in tasks:
            looked.append(await task)
            if looked[-1].is_usable:
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return looked


def _found(
    looked: Sequence[Looked],
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    bundled: Callable[[], Path],
) -> Found:
    """Return what the last look has found."""
    last = looked[-1]
    known, trail = _model(last), tuple(looked)
    if last.where == OFFLINE:
        how = _key_of_no_use(looked, vendors, environ) or "nothing else found"
        return Found(OFFLINE, last.choice, how, OfflineProvider, known, trail)
    if last.where == EMBEDDED:
        how = _key_of_no_use(looked, vendors, environ) or "no key and no server found"
        return Found(EMBEDDED, "", how, lambda: EmbeddedProvider(bundled()), known, trail)
    vendor = vendors[last.where]
    how = f"server at {vendor.base_url}"
    if vendor.needs_key:
        how = f"key in {variable_with_key(vendor, environ)}"
    open_there = _opening(vendor, last.choice, environ)
    return Found(vendor.name, last.choice, how, open_there, known, trail)


def _key_of_no_use(
    looked: Iterable[Looked], vendors: Mapping[str, Vendor], environ: Mapping[str, str]
) -> str:
    """Say why somebody who has set a key does not get the model that it is for."""
    for place in looked:
        vendor = vendors.get(place.where)
        if vendor is not None and variable_with_key(vendor, environ):
            return f"{place.where}: {place.outcome}"
    return ""


def _opening(vendor: Vendor, model: str, environ: Mapping[str, str]) -> Callable[[], ModelProvider]:
    return partial(connect, vendor, model=model, environ=environ)


def _model(looked: Looked) -> Model | None:
    return next((model for model in looked.models if model.id == looked.choice), None)
