"""The driver of streams: turns a source of events into a stream that the caller iterates.

This module knows no protocol and no network. A server, a script or a recording implements `Source`;
`SourceStream` adds the assembly of the message, the partial message after an error, and an
end after which no more events follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Protocol, Self

from steno.assemble import Assembler, WireEvent
from steno.errors import InvalidRequest, StenoError
from steno.messages.event import Event, Finished
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.messages.usage import StopReason, Usage

_CLOSE_TIMEOUT_S: Final = 0.5
"""The time to wait for the end of the body after the response is complete."""


class Source(Protocol):
    """The source of the events of one response."""

    async def read(self) -> Iterable[WireEvent] | None:
        """Return more events, which may be an empty iterable; None at the end.

        Raises StenoError if the response fails.
        """
        ...

    def redact(self, error: Exception) -> None:
        """Remove secrets from an error."""
        ...

    def close(self) -> None:
        """Close the connection. A waiting `read` ends at once, with or without an error."""
        ...


def check_request(request: object) -> None:
    """Raise InvalidRequest if a value is not a Request."""
    if not isinstance(request, Request):
        kind = type(request).__name__
        raise InvalidRequest(
            f"needs a Request(messages=(…,)), not {kind}", place="stream", code="wrong_type"
        )


class SourceStream:
    """A stream (`steno.ports.Stream`) that reads its events from a source."""

    def __init__(self, source: Source) -> None:
        """Create the stream; nothing is read from the source yet."""
        self._source = source
        self._assembler = Assembler()
        self._events: Iterator[Event] = iter(())
        self._has_begun = False
        self._has_finished = False
        """Whether the response is complete, so that a connection error no longer matters."""
        self._is_waiting = False
        self._is_over = False
        self._stop_reason: StopReason | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._is_waiting:
            raise StenoError(
                "another task is already reading the stream", place="stream", code="stream_busy"
            )
        self._has_begun = True
        try:
            while not self._is_over:
                event = next(self._events, None)
                if event is not None:
                    # After a Finished with an error, the source raises the error itself.
                    if type(event) is Finished and event.stop_reason is not StopReason.ERROR:
                        self._has_finished = True
                    return event
                await self._read_more()
        except Exception as exc:
            if self._is_over or self._has_finished:
                self._end(None)
            else:
                self._end(StopReason.ERROR)
                self._source.redact(exc)
                raise
        except BaseException:
            self._end(StopReason.ABORTED)  # the reading task was cancelled
            raise
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def collect(self) -> AssistantMessage:
        """Read to the end and return the message."""
        async for _ in self:
            pass
        return self.message()

    def message(self) -> AssistantMessage:
        """Return the message so far. Raises StenoError (`stream_unread`) before the first event."""
        if not self._has_begun:
            raise StenoError(
                "no event was read yet; iterate over the stream first",
                place="stream",
                code="stream_unread",
            )
        return self._assembler.message(self._stop_reason, usage=self._usage_so_far)

    @property
    def _usage_so_far(self) -> Usage | None:
        """The usage before the end of the response; None if the source does not report it."""
        return None

    def close(self) -> None:
        """Close the connection; a waiting read in another task ends at once."""
        if not self._is_over:
            self._end(StopReason.ABORTED)

    async def _read_more(self) -> None:
        self._is_waiting = True
        try:
            if self._has_finished:
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    events = await self._source.read()
            else:
                events = await self._source.read()
        finally:
            self._is_waiting = False
        if events is None:
            self._end(None)
        else:
            self._events = chain.from_iterable(map(self._assembler.feed, events))

    def _end(self, stop_reason: StopReason | None) -> None:
        self._is_over = True
        if not self._has_finished and self._stop_reason is None:
            self._stop_reason = stop_reason
        self._source.close()
