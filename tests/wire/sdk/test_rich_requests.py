"""The SDKs accept everything in a turn: sealed thinking, parallel calls, images in results.

The message of the model is decoded from the bytes of its own protocol, so that it is sent back as
in practice, including seals, ids and recorded forms.
"""

from __future__ import annotations

from typing import Any

import pytest

from steno import (
    ChatMessage,
    Image,
    ImageData,
    ImageUrl,
    Message,
    Request,
    Text,
    ToolDefinition,
    ToolResult,
)
from steno.messages.usage import StopReason
from steno.testing.case_results import expect_json
from steno.testing.conformance import (
    RedactedThinking,
    Script,
    ScriptedServer,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    WholeCall,
)
from steno.testing.conformance.servers import (
    AnthropicMessagesServer,
    GeminiServer,
    OllamaChatServer,
    OpenAIChatServer,
    OpenAIResponsesServer,
)
from steno.wire import gemini
from tests.wire.decode_helpers import assemble_message, decode_events, sse
from tests.wire.sdk.sdk_types import plain_values, validate_as

MODEL = "m-1"
SEAL, REDACTED = "c2VhbGVkLWJ5LXRoZS1raXQ=", "cmVkYWN0ZWQtYnktdGhlLWtpdA=="
PNG = Image(source=ImageData(b"\x89PNG\r\n\x1a\n"), mime_type="image/png")
PIXELS = "iVBORw0KGgo="
ADDRESS = Image(source=ImageUrl("https://example.org/a.png"))

WORDS = ("required", "none", "auto")
EVERY_CHOICE = pytest.mark.parametrize("choice", [*WORDS, "read_file", "look"])
BOTH_WAYS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

SPOKEN: Script = (
    TextPiece("Let me look."),
    WholeCall("call_1", "read_file", '{"path": "a.py"}'),
    WholeCall("call_2", "look", '{"region": {"left": 1.5}}'),
    TurnEnd(StopReason.TOOL_USE),
)
SEALED: Script = (ThinkingPiece("Two things to do."), ThinkingSeal(SEAL), *SPOKEN)


def read_file(path: str) -> str:
    """Read a file."""
    return path


def look(region: dict[str, float], tags: list[str] | None = None) -> str:
    """Look at a part of the screen."""
    return f"{region}{tags}"


def body_of(speaker: ScriptedServer, script: Script, *, choice: str, stream: bool) -> Any:
    """Encode a turn with calls and their results, one of them with an image."""
    frames = speaker.frames(script)
    answer = assemble_message(decode_events(speaker.wire, *frames, model=MODEL))
    first, second = answer.tool_calls
    request = Request(
        model=MODEL,
        messages=(
            ChatMessage.system("Be brief."),
            ChatMessage.user((Text("What are these?"), PNG, ADDRESS)),
            answer,
            ToolResult.success(first.id, "print()"),
            ToolResult(tool_call_id=second.id, content=(Text("A window."), PNG)),
            ChatMessage.user("And now?"),
        ),
        tools=(
            ToolDefinition.from_function(read_file),
            ToolDefinition.from_function(look, strict=False),
        ),
        tool_choice=choice,
        max_tokens=100,
        top_p=0.9,
        stop=("END", "STOP"),
    )
    return speaker.wire.encode_request(request, stream=stream).json


def count(body: Any, text: str) -> int:
    """Count the strings that contain a text, at any depth."""
    if isinstance(body, dict):
        return sum(count(member, text) for member in body.values())
    if isinstance(body, list):
        return sum(count(element, text) for element in body)
    return isinstance(body, str) and text in body


@pytest.mark.requirement("S1-02")
@BOTH_WAYS
@EVERY_CHOICE
def test_anthropic_takes_thinking_calls_and_images(choice: str, stream: bool) -> None:
    from anthropic.types import message_create_params as params

    script = (RedactedThinking(REDACTED), *SEALED)
    body = body_of(AnthropicMessagesServer(), script, choice=choice, stream=stream)
    blocks = body["messages"][1]["content"]
    assert [block["type"] for block in blocks] == [
        *("redacted_thinking", "thinking", "text", "tool_use", "tool_use")
    ]
    assert (blocks[0]["data"], blocks[1]["signature"]) == (REDACTED, SEAL)
    assert count(body["messages"][2], PIXELS) == 1
    assert [tool.get("strict") for tool in body["tools"]] == [True, None]
    words = {"required": {"type": "any"}, "none": {"type": "none"}, "auto": {"type": "auto"}}
    assert body["tool_choice"] == words.get(choice, {"type": "tool", "name": choice})
    assert (body["max_tokens"], body["stop_sequences"]) == (100, ["END", "STOP"])
    assert body["stream"] is stream
    # Still accepted by the API, and by this SDK only as an extra member.
    assert body.pop("top_p") == 0.9
    streaming, at_once = params.MessageCreateParamsStreaming, params.MessageCreateParamsNonStreaming
    validate_as(streaming if stream else at_once, body)


