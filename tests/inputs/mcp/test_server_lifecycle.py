"""Servers that do not start, end during a call, or have to be ended."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from steno.errors import ServerFailed
from steno.inputs.mcp.connection import MAX_STARTS, McpClientSession, McpConnection
from steno.inputs.mcp.sdk import load_mcp_sdk
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.inputs.mcp.transports import StderrTail, open_stdio
from steno.ports import SetupNotice
from tests.inputs.mcp.connection_setup import (
    children,
    ignore,
    is_running,
    pid_of,
    plain_spec,
    start_endless_call,
)
from tests.inputs.mcp.real_servers import LiveConnection, everything_spec, open_connection, own_spec
from tests.raised_errors import raises_code
from tests.transport.http_server import run

ROOT = Path(__file__).parents[3]

# -- the start -----------------------------------------------------------------------------------


def test_nothing_is_started_before_the_first_question(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    program = f"open({str(marker)!r}, 'w')"
    spec = McpServerSpec(name="eager", command=sys.executable, args=("-c", program))

    async def main() -> None:
        server = McpConnection(spec, folder=tmp_path)
        await server.aclose()
        assert not marker.exists()

    run(main())


def test_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    server = McpConnection(McpServerSpec(name="lost", command="no-such-server"), folder=tmp_path)
    with raises_code(ServerFailed, "server_not_started", place="mcp lost") as failed:
        run(server.tools())
    assert "no-such-server: " in failed.value.message


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    spec = plain_spec(cwd=tmp_path / "gone")
    with raises_code(ServerFailed, "server_not_started") as failed:
        run(McpConnection(spec, folder=tmp_path).tools())
    assert "/gone: " in failed.value.message


def test_output_of_a_server_that_ends_at_once_is_shown_without_controls_and_secrets(
    tmp_path: Path,
) -> None:
    spec = plain_spec("exit", env={"LICENCE_KEY": "hunter2hunter2"})
    with raises_code(ServerFailed, "server_not_started", place="mcp plain") as failed:
        run(McpConnection(spec, folder=tmp_path).tools())
    text = failed.value.message
    assert "exit code 3" in text
    assert r"I need a \x1b[31mlicence\x1b[0m with key ***" in text


def test_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    spec = plain_spec("hang", start_timeout_s=0.3)
    with raises_code(ServerFailed, "server_start_timeout", place="mcp plain"):
        run(McpConnection(spec, folder=tmp_path).tools())


def test_older_server_that_ends_at_words_it_does_not_know_is_started_again_for_the_older_ones(
    tmp_path: Path,
) -> None:
    told: list[SetupNotice] = []

    async def main() -> None:
        server = McpConnection(plain_spec("strict"), folder=tmp_path, notify=told.append)
        lists = await asyncio.gather(*[server.tools() for _ in range(3)])
        assert {tool.name for tools in lists for tool in tools} == {"good", "listed"}
        await server.aclose()

    run(main())
    assert told == []


def test_many_who_ask_at_once_share_one_start(tmp_path: Path) -> None:
    async def main() -> None:
        server = McpConnection(own_spec(), folder=tmp_path)
        try:
            assert len(set(await asyncio.gather(*[pid_of(server) for _ in range(10)]))) == 1
        finally:
            await server.aclose()

    run(main())


def test_start_continues_for_others_if_one_waiting_task_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        server = McpConnection(own_spec(), folder=tmp_path)
        try:
            impatient, patient = (asyncio.create_task(server.tools()) for _ in range(2))
            await asyncio.sleep(0)
            impatient.cancel()
            assert await patient
            with pytest.raises(asyncio.CancelledError):
                await impatient
        finally:
            await server.aclose()

    run(main())


def test_server_that_fails_again_and_again_is_left_alone_for_a_while(tmp_path: Path) -> None:
    time = [0.0]
    starts = tmp_path / "starts"
    program = f"open({str(starts)!r}, 'a').write('x')"
    spec = McpServerSpec(name="poor", command=sys.executable, args=("-c", program))

    async def main() -> None:
        server = McpConnection(spec, folder=tmp_path, now=lambda: time[0])
        # The first request starts it twice: the newer handshake may have ended it.
        for _ in range(MAX_STARTS - 1):
            with raises_code(ServerFailed, "server_not_started"):
                await server.tools()
        with raises_code(ServerFailed, "too_many_starts"):
            await server.tools()
        assert starts.read_text() == "x" * MAX_STARTS
        time[0] = 61
        with raises_code(ServerFailed, "server_not_started"):
            await server.tools()
        assert starts.read_text() == "x" * (MAX_STARTS + 1)
        await server.aclose()

    run(main())


# -- in the middle -------------------------------------------------------------------------------


def test_server_that_dies_fails_all_calls_under_way_and_is_started_again(
    own_server: LiveConnection,
) -> None:
    async def main() -> None:
        server = own_server.server
        calls = [await start_endless_call(server) for _ in range(2)]
        first = await pid_of(server)
        with raises_code(ServerFailed, "server_gone", place="mcp own") as failed:
            await server.call("die", {}, progress=ignore)
        text = failed.value.message
        assert "exit code 7" in text
        assert r"these are my last words: \x1b[31m" in text
        for call in calls:
            with raises_code(ServerFailed, "server_gone"):
                await call
        assert await pid_of(server) != first

    own_server.run(main())


def test_killed_server_is_restarted_with_one_notice(tmp_path: Path) -> None:
    told: list[SetupNotice] = []

    async def main(server: McpConnection) -> None:
        call = await start_endless_call(server)
        os.kill(await pid_of(server), signal.SIGKILL)
        with raises_code(ServerFailed, "server_gone") as failed:
            await call
        assert "signal 9" in failed.value.message
        sums = [server.call("add", {"a": 1, "b": 2}, progress=ignore) for _ in range(3)]
        assert [one.structured for one in await asyncio.gather(*sums)] == [{"sum": 3}] * 3

    with open_connection(own_spec(), tmp_path, notify=told.append) as own:
        own.run(main(own.server))
    assert [notice.code for notice in told] == ["server_restarted"]
    assert told[0].text.startswith("mcp own: ")


@pytest.mark.parametrize(
    "ask",
    [
        lambda server: server.read("x:\udcff"),
        lambda server: server.prompt("p", {"a": "\udcff"}),
        lambda server: server.call("add", {"a": [{"\udcff": 1}], "b": 2}, progress=ignore),
        lambda server: server.call("\udcff", {}, progress=ignore),
    ],
)
def test_an_unencodable_request_is_refused_and_the_next_one_works(
    own_server: LiveConnection, ask: Callable[[McpConnection], Coroutine[Any, Any, object]]
) -> None:
    pid = own_server.run(pid_of(own_server.server))
    with raises_code(ServerFailed, "not_sendable", place="mcp own"):
        own_server.run(ask(own_server.server))
    assert own_server.run(pid_of(own_server.server)) == pid


def test_conversation_ends_if_a_message_cannot_be_written(tmp_path: Path) -> None:
    loaded, tail = load_mcp_sdk(), StderrTail()
    request = loaded.types.JSONRPCRequest(
        jsonrpc="2.0", id=1, method="tools/call", params={"name": "\udcff"}
    )

    async def main() -> list[Any]:
        async with open_stdio(plain_spec(), folder=tmp_path, tail=tail, sdk=loaded) as streams:
            incoming, outgoing = streams
            await outgoing.send(loaded.SessionMessage(request))
            return [message async for message in incoming]

    assert run(main()) == []
    assert "a message to the server cannot be encoded as JSON" in str(tail)


def test_cancelled_call_is_cancelled_in_the_server(
    own_server: LiveConnection, tmp_path: Path
) -> None:
    file = tmp_path / "end"
    os.mkfifo(file)

    async def main() -> bytes:
        call = await start_endless_call(own_server.server, str(file))
        call.cancel()
        # Reading a FIFO blocks until the server opens it, which it does when it is cancelled.
        said = await asyncio.to_thread(file.read_bytes)
        with pytest.raises(asyncio.CancelledError):
            await call
        return said

    assert own_server.run(main()) == b"cancelled"


def test_call_that_takes_too_long_is_cancelled_and_the_next_one_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        server = McpConnection(own_spec(call_timeout_s=0.3), folder=tmp_path)
        try:
            await server.tools()
            with raises_code(ServerFailed, "server_timeout", place="mcp own"):
                await server.call("wait", {"file": os.devnull}, progress=ignore)
            assert len(await server.tools()) == 50
        finally:
            await server.aclose()

    run(main())


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [own_spec, everything_spec])
def test_closed_server_is_gone(make: Any, tmp_path: Path) -> None:
    async def main() -> None:
        others = children()
        server = McpConnection(make(), folder=tmp_path)
        await server.tools()
        (pid,) = children() - others
        await server.aclose()
        await server.aclose()
        assert not is_running(pid)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with raises_code(ServerFailed, "session_closed"):
            await server.tools()

    run(main())


def test_server_that_has_not_responded_yet_ends_when_closed_and_blocks_no_task(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        others = children()
        server = McpConnection(plain_spec("hang", start_timeout_s=600), folder=tmp_path)
        asking = asyncio.create_task(server.tools())
        while children() == others:  # noqa: ASYNC110 - whoever starts it tells nobody
            await asyncio.sleep(0.005)
        assert not server.is_connected
        await server.aclose()
        assert children() == others
        with raises_code(ServerFailed, "server_stopped", place="mcp plain"):
            await asking

    run(main())


def test_session_that_is_closed_before_it_starts_blocks_no_task(tmp_path: Path) -> None:
    async def main() -> None:
        others = children()
        link = McpClientSession(plain_spec(), folder=tmp_path, sdk=load_mcp_sdk())
        await link.aclose()
        with raises_code(ServerFailed, "server_stopped", place="mcp plain"):
            await link.ready()
        assert children() == others

    run(main())


def test_server_is_up_from_its_first_answer_until_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        server = McpConnection(own_spec(), folder=tmp_path)
        assert not server.is_connected
        await server.tools()
        assert server.is_connected
        with pytest.raises(ServerFailed):
            await server.call("die", {}, progress=ignore)
        assert not server.is_connected
        await server.tools()
        assert server.is_connected
        await server.aclose()
        assert not server.is_connected

    run(main())


def test_closing_fails_calls_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        server = McpConnection(own_spec(), folder=tmp_path)
        call = await start_endless_call(server)
        await server.aclose()
        with pytest.raises(ServerFailed):
            await call

    run(main())


def test_server_that_does_not_want_to_end_is_ended(tmp_path: Path) -> None:
    async def main() -> None:
        others = children()
        server = McpConnection(plain_spec(), folder=tmp_path)
        await server.call("stubborn", {}, progress=ignore)
        (pid,) = children() - others
        await server.aclose()
        assert not is_running(pid)

    run(main())


def test_processes_of_a_server_end_with_it(tmp_path: Path) -> None:
    fifo = tmp_path / "grandchild"
    os.mkfifo(fifo)

    async def main() -> None:
        reading = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb")
        server = McpConnection(plain_spec(), folder=tmp_path)
        await server.call("spawn", {"fifo": str(fifo)}, progress=ignore)
        end = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(end), reading
        )
        await server.aclose()
        assert await end.read() == b""
        transport.close()

    run(main())


def test_server_ends_with_the_event_loop_that_is_stopped(tmp_path: Path) -> None:
    pids: list[int] = []

    async def main() -> None:
        server = McpConnection(own_spec(), folder=tmp_path)
        pids.append(await pid_of(server))
        await start_endless_call(server)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert not is_running(pids[0])


MASTER = """
import asyncio, sys
from pathlib import Path
from steno.inputs.mcp.connection import McpConnection
from tests.inputs.mcp.connection_setup import children, ignore, plain_spec

