"""Find a model: discover the models of all known servers, and select one.

`discover_models` asks every server that can be asked, all at once and not for long; no error of a
server is raised. `find_model` selects a model in this order: the one that is named, the one that is
configured, vendors of the configuration, vendors with a key in the environment, a server on this
machine (Ollama first), the embedded model, and the offline assistant, which is always there. So
with nothing configured there is a model.
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
_ADD_VENDOR_HINT: Final = "a row [providers.NAME] in the configuration adds one"
_MAX_DESCRIBED: Final = 8
"""How many models are requested one by one, where a list has too few facts."""
_PREFERRED_FAMILIES: Final = {
    "anthropic": (r"claude-sonnet-[\d-]+",),
    # Its price list names one that is always the newest, which sees images and costs least.
    "deepseek": ("deepseek-flash", r"deepseek-v[\d.]+-(?:flash|pro)", "deepseek-chat"),
    "google": (r"gemini-[\d.]+-pro",),
    "mistral": ("mistral-large-latest",),
    "openai": (r"gpt-[\d.]+",),
    "xai": (r"grok-[\d.-]+",),
}
"""The families of general models of a vendor, the best first.

The newest model of the first family that its server lists is selected.
"""
_NOT_FOR_CHAT: Final = re.compile(
    r"embed|whisper|tts|transcri|moderation|dall-e|image|audio|realtime|rerank|guard|ocr|sora",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+")


@final
class DiscoveryResult(RedactedRepr, frozen=True, kw_only=True):
    """The models of one vendor, or why there are none."""

    shown: ClassVar[frozenset[str]] = frozenset({"where", "outcome", "choice"})

    where: str
    """The name of a vendor, "embedded" or "offline"."""
    title: str = ""
    outcome: str
    """A sentence for people; where there is no model to use, the reason and a remedy."""
    code: str = "found"
    """The outcome for programs: `found`, `key_missing`, `base_url_missing`, `timeout`,
    `no_chat_model`, `missing_extra`, or the code of an error."""
    models: tuple[Model, ...] = ()
    choice: str = ""
    """The model that is selected by default; empty if there is none to use."""

    @property
    def lacks_key(self) -> bool:
        """Whether no key is set for a vendor that needs one."""
        return self.code == "key_missing"

    @property
    def is_usable(self) -> bool:
        """Whether a request could be sent there."""
        return bool(self.choice)

    @property
    def chosen_model(self) -> Model | None:
        """The facts about the default model."""
        return next((model for model in self.models if model.id == self.choice), None)


class DiscoveryTimeouts(NamedTuple):
    """How long to wait for a list of models, in seconds."""

    local_s: float = 0.5
    """For servers on this machine, most of which are not there."""
    hosted_s: float = 5
    """For servers elsewhere."""


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
    """Return the vendors to ask: first the user's own, then those with a key, then this machine."""
    own = [vendor for name, vendor in vendors.items() if name not in CATALOG]
    servers: dict[tuple[str, str], Vendor] = {}  # each only in its first protocol
    for vendor in sorted(vendors.values(), key=lambda row: not row.needs_key):
        servers.setdefault((vendor.provider_name, urlsplit(vendor.base_url).netloc), vendor)
    return dict.fromkeys([*own, *servers.values()])


# -- servers ---------------------------------------------------------------------------------------


class VendorProbe(NamedTuple):
    """Asks vendors which models they have."""

    environ: Mapping[str, str]
    timeouts: DiscoveryTimeouts
    transport: HttpTransport

    async def __call__(self, vendor: Vendor) -> DiscoveryResult:
        """Return the models of a vendor. Raises nothing."""
        if vendor.needs_key and not find_key_variable(vendor, self.environ):
            outcome = f"no key; set {' or '.join(vendor.key_variables) or 'one'}"
            return _build_unusable(vendor, "key_missing", outcome)
        if not vendor.base_url:
            outcome = "everybody has an address of their own: set base_url in the configuration"
            return _build_unusable(vendor, "base_url_missing", outcome)
        is_here = is_loopback(urlsplit(vendor.base_url).hostname or "")
        limit_s = self.timeouts.local_s if is_here else self.timeouts.hosted_s
        try:
            self.transport.prepare()  # loading the client may take longer than the time limit
            async with asyncio.timeout(limit_s):
                models = await self._list_models(vendor)
        except TimeoutError:
            outcome = f"no answer within {limit_s:g} s from {vendor.base_url}"
            return _build_unusable(vendor, "timeout", outcome)
        except ImportError as exc:
            variable = find_key_variable(vendor, self.environ)
            outcome = f"the key is in {variable}, but {exc}" if variable else str(exc)
            return _build_unusable(vendor, "missing_extra", outcome)
        except StenoError as exc:
            return _build_unusable(vendor, exc.code, exc.text_unless_at(vendor.name))
        choice = choose_default_model(vendor.provider_name, models)
        if not choice:
            outcome = f"{vendor.base_url} lists no model to talk to"
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

        # Its list does not name the abilities of a model.
        first = await asyncio.gather(*map(describe, models[:_MAX_DESCRIBED]))
        return (*first, *models[_MAX_DESCRIBED:])


@asynccontextmanager
async def open_vendor_probe(
    environ: Mapping[str, str], timeouts: DiscoveryTimeouts
) -> AsyncGenerator[VendorProbe]:
    """Return a probe whose connections are closed at the end."""
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
    """Return the default model among those of a maker's server: empty if none is for chat."""
    usable = [model for model in models if not _NOT_FOR_CHAT.search(model.id)]
    for family in _PREFERRED_FAMILIES.get(maker, ()):
        known = [model.id for model in usable if re.fullmatch(family, model.id)]
        if known:
            return max(known, key=_version)
    # A model without tools can still chat; models declared to have none come last.
    usable.sort(key=lambda model: model.capabilities.tools is False)
    return usable[0].id if usable else ""


def _version(name: str) -> tuple[list[int], int]:
    """Return a key that is higher for newer models; a date is no version, and short names win."""
    numbers = [int(digits) for digits in _NUMBER.findall(name) if len(digits) < 6]
    return numbers, -len(name)


# -- without a server ------------------------------------------------------------------------------


async def probe_embedded(bundled_model: Callable[[], Path] = find_bundled_model) -> DiscoveryResult:
    """Return the embedded model, or why there is none."""
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
    """Return the offline assistant, which is always there."""
    models = await OfflineProvider().models()
    return DiscoveryResult(
        where=OFFLINE,
        title="Offline assistant",
        outcome="always there; not a language model",
        models=models,
        choice=models[0].id,
    )


# -- selection -------------------------------------------------------------------------------------


class ModelProvider(Provider, Protocol):
    """A provider that describes its model and can be closed."""

    async def describe(self) -> Model:
        """Return the facts about the model."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...


class ModelSelection(NamedTuple):
    """A model, and why it was selected."""

    vendor: str
    model: str
    """Its id; of an embedded model the path, empty for the one that comes in a package."""
    reason: str
    """The reason for the selection, for people."""
    open: Callable[[], ModelProvider]
    """Makes a provider of the model; nothing is sent or loaded yet."""
    known: Model | None = None
    """The facts of its server, where that was asked."""
    searched: tuple[DiscoveryResult, ...] = ()
    """The results of the discovery, up to this model."""
    code: str = ""
    """The reason for programs: `asked_for`, `configured`, `key_found`, `server_found`,
    `embedded_found`, `nothing_else_found`, or `key_unused` if a key is set and of no use."""

    @property
    def name(self) -> str:
        """The name to select it by: `vendor/model`."""
        return format_model_name(self.vendor, self.model)


def format_model_name(vendor: str, model: str) -> str:
    """Return the text that `parse_model_name` reads; the embedded model has a path as its name."""
    if vendor != EMBEDDED:
        return f"{vendor}/{model}"
    return f"{EMBEDDED}:{model}" if Path(model).is_absolute() else EMBEDDED


class ModelName(NamedTuple):
    """The parts of `vendor/model`; the model is empty where only the vendor was named."""

    vendor: str
    model: str = ""


def parse_model_name(text: str, vendors: Mapping[str, Vendor] = CATALOG) -> ModelName:
    """Parse `vendor/model`, `embedded`, `embedded:/path.gguf` or `offline`. Raises InvalidValue.

    The model is everything after the first slash: `openrouter/meta/llama`.
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
            f"must be written vendor/model, with a vendor out of {', '.join(known)}",
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

    If it is empty, `configured` counts. A named model is selected without a request; a vendor that
    is named without a model is asked for its list. `vendors` are all known vendors, those of the
    user included. Raises InvalidValue for an unknown vendor, AuthenticationFailed if its key is
    missing, NotFound if there is no such file or the vendor has no model to use.
    """
    environ = os.environ if environ is None else environ
    reason = "asked for" if wanted else "configured"
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
    """Return the named model; only a vendor without a model has to be asked."""
    if name.vendor == OFFLINE:
        offline = OfflineProvider()
        return ModelSelection(
            OFFLINE, name.model, reason, OfflineProvider, await offline.describe()
        )
    if name.vendor == EMBEDDED:
        provider = EmbeddedProvider(name.model or None)  # raises for what is missing
        path = str(provider.path) if name.model else ""
        open_ = partial(EmbeddedProvider, path or None)
        return ModelSelection(EMBEDDED, path, reason, open_, await provider.describe())
    vendor = vendors[name.vendor]
    if vendor.needs_key and not find_key_variable(vendor, probe.environ):
        names = " or ".join(vendor.key_variables)
        advice = f"set {names}" if names else "name a variable for it in key_variables of its row"
        raise AuthenticationFailed(f"no key; {advice}", code="key_missing", place=vendor.name)
    if name.model:
        open_named = partial(connect, vendor, model=name.model, environ=probe.environ)
        open_named()  # raises for what is missing
        return ModelSelection(vendor.name, name.model, reason, open_named)
    found = await probe(vendor)
    if not found.is_usable:
        raise NotFound(found.outcome, code="model_missing", place=vendor.name)
    open_there = partial(connect, vendor, model=found.choice, environ=probe.environ)
    reason = f"{reason} as {vendor.name} alone; {found.outcome}"
    facts = found.chosen_model
    return ModelSelection(vendor.name, found.choice, reason, open_there, facts, (found,))


async def _first_usable(probe: VendorProbe, vendors: Iterable[Vendor]) -> list[DiscoveryResult]:
    """Ask all vendors at once, and return the results up to the first that is usable."""
    tasks = [asyncio.create_task(probe(vendor)) for vendor in vendors]
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
        reason = "nothing else found"
    elif last.where == EMBEDDED:
        code = "embedded_found"
        reason = "no key and no server found"
        model, open_ = "", lambda: EmbeddedProvider(bundled_model())
    else:
        vendor = vendors[last.where]
        code, reason = "server_found", f"server at {vendor.base_url}"
        if vendor.needs_key:
            code, reason = "key_found", f"key in {find_key_variable(vendor, environ)}"
        open_ = partial(connect, vendor, model=model, environ=environ)
    if last.where in (OFFLINE, EMBEDDED):
        for result in searched:  # a vendor whose key is set was not selected
            skipped = vendors.get(result.where)
            if skipped is not None and find_key_variable(skipped, environ):
                code = "key_unused"
                reason = f"{result.where}: {result.outcome}"
                break
    trail = tuple(searched)
    return ModelSelection(last.where, model, reason, open_, last.chosen_model, trail, code)
