"""Find a model: discover the models of all known servers, and select one.

`discover_models` requests the list of models from all servers at once, with short time limits; it
returns the error of a server as a result. `find_model` selects in this order: the model that is
named, the model that is configured, a vendor of the configuration, a vendor with a key in the
environment, a server on this machine (Ollama first), the embedded model, and the offline assistant,
which is always available. So there is a model even if nothing is configured.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol, cast, final
from urllib.parse import urlsplit

from steno.errors import AuthenticationFailed, InvalidValue, NotFound, StenoError
from steno.lazy_task import start_task
from steno.ports import Provider
from steno.providers.catalog import CATALOG
from steno.providers.embedded import EmbeddedProvider, find_bundled_model
from steno.providers.endpoint import find_endpoint
from steno.providers.http_provider import connect
from steno.providers.models import Model
from steno.providers.offline_assistant import OfflineProvider
from steno.providers.retry import Retries
from steno.providers.vendor import Vendor, describe_unknown_vendor, find_key_variable
from steno.suggest import closest_name
from steno.transport.http import HttpTransport
from steno.transport.proxy import is_loopback
from steno.values import RedactedRepr

EMBEDDED: Final = "embedded"
OFFLINE: Final = "offline"
_ADD_VENDOR_HINT: Final = "or add a provider as [providers.NAME] in the configuration"
_MAX_DESCRIBED: Final = 8
"""The maximum number of models to describe one by one, if the list lacks their capabilities."""
_PREFERRED_FAMILIES: Final = {
    "anthropic": (r"claude-sonnet-[\d-]+",),
    # According to the price list, deepseek-flash is always the newest, accepts images and is the
    # cheapest.
    "deepseek": ("deepseek-flash", r"deepseek-v[\d.]+-(?:flash|pro)", "deepseek-chat"),
    "google": (r"gemini-[\d.]+-pro",),
    "mistral": ("mistral-large-latest",),
    "openai": (r"gpt-[\d.]+",),
    "xai": (r"grok-[\d.-]+",),
}
"""The families of general models of a vendor, the best first.

The newest model of the first family that the server lists is selected.
"""
_NOT_FOR_CHAT: Final = re.compile(
    r"embed|whisper|tts|transcri|moderation|dall-e|image|audio|realtime|rerank|guard|ocr|sora",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+")


@final
class DiscoveryResult(RedactedRepr, frozen=True, kw_only=True):
    """The models of one vendor, or the reason why no model can be used."""

    shown: ClassVar[frozenset[str]] = frozenset({"where", "outcome", "choice"})

    where: str
    """The name of a vendor, "embedded" or "offline"."""
    title: str = ""
    outcome: str
    """The human-readable outcome; without a usable model, the reason and a remedy."""
    code: str = "found"
    """The outcome as a code.

    One of `found`, `key_missing`, `base_url_missing`, `timeout`, `no_chat_model` and
    `missing_extra`, or the code of an error.
    """
    models: tuple[Model, ...] = ()
    choice: str = ""
    """The id of the default model; empty if no model can be used."""

    @property
    def lacks_key(self) -> bool:
        """Whether no key is set for a vendor that needs one."""
        return self.code == "key_missing"

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent to a model of this vendor."""
        return bool(self.choice)

    @property
    def chosen_model(self) -> Model | None:
        """The properties of the default model; None if no model can be used."""
        return next((model for model in self.models if model.id == self.choice), None)


class DiscoveryTimeouts(NamedTuple):
    """The time limits for a list of models, in seconds."""

    local_s: float = 0.5
    """The limit for servers on this machine; most of them are not running."""
    hosted_s: float = 5
    """The limit for all other servers."""


DEFAULT_DISCOVERY_TIMEOUTS: Final = DiscoveryTimeouts()


async def discover_models(
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    *,
    timeouts: DiscoveryTimeouts = DEFAULT_DISCOVERY_TIMEOUTS,
    bundled_model: Callable[[], Path] = find_bundled_model,
) -> tuple[DiscoveryResult, ...]:
    """Return the models of every vendor, in the order of selection."""
    async with open_vendor_probe(environ, timeouts) as probe:
        hosted = await asyncio.gather(*[probe(vendor) for vendor in order_vendors(vendors)])
    return (*hosted, await probe_embedded(bundled_model), await probe_offline())


