"""HTTP transport based on aiohttp, whose types and exceptions are private to this module.

Certificates are always verified and redirects are never followed, so that an API key reaches only
its intended host. There are three time limits: to connect, to receive the first byte of the body,
and between two chunks of the body. The whole response has no time limit, because a model may
generate output for a long time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast, final
from urllib.parse import urlsplit
from weakref import ref

from steno.errors import InvalidValue, MissingExtra, ProtocolError, StenoError, Unreachable
from steno.ports import HttpRequest
from steno.transport.proxy import PROXY_AUTH_REQUIRED, Proxy, check_proxy, proxy_for

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

MAX_HEADER_BYTES: Final = 32 * 1024
"""The maximum size of one line in the head of a response."""
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""The maximum size of a body; a server that sends a larger body is broken or hostile."""


class TimeLimits(NamedTuple):
    """The time limits of one HTTP request, in seconds."""

    connect_s: float = 5
    """The limit for connecting, including DNS, proxy and TLS."""
    first_byte_s: float = 600
    """The limit from the request to the first byte of the body; long prompts take minutes."""
    idle_s: float = 300
    """The limit between two chunks of the body; while a model thinks, servers may send nothing."""


DEFAULT_LIMITS: Final = TimeLimits()


@final
class HttpTransport:
    """Sends requests over HTTP/1.1 and reuses connections.

    `proxy` is the URL of a proxy for all requests. Without it, the proxy variables in `environ`
    apply, by default those of the process. `ca_file` contains certificates to trust in addition to
    those of the system. Use a transport in one event loop at a time, and close it in that loop.
    """

    def __init__(
        self,
        *,
        limits: TimeLimits = DEFAULT_LIMITS,
        proxy: str | None = None,
        environ: Mapping[str, str] | None = None,
        ca_file: str | Path | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        """Check the settings, but open no connection.

        Raises InvalidValue if a setting is invalid.
        """
        if not isinstance(limits, TimeLimits):
            kind = type(limits).__name__
            raise InvalidValue(
                f"must be a TimeLimits, such as TimeLimits(idle_s=60), not {kind}",
                code="invalid_limits",
                place="limits",
            )
        if min(*limits, max_body_bytes) <= 0:
            raise InvalidValue(
                "time limits and max_body_bytes must be above 0",
                code="invalid_limits",
                place="http transport",
            )
        self._limits = limits
        self._proxy = None if proxy is None else check_proxy(proxy)
        self._environ = os.environ if environ is None else environ
        self._tls = True if ca_file is None else _load_certificates(ca_file)
        self._max_body_bytes = max_body_bytes
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HttpTransport(limits={self._limits})"

    def prepare(self) -> None:
        """Load the HTTP client ahead of the first request, because loading takes up to a second.

        Call this before you measure response times. Raises MissingExtra if aiohttp is missing.
        """
        self._open_session()

    async def open(self, request: HttpRequest) -> AiohttpResponse:
        """Send a request and wait for the head of the response.

        Raises Unreachable if no response arrives, and ProtocolError if the response is not valid
        HTTP.
        """
        session = self._open_session()
        import aiohttp  # noqa: PLC0415 - see _open_session
        import yarl  # noqa: PLC0415 - comes with aiohttp

        proxy = self._proxy or proxy_for(request.url, self._environ)
        if proxy is None and request.addresses is not None:
            session = self._open_pinned_session(request.addresses)
        context = _ErrorContext(_host_of(request.url), self._limits, proxy)
        loop = asyncio.get_running_loop()
        began = loop.time()
        timeout = asyncio.timeout(self._limits.first_byte_s)
        try:
            async with timeout:
                response = await session.request(
                    request.method,
                    yarl.URL(request.url, encoded=True),
                    headers=request.headers,
                    data=BytesIO(request.body) if request.body else None,
                    proxy=proxy.url if proxy else None,
                    allow_redirects=False,
                )
            if proxy is None or response.status != PROXY_AUTH_REQUIRED:
                left_s = max(0.001, self._limits.first_byte_s - (loop.time() - began))
                return AiohttpResponse(
                    response, context, first_s=left_s, max_bytes=self._max_body_bytes
                )
            # Without TLS there is no tunnel, so the proxy itself sent this response.
            response.close()
            error: StenoError = context.unreachable(
                *proxy.explain_refusal(response.status), retryable=False
            )
        except (aiohttp.ClientError, OSError) as exc:
            error = context.no_first_byte() if timeout.expired() else _translate_error(exc, context)
        finally:
            if session is not self._session:
                session.detach()  # a response keeps its connection
        # Raised outside `except`, so that `__context__` is not aiohttp's exception, which holds
        # the headers of the request with the API key.
        raise error

    async def close(self) -> None:
        """Close all connections. The next request opens a new connection."""
        if self._session is not None and self._loop is asyncio.get_running_loop():
            await self._session.close()
        self._detach_session()

    def _open_session(self) -> aiohttp.ClientSession:
        try:
            # aiohttp takes longer to load than all of steno, and replays do not need it.
            import aiohttp  # noqa: PLC0415
        except ModuleNotFoundError as exc:
            raise MissingExtra("HttpTransport needs aiohttp", extra="http") from exc
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._detach_session()
            self._loop = loop
            self._session = self._create_session(aiohttp.TCPConnector(limit=0, ssl=self._tls))
        return self._session

    def _open_pinned_session(self, addresses: tuple[str, ...]) -> aiohttp.ClientSession:
        """Return a session for one request, which connects only to the given addresses.

        No connection is reused: another request for the same host may have other addresses.
        """
        import aiohttp  # noqa: PLC0415 - it is loaded by now

        resolver = cast("AbstractResolver", _PinnedResolver(addresses))
        return self._create_session(
            aiohttp.TCPConnector(
                limit=0, ssl=self._tls, resolver=resolver, use_dns_cache=False, force_close=True
            )
        )

    def _create_session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - it is loaded by now

        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._limits.connect_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )

    def _detach_session(self) -> None:
        """Drop the session, which is closed or belongs to another event loop."""
        if self._session is not None:
            self._session.detach()
        self._session = None


