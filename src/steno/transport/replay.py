"""A transport that returns recorded responses, for tests and for the replay of a session.

A recorded response is a sequence of steps: bytes to return, seconds to wait, or an error to raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias, final

from steno.errors import InvalidValue, StenoError, Unreachable
from steno.ports import HttpRequest
from steno.values import RedactedRepr

ReplayStep: TypeAlias = bytes | float | StenoError
"""A chunk of the body, a wait in seconds (`math.inf` for a stalled server), or an error."""


@final
class RecordedResponse(RedactedRepr, frozen=True):
    """One recorded HTTP response, with its body as a sequence of steps."""

    steps: tuple[ReplayStep, ...]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_http(cls, data: bytes) -> RecordedResponse:
        """Parse a whole HTTP/1.x response; each chunk of a chunked body becomes one step.

        If the final empty chunk is missing, the replay ends with a `connection_lost` error.
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
    """Returns recorded responses in order, and raises recorded errors."""

    def __init__(
        self,
        responses: Iterable[RecordedResponse | StenoError],
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare to replay `responses`. To skip the waits, pass a `sleep` that returns at once."""
        self._responses = iter(responses)
        self._sleep = sleep
        self.sent: list[HttpRequest] = []
        """Every request that was sent, including its API keys."""
        self.opened: list[ReplayedResponse] = []
        """Every response that was returned."""

    async def open(self, request: HttpRequest) -> ReplayedResponse:
        """Return the next recorded response, or raise the next recorded error.

        Raises Unreachable if no response is left.
        """
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
        """Do nothing, because a replay has no connection to close."""


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
        """Return the next chunk of the body, or b"" after the last step.

        Waits before the chunk are performed, and a recorded error is raised. Raises Unreachable if
        the response is closed.
        """
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
        """Close the response; a pending read fails at once."""
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
    """Return the chunks of a chunked body, followed by an error if the final chunk is missing."""
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
