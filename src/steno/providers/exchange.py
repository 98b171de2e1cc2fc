"""One exchange with a server: send the request, read the response, and retry until the first event.

Before the first event reaches the caller, a failed attempt costs nothing but time; after it, an
error is the caller's to see. The wire decodes the errors of a server. Facts that only this side
knows are added here: the address, the variable of the key, and that a response is none of the
protocol.
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
"""The most that is read of an error response; the rest explains nothing."""
BOM: Final = b"\xef\xbb\xbf"
_MAX_SNIFFED_BYTES: Final = 64 * 1024
"""So much of a body shows its protocol."""
_CONTENT_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_DOCUMENT_TYPE: Final = re.compile(r"text/(?:html|plain)|.+[/+](?:json|xml)")
_STREAM_PREFIXES: Final = (b"data:", b"event:", b"id:", b"retry:", b"{", b"[")
"""The beginnings of streams, in any protocol."""
_EMPTY_EVENTS: Final = re.compile(
    rb"\A(?:\s|(?:(?:retry|id|event)?:|data:(?=[ \t]*[\r\n]))[^\r\n]*(?=[\r\n]|\Z))*"
)
"""Comments, and events with only a number or a name."""

T = TypeVar("T")

_search_event_end: Final = re.compile(rb"\r?\n\r?\n").search
_logger = logging.getLogger("steno.providers")


# -- the exchange ----------------------------------------------------------------------------------


class RequestPolicy(NamedTuple):
    """How requests are sent and repeated; a test replaces its parts."""

    open: Callable[[HttpRequest], Awaitable[HttpResponse]]
    retries: Retries
    sleep: Callable[[float], Awaitable[object]]
    jitter: Callable[[], float]
    """A number from 0 to 1, a new one each time."""
    first_event_s: float | None = None
    """The time from the first byte of the body to the first event; the transport has the others."""

    async def retry(self, attempt: Callable[[], Awaitable[T]], vendor: str) -> T:
        """Repeat an attempt until it succeeds or a repetition has no use.

        Raises its last StenoError; after more than one attempt it names the vendor and their
        number.
        """
        for tried in count():
            try:
                return await attempt()
            except StenoError as exc:
                wait_s = self.retries.wait_s(exc, tried, self.jitter())
                if wait_s is None:
                    if tried:
                        append_advice(exc, f"{vendor} was asked {tried + 1} times")
                    raise
                # The class and no more: the text of a provider may echo the request.
                _logger.info("%s: %s, again in %.1f s", vendor, type(exc).__name__, wait_s)
            await self.sleep(wait_s)
        raise AssertionError("count has no end")


@final
class HttpExchange:
    """The source of events of one response."""

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
        """The origin of seals."""
        self._policy = policy
        self._error_source = error_source
        self._response: HttpResponse | None = None
        self._decoder: StreamDecoder | None = None
        self._sniffed = b""
        """The beginning of the body, up to its first event."""
        self._is_at_end = False
        self._is_closed = False
        self._first_event_timeout: asyncio.Timeout | None = None
        """A deadline during the wait for the first event; closing the stream sets it."""

    @property
    def envelope(self) -> dict[str, Any]:
        """The metadata of the response (id, model, ...), other than the message."""
        return {} if self._decoder is None else self._decoder.envelope

    @property
    def usage(self) -> Usage | None:
        """The usage so far, if the provider sends it before the end."""
        return None if self._decoder is None else self._decoder.usage

    async def read(self) -> Iterable[WireEvent] | None:
        """Return more events; the first time, send the request and wait for the first of them."""
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
        """Drop the connection, and end a read that waits."""
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
            # Its bytes came in the same turn of the loop as `close`, too late to be cancelled.
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
        # Not repeated: the next attempt would take as long.
        raise Unreachable(
            f"no event within {limit_s:g} s, though the connection was kept alive",
            retryable=False,
            code="no_event",
            place=self._error_source.vendor.provider_name,
        )

    async def _read_first_event(self, response: HttpResponse, first: bytes) -> Iterator[WireEvent]:
        # The beginning decides, whatever the content type.
        is_json = first.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
        self._decoder = self._wire.StreamDecoder(**self._origin)
        if self._endpoint.has_whole_responses and is_json:
            return await self._read_whole(response, first, self._decoder)
        self._sniffed = first
        events: Iterator[WireEvent] = self._decode(first)
        held: list[WireEvent] = []
        while True:
            # Once for each piece, however many unknown events it holds.
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
        """Return whether the bytes before an error are of another protocol, or of none."""
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

    # -- responses that are no stream --------------------------------------------------------

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
    """Send a request once; return the JSON of the response. Raises ProviderError, ProtocolError."""
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
    """The vendor, wire and key that errors of a response name."""

    vendor: Vendor
    wire: Wire
    key: ApiKey

    async def read_error(self, response: HttpResponse, request: HttpRequest) -> ProviderError:
        """Return the error of an error response, from as much of its body as there is."""
        if 300 <= response.status < 400:
            return _build_redirect_error(response, request)
        pieces: list[bytes] = []
        left = MAX_ERROR_BYTES
        try:
            while left > 0 and (piece := await response.read()):
                pieces.append(piece)
                left -= len(piece)
        except Unreachable:
            pass  # the status is better information than the end of the connection
        error = self.wire.decode_error(response.status, b"".join(pieces), response.headers)
        if error.retry_after_s:
            append_advice(error, f"it asks to wait {error.retry_after_s:.10g} s")
        match error:
            case NotFound() | ProviderError(status=405):
                append_advice(error, f"asked {request.address}, check the base URL and the model")
            case AuthenticationFailed():
                is_sent = bool(self.vendor.auth.header(self.key.reveal()))
                state = "check the key" if is_sent else "no key was sent"
                append_advice(error, f"{state}: {self.vendor.key_advice}")
            case _:
                pass
        return error

    def build_protocol_error(self, response: HttpResponse, request: HttpRequest) -> ProtocolError:
        """Return the error of a response that is not of the protocol."""
        kind = read_content_type(response) or "without a content type"
        return ProtocolError(
            f"does not speak {self.wire.NAME}; what came ({kind}) is no answer; check the base URL,"
            " the wire, and what stands between, such as a proxy or a login page",
            code="wrong_protocol",
            place=request.address,
        )


def append_advice(error: StenoError, advice: str) -> None:
    """Add advice to the message of an error."""
    error.message = f"{error.message}; {advice}"
    error.args = (f"{error.place}: {error.message}" if error.place else error.message,)


def read_content_type(response: HttpResponse) -> str:
    """Return the content type of a response, without parameters; empty where there is none."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if _CONTENT_TYPE.fullmatch(kind) else ""


def is_html(first: bytes) -> bool:
    """Return whether a body begins like HTML, whatever its content type."""
    return first.removeprefix(BOM).lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


def is_cut_off(body: bytes) -> bool:
    """Return whether a body may have been cut off before its first event.

    It holds half an event, or comments, which keep a connection alive: any stream may begin so.
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
    """Return whether JSON is valid up to its end, and incomplete."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        return "truncated" in str(exc)  # msgspec has no other sign of it
    except (UnicodeError, RecursionError):
        pass
    return False


def _build_redirect_error(response: HttpResponse, request: HttpRequest) -> ProviderError:
    try:
        target = strip_url_secrets(urljoin(request.url, response.headers.get("location", "")))
    except ValueError:  # the location is no address
        target = None
    if target is None or target == request.address:
        what, advice = "it redirects", "check the base URL"
    elif request.url.startswith("https:") and target.startswith("http:"):
        what = f"it redirects to {target}, where the key would travel unencrypted"
        advice = "check the base URL, or have the server stay with https"
    else:
        what = f"it redirects to {target}"
        advice = "if that is the right address, pass its beginning as the base URL"
    rule = f"{what}; redirects are not followed, as a key is for one host only"
    return ProviderError(
        f"{rule}; {advice}", status=response.status, code="redirected", place=request.address
    )
