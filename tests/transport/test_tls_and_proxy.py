"""Certificates are always checked, and a proxy is used if one is set."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from steno.errors import InvalidValue, Unreachable
from steno.ports import HttpRequest
from steno.transport.http import HttpTransport, TimeLimits
from steno.transport.proxy import proxy_for
from tests.transport.http_client import error_of, free_port, post, read_all
from tests.transport.http_proxy import run_proxy
from tests.transport.http_server import STALL, STREAM, chunk, reply, run, run_server


class Trust(NamedTuple):
    """A certificate authority for tests."""

    ca_file: Path
    server: ssl.SSLContext
    """The context of a server with a certificate for 127.0.0.1 and lab.example."""


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "lab.example").configure_cert(server)
    ca_file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    return Trust(ca_file, server)


# -- certificates --------------------------------------------------------------------------------


def test_a_certificate_of_a_custom_authority_is_trusted(trust: Trust) -> None:
    async def main() -> None:
        async with run_server(reply(200, b"safe"), tls=trust.server) as server:
            transport = HttpTransport(environ={}, ca_file=trust.ca_file)
            assert await read_all(await transport.open(post(server.url))) == b"safe"
            await transport.close()

    run(main())


def pinned(url: str, *addresses: str) -> HttpRequest:
    return HttpRequest("GET", url, {}, addresses=addresses)


def test_a_request_connects_to_a_checked_address_and_verifies_the_name(trust: Trust) -> None:
    async def main() -> None:
        scripts = [reply(200, b"first"), reply(200, b"second")]
        async with run_server(*scripts, tls=trust.server) as server:
            transport = HttpTransport(environ={}, ca_file=trust.ca_file)
            url = f"https://lab.example:{server.port}/x"
            for body in (b"first", b"second"):
                response = await transport.open(pinned(url, "127.0.0.1"))
                assert await read_all(response) == body
            wrong = f"https://other.example:{server.port}/x"
            error = await error_of(transport.open(pinned(wrong, "127.0.0.1")))
            assert error.code == "certificate_refused"
            await transport.close()
        assert [seen.headers["host"] for seen in server.seen] == [f"lab.example:{server.port}"] * 2
        assert [seen.connection for seen in server.seen] == [1, 2]

    run(main())


def test_a_request_without_an_address_connects_to_nothing() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"no")) as server:
            transport = HttpTransport(environ={})
            error = await error_of(transport.open(pinned(f"http://localhost:{server.port}/x")))
            assert isinstance(error, Unreachable)
            assert (error.code, error.retryable) == ("unknown_host", False)
            await transport.close()
        assert server.connections == 0

    run(main())


def test_a_connection_of_another_request_is_not_used_for_a_pinned_one() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"open")) as server:
            transport = HttpTransport(environ={}, limits=TimeLimits(connect_s=0.5))
            url = f"http://localhost:{server.port}/x"
            assert await read_all(await transport.open(HttpRequest("GET", url, {}))) == b"open"
            error = await error_of(transport.open(pinned(url, "127.255.255.254")))
            assert isinstance(error, Unreachable)
            await transport.close()
        assert [seen.path for seen in server.seen] == ["/x"]

    run(main())


def test_a_proxy_resolves_the_host_of_a_pinned_request() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"near")) as server, run_proxy(server.port) as proxy:
            transport = HttpTransport(environ={"http_proxy": proxy.url})
            response = await transport.open(pinned("http://lab.example/x"))
            assert await read_all(response) == b"near"
            await transport.close()
        assert proxy.asked == ["GET http://lab.example/x HTTP/1.1"]

    run(main())


def test_an_untrusted_certificate_is_refused_and_not_retried(trust: Trust) -> None:
    async def main() -> None:
        async with run_server(reply(200, b"safe"), tls=trust.server) as server:
            transport = HttpTransport(environ={})
            error = await error_of(transport.open(post(server.url)))
            assert isinstance(error, Unreachable)
            assert not error.retryable
            assert error.code == "certificate_refused"
            await transport.close()
        assert server.seen == []

    run(main())


def test_a_certificate_for_another_name_is_refused(trust: Trust) -> None:
    async def main() -> None:
        async with run_server(reply(200, b"safe"), tls=trust.server) as server:
            transport = HttpTransport(environ={}, ca_file=trust.ca_file)
            error = await error_of(transport.open(post(f"https://localhost:{server.port}/")))
            assert isinstance(error, Unreachable)
            assert (error.code, error.retryable) == ("certificate_refused", False)
            await transport.close()

    run(main())


def test_a_server_without_tls_receives_no_plain_request() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"plain")) as server:
            transport = HttpTransport(environ={})
            error = await error_of(transport.open(post(server.url.replace("http:", "https:"))))
            assert isinstance(error, Unreachable)
            await transport.close()
        assert server.seen == []

    # The server cannot decode the bytes, and asyncio would print the error.
    asyncio.run(_quietly(main))


async def _quietly(main: Any) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    await main()


def test_closing_ends_a_waiting_read_over_tls_too(trust: Trust) -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL], tls=trust.server) as server:
            transport = HttpTransport(environ={}, ca_file=trust.ca_file)
            response = await transport.open(post(server.url))
            await response.read()
            reader = asyncio.create_task(response.read())
            await server.stalled.wait()
            response.close()
            assert isinstance(await error_of(reader), Unreachable)
            await server.hung_up.wait()
            await transport.close()

    run(main())


# -- proxies -------------------------------------------------------------------------------------


def test_a_plain_request_goes_through_the_proxy() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"far")) as server, run_proxy(server.port) as proxy:
            transport = HttpTransport(environ={}, proxy=proxy.url)
            assert await read_all(await transport.open(post("http://lab.example/v1/x"))) == b"far"
            await transport.close()
        assert proxy.asked == ["POST http://lab.example/v1/x HTTP/1.1"]

    run(main())


def test_a_secure_request_is_tunnelled_and_its_certificate_checked(trust: Trust) -> None:
    async def main() -> None:
        async with (
            run_server(reply(200, b"far"), tls=trust.server) as server,
            run_proxy(server.port) as proxy,
        ):
            transport = HttpTransport(environ={}, proxy=proxy.url, ca_file=trust.ca_file)
            url = "https://lab.example/v1/x"
            assert await read_all(await transport.open(post(url))) == b"far"
            error = await error_of(transport.open(post("https://other.example/")))
            assert isinstance(error, Unreachable)
            assert error.code == "certificate_refused"
            await transport.close()
        assert proxy.asked[0] == "CONNECT lab.example:443 HTTP/1.1"
        assert [seen.path for seen in server.seen] == ["/v1/x"]

    run(main())


def test_a_tunnelling_proxy_does_not_see_the_request(trust: Trust) -> None:
    async def main() -> None:
        async with (
            run_server(reply(200, b"far"), tls=trust.server) as server,
            run_proxy(server.port) as proxy,
        ):
            transport = HttpTransport(environ={}, proxy=proxy.url, ca_file=trust.ca_file)
            request = post("https://lab.example/")._replace(headers={"authorization": "s3cret"})
            await read_all(await transport.open(request))
            await transport.close()
        assert b"s3cret" not in b"".join(proxy.heads)
        assert server.seen[0].headers["authorization"] == "s3cret"

    run(main())


def test_the_proxy_gets_the_password_of_its_address_and_the_server_does_not() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"far")) as server, run_proxy(server.port) as proxy:
            address = proxy.url.replace("//", "//user:s3cret@")
            transport = HttpTransport(environ={}, proxy=address)
            await read_all(await transport.open(post("http://lab.example/")))
            assert "s3cret" not in repr(transport)
            await transport.close()
        assert proxy.credentials == ["Basic " + base64.b64encode(b"user:s3cret").decode()]

    run(main())


@pytest.mark.parametrize(
    ("status", "retryable", "code"),
    [(407, False, "proxy_credentials_refused"), (502, True, "proxy_refused")],
)
def test_a_proxy_that_refuses_is_named(status: int, retryable: bool, code: str) -> None:
    async def main() -> None:
        async with run_proxy(0, refuse_with=status) as proxy:
            address = proxy.url.replace("//", "//user:s3cret@")
            transport = HttpTransport(environ={}, proxy=address)
            error = await error_of(transport.open(post("https://lab.example/")))
            assert isinstance(error, Unreachable)
            assert (error.code, error.place) == (code, "lab.example")
            assert f"the proxy 127.0.0.1:{proxy.port} (passed as proxy)" in error.message
            assert "s3cret" not in str(error)
            assert error.retryable is retryable
            assert error.__context__ is None
            await transport.close()

    run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_needs_a_password_is_named(scheme: str) -> None:
    """Only TLS goes through a tunnel; the proxy responds to other requests itself."""

    async def main() -> None:
        async with run_proxy(0, refuse_with=407) as proxy:
            transport = HttpTransport(environ={"ALL_PROXY": proxy.url})
            error = await error_of(transport.open(post(f"{scheme}://lab.example/")))
            assert isinstance(error, Unreachable)
            assert not error.retryable
            assert (error.code, error.place) == ("proxy_credentials_missing", "lab.example")
            assert f"the proxy 127.0.0.1:{proxy.port} (from ALL_PROXY)" in error.message
            await transport.close()

    run(main())


def test_a_server_that_asks_like_a_proxy_is_not_taken_for_one() -> None:
    async def main() -> None:
        async with run_server(reply(407, b"who?")) as server:
            transport = HttpTransport(environ={})
            response = await transport.open(post(server.url))
            assert (response.status, await read_all(response)) == (407, b"who?")
            await transport.close()

    run(main())


def test_a_proxy_that_cannot_be_reached_is_named() -> None:
    async def main() -> None:
        port = free_port()
        transport = HttpTransport(environ={"http_proxy": f"user:s3cret@127.0.0.1:{port}"})
        error = await error_of(transport.open(post("http://lab.example/")))
        assert (error.code, error.place) == ("proxy_unreachable", "lab.example")
        assert f"the proxy 127.0.0.1:{port} (from http_proxy)" in error.message
        assert "s3cret" not in str(error)
        await transport.close()

    run(main())


def test_the_environment_names_a_proxy() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"far")) as server, run_proxy(server.port) as proxy:
            transport = HttpTransport(environ={"http_proxy": proxy.url})
            assert await read_all(await transport.open(post("http://lab.example/"))) == b"far"
            await transport.close()
        assert len(proxy.asked) == 1

    run(main())


def test_loopback_is_reached_without_the_proxy_of_the_environment() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"near")) as server:
            transport = HttpTransport(environ={"all_proxy": f"http://127.0.0.1:{free_port()}"})
            assert await read_all(await transport.open(post(server.url))) == b"near"
            await transport.close()

    run(main())


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.example/", {}, None),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"https_proxy": "p:1"}, "http://p:1"),
        (
            "https://a.example/",
            {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"},
            "http://p:1",
        ),
        ("https://a.example/", {"http_proxy": "http://p:1"}, None),
        ("https://a.example/", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("http://a.example/", {"all_proxy": "http://p:1", "no_proxy": "a.example"}, None),
        ("http://b.a.example/", {"all_proxy": "http://p:1", "NO_PROXY": "x, .a.example"}, None),
        ("http://b.a.example/", {"all_proxy": "http://p:1", "no_proxy": "*.a.example"}, None),
        ("http://ba.example/", {"all_proxy": "http://p:1", "no_proxy": "a.example"}, "http://p:1"),
        ("http://a.example:81/", {"all_proxy": "http://p:1", "no_proxy": "a.example:81"}, None),
        (
            "http://a.example/",
            {"all_proxy": "http://p:1", "no_proxy": "a.example:81"},
            "http://p:1",
        ),
        ("http://a.example/", {"all_proxy": "http://p:1", "no_proxy": "*"}, None),
        ("http://localhost:1/", {"all_proxy": "http://p:1"}, None),
        ("http://127.8.8.8/", {"all_proxy": "http://p:1"}, None),
        ("http://[::1]:8080/", {"all_proxy": "http://p:1"}, None),
    ],
)
def test_which_proxy_a_request_goes_through(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    found = proxy_for(url, environ)
    assert (found and found.url) == proxy


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("http://user:s3cret@p:1", "the proxy p:1 (from all_proxy)"),
        ("http://p", "the proxy p:80 (from all_proxy)"),
        ("https://p/", "the proxy p:443 (from all_proxy)"),
        ("http://[fe80::1]:3128", "the proxy [fe80::1]:3128 (from all_proxy)"),
    ],
)
def test_a_proxy_is_shown_without_its_password(address: str, text: str) -> None:
    found = proxy_for("https://a.example/", {"all_proxy": address})
    assert (str(found), repr(found)) == (text, f"Proxy({text})")


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("socks5://user:s3cret@p:1", "unsupported_proxy_scheme"),
        ("http://user:s3cret", "invalid_proxy"),
        ("http://user:pa/s3cret@p:1", "unescaped_proxy_password"),
        ("http://user:pa?s3cret@p:1", "unescaped_proxy_password"),
        ("http://user:1/s3cret@p:1", "unescaped_proxy_password"),
        ("http://user:1#s3cret@p:1", "unescaped_proxy_password"),
        ("http://s3cret\x1b[1m@p:1", "invalid_proxy"),
        ("http://", "invalid_proxy"),
    ],
)
def test_an_invalid_proxy_is_refused_and_its_source_named(address: str, code: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        proxy_for("https://a.example/", {"ALL_PROXY": address})
    assert (caught.value.code, caught.value.place) == (code, "ALL_PROXY")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidValue) as caught:
        HttpTransport(proxy=address)
    assert (caught.value.code, caught.value.place) == (code, "proxy")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None
