"""An HTTP proxy through which the commands in a sandbox reach approved domains, and nothing else.

A sandbox has a network of its own, without a way out. The listening socket of the proxy is created
inside that network and handed to steno, so the proxy accepts connections from the sandbox and opens
those to the servers from the network of the user:

    command ─► loopback of the sandbox ─► NetworkProxy ─► rules, lookup, address ─► server

Every request is decided by `DomainRules`. The proxy looks up the name, checks the addresses, and
connects to one of those that it has checked. In a tunnel, the TLS messages of the client must name
the approved server. What the proxy refuses is recorded, so that the user can approve it.

Clients are hostile: everything that a connection may use is limited, and an error in one connection
ends only that connection. The proxy parses no more than the first messages of a connection, and it
decrypts nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias, final

from steno.errors import InvalidValue
from steno.lazy_task import start_task
from steno.ports import AccessKind, SandboxAccess
from steno.public_address import is_public_address
from steno.tools.shell.domain_rules import (
    TLS_PORT,
    DomainRules,
    RefusalReason,
    can_be_allowed,
    format_host_and_port,
    format_target,
    is_ip_address,
    is_loopback_name,
)
from steno.tools.shell.proxy_request import (
    HEAD_END,
    LAST_CHUNK,
    BadRequest,
    BadResponse,
    ProxyRequest,
    build_connect,
    build_request,
    parse_chunk_size,
    parse_request,
    parse_status,
    rewrite_response_head,
)
from steno.tools.shell.tls_client_hello import ACCESS_DENIED_ALERT, ClientHelloCheck, HelloRefused

OTHER_TARGETS: Final = "*"
"""The target of the last `ContactedServer`, which sums up those that are too many to list."""

_CHUNK_BYTES: Final = 65_536
_MAX_LISTED: Final = 100
"""The number of refusals and of blocked accesses that are recorded."""
_MAX_CONTACTED: Final = 1_000
_MAX_ADDRESSES: Final = 8
_MAX_INTERIM_RESPONSES: Final = 16
_LOOKUP_THREADS: Final = 4
_CLOSE_TIMEOUT_S: Final = 5.0
_MAX_DISCARDED_BYTES: Final = 1_048_576
_ACCEPT_RETRY_S: Final = 0.5
_LOOPBACK_NAMES: Final = "localhost,127.0.0.1,::1,0.0.0.0"

_CONNECTION_ERRORS: Final = (OSError, EOFError, asyncio.LimitOverrunError)
"""The errors of a connection that fails or ends early; a timeout is an OSError."""
_REFUSAL_TEXTS: Final = {
    RefusalReason.NOT_ALLOWED: "no rule allows it",
    RefusalReason.DENIED: "a rule denies it",
    RefusalReason.PRIVATE_ADDRESS: "its address is not public",
    RefusalReason.LIMIT: "this command has used up its connections or bytes",
}

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ResolveHost: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host name; none if the name is unknown."""
OpenConnection: TypeAlias = Callable[[str, int], Awaitable[_Streams]]
"""Connects to an IP address and port. Raises OSError."""


class NetworkLimits(NamedTuple):
    """The limits of a proxy; connections beyond `max_connections` wait."""

    max_connections: int = 64
    max_total_connections: int = 100_000
    max_total_bytes: int = 100_000_000_000
    max_head_bytes: int = 65_536
    head_timeout_s: float = 30.0
    """The time for the head of a request, and for the first TLS message in a tunnel."""
    lookup_timeout_s: float = 15.0
    connect_timeout_s: float = 10.0
    """The time for one address of a server."""
    idle_timeout_s: float = 600.0
    """The time without any byte in either direction, after which a connection is closed."""


DEFAULT_NETWORK_LIMITS: Final = NetworkLimits()


class UpstreamProxy(NamedTuple):
    """The user's own HTTP proxy, for machines that reach the internet only through one."""

    host: str
    port: int
    authorization: str | None = None
    """The value of the `Proxy-Authorization` field, such as `Basic …`."""
    uses_tls: bool = False

    def __repr__(self) -> str:
        return f"UpstreamProxy({format_host_and_port(self.host, self.port)})"


FindUpstream: TypeAlias = Callable[[str], UpstreamProxy | None]
"""Returns the user's proxy for a URL such as `https://pypi.org:443`; None to connect directly.

Raises InvalidValue if the address of the proxy is invalid.
"""


class Refusal(NamedTuple):
    """A connection that the proxy refused, and the reason."""

    reason: RefusalReason
    target: str
    """The host, with the port if it is not 80 or 443."""


@final
class ContactedServer:
    """An approved target, and how much a command has exchanged with it."""

    __slots__ = ("connections", "received_bytes", "sent_bytes", "target")

    def __init__(self, target: str) -> None:
        self.target: Final = target
        """The host, with the port if it is not 80 or 443."""
        self.connections = 0
        self.sent_bytes = 0
        self.received_bytes = 0

    def __repr__(self) -> str:
        return (
            f"ContactedServer({self.target}, connections={self.connections}, "
            f"sent_bytes={self.sent_bytes}, received_bytes={self.received_bytes})"
        )


def proxy_environment(port: int) -> dict[str, str]:
    """Return the environment variables that make programs use the proxy at a port of loopback.

    Names of loopback are excepted, so that the servers in the sandbox stay reachable. Java reads
    none of these variables.
    """
    url = f"http://127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        **dict.fromkeys(names, url),
        "no_proxy": _LOOPBACK_NAMES,
        "NO_PROXY": _LOOPBACK_NAMES,
        "NODE_USE_ENV_PROXY": "1",  # Node.js ignores the other variables without this one
        "CARGO_HTTP_PROXY": url,  # it precedes the proxy in the settings of cargo and git
        # Yarn 2 and newer read only these, and refuse unknown ones such as YARN_NO_PROXY.
        "YARN_HTTP_PROXY": url,
        "YARN_HTTPS_PROXY": url,
    }


