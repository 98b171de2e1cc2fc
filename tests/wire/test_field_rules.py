"""Small rules for single fields: names of counts, lengths, statuses, invalid numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    Message,
    Opaque,
    ProtocolError,
    ProviderError,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    UserMessage,
    map_tool_name,
)
from steno.testing.conformance import (
    CallFragment,
    Script,
    ScriptedServer,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
)
from steno.testing.conformance.servers import (
    AnthropicMessagesServer,
    OpenAIChatServer,
    OpenAIResponsesServer,
)
from steno.wire import (
    ChangeCode,
    Wire,
    anthropic_messages,
    gemini,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from steno.wire.errors import decode_error
from steno.wire.openai_chat import DIALECTS
from tests.wire.decode_helpers import assemble_message, decode_events, sse

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


# -- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"created_cache_tokens": 4}},
            Usage(input_tokens=9, cache_write_tokens=4),
        ),
        (
            {"prompt_tokens_details": {"cache_write_tokens": 0, "created_cache_tokens": 4}},
            Usage(cache_write_tokens=0),
        ),
        (
            {"prompt_tokens": 9, "prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 4},
            Usage(input_tokens=9, cache_read_tokens=5),
        ),
        (
            {"prompt_cache_hit_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}},
            Usage(cache_read_tokens=0),
        ),
        (
            {"prompt_cache_hit_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}},
            Usage(cache_read_tokens=5),
        ),
    ],
    ids=["vLLM", "OpenAI before vLLM", "DeepSeek", "OpenAI before DeepSeek", "DeepSeek and null"],
)
def test_cached_tokens_are_read_under_all_their_names(told: Any, usage: Usage) -> None:
    answer = {"model": "m", "usage": told}
    delta = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
    streamed = assemble_message(
        decode_events(openai_chat, sse(answer | {"choices": [delta]}, done=True))
    )
    choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
    whole = openai_chat.decode_response(msgspec.json.encode(answer | {"choices": [choice]}))
    assert (streamed.usage, whole.usage) == (usage, usage)


# -- signatures ----------------------------------------------------------------------------------


def test_an_empty_signature_of_anthropic_seals_nothing() -> None:
    speaker = AnthropicMessagesServer()
    script: Script = [ThinkingPiece("Hm."), ThinkingSeal(""), TextPiece("Four."), TurnEnd()]
    streamed = assemble_message(decode_events(speaker.wire, *speaker.frames(script), model="m"))
    whole = speaker.wire.decode_response(speaker.response(script), model="m")
    for message in (streamed, whole):
        assert message.content == (Thinking(text="Hm."), Text("Four."))


# -- names of tools ------------------------------------------------------------------------------


def name_of(length: int) -> str:
    """Return a tool name of this length that steno's own rule forbids and providers accept."""
    return "a-" + "b" * (length - 2)


def tool(original_name: str) -> ToolDefinition:
    return ToolDefinition(
        name=map_tool_name(original_name[:128]),
        description="Does it.",
        parameters=SCHEMA,
        original_name=original_name,
    )


def names_in(body: Any) -> list[str]:
    """Return the names of all calls and tools in a request of any protocol."""
    if isinstance(body, list):
        return [name for element in body for name in names_in(element)]
    if not isinstance(body, dict):
        return []
    inner = [name for member in body.values() for name in names_in(member)]
    found = body.get("name")
    return ([found] if isinstance(found, str) else []) + inner


@pytest.mark.parametrize(
    ("wire", "longest"),
    [(openai_chat, 64), (openai_responses, 64), (anthropic_messages, 128), (gemini, 128)],
    ids=lambda value: value if isinstance(value, int) else value.NAME,
)
def test_a_name_is_mapped_if_it_is_longer_than_the_provider_takes(wire: Wire, longest: int) -> None:
    for length, is_taken in ((longest, True), (longest + 1, False)):
        defined = tool(name_of(length))
        call = ToolCall(id="c1", name=defined.name, original_name=defined.original_name)
        messages = (ChatMessage.user("Hi"), AssistantMessage(content=(call,)))
        response_with_calls = (*messages, ToolResult.success("c1", "done"))
        request = Request(
            model="m", messages=response_with_calls, tools=(defined,), tool_choice=defined.name
        )
        encoded = wire.encode_request(request)
        sent = defined.original_name if is_taken else defined.name
        assert set(names_in(encoded.json)) == {sent}
        assert (ChangeCode.TOOL_NAME in [loss.code for loss in encoded.losses]) is not is_taken


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524)),
        (529, True),
        *((status, False) for status in (400, 401, 402, 403, 404, 405, 410, 413, 422, 501, 505)),
    ],
)
def test_a_status_decides_whether_to_retry(status: int, retryable: bool) -> None:
    assert decode_error(status, "").retryable is retryable


