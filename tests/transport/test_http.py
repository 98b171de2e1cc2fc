"""The HTTP transport carries bytes, keeps its limits, and speaks of faults in our words."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
from collections.abc import Awaitable
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from steno.errors import InvalidValue, ProtocolError, StenoError, Unreachable
from steno.ports import HttpRequest, HttpResponse
from steno.transport.http import (
    MAX_HEADER_BYTES,
    HttpTransport,
    TimeLimits,
    _ErrorContext,
    _translate_error,
)
from steno.transport.proxy import Proxy
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


def transport(**settings: Any) -> HttpTransport:
    return HttpTransport(**{"environ": {}} | settings)


def post(url: str, body: bytes = b"{}") -> HttpRequest:
    return HttpRequest("POST", url, {"content-type": "application/json"}, body)


async def read_all(answer: HttpResponse) -> bytes:
    pieces = []
    while piece := await answer.read():
        pieces.append(piece)
    return b"".join(pieces)


async def fault_of(doing: Awaitable[object]) -> StenoError:
    with pytest.raises(StenoError) as caught:
        await doing
    return caught.value


# -- carrying ------------------------------------------------------------------------------------


def test_status_headers_and_body_arrive() -> None:
    async def main() -> None:
        async with run_server(reply(418, b"teapot", X_Kind="pot")) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url + "/a?b=c", b'{"x":1}'))
            assert answer.status == 418
            assert answer.headers["x-kind"] == "pot"
            assert await read_all(answer) == b"teapot"
            assert await answer.read() == b""
            await carrier.close()
        seen = server.seen[0]
        assert (seen.method, seen.path, seen.json) == ("POST", "/a?b=c", {"x": 1})

    run(main())


def test_the_path_is_sent_as_it_is_written() -> None:
    """Clients like to quote what is quoted already: a model's name would be another one then."""

    async def main() -> None:
        async with run_server(reply(200, {})) as server:
            carrier = transport()
            await carrier.open(post(server.url + "/models/a%2Fb:stream?alt=sse&x=%20"))
            await carrier.close()
        assert server.seen[0].path == "/models/a%2Fb:stream?alt=sse&x=%20"

    run(main())


def test_pieces_are_given_as_they_arrive() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            assert await answer.read() == b"one"
            answer.close()
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_a_large_body_is_sent_whole() -> None:
    async def main() -> None:
        body = b"x" * 3_000_000
        async with run_server(reply(200, b"ok")) as server:
            carrier = transport()
            await read_all(await carrier.open(post(server.url, body)))
            await carrier.close()
        assert server.seen[0].body == body
        assert server.seen[0].headers["content-type"] == "application/json"

    run(main())


def test_a_server_that_refuses_before_it_has_read_all_is_heard() -> None:
    async def main() -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"".join(reply(413, b"too large", connection="close")))
            await writer.drain()
            writer.close()

        listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
        carrier = transport()
        port = listener.sockets[0].getsockname()[1]
        answer = await carrier.open(post(f"http://127.0.0.1:{port}/", b"x" * 8_000_000))
        assert (answer.status, await read_all(answer)) == (413, b"too large")
        await carrier.close()
        listener.close()

    run(main())


def test_a_body_that_is_compressed_all_the_same_is_unpacked() -> None:
    async def main() -> None:
        async with run_server(
            reply(200, gzip.compress(b"small"), content_encoding="gzip")
        ) as server:
            carrier = transport()
            assert await read_all(await carrier.open(post(server.url))) == b"small"
            await carrier.close()

    run(main())


def test_a_body_that_cannot_be_unpacked_is_a_protocol_error() -> None:
    async def main() -> None:
        script = [response_head(content_encoding="gzip", content_length="9"), b"data: {}\n"]
        async with run_server(script) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            fault = await fault_of(read_all(answer))
            assert type(fault) is ProtocolError
            assert "not compressed as its head says" in str(fault)
            await carrier.close()

    run(main())


def test_a_connection_is_used_again() -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a"), chunked_stream("b"), reply(404, {})) as server:
            carrier = transport()
            for _ in range(3):
                await read_all(await carrier.open(post(server.url)))
            await carrier.close()
        assert [seen.connection for seen in server.seen] == [1, 1, 1]

    run(main())


