"""A third-party server over streamable HTTP: server-everything, in a separate process."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from steno.errors import ServerFailed
from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.protocol import CallToolResult
from steno.inputs.mcp.server_spec import McpServerSpec
from tests.inputs.mcp.connection_setup import ignore
from tests.inputs.mcp.real_servers import (
    EverythingHttp,
    LiveConnection,
    everything_http,
    open_connection,
)
from tests.raised_errors import raises_code

LONG = "trigger-long-running-operation"
FEATURES = "demo://resource/static/document/features.md"


@pytest.fixture(scope="module")
def process(shared_folder: Path) -> Generator[EverythingHttp, None, None]:
    with everything_http(shared_folder) as server:
        yield server


@pytest.fixture(scope="module")
def web(process: EverythingHttp, shared_folder: Path) -> Generator[LiveConnection, None, None]:
    with open_connection(McpServerSpec(name="web", url=process.url), shared_folder) as server:
        yield server


async def begin_long_call(server: McpConnection) -> tuple[asyncio.Task[CallToolResult], str]:
    """Start a call that takes minutes; it has reported progress when this returns."""
    told: asyncio.Queue[str] = asyncio.Queue()
    arguments = {"duration": 600, "steps": 3000}
    call = asyncio.create_task(server.call(LONG, arguments, progress=told.put_nowait))
    return call, await told.get()


async def echo(server: McpConnection) -> str:
    answer = await server.call("echo", {"message": "hello"}, progress=ignore)
    return str(answer.content[0]["text"])


def test_tools_resources_and_prompts_are_listed_and_used(web: LiveConnection) -> None:
    async def main(server: McpConnection) -> None:
        assert LONG in [tool.name for tool in await server.tools()]
        assert FEATURES in [resource.uri for resource in await server.resources()]
        assert "args-prompt" in [prompt.name for prompt in await server.prompts()]
        [part] = (await server.read(FEATURES)).contents
        assert (part.text or "").startswith("# ")
        assert await echo(server) == "Echo: hello"

    web.run(main(web.server))


def test_progress_is_reported_and_a_cancelled_call_leaves_the_server_usable(
    web: LiveConnection,
) -> None:
    async def main(server: McpConnection) -> None:
        call, progress = await begin_long_call(server)
        assert progress.split()[0].endswith("/3000")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await echo(server) == "Echo: hello"

    web.run(main(web.server))


def test_server_that_crashes_in_the_middle_of_a_call_fails_it_and_is_used_when_it_is_back(
    web: LiveConnection, process: EverythingHttp
) -> None:
    async def main(server: McpConnection) -> None:
        call, _ = await begin_long_call(server)
        process.kill()
        with raises_code(ServerFailed, "server_gone") as failed:
            await call
        # The refused handshake of the newer protocol is not part of the error.
        assert "status" not in str(failed.value)
        process.start()
        assert await echo(server) == "Echo: hello"

    web.run(main(web.server))


def test_session_that_was_lost_between_two_calls_is_begun_again(
    web: LiveConnection, process: EverythingHttp
) -> None:
    async def main(server: McpConnection) -> None:
        assert await echo(server) == "Echo: hello"
        process.kill()
        process.start()
        with raises_code(ServerFailed, "server_gone", place="mcp web"):
            await echo(server)
        assert await echo(server) == "Echo: hello"

    web.run(main(web.server))
