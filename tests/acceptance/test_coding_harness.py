"""Acceptance tests of document S4: the domain types of a coding harness."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    Conversation,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    InvalidMessage,
    InvalidRequest,
    Outcome,
    ProviderError,
    Request,
    StenoError,
    StopReason,
    SystemMessage,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
    ToolDefinition,
    ToolResultMessage,
    Usage,
    UserMessage,
    tool,
)
from steno.agent import Agent, Gate, Permissions
from steno.codec import decode_message, encode_message
from steno.errors import CutShort, ProtocolError, ToolFailed
from steno.formats import FORMATS
from steno.ports import ToolContext
from steno.providers import HttpProvider, connect
from steno.records import Header
from steno.store import open_store
from steno.testing import ReplayingProvider, ScriptedProvider, ScriptedTool, ScriptRanOut
from steno.testing.conformance import (
    SERVERS,
    STREAM_CASES,
    CaseOutcome,
    HttpProviderHarness,
    ProviderHarness,
    ScriptedProviderHarness,
    StreamCase,
    run_stream_case,
)
from steno.tools import Toolbox, Workspace
from steno.transport import RecordedResponse, ReplayTransport
from steno.wire import WIRES, load_wire
from tests.acceptance.command_line import CommandOutput, run_steno, type_errors
from tests.acceptance.local_vendor import MODEL, run_vendor
from tests.acceptance.provider_responses import anthropic_stream, openai_stream

CALL = ToolCall(id="tc_1", name="read", arguments='{"path": "auth.go"}')
PROVIDER_WIRES = [name for name in WIRES if name != "chat"]  # no provider uses `chat`


@pytest.fixture
def steno(tmp_path: Path) -> Callable[..., CommandOutput]:
    """The program, with a home folder and a store of its own."""
    return partial(run_steno, home=tmp_path, store=f"sqlite:{tmp_path}/sessions.db")


# -- sealed messages, blocks and events ----------------------------------------------------------

MISSING_CASES = """\
from typing import assert_never
from steno import *


def message(value: Message) -> None:
    match value:
        case SystemMessage() | UserMessage() | AssistantMessage():
            pass
        case _:
            assert_never(value)  # ToolResultMessage


def block(value: Block) -> None:
    match value:
        case Text() | Image() | FileReference() | Resource():
            pass
        case ToolCall() | InvalidToolCall() | Opaque():
            pass
        case _:
            assert_never(value)  # Thinking


def event(value: Event) -> None:
    match value:
        case TextDelta() | ThinkingDelta() | ToolCallBegin() | ToolCallDelta():
            pass
        case BlockAdded() | BlockSealed() | ExtrasAdded() | Finished():
            pass
        case _:
            assert_never(value)  # ToolCallEnd
"""


@pytest.mark.requirement("S4-01")
def test_the_type_checker_names_the_case_that_a_match_misses(tmp_path: Path) -> None:
    missed = [line.partition("#")[2].strip() for line in MISSING_CASES.splitlines() if "#" in line]
    errors = type_errors(MISSING_CASES, tmp_path)
    assert len(errors) == len(missed) == 3
    for name, error in zip(missed, errors, strict=True):
        assert f'"{name}"' in error


@pytest.mark.requirement("S4-01")
@pytest.mark.parametrize(
    "closed", [SystemMessage, UserMessage, AssistantMessage, ToolResultMessage]
)
def test_other_packages_cannot_add_a_message_type(closed: type) -> None:
    with pytest.raises(TypeError):
        type("Added", (closed,), {})


@pytest.mark.requirement("S4-01")
def test_a_message_refuses_a_block_type_of_another_package() -> None:
    added: Any = type("Added", (Text,), {})
    with pytest.raises(InvalidMessage):
        UserMessage((added("Hello"),))


@pytest.mark.requirement("S4-02")
def test_a_tool_result_is_a_message_of_the_conversation() -> None:
    result = ChatMessage.tool_result("tc_1", "package auth", tool_name="read")
    conversation = Conversation(
        [ChatMessage.user("Fix it"), ChatMessage.assistant(None, [CALL]), result]
    )
    assert conversation.messages()[-1] == result
    assert isinstance(result, ToolResultMessage)
    assert result.tool_call_id == "tc_1"


ANSWERED = (
    ChatMessage.user("Fix it"),
    ChatMessage.assistant(None, [CALL]),
    ChatMessage.tool_result("tc_1", "package auth", tool_name="read"),
    ChatMessage.assistant("Done."),
    ChatMessage.user("Thanks"),
)
"""A conversation with a result in its middle."""
TOLD = {"role": "tool", "tool_call_id": "tc_1", "content": "package auth"}
CALLED = {"id": "tc_1", "name": "read"}
RESULT_ITEMS: dict[str, dict[str, Any]] = {
    "anthropic_messages": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "tc_1", "content": "package auth"}],
    },
    "chat": TOLD,
    "gemini": {
        "role": "user",
        "parts": [{"functionResponse": CALLED | {"response": {"output": "package auth"}}}],
    },
    "ollama_chat": TOLD | {"tool_name": "read"},
    "openai_chat": TOLD,
    "openai_responses": {
        "type": "function_call_output",
        "call_id": "tc_1",
        "output": "package auth",
    },
}
"""The message or the item of each wire for the result."""


def places_of_texts(items: list[Any]) -> list[list[int]]:
    """Return the numbers of the items that contain each text of `ANSWERED`, in its order."""
    written = [json.dumps(item) for item in items]
    texts = ("Fix it", "auth.go", "package auth", "Done.", "Thanks")
    return [[n for n, item in enumerate(written) if text in item] for text in texts]


@pytest.mark.requirement("S4-02")
@pytest.mark.parametrize("name", WIRES)
def test_a_tool_result_is_a_message_or_an_item_of_its_own_in_a_request(name: str) -> None:
    body = load_wire(name).encode_request(Request(model="m", messages=ANSWERED)).json
    [items] = [body[member] for member in ("messages", "contents", "input") if member in body]
    places = places_of_texts(items)
    assert [len(found) for found in places] == [1] * 5
    assert [n for [n] in places] == sorted({n for [n] in places})
    assert [item for item in items if "package auth" in json.dumps(item)] == [RESULT_ITEMS[name]]


@pytest.mark.requirement("S4-02")
def test_a_tool_result_is_a_message_of_its_own_in_a_session_file() -> None:
    exported = FORMATS["session"].encode(Header(id="s"), Conversation(ANSWERED).entries())
    messages = json.loads(exported.data)["messages"]
    assert places_of_texts(messages) == [[0], [1], [2], [3], [4]]
    assert [message["type"] for message in messages] == [
        *("user", "assistant", "tool_result", "assistant", "user")
    ]


# -- streaming -----------------------------------------------------------------------------------


def sse(*chunks: dict[str, Any] | str) -> list[bytes]:
    """The body of a streamed response of a chat completion."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return [f"data: {text}\n\n".encode() for text in texts]