@final
class _PinnedResolver:
    """Resolves every host to the same addresses. Implements the resolver interface of aiohttp."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: int = socket.AF_UNSPEC
    ) -> list[dict[str, str | int]]:
        """Return the addresses; `family` is ignored, because the connector accepts every family.

        Raises OSError if there are none.
        """
        if not self._addresses:
            raise OSError(socket.EAI_NONAME, "no address")
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing, because there is nothing to release."""


@final
class AiohttpResponse:
    """An HTTP response whose head has arrived and whose body can be read."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        context: _ErrorContext,
        *,
        first_s: float,
        max_bytes: int,
    ) -> None:
        import aiohttp  # noqa: PLC0415 - it is loaded by now

        # aiohttp raises RuntimeError for a read after its session was closed.
        self._errors = (aiohttp.ClientError, OSError, RuntimeError)
        self.status: int = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }
        self._response = response
        self._context = context
        self._bytes_left = max_bytes
        self._is_first = True
        self._error: StenoError | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer(first_s)

    async def read(self) -> bytes:
        """Return the next bytes of the body, or b"" at the end.

        Raises Unreachable if the connection is lost or a time limit expires, and ProtocolError if
        the body is too large or its compression is invalid.
        """
        self._waiting_since = self._loop.time()
        try:
            chunk = await self._response.content.readany()
        except self._errors as exc:
            error = self._error or _translate_error(exc, self._context)
        else:
            self._waiting_since = None
            self._bytes_left -= len(chunk)
            if self._is_first or not chunk:
                self._is_first = False
                self._stop_timer()
                if chunk:
                    self._start_timer(self._context.limits.idle_s)
            if self._bytes_left >= 0:
                return chunk
            error = ProtocolError(
                "the body is larger than the limit (max_body_bytes)",
                code="body_limit_exceeded",
                place=self._context.host,
            )
        self.close()
        raise error

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the response and discard unread data; a pending read fails at once."""
        self._stop_timer()
        self._response.close()

    def _start_timer(self, limit_s: float) -> None:
        # One timer checks the limit periodically, which is cheaper than one timer per chunk.
        self._limit_s = limit_s
        self._schedule_check(limit_s)

    def _schedule_check(self, seconds: float) -> None:
        # A weak reference, so that the timer does not keep the response alive.
        self._timer = self._loop.call_later(seconds, _check_timeout, ref(self))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def check_timeout(self) -> None:
        """Abort a read that has waited too long; otherwise schedule the next check."""
        left_s = self._limit_s
        if self._waiting_since is not None:
            left_s += self._waiting_since - self._loop.time()
        if left_s > 0:
            self._schedule_check(left_s)
            return
        self._error = self._context.no_first_byte() if self._is_first else self._context.idle()
        self._response.close()