def test_a_connection_whose_answer_was_dropped_is_not_used_again() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL], chunked_stream("b")) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            await answer.read()
            answer.close()
            await read_all(await carrier.open(post(server.url)))
            await carrier.close()
        assert [seen.connection for seen in server.seen] == [1, 2]

    run(main())


def test_a_closed_transport_opens_anew() -> None:
    async def main() -> None:
        async with run_server(reply(200, b"a"), reply(200, b"b")) as server:
            carrier = transport()
            for expected in (b"a", b"b"):
                assert await read_all(await carrier.open(post(server.url))) == expected
                await carrier.close()

    run(main())


def test_reading_on_after_the_transport_was_closed_is_unreachable() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"a"), STALL]) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            assert await answer.read() == b"a"
            await carrier.close()
            for _ in range(2):
                assert type(await fault_of(answer.read())) is Unreachable

    run(main())


def test_a_transport_outlives_its_event_loop() -> None:
    """Scripts call `asyncio.run` for each question; connections of the last one are gone."""
    carrier = transport()

    async def main() -> None:
        async with run_server(reply(200, b"a", connection="close")) as server:
            assert await read_all(await carrier.open(post(server.url))) == b"a"

    run(main())
    run(main())
    run(carrier.close())


def test_redirects_are_not_followed() -> None:
    async def main() -> None:
        async with (
            run_server() as other,
            run_server([response_head(307, location=other.url)]) as server,
        ):
            carrier = transport()
            answer = await carrier.open(post(server.url))
            assert answer.status == 307
            await carrier.close()
        assert other.seen == []

    run(main())


def test_cookies_are_not_kept() -> None:
    async def main() -> None:
        async with run_server(reply(200, {}, Set_Cookie="a=b"), reply(200, {})) as server:
            carrier = transport()
            for _ in range(2):
                await read_all(await carrier.open(post(server.url)))
            await carrier.close()
        assert "cookie" not in server.seen[1].headers

    run(main())


# -- limits --------------------------------------------------------------------------------------


def test_a_server_that_does_not_complete_the_connection_is_given_up() -> None:
    async def main() -> None:
        # The system accepts for it; then nobody speaks TLS.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            place = f"127.0.0.1:{listener.getsockname()[1]}"
            carrier = transport(limits=TimeLimits(connect_s=0.05))
            fault = await fault_of(carrier.open(post(f"https://{place}/")))
            assert str(fault) == f"{place}: no connection within 0.05 s"
            assert isinstance(fault, Unreachable)
            assert fault.retryable
            await carrier.close()

    run(main())


@pytest.mark.parametrize("script", [[STALL], [STREAM, STALL]], ids=["no head", "no body"])
def test_a_server_that_does_not_begin_to_answer_is_given_up(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            carrier = transport(limits=TimeLimits(first_byte_s=0.05, idle_s=60))

            async def ask() -> None:
                await (await carrier.open(post(server.url))).read()

            fault = await fault_of(ask())
            assert str(fault) == f"127.0.0.1:{server.port}: no answer within 0.05 s"
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_a_server_that_falls_silent_is_given_up() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            carrier = transport(limits=TimeLimits(first_byte_s=60, idle_s=0.05))
            answer = await carrier.open(post(server.url))
            assert await answer.read() == b"one"
            fault = await fault_of(answer.read())
            assert str(fault) == f"127.0.0.1:{server.port}: nothing more for 0.05 s"
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_only_waiting_counts_as_silence() -> None:
    """Whoever takes long between two reads has not been kept waiting."""

    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), chunk(b"two"), END]) as server:
            carrier = transport(limits=TimeLimits(idle_s=0.1))
            answer = await carrier.open(post(server.url))
            assert await answer.read()
            late = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.25, late.set_result, None)
            await late
            await read_all(answer)
            await carrier.close()

    run(main())


def test_a_body_has_a_largest_size() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"x" * 600), chunk(b"x" * 600), STALL]) as server:
            carrier = transport(max_body_bytes=1000)
            answer = await carrier.open(post(server.url))
            fault = await fault_of(read_all(answer))
            assert isinstance(fault, ProtocolError)
            assert "larger than allowed" in str(fault)
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_a_head_has_a_largest_size() -> None:
    async def main() -> None:
        async with run_server([response_head(200, x="y" * MAX_HEADER_BYTES * 2), END]) as server:
            carrier = transport()
            fault = await fault_of(carrier.open(post(server.url)))
            assert isinstance(fault, ProtocolError)
            await carrier.close()

    run(main())


@pytest.mark.parametrize(
    "settings",
    [
        {"limits": TimeLimits(connect_s=0)},
        {"limits": TimeLimits(idle_s=-1)},
        {"max_body_bytes": 0},
        {"proxy": "socks5://127.0.0.1"},
        {"proxy": "http://"},
        {"ca_file": __file__},
        {"ca_file": "/nowhere/ca.pem"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        transport(**settings)


# -- faults --------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nobody_listening_is_unreachable_and_may_be_tried_again() -> None:
    async def main() -> None:
        carrier = transport()
        port = free_port()
        fault = await fault_of(carrier.open(post(f"http://127.0.0.1:{port}/")))
        assert isinstance(fault, Unreachable)
        assert str(fault) == f"127.0.0.1:{port}: no connection: connection refused"
        assert fault.retryable
        await carrier.close()

    run(main())


@pytest.mark.parametrize("script", [[CUT], [HANG_UP]], ids=str)
def test_a_connection_lost_before_the_answer_is_unreachable(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            carrier = transport()
            fault = await fault_of(carrier.open(post(server.url)))
            assert isinstance(fault, Unreachable)
            assert fault.retryable
            await carrier.close()

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
def test_a_body_that_breaks_off_is_unreachable_behind_what_came(script: list[Any]) -> None:
    async def main() -> None:
        async with run_server(script) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            fault = await fault_of(read_all(answer))
            assert isinstance(fault, Unreachable)
            assert str(fault) == f"127.0.0.1:{server.port}: the connection was lost"
            await carrier.close()

    run(main())


def test_what_is_not_http_is_a_protocol_error() -> None:
    async def main() -> None:
        async with run_server([b"SSH-2.0-OpenSSH_9.9\r\n\r\n", STALL]) as server:
            carrier = transport()
            assert isinstance(await fault_of(carrier.open(post(server.url))), ProtocolError)
            await carrier.close()

    run(main())


@pytest.mark.parametrize(
    ("code", "retryable"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)]
)
def test_a_name_that_does_not_exist_is_not_asked_for_again(code: int, retryable: bool) -> None:
    """Not tried for real: the question would leave the machine."""
    where = ConnectionKey("lab.example", 443, True, True, None, None, None)
    exc = aiohttp.ClientConnectorDNSError(where, OSError(code, "no"))
    fault = _translate_error(exc, _ErrorContext("lab.example", TimeLimits()))
    assert isinstance(fault, Unreachable)
    assert str(fault) == (
        "lab.example: its name is not known; check the name, the network, or a proxy (https_proxy)"
    )
    assert fault.retryable is retryable
    proxy = Proxy("http://user:s3cret@gate.example:3128", "https_proxy")
    fault = _translate_error(exc, _ErrorContext("lab.example", TimeLimits(), proxy))
    assert isinstance(fault, Unreachable)
    assert str(fault) == (
        "lab.example: the proxy gate.example:3128 (from https_proxy) cannot be reached:"
        " its name is not known; check it, or the network"
    )
    assert fault.retryable is retryable


# -- cancelling ----------------------------------------------------------------------------------


def test_closing_ends_a_waiting_read_and_the_connection() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            await answer.read()
            reader = asyncio.create_task(answer.read())
            await server.stalled.wait()
            answer.close()
            assert isinstance(await fault_of(reader), Unreachable)
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_cancelling_while_the_head_is_waited_for_drops_the_connection() -> None:
    async def main() -> None:
        async with run_server([STALL]) as server:
            carrier = transport()
            opening = asyncio.create_task(carrier.open(post(server.url)))
            await server.stalled.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await server.hung_up.wait()
            await carrier.close()

    run(main())


def test_an_answer_that_nobody_holds_any_more_lets_go_of_its_connection() -> None:
    async def main() -> None:
        async with run_server([STREAM, chunk(b"one"), STALL]) as server:
            carrier = transport()
            answer = await carrier.open(post(server.url))
            await answer.read()
            del answer
            gc.collect()
            await server.hung_up.wait()
            await carrier.close()

    run(main())
