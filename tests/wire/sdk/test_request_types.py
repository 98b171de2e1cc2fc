"""The providers' own SDKs accept the requests that steno encodes, by their request types."""

from __future__ import annotations

from typing import Any

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    Image,
    ImageData,
    Request,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from steno.wire import load_wire
from tests.wire.sdk.sdk_types import validate_as

PNG = Image(source=ImageData(b"\x89PNG\r\n\x1a\n"), mime_type="image/png")


def read_file(path: str, lines: int = 10) -> str:
    """Read the beginning of a file."""
    return path * lines


CALLS = (
    ToolCall(id="call_1", name="read_file", arguments='{"path": "a.py"}'),
    ToolCall(id="call_2", name="read_file", arguments='{"path": "b.py", "lines": 3}'),
)
REQUEST = Request(
    model="m-1",
    messages=(
        ChatMessage.system("Be brief."),
        ChatMessage.user((Text("What is this?"), PNG)),
        AssistantMessage(content=(Text("Let me look."), *CALLS)),
        ToolResult.success("call_1", "print()"),
        ToolResult.error("call_2", "no such file"),
        ChatMessage.assistant("A print."),
        ChatMessage.user("Thank you."),
    ),
    tools=(ToolDefinition.from_function(read_file),),
    max_tokens=100,
    temperature=0.5,
    top_p=0.9,
    stop=("END",),
    tool_choice="auto",
)


def body_of(wire: str) -> Any:
    return load_wire(wire).encode_request(REQUEST).json


@pytest.mark.requirement("S1-02")
def test_openai_takes_our_chat_requests() -> None:
    from openai.types.chat import completion_create_params as params

    validate_as(params.CompletionCreateParamsNonStreaming, body_of("openai_chat"))


@pytest.mark.requirement("S1-02")
def test_openai_takes_our_responses_requests() -> None:
    from openai.types.responses import response_create_params as params

    validate_as(params.ResponseCreateParamsNonStreaming, body_of("openai_responses"))


@pytest.mark.requirement("S1-02")
def test_anthropic_takes_our_requests() -> None:
    from anthropic.types import message_create_params as params

    body = body_of("anthropic_messages")
    # Still accepted by the API, and by this SDK only as extra members.
    settings = {name: body.pop(name) for name in ("temperature", "top_p")}
    assert settings == {"temperature": 0.5, "top_p": 0.9}
    validate_as(params.MessageCreateParamsNonStreaming, body)


@pytest.mark.requirement("S1-02")
def test_google_takes_our_requests() -> None:
    from google.genai import types

    body = body_of("gemini")
    judges = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    assert body.keys() <= judges.keys()
    for name, member in body.items():
        validate_as(judges[name], member)


@pytest.mark.requirement("S1-02")
def test_ollama_takes_our_requests() -> None:
    from ollama._types import ChatRequest

    body = body_of("ollama_chat")
    # Its types know only the keywords that the server knows; steno sends and reports the others.
    parameters = body["tools"][0]["function"]["parameters"]
    assert parameters.pop("additionalProperties") is False
    assert parameters["properties"]["lines"].pop("default") == 10
    validate_as(ChatRequest, body)
