"""OpenAI's responses: requests, decoded and encoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    AssistantMessage,
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
    SystemMessage,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from steno.wire import openai_responses

NAME = "openai_responses"
PNG = Image(source=ImageData(b"\x89PNG"), mime_type="image/png")


def read_file(path: str) -> str:
    """Read a file."""
    return path


def encode(*messages: ChatMessage, **settings: Any) -> Any:
    return encoded(*messages, **settings).json


def encoded(*messages: ChatMessage, provider: str = "openai", **settings: Any) -> Any:
    request = Request(messages=messages, **{"model": "m-1"} | settings)  # type: ignore[arg-type] # any message
    return openai_responses.encode_request(request, provider=provider)


def reasons(found: Any) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


def answer(*output: dict[str, Any], status: str = "completed", **settings: Any) -> AssistantMessage:
    body = {"id": "resp_1", "status": status, "output": output, "incomplete_details": None}
    return openai_responses.decode_response(msgspec.json.encode(body), model="m-1", **settings)


# -- encoding ------------------------------------------------------------------------------------


def test_a_conversation_is_encoded_in_the_protocol() -> None:
    call = ToolCall(id="call_1", name="read_file", arguments='{"path" : "a.py"}')
    body = encode(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        ChatMessage.assistant("I look.", [call]),
        ChatMessage.tool_result("call_1", "print()"),
        ChatMessage.assistant("A print."),
        tools=(ToolDefinition.from_function(read_file),),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        tool_choice="required",
    )
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {"role": "user", "content": "What is in a.py?"},
        {"type": "message", "role": "assistant", "content": "I look."},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "read_file",
            "arguments": '{"path" : "a.py"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "print()"},
        {"type": "message", "role": "assistant", "content": "A print."},
    ]
    [tool] = body["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "read_file", True)
    assert (body["model"], body["max_output_tokens"]) == ("m-1", 100)
    assert (body["temperature"], body["top_p"], body["tool_choice"]) == (0.5, 0.9, "required")


def test_only_requested_settings_are_sent() -> None:
    assert encode(ChatMessage.user("Hi")).keys() == {"model", "input"}
    request = Request(messages=(ChatMessage.user("Hi"),))
    assert openai_responses.encode_request(request, stream=True).json["stream"] is True


def test_only_the_first_system_message_goes_out_of_band() -> None:
    body = encode(
        ChatMessage.system("Be brief."), ChatMessage.user("Hi"), ChatMessage.system("Be kind.")
    )
    assert body["instructions"] == "Be brief."
    assert body["input"][1] == {"role": "system", "content": "Be kind."}
    two = SystemMessage((Text("Be brief."), Text("Be kind.")))
    assert encode(two, ChatMessage.user("Hi"))["input"][0]["content"] == [
        {"type": "input_text", "text": "Be brief."},
        {"type": "input_text", "text": "Be kind."},
    ]


def test_a_tool_that_is_not_strict_is_marked() -> None:
    tools = (ToolDefinition.from_function(read_file, strict=False),)
    body = encode(ChatMessage.user("Hi"), tools=tools, tool_choice="read_file")
    assert body["tools"][0]["strict"] is False
    assert body["tool_choice"] == {"type": "function", "name": "read_file"}


def test_images_stand_where_they_are_shown_also_in_results() -> None:
    user = ChatMessage.user((Text("Look"), PNG, Image(source=ImageUrl("https://example.org/a"))))
    found = encoded(user, ChatMessage.tool_result("a", (PNG, Text("a cat"))))
    assert found.json["input"][0]["content"] == [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/a", "detail": "auto"},
    ]
    assert found.json["input"][1]["output"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"},
        {"type": "input_text", "text": "a cat"},
    ]
    assert found.losses == ()


# -- content for its maker only ------------------------------------------------------------------

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    "encrypted_content": "gAAA",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {"type": "output_text", "text": "I look", "annotations": [{"type": "url_citation"}]},
        {"type": "output_text", "text": " and see.", "annotations": [], "logprobs": []},
    ],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "read",
    "arguments": '{"p" : 1}',
    "status": "completed",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}}
SHELL = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_2", "action": {}}
REFUSAL = {
    "type": "message",
    "id": "msg_2",
    "role": "assistant",
    "content": [{"type": "refusal", "refusal": "No."}],
}
EMPTY = {"type": "message", "id": "msg_3", "role": "assistant", "content": []}


def test_an_answer_is_sent_back_item_for_item() -> None:
    output = (REASONING, SEARCH, SAID, CALL, SHELL, REFUSAL, EMPTY)
    found = encoded(answer(*output))
    assert found.json["input"] == list(output)
    assert found.losses == ()


def test_the_reasoning_of_another_model_is_left_out_with_the_ids_after_it() -> None:
    found = encoded(answer(REASONING, SEARCH, SAID, CALL, SHELL), model="m-2")
    said, call, shell = found.json["input"]
    assert said == {name: value for name, value in SAID.items() if name != "id"}
    assert call == {name: value for name, value in CALL.items() if name != "id"}
    assert shell == {name: value for name, value in SHELL.items() if name != "id"}
    assert reasons(found) == ["seal.other_model_thinking", "opaque.other_provider_item"]


def test_another_provider_receives_only_text_and_calls() -> None:
    found = encoded(answer(REASONING, SEARCH, SAID, CALL, SHELL, REFUSAL), provider="vllm")
    assert found.json["input"] == [
        {"type": "message", "role": "assistant", "content": "I look"},
        {"type": "message", "role": "assistant", "content": " and see."},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"p" : 1}',
        },
        {"type": "local_shell_call", "call_id": "call_2", "action": {}},
    ]
    assert reasons(found) == [
        "seal.other_model_thinking",
        "opaque.other_provider_item",
        "extras.other_provider",
        "extras.other_provider",
        "extras.other_provider",
        "opaque.other_provider_part",
    ]


def test_reasoning_without_a_seal_goes_back_to_its_provider_alone() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    turn = answer(bare, CALL, provider="vllm")
    assert encoded(turn, provider="vllm").json["input"] == [bare, CALL]
    other = encoded(turn)
    assert [item["type"] for item in other.json["input"]] == ["function_call"]
    assert reasons(other) == ["thinking.other_model_thinking", "extras.other_provider"]


def test_thinking_without_a_source_is_left_out() -> None:
    found = encoded(AssistantMessage(content=(Thinking("Hm"), Text("Yes"))))
    assert found.json["input"] == [{"type": "message", "role": "assistant", "content": "Yes"}]
    assert reasons(found) == ["thinking.other_model_thinking"]


def test_a_seal_is_sent_back_with_its_text() -> None:
    seal = Seal(data="gAAA", provider="openai", api=NAME, model="m-1")
    found = encoded(AssistantMessage(content=(Thinking("Hm", seal=seal), Text("Yes"))))
    assert found.json["input"][0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm"}],
        "encrypted_content": "gAAA",
    }
    assert found.losses == ()


def test_reasoning_that_was_cut_off_is_left_out() -> None:
    cut = AssistantMessage(content=answer(REASONING).content, stop_reason=StopReason.UNKNOWN)
    found = encoded(ChatMessage.user("Hi"), cut, ChatMessage.user("Go on"))
    assert [item["role"] for item in found.json["input"]] == ["user", "user"]
    assert reasons(found) == ["order.trailing_thinking"]


# -- losses --------------------------------------------------------------------------------------


def test_names_and_ids_that_are_forbidden_are_mapped_alike_everywhere() -> None:
    call = ToolCall(id="x" * 65, name="fs_read_1", original_name="fs.read")
    found = encoded(ChatMessage.assistant(None, [call]), ToolResult.success("x" * 65, "ok"))
    sent, result = found.json["input"]
    assert sent["name"] == "fs_read_1"
    assert len(sent["call_id"]) == 24
    assert sent["call_id"] == result["call_id"]
    assert set(reasons(found)) == {"call_id.replaced", "tool_name.renamed"}


def test_a_call_that_cannot_be_run_is_sent_as_it_was() -> None:
    bad = InvalidToolCall(id="a", name="read", arguments='{"p":', reason="cut")
    [sent] = encode(AssistantMessage(content=(bad,)))["input"]
    assert (sent["call_id"], sent["arguments"]) == ("a", '{"p":')


@pytest.mark.parametrize("name", ["", "a b"])
def test_a_call_without_a_name_that_may_be_sent_gets_one(name: str) -> None:
    bad = InvalidToolCall(id="a", name=name, arguments="{}", reason="no such name")
    found = encoded(AssistantMessage(content=(bad,)))
    [sent] = found.json["input"]
    assert sent["name"] == "invalid_tool_call"
    assert "tool_name.renamed" in reasons(found)


def test_the_failure_of_a_call_is_reported_as_a_loss() -> None:
    found = encoded(
        ToolResult.error("a", "no such file"),
        ToolResult(tool_call_id="b", content=(), outcome=Outcome.DENIED),
    )
    assert [item["output"] for item in found.json["input"]] == ["no such file", "denied"]
    assert reasons(found) == ["outcome.not_sent"] * 2


def test_unresolved_references_are_sent_by_name_and_reported() -> None:
    user = ChatMessage.user((FileReference(path="a.py"), Image(source=ImageFile("b.png"))))
    found = encoded(user)
    assert found.json["input"][0]["content"] == "@a.py"
    assert reasons(found) == ["reference.file_name", "image.bytes_missing"]


def test_content_of_other_wires_is_left_out_and_reported() -> None:
    cached = {"anthropic_messages": {"cache_control": {"type": "ephemeral"}}}
    odd = Opaque(kind="server_tool_use", raw="{}", origin="anthropic_messages")
    tick = Opaque(kind="event:response.tick", raw="{}", origin=NAME)
    seal = Seal(data="x", provider="google", api="gemini", model="g")
    found = encoded(
        SystemMessage((Text("Be brief.", extras=cached),)),
        AssistantMessage(content=(Text("Hi", extras=cached), odd, tick, PNG)),
        AssistantMessage(content=(ToolCall(id="a", name="f", seal=seal), Text("", seal=seal))),
    )
    assert found.json["instructions"] == "Be brief."
    assert found.json["input"][0] == {"type": "message", "role": "assistant", "content": "Hi"}
    assert reasons(found) == [
        "extras.other_wire",
        "extras.other_wire",
        "opaque.other_wire",
        "image.from_model",
        "seal.other_model",
        "seal.other_model",
    ]


def test_texts_to_stop_at_are_reported_as_lost() -> None:
    found = encoded(ChatMessage.user("Hi"), stop=("END",))
    assert reasons(found) == ["setting.stop_left_out"]
    assert found.losses[0].place == "request.stop"


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_next_turn_begins_with_the_bytes_of_this_one() -> None:
    encoder = openai_responses.Encoder()
    messages: tuple[Any, ...] = (ChatMessage.system("Be brief."), ChatMessage.user("One"))
    tools = (ToolDefinition.from_function(read_file),)
    first = encoder.encode(Request(messages=messages, model="m-1", tools=tools), stream=True).body
    messages += (answer(REASONING, SAID, CALL), ChatMessage.tool_result("call_1", "x"))
    request = Request(messages=messages, model="m-1", tools=tools)
    second = encoder.encode(request, stream=True).body
    assert second.startswith(first.removesuffix(b"]}"))
    assert second == openai_responses.encode_request(request, stream=True).body


def test_another_branch_or_model_is_written_anew() -> None:
    encoder = openai_responses.Encoder()
    one = Request(messages=(ChatMessage.system("One"), ChatMessage.user("Two")), model="m-1")
    other = Request(messages=(ChatMessage.user("One"), answer(REASONING, CALL)), model="m-2")
    encoder.encode(one)
    assert encoder.encode(other) == openai_responses.encode_request(other)
    assert encoder.encode(one) == openai_responses.encode_request(one)


# -- decoding ------------------------------------------------------------------------------------

HI = [{"role": "user", "content": "Hi"}]
RECORDED: dict[str, dict[str, Any]] = {
    "string": {"input": "Hi", "model": "m-1"},
    "string and instructions": {"input": "Hi", "instructions": "Be brief."},
    "empty input": {"input": [], "instructions": "Be brief."},
    "instructions alone": {"instructions": "Be brief.", "previous_response_id": "resp_1"},
    "no instructions": {"input": HI, "instructions": None, "model": ""},
    "typed": {"input": [{"type": "message", "role": "user", "content": "Hi"}]},
    "parts": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
    "system": {
        "input": [
            {"role": "system", "content": "Be brief."},
            {"type": "message", "role": "developer", "content": "Be kind."},
            {"role": "developer", "content": [{"type": "input_image", "file_id": "f"}]},
            *HI,
        ]
    },
    "blank": {"input": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]},
    "turns": {"input": [*HI, REASONING, SAID, CALL, SEARCH, REFUSAL, EMPTY, *HI]},
    "neighbours": {
        "input": [
            {"role": "assistant", "content": "One"},
            {"role": "assistant", "content": "Two"},
            {"type": "message", "role": "assistant", "content": "Three", "phase": "commentary"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Four"}]},
            {"role": "assistant", "content": [{"type": "input_text", "text": "Five"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "audio"}, {"text": "x"}]},
        ]
    },
    "reasoning": {
        "input": [
            *HI,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
            {"type": "reasoning", "id": "rs_2"},
            {"type": "reasoning", "summary": [], "encrypted_content": "", "status": None},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Hm"}],
                "content": [{"type": "reasoning_text", "text": "Hm, hm"}],
                "encrypted_content": "gAAA",
            },
        ]
    },
    "calls": {
        "input": [
            {"type": "function_call", "call_id": "a", "name": "get-sum", "arguments": '{"p": '},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": ""},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": {"p": 1}},
            {"type": "function_call", "call_id": "c", "name": "f"},
            {"type": "function_call", "call_id": "d", "arguments": "{}"},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "e", "name": "sql", "input": "select 1"},
            {"type": "function_call_output", "call_id": "a", "output": "1", "status": "completed"},
            {"type": "function_call_output", "call_id": "b", "output": ""},
            {"type": "function_call_output", "call_id": "c", "output": []},
            {
                "type": "function_call_output",
                "call_id": "d",
                "output": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "https://example.org/a", "detail": "low"},
                    {"type": "input_file", "file_id": "f"},
                ],
            },
            {"type": "function_call_output", "call_id": "d", "output": {"x": 1}},
            {"type": "custom_tool_call_output", "call_id": "e", "output": "1"},
            {"type": "item_reference", "id": "msg_1"},
            {"id": "msg_2"},
        ]
    },
    "images": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "https://example.org/a", "detail": "low"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
                    {"type": "input_image", "image_url": "data:image/png;base64,%%%"},
                    {"type": "input_image", "file_id": "file_1", "detail": "auto"},
                    {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERg=="},
                    {"type": "input_text", "text": "Hi", "cache": True},
                ],
            },
            {"role": "user", "content": [{"type": "message"}]},
        ]
    },
    "settings": {
        "input": HI,
        "max_output_tokens": 5,
        "temperature": 0,
        "top_p": None,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
        "stop": ["END"],
        "metadata": {},
    },
    "tools": {
        "input": HI,
        "tools": [
            {"type": "web_search"},
            {"type": "function", "name": "bare"},
            {"type": "function", "name": "null", "strict": None, "parameters": None},
            {
                "type": "function",
                "name": "get-sum",
                "description": "",
                "parameters": {"type": "object", "properties": {}, "x": 1},
                "strict": False,
                "defer_loading": True,
            },
            {
                "type": "function",
                "name": "open",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
            {"type": "mcp", "server_label": "x"},
        ],
        "tool_choice": {"type": "function", "name": "get-sum"},
        "parallel_tool_calls": False,
    },
    "no tools": {"input": HI, "tools": [], "tool_choice": {"type": "web_search"}},
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_request_comes_back_as_it_was(name: str) -> None:
    request = openai_responses.decode_request(msgspec.json.encode(RECORDED[name]))
    back = openai_responses.encode_request(request)
    assert back.json == RECORDED[name]
    assert back.losses == ()


@pytest.mark.parametrize("name", RECORDED)
def test_a_request_to_another_provider_survives_a_round_trip(name: str) -> None:
    request = openai_responses.decode_request(msgspec.json.encode(RECORDED[name]), provider="vllm")
    assert openai_responses.encode_request(request, provider="vllm").json == RECORDED[name]


def test_adjacent_items_of_the_model_are_one_turn() -> None:
    body = {"model": "m-1", "input": [*HI, REASONING, SAID, CALL, SHELL, *RESULTS, *HI]}
    request = openai_responses.decode_request(msgspec.json.encode(body))
    user, turn, result, other, last = request.messages
    assert isinstance(turn, AssistantMessage)
    assert [type(block).__name__ for block in turn.content] == [
        *("Thinking", "Text", "Text", "ToolCall", "Opaque"),
    ]
    assert turn.text == "I look and see."
    assert isinstance(turn.content[0], Thinking)
    assert turn.content[0].text == "One.Two."
    assert turn.content[0].seal == Seal(data="gAAA", provider="openai", api=NAME, model="m-1")
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_call_id, result.text) == ("call_1", "x")
    assert isinstance(other.content[0], Opaque)
    assert user == last == UserMessage((Text("Hi"),))


RESULTS = [
    {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    {"type": "local_shell_call_output", "id": "call_2", "output": "y"},
]


def test_a_recorded_request_is_made_of_our_values() -> None:
    request = openai_responses.decode_request(msgspec.json.encode(RECORDED["tools"]))
    assert [tool.original_name or tool.name for tool in request.tools] == [
        "bare",
        "null",
        "get-sum",
        "open",
    ]
    assert [tool.strict for tool in request.tools] == [
        False
    ] * 4  # a strict tool would close the schema
    assert request.tool_choice == request.tools[2].name
    request = openai_responses.decode_request(msgspec.json.encode(RECORDED["settings"]))
    assert (request.max_tokens, request.temperature, request.top_p) == (5, 0, None)
    request = openai_responses.decode_request(msgspec.json.encode(RECORDED["images"]))
    assert [type(block).__name__ for block in request.messages[0].content] == [
        *("Image", "Image", "Opaque", "Opaque", "Opaque", "Text"),
    ]


def test_a_string_becomes_a_list_when_the_conversation_continues() -> None:
    request = openai_responses.decode_request(b'{"input":"Hi"}')
    longer = msgspec.structs.replace(
        request, messages=(*request.messages, ChatMessage.assistant("Yes?"))
    )
    assert openai_responses.encode_request(longer).json["input"] == [
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "assistant", "content": "Yes?"},
    ]


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        ("", "empty_document", "request"),
        ("[]", "unexpected_type", "request"),
        ("{}", "messages_missing", "request"),
        ('{"input": 7}', "empty", "request"),
        ('{"input": [7]}', "unexpected_type", "input[0]"),
        ('{"input": []}', "empty", "request"),
        (b'{"input": "\xff"}', "not_utf8", "request"),
    ],
)
def test_other_json_than_a_request_is_refused(data: bytes | str, code: str, place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        openai_responses.decode_request(data)
    assert (caught.value.code, caught.value.place) == (code, place)


@pytest.mark.parametrize("member", [{}, {"name": ""}, {"name": "a b"}, {"name": "fs.read"}])
def test_a_call_is_recorded_under_any_name(member: dict[str, str]) -> None:
    item = {"type": "function_call", "call_id": "a", "arguments": "{}"} | member
    recorded = {"model": "m-1", "input": [item]}
    found = openai_responses.encode_request(
        openai_responses.decode_request(msgspec.json.encode(recorded))
    )
    assert found.json == recorded
    assert found.losses == ()


def test_a_tool_and_its_calls_come_back_under_one_name() -> None:
    tool = {"type": "function", "name": "fs.read", "description": "Read.", "strict": False}
    recorded = {
        "model": "m-1",
        "input": [{"type": "function_call", "call_id": "a", "name": "fs.read", "arguments": "{}"}],
        "tools": [tool | {"parameters": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "function", "name": "fs.read"},
    }
    request = openai_responses.decode_request(msgspec.json.encode(recorded))
    assert request.tools[0].name == request.tool_choice
    found = openai_responses.encode_request(request)
    assert found.json == recorded
    assert found.losses == ()


def test_a_call_of_an_answer_without_a_name_is_not_sent_without_one() -> None:
    nameless = {name: value for name, value in CALL.items() if name != "name"}
    found = encoded(answer(nameless))
    assert found.json["input"] == [nameless | {"name": "invalid_tool_call"}]
    assert reasons(found) == ["tool_name.renamed"]


def test_an_item_that_was_kept_with_its_type_is_written_with_it_once() -> None:
    """As earlier versions did, before the type was noted in the form."""
    item = {"type": "message", "id": "msg_1", "status": "completed"}
    kept = AssistantMessage(content=(Text("Hi", extras={NAME: {"$item": item}}),))
    [sent] = encode(kept)["input"]
    assert sent == item | {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi"}],
    }
