"""Images from URLs: every hop needs permission, and none may lead to a private address."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme

from steno.errors import ToolFailed
from steno.inputs.images.fetch import FetchLimits, fetch_image, resolve_host
from steno.ports import Capability, HttpRequest, HttpResponse, ResolveContext
from steno.transport.http import HttpTransport
from tests.inputs.images.image_samples import ScriptedPermission, encode_image, red_image, run
from tests.raised_errors import raises_code
from tests.transport.http_server import CUT, STALL, Script, chunk, reply, response_head, run_server

PICTURE = encode_image(red_image())
PUBLIC = ("93.184.215.14",)
CHUNKED = response_head(content_type="image/png", transfer_encoding="chunked")


def picture(**headers: str) -> list[bytes]:
    return reply(200, PICTURE, "image/png", **headers)


def redirect(location: str, status: int = 302) -> list[bytes]:
    return reply(status, b"", "text/html", location=location)


async def public(host: str) -> tuple[str, ...]:
    return PUBLIC


async def fetched(
    *scripts: Script,
    path: str = "/shot.png",
    permit: ScriptedPermission | None = None,
    limits: FetchLimits | None = None,
) -> bytes:
    """Fetch from a real server on loopback."""
    async with run_server(*scripts) as server:
        carrier = HttpTransport(environ={})
        try:
            context = ResolveContext(authorize=permit or ScriptedPermission())
            found = await fetch_image(
                server.url + path, context, carrier, limits=limits or FetchLimits()
            )
        finally:
            await carrier.close()
    return found.data


# -- what works ----------------------------------------------------------------------------------


@pytest.mark.requirement("S2-02")
def test_an_image_is_fetched_with_permission_for_its_address() -> None:
    async def main() -> None:
        permit = ScriptedPermission()
        async with run_server(picture()) as server:
            carrier = HttpTransport(environ={})
            url = f"{server.url}/a/shot.png?size=2#part"
            found = await fetch_image(url, ResolveContext(authorize=permit), carrier)
            await carrier.close()
        assert found.data == PICTURE
        assert found.allowed_by == "fetch(*)"
        asked = f"{server.url}/a/shot.png?size=2"
        assert permit.asked == [("fetch", Capability.NETWORK, asked)]
        assert [seen.path for seen in server.seen] == ["/a/shot.png?size=2"]
        assert "authorization" not in server.seen[0].headers

    run(main())


def test_an_image_without_a_type_is_taken_as_it_comes() -> None:
    assert run(fetched(reply(200, PICTURE, "application/octet-stream"))) == PICTURE


def test_a_redirect_is_followed_after_it_was_allowed_too() -> None:
    permit = ScriptedPermission()
    found = run(fetched(redirect("/b.png"), redirect("c.png", 308), picture(), permit=permit))
    assert found == PICTURE
    assert [subject.rpartition("/")[2] for *_, subject in permit.asked] == [
        "shot.png",
        "b.png",
        "c.png",
    ]


# -- what does not -------------------------------------------------------------------------------


@pytest.mark.requirement("S2-28")
def test_a_denied_address_is_not_requested() -> None:
    async def main() -> None:
        async with run_server(picture()) as server:
            carrier = HttpTransport(environ={})
            permit = ScriptedPermission(denied=(f"{server.url}/x",))
            with raises_code(ToolFailed, "denied"):
                await fetch_image(f"{server.url}/x", ResolveContext(authorize=permit), carrier)
            await carrier.close()
        assert server.seen == []

    run(main())


def test_a_redirect_that_is_denied_is_not_followed() -> None:
    async def main() -> None:
        async with run_server(redirect("/secret"), picture()) as server:
            carrier = HttpTransport(environ={})
            permit = ScriptedPermission(denied=(f"{server.url}/secret",))
            with raises_code(ToolFailed, "denied"):
                await fetch_image(f"{server.url}/x", ResolveContext(authorize=permit), carrier)
            await carrier.close()
        assert [seen.path for seen in server.seen] == ["/x"]

    run(main())


FAULTS: Mapping[str, tuple[list[Script], str]] = {
    "a loop": ([redirect("/shot.png")] * 7, "too_many_redirects"),
    "nowhere": ([redirect("")] * 7, "too_many_redirects"),
    "another scheme": ([redirect("file:///etc/passwd")], "invalid_redirect"),
    "a password": ([redirect("http://me:hunter2@127.0.0.1/")], "invalid_redirect"),
    "a page": ([reply(200, b"<html>", "text/html; charset=utf-8")], "not_an_image"),
    "not found": ([reply(404, b"no", "image/png")], "http_status"),
    "broken server": ([reply(500, b"no", "image/png")], "http_status"),
    "part of it": ([reply(206, PICTURE, "image/png")], "http_status"),
    "too large": (
        [[response_head(content_type="image/png", content_length="2000000000")]],
        "image_too_large",
    ),
    "endless": ([[CHUNKED, *[chunk(bytes(1000))] * 200, STALL]], "image_too_large"),
    "cut": ([[CHUNKED, chunk(PICTURE[:20]), CUT]], "fetch_failed"),
    "not HTTP": ([[b"220 mail.example ESMTP\r\n", CUT]], "fetch_failed"),
}


@pytest.mark.parametrize("case", FAULTS)
@pytest.mark.requirement("S2-28")
def test_a_server_that_misbehaves_is_a_clear_error_without_the_query(case: str) -> None:
    scripts, code = FAULTS[case]
    with raises_code(ToolFailed, code) as caught:
        run(fetched(*scripts, path="/shot.png?key=s3cret", limits=FetchLimits(max_bytes=100_000)))
    assert "s3cret" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.place.endswith("/shot.png")


@pytest.mark.parametrize("script", [[STALL], [CHUNKED, chunk(b"a"), STALL]], ids=["head", "body"])
def test_a_server_that_takes_too_long_is_given_up(script: Script) -> None:
    with raises_code(ToolFailed, "fetch_timeout"):
        run(fetched(script, limits=FetchLimits(timeout_s=0.2)))


def test_an_unreachable_server_is_a_clear_error() -> None:
    async def main() -> None:
        async with run_server() as server:
            url = server.url
        carrier = HttpTransport(environ={})
        with raises_code(ToolFailed, "fetch_failed"):
            await fetch_image(url, ResolveContext(authorize=ScriptedPermission()), carrier)
        await carrier.close()

    run(main())


def test_https_is_not_left_for_http(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    async def main() -> None:
        async with (
            run_server(picture()) as plain,
            run_server(redirect(f"{plain.url}/x.png"), picture(), tls=tls) as server,
        ):
            carrier = HttpTransport(environ={}, ca_file=tmp_path / "ca.pem")
            context = ResolveContext(authorize=ScriptedPermission())
            with raises_code(ToolFailed, "insecure_redirect"):
                await fetch_image(server.url, context, carrier)
            assert (await fetch_image(server.url, context, carrier)).data == PICTURE
            await carrier.close()
        assert plain.seen == []

    run(main())


# -- names and addresses -------------------------------------------------------------------------


class Said:
    """A complete response."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self._pieces = [body, b""]

    async def read(self) -> bytes:
        return self._pieces.pop(0)

    def close(self) -> None: ...


class Web:
    """A transport that serves pages of a test under any address."""

    def __init__(self, **pages: Said) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.addresses: list[tuple[str, ...] | None] = []

    async def open(self, outgoing: HttpRequest) -> Said:
        self.asked.append(outgoing.url)
        self.addresses.append(outgoing.addresses)
        return self.pages[outgoing.url.rpartition("/")[2]]

    async def close(self) -> None: ...


PAGE = {"content-type": "image/png"}


def fetch_from(web: Web, url: str, *addresses: str) -> bytes:
    async def names(host: str) -> tuple[str, ...]:
        return addresses or PUBLIC

    return run(
        fetch_image(url, ResolveContext(authorize=ScriptedPermission()), web, host_lookup=names)
    ).data


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",  # once meant the same
        "::ffff:0:127.0.0.1",
        "fec0::1",
        "64:ff9b::10.0.0.1",  # gateways forward to the address at the end
        "64:ff9b:1::10.0.0.1",
        "2002:7f00:1::",
    ],
)
def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    for addresses in ((address,), (*PUBLIC, address)):
        with raises_code(ToolFailed, "private_address"):
            fetch_from(web, "http://metadata.example/x", *addresses)
    assert web.asked == []


@pytest.mark.parametrize("address", ["2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"])
def test_a_name_with_a_public_address_is_fetched(address: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    assert fetch_from(web, "http://shop.example/x", address) == PICTURE


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "192.168.0.9", "[::1]:81"])
def test_a_private_address_can_be_named_as_such(host: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    assert fetch_from(web, f"http://{host}/x") == PICTURE


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("http://shop.example/x", ("93.184.215.14", "2606:4700::1111")),
        ("http://localhost/x", ("127.0.0.1", "::1")),
        ("http://192.168.0.9/x", ("192.168.0.9",)),
        ("http://[::1]:81/x", ("::1",)),
    ],
)
def test_the_request_names_the_addresses_that_were_checked(
    url: str, addresses: tuple[str, ...]
) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    assert fetch_from(web, url, "93.184.215.14", "2606:4700::1111") == PICTURE
    assert web.addresses == [addresses]


class PublicNetwork:
    """The real transport, for which an address without a server stands for the public address."""

    def __init__(self) -> None:
        self._http = HttpTransport(environ={})

    async def open(self, outgoing: HttpRequest) -> HttpResponse:
        assert outgoing.addresses == PUBLIC
        return await self._http.open(outgoing._replace(addresses=("127.255.255.254",)))

    async def close(self) -> None:
        await self._http.close()


def test_a_name_that_changes_its_address_after_the_check_reaches_nothing() -> None:
    """DNS rebinding: the second answer would be the loopback address of this machine."""

    async def main() -> None:
        asked: list[str] = []

        async def rebinding(host: str) -> tuple[str, ...]:
            asked.append(host)
            return PUBLIC if len(asked) == 1 else ("127.0.0.1",)

        async with run_server(picture()) as server:
            network = PublicNetwork()
            # Every resolver of this machine knows the address of this name, which is the server's.
            url = f"http://localhost.:{server.port}/x"
            context = ResolveContext(authorize=ScriptedPermission())
            with raises_code(ToolFailed, "fetch_failed"):
                await fetch_image(url, context, network, host_lookup=rebinding)
            await network.close()
        assert asked == ["localhost."]
        assert server.connections == 0

    run(main())


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "localhost."])
def test_an_address_in_disguise_is_taken_for_the_name_it_looks_like(host: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    with raises_code(ToolFailed, "private_address"):
        fetch_from(web, f"http://{host}/x", *run(resolve_host(host.rstrip("."))))
    assert web.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::1]"])
def test_a_public_server_cannot_redirect_to_a_private_address(host: str) -> None:
    web = Web(a=Said(302, {"location": f"http://{host}/x"}), x=Said(200, PAGE, PICTURE))
    with raises_code(ToolFailed, "redirect_to_private_address"):
        fetch_from(web, "http://shop.example/a")
    assert web.asked == ["http://shop.example/a"]


def test_a_name_that_cannot_be_resolved_is_left_to_the_transport() -> None:
    web = Web(x=Said(200, PAGE, PICTURE))

    async def nothing(host: str) -> tuple[str, ...]:
        return ()

    found = run(
        fetch_image(
            "http://x.example/x",
            ResolveContext(authorize=ScriptedPermission()),
            web,
            host_lookup=nothing,
        )
    )
    assert found.data == PICTURE
    assert run(resolve_host("x" * 70)) == ()  # longer than any name: no lookup is needed


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://", "not_a_web_address"),
        ("http:///x", "not_a_web_address"),
        ("http://[::1/x", "invalid_url"),
        ("http://a b/x", "not_a_web_address"),
        ("http://shop.example\\@evil.example/x", "not_a_web_address"),
        ("http://shop.example/\nx", "not_a_web_address"),
        ("http://shop.example:99999/x", "invalid_url"),
        ("http://shop.example/a/../x", "url_has_dot_steps"),
        ("http://shop.example/a/%2e%2E/x", "url_has_dot_steps"),
        ("http://-/x", "not_a_web_address"),
        ("https://me:hunter2@shop.example/x", "url_has_credentials"),
        ("https://me@shop.example/x", "url_has_credentials"),
    ],
)
def test_a_url_that_two_readers_could_take_for_two_places_is_refused(url: str, code: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    with raises_code(ToolFailed, code) as caught:
        fetch_from(web, url)
    assert web.asked == []
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("HTTP://Shop.Example:80/x", "http://shop.example/x"),
        ("https://shop.example:443/x", "https://shop.example/x"),
        ("https://shop.example:8443/x", "https://shop.example:8443/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://shop.example/ä/x", "https://shop.example/%C3%A4/x"),
        ("https://shop.example/a%20b/x", "https://shop.example/a%20b/x"),
    ],
)
def test_rules_match_one_spelling_of_a_url_and_that_is_requested(url: str, spelled: str) -> None:
    web = Web(x=Said(200, PAGE, PICTURE))
    permit = ScriptedPermission()
    run(fetch_image(url, ResolveContext(authorize=permit), web, host_lookup=public))
    assert [subject for *_, subject in permit.asked] == [spelled]
    assert web.asked == [spelled]
