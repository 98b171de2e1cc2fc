"""The strict parser of requests to the proxy, and what it writes for the servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.tools.shell.proxy_request import (
    BadRequest,
    BadResponse,
    build_connect,
    build_request,
    parse_chunk_size,
    parse_request,
    parse_status,
    rewrite_response_head,
)
from tests.tools.proxy_attacks import BAD_REQUESTS


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def test_a_connect_request_names_host_and_port() -> None:
    request = parse_request(head("CONNECT PyPI.org.:443 HTTP/1.1", "Host: whatever"))
    assert (request.host, request.port, request.is_tunnel) == ("pypi.org", 443, True)


@pytest.mark.parametrize(
    ("target", "host_field", "expected"),
    [
        ("http://a.example/x?y=1", "a.example", ("a.example", 80, "/x?y=1")),
        ("HTTP://A.example", "a.EXAMPLE:80", ("a.example", 80, "/")),
        ("http://a.example?q", "a.example", ("a.example", 80, "/?q")),
        ("http://a.example:8080/", "a.example:8080", ("a.example", 8080, "/")),
        ("http://[::1]:81/", "[::1]:81", ("::1", 81, "/")),
    ],
)
def test_a_url_is_split(target: str, host_field: str, expected: tuple[str, int, str]) -> None:
    request = parse_request(head(f"GET {target} HTTP/1.1", f"Host: {host_field}"))
    assert (request.host, request.port, request.path) == expected
    assert not request.is_tunnel


def test_an_old_request_needs_no_host_field() -> None:
    assert parse_request(head("GET http://a.example/ HTTP/1.0")).host == "a.example"


@pytest.mark.parametrize("data", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_an_ambiguous_request_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(data)


def test_a_request_for_the_server_has_no_fields_about_the_connection() -> None:
    request = parse_request(
        head(
            "POST http://a.example/x HTTP/1.1",
            "Host: a.example",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Private",
            "X-Private: 1",
            "Keep-Alive: timeout=5",
            "TE: trailers",
            "Upgrade: websocket",
            "Content-Length: 4",
            "Accept: */*",
            "X-Latin: \xe9",
        )
    )
    assert build_request(request) == head(
        "POST /x HTTP/1.1",
        "host: a.example",
        "accept: */*",
        "x-latin: \xe9",
        "content-length: 4",
        "connection: close",
    )


def test_connection_cannot_remove_the_host_or_the_size() -> None:
    request = parse_request(
        head(
            "POST http://a.example/ HTTP/1.1",
            "Host: a.example",
            "Connection: host, content-length",
            "Content-Length: 4",
        )
    )
    lines = build_request(request).split(b"\r\n")
    assert b"host: a.example" in lines
    assert b"content-length: 4" in lines


def test_a_request_through_another_proxy_has_the_whole_url() -> None:
    request = parse_request(head("OPTIONS http://a.example:81 HTTP/1.1", "Host: a.example:81"))
    assert request.path == "*"
    built = build_request(request, to_proxy=True, proxy_authorization="Basic eA==")
    assert built == head(
        "OPTIONS http://a.example:81 HTTP/1.1",
        "host: a.example:81",
        "proxy-authorization: Basic eA==",
        "connection: close",
    )
    assert build_connect("::1", 443, None) == head("CONNECT [::1]:443 HTTP/1.1", "Host: [::1]:443")


@pytest.mark.parametrize(
    ("line", "size"), [(b"0\r\n", 0), (b"1F\r\n", 31), (b"a;name=x\r\n", 10), (b"a ;n\r\n", 10)]
)
def test_the_size_of_a_chunk(line: bytes, size: int) -> None:
    assert parse_chunk_size(line) == size


@pytest.mark.parametrize(
    "line",
    [
        *(b"\r\n", b"-1\r\n", b"+1\r\n", b"0x10\r\n", b" 1\r\n", b"1\n", b"1\n\r\n", b"1_0\r\n"),
        *(b"g\r\n", b"1;\x00\r\n", b"1;a\nb\r\n", b"1" * 16 + b"\r\n", b"1 1\r\n"),
    ],
)
def test_a_malformed_chunk_size_is_refused(line: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_chunk_size(line)


def test_a_response_announces_the_end_of_the_connection() -> None:
    rewritten = rewrite_response_head(
        head("HTTP/1.1 200 OK", "Connection: keep-alive", "Keep-Alive: x", "Transfer-Encoding: a")
    )
    assert rewritten.data == head("HTTP/1.1 200 OK", "Transfer-Encoding: a", "Connection: close")
    assert rewritten.is_final
    assert not rewrite_response_head(head("HTTP/1.1 100 Continue")).is_final
    assert parse_status(head("HTTP/1.0 204")) == 204


@pytest.mark.parametrize("first", ["", "SSH-2.0-x", "HTTP/2 200", "HTTP/1.1 2000", "HTTP/1.1 abc"])
def test_something_else_than_a_response_is_refused(first: str) -> None:
    with pytest.raises(BadResponse):
        rewrite_response_head(head(first))


def test_a_folded_response_field_is_refused() -> None:
    with pytest.raises(BadResponse):
        rewrite_response_head(head("HTTP/1.1 200 OK", "A: b", " c"))


PIECES = st.sampled_from(
    [
        *(b"GET ", b"CONNECT ", b"http://a.example/", b"a.example:443", b" HTTP/1.1", b"\r\n"),
        *(b"\n", b"\r", b" ", b"\t", b":", b"Host: a.example", b"Content-Length: 1", b"\x00"),
        *(b"Transfer-Encoding: chunked", b"\xff", b"[::1]", b"@", b"#"),
    ]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=16).map(b"".join))
def test_any_bytes_are_one_request_or_refused(data: bytes) -> None:
    try:
        request = parse_request(data + b"\r\n\r\n")
    except BadRequest:
        return
    if not request.is_tunnel:
        built = build_request(request, to_proxy=True)
        assert built.endswith(b"\r\n\r\n")
        assert parse_request(built)[:4] == request[:4]