@pytest.mark.parametrize("name", ["request-id", "x-request-id", "x-goog-request-id", "Request-Id"])
def test_the_id_of_the_request_stands_in_a_header_of_any_of_these_names(name: str) -> None:
    assert decode_error(500, "", {name: "req_1"}).request_id == "req_1"


@pytest.mark.parametrize(
    ("type", "retryable"),
    [
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("billing_error", False),
        ("permission_error", False),
        ("not_found_error", False),
        ("rate_limit_error", True),
        ("timeout_error", True),
        ("api_error", True),
        ("overloaded_error", True),
    ],
)
def test_the_type_of_an_error_inside_a_stream_decides_whether_to_retry(
    type: str, retryable: bool
) -> None:
    error_event = {"type": "error", "error": {"type": type, "message": "no"}, "request_id": "req_1"}
    with pytest.raises(ProviderError) as caught:
        decode_events(anthropic_messages, sse(error_event))
    error = caught.value
    assert error.message == "no"
    assert (error.provider_type, error.retryable, error.request_id) == (type, retryable, "req_1")


# -- arguments -----------------------------------------------------------------------------------

BROKEN = InvalidToolCall(id="c1", name="look", arguments='{"x": NaN}', reason="no JSON")


@pytest.mark.parametrize(
    ("provider", "is_wrapped"),
    [
        ("vllm", True),
        ("llama.cpp", True),
        *((name, False) for name in DIALECTS if name not in ("vllm", "llama.cpp")),
    ],
)
def test_servers_that_parse_the_history_get_arguments_they_can_parse(
    provider: str, is_wrapped: bool
) -> None:
    messages = (ChatMessage.user("Hi"), AssistantMessage(content=(BROKEN,)))
    request = Request(model="m", messages=(*messages, ToolResult.error("c1", "no JSON")))
    encoded = openai_chat.encode_request(request, dialect=DIALECTS[provider])
    (call,) = encoded.json["messages"][1]["tool_calls"]
    sent = call["function"]["arguments"]
    assert sent == ('{"invalid_arguments":"{\\"x\\": NaN}"}' if is_wrapped else BROKEN.arguments)
    assert (ChangeCode.INVALID_CALL in [loss.code for loss in encoded.losses]) is is_wrapped


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    "speaker",
    [AnthropicMessagesServer(), OpenAIChatServer(), OpenAIResponsesServer()],
    ids=lambda speaker: speaker.wire.NAME,
)
def test_a_number_that_json_does_not_have_makes_a_call_invalid(
    speaker: ScriptedServer, number: str
) -> None:
    arguments = f'{{"x": {number}}}'
    call = CallFragment(0, "call_1", "look", arguments)
    message = assemble_message(decode_events(speaker.wire, *speaker.frames([call, TurnEnd()])))
    (found,) = message.content
    assert isinstance(found, InvalidToolCall)
    assert (found.id, found.name, found.arguments) == ("call_1", "look", arguments)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_an_invalid_number_in_an_arguments_object_is_a_protocol_error(number: str) -> None:
    part = f'{{"functionCall":{{"name":"look","args":{{"x":{number}}}}}}}'
    chunk = f'data: {{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}\n\n'
    with pytest.raises(ProtocolError) as caught:
        decode_events(gemini, chunk.encode())
    assert caught.value.code == "not_json"
    call = f'{{"function":{{"name":"look","arguments":{{"x":{number}}}}}}}'
    line = f'{{"message":{{"role":"assistant","tool_calls":[{call}]}},"done":true}}\n'
    with pytest.raises(ProtocolError) as caught:
        decode_events(ollama_chat, line.encode())
    assert caught.value.code == "not_json"


