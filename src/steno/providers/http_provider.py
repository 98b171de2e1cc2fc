"""The HTTP provider for all vendors, and `connect`, which creates one from the name of a vendor.

A vendor is a row of the catalog. The row has the address and the wire, the wire encodes and
decodes, the transport sends and receives bytes, the exchange retries, and the stream returns the
events.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, Final, Self, final
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from steno.errors import AuthenticationFailed, InvalidRequest, NotFound, StenoError, Unreachable
from steno.messages.change import Change, ChangeCode
from steno.messages.request import Request
from steno.messages.usage import Usage
from steno.ports import HttpRequest, HttpResponse, Transport
from steno.providers.catalog import CATALOG
from steno.providers.encoder_cache import EncoderCache
from steno.providers.endpoint import build_encoder, find_endpoint, highest_temperature
from steno.providers.exchange import (
    ErrorSource,
    HttpExchange,
    RequestPolicy,
    append_advice,
    fetch_json,
)
from steno.providers.models import Model, read_ollama_model
from steno.providers.retry import DEFAULT_RETRIES, Retries
from steno.providers.stream import SourceStream, check_request
from steno.providers.vendor import (
    ApiKey,
    Vendor,
    check_base_url,
    check_rule,
    check_type,
    describe_unknown_vendor,
    find_key_variable,
)
from steno.transport.http import HttpTransport
from steno.values import PRECHECKED, is_prechecked
from steno.wire import EncodedRequest, load_wire

FIRST_EVENT_S: Final = 1800
"""The default time limit for the first event.