def delta(**fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def ending(reason: str, **more: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **more}


class LocalServer:
    """An HTTP server on this machine that sends a streamed response piece by piece."""

    def __init__(self, pieces: list[bytes], *, hangs: bool = False, status: int = 200) -> None:
        self._pieces = pieces
        self._hangs = hangs
        self._status = status
        self.bodies: list[dict[str, Any]] = []
        self.closed = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        ]
        self.bodies.append(json.loads(await reader.readexactly(length)))
        kind = "text/event-stream" if self._status == 200 else "application/json"
        writer.write(
            f"HTTP/1.1 {self._status} OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()
        )
        for piece in self._pieces:
            writer.write(piece)
            await writer.drain()
        if self._hangs:
            await reader.read()  # until the client closes the connection
        writer.close()
        self.closed.set()


@asynccontextmanager
async def served(server: LocalServer) -> AsyncGenerator[HttpProvider]:
    listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        base_url = f"http://127.0.0.1:{port}/v1"
        async with connect("openai", model="m-1", key="sk-test", base_url=base_url) as provider:
            yield provider


HELLO = Request(messages=(ChatMessage.user("Hello"),))


@pytest.mark.requirement("S4-03")
def test_a_stream_is_pulled_event_by_event_until_its_end() -> None:
    async def main() -> None:
        pieces = sse(delta(content="All "), delta(content="green."), ending("stop"), "[DONE]")
        async with served(LocalServer(pieces)) as provider:
            stream = provider.stream(HELLO)
            with pytest.raises(StenoError):  # nothing has been read
                stream.message()
            assert await anext(stream) == TextDelta(0, "All ")
            assert stream.message().text == "All "
            assert await anext(stream) == TextDelta(0, "green.")
            await anext(stream)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            assert stream.message().text == "All green."
            assert stream.message().stop_reason is StopReason.END_TURN

    asyncio.run(main())


@pytest.mark.requirement("S4-03")
def test_after_an_error_the_message_has_the_part_that_arrived() -> None:
    async def main() -> None:
        async with served(LocalServer(sse(delta(content="All ")))) as provider:
            stream = provider.stream(HELLO)
            assert await anext(stream) == TextDelta(0, "All ")
            with pytest.raises(CutShort):
                await anext(stream)
            assert stream.message().text == "All "
            assert stream.message().stop_reason is StopReason.ERROR

    asyncio.run(main())


@pytest.mark.requirement("S4-04")
@pytest.mark.parametrize("by", ["cancel", "close"])
def test_cancelling_ends_a_waiting_read_and_the_connection(by: str) -> None:
    async def main() -> None:
        server = LocalServer(sse(delta(content="Let me th")), hangs=True)
        async with served(server) as provider:
            stream = provider.stream(HELLO)
            await anext(stream)
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            if by == "cancel":
                waiting.cancel()
            else:
                stream.close()
            await asyncio.wait([waiting], timeout=60)
            assert waiting.done()
            assert stream.message().text == "Let me th"
            assert stream.message().stop_reason is StopReason.ABORTED
            await asyncio.wait_for(server.closed.wait(), 60)

    asyncio.run(main())


@pytest.mark.requirement("S4-05")
@pytest.mark.parametrize(
    ("server", "error"),
    [
        (lambda: LocalServer([b"data: {not json}\n\n"]), ProtocolError),
        (lambda: LocalServer(sse({"error": {"message": "the engine died"}})), ProviderError),
        (
            lambda: LocalServer([b'{"error": {"message": "bad key"}}'], status=401),
            ProviderError,
        ),
    ],
)
def test_transport_and_protocol_errors_are_raised(
    server: Callable[[], LocalServer], error: type[Exception]
) -> None:
    async def main() -> None:
        async with served(server()) as provider:
            with pytest.raises(error):
                await provider.stream(HELLO).collect()

    asyncio.run(main())


