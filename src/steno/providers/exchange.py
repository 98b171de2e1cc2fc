"""One exchange with a server: send the request, read the response, and retry until the first event.

Before the caller has the first event, a failed attempt is repeated. After the first event, an error
is raised. The wire decodes the errors of a server. This module adds the details that only the
client knows: the address, the environment variable of the key, and whether a response follows
another protocol.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain, count
from typing import Any, Final, NamedTuple, TypeVar, final
from urllib.parse import urljoin

import msgspec

from steno.assemble import WireEvent
from steno.errors import (
    AuthenticationFailed,
    CutShort,
    NotFound,
    ProtocolError,
    ProviderError,
    StenoError,
    Unreachable,
)
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded, Finished
from steno.messages.usage import StopReason, Usage
from steno.ports import HttpRequest, HttpResponse, strip_url_secrets
from steno.providers.endpoint import Endpoint
from steno.providers.retry import Retries
from steno.providers.vendor import ApiKey, Vendor
from steno.wire import StreamDecoder, Wire
from steno.wire.response_decoder import build_cut_short

MAX_ERROR_BYTES: Final = 1024 * 1024
"""The maximum number of bytes to read of an error response; the rest is ignored."""
BOM: Final = b"\xef\xbb\xbf"
_MAX_SNIFFED_BYTES: Final = 64 * 1024
"""The number of bytes of a body that are searched for a sign of its protocol."""
_CONTENT_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_DOCUMENT_TYPE: Final = re.compile(r"text/(?:html|plain)|.+[/+](?:json|xml)")
_STREAM_PREFIXES: Final = (b"data:", b"event:", b"id:", b"retry:", b"{", b"[")
"""The beginnings of streams of all protocols."""
_EMPTY_EVENTS: Final = re.compile(
    rb"\A(?:\s|(?:(?:retry|id|event)?:|data:(?=[ \t]*[\r\n]))[^\r\n]*(?=[\r\n]|\Z))*"
)
"""Matches comments, and events without data."""

T = TypeVar("T")

_search_event_end: Final = re.compile(rb"\r?\n\r?\n").search
_logger = logging.getLogger("steno.providers")


# -- the exchange ----------------------------------------------------------------------------------


class RequestPolicy(NamedTuple):
    """The functions and limits for sending and repeating requests; tests replace them."""

    open: Callable[[HttpRequest], Awaitable[HttpResponse]]
    retries: Retries
    sleep: Callable[[float], Awaitable[object]]
    jitter: Callable[[], float]
    """Returns a new random number from 0 to 1."""
    first_event_s: float | None = None
    """The maximum time from the first byte of the body to the first event; None for no limit.

    The transport has the other limits.
    """

    async def retry(self, attempt: Callable[[], Awaitable[T]], vendor: str) -> T:
        """Repeat an attempt until it succeeds or the retry policy gives up.

        Raises the StenoError of the last attempt; after several attempts its message ends with
        their number and the vendor.
        """
        for tried in count():
            try:
                return await attempt()
            except StenoError as exc:
                wait_s = self.retries.wait_s(exc, tried, self.jitter())
                if wait_s is None:
                    if tried:
                        append_advice(exc, f"{tried + 1} requests to {vendor} failed")
                    raise
                # Only the class: the error text of a provider may quote the request.
                _logger.info("%s: %s, retry in %.1f s", vendor, type(exc).__name__, wait_s)
            await self.sleep(wait_s)
        raise AssertionError("unreachable: itertools.count() never ends")


@final
class HttpExchange:
    """Sends one request, and is the source of the events of its response."""

    def __init__(
        self,
        request: HttpRequest,
        model: str,
        endpoint: Endpoint,
        *,
        policy: RequestPolicy,
        error_source: ErrorSource,
    ) -> None:
        self._request = request
        self._endpoint = endpoint
        self._wire = error_source.wire
        self._origin: Final = {"provider": error_source.vendor.provider_name, "model": model}
        """The provider and model for seals."""
        self._policy = policy
        self._error_source = error_source
        self._response: HttpResponse | None = None
        self._decoder: StreamDecoder | None = None
        self._sniffed = b""
        """The first bytes of the body, up to the first event."""
        self._is_at_end = False
        self._is_closed = False
        self._first_event_timeout: asyncio.Timeout | None = None
        """The timeout around the wait for the first event; `close` lets it expire at once."""

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response (id, model, ...) besides the message."""
        return {} if self._decoder is None else self._decoder.envelope

    @property
    def usage(self) -> Usage | None:
        """The token usage so far; None if the provider only reports it at the end."""
        return None if self._decoder is None else self._decoder.usage

    async def read(self) -> Iterable[WireEvent] | None:
        """Return more events; None at the end, or if `close` is called before the first event.

        The first call sends the request and waits for the first event.
        """
        if self._response is not None:
            return None if self._is_at_end else self._decode(await self._response.read())
        self._first_event_timeout = timeout = asyncio.timeout(None)
        try:
            async with timeout:
                return await self._policy.retry(self._attempt, self._error_source.vendor.name)
        except TimeoutError:
            if not timeout.expired():
                raise
            return None
        finally:
            self._first_event_timeout = None

    def redact(self, error: Exception) -> None:
        """Replace the key in the text of an error."""
        self._error_source.key.redact_error(error)

    def close(self) -> None:
        """Close the connection and end a waiting `read`."""
        self._is_closed = True
        if self._first_event_timeout is not None:
            self._first_event_timeout.reschedule(0)
        elif self._response is not None:
            self._response.close()

    # -- up to the first event ---------------------------------------------------------------

    async def _attempt(self) -> Iterator[WireEvent]:
        self._is_at_end = False
        response = await self._policy.open(self._request)
        try:
            events = await self._read_first(response)
        except BaseException:
            response.close()
            raise
        self._response = response
        if self._is_closed:
            # The first bytes arrived in the same iteration of the event loop as `close`, too late
            # for the timeout.
            response.close()
        return events

    async def _read_first(self, response: HttpResponse) -> Iterator[WireEvent]:
        if not 200 <= response.status < 300:
            raise await self._error_source.read_error(response, self._request)
        first = await response.read()
        if is_html(first):
            raise self._error_source.build_protocol_error(response, self._request)
        limit_s = self._policy.first_event_s
        timeout = asyncio.timeout(limit_s)
        try:
            async with timeout:
                return await self._read_first_event(response, first)
        except TimeoutError:
            if not timeout.expired():
                raise
        except ProtocolError as exc:
            if not first or not self._is_other_protocol(response, exc):
                raise
            raise self._error_source.build_protocol_error(response, self._request) from exc
        # Not retryable: the next attempt would take as long.
        raise Unreachable(
            f"no event within {limit_s:g} s, though the connection was kept alive",
            retryable=False,
            code="no_event",
            place=self._error_source.vendor.provider_name,
        )

    async def _read_first_event(self, response: HttpResponse, first: bytes) -> Iterator[WireEvent]:
        # The first byte decides, whatever the content type.
        is_json = first.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
        self._decoder = self._wire.StreamDecoder(**self._origin)
        if self._endpoint.has_whole_responses and is_json:
            return await self._read_whole(response, first, self._decoder)
        self._sniffed = first
        events: Iterator[WireEvent] = self._decode(first)
        held: list[WireEvent] = []
        while True:
            # Once for each piece: its events do not change the result.
            is_ours = self._endpoint.may_match(self._sniffed)
            for event in events:
                held.append(event)
                if isinstance(event, Finished) and event.stop_reason is StopReason.ERROR:
                    return iter([*held, *events])  # the error follows, and may be retryable
                is_unknown = isinstance(event, BlockAdded) and isinstance(event.block, Opaque)
                if is_ours or not is_unknown:
                    return chain(held, events)
            if self._is_at_end:
                return iter(held)
            piece = await response.read()
            if len(self._sniffed) < _MAX_SNIFFED_BYTES:
                self._sniffed += piece[:_MAX_SNIFFED_BYTES]
            events = self._decode(piece)

    def _is_other_protocol(self, response: HttpResponse, error: ProtocolError) -> bool:
        """Return whether the bytes before an error do not belong to this protocol."""
        if isinstance(error, CutShort) and is_cut_off(self._sniffed):
            return False
        is_document = _DOCUMENT_TYPE.fullmatch(read_content_type(response)) is not None
        return is_document or not self._endpoint.may_match(self._sniffed)

    def _decode(self, piece: bytes) -> Iterator[WireEvent]:
        assert self._decoder is not None
        if piece:
            return self._decoder.feed(piece)
        self._is_at_end = True
        return self._decoder.close()

    # -- responses that are not a stream -----------------------------------------------------

    async def _read_whole(
        self, response: HttpResponse, first: bytes, decoder: StreamDecoder
    ) -> Iterator[WireEvent]:
        pieces = [first]
        while pieces[-1]:
            pieces.append(await response.read())
        self._is_at_end = True
        body = b"".join(pieces)
        self._sniffed = body[:_MAX_SNIFFED_BYTES]
        try:
            return iter(decoder.decode_whole(body))
        except ProtocolError:
            if is_cut_off(body):
                raise build_cut_short() from None
            raise


