"""OpenAI's chat completions: requests, decoded and encoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    ChatMessage,
    FileReference,
    Image,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidRequest,
    InvalidToolCall,
    Opaque,
    Outcome,
    Request,
    Seal,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from steno.messages.message import AssistantMessage
from steno.wire import ChangeCode, openai_chat
from steno.wire.openai_chat import DIALECTS

USER = ChatMessage.user("Hi")

PNG = Image(source=ImageData(b"\x89PNG"), mime_type="image/png")


def read_file(path: str) -> str:
    """Read a file."""
    return path


def encode(*messages: ChatMessage, **settings: Any) -> Any:
    return encoded(*messages, **settings).json


def encoded(*messages: ChatMessage, dialect: str = "openai", **settings: Any) -> Any:
    request = Request(messages=messages, model="m-1", **settings)  # type: ignore[arg-type] # any message
    return openai_chat.encode_request(request, dialect=DIALECTS[dialect])


def reasons(found: Any) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


# -- encoding ------------------------------------------------------------------------------------


@pytest.mark.requirement("S1-02", "S2-21")
def test_a_conversation_is_encoded_in_the_protocol() -> None:
    call = ToolCall(id="call_1", name="read_file", arguments='{"path" : "a.py"}')
    body = encode(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        ChatMessage.assistant(None, [call]),
        ChatMessage.tool_result("call_1", "print()"),
        ChatMessage.assistant("A print."),
        tools=(ToolDefinition.from_function(read_file),),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        tool_choice="required",
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is in a.py?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path" : "a.py"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "print()"},
        {"role": "assistant", "content": "A print."},
    ]
    [tool] = body["tools"]
    assert tool["function"]["name"] == "read_file"
    assert tool["function"]["strict"] is True
    assert (body["model"], body["max_completion_tokens"]) == ("m-1", 100)
    assert (body["temperature"], body["top_p"], body["stop"]) == (0.5, 0.9, ["END"])
    assert body["tool_choice"] == "required"


def test_only_requested_settings_are_sent() -> None:
    assert encode(ChatMessage.user("Hi")).keys() == {"model", "messages"}


def test_streaming_is_requested_with_usage() -> None:
    request = Request(messages=(ChatMessage.user("Hi"),))
    body = openai_chat.encode_request(request, stream=True).json
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    mistral = openai_chat.encode_request(request, dialect=DIALECTS["mistral"], stream=True).json
    assert "stream_options" not in mistral


def test_one_tool_can_be_demanded() -> None:
    tools = (ToolDefinition.from_function(read_file),)
    body = encode(ChatMessage.user("Hi"), tools=tools, tool_choice="read_file")
    assert body["tool_choice"] == {"type": "function", "function": {"name": "read_file"}}


def test_images_are_sent_with_the_text_of_the_user() -> None:
    user = ChatMessage.user((Text("Look"), PNG, Image(source=ImageUrl("https://example.org/a"))))
    assert encode(user)["messages"][0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a"}},
    ]


def test_images_of_results_follow_all_results() -> None:
    calls = [ToolCall(id=id, name="look") for id in "ab"]
    found = encoded(
        ChatMessage.user("Look"),
        ChatMessage.assistant(None, calls),
        ChatMessage.tool_result("a", (PNG,)),
        ChatMessage.tool_result("b", "nothing"),
        ChatMessage.assistant("Done"),
    )
    assert [message["role"] for message in found.json["messages"]] == [
        *("user", "assistant", "tool", "tool", "user", "assistant"),
    ]
    assert reasons(found) == ["image.moved_to_user_message"]
    assert found.losses[0].place == "messages[2].content[0]"


# -- losses --------------------------------------------------------------------------------------


def test_thinking_is_left_out_where_there_is_no_place_for_it() -> None:
    turn = AssistantMessage(content=(Thinking("Hm"), Text("Yes")))
    assert reasons(encoded(turn)) == ["thinking.no_place"]
    assert "reasoning" not in encoded(turn).json["messages"][0]
    assert encoded(turn, dialect="vllm").json["messages"][0]["reasoning"] == "Hm"
    assert encoded(turn, dialect="deepseek").json["messages"][0]["reasoning_content"] == "Hm"


def test_a_seal_is_sent_back_only_to_its_maker() -> None:
    seal = Seal(data='[{"type":"x"}]', provider="openrouter", api="openai_chat", model="m-1")
    turn = AssistantMessage(content=(Thinking("Hm", seal=seal), Text("Yes")))
    mine = encoded(turn, dialect="openrouter")
    assert mine.json["messages"][0]["reasoning_details"] == [{"type": "x"}]
    assert mine.losses == ()
    other = encoded(turn, dialect="groq")
    assert "reasoning_details" not in other.json["messages"][0]
    assert reasons(other) == ["seal.other_model"]


def test_names_and_ids_that_are_forbidden_are_mapped_alike_everywhere() -> None:
    call = ToolCall(id="functions.read:0", name="fs_read_1", original_name="fs.read")
    found = encoded(
        ChatMessage.assistant(None, [call]),
        ToolResult.success("functions.read:0", "ok"),
        dialect="mistral",
    )
    turn, result = found.json["messages"]
    [sent] = turn["tool_calls"]
    assert sent["function"]["name"] == "fs_read_1"
    assert len(sent["id"]) == 9
    assert sent["id"] == result["tool_call_id"]
    assert set(reasons(found)) == {"call_id.replaced", "tool_name.renamed"}


def test_a_name_that_may_stand_is_sent_as_it_was() -> None:
    call = ToolCall(id="a", name="get_sum_1", original_name="get-sum")
    [sent] = encode(ChatMessage.assistant(None, [call]))["messages"][0]["tool_calls"]
    assert sent["function"]["name"] == "get-sum"


def test_a_call_that_cannot_be_run_is_sent_so_that_the_server_can_read_it() -> None:
    bad = InvalidToolCall(id="a", name="read", arguments='{"p":', reason="cut")
    turn = AssistantMessage(content=(bad,))
    [sent] = encode(turn)["messages"][0]["tool_calls"]
    assert sent["function"]["arguments"] == '{"p":'
    found = encoded(turn, dialect="vllm")
    [sent] = found.json["messages"][0]["tool_calls"]
    assert msgspec.json.decode(sent["function"]["arguments"]) == {"invalid_arguments": '{"p":'}
    assert reasons(found) == ["invalid_call.raw_text_as_argument"]
    [loss] = found.losses
    assert (loss.value, loss.target) == ("read", "a")


def test_the_failure_of_a_call_is_reported_as_a_loss() -> None:
    found = encoded(
        ToolResult.error("a", "no such file"),
        ToolResult(tool_call_id="b", content=(), outcome=Outcome.DENIED),
    )
    assert [message["content"] for message in found.json["messages"]] == ["no such file", "denied"]
    assert reasons(found) == ["outcome.not_sent"] * 2


def test_unresolved_references_are_sent_by_name_and_reported() -> None:
    user = ChatMessage.user(
        (FileReference(path="a.py", start_line=3, end_line=9), Image(source=ImageFile("b.png")))
    )
    found = encoded(user)
    assert found.json["messages"][0]["content"] == "@a.py:3-9"
    assert reasons(found) == ["reference.file_name", "image.bytes_missing"]


def test_content_of_other_wires_is_left_out_and_reported() -> None:
    odd = Opaque(kind="server_tool_use", raw="{}", origin="anthropic_messages")
    tick = Opaque(kind="event:tick", raw="{}", origin="openai_chat")
    text = Text("Hi", extras={"anthropic_messages": {"cache_control": {"type": "ephemeral"}}})
    found = encoded(AssistantMessage(content=(text, odd, tick)))
    assert found.json["messages"] == [{"role": "assistant", "content": "Hi"}]
    assert reasons(found) == ["extras.other_wire", "opaque.other_wire"]


def test_neighbours_are_merged_for_servers_that_want_them_in_turn() -> None:
    found = encoded(
        ChatMessage.system("Be brief."),
        ChatMessage.user("One"),
        ChatMessage.user((Text("Two"), PNG)),
        ChatMessage.assistant("Three"),
        ChatMessage.system("Be briefer."),
        dialect="vllm",
    )
    roles = [message["role"] for message in found.json["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert [part["type"] for part in found.json["messages"][1]["content"]] == [
        *("text", "text", "image_url"),
    ]
    assert reasons(found) == ["order.merged", "system.sent_as_user"]


def test_neighbours_that_would_lose_something_are_not_merged() -> None:
    recorded = {
        "messages": [
            {"role": "user", "content": "One", "name": "ann"},
            {"role": "user", "content": "Two", "name": "bob"},
            {"role": "assistant", "content": "Three", "tool_calls": None, "reasoning": "a"},
            {"role": "assistant", "content": "Four", "tool_calls": None, "reasoning": "b"},
        ]
    }
    request = openai_chat.decode_request(msgspec.json.encode(recorded))
    body = openai_chat.encode_request(request, dialect=DIALECTS["vllm"]).json
    assert [message["content"] for message in body["messages"]] == ["One", "Two", "Three\n\nFour"]
    assert body["messages"][2]["reasoning"] == "a\n\nb"


def test_a_seal_on_a_call_is_reported_where_it_gets_lost() -> None:
    seal = Seal(data="s", provider="google", api="gemini", model="m-1")
    call = ToolCall(id="a", name="read", seal=seal)
    assert reasons(encoded(ChatMessage.assistant(None, [call]))) == ["seal.other_model"]


def test_a_call_without_a_name_gets_one_that_can_be_sent() -> None:
    bad = InvalidToolCall(id="a", name="", arguments="", reason="no name")
    found = encoded(AssistantMessage(content=(bad,)))
    assert found.json["messages"][0]["tool_calls"][0]["function"]["name"] == "invalid_tool_call"
    assert reasons(found) == ["tool_name.renamed"]


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_next_turn_begins_with_the_bytes_of_this_one() -> None:
    encoder = openai_chat.Encoder()
    messages: tuple[Any, ...] = (ChatMessage.system("Be brief."), ChatMessage.user("One"))
    first = encoder.encode(Request(messages=messages, model="m-1")).body
    messages += (ChatMessage.assistant("Two"), ChatMessage.user("Three"))
    request = Request(messages=messages, model="m-1")
    second = encoder.encode(request).body
    assert second.startswith(first.removesuffix(b"]}"))
    assert second == openai_chat.encode_request(request).body


def test_another_branch_or_model_is_written_anew() -> None:
    encoder = openai_chat.Encoder()
    one = Request(messages=(ChatMessage.user("One"), ChatMessage.user("Two")), model="m-1")
    other = Request(messages=(ChatMessage.user("One"), ChatMessage.user("Three")), model="m-2")
    encoder.encode(one)
    assert encoder.encode(other) == openai_chat.encode_request(other)
    assert encoder.encode(one) == openai_chat.encode_request(one)


# -- decoding ------------------------------------------------------------------------------------

RECORDED: dict[str, dict[str, Any]] = {
    "strings": {"messages": [{"role": "user", "content": "Hi"}], "model": "m-1"},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "names": {"messages": [{"role": "user", "content": "Hi", "name": "bob"}]},
    "developer": {"messages": [{"role": "developer", "content": "Be brief."}]},
    "nothing said": {
        "messages": [
            {"role": "user", "content": ""},
            {"role": "system", "content": ""},
            {"role": "assistant", "content": ""},
            {"role": "tool", "tool_call_id": "a", "content": ""},
        ]
    },
    "legacy": {
        "messages": [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
            {"role": "function", "name": "f", "content": "1"},
        ]
    },
    "calls": {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "index": 0,
                        "function": {"name": "fs.read", "arguments": '{"p": '},
                    },
                    {"id": "ü", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": " "}},
                    {"id": "b", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
                ],
                "refusal": None,
            },
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}]},
        ]
    },
    "odd calls": {
        "model": "",
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "function": {"name": "f", "arguments": "{}", "extra": 1}},
                    {"id": "b", "type": "function", "function": {"name": "", "arguments": ""}},
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": {"a": 1}},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    },
                    {"id": "d", "type": "custom", "custom": {"name": "my-code", "input": "{}"}},
                    {"id": "e", "type": "custom", "custom": {"name": "code", "input": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": None},
            {"role": "tool", "tool_call_id": "b", "content": []},
            {"role": "tool", "tool_call_id": "c"},
        ],
    },
    "images": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://example.org/a", "detail": "low"},
                    },
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}},
                    {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                    {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
                ],
            }
        ]
    },
    "thinking": {
        "messages": [
            {"role": "assistant", "content": "4", "reasoning_content": "2+2"},
            {"role": "assistant", "content": "4", "reasoning": "2+2", "reasoning_details": [{}]},
        ]
    },
    "settings": {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 5,
        "temperature": 0,
        "top_p": None,
        "stop": "END",
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 12345678901234567890,
        "response_format": {"type": "json_object"},
        "logit_bias": {},
    },
    "tools": {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [
            {"type": "web_search", "web_search": {}},
            {"type": "function", "function": {"name": "bare"}},
            {
                "type": "function",
                "function": {
                    "name": "get-sum",
                    "description": "",
                    "parameters": {"type": "object", "properties": {}, "x": 1},
                    "strict": False,
                },
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "custom", "custom": {"name": "sql"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "get-sum"}},
        "parallel_tool_calls": False,
    },
    "no tools": {"messages": [{"role": "user", "content": "Hi"}], "tools": [], "stop": []},
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_request_comes_back_as_it_was(name: str) -> None:
    request = openai_chat.decode_request(msgspec.json.encode(RECORDED[name]))
    back = openai_chat.encode_request(request)
    assert back.json == RECORDED[name]
    assert back.losses == ()


def test_a_recorded_request_is_made_of_our_values() -> None:
    request = openai_chat.decode_request(msgspec.json.encode(RECORDED["tools"]))
    assert [tool.original_name or tool.name for tool in request.tools] == ["bare", "get-sum"]
    assert request.tool_choice == request.tools[1].name
    request = openai_chat.decode_request(msgspec.json.encode(RECORDED["images"]))
    [user] = request.messages
    assert isinstance(user, UserMessage)
    assert [type(block).__name__ for block in user.content] == [
        *("Image", "Image", "Opaque", "Opaque", "Text"),
    ]


def test_an_answer_can_be_sent_back() -> None:
    answer = {
        "choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]
    }
    message = openai_chat.decode_response(msgspec.json.encode(answer))
    assert message.stop_reason is StopReason.CONTENT_FILTER
    assert encode(message)["messages"] == [
        {"role": "assistant", "content": None, "refusal": "No."},
    ]


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        ("", "empty_document", "request"),
        ("[]", "unexpected_type", "request"),
        ("{}", "messages_missing", "request"),
        ('{"messages": 7}', "messages_missing", "request"),
        ('{"messages": [7]}', "unexpected_type", "messages[0]"),
    ],
)
def test_other_json_than_a_request_is_refused_with_its_place(
    data: str, code: str, place: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        openai_chat.decode_request(data)
    assert (caught.value.code, caught.value.place) == (code, place)


def sealed(data: str, model: str = "m") -> Thinking:
    return Thinking("Hm", seal=Seal(data=data, provider="openai", api="openai_chat", model=model))


def test_a_seal_that_is_not_a_list_of_details_is_not_sent() -> None:
    turn = AssistantMessage(content=(sealed("no JSON"), sealed('{"a":1}'), sealed('[{"b":1}]')))
    encoded = openai_chat.encode_request(Request(model="m", messages=(USER, turn)))
    assert encoded.json["messages"][1]["reasoning_details"] == [{"b": 1}]
    assert [loss.place for loss in encoded.losses if loss.code is ChangeCode.SEAL] == [
        "messages[1].content[0]",
        "messages[1].content[1]",
    ]


def test_all_thinking_is_sent_back_in_order() -> None:
    turn = AssistantMessage(content=(sealed('[{"a":1}]'), Text("Well"), sealed('[{"b":1},2]')))
    encoded = openai_chat.encode_request(Request(model="m", messages=(USER, turn)))
    assert encoded.json["messages"][1]["reasoning_details"] == [{"a": 1}, {"b": 1}, 2]


def test_a_server_without_custom_tools_gets_the_call_of_a_function() -> None:
    extras = {"openai_chat": {"type": "custom"}}
    call = ToolCall(id="a", name="sql", arguments='{"q":1}', extras=extras)
    request = Request(model="m", messages=(USER, AssistantMessage(content=(call,))))
    encoded = openai_chat.Encoder(DIALECTS["vllm"]).encode(request)
    function = {"name": "sql", "arguments": '{"q":1}'}
    assert encoded.json["messages"][1]["tool_calls"] == [
        {"id": "a", "type": "function", "function": function}
    ]
    assert reasons(encoded) == ["tool.sent_as_function_call"]