@pytest.mark.requirement("S4-05")
def test_events_carry_text_thinking_and_tool_calls_from_their_begin_to_their_end() -> None:
    async def main() -> None:
        first = {"index": 0, "id": "tc_1", "function": {"name": "read", "arguments": '{"path"'}}
        second = {"index": 0, "function": {"arguments": ': "auth.go"}'}}
        pieces = sse(
            *(delta(reasoning_content="Hm."), delta(content="I look.")),
            *(delta(tool_calls=[first]), delta(tool_calls=[second])),
            *(ending("tool_calls"), "[DONE]"),
        )
        async with served(LocalServer(pieces)) as provider:
            events = [event async for event in provider.stream(HELLO)]
        thinking, text, begin, *deltas, end, _ = events
        assert isinstance(thinking, ThinkingDelta)
        assert isinstance(text, TextDelta)
        assert (thinking.text, text.text) == ("Hm.", "I look.")
        assert isinstance(begin, ToolCallBegin)
        assert (begin.id, begin.name) == ("tc_1", "read")
        parts = [event.arguments_delta for event in deltas if isinstance(event, ToolCallDelta)]
        assert "".join(str(part) for part in parts) == CALL.arguments
        assert isinstance(end, ToolCallEnd)
        assert end.call == CALL

    asyncio.run(main())


# -- provider and request ------------------------------------------------------------------------

READ = ToolDefinition(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)


def body_sent_for(request: Request) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        server = LocalServer(sse(delta(content="Yes."), ending("stop"), "[DONE]"))
        async with served(server) as provider:
            await provider.stream(request).collect()
        return server.bodies[0]

    return asyncio.run(main())


@pytest.mark.requirement("S4-06")
def test_a_request_names_model_system_prompt_messages_tools_and_settings() -> None:
    body = body_sent_for(
        Request(
            model="m-2",
            messages=(ChatMessage.system("Be brief."), ChatMessage.user("Hello")),
            tools=(READ,),
            max_tokens=100,
            temperature=0.5,
        )
    )
    assert body["model"] == "m-2"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["tools"][0]["function"]["name"] == "read"
    assert 100 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert body["temperature"] == 0.5


@pytest.mark.requirement("S4-06")
def test_fields_without_a_value_are_left_to_the_provider() -> None:
    body = body_sent_for(HELLO)
    assert body["model"] == "m-1"  # the model that the provider was made with
    assert not body.keys() & {"max_tokens", "max_completion_tokens", "temperature", "tools"}


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("temperature", [-0.01, 2.01, float("nan"), float("inf")])
def test_a_temperature_outside_of_0_to_2_is_refused(temperature: float) -> None:
    with pytest.raises(InvalidRequest):
        Request(messages=HELLO.messages, temperature=temperature)


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("temperature", [0, 0.0, 1, 2, 2.0])
def test_a_temperature_of_0_to_2_is_accepted(temperature: float) -> None:
    assert Request(messages=HELLO.messages, temperature=temperature).temperature == temperature


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_tokens_below_1_is_refused(limit: int) -> None:
    with pytest.raises(InvalidRequest):
        Request(messages=HELLO.messages, max_tokens=limit)


HIGHEST_TEMPERATURES = {"anthropic": 1.0, "mistral": 1.5, "openai": 2.0}
"""A provider may accept less than a request, which accepts 0 to 2."""


def temperature_sent(vendor: str, temperature: float, **options: Any) -> tuple[float, list[str]]:
    """Return the temperature that a provider receives, and the reasons of the changes."""
    is_anthropic = vendor == "anthropic"
    body = anthropic_stream("Yes.") if is_anthropic else openai_stream({"content": "Yes."})
    transport = ReplayTransport([RecordedResponse((body,))])

    async def main() -> list[str]:
        async with connect(
            vendor, model="m", key="sk-test", transport=transport, **options
        ) as provider:
            stream = provider.stream(Request(messages=HELLO.messages, temperature=temperature))
            assert (await stream.collect()).text == "Yes."
            return [change.reason for change in stream.losses]

    try:
        reasons = asyncio.run(main())
    except InvalidRequest:
        assert transport.sent == []
        raise
    [sent] = transport.sent
    return json.loads(sent.body or b"")["temperature"], reasons


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("vendor", ["anthropic", "mistral"])
def test_a_provider_refuses_a_temperature_that_it_does_not_accept(vendor: str) -> None:
    highest = HIGHEST_TEMPERATURES[vendor]
    with pytest.raises(InvalidRequest) as caught:
        temperature_sent(vendor, highest + 0.01)
    assert (caught.value.code, caught.value.field) == ("out_of_range", "temperature")


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("vendor", HIGHEST_TEMPERATURES)
@pytest.mark.parametrize("adapts", [False, True])
def test_a_provider_receives_a_temperature_up_to_the_highest_that_it_accepts(
    vendor: str, adapts: bool
) -> None:
    highest = HIGHEST_TEMPERATURES[vendor]
    for temperature in (0.5, highest):
        sent = temperature_sent(vendor, temperature, adapt_settings=adapts)
        assert sent == (temperature, [])


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize("vendor", ["anthropic", "mistral"])
def test_a_provider_that_adapts_settings_lowers_the_temperature_and_reports_it(vendor: str) -> None:
    sent = temperature_sent(vendor, 2.0, adapt_settings=True)
    assert sent == (HIGHEST_TEMPERATURES[vendor], ["temperature_lowered"])


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-08")
def test_a_definition_does_not_know_how_its_tool_works() -> None:
    assert Request(messages=HELLO.messages, tools=(READ,)).tools == (READ,)
    assert not callable(READ)
    encoded = load_wire("anthropic_messages").encode_request(
        Request(model="m", messages=HELLO.messages, tools=(READ,))
    )
    [sent] = encoded.json["tools"]
    assert (sent["name"], sent["description"]) == ("read", "Read a file.")
    assert sent["input_schema"]["type"] == "object"