@final
class NetworkProxy:
    """Serves the connections of one command; `async with` starts and closes it."""

    def __init__(
        self,
        listener: socket.socket,
        rules: DomainRules,
        *,
        limits: NetworkLimits = DEFAULT_NETWORK_LIMITS,
        find_upstream: FindUpstream | None = None,
        resolve_host: ResolveHost | None = None,
        open_connection: OpenConnection | None = None,
    ) -> None:
        """Take a listening stream socket, which the proxy closes in the end.

        With `find_upstream`, the user's proxy looks up the names, so their addresses are not
        checked. `resolve_host` and `open_connection` replace the lookup and the connection.
        """
        listener.setblocking(False)
        self._listener = listener
        self.rules = rules
        """The rules for requests from now on; they can be replaced."""
        self._limits = limits
        self._find_upstream = find_upstream
        self._resolve_host = resolve_host or self._look_up
        self._open_connection = open_connection or partial(
            asyncio.open_connection, limit=limits.max_head_bytes
        )
        self._lookup_threads: ThreadPoolExecutor | None = None
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._total_connections = 0
        self._total_bytes = 0
        self._refusals: dict[Refusal, None] = {}
        self._blocked: dict[SandboxAccess, None] = {}
        self._contacted: dict[str, ContactedServer] = {}

    @property
    def blocked(self) -> tuple[SandboxAccess, ...]:
        """The accesses that were refused and that a rule could allow, each once, in order."""
        return tuple(self._blocked)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Everything that was refused, each once, in order."""
        return tuple(self._refusals)

    @property
    def contacted(self) -> tuple[ContactedServer, ...]:
        """The servers that were contacted, in order."""
        return tuple(self._contacted.values())

    # -- start and end ---------------------------------------------------------------------------

    def start(self) -> None:
        """Accept connections from now on, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._update_accepting()

    async def aclose(self) -> None:
        """Close the socket and all connections. The records remain."""
        self._is_closed = True
        self._update_accepting()
        if self._retry is not None:
            self._retry.cancel()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        if self._lookup_threads is not None:
            self._lookup_threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _update_accepting(self) -> None:
        """Accept connections if there is room for one more."""
        if self._loop is None or self._listener.fileno() < 0:
            return
        if self._is_closed or len(self._connections) >= self._limits.max_connections:
            self._loop.remove_reader(self._listener)
        else:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        assert self._loop is not None
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no file descriptors are left, for example
            self._loop.remove_reader(self._listener)
            self._retry = self._loop.call_later(_ACCEPT_RETRY_S, self._update_accepting)
            return
        connection.setblocking(False)
        task = start_task(self._serve(connection), name="steno network proxy")
        self._connections[task] = connection
        task.add_done_callback(self._forget)
        self._update_accepting()

    def _forget(self, task: asyncio.Task[None]) -> None:
        # A task that was cancelled before its first step has not closed its socket.
        self._connections.pop(task).close()
        self._update_accepting()

    # -- one connection --------------------------------------------------------------------------

    async def _serve(self, connection: socket.socket) -> None:
        limit = self._limits.max_head_bytes
        with suppress(*_CONNECTION_ERRORS):
            client = _Peer(*await asyncio.open_connection(sock=connection, limit=limit))
            try:
                await self._answer(client)
                await client.finish()
            finally:
                client.abort()

    async def _answer(self, client: _Peer) -> None:
        """Serve the request of a client, or refuse it with a status and a text."""
        try:
            request = await self._read_request(client)
            await self._exchange(request, client, await self._connect_for(request))
        except _RequestRefused as refused:
            await client.send(refused.response())

    async def _exchange(self, request: ProxyRequest, client: _Peer, server: _Peer) -> None:
        """Pass on a request and its response, or the bytes of a tunnel."""
        usage = self._record_contact(request)
        try:
            async with asyncio.timeout(self._limits.idle_timeout_s) as idle:
                exchange = _Exchange(client, server, usage, partial(self._count_bytes, idle))
                if request.is_tunnel:
                    await self._tunnel(request, exchange)
                else:
                    await _forward(request, exchange)
        finally:
            server.abort()

    async def _read_request(self, client: _Peer) -> ProxyRequest:
        self._total_connections += 1
        try:
            async with asyncio.timeout(self._limits.head_timeout_s):
                return parse_request(await client.reader.readuntil(HEAD_END))
        except BadRequest as exc:
            raise _RequestRefused(400, "Bad Request", str(exc)) from exc
        except asyncio.LimitOverrunError as exc:
            text = f"the head of the request exceeds {self._limits.max_head_bytes} bytes"
            raise _RequestRefused(431, "Request Header Fields Too Large", text) from exc
        except TimeoutError as exc:
            raise _RequestRefused(408, "Request Timeout", "the request is incomplete") from exc

    async def _connect_for(self, request: ProxyRequest) -> _Peer:
        """Connect to the server of a request, if it is allowed. Raises _RequestRefused."""
        host, port = request.host, request.port
        if not self._has_budget():
            raise self._refuse(request, RefusalReason.LIMIT)
        if self.rules.is_denied(host, port):
            raise self._refuse(request, RefusalReason.DENIED)
        if not self.rules.is_allowed(host, port):
            # A rule for this machine must name the port, because the address is private.
            target = format_host_and_port(host, port) if is_loopback_name(host) else None
            raise self._refuse(request, RefusalReason.NOT_ALLOWED, target or _target_of(request))
        upstream = self._upstream_for(request)
        if upstream is None:
            return await self._open_server(request, await self._find_addresses(request))
        if is_ip_address(host):
            await self._find_addresses(request)
        try:
            return await self._open_upstream(request, upstream)
        except (*_CONNECTION_ERRORS, BadResponse) as exc:
            text = "the user's own proxy did not open the connection"
            raise _RequestRefused(502, "Bad Gateway", text) from exc

    def _has_budget(self) -> bool:
        return (
            self._total_connections <= self._limits.max_total_connections
            and self._total_bytes < self._limits.max_total_bytes
        )

    def _upstream_for(self, request: ProxyRequest) -> UpstreamProxy | None:
        if self._find_upstream is None or is_loopback_name(request.host):
            return None
        scheme = "https" if request.is_tunnel else "http"
        url = f"{scheme}://{format_host_and_port(request.host, request.port)}"
        try:
            return self._find_upstream(url)
        except InvalidValue as exc:
            text = "the address of the user's own proxy is invalid"
            raise _RequestRefused(502, "Bad Gateway", text) from exc

    async def _find_addresses(self, request: ProxyRequest) -> Sequence[str]:
        """Return the addresses of the host, all of which are allowed. Raises _RequestRefused."""
        host, port = request.host, request.port
        if is_ip_address(host):
            addresses: Sequence[str] = (host,)
        else:
            try:
                async with asyncio.timeout(self._limits.lookup_timeout_s):
                    addresses = await self._resolve_host(host)
            except TimeoutError:
                addresses = ()
        if not addresses:
            raise _RequestRefused(502, "Unknown Host", f"the address of {host} is unknown")
        # One private address is enough to refuse all: the name is not what the user approved.
        for address in addresses:
            if is_public_address(address) or self.rules.allows_address(host, port, address):
                continue
            is_fixable = can_be_allowed(host, address)
            target = format_host_and_port(host, port) if is_fixable else None
            raise self._refuse(request, RefusalReason.PRIVATE_ADDRESS, target)
        return addresses[:_MAX_ADDRESSES]

    async def _look_up(self, host: str) -> Sequence[str]:
        """Return the addresses of a host. Threads of its own keep slow lookups from other work."""
        if self._lookup_threads is None:
            self._lookup_threads = ThreadPoolExecutor(_LOOKUP_THREADS, "steno network proxy")
        lookup = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._lookup_threads, lookup)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    async def _open_server(self, request: ProxyRequest, addresses: Sequence[str]) -> _Peer:
        for address in addresses:
            with suppress(OSError):  # among them TimeoutError
                async with asyncio.timeout(self._limits.connect_timeout_s):
                    return _Peer(*await self._open_connection(address, request.port))
        text = f"{_target_of(request)} does not accept the connection"
        raise _RequestRefused(502, "Bad Gateway", text)

    async def _open_upstream(self, request: ProxyRequest, upstream: UpstreamProxy) -> _Peer:
        """Connect to the user's proxy; for a tunnel, also open the tunnel through it."""
        async with asyncio.timeout(self._limits.head_timeout_s):
            streams = await asyncio.open_connection(
                upstream.host,
                upstream.port,
                limit=self._limits.max_head_bytes,
                ssl=ssl.create_default_context() if upstream.uses_tls else None,
            )
            server = _Peer(*streams, upstream=upstream)
            if not request.is_tunnel:
                return server
            try:
                await server.send(build_connect(request.host, request.port, upstream.authorization))
                status = parse_status(await server.reader.readuntil(HEAD_END))
                if not 200 <= status < 300:
                    raise BadResponse
            except BaseException:
                server.abort()
                raise
            return server

    async def _tunnel(self, request: ProxyRequest, exchange: _Exchange) -> None:
        """Pass bytes on in both directions until the server has closed the connection."""
        host, port = request.host, request.port
        check = ClientHelloCheck(
            host,
            requires_tls=not self.rules.allows_any_protocol(host, port),
            allows_encrypted_name=self.rules.allows_everything,
        )
        await exchange.client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        timeout_s = self._limits.head_timeout_s if check.requires_tls else None

        async def send_all() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    while not check.has_hello and await exchange.send_checked(check):
                        pass
                while await exchange.send_checked(check):
                    pass
            except HelloRefused as refused:
                self._record_tunnel_refusal(request, refused.reason)
                if refused.reason is not RefusalReason.NOT_TLS:
                    exchange.client.writer.write(ACCESS_DENIED_ALERT)
                exchange.server.abort()
            except _CONNECTION_ERRORS:
                exchange.server.abort()

        await _run_beside(exchange.receive_all(), send_all())

    # -- records ---------------------------------------------------------------------------------

    def _refuse(
        self, request: ProxyRequest, reason: RefusalReason, approvable: str | None = None
    ) -> _RequestRefused:
        """Record a refusal, and return the error. `approvable` is the target that a rule can name."""
        self._record_refusal(request, reason)
        target = _target_of(request)
        text = f"The sandbox of steno blocked the connection to {target}: {_REFUSAL_TEXTS[reason]}."
        if approvable is not None:
            self._record_blocked(approvable)
            text += f" The user can approve it with the rule network({approvable})."
        # Several programs show only the status line.
        return _RequestRefused(403, f"{target} blocked by the sandbox of steno", text)

    def _record_refusal(self, request: ProxyRequest, reason: RefusalReason) -> None:
        if len(self._refusals) < _MAX_LISTED:
            self._refusals[Refusal(reason, _target_of(request))] = None

    def _record_tunnel_refusal(self, request: ProxyRequest, reason: RefusalReason) -> None:
        self._record_refusal(request, reason)
        if reason is RefusalReason.NOT_TLS and request.port != TLS_PORT:
            self._record_blocked(format_host_and_port(request.host, request.port))

    def _record_blocked(self, target: str) -> None:
        if len(self._blocked) < _MAX_LISTED:
            self._blocked[SandboxAccess(AccessKind.NETWORK, target)] = None

    def _record_contact(self, request: ProxyRequest) -> ContactedServer:
        target = _target_of(request)
        if target not in self._contacted and len(self._contacted) >= _MAX_CONTACTED:
            target = OTHER_TARGETS
        server = self._contacted.setdefault(target, ContactedServer(target))
        server.connections += 1
        return server

    def _count_bytes(self, idle: asyncio.Timeout, size: int) -> None:
        """Count bytes that a connection has passed on, and extend its time."""
        self._total_bytes += size
        if self._total_bytes > self._limits.max_total_bytes:
            raise ConnectionAbortedError
        if not idle.expired():
            idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_timeout_s)


class _RequestRefused(Exception):
    """A request that is answered with an error of the proxy."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self._status_line = f"HTTP/1.1 {status} {reason}"
        self._text = text

    def response(self) -> bytes:
        body = f"{self._text}\n".encode()
        head = (
            f"{self._status_line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


class _NoResponse(Exception):
    """The server has closed the connection before its response, or sent something else."""


def _target_of(request: ProxyRequest) -> str:
    return format_target(request.host, request.port)


@final
class _Peer:
    """A connection to the client or to a server."""

    __slots__ = ("reader", "upstream", "writer")

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        upstream: UpstreamProxy | None = None,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.upstream = upstream
        """The user's proxy at the other end; None if that is the server itself."""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        """Announce that no more bytes follow; the other direction stays open."""
        if self.writer.can_write_eof():  # a TLS connection cannot
            self.writer.write_eof()

    async def finish(self) -> None:
        """Close the connection after the other end has received everything.

        The system discards what was sent if bytes of the other end are left unread.
        """
        self.end()
        remaining = _MAX_DISCARDED_BYTES
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            while remaining > 0 and (data := await self.reader.read(_CHUNK_BYTES)):
                remaining -= len(data)
            self.writer.close()
            await self.writer.wait_closed()

    def abort(self) -> None:
        self.writer.transport.abort()


