"""Providers with the real llama.cpp server, over its three protocols."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steno import (
    ChatMessage,
    Finished,
    Message,
    Request,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
)
from steno.errors import ContextOverflow, NotFound, ProviderError
from steno.providers import HttpTransport, connect
from steno.transport.http import TimeLimits
from tests.live.llama_providers import CHAT, MESSAGES, RESPONSES, every_protocol, provider_for
from tests.transport.http_server import run

pytestmark = pytest.mark.live

TOOLS = tuple(
    ToolDefinition(
        name=name,
        description=f"{name.title()} a file.",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    )
    for name in ("read", "list")
)
LONG = " ".join(["the lantern and the harbour"] * 60)


def request(*messages: Message, **settings: Any) -> Request:
    defaults: dict[str, Any] = {"tools": TOOLS, "temperature": 0, "max_tokens": 600}
    return Request(messages=messages, **defaults | settings)


@every_protocol
def test_text_arrives_word_by_word(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        async with provider_for(protocol, llama_url) as provider:
            asked = request(ChatMessage.user("SAY quartz harbour lantern sparrow"), tools=())
            async with provider.stream(asked) as stream:
                events = [event async for event in stream]
        deltas = [event for event in events if isinstance(event, TextDelta)]
        assert len(deltas) > 1
        assert isinstance(events[-1], Finished)
        message = stream.message()
        assert message.text == "quartz harbour lantern sparrow"
        assert message.stop_reason is StopReason.END_TURN
        assert message.usage is not None
        assert message.usage.input_tokens
        assert message.usage.output_tokens

    run(main())


@every_protocol
def test_a_tool_call_is_answered_and_the_model_responds(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        messages: list[Message] = [
            ChatMessage.system("You are an agent."),
            ChatMessage.user('CALL read {"path": "README.md"} SAY done reading'),
        ]
        async with provider_for(protocol, llama_url) as provider:
            stream = provider.stream(request(*messages))
            events = [event async for event in stream]
            turn = stream.message()
            assert turn.stop_reason is StopReason.TOOL_USE
            (call,) = turn.tool_calls
            assert call.name == "read"
            assert call.arguments.replace(" ", "") == '{"path":"README.md"}'
            fragments = [event for event in events if isinstance(event, ToolCallDelta)]
            assert "".join(f.arguments_delta or "" for f in fragments) == call.arguments
            messages += [turn, ToolResult.success(call.id, "# Title\nSome text.")]
            final = await provider.stream(request(*messages)).collect()
        assert final.text == "done reading"
        assert final.stop_reason is StopReason.END_TURN

    run(main())


@pytest.mark.parametrize("protocol", [CHAT, MESSAGES])
def test_parallel_calls_are_separate(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        asked = request(
            ChatMessage.user('CALL read {"path": "a.md"} CALL list {"path": "src"} SAY both done'),
            extras={"openai_chat": {"parallel_tool_calls": True}} if protocol == CHAT else None,
        )
        async with provider_for(protocol, llama_url) as provider:
            turn = await provider.stream(asked).collect()
            assert [(call.name, call.arguments.replace(" ", "")) for call in turn.tool_calls] == [
                ("read", '{"path":"a.md"}'),
                ("list", '{"path":"src"}'),
            ]
            assert len({call.id for call in turn.tool_calls}) == 2
            results = [ToolResult.success(call.id, "ok") for call in turn.tool_calls]
            final = await provider.stream(request(*asked.messages, turn, *results)).collect()
        assert final.text == "both done"

    run(main())


@every_protocol
def test_cancelling_in_mid_stream_stops_the_server_too(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        asked = request(ChatMessage.user(f"SAY {LONG}"), tools=())
        async with provider_for(protocol, llama_url) as provider:
            async with provider.stream(asked) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            message = stream.message()
            assert message.stop_reason is StopReason.ABORTED
            assert message.text
            assert LONG.startswith(message.text)
            while await busy_slots(llama_url):
                pass
            again = await provider.stream(request(ChatMessage.user("SAY still here"))).collect()
            assert again.text == "still here"

    run(main())


async def busy_slots(url: str) -> int:
    """Return the number of responses that the server is generating."""
    async with connect(CHAT, base_url=url, environ={}) as provider:
        slots = await provider._fetch("GET", "/slots")
    return sum(slot["is_processing"] for slot in slots)


@every_protocol
def test_cancelling_the_task_during_a_stream_keeps_the_received_text(
    protocol: str, llama_url: str
) -> None:
    async def main() -> None:
        asked = request(ChatMessage.user(f"SAY {LONG}"), tools=())
        began = asyncio.Event()
        async with provider_for(protocol, llama_url) as provider:
            stream = provider.stream(asked)

            async def read() -> None:
                async for _ in stream:
                    began.set()

            reader = asyncio.create_task(read())
            await began.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            assert stream.message().stop_reason is StopReason.ABORTED

    run(main())


@every_protocol
def test_a_turn_cut_by_its_limit_has_the_stop_reason(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        asked = request(ChatMessage.user(f"SAY {LONG}"), tools=(), max_tokens=5)
        async with provider_for(protocol, llama_url) as provider:
            message = await provider.stream(asked).collect()
        assert message.text
        if protocol != RESPONSES:  # this server calls it completed there
            assert message.stop_reason is StopReason.LENGTH

    run(main())


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "wire"),
    [(CHAT, "openai_chat"), (MESSAGES, "anthropic_messages"), (RESPONSES, "openai_responses")],
)
def test_a_request_that_the_server_rejects_raises_with_its_reason(
    protocol: str, wire: str, llama_url: str
) -> None:
    async def main() -> None:
        odd = {wire: {"temperature": "hot"}}
        asked = request(ChatMessage.user("SAY x"), temperature=None, extras=odd)
        async with provider_for(protocol, llama_url) as provider:
            with pytest.raises(ProviderError) as caught:
                await provider.stream(asked).collect()
        assert caught.value.status in (400, 500)
        assert caught.value.message

    run(main())


@every_protocol
def test_a_request_beyond_the_context_window_is_an_overflow(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        asked = request(ChatMessage.user("SAY " + "word " * 9_000), tools=())
        async with provider_for(protocol, llama_url) as provider:
            stream = provider.stream(asked)
            with pytest.raises(ContextOverflow) as caught:
                await stream.collect()
        assert caught.value.status == 400
        assert not caught.value.retryable
        assert stream.message().stop_reason is StopReason.ERROR

    run(main())


@every_protocol
def test_an_unknown_path_is_not_found(protocol: str, llama_url: str) -> None:
    async def main() -> None:
        async with provider_for(protocol, llama_url + "/nowhere") as provider:
            with pytest.raises(NotFound):
                await provider.stream(request(ChatMessage.user("SAY x"))).collect()

    run(main())


# -- across protocols ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "route",
    [(CHAT, MESSAGES, RESPONSES), (RESPONSES, CHAT, MESSAGES), (MESSAGES, RESPONSES, CHAT)],
    ids=" then ".join,
)
def test_a_conversation_continues_over_another_protocol(
    route: tuple[str, str, str], llama_url: str
) -> None:
    async def main() -> None:
        messages: list[Message] = [
            ChatMessage.system("You are an agent."),
            ChatMessage.user('CALL read {"path": "a.md"} SAY first is done'),
        ]

        async def turn(protocol: str) -> None:
            async with provider_for(protocol, llama_url) as provider:
                messages.append(await provider.stream(request(*messages)).collect())

        first, second, third = route
        await turn(first)
        (call,) = messages[-1].tool_calls
        messages.append(ToolResult.success(call.id, "one line"))
        await turn(second)
        assert messages[-1].text == "first is done"
        messages.append(ChatMessage.user('CALL list {"path": "src"} SAY second is done'))
        await turn(second)
        (call,) = messages[-1].tool_calls
        assert call.name == "list"
        messages.append(ToolResult.success(call.id, "b.py"))
        await turn(third)
        assert messages[-1].text == "second is done"

    run(main())


# -- connections and models ----------------------------------------------------------------------


def test_connections_are_used_again_and_models_listed(llama_url: str) -> None:
    async def main() -> None:
        transport = HttpTransport(environ={}, limits=TimeLimits(idle_s=20))
        provider = connect(CHAT, base_url=f"{llama_url}/v1", transport=transport, environ={})
        (model,) = await provider.models()
        assert model.id == "puppet"
        assert model.context_tokens == 4096
        assert (await provider.describe("puppet")).id == "puppet"
        await transport.close()

    run(main())


def test_streams_side_by_side_do_not_mix(llama_url: str) -> None:
    async def main() -> None:
        texts = ["quartz harbour", "lantern sparrow", "meadow kettle", "velvet saffron"]
        async with provider_for(CHAT, llama_url) as provider:
            asked = [request(ChatMessage.user(f"SAY {text}"), tools=()) for text in texts]
            messages = await asyncio.gather(*[provider.stream(r).collect() for r in asked])
        assert [message.text for message in messages] == texts

    run(main())
