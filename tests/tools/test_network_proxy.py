"""The proxy lets commands in a sandbox reach approved domains, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from steno.errors import InvalidValue
from steno.ports import AccessKind, SandboxAccess
from steno.tools.shell.domain_rules import DomainRules
from steno.tools.shell.network_proxy import (
    DEFAULT_NETWORK_LIMITS,
    OTHER_TARGETS,
    NetworkLimits,
    NetworkProxy,
    UpstreamProxy,
    proxy_environment,
)
from tests.tools.proxy_attacks import BAD_REQUESTS
from tests.tools.proxy_setup import (
    OTHER_PUBLIC,
    PUBLIC,
    Internet,
    Recorder,
    Setup,
    ask,
    connect,
    count_descriptors,
    get,
    run,
    run_proxy,
    run_server,
    status_of,
    tunnel,
)
from tests.tools.tls_messages import ENCRYPTED_CLIENT_HELLO, hello, hello_for, server_name

pytestmark = pytest.mark.requirement("P-30")


class Trust(NamedTuple):
    """A certificate authority, and the context of a server for a.example."""

    ca_file: Path
    client: ssl.SSLContext
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.example", "127.0.0.1").configure_cert(server)
    ca_file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    return Trust(ca_file, ssl.create_default_context(cafile=str(ca_file)), server)


def internet_with(port: int, *, at: Sequence[int] = (80, 443)) -> Internet:
    """Return an internet in which one local server is a.example and b.example."""
    return Internet(
        names={"a.example": (PUBLIC,), "b.example": (PUBLIC,)},
        ports={(PUBLIC, number): port for number in at},
    )


# -- allowed requests ------------------------------------------------------------------------------


def test_a_plain_request_reaches_an_approved_domain() -> None:
    async def main() -> None:
        server = Recorder()
        async with (
            run_server(server.serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            fields = ("Proxy-Authorization: Basic eA==", "Connection: keep-alive", "Accept: x")
            response = await ask(setup.port, get("http://a.example/x?y", *fields))
            assert response.endswith(b"\r\nConnection: close\r\n\r\nhi")
            assert server.received == [
                b"GET /x?y HTTP/1.1\r\nhost: a.example\r\naccept: x\r\nconnection: close\r\n\r\n"
            ]
            assert setup.internet.connections == [(PUBLIC, 80)]
            (contacted,) = setup.proxy.contacted
            assert (contacted.target, contacted.connections) == ("a.example", 1)
            assert contacted.sent_bytes == len(server.received[0])
            assert contacted.received_bytes == len(response)
            assert setup.proxy.refusals == ()

    run(main())


def test_a_tunnel_carries_tls(trust: Trust) -> None:
    async def main() -> None:
        async with (
            run_server(Recorder().serve, ssl=trust.server) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(tunnel("a.example:443"))
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
            await writer.start_tls(trust.client, server_hostname="a.example")
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.readuntil(b"hi") != b""
            assert setup.proxy.refusals == ()

    run(main())


def test_bodies_pass_in_both_forms() -> None:
    async def main() -> None:
        server = Recorder()
        body = bytes(range(256)) * 1_000
        async with (
            run_server(server.serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            sized = get("http://a.example/", f"Content-Length: {len(body)}", method="PUT")
            assert (await ask(setup.port, sized + body)).endswith(b"hi")
            chunked = get("http://a.example/", "Transfer-Encoding: chunked", method="POST")
            chunks = b"3;x=y\r\nabc\r\n%X\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(body), body)
            assert (await ask(setup.port, chunked + chunks)).endswith(b"hi")
            first, second = server.received
            assert first.endswith(b"\r\n\r\n" + body)
            assert second.partition(b"\r\n\r\n")[2] == b"3\r\nabc\r\n%x\r\n%b\r\n0\r\n\r\n" % (
                len(body),
                body,
            )

    run(main())


def test_interim_responses_are_passed_on() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()

    async def main() -> None:
        async with (
            run_server(serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
            connect(setup.port) as (reader, writer),
        ):
            fields = ("Expect: 100-continue", "Content-Length: 4")
            writer.write(get("http://a.example/", *fields, method="POST"))
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 100
            writer.write(b"body")
            assert status_of(await reader.read()) == 204

    run(main())


def test_a_server_may_answer_before_it_has_read_the_body() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\n\r\n")
        await writer.drain()

    async def main() -> None:
        async with (
            run_server(serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(get("http://a.example/", "Content-Length: 1000000000", method="PUT"))
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 413

    run(main())


def test_only_one_request_is_passed_on() -> None:
    async def main() -> None:
        server = Recorder()
        async with (
            run_server(server.serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            smuggled = get("http://a.example/second")
            await ask(setup.port, get("http://a.example/first") + smuggled)
            fields = ("Content-Length: 2",)
            await ask(
                setup.port, get("http://a.example/", *fields, method="PUT") + b"xy" + smuggled
            )
            assert len(server.received) == 2
            assert not any(b"second" in request for request in server.received)
            assert setup.proxy.contacted[0].connections == 2

    run(main())


def test_a_server_that_sends_no_response_is_reported() -> None:
    async def main() -> None:
        for answer in (b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n"):
            server = Recorder(answer)
            async with (
                run_server(server.serve) as port,
                run_proxy("a.example", internet=internet_with(port)) as setup,
            ):
                assert status_of(await ask(setup.port, get("http://a.example/"))) == 502

    run(main())


def test_the_next_address_is_tried() -> None:
    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            internet = internet_with(port)
            internet.names["a.example"] = (OTHER_PUBLIC, "2606:4700::1", PUBLIC)
            async with run_proxy("a.example", internet=internet) as setup:
                assert status_of(await ask(setup.port, get("http://a.example/"))) == 200
            assert [address for address, _ in internet.connections] == [
                OTHER_PUBLIC,
                "2606:4700::1",
                PUBLIC,
            ]

    run(main())


def test_an_unreachable_server_is_not_a_refusal() -> None:
    async def main() -> None:
        internet = Internet(names={"a.example": (PUBLIC,)})
        async with run_proxy("*", internet=internet) as setup:
            assert status_of(await ask(setup.port, tunnel("a.example:443"))) == 502
            assert status_of(await ask(setup.port, tunnel("unknown.example:443"))) == 502
            assert setup.proxy.refusals == ()
            assert setup.proxy.contacted == ()

    run(main())


# -- refused requests ------------------------------------------------------------------------------


def test_other_domains_are_refused_and_recorded() -> None:
    async def main() -> None:
        async with run_proxy("a.example") as setup:
            refused = [
                tunnel("PyPI.org:443"),
                get("http://pypi.org/simple"),
                tunnel("b.example:8443"),
                tunnel("localhost:80"),
                tunnel("[::1]:443"),
                tunnel("pypi.org.:443"),
                tunnel("a.example:22"),
                tunnel("x.a.example:443"),
            ]
            responses = [await ask(setup.port, request) for request in refused]
            assert [status_of(response) for response in responses] == [403] * len(refused)
            assert b"pypi.org" in responses[0].partition(b"\r\n")[0]
            assert b"network(pypi.org)" in responses[0]
            assert setup.blocked == [
                *("pypi.org", "b.example:8443", "localhost:80", "[::1]", "a.example:22"),
                "x.a.example",
            ]
            assert setup.proxy.blocked[0] == SandboxAccess(AccessKind.NETWORK, "pypi.org")
            # What is not allowed is not even looked up: the lookup itself could carry a secret.
            assert (setup.internet.lookups, setup.internet.connections) == ([], [])
            rules = DomainRules.parse(setup.blocked)
            assert rules.is_allowed("b.example", 8443)
            assert rules.is_allowed("pypi.org", 443)

    run(main())


def test_a_denied_domain_cannot_be_approved() -> None:
    async def main() -> None:
        async with run_proxy("*", deny=["evil.example"]) as setup:
            assert status_of(await ask(setup.port, tunnel("evil.example:443"))) == 403
            assert setup.reasons == ["denied evil.example"]
            assert setup.blocked == []

    run(main())


@pytest.mark.parametrize(
    ("rule", "target", "addresses", "blocked"),
    [
        ("*", "a.example:443", ["127.0.0.1"], []),
        ("*", "a.example:443", ["169.254.169.254"], []),
        ("*", "a.example:443", ["0.0.0.0"], []),
        ("*", "a.example:443", ["::1"], []),
        ("*", "a.example:443", ["::ffff:127.0.0.1"], []),
        ("*", "a.example:443", ["64:ff9b::7f00:1"], []),
        ("*", "a.example:443", ["fe80::1%eth0"], []),
        ("*", "a.example:443", ["no address"], []),
        ("*", "a.example:443", ["10.0.0.5"], ["a.example:443"]),
        ("*", "a.example:80", ["fd00::5"], ["a.example:80"]),
        ("a.example", "a.example:443", ["10.0.0.5"], ["a.example:443"]),
        ("a.example:443", "a.example:443", ["127.0.0.1"], []),
        ("a.example", "a.example:443", [PUBLIC, "127.0.0.1"], []),
        ("a.example", "a.example:443", [PUBLIC, "192.168.1.1"], ["a.example:443"]),
        ("*", "localhost:5432", ["127.0.0.1"], ["localhost:5432"]),
        ("*", "127.0.0.1:443", [], ["127.0.0.1:443"]),
        ("*", "[::1]:8080", [], ["[::1]:8080"]),
        ("*", "[::ffff:10.0.0.1]:8080", [], ["10.0.0.1:8080"]),
        ("*", "169.254.169.254:80", [], ["169.254.169.254:80"]),
        ("*:80", "10.0.0.1:80", [], ["10.0.0.1:80"]),
        ("localhost:80", "localhost:80", ["10.0.0.1"], []),
    ],
)
def test_private_addresses_are_refused(
    rule: str, target: str, addresses: list[str], blocked: list[str]
) -> None:
    async def main() -> None:
        internet = Internet(names={target.rpartition(":")[0]: addresses})
        async with run_proxy(rule, internet=internet) as setup:
            assert status_of(await ask(setup.port, tunnel(target))) == 403
            assert [reason.split()[0] for reason in setup.reasons] == ["private_address"]
            assert setup.blocked == blocked
            assert internet.connections == []

    run(main())


def test_a_private_server_is_reached_if_a_rule_names_it() -> None:
    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            internet = Internet(
                names={"localhost": ("127.0.0.1",), "intranet.example": ("10.0.0.5",)},
                ports={("127.0.0.1", port): port, ("10.0.0.5", 80): port},
            )
            rules = (f"localhost:{port}", f"127.0.0.1:{port}", "intranet.example:80", "10.0.0.5")
            async with run_proxy(*rules, internet=internet) as setup:
                hosts = (f"localhost:{port}", f"127.0.0.1:{port}", "intranet.example", "10.0.0.5")
                for host in hosts:
                    assert status_of(await ask(setup.port, get(f"http://{host}/"))) == 200
                other = f"localhost:{port + 1 if port < 65_535 else 1_024}"
                assert status_of(await ask(setup.port, get(f"http://{other}/"))) == 403

    run(main())


def test_real_lookups_and_connections_reach_loopback_by_name_and_address() -> None:
    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            rules = (f"localhost:{port}", f"127.0.0.1:{port}")
            async with run_proxy(*rules, resolve_host=None, open_connection=None) as setup:
                for host in ("localhost", "127.0.0.1"):
                    response = await ask(setup.port, get(f"http://{host}:{port}/"))
                    assert response.endswith(b"hi")

    run(main())


def test_an_ipv6_server_is_reached_by_its_address() -> None:
    async def main() -> None:
        async with (
            run_server(Recorder().serve, host="::1") as port,
            run_proxy(f"[::1]:{port}", open_connection=None) as setup,
        ):
            assert (await ask(setup.port, get(f"http://[::1]:{port}/"))).endswith(b"hi")

    run(main())


def test_the_checked_address_is_the_one_that_is_contacted() -> None:
    """A name that changes its address between the check and the connection gains nothing."""

    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            internet = internet_with(port)
            answers = iter([(PUBLIC,), ("127.0.0.1",), (PUBLIC,)])

            async def rebind(host: str) -> Sequence[str]:
                internet.lookups.append(host)
                return next(answers)

            async with run_proxy("a.example", internet=internet, resolve_host=rebind) as setup:
                statuses = [
                    status_of(await ask(setup.port, get("http://a.example/"))) for _ in range(3)
                ]
            assert statuses == [200, 403, 200]
            assert len(internet.lookups) == 3
            assert internet.connections == [(PUBLIC, 80)] * 2

    run(main())


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (hello_for("b.example"), "server_name_mismatch"),
        (hello(), "server_name_missing"),
        (hello(server_name(b"a.example"), ENCRYPTED_CLIENT_HELLO), "server_name_encrypted"),
        (b"\x16\x03\x01\x00\x00", "invalid_hello"),
        (b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", "not_tls"),
        (b"SSH-2.0-OpenSSH\r\n", "not_tls"),
    ],
)
def test_a_tunnel_to_another_server_is_closed(first: bytes, reason: str) -> None:
    async def main() -> None:
        received: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.read())

        async with (
            run_server(serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            response = await ask(setup.port, tunnel("a.example:443") + first)
            head, _, rest = response.partition(b"\r\n\r\n")
            assert status_of(head) == 200
            assert rest[:1] == (b"" if reason == "not_tls" else b"\x15")
            assert setup.reasons == [f"{reason} a.example"]
            assert setup.blocked == []
            assert b"".join(received) == b""

    run(main())


def test_a_tunnel_to_port_80_needs_a_rule_for_the_port() -> None:
    async def main() -> None:
        server = Recorder()
        async with run_server(server.serve) as port:
            plain = tunnel("a.example:80") + b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"
            internet = internet_with(port)
            async with run_proxy("a.example", internet=internet) as setup:
                await ask(setup.port, plain)
                assert setup.reasons == ["not_tls a.example"]
                assert setup.blocked == ["a.example:80"]
                assert server.received in ([], [b""])
                setup.proxy.rules = DomainRules.parse(setup.blocked)
                assert (await ask(setup.port, plain)).endswith(b"hi")

    run(main())


def test_a_server_may_speak_first_in_a_tunnel_to_a_named_port() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        assert await reader.readline() == b"QUIT\r\n"
        assert await reader.read() == b""
        writer.write(b"221 bye\r\n")
        await writer.drain()

    async def main() -> None:
        async with (
            run_server(serve) as port,
            run_proxy("a.example:25", internet=internet_with(port, at=[25])) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(tunnel("a.example:25"))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readline() == b"220 hello\r\n"
            writer.write(b"QUIT\r\n")
            writer.write_eof()
            assert await reader.read() == b"221 bye\r\n"

    run(main())


def test_ambiguous_requests_reach_no_server() -> None:
    async def main() -> None:
        async with run_proxy("*") as setup:
            for name, data in BAD_REQUESTS.items():
                assert status_of(await ask(setup.port, data)) == 400, name
            assert (setup.internet.lookups, setup.internet.connections) == ([], [])

    run(main())


@pytest.mark.parametrize(
    "body",
    [
        b"xyz\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"-1\r\n",
        b"3\r\nabc\n0\r\n\r\n",
    ],
)
def test_a_malformed_body_is_refused(body: bytes) -> None:
    async def main() -> None:
        server = Recorder()
        async with (
            run_server(server.serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            request = get("http://a.example/", "Transfer-Encoding: chunked", method="POST")
            assert status_of(await ask(setup.port, request + body)) == 400
            assert not any(request.endswith(b"0\r\n\r\n") for request in server.received)

    run(main())


def test_an_incomplete_body_ends_the_request() -> None:
    async def main() -> None:
        server = Recorder()
        async with (
            run_server(server.serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(get("http://a.example/", "Content-Length: 10", method="PUT") + b"abc")
            writer.write_eof()
            assert status_of(await reader.read()) == 502

    run(main())


# -- the user's own proxy --------------------------------------------------------------------------


def test_requests_go_through_the_proxy_of_the_user() -> None:
    async def main() -> None:
        asked: list[str] = []
        heads: list[bytes] = []
        names = iter(
            [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nhi", b"HTTP/1.1 407 No\r\n\r\n"]
        )

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(next(names))
            if heads[-1].startswith(b"CONNECT"):
                await reader.read()
            await writer.drain()

        async with run_server(serve) as port:
            upstream = UpstreamProxy("127.0.0.1", port, "Basic c2VjcmV0")
            assert "c2VjcmV0" not in repr(upstream)

            def find_upstream(url: str) -> UpstreamProxy:
                asked.append(url)
                return upstream

            async with run_proxy("*", find_upstream=find_upstream) as setup:
                async with connect(setup.port) as (reader, writer):
                    writer.write(tunnel("a.example:443"))
                    assert status_of(await reader.readuntil(b"\r\n\r\n")) == 200
                    writer.write(hello_for("b.example"))
                    assert (await reader.read())[:1] == b"\x15"
                plain = get("http://a.example/x", "Proxy-Authorization: Basic eA==")
                assert (await ask(setup.port, plain)).endswith(b"hi")
                assert status_of(await ask(setup.port, tunnel("a.example:8443"))) == 502
                # Its addresses can still be checked, and it is never asked for this machine.
                assert status_of(await ask(setup.port, tunnel("169.254.169.254:443"))) == 403
                assert status_of(await ask(setup.port, tunnel("localhost:443"))) == 502
                assert setup.internet.lookups == ["localhost"]
        assert asked == [
            "https://a.example:443",
            "http://a.example:80",
            "https://a.example:8443",
            "https://169.254.169.254:443",
        ]
        authorization = b"proxy-authorization: basic c2vjcmv0"
        assert [head.lower().count(authorization) for head in heads] == [1, 1, 1]
        assert heads[0].startswith(b"CONNECT a.example:443 HTTP/1.1\r\n")
        assert heads[1].startswith(b"GET http://a.example/x HTTP/1.1\r\n")
        assert b"eA==" not in heads[1]

    run(main())


def test_without_the_proxy_of_the_user_the_connection_fails() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        async with run_proxy(
            "*", find_upstream=lambda _: UpstreamProxy("127.0.0.1", port)
        ) as setup:
            assert status_of(await ask(setup.port, tunnel("a.example:443"))) == 502

    run(main())


def test_an_invalid_proxy_of_the_user_is_reported() -> None:
    def find_upstream(_: str) -> UpstreamProxy:
        raise InvalidValue("invalid", code="invalid_proxy")

    async def main() -> None:
        async with run_proxy("*", find_upstream=find_upstream) as setup:
            assert status_of(await ask(setup.port, tunnel("a.example:443"))) == 502

    run(main())


# -- limits and hostile clients --------------------------------------------------------------------


def test_connections_beyond_the_limit_wait() -> None:
    async def main() -> None:
        busy, most = 0, 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0)
            busy -= 1
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()

        async with (
            run_server(serve) as port,
            run_proxy(
                "a.example", internet=internet_with(port), limits=NetworkLimits(max_connections=4)
            ) as setup,
        ):
            requests = [ask(setup.port, get("http://a.example/")) for _ in range(40)]
            responses = await asyncio.gather(*requests)
            assert {status_of(response) for response in responses} == {204}
            assert setup.proxy.contacted[0].connections == 40
        assert 0 < most <= 4

    run(main())


def test_thousands_of_connections_leave_nothing() -> None:
    async def main() -> None:
        limits = NetworkLimits(max_connections=16)
        async with run_proxy("*", limits=limits) as setup:
            before = count_descriptors()
            for _ in range(30):
                opened = [
                    await asyncio.open_connection("127.0.0.1", setup.port) for _ in range(100)
                ]
                for number, (_, writer) in enumerate(opened):
                    writer.write(b"\x00\r\n\r\n" if number % 2 else b"GET ")
                    writer.transport.abort()
            # The listener serves in order, so this one is answered after all of those.
            assert status_of(await ask(setup.port, tunnel("localhost:1"))) == 502
            assert len(asyncio.all_tasks()) <= 1 + limits.max_connections
            assert count_descriptors() <= before + 2 * limits.max_connections
            assert setup.proxy.contacted == ()

    run(main())


@pytest.mark.parametrize(
    "sent", [b"", b"GET http://a.example/ HTTP/1.1\r\nHost:", b"CONNECT a.example:443"]
)
def test_a_slow_head_is_answered_with_a_timeout(sent: bytes) -> None:
    async def main() -> None:
        async with run_proxy("*", limits=NetworkLimits(head_timeout_s=0.01)) as setup:
            assert status_of(await ask(setup.port, sent)) == 408

    run(main())


def test_a_slow_hello_ends_the_tunnel() -> None:
    async def main() -> None:
        async with (
            run_server(Recorder().serve) as port,
            run_proxy(
                "a.example",
                internet=internet_with(port),
                limits=NetworkLimits(head_timeout_s=0.2),
            ) as setup,
        ):
            response = await ask(setup.port, tunnel("a.example:443") + b"\x16\x03\x01")
            assert response.endswith(b"\r\n\r\n")

    run(main())


def test_an_idle_connection_is_closed() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with (
            run_server(serve) as port,
            run_proxy(
                "a.example",
                "a.example:25",
                internet=internet_with(port, at=[25, 80]),
                limits=NetworkLimits(idle_timeout_s=0.01),
            ) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(tunnel("a.example:25"))
            assert (await reader.read()).endswith(b"\r\n\r\n")
            assert await ask(setup.port, get("http://a.example/")) == b""

    run(main())


def test_a_client_that_reads_nothing_is_closed() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(65_536))
            await writer.drain()

    async def main() -> None:
        async with (
            run_server(serve) as port,
            run_proxy(
                "a.example:25",
                internet=internet_with(port, at=[25]),
                limits=NetworkLimits(idle_timeout_s=0.05),
            ) as setup,
            connect(setup.port) as (reader, writer),
        ):
            writer.write(tunnel("a.example:25"))
            await reader.readuntil(b"\r\n\r\n")  # from here on, only a little is read ahead
            await asyncio.wait(list(setup.proxy._connections))

    run(main())


def test_a_large_head_is_refused() -> None:
    async def main() -> None:
        async with run_proxy("*", limits=NetworkLimits(max_head_bytes=1_000)) as setup:
            large = get("http://a.example/", "A: " + "b" * 2_000)
            assert status_of(await ask(setup.port, large)) == 431
            endless = b"GET http://a.example/ HTTP/1.1\r\n" + b"A: b\r\n" * 1_000
            assert status_of(await ask(setup.port, endless)) == 431

    run(main())


def test_the_totals_of_a_command_are_limited() -> None:
    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            internet = internet_with(port)
            limits = NetworkLimits(max_total_connections=1)
            async with run_proxy("a.example", internet=internet, limits=limits) as setup:
                assert status_of(await ask(setup.port, get("http://a.example/"))) == 200
                assert status_of(await ask(setup.port, get("http://a.example/"))) == 403
                assert setup.reasons == ["limit a.example"]
                assert setup.blocked == []
            limits = NetworkLimits(max_total_bytes=100)
            async with run_proxy("a.example", internet=internet, limits=limits) as setup:
                request = get("http://a.example/", "A: " + "b" * 100)
                assert await ask(setup.port, request) == b""
                assert status_of(await ask(setup.port, request)) == 403

    run(main())


def test_records_are_bounded() -> None:
    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            internet = Internet(ports={(PUBLIC, 80): port})

            async def resolve(_: str) -> Sequence[str]:
                return (PUBLIC,)

            async with run_proxy("*.example", internet=internet, resolve_host=resolve) as setup:
                for number in range(1_010):
                    await ask(setup.port, get(f"http://a{number}.example/"))
                for number in range(110):
                    await ask(setup.port, tunnel(f"a{number}.test:443"))
                assert len(setup.proxy.blocked) == len(setup.proxy.refusals) == 100
                assert len(setup.proxy.contacted) == 1_001
                others = setup.proxy.contacted[-1]
                assert (others.target, others.connections) == (OTHER_TARGETS, 10)

    run(main())


GARBAGE = {
    "closed": b"",
    "nul": bytes(1_000),
    "socks": b"\x05\x01\x00",
    "tls": hello_for("a.example"),
    "head_end": b"\r\n\r\n",
    "many_ends": b"\r\n\r\n" * 100,
    "http_2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "half_tunnel": tunnel("a.example:443") + b"\x16\x03",
    "half_body": get("http://a.example/", "Content-Length: 9", method="PUT") + b"x",
    "endless_chunk_line": (
        get("http://a.example/", "Transfer-Encoding: chunked", method="PUT") + b"1" * 200_000
    ),
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("is_reset", [False, True], ids=["half_open", "reset"])
def test_garbage_harms_only_its_connection(sent: bytes, is_reset: bool) -> None:
    async def main() -> None:
        async with (
            run_server(Recorder().serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            for _ in range(5):
                async with connect(setup.port) as (reader, writer):
                    writer.write(sent)
                    if not is_reset:
                        writer.write_eof()
                        try:
                            await reader.read()
                        except ConnectionResetError:
                            assert len(sent) > 65_536
            assert status_of(await ask(setup.port, get("http://a.example/"))) == 200

    run(main())


# -- start and end ---------------------------------------------------------------------------------


def test_closing_ends_every_connection(trust: Trust) -> None:
    async def main() -> None:
        async with run_server(Recorder().serve, ssl=trust.server) as port:
            async with run_proxy("a.example", internet=internet_with(port)) as setup:
                waiting = await asyncio.open_connection("127.0.0.1", setup.port)
                waiting[1].write(b"GET ")
                tunneled = await asyncio.open_connection("127.0.0.1", setup.port)
                tunneled[1].write(tunnel("a.example:443"))
                await tunneled[0].readuntil(b"\r\n\r\n")
                await tunneled[1].start_tls(trust.client, server_hostname="a.example")
                assert len(setup.proxy._connections) == 2
                unaccepted = await asyncio.open_connection("127.0.0.1", setup.port)
            assert setup.proxy._connections == {}
            for reader, writer in (tunneled, waiting, unaccepted):
                with suppress(ConnectionError, ssl.SSLError):
                    assert await reader.read() == b""
                writer.transport.abort()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", setup.port)
            await setup.proxy.aclose()
            assert [server.target for server in setup.proxy.contacted] == ["a.example"]

    run(main())


def test_a_cancelled_owner_leaves_nothing() -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def own() -> None:
            async with run_proxy("*") as setup, connect(setup.port) as (_, writer):
                writer.write(b"GET ")
                assert status_of(await ask(setup.port, tunnel("localhost:1"))) == 502
                assert len(setup.proxy._connections) >= 1
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(own())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_a_proxy_that_was_never_started_closes_its_socket() -> None:
    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        await NetworkProxy(listener, DomainRules()).aclose()
        assert listener.fileno() == -1

    run(main())


# -- real clients ----------------------------------------------------------------------------------


def environment(setup: Setup, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        **proxy_environment(setup.port),
        **more,
    }


async def run_program(setup: Setup, *argv: str, **environ: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment(setup, **environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


def test_python_reaches_an_approved_domain(trust: Trust) -> None:
    async def main() -> None:
        answer = Recorder(b"HTTP/1.0 200 OK\r\n\r\nfrom the server")
        async with (
            run_server(answer.serve, ssl=trust.server) as tls_port,
            run_server(answer.serve) as plain_port,
        ):
            internet = internet_with(tls_port, at=[443])
            internet.ports[PUBLIC, 80] = plain_port
            async with run_proxy("a.example", internet=internet) as setup:
                python = (sys.executable, "-c", FETCH)
                ca = {"SSL_CERT_FILE": str(trust.ca_file)}
                for scheme in ("http", "https"):
                    result = await run_program(setup, *python, f"{scheme}://a.example/", **ca)
                    assert result == (0, "from the server\n")
                code, output = await run_program(setup, *python, "https://pypi.org/", **ca)
                assert code == 1
                assert "403" in output
                assert "pypi.org blocked by the sandbox" in output
                # Servers on the loopback of the sandbox are reached without the proxy.
                url = f"http://127.0.0.1:{plain_port}/"
                assert await run_program(setup, *python, url) == (0, "from the server\n")
                assert setup.blocked == ["pypi.org"]

    run(main())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_reaches_an_approved_domain(trust: Trust) -> None:
    async def main() -> None:
        async with (
            run_server(Recorder().serve, ssl=trust.server) as port,
            run_proxy("a.example", internet=internet_with(port, at=[443])) as setup,
        ):
            curl = ("curl", "-sS", "--cacert", str(trust.ca_file))
            assert await run_program(setup, *curl, "https://a.example/") == (0, "hi")
            code, output = await run_program(setup, *curl, "https://b.example/")
            assert (code != 0, "403" in output) == (True, True)
            # The client asks for one server, and names another one in its TLS messages.
            await run_program(
                setup, *curl, "--connect-to", "b.example:443:a.example:443", "https://b.example/"
            )
            assert setup.reasons == ["not_allowed b.example", "server_name_mismatch a.example"]

    run(main())


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_clones_from_an_approved_domain(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        path = tmp_path / "served" / first.partition("?")[0].removeprefix("/")
        if path.is_file():
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + path.read_bytes())
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        await writer.drain()
        writer.write_eof()
        await reader.read()

    def make_repository() -> None:
        git = ("git", "-C", str(tmp_path / "made"))
        (tmp_path / "made").mkdir()
        subprocess.run([*git, "init", "-q"], check=True)
        user = ("-c", "user.name=x", "-c", "user.email=x@a.example")
        commit = ("commit", "-q", "--allow-empty", "-m", "First")
        subprocess.run([*git, *user, *commit], check=True)
        clone = [
            "git",
            "clone",
            "-q",
            "--bare",
            str(tmp_path / "made"),
            str(tmp_path / "served" / "x"),
        ]
        subprocess.run(clone, check=True)
        subprocess.run(
            ["git", "-C", str(tmp_path / "served" / "x"), "update-server-info"], check=True
        )

    async def main() -> None:
        await asyncio.to_thread(make_repository)
        async with (
            run_server(serve) as port,
            run_proxy("a.example", internet=internet_with(port)) as setup,
        ):
            clone = ("git", "clone", "-q", "http://a.example/x", str(tmp_path / "cloned"))
            assert await run_program(setup, *clone) == (0, "")
            assert (tmp_path / "cloned" / ".git").is_dir()
            code, output = await run_program(setup, "git", "ls-remote", "https://b.example/x")
            assert (code != 0, "403" in output) == (True, True)
            assert setup.blocked == ["b.example"]

    run(main())


def test_the_environment_excepts_loopback_and_breaks_no_program() -> None:
    environ = proxy_environment(1234)
    assert environ["https_proxy"] == environ["HTTP_PROXY"] == "http://127.0.0.1:1234"
    assert {"localhost", "127.0.0.1", "::1"} <= set(environ["no_proxy"].split(","))
    assert "YARN_NO_PROXY" not in environ  # Yarn stops at variables that it does not know


IN_A_NETWORK_OF_ITS_OWN = """
import fcntl, socket, struct, sys, urllib.request
handed = socket.socket(fileno=int(sys.argv[1]))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # start the loopback device
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
listener = socket.create_server(("127.0.0.1", 0))
socket.send_fds(handed, [b"x"], [listener.fileno()])
port = listener.getsockname()[1]
listener.close()
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)
except ConnectionRefusedError:
    print("no way out")
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{port}"})
)
print(opener.open("http://a.example/").read().decode())
"""


def can_make_network() -> bool:
    argv = ("unshare", "--user", "--map-root-user", "--net", "true")
    return shutil.which("unshare") is not None and (
        subprocess.run(argv, check=False, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not can_make_network(), reason="no network namespaces")
def test_a_socket_of_another_network_is_served() -> None:
    """The socket belongs to the sandbox's network, and the connections to the user's."""

    async def main() -> None:
        async with run_server(Recorder().serve) as port:
            ours, theirs = socket.socketpair()
            process = await asyncio.create_subprocess_exec(
                *("unshare", "--user", "--map-root-user", "--net", sys.executable, "-c"),
                *(IN_A_NETWORK_OF_ITS_OWN, str(theirs.fileno()), str(port)),
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
            )
            theirs.close()
            with ours:
                _, fds, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 1, 1)
            internet = internet_with(port)
            async with NetworkProxy(
                socket.socket(fileno=fds[0]),
                DomainRules.parse(["a.example"]),
                resolve_host=internet.resolve,
                open_connection=internet.connect,
            ):
                output, _ = await process.communicate()
            assert output.decode() == "no way out\nhi\n"

    run(main())


def test_a_denied_name_cannot_be_reached_without_its_name() -> None:
    rules = DomainRules.parse(["*", "*:8080", "10.0.0.5", "db.example.org:5432"], ["evil.example"])
    assert rules.is_allowed("pypi.org", 443)
    assert not rules.is_allowed("93.184.216.34", 443)
    assert not rules.is_allowed("2606:2800::1", 8080)
    assert rules.is_allowed("10.0.0.5", 80)
    assert not rules.allows_any_protocol("pypi.org", 22)
    assert not rules.allows_any_protocol("pypi.org", 8080)
    assert rules.allows_any_protocol("db.example.org", 5432)
    assert DomainRules.parse(["*"], ["10.0.0.9"]).is_allowed("93.184.216.34", 443)


def test_the_connections_of_several_commands_leave_file_descriptors_for_others() -> None:
    usual_limit = 1024
    assert DEFAULT_NETWORK_LIMITS.max_connections * 2 * 4 <= usual_limit
