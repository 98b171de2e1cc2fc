"""Only addresses on the public internet are public."""

from __future__ import annotations

import pytest

from steno.public_address import is_public_address


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        # These lead to the IPv4 address that they contain.
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:0.0.0.0",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "3fff::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_an_address_of_another_network_is_not_public(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "example.org", "1.1.1", "0x7f.1", "017700000001", "1.1.1.1 ", "１.1.1.1"],
)
def test_a_text_that_is_no_address_is_not_public(text: str) -> None:
    assert not is_public_address(text)