class _Exchange(NamedTuple):
    """The two connections of a request, and the counts of their bytes."""

    client: _Peer
    server: _Peer
    usage: ContactedServer
    count_bytes: Callable[[int], None]

    async def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        if data:
            self.usage.sent_bytes += len(data)
            self.count_bytes(len(data))
            await self.server.send(data)

    async def send_checked(self, check: ClientHelloCheck) -> bool:
        """Pass on some bytes of the client; return False at their end. Raises HelloRefused."""
        data = await self.client.reader.read(_CHUNK_BYTES)
        if not data:
            self.server.end()
            return False
        await self.send(check.feed(data))
        return True

    async def receive(self, data: bytes) -> None:
        """Send bytes of the server to the client."""
        self.usage.received_bytes += len(data)
        self.count_bytes(len(data))
        await self.client.send(data)

    async def receive_all(self) -> None:
        """Pass on the bytes of the server until their end."""
        while data := await self.server.reader.read(_CHUNK_BYTES):
            await self.receive(data)


async def _forward(request: ProxyRequest, exchange: _Exchange) -> None:
    """Pass on a plain request and its response. Raises _RequestRefused if there is none."""
    upstream = exchange.server.upstream
    head = build_request(
        request,
        to_proxy=upstream is not None,
        proxy_authorization=None if upstream is None else upstream.authorization,
    )
    await exchange.send(head)
    problems: list[BadRequest] = []

    async def send_body() -> None:
        try:
            await _send_body(request, exchange)
        except BadRequest as exc:
            problems.append(exc)
            exchange.server.abort()
        except (EOFError, asyncio.LimitOverrunError):
            exchange.server.abort()
        except OSError:
            pass  # a server may answer and close the connection before it has read the body

    try:
        await _run_beside(_receive_response(exchange), send_body())
    except _NoResponse as exc:
        if problems:
            raise _RequestRefused(400, "Bad Request", str(problems[0])) from exc
        text = f"{_target_of(request)} sent no valid response"
        raise _RequestRefused(502, "Bad Gateway", text) from exc


