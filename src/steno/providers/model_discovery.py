"""Look what models there are: ask every server that could be asked, all at once and not for long.

Nothing here raises because of a server, and nothing here chooses between two of them.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol, final
from urllib.parse import urlsplit

from msgspec.structs import replace

from steno.errors import AuthenticationFailed, InvalidValue, NotFound, StenoError
from steno.ports import Provider
from steno.providers.api_key import find_key
from steno.providers.catalog import CATALOG
from steno.providers.embedded import EmbeddedProvider, find_bundled_model
from steno.providers.endpoint import find_endpoint
from steno.providers.http_provider import HttpProvider, connect
from steno.providers.models import Model
from steno.providers.offline_assistant import OfflineProvider
from steno.providers.retry import Retries
from steno.providers.vendor import Vendor, describe_unknown_vendor, suggest_vendor
from steno.transport.http import HttpTransport
from steno.transport.proxy import is_loopback
from steno.values import RedactedRepr

EMBEDDED: Final = "embedded"


OFFLINE: Final = "offline"


_MAX_DESCRIBED: Final = 8


_PREFERRED_FAMILIES: Final = {
    "anthropic": (re.compile(r"claude-sonnet-[\d-]+"),),
    # Its price list names one that is always the newest, which sees images and costs least.
    "deepseek": (
        re.compile(r"deepseek-flash"),
        re.compile(r"deepseek-v[\d.]+-(?:flash|pro)"),
        re.compile(r"deepseek-chat"),
    ),
    "google": (re.compile(r"gemini-[\d.]+-pro"),),
    "mistral": (re.compile(r"mistral-large-latest"),),
    "openai": (re.compile(r"gpt-[\d.]+"),),
    "xai": (re.compile(r"grok-[\d.-]+"),),
}
"""Which models of a vendor are all-rounders, the best first.

Of the first family that its server lists any of, the newest is taken.
"""


_NOT_FOR_CHAT: Final = re.compile(
    r"embed|whisper|tts|transcri|moderation|dall-e|image|audio|realtime|rerank|guard|ocr|sora",
    re.IGNORECASE,
)


_NUMBER: Final = re.compile(r"\d+")


@final
class DiscoveryResult(RedactedRepr, frozen=True, kw_only=True):
    """Where was looked for models, and what was found there."""

    shown: ClassVar[frozenset[str]] = frozenset({"where", "outcome", "choice"})

    where: str
    """The name of a vendor, "embedded" or "offline"."""
    title: str = ""
    outcome: str
    """In words; where there is nothing to use, why, and what to do about it."""
    models: tuple[Model, ...] = ()
    choice: str = ""
    """The model that is taken where nobody names one; empty if there is none to use."""
    lacks_key: bool = False
    """Whether no key is set for a vendor that needs one."""

    @property
    def is_usable(self) -> bool:
        """Whether a request could be sent there."""
        return bool(self.choice)


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
    patience: DiscoveryTimeouts = DEFAULT_DISCOVERY_TIMEOUTS,
    bundled: Callable[[], Path] = find_bundled_model,
) -> tuple[DiscoveryResult, ...]:
    """Look everywhere, in the order in which models are found."""
    async with open_vendor_probe(environ, patience) as look:
        hosted = await asyncio.gather(*map(look, order_vendors(vendors)))
    return (*hosted, await probe_embedded(bundled), await probe_offline())


def order_vendors(vendors: Mapping[str, Vendor]) -> Iterable[Vendor]:
    """Return whom to ask: first the user's own, then those with a key, then this machine."""
    own = [vendor for name, vendor in vendors.items() if name not in CATALOG]
    return dict.fromkeys([*own, *_first_protocol_of_each(vendors.values())])


def _first_protocol_of_each(rows: Iterable[Vendor]) -> Iterator[Vendor]:
    """Yield those with a key before those on this machine; a server only in its first protocol."""
    seen: set[tuple[str, str]] = set()
    for vendor in sorted(rows, key=lambda row: not row.needs_key):
        server = (vendor.provider_name, urlsplit(vendor.base_url).netloc)
        if server not in seen:
            seen.add(server)
            yield vendor


def find_key_variable(vendor: Vendor, environ: Mapping[str, str]) -> str:
    """Return which variable holds the key of a vendor; empty if none does."""
    return next((name for name in vendor.key_variables if environ.get(name, "").strip()), "")


# -- servers ---------------------------------------------------------------------------------


@final
class VendorProbe:
    """Asks vendors which models they have."""

    def __init__(
        self, environ: Mapping[str, str], patience: DiscoveryTimeouts, transport: HttpTransport
    ) -> None:
        self._environ = environ
        self._timeouts = patience
        self._transport = transport

    async def __call__(self, vendor: Vendor) -> DiscoveryResult:
        """Return what a vendor has. Raises nothing."""
        if vendor.needs_key and not find_key(vendor.key_variables, self._environ):
            outcome = f"no key; set {' or '.join(vendor.key_variables) or 'one'}"
            return replace(_build_unusable(vendor, outcome), lacks_key=True)
        if not vendor.base_url:
            outcome = "everybody has an address of their own: set base_url in the configuration"
            return _build_unusable(vendor, outcome)
        is_here = is_loopback(urlsplit(vendor.base_url).hostname or "")
        limit_s = self._timeouts.local_s if is_here else self._timeouts.hosted_s
        try:
            self._transport.prepare()  # it may take longer than all of the patience
            async with asyncio.timeout(limit_s):
                models = await self._list_models(vendor)
        except TimeoutError:
            return _build_unusable(vendor, f"no answer within {limit_s:g} s from {vendor.base_url}")
        except ImportError as exc:
            held = find_key_variable(vendor, self._environ)
            return _build_unusable(vendor, f"the key is in {held}, but {exc}" if held else str(exc))
        except StenoError as exc:
            return _build_unusable(vendor, str(exc).removeprefix(f"{vendor.name}: "))
        choice = choose_model(vendor.provider_name, models)
        if not choice:
            return _build_unusable(vendor, f"{vendor.base_url} lists no model to talk to", models)
        return DiscoveryResult(
            where=vendor.name,
            title=vendor.title,
            outcome=f"{len(models)} model{'' if len(models) == 1 else 's'} at {vendor.base_url}",
            models=models,
            choice=choice,
        )

    async def _list_models(self, vendor: Vendor) -> tuple[Model, ...]:
        provider = connect(
            vendor, transport=self._transport, environ=self._environ, retries=Retries(most=0)
        )
        models = await provider.models()
        if find_endpoint(vendor).show_path is None:
            return models
        # Its list says nothing about what a model can do.
        first = [_describe_model(provider, model) for model in models[:_MAX_DESCRIBED]]
        return (*(await asyncio.gather(*first)), *models[_MAX_DESCRIBED:])


@asynccontextmanager
async def open_vendor_probe(
    environ: Mapping[str, str], patience: DiscoveryTimeouts
) -> AsyncGenerator[VendorProbe]:
    """Return what asks vendors, over connections that are closed at the end."""
    transport = HttpTransport(environ=environ)
    try:
        yield VendorProbe(environ, patience, transport)
    finally:
        await transport.close()


async def _describe_model(provider: HttpProvider, model: Model) -> Model:
    try:
        return await provider.describe(model.id)
    except StenoError:
        return model


def _build_unusable(
    vendor: Vendor, outcome: str, models: tuple[Model, ...] = ()
) -> DiscoveryResult:
    return DiscoveryResult(where=vendor.name, title=vendor.title, outcome=outcome, models=models)


def choose_model(maker: str, models: Sequence[Model]) -> str:
    """Return the model to take of those that a maker's server lists: empty if none is for talking."""
    usable = [model for model in models if not _NOT_FOR_CHAT.search(model.id)]
    for family in _PREFERRED_FAMILIES.get(maker, ()):
        known = [model.id for model in usable if family.fullmatch(model.id)]
        if known:
            return max(known, key=_version)
    # Without tools a model can still talk; who knows that it has none comes last.
    usable.sort(key=lambda model: model.capabilities.tools is False)
    return usable[0].id if usable else ""


def _version(name: str) -> tuple[list[int], int]:
    """Return what newer models have more of; a date is no version, and the short name is better."""
    numbers = [int(digits) for digits in _NUMBER.findall(name) if len(digits) < 6]
    return numbers, -len(name)


# -- without a server ------------------------------------------------------------------------


async def probe_embedded(bundled: Callable[[], Path] = find_bundled_model) -> DiscoveryResult:
    """Return whether there is a model that runs in this program's care."""
    title = "Embedded (llama.cpp)"
    try:
        provider = EmbeddedProvider(bundled())
        models = await provider.models()
        await provider.close()
    except StenoError as exc:
        return DiscoveryResult(where=EMBEDDED, title=title, outcome=str(exc))
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


# -- finding ---------------------------------------------------------------------------------------
#
# Find a model to talk to: the one that was asked for, else the best that there is.
#
# In this order: the one named, the one configured, vendors of the configuration, vendors for whom
# the environment holds a key, a server on this machine (Ollama first), the embedded model, and at
# last the offline assistant, which is always there. So with nothing configured something answers.


_ADD_VENDOR_HINT: Final = "a row [providers.NAME] in the configuration adds one"


class ModelProvider(Provider, Protocol):
    """A provider that knows about its model, and is closed when it is not needed any more."""

    async def describe(self) -> Model:
        """Return what is known of the model."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class ModelSelection(NamedTuple):
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
    searched: tuple[DiscoveryResult, ...] = ()
    """Where was looked before."""

    @property
    def name(self) -> str:
        """What to ask for it by the next time: `vendor/model`."""
        return format_model_name(self.vendor, self.model)


def format_model_name(vendor: str, model: str) -> str:
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
        if (vendor and slash) or suggest_vendor(vendor, known):
            raise InvalidValue(
                describe_unknown_vendor(vendor, known, _ADD_VENDOR_HINT),
                code="vendor_unknown",
                place="model",
            )
        listed = ", ".join(known)
        raise InvalidValue(
            f"must be written vendor/model, with a vendor out of {listed}",
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
    patience: DiscoveryTimeouts = DEFAULT_DISCOVERY_TIMEOUTS,
    bundled: Callable[[], Path] = find_bundled_model,
) -> ModelSelection:
    """Find a model. `wanted` is what a person named: `vendor/model`, `embedded`, `offline`.

    If nothing is wanted, what is `configured` counts. A model that is named is taken without
    asking anybody; a vendor that is named without a model is asked which ones it has. `vendors`
    are all that are known, those of the user included. Raises InvalidValue for a vendor that is
    not among them, AuthenticationFailed if its key is missing, NotFound if there is no such file
    or the vendor has no model to use.
    """
    environ = os.environ if environ is None else environ
    named, how = (wanted, "asked for") if wanted else (configured, "configured")
    async with open_vendor_probe(environ, patience) as look:
        if named:
            return await _select_named(
                parse_model_name(named, vendors), how, vendors, environ, look
            )
        looked = await _first_usable(look, order_vendors(vendors))
    if not (looked and looked[-1].is_usable):
        looked.append(await probe_embedded(bundled))
    if not looked[-1].is_usable:
        looked.append(await probe_offline())
    return _select_last(looked, vendors, environ, bundled)


async def _select_named(
    name: ModelName,
    how: str,
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    look: VendorProbe,
) -> ModelSelection:
    """Return what was named; only a vendor without a model has to be asked."""
    if name.vendor == OFFLINE:
        return ModelSelection(
            OFFLINE, name.model, how, OfflineProvider, await OfflineProvider().describe()
        )
    if name.vendor == EMBEDDED:
        provider = EmbeddedProvider(name.model or None)  # raises for what is missing
        path = str(provider.path) if name.model else ""
        open_ = partial(EmbeddedProvider, path or None)
        return ModelSelection(EMBEDDED, path, how, open_, await provider.describe())
    vendor = vendors[name.vendor]
    if vendor.needs_key and not find_key_variable(vendor, environ):
        names = " or ".join(vendor.key_variables)
        advice = f"set {names}" if names else "name a variable for it in key_variables of its row"
        raise AuthenticationFailed(f"no key; {advice}", code="key_missing", place=vendor.name)
    if name.model:
        connect(vendor, model=name.model, environ=environ)  # raises for what is missing
        return ModelSelection(
            vendor.name, name.model, how, _provider_factory(vendor, name.model, environ)
        )
    looked = await look(vendor)
    if not looked.is_usable:
        raise NotFound(looked.outcome, code="model_missing", place=vendor.name)
    open_there = _provider_factory(vendor, looked.choice, environ)
    how = f"{how} as {vendor.name} alone; {looked.outcome}"
    return ModelSelection(
        vendor.name, looked.choice, how, open_there, _find_chosen_model(looked), (looked,)
    )


async def _first_usable(look: VendorProbe, rows: Iterable[Vendor]) -> list[DiscoveryResult]:
    """Ask all of them at once, and return the answers up to the first that is of use."""
    tasks = [asyncio.create_task(look(vendor)) for vendor in rows]
    looked: list[DiscoveryResult] = []
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


def _select_last(
    looked: Sequence[DiscoveryResult],
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    bundled: Callable[[], Path],
) -> ModelSelection:
    """Return what the last look has found."""
    last = looked[-1]
    known, trail = _find_chosen_model(last), tuple(looked)
    if last.where == OFFLINE:
        how = _explain_unused_key(looked, vendors, environ) or "nothing else found"
        return ModelSelection(OFFLINE, last.choice, how, OfflineProvider, known, trail)
    if last.where == EMBEDDED:
        how = _explain_unused_key(looked, vendors, environ) or "no key and no server found"
        return ModelSelection(EMBEDDED, "", how, lambda: EmbeddedProvider(bundled()), known, trail)
    vendor = vendors[last.where]
    how = f"server at {vendor.base_url}"
    if vendor.needs_key:
        how = f"key in {find_key_variable(vendor, environ)}"
    open_there = _provider_factory(vendor, last.choice, environ)
    return ModelSelection(vendor.name, last.choice, how, open_there, known, trail)


def _explain_unused_key(
    looked: Iterable[DiscoveryResult], vendors: Mapping[str, Vendor], environ: Mapping[str, str]
) -> str:
    """Say why somebody who has set a key does not get the model that it is for."""
    for place in looked:
        vendor = vendors.get(place.where)
        if vendor is not None and find_key_variable(vendor, environ):
            return f"{place.where}: {place.outcome}"
    return ""


def _provider_factory(
    vendor: Vendor, model: str, environ: Mapping[str, str]
) -> Callable[[], ModelProvider]:
    return partial(connect, vendor, model=model, environ=environ)


def _find_chosen_model(looked: DiscoveryResult) -> Model | None:
    return next((model for model in looked.models if model.id == looked.choice), None)