@pytest.mark.requirement("S1-02")
@BOTH_WAYS
@EVERY_CHOICE
def test_openai_takes_chats_with_calls_and_images(choice: str, stream: bool) -> None:
    from openai.types.chat import completion_create_params as params

    body = body_of(OpenAIChatServer(), SEALED, choice=choice, stream=stream)
    # Only servers like OpenRouter send seals, and OpenAI's types lack this member.
    (details,) = body["messages"][2].pop("reasoning_details")
    assert (details["text"], details["signature"]) == ("Two things to do.", SEAL)
    assert [message["role"] for message in body["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "user", "user")
    ]
    assert count(body["messages"][5], PIXELS) == 1
    assert [tool["function"].get("strict") for tool in body["tools"]] == [True, None]
    named = {"type": "function", "function": {"name": choice}}
    assert body["tool_choice"] == (choice if choice in WORDS else named)
    settings = (body["max_completion_tokens"], body["top_p"], body["stop"], body["stream"])
    assert settings == (100, 0.9, ["END", "STOP"], stream)
    streaming = params.CompletionCreateParamsStreaming
    validate_as(streaming if stream else params.CompletionCreateParamsNonStreaming, body)


@pytest.mark.requirement("S1-02")
@BOTH_WAYS
@EVERY_CHOICE
def test_openai_takes_responses_with_reasoning_calls_and_images(choice: str, stream: bool) -> None:
    from openai.types.responses import response_create_params as params

    script = (RedactedThinking(REDACTED), *SEALED)
    body = body_of(OpenAIResponsesServer(), script, choice=choice, stream=stream)
    sealed = [item["encrypted_content"] for item in body["input"] if "encrypted_content" in item]
    assert sealed == [REDACTED, SEAL]
    assert [item.get("type") for item in body["input"]] == [
        *(None, "reasoning", "reasoning", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output", None),
    ]
    assert count(body["input"][7], PIXELS) == 1
    assert [tool["strict"] for tool in body["tools"]] == [True, False]
    named = {"type": "function", "name": choice}
    assert body["tool_choice"] == (choice if choice in WORDS else named)
    # This protocol has no stop sequences.
    assert (body["max_output_tokens"], body["top_p"], body["stream"]) == (100, 0.9, stream)
    streaming = params.ResponseCreateParamsStreaming
    validate_as(streaming if stream else params.ResponseCreateParamsNonStreaming, body)


@pytest.mark.requirement("S1-02")
@BOTH_WAYS
@EVERY_CHOICE
def test_google_takes_thoughts_calls_and_images(choice: str, stream: bool) -> None:
    from google.genai import types

    body = body_of(GeminiServer(), SEALED, choice=choice, stream=stream)
    thought = body["contents"][1]["parts"][0]
    assert (thought["thought"], thought["thoughtSignature"]) == (True, SEAL)
    assert count(body["contents"][2], PIXELS) == 1
    modes = {"required": {"mode": "ANY"}, "none": {"mode": "NONE"}, "auto": {"mode": "AUTO"}}
    named = {"mode": "ANY", "allowedFunctionNames": [choice]}
    assert body["toolConfig"] == {"functionCallingConfig": modes.get(choice, named)}
    settings = {"maxOutputTokens": 100, "topP": 0.9, "stopSequences": ["END", "STOP"]}
    assert body["generationConfig"] == settings
    judges = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    assert body.keys() == judges.keys()
    for name, member in body.items():
        validate_as(judges[name], member)


@pytest.mark.requirement("S1-02")
def test_google_takes_back_the_signature_of_a_call() -> None:
    from google.genai import types

    first, second = (
        {"functionCall": {"id": id, "name": "read_file", "args": {"path": id}}}
        for id in ("call_1", "call_2")
    )
    content = {"role": "model", "parts": [first | {"thoughtSignature": SEAL}, second]}
    answer = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    message = assemble_message(decode_events(gemini, sse(answer), model=MODEL))
    results = [ToolResult.success(call.id, "print()") for call in message.tool_calls]
    messages: tuple[Message, ...] = (ChatMessage.user("Read both."), message, *results)
    body = gemini.encode_request(Request(model=MODEL, messages=messages)).json
    assert body["contents"][1] == content
    validate_as(list[types.Content], body["contents"])


@pytest.mark.requirement("S1-02")
@BOTH_WAYS
@EVERY_CHOICE
def test_ollama_takes_thinking_calls_and_images(choice: str, stream: bool) -> None:
    from ollama._types import ChatRequest
    from ollama._types import Message as OllamaMessage

    script = (ThinkingPiece("Two things to do."), *SPOKEN)
    body = body_of(OllamaChatServer(), script, choice=choice, stream=stream)
    messages = body["messages"]
    assert messages[2]["thinking"] == "Two things to do."
    assert messages[4]["images"] == [PIXELS]
    settings = {"num_predict": 100, "top_p": 0.9, "stop": ["END", "STOP"]}
    assert (body["options"], body["stream"]) == (settings, stream)
    # Servers accept these; the types of this SDK lack ids and most keywords of a schema.
    assert [call.pop("id") for call in messages[2]["tool_calls"]] == ["call_1", "call_2"]
    assert [message.pop("tool_call_id") for message in messages[3:5]] == ["call_1", "call_2"]
    schemas = [tool["function"]["parameters"] for tool in body["tools"]]
    assert schemas[0].pop("additionalProperties") is False
    region, tags = schemas[1]["properties"].values()
    assert region.pop("additionalProperties") == {"type": "number"}
    assert (len(tags.pop("anyOf")), tags.pop("default")) == (2, None)
    validate_as(ChatRequest, body)
    # A request accepts any mapping as a message, so each is validated with the type of its role.
    for message in messages:
        images = [{"value": image} for image in message.get("images", ())]
        judged = OllamaMessage.model_validate(message | ({"images": images} if images else {}))
        expect_json(plain_values(judged), message, "a message as the SDK understands it")
