"""A transport that returns recorded responses: for tests, and to replay a session.

A recording is a list of steps: bytes are returned, a number is a wait in seconds, and an error is
raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias, final

from steno.errors import InvalidValue, StenoError, Unreachable
from steno.ports import HttpRequest
from steno.values import RedactedRepr

ReplayStep: TypeAlias = bytes | float | StenoError
"""A chunk of the body; seconds to wait, `math.inf` for a server that stalls; or an error."""


@final
class RecordedResponse(RedactedRepr, frozen=True):
    """One recorded response of a server."""

    steps: tuple[ReplayStep, ...]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_http(cls, data: bytes) -> RecordedResponse:
        """Read the bytes of a whole HTTP response, chunk by chunk.

        If the last chunk of a chunked body is missing, the replay ends with a lost connection.
        Raises InvalidValue if the data does not start with an HTTP status line.
        """
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        protocol, _, status = first.partition(" ")
        if not protocol.startswith("HTTP/1.") or not status[:3].isdigit():
            raise InvalidValue(
                "must begin with an HTTP status line",
                code="invalid_recording",
                place="recording",
            )
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
    """Returns recorded responses, in order; an error among them is raised."""

    def __init__(
        self,
        responses: Iterable[RecordedResponse | StenoError],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Take the responses. To replay them without waits, pass a `sleep` that returns at once."""
        self._responses = iter(responses)
        self._sleep = sleep
        self.sent: list[HttpRequest] = []
        """Every request that was sent, with its keys."""
        self.opened: list[ReplayedResponse] = []
        """Every response that was returned."""

    async def open(self, request: HttpRequest) -> ReplayedResponse:
        """Return the next response. Raises Unreachable if none is left."""
        self.sent.append(request)
        recorded = next(self._responses, None)
        if recorded is None:
            raise Unreachable(
                "no recorded response is left", code="recording_exhausted", place="replay"
            )
        if isinstance(recorded, StenoError):
            raise recorded
        response = ReplayedResponse(recorded, self._sleep)
        self.opened.append(response)
        return response

    async def close(self) -> None:
        """Do nothing: there is no connection."""


@final
class ReplayedResponse:
    """A recorded response that is being replayed."""

    def __init__(
        self,
        recorded: RecordedResponse,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.status: int = recorded.status
        self.headers: Mapping[str, str] = {
            **({"content-type": recorded.content_type} if recorded.content_type else {}),
            **dict(recorded.headers),
        }
        self.is_closed: bool = False
        self._steps = iter(recorded.steps)
        self._sleep = sleep
        self._waiting: asyncio.Timeout | None = None

    async def read(self) -> bytes:
        """Run the steps up to the next chunk and return it; return b"" after the last step."""
        for step in self._steps:
            if self.is_closed:
                break
            if isinstance(step, StenoError):
                raise step
            if isinstance(step, bytes):
                return step
            await self._wait(step)
        if self.is_closed:
            raise Unreachable("the response is closed", code="response_closed", place="replay")
        return b""

    def close(self) -> None:
        """End the response, and a pending read."""
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
    """Return the chunks of a chunked body."""
    found: list[ReplayStep] = []
    position = 0
    while (line_end := body.find(b"\r\n", position)) >= 0:
        size = int(body[position:line_end].partition(b";")[0], 16)
        if not size:
            return tuple(found)
        found.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 4 + size
    lost = Unreachable(
        "the connection was lost", code="connection_lost", place="replay", retryable=True
    )
    return *found, lost
