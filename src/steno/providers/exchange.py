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

import msgspec

from steno.content import Opaque
from steno.errors import CutShort, ProtocolError, StenoError, Unreachable
from steno.event import BlockAdded, Event, Finished
from steno.message import AssistantMessage
from steno.ports import Answer, Outgoing
from steno.providers.fault import BOM, Party, add, is_document, is_half_said, is_page
from steno.providers.retry import Retries
from steno.retell import tell
from steno.usage import StopReason, Usage
from steno.wire import StreamDecoder, Wire
from steno.wire.stream import cut_short

T = TypeVar("T")

_log = logging.getLogger("steno.providers")

_MOST_HEARD: Final = 64 * 1024
"""So much of a body tells whose it is."""
_LINES_TO_BLANKS: Final = bytes.maketrans(b"\r\n", b"  ")


class Conduct(NamedTuple):
    """How to behave towards servers: what a test replaces."""

    open: Callable[[Outgoing], Awaitable[Answer]]
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
                        add(exc, f"{whom} was asked {tried + 1} times")
                    raise
                # The kind and no more: what a provider says may echo what it was asked.
                _log.info("%s: %s, again in %.1f s", whom, type(exc).__name__, wait_s)
            await self.sleep(wait_s)
        raise AssertionError("count has no end")


class Reading(NamedTuple):
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
        line = self.whole_event % body.translate(_LINES_TO_BLANKS)
        decoder = self.new_decoder()
        decoder.feed(b"data: " + line + b"\n\n")
        return decoder


@final
class Exchange:
    """The source of events of one answer."""

    def __init__(
        self,
        outgoing: Outgoing,
        reading: Reading,
        *,
        conduct: Conduct,
        party: Party,
    ) -> None:
        """Take what to send and how to read the answer; nothing is sent yet."""
        self._request = outgoing
        self._options = reading
        self._policy = conduct
        self._error_source = party
        self._response: Answer | None = None
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

    async def _read_first(self, answer: Answer) -> Iterator[Event]:
        if not 200 <= answer.status < 300:
            raise await self._error_source.read_error(answer, self._request)
        first = await answer.read()
        if is_page(first):
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

    async def _read_first_event(self, answer: Answer, first: bytes) -> Iterator[Event]:
        if self._options.whole_event is not None and _is_json(first):
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
                if is_ours or not _is_unknown(event):
                    return chain(held, events)
            if self._is_at_end:
                return iter(held)
            piece = await answer.read()
            if len(self._sniffed) < _MOST_HEARD:
                self._sniffed += piece[:_MOST_HEARD]
            events = self._decode(piece)

    def _is_other_protocol(self, answer: Answer, error: ProtocolError) -> bool:
        """Tell whether all that came before an error was said in another protocol, or in none."""
        if isinstance(error, CutShort) and is_half_said(self._sniffed):
            return False
        return is_document(answer) or not self._options.may_match(self._sniffed)

    async def _read_more(self, answer: Answer) -> Iterator[Event] | None:
        return None if self._is_at_end else self._decode(await answer.read())

    def _decode(self, piece: bytes) -> Iterator[Event]:
        assert self._decoder is not None
        if piece:
            return self._decoder.feed(piece)
        self._is_at_end = True
        return self._decoder.close()

    # -- answers that are no stream ----------------------------------------------------------

    async def _read_whole(self, answer: Answer, first: bytes) -> Iterator[Event]:
        pieces = [first]
        while pieces[-1]:
            pieces.append(await answer.read())
        self._is_at_end = True
        body = b"".join(pieces)
        self._sniffed = body[:_MOST_HEARD]
        try:
            message = self._options.decode_whole(body)
        except ProtocolError:
            if is_half_said(body):
                raise cut_short() from None
            raise
        self._decoder = self._options.decode_as_stream(body)
        return tell(message)


async def fetch(conduct: Conduct, outgoing: Outgoing, party: Party) -> Any:
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


def _is_unknown(event: Event) -> bool:
    """Tell whether an event is kept because nobody knows what it means."""
    return isinstance(event, BlockAdded) and isinstance(event.block, Opaque)


def _is_json(first: bytes) -> bool:
    """Tell whether a whole answer came where events were asked for, whatever it calls itself."""
    return first.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