async def main():
    others = children()
    server = McpConnection(plain_spec(), folder=Path())
    await server.call("stubborn", {}, progress=ignore)
    print(*(children() - others), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_server_that_does_not_want_to_end_is_gone_when_we_are_killed() -> None:
    command = [sys.executable, "-c", MASTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as master:
        assert master.stdout is not None
        server = os.pidfd_open(int(master.stdout.readline()))
        try:
            assert select.select([server], [], [], 0)[0] == []
            master.kill()
            assert select.select([server], [], [], 60)[0] == [server]
        finally:
            os.close(server)
            master.kill()


# -- the environment -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["not-executable", "./not-executable"])
def test_program_that_cannot_be_run_is_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_text("")
    spec = McpServerSpec(name="poor", command=command, env={"PATH": str(tmp_path)})
    with raises_code(ServerFailed, "server_not_started") as failed:
        run(McpConnection(spec, folder=tmp_path).tools())
    assert failed.value.message.endswith(f": {command}: {os.strerror(errno.EACCES)}")


def test_program_gets_the_environment_and_the_signals_as_if_we_had_started_it_ourselves(
    tmp_path: Path,
) -> None:
    program = "env >env; grep SigIgn /proc/self/status >signals"
    spec = McpServerSpec(name="curious", command="sh", args=("-c", program))
    with pytest.raises(ServerFailed):
        run(McpConnection(spec, folder=tmp_path).tools())
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    given = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert names - {"OLDPWD", "PWD", "SHLVL", "_"} <= given
    ignored = int((tmp_path / "signals").read_text().split()[1], 16)
    assert ignored >> (signal.SIGPIPE - 1) & 1 == 0


def test_secret_of_our_environment_does_not_reach_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")

    async def main() -> Any:
        server = McpConnection(own_spec(env={"GIVEN": "yes"}), folder=tmp_path)
        try:
            return (await server.call("environment", {}, progress=ignore)).structured
        finally:
            await server.aclose()

    seen = run(main())
    assert seen["GIVEN"] == "yes"
    assert seen["PATH"] == os.environ["PATH"]
    assert set(seen) <= {"GIVEN", "HOME", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


def test_nothing_of_a_server_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        server = McpConnection(plain_spec(), folder=tmp_path)
        await server.call("stray", {}, progress=ignore)
        await server.aclose()

    run(main())
    assert capfd.readouterr() == ("", "")
