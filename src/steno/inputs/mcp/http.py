"""A server that is reached by HTTP: the SDK's transport, with bounds around what it reads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from steno.inputs.mcp.sdk import LARGEST_MESSAGE, Sdk
from steno.inputs.mcp.specs import ServerSpec
from steno.inputs.mcp.tail import Tail

_CONNECT_S: Final = 30


@asynccontextmanager
async def http(spec: ServerSpec, *, tail: Tail, sdk: Sdk) -> AsyncGenerator[tuple[Any, Any], None]:
    """Give the streams of messages from a server and to it, while the block lasts.

    The headers go to that origin alone: the SDK follows no redirect that leads elsewhere.
    """
    watching = _bounds(sdk, tail)
    client = sdk.httpx2.AsyncClient(
        headers={**spec.headers, "Accept-Encoding": "identity"},
        timeout=sdk.httpx2.Timeout(_CONNECT_S, read=spec.call_timeout_s),
        follow_redirects=False,
        event_hooks={"response": [watching]},
    )
    async with (
        client,
        sdk.streamable_http_client(
            spec.url, http_client=client, max_sse_event_size=LARGEST_MESSAGE
        ) as streams,
    ):
        yield streams


def _bounds(sdk: Sdk, tail: Tail) -> Any:
    """Return what looks at every answer before its body is read."""
    stream: Any = sdk.httpx2.AsyncByteStream

    # It is loaded late, so nobody knows its type.
    class Bounded(stream):  # type: ignore[misc]
        """A body that ends with an error once it is too large."""

        def __init__(self, body: Any) -> None:
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for chunk in self._body:
                total += len(chunk)
                if total > LARGEST_MESSAGE:
                    tail.add_remark(f"it said more than {LARGEST_MESSAGE >> 20} MB in one message")
                    raise sdk.httpx2.ReadError("the body is too large")
                yield chunk

        async def aclose(self) -> None:
            await self._body.aclose()

    async def watch(response: Any) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            tail.add_remark(f"it answered with status {response.status_code}")
        # What was asked not to be packed could be of any size once unpacked.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise sdk.httpx2.DecodingError("the body is packed")
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith("text/event-stream"):
            response.stream = Bounded(response.stream)

    return watch
