"""A scripted HTTP server on loopback that responds as badly as a test requires.

Each connection is served until the client closes it; each request gets the next script. Nothing
here sleeps: a stalled response waits until the client closes the connection.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

STALL = "stall"
"""Send no more bytes until the client closes the connection."""
CUT = "cut"
"""Reset the connection."""
HANG_UP = "hang up"
"""Close the connection cleanly."""

Script: TypeAlias = Iterable[bytes | str]


def run(main: Coroutine[Any, Any, T], limit_s: float = 60) -> T:
    """Run a test; one that hangs fails after a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main

    return asyncio.run(limited())


# -- responses -----------------------------------------------------------------------------------


def response_head(status: int = 200, **headers: str) -> bytes:
    """Build the head of a response; underscores in names become hyphens."""
    lines = [f"HTTP/1.1 {status} Whatever"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"
STREAM = response_head(content_type="text/event-stream", transfer_encoding="chunked")


def reply(
    status: int, body: object, content_type: str = "application/json", **headers: str
) -> list[bytes]:
    """Build a whole response; any body but bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    start = response_head(
        status, content_type=content_type, content_length=str(len(data)), **headers
    )
    return [start, data]


def chat_chunks(*texts: str, finish: str | None = "stop") -> list[bytes]:
    """Build chat completion chunks with these texts, and the end of the turn."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts
    ]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events = [f"data: {json.dumps(c)}\n\n".encode() for c in chunks]
    return [*events, b"data: [DONE]\n\n"] if finish is not None else events


def chunked_stream(*texts: str) -> list[bytes]:
    """Build a whole stream as most servers do: an HTTP chunk for each event."""
    return [STREAM, *map(chunk, chat_chunks(*texts)), END]


# -- the server ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """The requests that the server received, and how its connections ended."""

    scripts: list[Script]
    port: int = 0
    scheme: str = "http"
    seen: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a response reaches its STALL."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closes a connection during a response."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while request := await self._read_request(reader, number):
                self.seen.append(request)
                script = self.scripts.pop(0) if self.scripts else reply(500, b"no script left")
                if not await self._play(script, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _read_request(
        self, reader: asyncio.StreamReader, number: int
    ) -> ReceivedRequest | None:
        first = await reader.readline()
        if not first:
            return None
        method, path, _ = first.decode().split()
        headers: dict[str, str] = {}
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return ReceivedRequest(method, path, headers, body, number)

    async def _play(
        self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send a response; return whether the connection can be used again."""
        for step in script:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step == STALL:
                self.stalled.set()
                await reader.read()  # returns when the client closes its side
                self.hung_up.set()
                return False
            elif step == CUT:
                writer.transport.abort()
                return False
            else:
                return False
        return True

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def run_server(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    """Run a server that responds with these scripts, in order."""
    server = Server(list(scripts), scheme="https" if tls else "http")
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
