"""Fetch an image from a URL, with permission for every hop.

A server can redirect to any other server, and a host name can resolve to any address, including
those in the local network, whose machines may trust this one. Each hop therefore needs permission,
and neither a host name nor a redirect from a public address may lead to a private address. The host
name is resolved once: the connection goes to an address that was checked. Size and time are limited. This module returns bytes, and does not check that they are an image.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urljoin, urlsplit

from steno.errors import InvalidValue, ProtocolError, ProviderError, ToolFailed
from steno.ports import (
    Capability,
    HttpRequest,
    HttpResponse,
    ResolveContext,
    Transport,
    strip_url_secrets,
)
from steno.public_address import is_public_address

HostLookup: TypeAlias = Callable[[str], Awaitable[tuple[str, ...]]]
"""A function that returns the IP addresses of a host name; empty if they are unknown."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REQUEST_HEADERS: Final = {
    "accept": "image/png, image/jpeg, image/webp, image/gif, image/*;q=0.5",
    # The size limit counts received bytes, and images are already compressed.
    "accept-encoding": "identity",
    "user-agent": "steno",
}
_UNSPECIFIC_TYPES: Final = frozenset({"application/octet-stream", "binary/octet-stream"})
"""Types that servers send if they do not know the type of a file."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_UNSAFE_CHARACTERS: Final = re.compile(r"[\s\\\x00-\x1f\x7f-\x9f]")
"""Characters that URL parsers drop or misread."""
_LOOPBACK: Final = ("127.0.0.1", "::1")
_HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_.])?")
# The characters that RFC 3986 allows in a path or a query, and `%`, which begins an escape.
_UNESCAPED_CHARACTERS: Final = "/?:@!$&'()*+,;=%~-._"


class FetchLimits(NamedTuple):
    """The limits for fetching one image."""

    max_bytes: int = 20_000_000
    timeout_s: float = 30
    """The time limit for all hops together, excluding the time for approvals."""
    max_redirects: int = 5


DEFAULT_FETCH_LIMITS: Final = FetchLimits()


class FetchedImage(NamedTuple):
    """The bytes at a URL, and the rules that allowed the requests."""

    data: bytes
    allowed_by: str


async def resolve_host(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name; empty if this machine cannot resolve it."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()  # a proxy may resolve the name; without one, the request fails
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


async def fetch_image(
    url: str,
    context: ResolveContext,
    transport: Transport,
    *,
    limits: FetchLimits = DEFAULT_FETCH_LIMITS,
    host_lookup: HostLookup = resolve_host,
) -> FetchedImage:
    """Fetch the bytes at a URL. Raises ToolFailed if a request is not allowed or fails."""
    loop = asyncio.get_running_loop()
    remaining_s = limits.timeout_s
    rules: dict[str, None] = {}
    previous: _ImageAddress | None = None
    address = _parse_address(url)
    for _ in range(limits.max_redirects + 1):
        name = strip_url_secrets(address.url) or "image"
        rule = await context.require_permission("fetch", Capability.NETWORK, address.url, name=name)
        rules[rule] = None
        context.report_progress(f"fetching {name}")
        started_at = loop.time()
        try:
            async with asyncio.timeout(remaining_s):
                addresses = await _public_addresses(address, previous, host_lookup)
                result = await _request_image(address, addresses, transport, limits.max_bytes)
        except TimeoutError as exc:
            message = f"took longer than {limits.timeout_s:g} s"
            raise address.error(message, code="fetch_timeout") from exc
        if isinstance(result, bytes):
            return FetchedImage(result, ", ".join(rules))
        remaining_s -= loop.time() - started_at
        previous, address = address, _redirect_target(address, result)
    message = f"was redirected more than {limits.max_redirects} times"
    raise _parse_address(url).error(message, code="too_many_redirects")


# -- addresses -------------------------------------------------------------------------------


class _ImageAddress(NamedTuple):
    """A URL in canonical spelling, without user, password and fragment."""

    scheme: str
    host: str
    url: str

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address or localhost, so that no name server resolves it."""
        return self.host == "localhost" or _parse_ip(self.host) is not None

    @property
    def is_private(self) -> bool:
        """Whether the host is localhost or an IP address that is not public."""
        is_address = _parse_ip(self.host) is not None
        return self.host == "localhost" or (is_address and not is_public_address(self.host))

    def error(self, rule: str, *, code: str) -> ToolFailed:
        """Return an error without the query of the URL, which may contain a key."""
        return ToolFailed(rule, code=code, place=strip_url_secrets(self.url) or self.host)


