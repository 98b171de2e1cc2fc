"""Rules for every wire."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidValue,
    Message,
    Request,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from steno.errors import RateLimited
from steno.wire import WIRES, ChangeCode, EncodedRequest, Wire, load_wire, translate

NAMES = ("openai_chat", "openai_responses", "anthropic_messages", "ollama_chat", "gemini", "chat")


def read_file(path: str) -> str:
    """Read a file."""
    return path


REQUEST = Request(
    model="m-1",
    messages=(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        AssistantMessage(content=(ToolCall(id="c1", name="read_file", arguments='{"path":"a"}'),)),
        ToolResult.success("c1", "print()"),
        ChatMessage.assistant("A print."),
        ChatMessage.user("Thank you."),
    ),
    tools=(ToolDefinition.from_function(read_file),),
    max_tokens=100,
)


@pytest.fixture(params=NAMES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return load_wire(request.param)


def test_the_wires_are_those_that_are_promised() -> None:
    assert set(WIRES) == set(NAMES)
    with pytest.raises(InvalidValue) as caught:
        load_wire("morse")
    assert caught.value.code == "wire_unknown"
    assert ", ".join(WIRES) in caught.value.message
    for name in (".", ".morse", "tests..morse", "tests.", "a b.c"):
        with pytest.raises(InvalidValue) as caught:
            load_wire(name)
        assert caught.value.code == "wire_name_malformed"


@pytest.mark.parametrize("name", NAMES)
def test_every_wire_has_the_same_functions(name: str) -> None:
    module = load_wire(name)
    assert isinstance(module, ModuleType)
    assert name == module.NAME
    for function in ("decode_response", "decode_request", "encode_request", "decode_error"):
        assert inspect.getdoc(getattr(module, function))
    parameters = inspect.signature(module.StreamDecoder).parameters
    assert {"provider", "model"} <= parameters.keys()


@pytest.mark.requirement("S3-07")
def test_a_wire_hands_out_values_of_ours_or_bytes_and_keeps_no_conversation(wire: Wire) -> None:
    encoded = wire.encode_request(REQUEST)
    assert isinstance(encoded.body, bytes)
    back = wire.decode_request(encoded.body)
    assert isinstance(back, Request)
    assert all(isinstance(message, get_args(Message)) for message in back.messages)
    assert isinstance(wire, ModuleType)
    exported = [getattr(wire, name) for name in wire.__all__]
    structs = [found for found in exported if isinstance(found, type(msgspec.Struct))]
    assert {struct.__name__ for struct in structs} <= {"Dialect"}


@pytest.mark.requirement("S1-06")
def test_the_system_prompt_is_sent_once(wire: Wire) -> None:
    assert wire.encode_request(REQUEST).body.count(b"Be brief.") == 1


@pytest.mark.requirement("S1-02", "S2-21")
def test_a_conversation_of_plain_values_can_be_sent_to_every_wire(wire: Wire) -> None:
    back = wire.decode_request(wire.encode_request(REQUEST).body)
    assert [(type(message), message.text) for message in back.messages] == [
        (type(message), message.text) for message in REQUEST.messages
    ]
    [call] = back.messages[2].tool_calls
    assert isinstance(call, ToolCall)
    assert call.name == "read_file"
    assert call.parsed.to_dict() == {"path": "a"}
    assert back.messages[3].tool_call_id == call.id


@pytest.mark.requirement("FR-004a-86")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "chat"])
def test_a_tool_is_described_in_the_shape_that_the_provider_takes(name: str) -> None:
    [tool] = load_wire(name).encode_request(REQUEST).json["tools"]
    described = {
        "openai_chat": lambda: tool["function"],
        "ollama_chat": lambda: tool["function"],
        "openai_responses": lambda: tool,
        "anthropic_messages": lambda: tool,
        "gemini": lambda: tool["functionDeclarations"][0],
    }[name]()
    assert (described["name"], described["description"]) == ("read_file", "Read a file.")
    schemas = ("parameters", "input_schema", "parametersJsonSchema")
    [schema] = [described[field] for field in schemas if field in described]
    assert schema["properties"] == {"path": {"type": "string"}}


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_a_request_can_be_translated_to_every_other_protocol(source: str, target: str) -> None:
    data = load_wire(source).encode_request(REQUEST).body
    encoded = translate(data, source=load_wire(source), target=load_wire(target))
    assert isinstance(encoded, EncodedRequest)
    back = load_wire(target).decode_request(encoded.body)
    assert [message.text for message in back.messages] == [
        message.text for message in REQUEST.messages
    ]


def test_an_error_is_the_same_error_everywhere(wire: Wire) -> None:
    error = wire.decode_error(429, b'{"error":{"message":"slow down"}}', {"retry-after": "2"})
    assert isinstance(error, RateLimited)
    assert (error.retryable, error.retry_after_s) == (True, 2.0)


def test_the_next_turn_begins_with_the_bytes_of_this_one(wire: Wire) -> None:
    assert isinstance(wire, ModuleType)
    encoder: Any = wire.Encoder()
    # Closing brackets, and members that a protocol writes after the messages.
    first = encoder.encode(_first(2)).body.rstrip(b']}"')
    assert encoder.encode(_first(4)).body.startswith(first)
    assert encoder.encode(REQUEST).body == wire.encode_request(REQUEST).body


def _first(count: int) -> Request:
    return msgspec.structs.replace(REQUEST, messages=REQUEST.messages[:count])


@pytest.mark.parametrize(
    ("source", "target", "said", "expected"),
    [
        ("ollama_chat", "openai_chat", None, True),
        ("openai_chat", "ollama_chat", None, False),
        ("anthropic_messages", "ollama_chat", None, False),
        ("openai_chat", "anthropic_messages", None, None),
        ("ollama_chat", "openai_chat", False, False),
        ("openai_chat", "ollama_chat", True, True),
        ("gemini", "ollama_chat", None, None),
    ],
)
def test_translation_keeps_streaming_despite_different_defaults(
    source: str, target: str, said: bool | None, expected: bool | None
) -> None:
    body = load_wire(source).encode_request(REQUEST, stream=said).body
    assert translate(body, source=source, target=target).json.get("stream") == expected


@pytest.mark.parametrize("name", ["gemini", "ollama_chat"])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_results_that_will_be_mixed_up_are_reported(name: str, is_swapped: bool) -> None:
    """Without ids, only the order shows which of two calls a result belongs to."""
    form: dict[str, Any] = {"gemini": {"id": None}, "ollama_chat": {"id": "absent"}}
    extras = {name: {"$form": form[name]}}
    calls = [ToolCall(id=id, name="read", arguments="{}", extras=extras) for id in "ab"]
    results = [ToolResult.success(id, id) for id in ("ba" if is_swapped else "ab")]
    turn = AssistantMessage(content=tuple(calls))
    messages: tuple[Message, ...] = (ChatMessage.user("Hi"), turn, *results)
    encoded = load_wire(name).encode_request(Request(model="m", messages=messages))
    told = [loss.place for loss in encoded.losses if loss.code is ChangeCode.ORDER]
    assert told == (["messages[2]"] if is_swapped else [])
