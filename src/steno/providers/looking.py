"""Look what models there are: ask every server that could be asked, all at once and not for long.

Nothing here raises because of a server, and nothing here chooses between two of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, final
from urllib.parse import urlsplit

from steno.errors import StenoError
from steno.providers.catalog import CATALOG
from steno.providers.connect import connect
from steno.providers.embedded import EmbeddedProvider, find_bundled_model
from steno.providers.endpoint import endpoint_of
from steno.providers.http import HttpProvider
from steno.providers.key import find_key
from steno.providers.models import Model
from steno.providers.offline import OfflineProvider
from steno.providers.retry import Retries
from steno.providers.vendor import Vendor
from steno.transport.http import HttpTransport
from steno.transport.proxy import is_loopback
from steno.value import Quiet

EMBEDDED: Final = "embedded"
OFFLINE: Final = "offline"
_MOST_DESCRIBED: Final = 8
_FAMILIES: Final = {
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
class Looked(Quiet, frozen=True, kw_only=True):
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

    @property
    def is_usable(self) -> bool:
        """Whether a request could be sent there."""
        return bool(self.choice)


class Patience(NamedTuple):
    """How long to wait for a list of models, in seconds."""

    local_s: float = 0.5
    """For servers on this machine, most of which are not there."""
    hosted_s: float = 5
    """For servers elsewhere."""


DEFAULT_PATIENCE: Final = Patience()


async def look_around(
    vendors: Mapping[str, Vendor],
    environ: Mapping[str, str],
    *,
    patience: Patience = DEFAULT_PATIENCE,
    bundled: Callable[[], Path] = find_bundled_model,
) -> tuple[Looked, ...]:
    """Look everywhere, in the order in which models are found."""
    async with looking(environ, patience) as look:
        hosted = await asyncio.gather(*map(look, in_order(vendors)))
    return (*hosted, await look_embedded(bundled), await look_offline())


def in_order(vendors: Mapping[str, Vendor]) -> Iterable[Vendor]:
    """Return whom to ask: first the user's own, then those with a key, then this machine."""
    own = [vendor for name, vendor in vendors.items() if name not in CATALOG]
    return dict.fromkeys([*own, *_once_each(vendors.values())])


def _once_each(rows: Iterable[Vendor]) -> Iterator[Vendor]:
    """Yield those with a key before those on this machine; a server only in its first protocol."""
    seen: set[tuple[str, str]] = set()
    for vendor in sorted(rows, key=lambda row: not row.needs_key):
        server = (vendor.provider_name, urlsplit(vendor.base_url).netloc)
        if server not in seen:
            seen.add(server)
            yield vendor


def variable_with_key(vendor: Vendor, environ: Mapping[str, str]) -> str:
    """Return which variable holds the key of a vendor; empty if none does."""
    return next((name for name in vendor.key_variables if environ.get(name, "").strip()), "")


# -- servers ---------------------------------------------------------------------------------


@final
class Look:
    """Asks vendors which models they have."""

    def __init__(
        self, environ: Mapping[str, str], patience: Patience, transport: HttpTransport
    ) -> None:
        self._environ = environ
        self._timeouts = patience
        self._transport = transport

    async def __call__(self, vendor: Vendor) -> Looked:
        """Return what a vendor has. Raises nothing."""
        obstacle = self._find_obstacle(vendor)
        if obstacle is not None:
            return _nothing(vendor, obstacle)
        is_here = is_loopback(urlsplit(vendor.base_url).hostname or "")
        limit_s = self._timeouts.local_s if is_here else self._timeouts.hosted_s
        try:
            self._transport.prepare()  # it may take longer than all of the patience
            async with asyncio.timeout(limit_s):
                models = await self._list_models(vendor)
        except TimeoutError:
            return _nothing(vendor, f"no answer within {limit_s:g} s from {vendor.base_url}")
        except ImportError as exc:
            held = variable_with_key(vendor, self._environ)
            return _nothing(vendor, f"the key is in {held}, but {exc}" if held else str(exc))
        except StenoError as exc:
            return _nothing(vendor, str(exc).removeprefix(f"{vendor.name}: "))
        choice = choose(vendor.provider_name, models)
        if not choice:
            return _nothing(vendor, f"{vendor.base_url} lists no model to talk to", models)
        return Looked(
            where=vendor.name,
            title=vendor.title,
            outcome=f"{len(models)} model{'' if len(models) == 1 else 's'} at {vendor.base_url}",
            models=models,
            choice=choice,
        )

    def _find_obstacle(self, vendor: Vendor) -> str | None:
        """Return why there is no use in asking."""
        if vendor.needs_key and not find_key(vendor.key_variables, self._environ):
            return f"no key; set {' or '.join(vendor.key_variables) or 'one'}"
        if not vendor.base_url:
            return "everybody has an address of their own: set base_url in the configuration"
        return None

    async def _list_models(self, vendor: Vendor) -> tuple[Model, ...]:
        provider = connect(
            vendor, transport=self._transport, environ=self._environ, retries=Retries(most=0)
        )
        models = await provider.models()
        if endpoint_of(vendor).show_path is None:
            return models
        # Its list says nothing about what a model can do.
        first = [_described(provider, model) for model in models[:_MOST_DESCRIBED]]
        return (*(await asyncio.gather(*first)), *models[_MOST_DESCRIBED:])


@asynccontextmanager
async def looking(environ: Mapping[str, str], patience: Patience) -> AsyncGenerator[Look]:
    """Return what asks vendors, over connections that are closed at the end."""
    transport = HttpTransport(environ=environ)
    try:
        yield Look(environ, patience, transport)
    finally:
        await transport.close()


async def _described(provider: HttpProvider, model: Model) -> Model:
    try:
        return await provider.describe(model.id)
    except StenoError:
        return model


def _nothing(vendor: Vendor, outcome: str, models: tuple[Model, ...] = ()) -> Looked:
    return Looked(where=vendor.name, title=vendor.title, outcome=outcome, models=models)


def choose(maker: str, models: Sequence[Model]) -> str:
    """Return the model to take of those that a maker's server lists: empty if none is for talking."""
    usable = [model for model in models if not _NOT_FOR_CHAT.search(model.id)]
    for family in _FAMILIES.get(maker, ()):
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


async def look_embedded(bundled: Callable[[], Path] = find_bundled_model) -> Looked:
    """Return whether there is a model that runs in this program's care."""
    title = "Embedded (llama.cpp)"
    try:
        provider = EmbeddedProvider(bundled())
        models = await provider.models()
        await provider.close()
    except StenoError as exc:
        return Looked(where=EMBEDDED, title=title, outcome=str(exc))
    outcome = "runs on this machine, without a network"
    return Looked(
        where=EMBEDDED, title=title, outcome=outcome, models=models, choice=provider.model
    )


async def look_offline() -> Looked:
    """Return the offline assistant, which is always there."""
    models = await OfflineProvider().models()
    return Looked(
        where=OFFLINE,
        title="Offline assistant",
        outcome="always there; not a language model",
        models=models,
        choice=models[0].id,
    )
