"""A small HTTP proxy on loopback: forwards plain requests, tunnels the others, resolves no names.

All bytes go to one server on loopback, whatever the host, so tests can use any name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.transport.http_server import reply


@dataclass
class Proxy:
    """The requests that a proxy received."""

    target: int
    refuse_with: int | None = None
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """The first lines of the requests, in order."""
    credentials: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._pass_on(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        first, *lines = head.decode().split("\r\n")
        self.asked.append(first)
        prefix = "proxy-authorization: "
        self.credentials += [x[len(prefix) :] for x in lines if x.lower().startswith(prefix)]
        if self.refuse_with is not None:
            writer.write(b"".join(reply(self.refuse_with, b"no")))
            return
        there, away = await asyncio.open_connection("127.0.0.1", self.target)
        if first.startswith("CONNECT"):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            away.write(head)
        try:
            await asyncio.gather(_copy(reader, away), _copy(there, writer))
        finally:
            away.close()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def run_proxy(target: int, refuse_with: int | None = None) -> AsyncGenerator[Proxy]:
    """Run a proxy in front of a port, or one that refuses everything."""
    proxy = Proxy(target, refuse_with)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.stop()