def _parse_address(url: str) -> _ImageAddress:
    """Parse a URL strictly, so that the transport cannot interpret it differently.

    Raises ToolFailed if the URL is invalid, contains credentials, or has `.` or `..` in its path.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        host = host if _parse_ip(host) else host.encode("idna").decode()
    except ValueError:
        raise ToolFailed("the URL is invalid", code="invalid_url", place="image") from None
    is_name = _HOST_NAME.fullmatch(host) is not None
    has_scheme, is_host = parts.scheme in _DEFAULT_PORTS, is_name or _parse_ip(host) is not None
    if not has_scheme or not is_host or _UNSAFE_CHARACTERS.search(url):
        message = "the URL is not a plain http:// or https:// address"
        raise ToolFailed(message, code="not_a_web_address", place="image")
    place = f"image at {host}"
    if "@" in parts.netloc:
        problem = "the URL contains a user name or password, which steno never sends"
        message = f"{problem}; download the image and refer to the file"
        raise ToolFailed(message, code="url_has_credentials", place=place)
    if any(unquote(step) in {".", ".."} for step in parts.path.split("/")):
        message = "the path of the URL must not contain . or .. as a segment"
        raise ToolFailed(message, code="url_has_dot_steps", place=place)
    netloc = f"[{host}]" if ":" in host else host
    if port not in {None, _DEFAULT_PORTS[parts.scheme]}:
        netloc += f":{port}"
    query = f"?{quote(parts.query, safe=_UNESCAPED_CHARACTERS)}" if parts.query else ""
    path = quote(parts.path or "/", safe=_UNESCAPED_CHARACTERS)
    return _ImageAddress(parts.scheme, host, f"{parts.scheme}://{netloc}{path}{query}")


def _redirect_target(address: _ImageAddress, location: str) -> _ImageAddress:
    try:
        target = _parse_address(urljoin(address.url, location))
    except (ToolFailed, ValueError):
        message = "redirects to an invalid URL"
        raise address.error(message, code="invalid_redirect") from None
    if address.scheme == "https" and target.scheme != "https":
        message = "redirects from https to http, which is not secure"
        raise address.error(message, code="insecure_redirect")
    return target


async def _public_addresses(
    address: _ImageAddress, before: _ImageAddress | None, host_lookup: HostLookup
) -> tuple[str, ...]:
    """Return the IP addresses to which the request may connect.

    Raises ToolFailed if a host name or a redirect leads into the local network. The owner of a name
    can change its addresses at any time, so the name must not be resolved again after this check.
    """
    if address.is_literal:
        if address.is_private and before is not None and not before.is_private:
            message = (
                "is a private address; redirects from public to private addresses are not followed"
            )
            raise address.error(message, code="redirect_to_private_address")
        return _LOOPBACK if address.host == "localhost" else (address.host,)
    addresses = await host_lookup(address.host)
    # A name with one private address is refused, because no public service needs one.
    if not all(map(is_public_address, addresses)):
        advice = "if that is intended, use the IP address in the URL"
        message = f"the host name resolves to a private address; {advice}"
        raise address.error(message, code="private_address")
    return addresses


def _parse_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


# -- responses -------------------------------------------------------------------------------


async def _request_image(
    address: _ImageAddress, addresses: tuple[str, ...], transport: Transport, max_bytes: int
) -> bytes | str:
    """Return the bytes at an address, or the URL to which the server redirects.

    Raises ToolFailed if the request fails, or if the response is not an image or is too large.
    """
    try:
        request = HttpRequest("GET", address.url, _REQUEST_HEADERS, addresses=addresses)
        response = await transport.open(request)
        try:
            if response.status in _REDIRECTS:
                return response.headers.get("location", "")
            _check_headers(response, address, max_bytes)
            data = bytearray()
            while chunk := await response.read():
                data += chunk
                if len(data) > max_bytes:
                    raise _too_large_error(address, max_bytes)
            return bytes(data)
        finally:
            response.close()
    except (ProviderError, ProtocolError, InvalidValue) as exc:
        raise address.error(f"could not be fetched: {exc}", code="fetch_failed") from exc


def _check_headers(response: HttpResponse, address: _ImageAddress, max_bytes: int) -> None:
    if response.status != 200:
        message = f"could not be fetched: the server responded with status {response.status}"
        raise address.error(message, code="http_status")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and not kind.startswith("image/") and kind not in _UNSPECIFIC_TYPES:
        message = f"is not an image: the server reports the type {kind[:80]!r}"
        raise address.error(message, code="not_an_image")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise _too_large_error(address, max_bytes)


def _too_large_error(address: _ImageAddress, max_bytes: int) -> ToolFailed:
    message = f"is larger than the limit of {max_bytes:,} bytes"
    return address.error(message, code="image_too_large")
