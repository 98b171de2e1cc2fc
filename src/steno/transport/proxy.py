"""Which proxy a request goes through, as the environment says it: pure rules over a mapping.

As with most programs, `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy` count, in either
case. Loopback is never sent to a proxy that nobody named for it: a model server beside us is not
what a company's proxy is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from steno.errors import InvalidValue


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the address of the proxy for `url`, or None. Raises InvalidValue if it is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_exempt(host, parts.port, _look_up(environ, "no_proxy")):
        return None
    proxy = _look_up(environ, f"{parts.scheme}_proxy") or _look_up(environ, "all_proxy")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    check_proxy(proxy)
    return proxy


def check_proxy(proxy: str) -> None:
    """Refuse what is not the address of an HTTP proxy. Raises InvalidValue."""
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_usable = is_usable and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidValue("proxy: must be http:// or https:// with a host")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _look_up(environ: Mapping[str, str], name: str) -> str:
    # A CGI program gets the header "Proxy:" of whoever calls it as HTTP_PROXY.
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        return environ.get(name, "")
    return environ.get(name) or environ.get(name.upper(), "")


def _is_exempt(host: str, port: int | None, exempt: str) -> bool:
    """Tell whether `no_proxy` names a host: exactly, as the end of it, with its port, or all."""
    for entry in exempt.lower().split(","):
        name, _, wanted_port = entry.strip().removeprefix("*").partition(":")
        if wanted_port and wanted_port != str(port):
            continue
        if entry.strip() == "*" or (name and _ends_with(host.lower(), name.removeprefix("."))):
            return True
    return False


def _ends_with(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
