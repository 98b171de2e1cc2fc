"""One exchange with a server: send, read, and send again as long as nothing was told.

The first event that reaches the caller is the border: before it a failed try leaves no trace but
time, after it a fault is the caller's to see.
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

from steno.assemble import events_from_message
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
from steno.messages.event import BlockAdded, Event, Finished
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.ports import HttpRequest, HttpResponse, strip_url_secrets
from steno.providers.api_key import ApiKey
from steno.providers.retry import Retries
from steno.providers.vendor import Vendor
from steno.wire import StreamDecoder, Wire
from steno.wire.response_decoder import build_cut_short

# -- fault -----------------------------------------------------------------------------------------
#
# What is wrong with an answer, said so that somebody can set it right: where we asked, what came.
#
# The wire reads what a server says about its errors. What only we know is added here: the address,
# the variable that holds the key, and that an answer is none at all; and how long we are asked to
# wait, which stands in a header.


MAX_ERROR_BYTES: Final = 1024 * 1024
"""What is read of an answer that is an error; the rest explains nothing."""


BOM: Final = b"\xef\xbb\xbf"


_CONTENT_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)


_DOCUMENT_TYPE: Final = re.compile(r"text/(?:html|plain)|.+[/+](?:json|xml)")


_STREAM_PREFIXES: Final = (b"data:", b"event:", b"id:", b"retry:", b"{", b"[")
"""How streams begin, in any protocol."""


_EMPTY_EVENTS: Final = re.compile(
    rb"\A(?:\s|(?:(?:retry|id|event)?:|data:(?=[ \t]*[\r\n]))[^\r\n]*(?=[\r\n]|\Z))*"
)
"""Comments, and events of which only a number or a name came."""


_search_event_end: Final = re.compile(rb"\r?\n\r?\n").search


class ErrorSource(NamedTuple):
    """Whom we speak with, as far as errors have to tell it."""

    vendor: Vendor
    wire: Wire
    key: ApiKey

    async def read_error(self, answer: HttpResponse, outgoing: HttpRequest) -> ProviderError:
        """Make an error of an answer that is one, from as much of its body as there is."""
        if 300 <= answer.status < 400:
            return _build_redirect_error(answer, outgoing)
        pieces: list[bytes] = []
        left = MAX_ERROR_BYTES
        try:
            while left > 0 and (piece := await answer.read()):
                pieces.append(piece)
                left -= len(piece)
        except Unreachable:
            pass  # the status says more than the fact that its explanation broke off
        error = self.wire.decode_error(answer.status, b"".join(pieces), answer.headers)
        self._add_advice(error, outgoing)
        return error

    def add_vendor_hint(self, error: Unreachable) -> None:
        """Say what to do where nobody answers at all, if that is known of this vendor."""
        if self.vendor.hint:
            append_advice(error, self.vendor.hint)

    def build_protocol_error(self, answer: HttpResponse, outgoing: HttpRequest) -> ProtocolError:
        """Make the error of an answer that is neither a stream nor anything else of the protocol."""
        return ProtocolError(
            f"{outgoing.address}: does not speak {self.wire.NAME}; what came"
            f" ({read_content_type(answer) or 'without a content type'}) is no answer; check the base URL,"
            " the wire, and what stands between, such as a proxy or a login page"
        )

    def _add_advice(self, error: ProviderError, outgoing: HttpRequest) -> None:
        if error.retry_after_s:
            append_advice(error, f"it asks to wait {error.retry_after_s:.10g} s")
        match error:
            case NotFound() | ProviderError(status=405):
                append_advice(error, f"asked {outgoing.address}, check the base URL and the model")
            case AuthenticationFailed():
                is_sent = bool(self.vendor.auth.header(self.key.reveal()))
                state = "check the key" if is_sent else "no key was sent"
                append_advice(error, f"{state}: {self.vendor.key_advice}")
            case _:
                pass


def append_advice(error: StenoError, advice: str) -> None:
    """Say more in an error."""
    error.message = f"{error.message}; {advice}"
    error.args = (f"{error.place}: {error.message}" if error.place else error.message,)


def read_content_type(answer: HttpResponse) -> str:
    """Return the content type of an answer, without parameters; empty where there is none."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if _CONTENT_TYPE.fullmatch(kind) else ""


def is_html(first: bytes) -> bool:
    """Tell whether a body begins like HTML, whatever it calls itself."""
    return first.removeprefix(BOM).lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))


def is_cut_off(heard: bytes) -> bool:
    """Tell whether a body may have been cut before it said anything.

    It holds half an event, or comments, which keep a connection alive: so may any stream begin.
    """
    said = _EMPTY_EVENTS.sub(b"", heard.removeprefix(BOM), count=1)
    if not said:
        return True
    is_stream = any(said.startswith(start) or start.startswith(said) for start in _STREAM_PREFIXES)
    if not is_stream or _search_event_end(said):
        return False
    return said[:1] not in (b"{", b"[") or (
        _is_truncated_json(said) and _is_truncated_json(said.splitlines()[0])
    )


def _is_truncated_json(text: bytes) -> bool:
    """Tell whether JSON is good as far as it goes."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        return "truncated" in str(exc)
    except (UnicodeError, RecursionError):
        pass
    return False


def is_document(answer: HttpResponse) -> bool:
    """Tell whether an answer calls itself anything but a stream, which could have been cut short."""
    return _DOCUMENT_TYPE.fullmatch(read_content_type(answer)) is not None


def _build_redirect_error(answer: HttpResponse, outgoing: HttpRequest) -> ProviderError:
    try:
        target = strip_url_secrets(urljoin(outgoing.url, answer.headers.get("location", "")))
    except ValueError:  # an address that is none
        target = None
    if target is None or target == outgoing.address:
        what, advice = "it redirects", "check the base URL"
    elif outgoing.url.startswith("https:") and target.startswith("http:"):
        what = f"it redirects to {target}, where the key would travel unencrypted"
        advice = "check the base URL, or have the server stay with https"
    else:
        what = f"it redirects to {target}"
        advice = "if that is the right address, pass its beginning as the base URL"
    rule = f"{outgoing.address}: {what}; redirects are not followed, as a key is for one host only"
    return ProviderError(f"{rule}; {advice}", status=answer.status)


T = TypeVar("T")


_logger = logging.getLogger("steno.providers")


_MAX_SNIFFED_BYTES: Final = 64 * 1024
"""So much of a body tells whose it is."""


_NEWLINES_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


class RequestPolicy(NamedTuple):
    """How to behave towards servers: what a test replaces."""

    open: Callable[[HttpRequest], Awaitable[HttpResponse]]
    retries: Retries
    sleep: Callable[[float], Awaitable[object]]
    jitter: Callable[[], float]
    """A number from 0 to 1, a new one each time."""
    first_event_s: float | None = None
    """From the first byte of the body to the first event; the transport limits all other waits."""

    async def retry(self, attempt: Callable[[], Awaitable[T]], whom: str) -> T:
        """Make an attempt until it succeeds or is of no use. Raises its last StenoError.

        After more than one it says who was asked, and how often.
        """
        for tried in count():
            try:
                return await attempt()
            except StenoError as exc:
                wait_s = self.retries.wait_s(exc, tried, self.jitter())
                if wait_s is None:
                    if tried:
                        append_advice(exc, f"{whom} was asked {tried + 1} times")
                    raise
                # The kind and no more: what a provider says may echo what it was asked.
                _logger.info("%s: %s, again in %.1f s", whom, type(exc).__name__, wait_s)
            await self.sleep(wait_s)
        raise AssertionError("count has no end")


class ReadOptions(NamedTuple):
    """How to read an answer."""

    wire: Wire
    provider: str
    """Whom its seals will be for."""
    model: str | None
    whole_event: bytes | None
    """A whole answer as an event (see `Endpoint`), or None if the decoder of streams takes it."""
    stream_marker: re.Pattern[bytes] | None
    """What a stream of the wire cannot be without, if that is known."""

    def new_decoder(self) -> StreamDecoder:
        """Begin to read a stream."""
        return self.wire.StreamDecoder(provider=self.provider, model=self.model)

    def decode_whole(self, body: bytes) -> AssistantMessage:
        """Read an answer that came at once."""
        return self.wire.decode_response(body, provider=self.provider, model=self.model)

    def may_match(self, heard: bytes) -> bool:
        """Tell whether a body may be one of this wire, by what came of it so far."""
        return self.stream_marker is None or self.stream_marker.search(heard) is not None

    def decode_as_stream(self, body: bytes) -> StreamDecoder:
        """Return a decoder that heard a whole answer as a stream: for its envelope, nothing else."""
        assert self.whole_event is not None
        # In JSON a line ends between two tokens or not at all, and there a blank does as well.
        line = self.whole_event % body.translate(_NEWLINES_TO_SPACES)
        decoder = self.new_decoder()
        decoder.feed(b"data: " + line + b"\n\n")
        return decoder


@final
class HttpExchange:
    """The source of events of one answer."""

    def __init__(
        self,
        outgoing: HttpRequest,
        reading: ReadOptions,
        *,
        conduct: RequestPolicy,
        party: ErrorSource,
    ) -> None:
        """Take what to send and how to read the answer; nothing is sent yet."""
        self._request = outgoing
        self._options = reading
        self._policy = conduct
        self._error_source = party
        self._response: HttpResponse | None = None
        self._decoder: StreamDecoder | None = None
        self._sniffed = b""
        """What a body begins with, up to its first event."""
        self._is_at_end = False
        self._is_closed = False
        self._first_event_timeout: asyncio.Timeout | None = None
        """While the first event is waited for: a deadline, set when somebody closes the stream."""

    @property
    def envelope(self) -> dict[str, Any]:
        """What the provider said about its answer (id, model, ...) beside the message."""
        return {} if self._decoder is None else self._decoder.envelope

    @property
    def usage(self) -> Usage | None:
        """What was counted so far, if the provider tells it before the end."""
        return None if self._decoder is None else self._decoder.usage

    async def read(self) -> Iterable[Event] | None:
        """Return more events; the first time, send the request and wait for the first of them."""
        if self._response is not None:
            return await self._read_more(self._response)
        self._first_event_timeout = beginning = asyncio.timeout(None)
        try:
            async with beginning:
                return await self._policy.retry(self._attempt, self._error_source.vendor.name)
        except TimeoutError:
            if not beginning.expired():
                raise
            return None
        finally:
            self._first_event_timeout = None

    def redact(self, error: Exception) -> None:
        """Hide the key if the server, or anybody, put it into an error."""
        self._error_source.key.redact_error(error)

    def close(self) -> None:
        """Drop the connection, and end a read that waits."""
        self._is_closed = True
        if self._first_event_timeout is not None:
            self._first_event_timeout.reschedule(0)
        elif self._response is not None:
            self._response.close()

    # -- up to the first event ---------------------------------------------------------------

    async def _attempt(self) -> Iterator[Event]:
        self._is_at_end = False
        answer = await self._policy.open(self._request)
        try:
            events = await self._read_first(answer)
        except BaseException:
            answer.close()
            raise
        self._response = answer
        if self._is_closed:
            # Its bytes came in the same turn of the loop as `close`, too late to be cancelled.
            answer.close()
        return events

    async def _read_first(self, answer: HttpResponse) -> Iterator[Event]:
        if not 200 <= answer.status < 300:
            raise await self._error_source.read_error(answer, self._request)
        first = await answer.read()
        if is_html(first):
            raise self._error_source.build_protocol_error(answer, self._request)
        limit_s = self._policy.first_event_s
        patience = asyncio.timeout(limit_s)
        try:
            async with patience:
                return await self._read_first_event(answer, first)
        except TimeoutError:
            if not patience.expired():
                raise
        except ProtocolError as exc:
            if not first or not self._is_other_protocol(answer, exc):
                raise
            raise self._error_source.build_protocol_error(answer, self._request) from exc
        # Not tried again: who waited for so long would wait for so long once more.
        rule = f"no event within {limit_s:g} s, though the connection was kept alive"
        raise Unreachable(f"{self._options.provider}: {rule}", retryable=False)

    async def _read_first_event(self, answer: HttpResponse, first: bytes) -> Iterator[Event]:
        if self._options.whole_event is not None and _starts_like_json(first):
            return await self._read_whole(answer, first)
        self._decoder = self._options.new_decoder()
        self._sniffed = first
        events: Iterator[Event] = self._decode(first)
        held: list[Event] = []
        while True:
            # Once for each piece: a stream of a thousand unknown events is looked at no oftener.
            is_ours = self._options.may_match(self._sniffed)
            for event in events:
                held.append(event)
                if isinstance(event, Finished) and event.stop_reason is StopReason.ERROR:
                    return iter([*held, *events])  # what it was follows, and may be tried again
                if is_ours or not _is_unknown_event(event):
                    return chain(held, events)
            if self._is_at_end:
                return iter(held)
            piece = await answer.read()
            if len(self._sniffed) < _MAX_SNIFFED_BYTES:
                self._sniffed += piece[:_MAX_SNIFFED_BYTES]
            events = self._decode(piece)

    def _is_other_protocol(self, answer: HttpResponse, error: ProtocolError) -> bool:
        """Tell whether all that came before an error was said in another protocol, or in none."""
        if isinstance(error, CutShort) and is_cut_off(self._sniffed):
            return False
        return is_document(answer) or not self._options.may_match(self._sniffed)

    async def _read_more(self, answer: HttpResponse) -> Iterator[Event] | None:
        return None if self._is_at_end else self._decode(await answer.read())

    def _decode(self, piece: bytes) -> Iterator[Event]:
        assert self._decoder is not None
        if piece:
            return self._decoder.feed(piece)
        self._is_at_end = True
        return self._decoder.close()

    # -- answers that are no stream ----------------------------------------------------------

    async def _read_whole(self, answer: HttpResponse, first: bytes) -> Iterator[Event]:
        pieces = [first]
        while pieces[-1]:
            pieces.append(await answer.read())
        self._is_at_end = True
        body = b"".join(pieces)
        self._sniffed = body[:_MAX_SNIFFED_BYTES]
        try:
            message = self._options.decode_whole(body)
        except ProtocolError:
            if is_cut_off(body):
                raise build_cut_short() from None
            raise
        self._decoder = self._options.decode_as_stream(body)
        return events_from_message(message)


async def fetch_json(conduct: RequestPolicy, outgoing: HttpRequest, party: ErrorSource) -> Any:
    """Send a request once and return the JSON that comes back. Raises ProviderError, ProtocolError."""
    answer = await conduct.open(outgoing)
    try:
        if not 200 <= answer.status < 300:
            raise await party.read_error(answer, outgoing)
        pieces: list[bytes] = []
        while piece := await answer.read():
            pieces.append(piece)
    finally:
        answer.close()
    try:
        return msgspec.json.decode(b"".join(pieces))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise party.build_protocol_error(answer, outgoing) from None


def _is_unknown_event(event: Event) -> bool:
    """Tell whether an event is kept because nobody knows what it means."""
    return isinstance(event, BlockAdded) and isinstance(event.block, Opaque)


def _starts_like_json(first: bytes) -> bool:
    """Tell whether a whole answer came where events were asked for, whatever it calls itself."""
    return first.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