def order_vendors(vendors: Mapping[str, Vendor]) -> Iterable[Vendor]:
    """Return the vendors in the order of selection.

    Vendors that are not in the catalog come first, then those that need a key, then local servers.
    Of several vendors of the catalog with the same provider and host, such as one for each
    protocol, only the first is returned.
    """
    own = [vendor for name, vendor in vendors.items() if name not in CATALOG]
    servers: dict[tuple[str, str], Vendor] = {}  # one protocol for each server
    for vendor in sorted(vendors.values(), key=lambda row: not row.needs_key):
        servers.setdefault((vendor.provider_name, urlsplit(vendor.base_url).netloc), vendor)
    return dict.fromkeys([*own, *servers.values()])


# -- servers ---------------------------------------------------------------------------------------


class VendorProbe(NamedTuple):
    """Requests the models of vendors."""

    environ: Mapping[str, str]
    timeouts: DiscoveryTimeouts
    transport: HttpTransport

    async def __call__(self, vendor: Vendor) -> DiscoveryResult:
        """Request the models of a vendor.

        A failure is returned as a result without a usable model.
        """
        if vendor.needs_key and not find_key_variable(vendor, self.environ):
            outcome = f"no key; set {' or '.join(vendor.key_variables) or 'one'}"
            return _build_unusable(vendor, "key_missing", outcome)
        if not vendor.base_url:
            outcome = "the address differs for each customer; set base_url in the configuration"
            return _build_unusable(vendor, "base_url_missing", outcome)
        is_here = is_loopback(urlsplit(vendor.base_url).hostname or "")
        limit_s = self.timeouts.local_s if is_here else self.timeouts.hosted_s
        try:
            self.transport.prepare()  # importing the HTTP client may take longer than the limit
            async with asyncio.timeout(limit_s):
                models = await self._list_models(vendor)
        except TimeoutError:
            outcome = f"no response from {vendor.base_url} within {limit_s:g} s"
            return _build_unusable(vendor, "timeout", outcome)
        except ImportError as exc:
            variable = find_key_variable(vendor, self.environ)
            outcome = f"{variable} is set, but {exc}" if variable else str(exc)
            return _build_unusable(vendor, "missing_extra", outcome)
        except StenoError as exc:
            return _build_unusable(vendor, exc.code, exc.text_unless_at(vendor.name))
        choice = choose_default_model(vendor.provider_name, models)
        if not choice:
            outcome = f"{vendor.base_url} lists no chat model"
            return _build_unusable(vendor, "no_chat_model", outcome, models)
        return DiscoveryResult(
            where=vendor.name,
            title=vendor.title,
            outcome=f"{len(models)} model{'' if len(models) == 1 else 's'} at {vendor.base_url}",
            models=models,
            choice=choice,
        )

    async def _list_models(self, vendor: Vendor) -> tuple[Model, ...]:
        provider = connect(
            vendor, transport=self.transport, environ=self.environ, retries=Retries(max_retries=0)
        )
        models = await provider.models()
        if find_endpoint(vendor).show_path is None:
            return models

        async def describe(model: Model) -> Model:
            try:
                return await provider.describe(model.id)
            except StenoError:
                return model

        # The list of this server does not report capabilities.
        first = await asyncio.gather(*map(describe, models[:_MAX_DESCRIBED]))
        return (*first, *models[_MAX_DESCRIBED:])


@asynccontextmanager
async def open_vendor_probe(
    environ: Mapping[str, str], timeouts: DiscoveryTimeouts
) -> AsyncGenerator[VendorProbe]:
    """Yield a probe, whose connections are closed at the end of the `with` block."""
    transport = HttpTransport(environ=environ)
    try:
        yield VendorProbe(environ, timeouts, transport)
    finally:
        await transport.close()


def _build_unusable(
    vendor: Vendor, code: str, outcome: str, models: tuple[Model, ...] = ()
) -> DiscoveryResult:
    return DiscoveryResult(
        where=vendor.name, title=vendor.title, outcome=outcome, code=code, models=models
    )


def choose_default_model(maker: str, models: Sequence[Model]) -> str:
    """Return the id of the default model of a vendor; empty if no model is for chat."""
    usable = [model for model in models if not _NOT_FOR_CHAT.search(model.id)]
    for family in _PREFERRED_FAMILIES.get(maker, ()):
        known = [model.id for model in usable if re.fullmatch(family, model.id)]
        if known:
            return max(known, key=_version)
    # A model without tools can still chat, so models that are declared to have none come last.
    usable.sort(key=lambda model: model.capabilities.tools is False)
    return usable[0].id if usable else ""


