"""HTTP over aiohttp, the only file that knows it: its types and exceptions stop here.

Certificates are always checked and redirects never followed: a key goes to the host it was meant
for, or nowhere. Limits on time are three: until connected, until the first byte of the body,
between two pieces of it. There is none on the whole, because models may speak for long.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final
from urllib.parse import urlsplit
from weakref import ref

from steno.errors import InvalidValue, MissingExtra, ProtocolError, StenoError, Unreachable
from steno.ports import HttpRequest
from steno.transport.proxy import PROXY_AUTH_REQUIRED, Proxy, check_proxy, proxy_for

if TYPE_CHECKING:
    import aiohttp

MAX_HEADER_BYTES: Final = 32 * 1024
"""No line in the head of an answer is longer than this."""
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
"""Hundreds of times what a model says at once; more is a broken or hostile server."""


class TimeLimits(NamedTuple):
    """How long to wait for what, in seconds."""

    connect_s: float = 5
    """Until connected: name, TCP, proxy, TLS."""
    first_byte_s: float = 600
    """From the request to the first byte of the body: long prompts take long to be read."""
    idle_s: float = 300
    """Between two pieces of the body: models that think in silence send nothing for minutes."""


DEFAULT_LIMITS: Final = TimeLimits()


@final
class HttpTransport:
    """Carries requests over HTTP/1.1 and keeps connections for the next one.

    `proxy` is the address of a proxy for all requests; without it `environ` (that of the process
    unless given) says which hosts have one. `ca_file` names certificates to trust beside those
    of the system. Use it within one event loop at a time, and close it in that loop.
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
        """Take the settings; nothing is opened yet. Raises InvalidValue for what cannot work."""
        if not isinstance(limits, TimeLimits):
            kind = type(limits).__name__
            raise InvalidValue(
                f"limits: must be TimeLimits, such as TimeLimits(idle_s=60), not {kind}"
            )
        if min(*limits, max_body_bytes) <= 0:
            raise InvalidValue("http transport: limits must be above 0")
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
        """Do what the first request would wait for, which is up to a second: load the client.

        For those who count how long an answer takes. Raises ImportError where it is missing.
        """
        self._open_session()

    async def open(self, outgoing: HttpRequest) -> AiohttpResponse:
        """Send a request and wait for the head of its answer. Raises Unreachable."""
        session = self._open_session()
        import aiohttp  # noqa: PLC0415 - see _open_session
        import yarl  # noqa: PLC0415 - comes with aiohttp

        proxy = self._proxy or proxy_for(outgoing.url, self._environ)
        place = _ErrorContext(_host_of(outgoing.url), self._limits, proxy)
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience = asyncio.timeout(self._limits.first_byte_s)
        try:
            async with patience:
                response = await session.request(
                    outgoing.method,
                    yarl.URL(outgoing.url, encoded=True),
                    headers=outgoing.headers,
                    data=BytesIO(outgoing.body) if outgoing.body else None,
                    proxy=proxy.url if proxy else None,
                    allow_redirects=False,
                )
            if proxy is None or response.status != PROXY_AUTH_REQUIRED:
                left_s = max(0.001, self._limits.first_byte_s - (loop.time() - began))
                return AiohttpResponse(
                    response, place, first_s=left_s, max_bytes=self._max_body_bytes
                )
            # What is not encrypted goes through no tunnel: the proxy answers like a server.
            response.close()
            fault: StenoError = place.unreachable(
                proxy.explain_refusal(response.status), retryable=False
            )
        except (aiohttp.ClientError, OSError) as exc:
            fault = place.no_first_byte() if patience.expired() else _translate_error(exc, place)
        # Not inside `except`: what aiohttp raises holds the headers of the request, keys included.
        raise fault

    async def close(self) -> None:
        """Let go of all connections. The transport can be used again, and opens new ones then."""
        if self._session is not None and self._loop is asyncio.get_running_loop():
            await self._session.close()
        self._detach_session()

    def _open_session(self) -> aiohttp.ClientSession:
        try:
            # It takes longer to load than all of steno, and replays do without.
            import aiohttp  # noqa: PLC0415
        except ModuleNotFoundError as exc:
            raise MissingExtra("HttpTransport needs aiohttp", extra="http") from exc
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            self._detach_session()
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._limits.connect_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
            )
        return self._session

    def _detach_session(self) -> None:
        """Leave a session behind that is closed, or whose loop is gone and cannot close it."""
        if self._session is not None:
            self._session.detach()
        self._session = None