# -- tools of Anthropic --------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [{}, {"strict": True}])
def test_examples_of_the_input_of_a_tool_are_kept_and_sent_back(strict: dict[str, bool]) -> None:
    examples = [{"path": "a.py"}, {"path": "b.py", "lines": 3}]
    schema = SCHEMA | {"properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}}
    look = {"name": "look", "description": "Looks.", "input_schema": schema}
    body = {
        "model": "m",
        "max_tokens": 10,
        "tools": [look | strict | {"input_examples": examples}],
        "messages": [{"role": "user", "content": "Hi"}],
    }
    request = anthropic_messages.decode_request(msgspec.json.encode(body))
    (defined,) = request.tools
    assert (defined.name, defined.strict) == ("look", bool(strict))
    encoded = anthropic_messages.encode_request(request)
    assert encoded.json == body
    assert encoded.losses == ()
    foreign = openai_chat.encode_request(request)
    assert b"input_examples" not in foreign.body
    assert ChangeCode.EXTRAS in [loss.code for loss in foreign.losses]


# -- two calls with the same id ------------------------------------------------------------------


def response_with_calls(wire: Wire, name: str) -> bytes:
    """Encode a whole response in which two calls have the same id."""
    calls = [("look", {"at": 1}), (name, {"at": 2})]
    texts = [(called, msgspec.json.encode(input).decode()) for called, input in calls]
    bodies: dict[str, Any] = {
        "anthropic_messages": {
            "content": [
                {"type": "tool_use", "id": "c1", "name": called, "input": input}
                for called, input in calls
            ]
        },
        "openai_chat": {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "c1", "function": {"name": called, "arguments": text}}
                            for called, text in texts
                        ]
                    }
                }
            ]
        },
        "openai_responses": {
            "status": "completed",
            "output": [
                {"type": "function_call", "call_id": "c1", "name": called, "arguments": text}
                for called, text in texts
            ],
        },
    }
    return msgspec.json.encode(bodies[wire.NAME])


@pytest.mark.parametrize("name", ["look", "read"])
@pytest.mark.parametrize(
    "wire", [anthropic_messages, openai_chat, openai_responses], ids=lambda wire: wire.NAME
)
def test_two_calls_of_one_id_in_a_whole_answer_stay_two(wire: Wire, name: str) -> None:
    message = wire.decode_response(response_with_calls(wire, name))
    first, second = message.tool_calls
    assert (first.id, first.name, first.arguments) == ("c1", "look", '{"at":1}')
    assert (second.name, second.arguments) == (name, '{"at":2}')
    assert second.id not in ("", "c1")
    assert len(message.content) == 2


def test_two_calls_of_one_id_in_a_stream_of_anthropic_stay_two() -> None:
    start = {"type": "tool_use", "id": "c1", "input": {}}
    blocks: list[dict[str, Any]] = [start | {"name": name} for name in ("a", "b")]
    events = [
        event
        for index, block in enumerate(blocks)
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        )
    ]
    message = assemble_message(
        decode_events(anthropic_messages, sse(*events, {"type": "message_stop"}))
    )
    assert [(call.id, call.name) for call in message.tool_calls] == [("c1", "a"), ("made_up", "b")]


# -- OpenAI's chat completions -------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        UserMessage((Opaque(kind="container_upload", raw="{}", origin="anthropic_messages"),)),
        AssistantMessage(content=(Thinking("Hm."),)),
    ],
    ids=["user", "assistant"],
)
def test_a_message_without_content_to_send_is_not_sent_as_null(message: Message) -> None:
    request = Request(messages=(ChatMessage.user("Hi"), message, ChatMessage.user("Go on")))
    encoded = openai_chat.encode_request(request)
    assert [sent["content"] for sent in encoded.json["messages"]] == ["Hi", "Go on"]
    assert [loss.place for loss in encoded.losses] == ["messages[1].content[0]", "messages[1]"]
    assert encoded.losses[1].code is ChangeCode.BLANK


def test_a_turn_that_was_recorded_as_null_is_sent_so_again() -> None:
    body = {"messages": [{"role": "assistant", "content": None}]}
    request = openai_chat.decode_request(msgspec.json.encode(body))
    assert openai_chat.encode_request(request).json == body


@pytest.mark.parametrize("input", ["", " \n"])
def test_a_blank_input_of_a_custom_tool_is_not_sent_as_an_object(input: str) -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": input}}
    answer = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
    message = openai_chat.decode_response(msgspec.json.encode(answer))
    request = Request(messages=(ChatMessage.user("Hi"), message))
    assert openai_chat.encode_request(request).json["messages"][1]["tool_calls"] == [call]