def _version(name: str) -> tuple[list[int], int]:
    """Return a sort key that is higher for newer models.

    Numbers of six digits or more are dates and are ignored. Of names with the same numbers, the
    shortest has the highest key.
    """
    numbers = [int(digits) for digits in _NUMBER.findall(name) if len(digits) < 6]
    return numbers, -len(name)


# -- without a server ------------------------------------------------------------------------------


async def probe_embedded(bundled_model: Callable[[], Path] = find_bundled_model) -> DiscoveryResult:
    """Return the embedded model, or the reason why it cannot be used."""
    title = "Embedded (llama.cpp)"
    try:
        provider = EmbeddedProvider(bundled_model())
        models = await provider.models()
        await provider.close()
    except StenoError as exc:
        return DiscoveryResult(where=EMBEDDED, title=title, outcome=str(exc), code=exc.code)
    outcome = "runs on this machine, without a network"
    return DiscoveryResult(
        where=EMBEDDED, title=title, outcome=outcome, models=models, choice=provider.model
    )


async def probe_offline() -> DiscoveryResult:
    """Return the offline assistant, which is always available."""
    models = await OfflineProvider().models()
    return DiscoveryResult(
        where=OFFLINE,
        title="Offline assistant",
        outcome="always available; not a language model",
        models=models,
        choice=models[0].id,
    )


# -- selection -------------------------------------------------------------------------------------