@tool(capability="read")
def check(what: str) -> str:
    """Check something."""
    if what == "reported":
        raise ToolFailed("2 tests fail")
    raise RuntimeError("the disk is gone")


@pytest.mark.requirement("S4-08")
def test_a_failure_that_the_tool_reports_differs_from_a_tool_that_cannot_run() -> None:
    calls = [
        ToolCall.create("check", {"what": what}, id=what) for what in ("reported", "infrastructure")
    ]
    calls.append(ToolCall(id="missing", name="no_such_tool"))
    conversation = Conversation()
    provider = ScriptedProvider([ChatMessage.assistant(None, calls), "Two failures."])
    asyncio.run(Agent(provider, conversation, tools=[check]).run("Check."))
    results = {
        message.tool_call_id: message
        for message in conversation.messages()
        if isinstance(message, ToolResultMessage)
    }
    assert all(result.is_error for result in results.values())
    reported, broken = results["reported"], results["infrastructure"]
    assert reported.text == "2 tests fail"
    assert reported.failure is not None
    assert reported.failure.traceback is None
    assert broken.failure is not None
    assert "the disk is gone" in str(broken.failure.traceback)
    assert results["missing"].outcome is Outcome.UNAVAILABLE


# -- stop reasons and usage ----------------------------------------------------------------------


def response_of(wire: str, stop: str) -> dict[str, Any]:
    """Return a whole response of a provider, as its documentation shows it."""
    match wire:
        case "openai_chat":
            usage = {"prompt_tokens": 150, "completion_tokens": 42, "total_tokens": 192}
            choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": stop}
            return {"choices": [choice], "usage": usage}
        case "openai_responses":
            usage = {"input_tokens": 150, "output_tokens": 42, "total_tokens": 192}
            text = {"type": "output_text", "text": "Hi", "annotations": []}
            item = {"type": "message", "role": "assistant", "content": [text]}
            return {"object": "response", "status": stop, "output": [item], "usage": usage}
        case "anthropic_messages":
            usage = {"input_tokens": 150, "output_tokens": 42}
            message = {"type": "message", "role": "assistant", "stop_reason": stop}
            return message | {"content": [{"type": "text", "text": "Hi"}], "usage": usage}
        case "gemini":
            content = {"role": "model", "parts": [{"text": "Hi"}]}
            usage = {"promptTokenCount": 150, "candidatesTokenCount": 42, "totalTokenCount": 192}
            candidate = {"content": content, "finishReason": stop}
            return {"candidates": [candidate], "usageMetadata": usage}
        case _:
            answer = {"message": {"role": "assistant", "content": "Hi"}, "done": True}
            return answer | {"done_reason": stop, "prompt_eval_count": 150, "eval_count": 42}


@pytest.mark.requirement("S4-09")
@pytest.mark.parametrize(
    ("wire", "raw", "reason"),
    [
        ("openai_chat", "stop", StopReason.END_TURN),
        ("openai_chat", "length", StopReason.LENGTH),
        ("openai_chat", "tool_calls", StopReason.TOOL_USE),
        ("openai_responses", "completed", StopReason.END_TURN),
        ("openai_responses", "cancelled", StopReason.ABORTED),
        ("anthropic_messages", "end_turn", StopReason.END_TURN),
        ("anthropic_messages", "max_tokens", StopReason.LENGTH),
        ("anthropic_messages", "tool_use", StopReason.TOOL_USE),
        ("gemini", "STOP", StopReason.END_TURN),
        ("gemini", "MAX_TOKENS", StopReason.LENGTH),
        ("ollama_chat", "stop", StopReason.END_TURN),
        ("ollama_chat", "length", StopReason.LENGTH),
        *[(wire, "galactic_alignment", StopReason.UNKNOWN) for wire in PROVIDER_WIRES],
    ],
)
def test_the_stop_reason_is_mapped_and_the_raw_one_is_kept(
    wire: str, raw: str, reason: StopReason
) -> None:
    message = load_wire(wire).decode_response(json.dumps(response_of(wire, raw)))
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hi", reason, raw)
    stored = decode_message(encode_message(message))
    assert stored == message


