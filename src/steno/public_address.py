"""Decide whether an IP address is public, so that a request to it leaves the local network.

The table lists the ranges that IANA reserves for special purposes. Python's `is_global` is not
used, because its answer for several ranges depends on the version of Python. An IPv6 address that
contains an IPv4 address leads to that address, and is therefore as public as it.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_NOT_PUBLIC_IPV4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this machine, RFC 791
            "10.0.0.0/8",  # private, RFC 1918
            "100.64.0.0/10",  # the customers of a carrier, RFC 6598
            "127.0.0.0/8",  # loopback, RFC 1122
            "169.254.0.0/16",  # link-local, where clouds serve the credentials of a machine
            "172.16.0.0/12",  # private, RFC 1918
            "192.0.0.0/24",  # protocol assignments, RFC 6890
            "192.0.2.0/24",  # documentation, RFC 5737
            "192.31.196.0/24",  # AS112, RFC 7535
            "192.52.193.0/24",  # multicast relays, RFC 7450
            "192.88.99.0/24",  # relays from 6to4, RFC 7526
            "192.168.0.0/16",  # private, RFC 1918
            "192.175.48.0/24",  # AS112, RFC 7534
            "198.18.0.0/15",  # benchmarks, RFC 2544
            "198.51.100.0/24",  # documentation, RFC 5737
            "203.0.113.0/24",  # documentation, RFC 5737
            "224.0.0.0/4",  # multicast, RFC 5771
            "240.0.0.0/4",  # reserved, and broadcast, RFC 1112
        ),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The only IPv6 addresses that IANA assigns to public networks."""
_NOT_PUBLIC_IPV6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, among them Teredo, RFC 2928
            "2001:db8::/32",  # documentation, RFC 3849
            "2620:4f:8000::/48",  # AS112, RFC 7534
            "3fff::/20",  # documentation, RFC 9637
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_public_address(address: str) -> bool:
    """Return whether a text is an IP address that is public.

    The result is False for a host name, and for an address with a zone, which is link-local.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_ipv4(parsed)
    if parsed.scope_id is not None:
        return False
    embedded = _embedded_ipv4(parsed)
    if embedded is not None:
        return _is_public_ipv4(embedded)
    return parsed in _GLOBAL_UNICAST and not any(parsed in block for block in _NOT_PUBLIC_IPV6)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in block for block in _NOT_PUBLIC_IPV4)


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which an IPv6 address leads; None if it leads to none."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour
