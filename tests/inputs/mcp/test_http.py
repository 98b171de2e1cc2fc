"""Servers over HTTP: our own in a separate process, and one that misbehaves."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steno.errors import ServerFailed
from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.server_spec import McpServerSpec
from tests.inputs.mcp.connection_setup import ignore, pid_of, start_endless_call
from tests.inputs.mcp.older_http_server import OlderServer, run_older_server
from tests.inputs.mcp.real_servers import http_process
from tests.raised_errors import raises_code
from tests.transport.http_server import run

T = TypeVar("T")
TOKEN = "Bearer abc123abc123"


def web(url: str, **more: Any) -> McpConnection:
    spec = McpServerSpec(name="web", url=url, headers={"Authorization": TOKEN}, **more)
    return McpConnection(spec, folder=Path())


async def asked(server: McpConnection, question: Coroutine[Any, Any, T]) -> T:
    try:
        return await question
    finally:
        await server.aclose()


def test_tools_and_resources_are_listed_and_used(http_url: str) -> None:
    async def main() -> None:
        server = web(http_url)
        assert len(await server.tools()) == 50
        assert [resource.uri for resource in await server.resources()] == ["own://note"]
        assert (await server.read("own://note")).ttl_s == 90
        told: list[str] = []
        await server.call("count", {"to": 3}, progress=told.append)
        assert 1 <= len(told) <= 3
        assert set(told) <= {"1/3 at 1", "2/3 at 2", "3/3 at 3"}
        await server.aclose()

    run(main())


def test_headers_are_sent_except_those_that_steno_sets(http_url: str) -> None:
    headers = {"Authorization": TOKEN, "accept-encoding": "gzip"}
    server = McpConnection(McpServerSpec(name="web", url=http_url, headers=headers), folder=Path())
    seen = run(asked(server, server.call("headers", {}, progress=ignore))).structured
    assert (seen["authorization"], seen["accept-encoding"]) == (TOKEN, "identity")


def test_arguments_that_a_server_wants_in_headers_are_sent_there(http_url: str) -> None:
    server = web(http_url)
    answer = run(asked(server, server.call("headed", {"region": "north"}, progress=ignore)))
    assert answer.structured["mcp-param-region"] == "north"


def test_calls_run_at_once(http_url: str) -> None:
    async def main() -> list[Any]:
        server = web(http_url)
        calls = [server.call("add", {"a": n, "b": 1}, progress=ignore) for n in range(20)]
        answers = await asyncio.gather(*calls)
        await server.aclose()
        return [answer.structured["sum"] for answer in answers]

    assert run(main()) == list(range(1, 21))


def test_cancelled_call_is_cancelled_in_the_server(http_url: str, tmp_path: Path) -> None:
    file = tmp_path / "end"
    os.mkfifo(file)

    async def main() -> bytes:
        server = web(http_url)
        call = await start_endless_call(server, str(file))
        call.cancel()
        said = await asyncio.to_thread(file.read_bytes)
        assert (await server.call("add", {"a": 1, "b": 2}, progress=ignore)).structured["sum"] == 3
        await server.aclose()
        return said

    assert run(main()) == b"cancelled"


def test_server_that_is_killed_in_the_middle_of_a_call_fails_it() -> None:
    async def main(url: str) -> None:
        server = web(url)
        call = await start_endless_call(server)
        os.kill(await pid_of(server), signal.SIGKILL)
        with raises_code(ServerFailed, "server_gone", place="mcp web"):
            await call
        with pytest.raises(ServerFailed) as failed:
            await server.tools()
        assert failed.value.place == "mcp web"
        await server.aclose()

    with http_process() as url:
        run(main(url))


def test_an_unreachable_address_is_an_error_without_secrets() -> None:
    server = web("http://user:pass123word@127.0.0.1:9/mcp?key=querysecret")
    with raises_code(ServerFailed, "server_unreachable", place="mcp web") as failed:
        run(asked(server, server.tools()))
    assert failed.value.message.startswith("http://127.0.0.1:9/mcp ")
    assert "pass123word" not in str(failed.value)
    assert "querysecret" not in str(failed.value)


# -- the older protocol, and tricks --------------------------------------------------------------


def first_text(older: OlderServer, server: McpConnection) -> str:
    answer = run(asked(server, server.call("any", {}, progress=ignore)))
    return str(answer.content[0]["text"])


def test_older_server_is_used_in_its_session() -> None:
    with run_older_server() as older:
        assert first_text(older, web(older.url)) == "session-1"


def test_session_that_a_server_forgot_is_begun_again() -> None:
    async def main(older: OlderServer) -> str:
        server = web(older.url)
        await server.call("any", {}, progress=ignore)
        older.forget = True
        with raises_code(ServerFailed, "server_gone"):
            await server.call("any", {}, progress=ignore)
        answer = await asked(server, server.call("any", {}, progress=ignore))
        return str(answer.content[0]["text"])

    with run_older_server() as older:
        assert run(main(older)) == "session-2"


def test_error_status_is_part_of_the_error() -> None:
    with run_older_server() as older:
        older.status = 401
        server = web(older.url)
        with raises_code(ServerFailed, "server_unusable") as failed:
            run(asked(server, server.tools()))
        assert "status 401" in failed.value.message


def test_redirect_to_another_place_is_not_followed() -> None:
    with run_older_server() as elsewhere, run_older_server() as older:
        older.redirect = elsewhere.url
        server = web(older.url)
        with raises_code(ServerFailed, "server_unusable") as failed:
            run(asked(server, server.tools()))
        assert "Redirect to" in failed.value.message  # the text of the SDK
        assert elsewhere.headers == []


def test_body_without_end_is_not_read() -> None:
    with run_older_server() as older:
        older.body = b" " * (40 << 20)
        server = web(older.url)
        with raises_code(ServerFailed, "server_gone") as failed:
            run(asked(server, server.call("any", {}, progress=ignore)))
        assert "more than 32 MB" in failed.value.message


def test_packed_body_is_not_unpacked() -> None:
    with run_older_server() as older:
        older.body = gzip.compress(b" " * (40 << 20))
        older.encoding = "gzip"
        server = web(older.url)
        with raises_code(ServerFailed, "server_gone", place="mcp web"):
            run(asked(server, server.call("any", {}, progress=ignore)))