class ModelProvider(Provider, Protocol):
    """A provider that describes its model and can be closed."""

    async def describe(self) -> Model:
        """Return the properties of the model."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


class ModelSelection(NamedTuple):
    """A model and the reason for its selection."""

    vendor: str
    model: str
    """The id of the model. For an embedded model, its path; empty for the model of the package."""
    reason: str
    """The human-readable reason for the selection."""
    open: Callable[[], ModelProvider]
    """Creates a provider for the model; nothing is sent or loaded yet."""
    known: Model | None = None
    """The properties of the model; None if they were not requested."""
    searched: tuple[DiscoveryResult, ...] = ()
    """The results of the discovery, up to the vendor of this model.

    Empty if the user or the configuration names the model.
    """
    code: str = ""
    """The reason as a code.

    One of `asked_for`, `configured`, `key_found`, `server_found`, `embedded_found` and
    `nothing_else_found`, or `key_unused` if a key is set but its vendor failed.
    """

    @property
    def name(self) -> str:
        """The name that selects this model: `vendor/model`."""
        return format_model_name(self.vendor, self.model)


def format_model_name(vendor: str, model: str) -> str:
    """Return the text that `parse_model_name` parses; an embedded model is named by its path."""
    if vendor != EMBEDDED:
        return f"{vendor}/{model}"
    return f"{EMBEDDED}:{model}" if Path(model).is_absolute() else EMBEDDED


class ModelName(NamedTuple):
    """The parts of `vendor/model`; the model is empty if only the vendor is named."""

    vendor: str
    model: str = ""


def parse_model_name(text: str, vendors: Mapping[str, Vendor] = CATALOG) -> ModelName:
    """Parse `vendor/model`, `embedded`, `embedded:/path.gguf` or `offline`.

    The model is everything after the first slash: `openrouter/meta/llama`. Raises InvalidValue if
    the text has another form or the vendor is unknown.
    """
    if text in (OFFLINE, f"{OFFLINE}/assistant"):
        return ModelName(OFFLINE, "assistant")
    vendor, _, path = text.partition(":")
    if vendor == EMBEDDED:
        return ModelName(EMBEDDED, path)
    vendor, slash, model = text.partition("/")
    if vendor not in vendors:
        known = [*sorted(vendors), EMBEDDED, OFFLINE]
        if (vendor and slash) or closest_name(vendor, known):
            raise InvalidValue(
                describe_unknown_vendor(vendor, known, _ADD_VENDOR_HINT),
                code="provider_unknown",
                place="model",
            )
        raise InvalidValue(
            f"must be provider/model, such as openai/NAME; the provider is one of {', '.join(known)}",
            code="model_name_malformed",
            place="model",
        )
    return ModelName(vendor, model)


async def find_model(
    wanted: str = "",
    *,
    configured: str = "",
    vendors: Mapping[str, Vendor] = CATALOG,
    environ: Mapping[str, str] | None = None,
    timeouts: DiscoveryTimeouts = DEFAULT_DISCOVERY_TIMEOUTS,
    bundled_model: Callable[[], Path] = find_bundled_model,
) -> ModelSelection:
    """Select a model. `wanted` is the name from the user: `vendor/model`, `embedded`, `offline`.

    If `wanted` is empty, `configured` is used. A named model is selected without a request; if only
    a vendor is named, its list of models is requested. `vendors` are all known vendors, including
    those of the configuration. Raises InvalidValue if the vendor is unknown, AuthenticationFailed
    if its key is missing, and NotFound if the file of an embedded model is missing or the vendor
    has no usable model.
    """
    environ = os.environ if environ is None else environ
    reason = "requested" if wanted else "configured"
    code = "asked_for" if wanted else "configured"
    async with open_vendor_probe(environ, timeouts) as probe:
        if wanted or configured:
            name = parse_model_name(wanted or configured, vendors)
            selected = await _select_named(name, reason, vendors, probe)
            return selected._replace(code=code)
        searched = await _first_usable(probe, order_vendors(vendors))
    if not (searched and searched[-1].is_usable):
        searched.append(await probe_embedded(bundled_model))
    if not searched[-1].is_usable:
        searched.append(await probe_offline())
    return _select_last(searched, vendors, environ, bundled_model)


async def _select_named(
    name: ModelName, reason: str, vendors: Mapping[str, Vendor], probe: VendorProbe
) -> ModelSelection:
    """Return the named model; request the list of models only if no model is named."""
    if name.vendor == OFFLINE:
        offline = OfflineProvider()
        return ModelSelection(
            OFFLINE, name.model, reason, OfflineProvider, await offline.describe()
        )
    if name.vendor == EMBEDDED:
        provider = EmbeddedProvider(name.model or None)  # raises if the extra or file is missing
        path = str(provider.path) if name.model else ""
        open_ = partial(EmbeddedProvider, path or None)
        return ModelSelection(EMBEDDED, path, reason, open_, await provider.describe())
    vendor = vendors[name.vendor]
    if vendor.needs_key and not find_key_variable(vendor, probe.environ):
        names = " or ".join(vendor.key_variables)
        advice = f"set {names}" if names else "set key_variables in the configuration"
        raise AuthenticationFailed(f"no key; {advice}", code="key_missing", place=vendor.name)
    if name.model:
        open_named = partial(connect, vendor, model=name.model, environ=probe.environ)
        open_named()  # raises now if the vendor cannot be used, such as without an address
        return ModelSelection(vendor.name, name.model, reason, open_named)
    found = await probe(vendor)
    if not found.is_usable:
        raise NotFound(found.outcome, code="model_missing", place=vendor.name)
    open_there = partial(connect, vendor, model=found.choice, environ=probe.environ)
    reason = f"{reason} without a model name; {found.outcome}"
    facts = found.chosen_model
    return ModelSelection(vendor.name, found.choice, reason, open_there, facts, (found,))


async def _first_usable(probe: VendorProbe, vendors: Iterable[Vendor]) -> list[DiscoveryResult]:
    """Probe all vendors at once; return the results up to the first usable result."""
    tasks = [start_task(probe(vendor)) for vendor in vendors]
    searched: list[DiscoveryResult] = []
    try:
        for task in tasks:
            searched.append(await task)
            if searched[-1].is_usable:
                break
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return searched


def _select_last(
    searched: Sequence[DiscoveryResult],
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    bundled_model: Callable[[], Path],
) -> ModelSelection:
    last = searched[-1]
    model, open_ = last.choice, cast("Callable[[], ModelProvider]", OfflineProvider)
    if last.where == OFFLINE:
        code = "nothing_else_found"
        reason = "no other model found"
    elif last.where == EMBEDDED:
        code = "embedded_found"
        reason = "no API key or local server found"
        model, open_ = "", lambda: EmbeddedProvider(bundled_model())
    else:
        vendor = vendors[last.where]
        code, reason = "server_found", f"server at {vendor.base_url}"
        if vendor.needs_key:
            code, reason = "key_found", f"key in {find_key_variable(vendor, environ)}"
        open_ = partial(connect, vendor, model=model, environ=environ)
    if last.where in (OFFLINE, EMBEDDED):
        # Name a vendor whose key is set but which could not be used.
        for result in searched:
            skipped = vendors.get(result.where)
            if skipped is not None and find_key_variable(skipped, environ):
                code = "key_unused"
                reason = f"{result.where}: {result.outcome}"
                break
    trail = tuple(searched)
    return ModelSelection(last.where, model, reason, open_, last.chosen_model, trail, code)