async def fetch_json(policy: RequestPolicy, request: HttpRequest, error_source: ErrorSource) -> Any:
    """Send a request once, and return the JSON of the response.

    Raises ProviderError if the request fails, and ProtocolError if the response is not JSON.
    """
    response = await policy.open(request)
    try:
        if not 200 <= response.status < 300:
            raise await error_source.read_error(response, request)
        pieces: list[bytes] = []
        while piece := await response.read():
            pieces.append(piece)
    finally:
        response.close()
    try:
        return msgspec.json.decode(b"".join(pieces))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise error_source.build_protocol_error(response, request) from None


# -- errors of a response --------------------------------------------------------------------------


class ErrorSource(NamedTuple):
    """Builds the errors for responses of one vendor, with advice about its address and its key."""

    vendor: Vendor
    wire: Wire
    key: ApiKey

    async def read_error(self, response: HttpResponse, request: HttpRequest) -> ProviderError:
        """Return the error for an error response, from the part of its body that can be read."""
        if 300 <= response.status < 400:
            return _build_redirect_error(response, request)
        pieces: list[bytes] = []
        left = MAX_ERROR_BYTES
        try:
            while left > 0 and (piece := await response.read()):
                pieces.append(piece)
                left -= len(piece)
        except Unreachable:
            pass  # the status of the response is more useful than the connection error
        error = self.wire.decode_error(response.status, b"".join(pieces), response.headers)
        if error.retry_after_s:
            append_advice(error, f"the provider asks to wait {error.retry_after_s:.10g} s")
        match error:
            case NotFound() | ProviderError(status=405):
                advice = f"the address was {request.address}; check the base URL and the model"
                append_advice(error, advice)
            case AuthenticationFailed():
                is_sent = bool(self.vendor.auth.header(self.key.reveal()))
                state = "check the key" if is_sent else "no key was sent"
                append_advice(error, f"{state}: {self.vendor.key_advice}")
            case _:
                pass
        return error

    def build_protocol_error(self, response: HttpResponse, request: HttpRequest) -> ProtocolError:
        """Return the error for a response that does not follow the protocol."""
        kind = read_content_type(response) or "no content type"
        return ProtocolError(
            f"the response ({kind}) is not in the format of {self.wire.NAME}; check the base URL, "
            "the wire, and whether a proxy or a login page responds instead of the server",
            code="wrong_protocol",
            place=request.address,
        )