@final
class AiohttpResponse:
    """An answer whose head has arrived."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        place: _ErrorContext,
        *,
        first_s: float,
        max_bytes: int,
    ) -> None:
        import aiohttp  # noqa: PLC0415 - it is loaded by now

        # A read that begins behind the end of the session is a RuntimeError to aiohttp.
        self._errors = (aiohttp.ClientError, OSError, RuntimeError)
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }
        self._response = response
        self._context = place
        self._bytes_left = max_bytes
        self._is_first = True
        self._fault: StenoError | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer(first_s)

    async def read(self) -> bytes:
        """Return the next bytes of the body, none at its end."""
        self._waiting_since = self._loop.time()
        try:
            piece = await self._response.content.readany()
        except self._errors as exc:
            fault = self._fault or _translate_error(exc, self._context)
        else:
            self._waiting_since = None
            self._bytes_left -= len(piece)
            if self._is_first or not piece:
                self._restart_timer(piece)
            if self._bytes_left >= 0:
                return piece
            fault = ProtocolError(f"{self._context.host}: the body is larger than allowed")
        self.close()
        raise fault

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Drop what is left of the body; a read that waits fails at once."""
        self._stop_timer()
        self._response.close()

    def _restart_timer(self, piece: bytes) -> None:
        self._is_first = False
        self._stop_timer()
        if piece:
            self._start_timer(self._context.limits.idle_s)

    def _start_timer(self, limit_s: float) -> None:
        # One timer that looks back now and then: setting one for each piece would cost more.
        self._limit_s = limit_s
        self._schedule_check(limit_s)

    def _schedule_check(self, seconds: float) -> None:
        # The timer must not keep alive what nobody else holds any more.
        self._timer = self._loop.call_later(seconds, _check_timeout, ref(self))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def check_timeout(self) -> None:
        """Give up if a read waits for too long; else look again when it could be."""
        left_s = self._limit_s
        if self._waiting_since is not None:
            left_s += self._waiting_since - self._loop.time()
        if left_s > 0:
            self._schedule_check(left_s)
            return
        self._fault = self._context.no_first_byte() if self._is_first else self._context.idle()
        self._response.close()


def _check_timeout(answer: Callable[[], AiohttpResponse | None]) -> None:
    found = answer()
    if found is not None:
        found.check_timeout()


# -- faults ----------------------------------------------------------------------------------


class _ErrorContext(NamedTuple):
    """Where something went wrong, for the words about it."""

    host: str
    limits: TimeLimits
    proxy: Proxy | None = None

    def unreachable(self, rule: str, *, retryable: bool = True) -> Unreachable:
        return Unreachable(f"{self.host}: {rule}", retryable=retryable)

    def no_first_byte(self) -> Unreachable:
        return self.unreachable(f"no answer within {self.limits.first_byte_s:g} s")

    def idle(self) -> Unreachable:
        return self.unreachable(f"nothing more for {self.limits.idle_s:g} s")


def _translate_error(exc: Exception, place: _ErrorContext) -> StenoError:
    """Say in our words what aiohttp or the system said; theirs may quote headers and passwords."""
    import aiohttp  # noqa: PLC0415 - it is loaded by now

    match exc:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(exc.certificate_error, "verify_message", None) or "not trusted"
            return place.unreachable(f"its certificate is refused: {reason}", retryable=False)
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return place.unreachable("no TLS connection could be made", retryable=False)
        case aiohttp.ClientProxyConnectionError():
            return place.unreachable(f"{place.proxy} cannot be reached{_os_reason(exc)}")
        case aiohttp.ClientHttpProxyError() if place.proxy:
            return place.unreachable(
                place.proxy.explain_refusal(exc.status), retryable=exc.status >= 500
            )
        case aiohttp.ConnectionTimeoutError():
            return place.unreachable(f"no connection within {place.limits.connect_s:g} s")
        case aiohttp.ClientConnectorDNSError():
            is_final = exc.os_error.errno == socket.EAI_NONAME
            # With a proxy it is only the proxy's name that is looked up here.
            rule = (
                f"{place.proxy} cannot be reached: its name is not known; check it, or the network"
                if place.proxy
                else "its name is not known; check the name, the network, or a proxy (https_proxy)"
            )
            return place.unreachable(rule, retryable=not is_final)
        case aiohttp.ClientConnectorError():
            return place.unreachable(f"no connection{_os_reason(exc)}")
        case aiohttp.ClientPayloadError() if _is_bad_encoding(exc):
            return ProtocolError(f"{place.host}: the body is not compressed as its head says")
        case aiohttp.ClientResponseError():
            return ProtocolError(f"{place.host}: the answer is not HTTP, or its head is too large")
        case aiohttp.InvalidURL():
            return InvalidValue(f"{place.host}: not an address that can be asked")
        case _:
            return place.unreachable("the connection was lost")


def _is_bad_encoding(exc: aiohttp.ClientPayloadError) -> bool:
    """Tell whether a body came whole and cannot be unpacked, which will be so the next time."""
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
        raise InvalidValue("ca_file: holds no certificates that can be read") from None
    return context