@pytest.mark.requirement("S4-10")
@pytest.mark.parametrize(
    ("wire", "stop"),
    [
        *(("openai_chat", "stop"), ("openai_responses", "completed")),
        *(("anthropic_messages", "end_turn"), ("gemini", "STOP"), ("ollama_chat", "stop")),
    ],
)
def test_a_message_has_the_tokens_of_a_whole_response(wire: str, stop: str) -> None:
    message = load_wire(wire).decode_response(json.dumps(response_of(wire, stop)))
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens) == (150, 42)


@pytest.mark.requirement("S4-10")
def test_a_message_has_the_tokens_that_the_provider_counted() -> None:
    async def main() -> None:
        usage = {"prompt_tokens": 150, "completion_tokens": 42, "total_tokens": 192}
        pieces = sse(
            *(delta(content="Hi"), ending("stop"), {"choices": [], "usage": usage}, "[DONE]")
        )
        async with served(LocalServer(pieces)) as provider:
            message = await provider.stream(HELLO).collect()
        assert message.usage is not None
        assert (message.usage.input_tokens, message.usage.output_tokens) == (150, 42)

    asyncio.run(main())


# -- session files -------------------------------------------------------------------------------

SESSION = {
    "version": 1,
    "id": "session-id",
    "system_prompt": "You are...",
    "created_at": "2026-02-18T12:00:00Z",
    "updated_at": "2026-02-18T12:05:00Z",
    "messages": [
        {
            "type": "user",
            "content": [{"type": "text", "text": "Fix the login bug"}],
            "timestamp": "2026-02-18T12:00:00Z",
        },
        {
            "type": "assistant",
            "content": [
                {"type": "text", "text": "I'll look at the auth module."},
                {
                    "type": "tool_call",
                    "id": "tc_1",
                    "name": "read",
                    "arguments": {"path": "auth.go"},
                },
            ],
            "stop_reason": "tool_use",
            "raw_stop_reason": "tool_use",
            "usage": {"input_tokens": 150, "output_tokens": 42},
            "timestamp": "2026-02-18T12:00:01Z",
        },
        {
            "type": "tool_result",
            "tool_call_id": "tc_1",
            "tool_name": "read",
            "content": [{"type": "text", "text": "package auth\n..."}],
            "is_error": False,
            "timestamp": "2026-02-18T12:00:02Z",
        },
    ],
}


@pytest.mark.requirement("S4-11")
def test_the_session_file_of_the_document_is_loaded_and_saved_unchanged() -> None:
    imported = FORMATS["session"].decode(json.dumps(SESSION).encode())
    system, user, answer, result = [entry.message for entry in imported.entries]
    assert isinstance(system, SystemMessage)
    assert system.text == "You are..."
    assert user == ChatMessage.user("Fix the login bug")
    assert isinstance(answer, AssistantMessage)
    assert answer.text == "I'll look at the auth module."
    assert [(call.id, call.name) for call in answer.tool_calls] == [("tc_1", "read")]
    assert json.loads(answer.tool_calls[0].arguments) == {"path": "auth.go"}
    assert (answer.stop_reason, answer.raw_stop_reason) == (StopReason.TOOL_USE, "tool_use")
    assert answer.usage == Usage(input_tokens=150, output_tokens=42)
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_call_id, result.tool_name) == ("tc_1", "read")
    assert (result.text, result.is_error) == ("package auth\n...", False)
    exported = FORMATS["session"].encode(imported.header, imported.entries)
    assert json.loads(exported.data) == SESSION
    assert exported.losses == ()


def own_call(index: int, path: str) -> dict[str, Any]:
    """A call to `read` as a provider streams it."""
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    return {"index": index, "id": f"tc_{index}", "function": function}


def own_block(index: int, path: str) -> dict[str, Any]:
    """The block for this call in a session file."""
    return {"type": "tool_call", "id": f"tc_{index}", "name": "read", "arguments": {"path": path}}


OWN_RESPONSES = [
    openai_stream(
        *({"content": "I look."}, {"tool_calls": [own_call(0, "a.go"), own_call(1, "b.go")]}),
        finish="tool_calls",
        tokens=(150, 42),
    ),
    openai_stream({"content": "Fixed."}, tokens=(210, 7)),
]
OWN_MESSAGES = [
    {"type": "user", "content": [{"type": "text", "text": "Fix the login bug"}]},
    {
        "type": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            own_block(0, "a.go"),
            own_block(1, "b.go"),
        ],
        "stop_reason": "tool_use",
        "raw_stop_reason": "tool_calls",
        "usage": {"input_tokens": 150, "output_tokens": 42},
    },
    {
        "type": "tool_result",
        "tool_call_id": "tc_0",
        "tool_name": "read",
        "content": [{"type": "text", "text": "package auth"}],
        "is_error": False,
    },
    {
        "type": "tool_result",
        "tool_call_id": "tc_1",
        "tool_name": "read",
        "content": [{"type": "text", "text": "no such file"}],
        "is_error": True,
    },
    {
        "type": "assistant",
        "content": [{"type": "text", "text": "Fixed."}],
        "stop_reason": "end_turn",
        "raw_stop_reason": "stop",
        "usage": {"input_tokens": 210, "output_tokens": 7},
    },
]
"""The messages of the session file for `OWN_RESPONSES`, without their times."""


