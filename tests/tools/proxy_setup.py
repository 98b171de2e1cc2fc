"""A small internet on loopback, and clients of a proxy that reaches it."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from steno.tools.shell.domain_rules import DomainRules
from steno.tools.shell.network_proxy import NetworkProxy

T = TypeVar("T")
PUBLIC: Final = "93.184.216.34"
OTHER_PUBLIC: Final = "8.8.8.8"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a test within a time limit. No task, file descriptor or unreported error may be left."""
    problems: list[str] = []
    descriptors = count_descriptors()

    def report(context: dict[str, Any]) -> None:
        # In debug mode, asyncio reports clients that leave during the TLS handshake of a server.
        if "incoming connection" not in context["message"]:
            problems.append(repr(context))

    async def limited() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: report(context))
        async with asyncio.timeout(60):
            result = await main
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gc.collect()
        return result

    result = asyncio.run(limited())
    gc.collect()
    assert problems == [], problems
    assert count_descriptors() == descriptors
    return result


def count_descriptors() -> int:
    """Return the number of open file descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


@dataclass
class Internet:
    """The names and servers that the proxy finds."""

    names: dict[str, Sequence[str]] = field(default_factory=dict)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    """The loopback port of each server, by its address and port."""
    lookups: list[str] = field(default_factory=list)
    connections: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, host: str) -> Sequence[str]:
        self.lookups.append(host)
        return self.names.get(host, ())

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connections.append((address, port))
        local = self.ports.get((address, port))
        if local is None:
            raise ConnectionRefusedError
        return await asyncio.open_connection("127.0.0.1", local)


@asynccontextmanager
async def run_server(
    serve: Serve, *, host: str = "127.0.0.1", **options: Any
) -> AsyncGenerator[int]:
    """Run a server on loopback, and yield its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(handle, host, 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@dataclass
class Recorder:
    """A server that records what it receives, and sends one answer after the head of a request."""

    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    received: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(b"")
        number = len(self.received) - 1
        while not self._is_complete(self.received[number]):
            data = await reader.read(65_536)
            if not data:
                return
            self.received[number] += data
        writer.write(self.answer)
        if writer.can_write_eof():
            writer.write_eof()
        else:  # TLS
            writer.close()
        while data := await reader.read(65_536):
            self.received[number] += data

    def _is_complete(self, request: bytes) -> bool:
        head, end, body = request.partition(b"\r\n\r\n")
        if not end:
            return False
        if b"\r\ntransfer-encoding: chunked" in head:
            return body.endswith(b"0\r\n\r\n")
        _, found, rest = head.partition(b"\r\ncontent-length: ")
        return not found or len(body) >= int(rest.partition(b"\r\n")[0])


@dataclass
class Setup:
    """A running proxy, with the internet behind it."""

    proxy: NetworkProxy
    port: int
    internet: Internet

    @property
    def reasons(self) -> list[str]:
        return [f"{refusal.reason} {refusal.target}" for refusal in self.proxy.refusals]

    @property
    def blocked(self) -> list[str]:
        return [access.target for access in self.proxy.blocked]


@asynccontextmanager
async def run_proxy(
    *rules: str, internet: Internet | None = None, deny: Sequence[str] = (), **options: Any
) -> AsyncGenerator[Setup]:
    """Run a proxy on loopback, whose lookups and connections go to `internet`."""
    internet = internet or Internet()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    port = listener.getsockname()[1]
    options = {"resolve_host": internet.resolve, "open_connection": internet.connect, **options}
    async with NetworkProxy(listener, DomainRules.parse(rules, deny), **options) as proxy:
        yield Setup(proxy, port, internet)


@asynccontextmanager
async def connect(port: int) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ask(port: int, data: bytes) -> bytes:
    """Send bytes to the proxy, and return everything that it answers."""
    async with connect(port) as (reader, writer):
        writer.write(data)
        return await reader.read()


def status_of(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def get(url: str, *fields: str, method: str = "GET") -> bytes:
    """Return a request for a URL."""
    host = url.split("/")[2]
    return "\r\n".join([f"{method} {url} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def tunnel(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
