"""Rules about domains: patterns, spellings of hosts, ports and private addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.agent.permissions.rules import PermissionRule
from steno.app.permissions import parse_known_rule
from steno.errors import InvalidValue
from steno.ports import AccessKind, SandboxAccess
from steno.tools.shell.domain_rules import (
    DomainRule,
    DomainRules,
    domain_rules_of,
    format_host_and_port,
    format_target,
    is_ip_address,
    normalize_host,
    suggest_network_rule,
)
from tests.raised_errors import raises_code

# -- hosts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("pypi.org", "pypi.org"),
        ("PyPI.ORG", "pypi.org"),
        ("pypi.org.", "pypi.org"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert normalize_host(text) == host
    assert normalize_host(host) == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", ".example.org", "example.org..", "-a.example", "a-.example"),
        *("a b.example", "a\tb", "a\x00.example", "a\n.example", "a/b", "a@b", "a%2e", "*"),
        # Spellings of 127.0.0.1 that some programs understand, and hosts that end in a number.
        *("0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "127.0.0.01", "0177.0.0.1", "0x"),
        *("1.2.3.4.5", "256.1.1.1", "example.1", "127.0.0.1."[:-1] + ".0x1"),
        *(
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            ":::",
            "[]",
            "1::2::3",
        ),
        # Letters that the codec maps to others: today these are different domains.
        *("straße.example", "Bücher.example".replace("B", "\u212a"), "a\u3002example", "ＰyPI.org"),
        *("a\u200d.example", "a\u00ad.example", "BÜCHER.example"),
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
    ],
)
def test_a_text_that_is_no_host_is_refused(text: str) -> None:
    with raises_code(InvalidValue, "domain_invalid"):
        normalize_host(text)


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_invalid(text: str) -> None:
    try:
        host = normalize_host(text)
    except InvalidValue:
        return
    assert host.isascii()
    assert normalize_host(host) == host


# -- patterns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "covered", "uncovered"),
    [
        (
            "example.org",
            [("example.org", 443), ("example.org", 80)],
            [
                *[("a.example.org", 443), ("evilexample.org", 443), ("example.org.evil", 443)],
                *[("example.org", 22), ("example.orge", 443), ("xexample.org", 443)],
            ],
        ),
        (
            "*.example.org",
            [("a.example.org", 443), ("a.b.example.org", 80)],
            [
                *[("example.org", 443), ("evilexample.org", 443), ("a.example.org", 8443)],
                ("a.example.org.evil", 443),
            ],
        ),
        ("*.Example.org:8443", [("a.example.org", 8443)], [("a.example.org", 443)]),
        ("localhost:5432", [("localhost", 5432)], [("localhost", 443), ("a.localhost", 5432)]),
        ("127.0.0.1", [("127.0.0.1", 80)], [("127.0.0.1", 81), ("127.0.0.2", 80)]),
        ("*.1.example", [("a.1.example", 80)], [("0.0.0.1", 80)]),
        ("[::1]:8080", [("::1", 8080)], [("::1", 80), ("127.0.0.1", 8080)]),
        ("::1", [("::1", 80)], [("::1", 8080)]),
        ("*:8080", [("a.example", 8080), ("10.0.0.1", 8080)], [("a.example", 443)]),
        ("*", [("a.example", 1), ("10.0.0.1", 65_535), ("::1", 22)], []),
        ("bücher.example", [("xn--bcher-kva.example", 443)], [("bucher.example", 443)]),
    ],
)
def test_a_pattern_covers_these_targets(
    pattern: str, covered: list[tuple[str, int]], uncovered: list[tuple[str, int]]
) -> None:
    rules = DomainRules.parse([pattern])
    assert [target for target in covered if not rules.is_allowed(*target)] == []
    assert [target for target in uncovered if rules.is_allowed(*target)] == []
    assert DomainRule.parse(str(rules.allow[0])) == rules.allow[0]


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("https://pypi.org", "domain_is_url"),
        ("pypi.org/simple", "domain_is_url"),
        ("user@pypi.org", "domain_is_url"),
        ("pypi.org:", "domain_port_invalid"),
        ("pypi.org:0", "domain_port_invalid"),
        ("pypi.org:65536", "domain_port_invalid"),
        ("pypi.org:https", "domain_port_invalid"),
        ("pypi.org:８０", "domain_port_invalid"),
        ("[::1]8080", "domain_port_invalid"),
        ("*:*", "domain_port_invalid"),
        ("*example.org", "domain_wildcard_misplaced"),
        ("a.*.org", "domain_wildcard_misplaced"),
        ("example.*", "domain_wildcard_misplaced"),
        ("**.example.org", "domain_wildcard_misplaced"),
        ("*.*", "domain_wildcard_misplaced"),
        ("*.127.0.0.1", "domain_wildcard_misplaced"),
        ("", "domain_invalid"),
        ("*.", "domain_invalid"),
        ("\\*", "domain_wildcard_misplaced"),
        ("pypi org", "domain_invalid"),
    ],
)
def test_an_invalid_pattern_is_refused(pattern: str, code: str) -> None:
    with raises_code(InvalidValue, code, place="network") as caught:
        DomainRule.parse(pattern)
    if pattern:
        assert pattern not in str(caught.value)


def test_without_rules_nothing_is_allowed() -> None:
    assert not DomainRules().is_allowed("pypi.org", 443)


def test_deny_rules_take_precedence_and_cover_every_port() -> None:
    rules = DomainRules.parse(["*"], ["evil.example", "*.evil.example", "good.example:25"])
    assert not rules.is_allowed("evil.example", 443)
    assert not rules.is_allowed("evil.example", 2222)
    assert not rules.is_allowed("a.evil.example", 443)
    assert not rules.is_allowed("good.example", 25)
    assert rules.is_allowed("good.example", 443)
    assert not rules.allows_everything
    assert DomainRules.parse(["*"]).allows_everything


def test_other_protocols_than_tls_need_a_rule_with_the_port() -> None:
    rules = DomainRules.parse(["example.org", "example.org:22", "b.example:443"])
    assert not rules.allows_any_protocol("example.org", 80)
    assert not rules.allows_any_protocol("example.org", 443)
    assert rules.allows_any_protocol("example.org", 22)
    assert not rules.allows_any_protocol("b.example", 443)
    everything = DomainRules.parse(["*"])
    assert everything.allows_any_protocol("example.org", 80)
    assert not everything.allows_any_protocol("example.org", 443)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "address", "is_allowed"),
    [
        ("10.0.0.5", "10.0.0.5", 80, "10.0.0.5", True),
        ("127.0.0.1:5432", "127.0.0.1", 5432, "127.0.0.1", True),
        ("169.254.169.254", "169.254.169.254", 80, "169.254.169.254", True),
        ("[::1]:80", "::1", 80, "::1", True),
        ("localhost:5432", "localhost", 5432, "127.0.0.1", True),
        ("localhost:5432", "localhost", 5432, "::1", True),
        ("localhost:5432", "localhost", 5432, "10.0.0.1", False),
        ("localhost", "localhost", 80, "127.0.0.1", False),
        ("intranet.example:443", "intranet.example", 443, "10.1.2.3", True),
        ("intranet.example:443", "intranet.example", 443, "100.64.1.1", True),
        ("intranet.example:443", "intranet.example", 443, "fd00::1", True),
        ("intranet.example", "intranet.example", 443, "10.1.2.3", False),
        ("intranet.example:443", "intranet.example", 443, "127.0.0.1", False),
        ("intranet.example:443", "intranet.example", 443, "169.254.169.254", False),
        ("intranet.example:443", "intranet.example", 443, "fe80::1", False),
        ("intranet.example:443", "intranet.example", 443, "0.0.0.0", False),
        ("*.example:443", "intranet.example", 443, "10.1.2.3", False),
        ("*", "10.0.0.5", 80, "10.0.0.5", False),
        ("*:80", "10.0.0.5", 80, "10.0.0.5", False),
        ("*", "localhost", 5432, "127.0.0.1", False),
    ],
)
def test_private_addresses_need_a_rule_that_names_them(
    pattern: str, host: str, port: int, address: str, is_allowed: bool
) -> None:
    assert DomainRules.parse([pattern]).allows_address(host, port, address) is is_allowed


# -- permission rules ------------------------------------------------------------------------------


def parse_rules(*texts: str) -> list[PermissionRule]:
    return [parse_known_rule(text) for text in texts]


def test_rules_about_domains_come_from_permission_rules() -> None:
    allow = parse_rules("network(pypi.org)", "network([::1]:80)", "bash(git *)", "fetch", "mcp__*")
    rules = domain_rules_of(allow, parse_rules("network(evil.example)"))
    assert [str(rule) for rule in rules.allow] == ["pypi.org", "[::1]:80"]
    assert [str(rule) for rule in rules.deny] == ["evil.example"]


@pytest.mark.parametrize("text", ["network", "network(*)", "*", "*(*)", "net*"])
def test_a_rule_for_every_call_covers_every_domain(text: str) -> None:
    assert domain_rules_of(parse_rules(text)).allows_everything


def test_a_pattern_for_all_tools_is_not_about_domains() -> None:
    assert domain_rules_of(parse_rules("*(src/**)")) == DomainRules()


def test_an_invalid_domain_in_a_permission_rule_is_an_error() -> None:
    with raises_code(InvalidValue, "domain_is_url"):
        domain_rules_of(parse_rules("network(https://pypi.org)"))


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("pypi.org", "network(pypi.org)"),
        ("pypi.org:8443", "network(pypi.org:8443)"),
        ("[::1]:80", "network([::1]:80)"),
        ("*", "network(*)"),
        ("a b", ""),
    ],
)
def test_a_suggested_rule_covers_the_blocked_target(target: str, rule: str) -> None:
    access = SandboxAccess(AccessKind.NETWORK, target)
    assert suggest_network_rule(access) == rule
    if rule:
        assert domain_rules_of(parse_rules(rule)).allow


def test_no_network_rule_is_suggested_for_other_accesses() -> None:
    assert suggest_network_rule(SandboxAccess(AccessKind.WRITE, "pypi.org")) == ""


@given(
    st.sampled_from(["a.example", "example.org", "10.0.0.1", "::1", "localhost"]),
    st.integers(min_value=1, max_value=65_535),
)
def test_the_recorded_target_is_a_rule_for_exactly_that_target(host: str, port: int) -> None:
    assert DomainRules.parse([format_target(host, port)]).is_allowed(host, port)
    rules = DomainRules.parse([format_host_and_port(host, port)])
    assert rules.is_allowed(host, port)
    assert not rules.is_allowed(host, port % 65_535 + 1)
    assert is_ip_address(host) == host[0].isdigit() or host == "::1"