async def _send_body(request: ProxyRequest, exchange: _Exchange) -> None:
    """Send the body of a request. Raises BadRequest, and EOFError if it is incomplete."""
    if not request.is_chunked:
        await _send_exactly(exchange, request.body_bytes or 0)
        return
    reader = exchange.client.reader
    while size := parse_chunk_size(await reader.readuntil(b"\r\n")):
        await exchange.send(b"%x\r\n" % size)
        await _send_exactly(exchange, size)
        if await reader.readexactly(2) != b"\r\n":
            raise BadRequest("a chunk is larger than its size")
        await exchange.send(b"\r\n")
    # Trailers are not passed on, because servers may confuse them with header fields.
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        exchange.count_bytes(len(line))
    await exchange.send(LAST_CHUNK)


async def _send_exactly(exchange: _Exchange, size: int) -> None:
    while size:
        data = await exchange.client.reader.read(min(size, _CHUNK_BYTES))
        if not data:
            raise EOFError
        size -= len(data)
        await exchange.send(data)


async def _receive_response(exchange: _Exchange) -> None:
    """Pass on a response. Raises _NoResponse if its head does not arrive."""
    for _ in range(_MAX_INTERIM_RESPONSES):
        try:
            head = rewrite_response_head(await exchange.server.reader.readuntil(HEAD_END))
        except (*_CONNECTION_ERRORS, BadResponse) as exc:
            raise _NoResponse from exc
        await exchange.receive(head.data)
        if head.is_final:
            await exchange.receive_all()
            return
    raise _NoResponse


async def _run_beside(main: Coroutine[Any, Any, None], side: Coroutine[Any, Any, None]) -> None:
    """Run two coroutines at once until the first one ends, and cancel the second one."""
    task = start_task(side)
    try:
        await main
    finally:
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome
