"""Decide which domains the commands in a sandbox may contact. No I/O.

The pattern of a rule `network(PATTERN)` is one of these:

    pypi.org            this host, at the ports 80 and 443
    *.example.org       the subdomains of example.org at any depth, but not example.org itself
    localhost:5432      this host, at this port only
    10.0.0.5            this address; an IPv6 address with a port is written [2001:db8::1]:8080
    *:8080              any public host, at this port only
    *                   any public host, at any port

A deny rule without a port denies every port, and deny rules take precedence over allow rules.
If a name is denied, `*` covers neither addresses nor tunnels for other protocols than TLS, because
these would reach the denied server without its name.
Hosts are compared in the spelling that `normalize_host` returns.

Private addresses, which include loopback, need a rule that names them: the address itself, or a
name with its port. No wildcard covers them, because anyone who owns a domain can let a name in it
resolve to a private address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from string import ascii_lowercase, ascii_uppercase
from typing import Final, NamedTuple, Protocol

from steno.errors import InvalidValue
from steno.ports import AccessKind, SandboxAccess

NETWORK_RULE_NAME: Final = "network"
"""The name in permission rules for domains, in the place of a tool."""
DEFAULT_PORTS: Final = frozenset({80, 443})
"""The ports that a rule without a port covers."""
TLS_PORT: Final = 443
_MAX_PORT: Final = 65_535
_MAX_HOST_LENGTH: Final = 253
_LOWER_CASE: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Lower case of ASCII alone: `str.lower` turns the Kelvin sign into a `k`."""
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r":([1-9][0-9]{0,4})")
_SITE_NETWORKS: Final = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv6Network("fc00::/7"),
)
"""The networks of a site, to which a name of the site may resolve.

They contain neither this machine nor the link-local addresses at which clouds serve credentials.
"""


class RefusalReason(StrEnum):
    """The reasons why the proxy refuses a connection."""

    NOT_ALLOWED = "not_allowed"
    """No rule covers the domain and port."""
    DENIED = "denied"
    """A deny rule covers the domain and port."""
    PRIVATE_ADDRESS = "private_address"
    """The name resolves to an address that is not public."""
    NOT_TLS = "not_tls"
    """The client sent something else than TLS to a port that is for TLS."""
    INVALID_HELLO = "invalid_hello"
    """The first TLS message is malformed or too large."""
    SERVER_NAME_MISSING = "server_name_missing"
    """The TLS client names no server, so that the server could be another one."""
    SERVER_NAME_MISMATCH = "server_name_mismatch"
    """The TLS client names another server than the one it asked the proxy for."""
    SERVER_NAME_ENCRYPTED = "server_name_encrypted"
    """The TLS client encrypts the name of the server (ECH)."""
    LIMIT = "limit"
    """The command has used up its connections or bytes."""


# -- hosts -----------------------------------------------------------------------------------------


def normalize_host(text: str) -> str:
    """Return the canonical spelling of a host name or an IP address.

    A name is in lower case and in ASCII (`xn--` labels), without a dot at its end. An IPv6 address
    has no brackets, and one that maps an IPv4 address is that IPv4 address. Raises InvalidValue if
    the text is neither a name nor an address, such as `0x7f.1`, which some programs read as one.
    """
    host = text.translate(_LOWER_CASE)
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed or ":" in host:
        return _normalize_ipv6(host[1:-1] if is_bracketed else host)
    host = host.removesuffix(".")
    labels = [_encode_label(label) for label in host.split(".")]
    host = ".".join(labels)
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        return _normalize_ipv4(host)
    if len(host) > _MAX_HOST_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        raise _invalid_host()
    return host


def _encode_label(label: str) -> str:
    if label.isascii():
        return label
    try:
        encoded = label.encode("idna")
        # The codec maps some letters to others, such as "ß" to "ss": a different domain today.
        is_exact = encoded.decode("idna") == label
    except UnicodeError:
        raise _invalid_host() from None
    if not is_exact:
        raise _invalid_host()
    return encoded.decode("ascii")


