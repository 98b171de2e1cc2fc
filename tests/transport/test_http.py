"""The HTTP transport sends bytes, enforces its limits, and raises our own errors."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from steno.errors import InvalidValue, ProtocolError, Unreachable
from steno.transport.http import (
    MAX_HEADER_BYTES,
    TimeLimits,
    _ErrorContext,
    _translate_error,
)
from steno.transport.proxy import Proxy
from tests.transport.http_client import (
    build_transport,
    error_of,
    free_port,
    post,
    read_all,
)
from tests.transport.http_server import (
    CUT,
    END,
    HANG_UP,
    STALL,
    STREAM,
    chunk,
    chunked_stream,
    reply,
    response_head,
    run,
    run_server,
)

# -- sending -------------------------------------------------------------------------------------


def test_status_headers_and_body_arrive() -> None:
    async def main() -> None:
        async with run_server(reply(418, b"teapot", X_Kind="pot")) as server:
            transport = build_transport()
            response = await transport.open(post(server.url + "/a?b=c", b'{"x":1}'))
            assert response.status == 418
            assert response.headers["x-kind"] == "pot"
            assert await read_all(response) == b"teapot"
            assert await response.read() == b""
            await transport.close()
        seen = server.seen[0]
        assert (seen.method, seen.path, seen.json) == ("POST", "/a?b=c", {"x": 1})

    run(main())


def test_the_path_is_sent_as_it_is_written() -> None:
    """Some HTTP clients quote a quoted URL again, which would change the name of a model."""

    async def main() -> None:
        async with run_server(reply(200, {})) as server:
            transport = build_transport()
            await transport.open(post(server.url + "/models/a%2Fb:stream?alt=sse&x=%20"))
            await transport.close()
        assert server.seen[0].path == "/models/a%2Fb:stream?alt=sse&x=%20"

    run(main())


def test_pieces_are_given_as_they_arrive() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            assert await response.read() == b"one"
            response.close()
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_a_large_body_is_sent_whole() -> None:
    async def main() -> None:
        body = b"x" * 3_000_000
        async with run_server(reply(200, b"ok")) as server:
            transport = build_transport()
            await read_all(await transport.open(post(server.url, body)))
            await transport.close()
        assert server.seen[0].body == body
        assert server.seen[0].headers["content-type"] == "application/json"

    run(main())


def test_a_refusal_before_the_whole_request_was_read_is_received() -> None:
    async def main() -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"".join(reply(413, b"too large", connection="close")))
            await writer.drain()
            writer.close()

        listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
        transport = build_transport()
        port = listener.sockets[0].getsockname()[1]
        response = await transport.open(post(f"http://127.0.0.1:{port}/", b"x" * 8_000_000))
        assert (response.status, await read_all(response)) == (413, b"too large")
        await transport.close()
        listener.close()

    run(main())


def test_a_body_that_is_compressed_without_being_asked_is_unpacked() -> None:
    async def main() -> None:
        async with run_server(
            reply(200, gzip.compress(b"small"), content_encoding="gzip")
        ) as server:
            transport = build_transport()
            assert await read_all(await transport.open(post(server.url))) == b"small"
            await transport.close()

    run(main())


def test_a_body_that_cannot_be_unpacked_is_a_protocol_error() -> None:
    async def main() -> None:
        script = [response_head(content_encoding="gzip", content_length="9"), b"data: {}\n"]
        async with run_server(script) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            error = await error_of(read_all(response))
            assert type(error) is ProtocolError
            assert error.code == "invalid_compression"
            await transport.close()

    run(main())


def test_a_connection_is_used_again() -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a"), chunked_stream("b"), reply(404, {})) as server:
            transport = build_transport()
            for _ in range(3):
                await read_all(await transport.open(post(server.url)))
            await transport.close()
        assert [seen.connection for seen in server.seen] == [1, 1, 1]

    run(main())


def test_a_connection_whose_answer_was_dropped_is_not_used_again() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL], chunked_stream("b")) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            await response.read()
            response.close()
            await read_all(await transport.open(post(server.url)))
            await transport.close()
        assert [seen.connection for seen in server.seen] == [1, 2]

    run(main())


def test_a_closed_transport_opens_anew() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"a"), reply(200, b"b")) as server:
            transport = build_transport()
            for expected in (b"a", b"b"):
                assert await read_all(await transport.open(post(server.url))) == expected
                await transport.close()

    run(main())


def test_reading_on_after_the_transport_was_closed_is_unreachable() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"a"), STALL]) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            assert await response.read() == b"a"
            await transport.close()
            for _ in range(2):
                assert type(await error_of(response.read())) is Unreachable

    run(main())


def test_a_transport_outlives_its_event_loop() -> None:
    """Scripts call `asyncio.run` for each request; connections of an earlier loop are gone."""
    transport = build_transport()

    async def main() -> None:
        async with run_server(reply(200, b"a", connection="close")) as server:
            assert await read_all(await transport.open(post(server.url))) == b"a"

    run(main())
    run(main())
    run(transport.close())


def test_redirects_are_not_followed() -> None:
    async def main() -> None:
        async with (
            run_server() as other,
            run_server([response_head(307, location=other.url)]) as server,
        ):
            transport = build_transport()
            response = await transport.open(post(server.url))
            assert response.status == 307
            await transport.close()
        assert other.seen == []

    run(main())


def test_cookies_are_not_kept() -> None:
    async def main() -> None:
        async with run_server(reply(200, {}, Set_Cookie="a=b"), reply(200, {})) as server:
            transport = build_transport()
            for _ in range(2):
                await read_all(await transport.open(post(server.url)))
            await transport.close()
        assert "cookie" not in server.seen[1].headers

    run(main())


# -- limits --------------------------------------------------------------------------------------


def test_a_server_that_does_not_complete_the_connection_is_given_up() -> None:
    async def main() -> None:
        # The system accepts the connection; then there is no TLS.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            place = f"127.0.0.1:{listener.getsockname()[1]}"
            transport = build_transport(limits=TimeLimits(connect_s=0.05))
            error = await error_of(transport.open(post(f"https://{place}/")))
            assert (error.code, error.place) == ("connect_timeout", place)
            assert isinstance(error, Unreachable)
            assert error.retryable
            await transport.close()

    run(main())


@pytest.mark.parametrize("script", [[STALL], [STREAM, STALL]], ids=["no head", "no body"])
def test_a_server_that_does_not_begin_to_answer_is_given_up(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            transport = build_transport(limits=TimeLimits(first_byte_s=0.05, idle_s=60))

            async def ask() -> None:
                await (await transport.open(post(server.url))).read()

            error = await error_of(ask())
            assert (error.code, error.place) == ("first_byte_timeout", f"127.0.0.1:{server.port}")
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_a_server_that_stops_sending_is_given_up() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            transport = build_transport(limits=TimeLimits(first_byte_s=60, idle_s=0.05))
            response = await transport.open(post(server.url))
            assert await response.read() == b"one"
            error = await error_of(response.read())
            assert (error.code, error.place) == ("idle_timeout", f"127.0.0.1:{server.port}")
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_only_waiting_counts_as_silence() -> None:
    """The time between two reads is not time spent waiting for the server."""

    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), chunk(b"two"), END]) as server:
            transport = build_transport(limits=TimeLimits(idle_s=0.1))
            response = await transport.open(post(server.url))
            assert await response.read()
            late = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.25, late.set_result, None)
            await late
            await read_all(response)
            await transport.close()

    run(main())


def test_a_body_has_a_largest_size() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"x" * 600), chunk(b"x" * 600), STALL]) as server:
            transport = build_transport(max_body_bytes=1000)
            response = await transport.open(post(server.url))
            error = await error_of(read_all(response))
            assert isinstance(error, ProtocolError)
            assert error.code == "body_limit_exceeded"
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_a_head_has_a_largest_size() -> None:
    async def main() -> None:
        async with run_server([response_head(200, x="y" * MAX_HEADER_BYTES * 2), END]) as server:
            transport = build_transport()
            error = await error_of(transport.open(post(server.url)))
            assert isinstance(error, ProtocolError)
            await transport.close()

    run(main())


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"limits": TimeLimits(connect_s=0)}, "invalid_limits"),
        ({"limits": TimeLimits(idle_s=-1)}, "invalid_limits"),
        ({"max_body_bytes": 0}, "invalid_limits"),
        ({"proxy": "socks5://127.0.0.1"}, "unsupported_proxy_scheme"),
        ({"proxy": "http://"}, "invalid_proxy"),
        ({"ca_file": __file__}, "invalid_ca_file"),
        ({"ca_file": "/nowhere/ca.pem"}, "invalid_ca_file"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        build_transport(**settings)
    assert caught.value.code == code


# -- errors --------------------------------------------------------------------------------------


def test_a_closed_port_is_unreachable_and_may_be_retried() -> None:
    async def main() -> None:
        transport = build_transport()
        port = free_port()
        error = await error_of(transport.open(post(f"http://127.0.0.1:{port}/")))
        assert isinstance(error, Unreachable)
        assert (error.code, error.place) == ("connection_failed", f"127.0.0.1:{port}")
        assert error.retryable
        await transport.close()

    run(main())


@pytest.mark.parametrize("script", [[CUT], [HANG_UP]], ids=str)
def test_a_connection_lost_before_the_answer_is_unreachable(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            transport = build_transport()
            error = await error_of(transport.open(post(server.url)))
            assert isinstance(error, Unreachable)
            assert error.retryable
            await transport.close()

    run(main())


@pytest.mark.parametrize(
    "script",
    [
        [STREAM, chunk(b"one"), chunk(b"two")[:4], CUT],
        [STREAM, chunk(b"one"), chunk(b"two")[:4], HANG_UP],
        [STREAM, chunk(b"one"), HANG_UP],
        [response_head(200, content_length="100"), b"one", HANG_UP],
    ],
    ids=["reset in a chunk", "closed in a chunk", "closed between chunks", "short of its length"],
)
def test_a_body_that_breaks_off_is_unreachable_after_the_bytes_before(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            error = await error_of(read_all(response))
            assert isinstance(error, Unreachable)
            assert (error.code, error.place) == ("connection_lost", f"127.0.0.1:{server.port}")
            await transport.close()

    run(main())


def test_a_response_that_is_not_http_is_a_protocol_error() -> None:
    async def main() -> None:
        async with run_server([b"SSH-2.0-OpenSSH_9.9\r\n\r\n", STALL]) as server:
            transport = build_transport()
            error = await error_of(transport.open(post(server.url)))
            assert isinstance(error, ProtocolError)
            assert error.code == "invalid_http"
            await transport.close()

    run(main())


@pytest.mark.parametrize(
    ("code", "retryable"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)]
)
def test_a_name_that_does_not_exist_is_not_asked_for_again(code: int, retryable: bool) -> None:
    """Not sent: the request would leave the machine."""
    where = ConnectionKey("lab.example", 443, True, True, None, None, None)
    exc = aiohttp.ClientConnectorDNSError(where, OSError(code, "no"))
    error = _translate_error(exc, _ErrorContext("lab.example", TimeLimits()))
    assert isinstance(error, Unreachable)
    assert (error.code, error.place) == ("unknown_host", "lab.example")
    assert error.retryable is retryable
    proxy = Proxy("http://user:s3cret@gate.example:3128", "https_proxy")
    error = _translate_error(exc, _ErrorContext("lab.example", TimeLimits(), proxy))
    assert isinstance(error, Unreachable)
    assert (error.code, error.place) == ("unknown_proxy_host", "lab.example")
    assert str(proxy) in error.message
    assert error.retryable is retryable


# -- cancelling ----------------------------------------------------------------------------------


def test_closing_ends_a_waiting_read_and_the_connection() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            await response.read()
            reader = asyncio.create_task(response.read())
            await server.stalled.wait()
            response.close()
            assert isinstance(await error_of(reader), Unreachable)
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_cancelling_while_the_head_is_waited_for_drops_the_connection() -> None:
    async def main() -> None:
        async with run_server([STALL]) as server:
            transport = build_transport()
            opening = asyncio.create_task(transport.open(post(server.url)))
            await server.stalled.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await server.hung_up.wait()
            await transport.close()

    run(main())


def test_an_unreferenced_response_releases_its_connection() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            transport = build_transport()
            response = await transport.open(post(server.url))
            await response.read()
            del response
            gc.collect()
            await server.hung_up.wait()
            await transport.close()

    run(main())