@pytest.mark.requirement("S4-11")
def test_the_session_file_of_an_own_run_has_every_member_of_the_document(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    began = datetime.now(UTC)
    with open_store(f"sqlite:{tmp_path}/sessions.db") as store:
        conversation = store.new([ChatMessage.system("You fix code.")], id="own")
        read = ScriptedTool("read", ["package auth", ToolFailed("no such file")])
        provider = ReplayingProvider("openai_chat", OWN_RESPONSES)
        asyncio.run(Agent(provider, conversation, tools=[read]).run("Fix the login bug"))
    session = json.loads(steno("sessions", "export", "own", "--format", "session").out)
    times = [message.pop("timestamp") for message in session["messages"]]
    times = [session.pop("created_at"), *times, session.pop("updated_at")]
    named = {"version": 1, "id": "own", "system_prompt": "You fix code."}
    assert session == named | {"messages": OWN_MESSAGES}
    assert [time for time in times if not time.endswith("Z")] == []
    ordered = [began, *map(datetime.fromisoformat, times), datetime.now(UTC)]
    assert ordered == sorted(ordered)


@pytest.mark.requirement("S4-11")
def test_an_imported_session_keeps_its_id_and_is_not_imported_twice(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(SESSION))
    assert "session-id" in steno("sessions", "import", file).out
    again = steno("sessions", "import", file)
    assert again.status == 0
    assert "session-id" in again.out
    listed = json.loads(steno("sessions", "list", "--json").out.splitlines()[0])
    assert listed["id"] == "session-id"
    assert len(steno("sessions", "list", "--json").out.splitlines()) == 1
    exported = steno("sessions", "export", "last", "--format", "session")
    assert json.loads(exported.out) == SESSION


@pytest.mark.requirement("S4-11")
def test_another_session_with_the_same_id_gets_an_id_of_its_own(
    steno: Callable[..., CommandOutput],
) -> None:
    steno("sessions", "import", "-", stdin=json.dumps(SESSION))
    other = SESSION | {"system_prompt": "You are another assistant."}
    imported = steno("sessions", "import", "-", stdin=json.dumps(other))
    assert imported.status == 0
    assert len(steno("sessions", "list", "--json").out.splitlines()) == 2
    added = imported.out.strip()
    assert added != "session-id"
    for id in ("session-id", added):
        assert id in imported.err
    exported = steno("sessions", "export", added, "--format", "session")
    assert json.loads(exported.out) == other | {"id": added}


@pytest.mark.requirement("S4-11")
def test_the_session_that_was_imported_last_is_the_last_one_whatever_times_it_has(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    """The name `last` in a command, for files whose times are in the future and long ago."""
    with open_store(f"sqlite:{tmp_path}/sessions.db") as store:
        store.new([ChatMessage.user("Hello")], id="own")
    for year, id in ((2999, "the-future"), (2001, "long-ago")):
        session = json.dumps(SESSION | {"id": id}).replace("2026-", f"{year}-")
        assert steno("sessions", "import", "-", stdin=session).out.strip() == id
    exported = steno("sessions", "export", "last", "--format", "session")
    assert json.loads(exported.out)["id"] == "long-ago"
    listed = steno("sessions", "list", "--json").out.splitlines()
    assert [json.loads(line)["id"] for line in listed] == ["long-ago", "the-future", "own"]


def png(width: int, height: int) -> bytes:
    """Return an image of random bytes, which cannot be compressed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    rows = b"".join(b"\0" + os.urandom(width * 3) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.requirement("S4-11")
def test_an_export_has_the_images_and_files_of_its_prompt(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    files = {"x.png": png(8, 8), "y.png": png(8, 8), "notes.txt": b"ship on Friday\n"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with run_vendor("Two pictures.") as vendor:
        configuration = tmp_path / ".config" / "steno" / "config.toml"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(vendor.settings)
        prompt = ("-p", "look at @x.png and @notes.txt", "--image", "y.png")
        sent = steno(*prompt, "--model", MODEL)
        assert sent.status == 0, sent.err
    exported = json.loads(steno("sessions", "export", "last", "--format", "session").out)
    [message] = [message for message in exported["messages"] if message["type"] == "user"]
    images = [block for block in message["content"] if block["type"] == "image"]
    assert {base64.b64decode(image["data"]) for image in images} == {files["x.png"], files["y.png"]}
    assert [image["mime_type"] for image in images] == ["image/png"] * 2
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    assert "ship on Friday" in "".join(texts)
    flat = json.loads(steno("sessions", "export", "last", "--format", "chat").out)
    [content] = [message["content"] for message in flat if message["role"] == "user"]
    assert "ship on Friday" in json.dumps(content)


# -- validation ----------------------------------------------------------------------------------

PIXEL = Image(source=ImageData(png(1, 1)), mime_type="image/png")


FORBIDDEN: list[tuple[Callable[..., ChatMessage], tuple[object, ...]]] = [
    (UserMessage, (Text("Do it"), CALL)),
    (UserMessage, (Text("Do it"), Thinking("hm"))),
    (SystemMessage, (CALL,)),
    (SystemMessage, (PIXEL,)),
    (partial(ToolResultMessage, tool_call_id="c"), (CALL,)),
    (partial(ToolResultMessage, tool_call_id="c"), (Thinking("hm"),)),
    (AssistantMessage, (FileReference(path="a.txt"),)),
]


@pytest.mark.requirement("S4-12")
@pytest.mark.parametrize(("message", "content"), FORBIDDEN)
def test_a_block_that_a_message_cannot_hold_is_refused(
    message: Callable[..., ChatMessage], content: tuple[object, ...]
) -> None:
    with pytest.raises(InvalidMessage):
        message(content=content)


@pytest.mark.requirement("S4-12")
def test_the_blocks_that_a_message_can_hold_are_accepted() -> None:
    UserMessage((Text("Look"), PIXEL))
    AssistantMessage(content=(Thinking("hm"), Text("I look."), CALL))
    ToolResultMessage(tool_call_id="tc_1", content=(Text("a picture"), PIXEL))


# -- built-in tools and the loop -----------------------------------------------------------------


def work(folder: Path, *calls: ToolCall) -> list[str]:
    """Run calls of the built-in tools, and return the texts of their results."""

    async def main() -> list[str]:
        conversation = Conversation()
        gate = Gate(Permissions.of(allow=["write(**)", "edit(**)", "bash(*)"]))
        provider = ScriptedProvider([*[ChatMessage.assistant(None, [each]) for each in calls], ""])
        async with Toolbox(Workspace(folder)) as toolbox:
            agent = Agent(provider, conversation, tools=toolbox.tools, gate=gate)
            result = await agent.run("Work.")
        assert result.turns == len(calls) + 1
        return [
            str(message.text)
            for message in conversation.messages()
            if isinstance(message, ToolResultMessage) and not message.is_error
        ]

    return asyncio.run(main())


@pytest.mark.requirement("S4-13")
def test_the_built_in_tools_write_read_edit_search_and_run(tmp_path: Path) -> None:
    results = work(
        tmp_path,
        ToolCall.create("write", {"path": "src/greet.sh", "content": "echo Helo\n"}, id="1"),
        ToolCall.create("read", {"path": "src/greet.sh"}, id="2"),
        ToolCall.create("edit", {"path": "src/greet.sh", "old": "Helo", "new": "Hello"}, id="3"),
        ToolCall.create("grep", {"pattern": "Hel+o"}, id="4"),
        ToolCall.create("glob", {"pattern": "**/*.sh"}, id="5"),
        ToolCall.create("bash", {"command": "sh src/greet.sh"}, id="6"),
    )
    _, read, _, found, files, output = results
    assert (tmp_path / "src" / "greet.sh").read_text() == "echo Hello\n"
    assert "echo Helo" in read
    assert "echo Hello" in found
    assert "src/greet.sh" in files
    assert "Hello" in output


@pytest.mark.requirement("S4-14")
def test_the_loop_calls_model_and_tools_in_turn_until_the_model_is_done() -> None:
    numbers = ScriptedTool("number", ["one", "two", "three"])
    calls = [ToolCall(id=f"c{n}", name="number") for n in range(3)]
    provider = ScriptedProvider(
        [
            *(ChatMessage.assistant("First.", calls[:1]), ChatMessage.assistant(None, calls[1:])),
            "That is all.",
        ]
    )
    conversation = Conversation()
    result = asyncio.run(Agent(provider, conversation, tools=[numbers]).run("Count."))
    assert (result.end_reason, result.turns, result.text) == ("done", 3, "That is all.")
    assert [message.role for message in conversation.messages()] == [
        *("user", "assistant", "tool", "assistant", "tool", "tool", "assistant")
    ]
    assert [call.id for call in numbers.calls] == ["c0", "c1", "c2"]
    seen = [message.text for message in provider.requests[-1].messages]
    assert seen[-2:] == ["two", "three"]


@pytest.mark.requirement("S4-14")
def test_the_loop_runs_on_the_command_line(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("ship on Friday\n")
    ran = steno("-p", "read notes.txt", "--model", "offline")
    assert ran.status == 0
    assert "ship on Friday" in ran.out


# -- the full screen -----------------------------------------------------------------------------


class Terminal:
    """A real terminal, in a tmux server of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._socket = f"acceptance-{uuid4().hex[:12]}"

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", os.devnull, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return ran.stdout

    def start(self, *arguments: str) -> None:
        home, python = shlex.quote(str(self._home)), shlex.quote(sys.executable)
        command = f"env -i TERM=$TERM LANG=C.UTF-8 PATH=$PATH HOME={home} {python}"
        program = f"{command} -m steno {' '.join(arguments)}; echo [left with $?]; exec sleep 60"
        self.tmux("new-session", "-d", "-x", "100", "-y", "30", "-c", str(self._home), program)

    def wait_for(self, text: str) -> str:
        end = time.monotonic() + 60
        while text not in (screen := self.tmux("capture-pane", "-p")):
            assert time.monotonic() < end, f"{text!r} is not on the screen:\n{screen}"
            time.sleep(0.05)
        return screen

    def stop(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.fail("this test needs tmux; Debian and Ubuntu: apt install tmux", pytrace=False)
    window = Terminal(tmp_path)
    try:
        yield window
    finally:
        window.stop()


@pytest.mark.requirement("S4-15")
def test_the_full_screen_sends_a_prompt_and_shows_the_work(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("ship on Friday\n")
    terminal.start("--model", "offline")
    terminal.wait_for("type a prompt")
    terminal.tmux("send-keys", "-l", "read notes.txt")
    terminal.wait_for("read notes.txt")
    terminal.tmux("send-keys", "Enter")
    terminal.wait_for("ship on Friday")
    terminal.tmux("send-keys", "C-d")
    terminal.wait_for("[left with 0]")


# -- testing and conformance ---------------------------------------------------------------------


@pytest.mark.requirement("S4-16")
def test_users_test_their_code_with_a_scripted_provider_and_scripted_tools() -> None:
    provider = ScriptedProvider(["Sunny.", [TextDelta(0, "Hal"), ProviderError("it died")]])
    assert asyncio.run(provider.stream(HELLO).collect()).text == "Sunny."
    with pytest.raises(ProviderError):
        asyncio.run(provider.stream(HELLO).collect())
    assert provider.requests == [HELLO, HELLO]


@pytest.mark.requirement("S4-16")
def test_a_scripted_tool_returns_its_answers_in_order_and_keeps_the_calls() -> None:
    weather = ScriptedTool("weather", ["Sunny.", ToolFailed("no such town"), echo_town])
    towns = [ToolCall.create("weather", {"town": name}, id=name) for name in ("Oslo", "X", "Rome")]
    turns = [ChatMessage.assistant(None, [call]) for call in towns]
    conversation = Conversation()
    agent = Agent(ScriptedProvider([*turns, "Done."]), conversation, tools=[weather])
    asyncio.run(agent.run("Compare the weather."))
    results = [each for each in conversation.messages() if isinstance(each, ToolResultMessage)]
    assert [result.text for result in results] == ["Sunny.", "no such town", "Rain in Rome."]
    assert [result.is_error for result in results] == [False, True, False]
    assert weather.calls == weather.ended == towns


def echo_town(call: ToolCall, context: ToolContext) -> str:
    return f"Rain in {call.get('town')}."


@pytest.mark.requirement("S4-16")
def test_a_script_that_runs_out_fails_the_test() -> None:
    """The loop would turn an ordinary error of a tool into a result."""
    weather = ScriptedTool("weather", [])
    call = ToolCall.create("weather", {"town": "Oslo"})
    agent = Agent(
        ScriptedProvider([ChatMessage.assistant(None, [call])]), Conversation(), tools=[weather]
    )
    with pytest.raises(ScriptRanOut):
        asyncio.run(agent.run("What about Oslo?"))
    with pytest.raises(ScriptRanOut):
        asyncio.run(ScriptedProvider([]).stream(HELLO).collect())


HARNESSES: list[ProviderHarness] = [
    ScriptedProviderHarness(),
    *[HttpProviderHarness(server) for server in SERVERS if server.wire.NAME != "chat"],
]
"""Every provider; `chat` is the file format of steno, which no server speaks."""


@pytest.mark.requirement("S4-17")
@pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("harness", HARNESSES, ids=lambda harness: harness.name)
def test_every_provider_passes_the_stream_cases(case: StreamCase, harness: ProviderHarness) -> None:
    result = run_stream_case(case, harness)
    expected = (CaseOutcome.OK, CaseOutcome.NOT_APPLICABLE)
    assert result.outcome in expected, str(result)


@pytest.mark.requirement("S4-17")
@pytest.mark.parametrize(
    "name",
    [
        *("complete_stream", "message_before_first_read", "partial_after_error"),
        *("cancel_while_waiting", "close_unblocks_read", "interleaved_tool_call_deltas"),
    ],
)
def test_the_cases_of_the_document_are_among_the_stream_cases(name: str) -> None:
    [case] = [case for case in STREAM_CASES if case.__name__ == name]
    outcomes = [run_stream_case(case, harness).outcome for harness in HARNESSES]
    assert outcomes.count(CaseOutcome.OK) >= len(HARNESSES) - 2


@pytest.mark.requirement("S4-18")
def test_large_images_are_kept_outside_of_the_message(tmp_path: Path) -> None:
    data = png(200, 200)
    prompt = ChatMessage.user([Text("Look"), Image(source=ImageData(data), mime_type="image/png")])
    with open_store(f"sqlite:{tmp_path}/s.db") as store:
        store.new([prompt], id="s")
        stored = store.open("s").entries()[0].message
        assert stored is not None
        image = stored.content[1]
        assert isinstance(image, Image)
        assert isinstance(image.source, ImageBlob)
        assert store.blob(image.source.sha256) == data
        assert store.open("s").messages() == (prompt,)  # readers get the image in its place


@pytest.mark.requirement("S4-18")
def test_an_image_larger_than_any_model_accepts_is_refused(
    steno: Callable[..., CommandOutput], tmp_path: Path
) -> None:
    with (tmp_path / "huge.png").open("wb") as file:
        file.write(png(1, 1))
        file.truncate(51 * 1024 * 1024)
    sent = steno("-p", "look", "--image", "huge.png", "--model", "offline")
    assert sent.status == 1
    assert "huge.png" in sent.err


@pytest.mark.requirement("S4-18")
def test_the_session_format_writes_images_that_it_can_load_again() -> None:
    prompt = ChatMessage.user([Text("Look"), PIXEL])
    conversation = Conversation([prompt])
    exported = FORMATS["session"].encode(Header(id="s"), conversation.entries())
    loaded = FORMATS["session"].decode(exported.data)
    assert [entry.message for entry in loaded.entries] == [prompt]