def _normalize_ipv4(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise _invalid_host() from None


def _normalize_ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise _invalid_host() from None
    if address.scope_id is not None:
        raise _invalid_host()
    return str(address.ipv4_mapped or address)


def _invalid_host() -> InvalidValue:
    return InvalidValue(
        "not a host name or an IP address; write a domain such as pypi.org",
        code="domain_invalid",
        place=NETWORK_RULE_NAME,
    )


def is_ip_address(host: str) -> bool:
    """Return whether a normalized host is an IP address."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def is_loopback_name(host: str) -> bool:
    """Return whether a normalized host is a name that means this machine (RFC 6761)."""
    return host == "localhost" or host.endswith(".localhost")


def format_target(host: str, port: int | None) -> str:
    """Return a normalized host and port as text; the default ports are left out."""
    if port is None or port in DEFAULT_PORTS:
        return f"[{host}]" if ":" in host else host
    return format_host_and_port(host, port)


def format_host_and_port(host: str, port: int) -> str:
    """Return a normalized host and port as text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- rules -----------------------------------------------------------------------------------------


class DomainRule(NamedTuple):
    """One pattern of hosts, and the port."""

    host: str
    """A normalized host; empty for any host."""
    is_wildcard: bool = False
    """Whether the rule is about the subdomains of the host, or any host, instead of the host."""
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> DomainRule:
        """Parse a pattern such as `*.example.org`. Raises InvalidValue if it is not a pattern."""
        if "/" in text or "@" in text:
            raise InvalidValue(
                "a rule for a domain contains no scheme, user or path; write the domain alone",
                code="domain_is_url",
                place=NETWORK_RULE_NAME,
            )
        name, port = _split_port(text)
        if name == "*":
            return cls("", is_wildcard=True, port=port)
        is_wildcard = name.startswith("*.")
        name = name.removeprefix("*.")
        if "*" in name:
            raise _invalid_wildcard()
        host = normalize_host(name)
        if is_wildcard and is_ip_address(host):
            raise _invalid_wildcard()
        return cls(host, is_wildcard=is_wildcard, port=port)

    def __str__(self) -> str:
        if not self.is_wildcard:
            host = f"[{self.host}]" if ":" in self.host else self.host
        else:
            host = f"*.{self.host}" if self.host else "*"
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def covers_everything(self) -> bool:
        """Whether the rule covers every host and port."""
        return not self.host and self.port is None

    def covers_host(self, host: str) -> bool:
        """Return whether the rule is about a normalized host."""
        if not self.is_wildcard:
            return host == self.host
        if not self.host:
            return True
        return host.endswith(f".{self.host}") and not is_ip_address(host)


def _split_port(text: str) -> tuple[str, int | None]:
    """Split `host:port`; the port is None if there is none, as in an IPv6 address."""
    name, bracket, rest = text.rpartition("]")
    if not bracket:
        name, colon, rest = text.partition(":")
        if ":" in rest:
            return text, None
        rest = colon + rest
    if not rest:
        return text, None
    found = _PORT.fullmatch(rest)
    if found is None or int(found[1]) > _MAX_PORT:
        raise InvalidValue(
            f"the port must be a number from 1 to {_MAX_PORT}",
            code="domain_port_invalid",
            place=NETWORK_RULE_NAME,
        )
    return f"{name}{bracket}", int(found[1])


def _invalid_wildcard() -> InvalidValue:
    return InvalidValue(
        "in a rule for a domain, * is allowed alone or as the first label, as in *.example.org",
        code="domain_wildcard_misplaced",
        place=NETWORK_RULE_NAME,
    )


def is_domain_pattern(text: str) -> bool:
    """Return whether a text is a valid pattern for domains."""
    try:
        DomainRule.parse(text)
    except InvalidValue:
        return False
    return True


class DomainRules(NamedTuple):
    """The rules that decide about every connection of a command. Without rules, none is allowed.

    The methods take a host as `normalize_host` returns it.
    """

    allow: tuple[DomainRule, ...] = ()
    deny: tuple[DomainRule, ...] = ()

    @classmethod
    def parse(cls, allow: Iterable[str], deny: Iterable[str] = ()) -> DomainRules:
        """Parse patterns. Raises InvalidValue if one of them is invalid."""
        return cls(
            tuple(dict.fromkeys(map(DomainRule.parse, allow))),
            tuple(dict.fromkeys(map(DomainRule.parse, deny))),
        )

    @property
    def allows_everything(self) -> bool:
        """Whether every public host is allowed, so that it does not matter which one it is."""
        return not self.deny and any(rule.covers_everything for rule in self.allow)

    def is_allowed(self, host: str, port: int) -> bool:
        """Return whether connections to a host and port are allowed."""
        return not self.is_denied(host, port) and any(self._allowing(host, port))

    def is_denied(self, host: str, port: int) -> bool:
        """Return whether a deny rule covers a host and port, so that no approval can allow it."""
        return any(rule.port in (None, port) and rule.covers_host(host) for rule in self.deny)

    def allows_any_protocol(self, host: str, port: int) -> bool:
        """Return whether a tunnel to a host and port may carry something else than TLS.

        A rule must name the port, or cover everything. Port 443 is always for TLS.
        """
        return port != TLS_PORT and any(
            (rule.port is not None or rule.covers_everything)
            and not (self._denies_names and not rule.host)
            for rule in self._allowing(host, port)
        )

    @property
    def _denies_names(self) -> bool:
        """Whether some names are denied, so that a server must not be reached without its name."""
        return any(rule.host and not is_ip_address(rule.host) for rule in self.deny)

    def allows_address(self, host: str, port: int, address: str) -> bool:
        """Return whether a host may resolve to an address that is not public.

        A rule must name the host, without a wildcard. If the host is not itself the address, the
        rule must also name the port; then `localhost` may be this machine, and other names may be
        in the network of the site.
        """
        named = [rule for rule in self._allowing(host, port) if not rule.is_wildcard]
        if is_ip_address(host):
            return bool(named) and host == address
        return any(rule.port == port for rule in named) and can_be_allowed(host, address)

    def _allowing(self, host: str, port: int) -> Iterable[DomainRule]:
        needs_name = is_ip_address(host) and self._denies_names
        for rule in self.allow:
            if needs_name and not rule.host:
                continue
            is_port_covered = (
                rule.port == port
                if rule.port is not None
                else port in DEFAULT_PORTS or rule.covers_everything
            )
            if is_port_covered and rule.covers_host(host):
                yield rule


def can_be_allowed(host: str, address: str) -> bool:
    """Return whether a rule could allow a host to have an address that is not public."""
    if is_ip_address(host):
        return host == address
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if is_loopback_name(host):
        return parsed.is_loopback
    return any(parsed in network for network in _SITE_NETWORKS)


class _PermissionRule(Protocol):
    """The part of a permission rule that matters here; the class is in a higher layer."""

    @property
    def tool(self) -> str: ...

    @property
    def pattern(self) -> str | None: ...

    def names_tool(self, tool: str, /) -> bool: ...


def domain_rules_of(
    allow: Iterable[_PermissionRule], deny: Iterable[_PermissionRule] = ()
) -> DomainRules:
    """Return the rules about domains among permission rules.

    A rule without a pattern covers everything, also one for all tools (`*`). Rules for all tools
    with a pattern are about other subjects, so they are ignored. Raises InvalidValue if the pattern
    of a rule `network(PATTERN)` is invalid.
    """
    return DomainRules.parse(_domain_patterns(allow), _domain_patterns(deny))


def _domain_patterns(rules: Iterable[_PermissionRule]) -> list[str]:
    return [
        rule.pattern or "*"
        for rule in rules
        if rule.names_tool(NETWORK_RULE_NAME)
        and (rule.pattern in (None, "*") or rule.tool == NETWORK_RULE_NAME)
    ]


def suggest_network_rule(access: SandboxAccess) -> str:
    """Return the rule that allows a blocked access, such as `network(pypi.org)`.

    The text is empty if the access is not about the network, or its target is not a domain.
    """
    if access.kind is not AccessKind.NETWORK:
        return ""
    try:
        return f"{NETWORK_RULE_NAME}({DomainRule.parse(access.target)})"
    except InvalidValue:
        return ""