def _check_timeout(reference: Callable[[], AiohttpResponse | None]) -> None:
    response = reference()
    if response is not None:
        response.check_timeout()


# -- errors ----------------------------------------------------------------------------------


class _ErrorContext(NamedTuple):
    """The host, time limits and proxy that error messages name."""

    host: str
    limits: TimeLimits
    proxy: Proxy | None = None

    def unreachable(self, code: str, message: str, *, retryable: bool = True) -> Unreachable:
        return Unreachable(message, code=code, place=self.host, retryable=retryable)

    def no_first_byte(self) -> Unreachable:
        return self.unreachable(
            "first_byte_timeout", f"no response within {self.limits.first_byte_s:g} s"
        )

    def idle(self) -> Unreachable:
        return self.unreachable(
            "idle_timeout", f"the server sent no bytes for {self.limits.idle_s:g} s"
        )


def _translate_error(exc: Exception, context: _ErrorContext) -> StenoError:
    """Return a StenoError without the original text, which may quote headers and passwords."""
    import aiohttp  # noqa: PLC0415 - it is loaded by now

    host, proxy, unreachable = context.host, context.proxy, context.unreachable
    match exc:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(exc.certificate_error, "verify_message", None) or "not trusted"
            message = f"the server's certificate was rejected: {reason}"
            return unreachable("certificate_refused", message, retryable=False)
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return unreachable("tls_failed", "the TLS handshake failed", retryable=False)
        case aiohttp.ClientProxyConnectionError():
            message = f"{proxy} cannot be reached{_os_reason(exc)}"
            return unreachable("proxy_unreachable", message)
        case aiohttp.ClientHttpProxyError() if proxy:
            return unreachable(*proxy.explain_refusal(exc.status), retryable=exc.status >= 500)
        case aiohttp.ConnectionTimeoutError():
            message = f"no connection within {context.limits.connect_s:g} s"
            return unreachable("connect_timeout", message)
        case aiohttp.ClientConnectorDNSError():
            retryable = exc.os_error.errno != socket.EAI_NONAME
            if proxy:  # the proxy resolves the name of the server
                message = (
                    f"{proxy} cannot be reached: unknown host name; check the name and the network"
                )
                return unreachable("unknown_proxy_host", message, retryable=retryable)
            message = "unknown host name; check the name, the network and the proxy (https_proxy)"
            return unreachable("unknown_host", message, retryable=retryable)
        case aiohttp.ClientConnectorError():
            return unreachable("connection_failed", f"connection failed{_os_reason(exc)}")
        case aiohttp.ClientPayloadError() if _is_bad_encoding(exc):
            message = "the body does not match its content-encoding header"
            return ProtocolError(message, code="invalid_compression", place=host)
        case aiohttp.ClientResponseError():
            message = "the response is not HTTP, or its headers are too large"
            return ProtocolError(message, code="invalid_http", place=host)
        case aiohttp.InvalidURL():
            return InvalidValue("invalid URL", code="invalid_url", place=host)
        case _:
            return unreachable("connection_lost", "the connection was lost")


def _is_bad_encoding(exc: aiohttp.ClientPayloadError) -> bool:
    """Return whether the body could not be decompressed, which a retry would not fix."""
    from aiohttp.http_exceptions import ContentEncodingError  # noqa: PLC0415 - it is loaded by now

    return isinstance(exc.__cause__, ContentEncodingError)


def _os_reason(exc: aiohttp.ClientConnectorError) -> str:
    number = exc.os_error.errno
    return f": {os.strerror(number).lower()}" if number else ""


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "http"


def _load_certificates(ca_file: str | Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except (OSError, ValueError):
        raise InvalidValue(
            "the file cannot be read or contains no valid certificates",
            code="invalid_ca_file",
            place="ca_file",
        ) from None
    return context