Models that think without output take many minutes; their servers keep the connection alive.
"""
_MAX_PAGES: Final = 50
_HEADERS: Final = {
    "accept": "text/event-stream, application/json",
    "accept-encoding": "identity",  # a compressed stream is delayed until a block is full
    "user-agent": "steno",
}


def connect(
    vendor: str | Vendor,
    *,
    model: str = "",
    key: str | None = None,
    base_url: str | None = None,
    transport: Transport | None = None,
    retries: Retries = DEFAULT_RETRIES,
    first_event_s: float | None = FIRST_EVENT_S,
    adapt_settings: bool = False,
    vendors: Mapping[str, Vendor] = CATALOG,
    environ: Mapping[str, str] | None = None,
) -> HttpProvider:
    """Return a provider for a vendor, given by name or as a Vendor; nothing is sent yet.

        async with connect("anthropic", model="…") as provider:
            message = await provider.stream(request).collect()

    `model` is used for requests that name no model. Without `key`, the key comes from `environ`, by
    default the environment of the process. A response that has no event after `first_event_s`
    seconds fails, even if the server keeps the connection alive. A request with a temperature above
    the maximum of the vendor is refused; with `adapt_settings`, it is sent with the maximum. Raises
    InvalidValue if the vendor is unknown, the address is invalid or a limit is not above 0, and
    AuthenticationFailed if a required key is missing.
    """
    rule = 'vendor must be a name such as "openai", or a Vendor'
    check_type(vendor, (str, Vendor), rule, "connect")
    if isinstance(vendor, str):
        rule = describe_unknown_vendor(vendor, sorted(vendors), "or pass a Vendor")
        check_rule(vendor in vendors, rule, "vendor", code="provider_unknown")
        vendor = vendors[vendor]
    if base_url is not None:
        check_base_url(base_url, vendor.name)
        vendor = replace(vendor, base_url=base_url, needs_model=vendor.needs_model_at(base_url))
    rule = "required: the address differs for each customer of this vendor"
    place = f"{vendor.name}.base_url"
    check_rule(vendor.base_url != "", rule, place, code="base_url_missing")
    environ = os.environ if environ is None else environ
    found = ApiKey(environ.get(find_key_variable(vendor, environ), "") if key is None else key)
    if vendor.needs_key and not found:
        raise AuthenticationFailed(
            f"no key; {vendor.key_advice}", place=vendor.name, code="key_missing"
        )
    return HttpProvider(
        vendor,
        model=model,
        key=found,
        transport=transport,
        retries=retries,
        first_event_s=first_event_s,
        adapt_settings=adapt_settings,
    )


@final
class HttpProvider:
    """A provider for one vendor, which `connect` creates; `async with` closes its connections."""

    def __init__(
        self,
        vendor: Vendor,
        *,
        model: str = "",
        key: ApiKey | None = None,
        transport: Transport | None = None,
        retries: Retries = DEFAULT_RETRIES,
        first_event_s: float | None = FIRST_EVENT_S,
        adapt_settings: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Create a provider. `close` does not close a transport that you pass.

        `first_event_s` is the time limit for the first event, None for no limit; keep-alive
        comments do not count as events. `adapt_settings` lowers a temperature that is too high
        for the vendor, which is otherwise refused. Raises InvalidValue if the vendor has an unknown
        wire or a limit is not above 0.
        """
        advice = "; to use the name of a vendor, call connect"
        check_type(vendor, Vendor, "must be a Vendor", "vendor", advice=advice)
        _check_model(model)
        _check_policy(key, transport, retries, first_event_s)
        self.vendor = vendor
        self.model = model
        """The model for requests that name no model."""
        self.adapt_settings = adapt_settings
        """Whether a temperature above the maximum of the vendor is lowered instead of refused."""
        self._endpoint = find_endpoint(vendor)
        self._highest_temperature = highest_temperature(vendor)
        self._error_source = ErrorSource(vendor, load_wire(vendor.wire), key or ApiKey())
        self._owns_transport = transport is None
        self._transport = transport or HttpTransport()
        self._is_closed = False
        self._policy = RequestPolicy(self._open, retries, sleep, jitter, first_event_s)
        wire = self._error_source.wire
        self._encoders = EncoderCache(partial(build_encoder, vendor, wire))
        has_encoder = self._endpoint.encoder_settings is not None
        self._encode: Callable[[Request], EncodedRequest] = (
            self._encoders.encode if has_encoder else partial(wire.encode_request, stream=True)
        )

    def __repr__(self) -> str:
        return f"HttpProvider({self.vendor.name!r}, base_url={self.vendor.base_url!r}, model={self.model!r})"

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, except those of a transport that you passed.

        No request can be sent afterwards.
        """
        self._is_closed = True
        self._encoders.clear()
        if self._owns_transport:
            await self._transport.close()

    def stream(self, request: Request) -> HttpStream:
        """Return the response as a stream; the request is sent when the first event is read.

        Raises InvalidRequest if the request cannot be sent to this vendor, and StenoError
        (`provider_closed`) if the provider is closed.
        """
        self._check_open()
        check_request(request)
        if not request.model and self.model:
            request = _with_settings(request, model=self.model)
        if not request.model and self.vendor.needs_model:
            raise InvalidRequest(
                f"no model for {self.vendor.name}; set Request.model or pass model to connect",
                place="request",
                code="model_missing",
            )
        request, lowered = self._within_temperature(request)
        request, losses = self._within_token_limit(request)
        path = self._endpoint.path_for(request.model)
        encoded = self._encode(request)
        exchange = HttpExchange(
            self._build_request("POST", path, encoded.body),
            request.model,
            self._endpoint,
            policy=self._policy,
            error_source=self._error_source,
        )
        return HttpStream(exchange, (*lowered, *losses, *encoded.losses))

    def _within_temperature(self, request: Request) -> tuple[Request, tuple[Change, ...]]:
        """Return a request with a temperature that the vendor accepts, and the losses.

        Raises InvalidRequest if the temperature is too high and `adapt_settings` is not set.
        """
        most = self._highest_temperature
        if request.temperature is None or request.temperature <= most:
            return request, ()
        if not self.adapt_settings:
            raise InvalidRequest(
                f"temperature must be between 0 and {most:g} for {self.vendor.name}",
                place="request",
                code="out_of_range",
                field="temperature",
            )
        place = "request.temperature"
        loss = Change(ChangeCode.SETTING, "temperature_lowered", place, value=f"{most:g}")
        return _with_settings(request, temperature=float(most)), (loss,)

    def _within_token_limit(self, request: Request) -> tuple[Request, tuple[Change, ...]]:
        """Return a request with `max_tokens` within the limit of the vendor, and the losses.

        There is a loss if the caller asked for more than the limit.
        """
        most, asked = self.vendor.max_output_tokens, request.max_tokens
        if most is None or (asked is None and not self._endpoint.requires_max_tokens):
            return request, ()
        if asked is None:
            return _with_settings(request, max_tokens=most), ()
        if asked <= most:
            return request, ()
        loss = Change(
            ChangeCode.SETTING,
            "max_tokens_lowered",
            "request.max_tokens",
            value=self.vendor.name,
            number=most,
        )
        return _with_settings(request, max_tokens=most), (loss,)

    # -- models ------------------------------------------------------------------------------

    async def models(self) -> tuple[Model, ...]:
        """Request the list of models from the server.

        Limits that the server does not report are taken from the vendor. Raises ProviderError if
        the request fails, and ProtocolError if the response has another format.
        """
        if self._endpoint.models_path is None:
            raise NotFound(
                "the address of this server's list of models is unknown; name the model",
                place=self.vendor.name,
                code="models_path_unknown",
            )
        path = self._endpoint.models_path
        page = self._endpoint.read_models(await self._fetch("GET", path))
        found = list(page.models)
        for _ in range(_MAX_PAGES):
            if page.next_query is None:
                break
            more = f"{path}{'&' if '?' in path else '?'}{urlencode(page.next_query)}"
            page = self._endpoint.read_models(await self._fetch("GET", more))
            found += page.models
        return tuple([self._with_limits(model) for model in found])

    async def describe(self, model: str = "") -> Model:
        """Request the properties of one model, by default the model of the provider.

        Raises NotFound if the server does not have the model.
        """
        _check_model(model)
        name = model or self.model
        if self._endpoint.show_path is not None:
            body = msgspec.json.encode({"model": name})
            facts = await self._fetch("POST", self._endpoint.show_path, body)
            return self._with_limits(read_ollama_model(name, facts))
        for known in await self.models():
            if known.id == name:
                return known
        raise NotFound(
            "the server does not list this model", place=self.vendor.name, code="model_unknown"
        )

    def _with_limits(self, model: Model) -> Model:
        return replace(
            model,
            context_tokens=model.context_tokens or self.vendor.context_tokens,
            max_output_tokens=model.max_output_tokens or self.vendor.max_output_tokens,
        )

    async def _fetch(self, method: str, path: str, body: bytes = b"") -> Any:
        request = self._build_request(method, path, body)
        try:
            return await self._policy.retry(
                lambda: fetch_json(self._policy, request, self._error_source), self.vendor.name
            )
        except Exception as exc:
            self._error_source.key.redact_error(exc)
            raise

    async def _open(self, request: HttpRequest) -> HttpResponse:
        self._check_open()
        try:
            return await self._transport.open(request)
        except Unreachable as exc:
            if self.vendor.hint:
                append_advice(exc, self.vendor.hint)
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise StenoError(
                "the provider is closed; connect again",
                place=self.vendor.name,
                code="provider_closed",
            )

    def _build_request(self, method: str, path: str, body: bytes) -> HttpRequest:
        headers = {
            **_HEADERS,
            **self._endpoint.headers,
            **({"content-type": "application/json"} if body else {}),
            **dict(self.vendor.headers),
            **self.vendor.auth.header(self._error_source.key.reveal()),
        }
        return HttpRequest(method, self.vendor.base_url.rstrip("/") + path, headers, body)


def _with_settings(request: Request, **settings: Any) -> Request:
    """Return a request with some settings replaced, without checking its messages again."""
    before = is_prechecked()
    try:
        PRECHECKED.set(True)
        return replace(request, **settings)
    finally:
        PRECHECKED.set(before)


@final
class HttpStream(SourceStream):
    """The response of a vendor as a stream, with the losses and the envelope."""

    def __init__(self, exchange: HttpExchange, losses: tuple[Change, ...]) -> None:
        """Create the stream of an exchange that has not begun."""
        super().__init__(exchange)
        self._exchange = exchange
        self.losses = losses
        """The parts of the request that were changed or left out when it was encoded."""

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response (id, model, ...), for the log."""
        return self._exchange.envelope

    @property
    def _usage_so_far(self) -> Usage | None:
        return self._exchange.usage


# -- arguments ------------------------------------------------------------------------------------


def _check_model(model: object) -> None:
    advice = "; pass its id" if isinstance(model, Model) else ""
    check_type(model, str, "must be a string", "model", advice=advice)


def _check_policy(key: object, transport: object, retries: object, first_event_s: object) -> None:
    check_type(key, (ApiKey, NoneType), "must be an ApiKey", "key")
    rule = f"must be a transport such as HttpTransport(), not {type(transport).__name__}"
    is_transport = transport is None or hasattr(transport, "open")
    check_rule(is_transport, rule, "transport", code="wrong_type")
    check_type(retries, Retries, "must be Retries, such as Retries(max_retries=3)", "retries")
    is_limit = first_event_s is None or (
        isinstance(first_event_s, (int, float)) and first_event_s > 0
    )
    rule = "must be a number of seconds above 0, or None"
    check_rule(is_limit, rule, "first_event_s", code="limit_not_positive")
