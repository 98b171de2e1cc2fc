"""Select the proxy for a request from environment variables, without I/O.

The variables are the usual `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, in lower or
upper case. Requests to loopback addresses never use a proxy, because a company's proxy cannot
reach a model server on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from steno.errors import InvalidValue

PROXY_AUTH_REQUIRED: Final = 407
"""The HTTP status of a proxy that requires credentials."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_UNESCAPED_PASSWORD: Final = re.compile(r"[^:/?#]*://[^/?#]*[/?#].*@", re.DOTALL)


class Proxy(NamedTuple):
    """A proxy and the source of its address; `str` and `repr` omit the user and password."""

    url: str
    variable: str | None = None
    """The environment variable that contains the address; None if the caller passed it."""

    def __str__(self) -> str:
        origin = f"from {self.variable}" if self.variable else "passed as proxy"
        return f"the proxy {_host_and_port(urlsplit(self.url))} ({origin})"

    def __repr__(self) -> str:
        return f"Proxy({self})"

    def explain_refusal(self, status: int) -> tuple[str, str]:
        """Return an error code and message for a response with an error status from the proxy."""
        message = f"{self} responded with status {status}"
        if status != PROXY_AUTH_REQUIRED:
            return "proxy_refused", message
        if urlsplit(self.url).username is None:
            advice = "add user:password@ before the host in the proxy address"
            return "proxy_credentials_missing", f"{message}; {advice}"
        return "proxy_credentials_refused", f"{message}; check user:password@ in the proxy address"


def proxy_for(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for `url`; None if the request needs no proxy.

    Raises InvalidValue if the address of the proxy is invalid.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_exempt(host, parts.port, _read_variable(environ, "no_proxy")[1]):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        variable, address = _read_variable(environ, name)
        if address:
            return check_proxy(address if "://" in address else f"http://{address}", variable)
    return None


def check_proxy(address: str, variable: str | None = None) -> Proxy:
    """Return the proxy at `address`. Raises InvalidValue unless it is an http or https URL."""
    place = variable or "proxy"
    rule = "must be an http:// or https:// URL with a host"
    # Without this check, part of the password would be parsed as the host and printed.
    if _UNESCAPED_PASSWORD.match(address):
        raise InvalidValue(
            f"{rule}; in a password, write / ? and # as %2F %3F and %23",
            code="unescaped_proxy_password",
            place=place,
        )
    parts = _split_address(address)
    if parts is None:
        raise InvalidValue(rule, code="invalid_proxy", place=place)
    if parts.scheme not in ("http", "https"):
        raise InvalidValue(
            f"{rule}, not {parts.scheme}://{_host_and_port(parts)}",
            code="unsupported_proxy_scheme",
            place=place,
        )
    return Proxy(address, variable)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _split_address(address: str) -> SplitResult | None:
    """Return the parts of an address; None if it has no host or an invalid port."""
    try:
        parts = urlsplit(address)
        return parts if parts.hostname and parts.port != 0 and address.isprintable() else None
    except ValueError:  # not chained: the original message may quote a password
        return None


def _host_and_port(parts: SplitResult) -> str:
    host = parts.hostname or ""
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown


def _read_variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the name of a variable, in lower or upper case, and its value.

    The value is empty if the variable is not set.
    """
    # A CGI program receives the header "Proxy:" of its client as HTTP_PROXY (httpoxy).
    is_forged = name == "http_proxy" and "REQUEST_METHOD" in environ
    if environ.get(name) or is_forged:
        return name, environ.get(name, "")
    return name.upper(), environ.get(name.upper(), "")


def _is_exempt(host: str, port: int | None, exempt: str) -> bool:
    """Return whether `no_proxy` lists the host, a parent domain or `*`, with a matching port."""
    for entry in exempt.lower().split(","):
        name, _, wanted_port = entry.strip().removeprefix("*").partition(":")
        if wanted_port and wanted_port != str(port):
            continue
        if entry.strip() == "*" or (name and _is_in_domain(host.lower(), name.removeprefix("."))):
            return True
    return False


def _is_in_domain(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
