"""Recorded answers instead of a network: for tests, and to run a session again.

A recording is a list of steps: bytes are given out, numbers are waited for, errors are raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias, final

from steno.errors import InvalidValue, StenoError, Unreachable
from steno.ports import HttpRequest
from steno.values import RedactedRepr

ReplayStep: TypeAlias = bytes | float | StenoError
"""A piece of the body; seconds to wait, `math.inf` for a server that fell silent; a fault."""


@final
class RecordedResponse(RedactedRepr, frozen=True):
    """One answer of a server."""

    steps: tuple[ReplayStep, ...]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_http(cls, data: bytes) -> RecordedResponse:
        """Read a whole HTTP response as it came over the wire, chunk by chunk.

        Where a chunked body has no end, the connection is lost again. Raises InvalidValue if the
        data does not begin like an HTTP response.
        """
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        protocol, _, status = first.partition(" ")
        if not protocol.startswith("HTTP/1.") or not status[:3].isdigit():
            raise InvalidValue("recording: must begin with the status line of HTTP")
        fields = [line.partition(":") for line in lines]
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        return cls(
            _split_chunks(body) if is_chunked else (body,),
            status=int(status[:3]),
            content_type=headers.pop("content-type", ""),
            headers=tuple(headers.items()),
        )


@final
class ReplayTransport:
    """Answers requests with recordings, in order; an error in their place is raised instead."""

    def __init__(
        self,
        answers: Iterable[RecordedResponse | StenoError],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Take the answers. `sleep` is how waiting is done; pass one that does not wait."""
        self._answers = iter(answers)
        self._sleep = sleep
        self.sent: list[HttpRequest] = []
        """Every request that was made, keys included."""
        self.opened: list[ReplayedResponse] = []
        """Every answer that was given."""

    async def open(self, outgoing: HttpRequest) -> ReplayedResponse:
        """Give the next answer. Raises Unreachable if none is left."""
        self.sent.append(outgoing)
        recorded = next(self._answers, None)
        if recorded is None:
            raise Unreachable("replay: no recorded answer is left")
        if isinstance(recorded, StenoError):
            raise recorded
        answer = ReplayedResponse(recorded, self._sleep)
        self.opened.append(answer)
        return answer

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@final
class ReplayedResponse:
    """A recording as it is played."""

    def __init__(
        self,
        recorded: RecordedResponse,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.status = recorded.status
        self.headers: Mapping[str, str] = {
            **({"content-type": recorded.content_type} if recorded.content_type else {}),
            **dict(recorded.headers),
        }
        self.is_closed = False
        self._steps = iter(recorded.steps)
        self._sleep = sleep
        self._waiting: asyncio.Timeout | None = None

    async def read(self) -> bytes:
        """Play the next piece."""
        for step in self._steps:
            if self.is_closed:
                break
            if isinstance(step, StenoError):
                raise step
            if isinstance(step, bytes):
                return step
            await self._wait(step)
        if self.is_closed:
            raise Unreachable("replay: closed")
        return b""

    def close(self) -> None:
        """End the answer, and a read that waits."""
        self.is_closed = True
        if self._waiting is not None:
            self._waiting.reschedule(0)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(None) as self._waiting:
                await self._sleep(seconds)
        except TimeoutError:
            if not self.is_closed:
                raise
        finally:
            self._waiting = None


def _split_chunks(body: bytes) -> tuple[ReplayStep, ...]:
    """Take the framing off a chunked body."""
    found: list[ReplayStep] = []
    position = 0
    while (line_end := body.find(b"\r\n", position)) >= 0:
        size = int(body[position:line_end].partition(b";")[0], 16)
        if not size:
            return tuple(found)
        found.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 4 + size
    return *found, Unreachable("replay: the connection was lost", retryable=True)