def append_advice(error: StenoError, advice: str) -> None:
    """Append advice to the message of an error."""
    error.message = f"{error.message}; {advice}"
    error.args = (f"{error.place}: {error.message}" if error.place else error.message,)


def read_content_type(response: HttpResponse) -> str:
    """Return the content type of a response, without parameters; empty if missing or invalid."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if _CONTENT_TYPE.fullmatch(kind) else ""


def is_html(first: bytes) -> bool:
    """Return whether a body begins like HTML, whatever its content type."""
    return first.removeprefix(BOM).lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


def is_cut_off(body: bytes) -> bool:
    """Return whether a body may be a stream that was truncated before its first event.

    Such a body is a part of an event, or only comments, which keep a connection alive.
    """
    rest = _EMPTY_EVENTS.sub(b"", body.removeprefix(BOM), count=1)
    if not rest:
        return True
    is_stream = any(rest.startswith(start) or start.startswith(rest) for start in _STREAM_PREFIXES)
    if not is_stream or _search_event_end(rest):
        return False
    return rest[:1] not in (b"{", b"[") or (
        _is_truncated_json(rest) and _is_truncated_json(rest.splitlines()[0])
    )


def _is_truncated_json(text: bytes) -> bool:
    """Return whether text is the beginning of a JSON value."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        return "truncated" in str(exc)  # msgspec has no error class or code for this
    except (UnicodeError, RecursionError):
        pass
    return False


def _build_redirect_error(response: HttpResponse, request: HttpRequest) -> ProviderError:
    try:
        target = strip_url_secrets(urljoin(request.url, response.headers.get("location", "")))
    except ValueError:  # the location is not a URL
        target = None
    if target is None or target == request.address:
        what, advice = "the server redirects", "check the base URL"
    elif request.url.startswith("https:") and target.startswith("http:"):
        what = f"the server redirects to {target}, which would send the key unencrypted"
        advice = "check the base URL, or configure the server to redirect to https"
    else:
        what = f"the server redirects to {target}"
        advice = "if that address is right, use it as the base URL, without the path of the request"
    rule = f"{what}; steno follows no redirects, since a key is for one host only"
    return ProviderError(
        f"{rule}; {advice}", status=response.status, code="redirected", place=request.address
    )
