"""Ollama's own protocol: requests, decoded and encoded."""

from __future__ import annotations

import base64
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
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from steno.messages.message import AssistantMessage
from steno.wire import ChangeCode, ollama_chat, openai_chat, translate
from tests.wire.decode_helpers import assemble_message, decode_events

BYTES = b"\x89PNG\r\n\x1a\n\0"
PNG = Image(source=ImageData(BYTES), mime_type="image/png")
BASE64 = base64.b64encode(BYTES).decode()


def read_file(path: str) -> str:
    """Read a file."""
    return path


def encoded(*messages: ChatMessage, **settings: Any) -> Any:
    request = Request(messages=messages, model="m:4b", **settings)  # type: ignore[arg-type] # any message
    return ollama_chat.encode_request(request)


def encode(*messages: ChatMessage, **settings: Any) -> Any:
    return encoded(*messages, **settings).json


def reasons(found: Any) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


# -- encoding ------------------------------------------------------------------------------------


@pytest.mark.requirement("S1-02", "S2-21")
def test_a_conversation_is_encoded_in_the_protocol() -> None:
    body = encode(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        ChatMessage.assistant(None, [ToolCall.create("read_file", {"path": "a.py"}, id="call_1")]),
        ToolResult.success("call_1", "print()"),
        ChatMessage.assistant("A print."),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is in a.py?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"name": "read_file", "arguments": {"path": "a.py"}},
                }
            ],
        },
        {
            "role": "tool",
            "tool_name": "read_file",
            "tool_call_id": "call_1",
            "content": "print()",
        },
        {"role": "assistant", "content": "A print."},
    ]
    assert body["options"] == {
        "num_predict": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
    }


def test_only_requested_settings_are_sent() -> None:
    assert encode(ChatMessage.user("Hi")).keys() == {"model", "messages"}


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_answer_has_to_be_asked_for(stream: bool) -> None:
    request = Request(messages=(ChatMessage.user("Hi"),))
    assert ollama_chat.encode_request(request, stream=stream).json["stream"] is stream


def test_arguments_are_sent_as_an_object_in_their_own_text() -> None:
    call = ToolCall(id="a", name="read", arguments='{"p" : 1.0}')
    assert b'"arguments":{"p" : 1.0}' in encoded(ChatMessage.assistant(None, [call])).body


def test_thinking_of_any_model_is_sent_back() -> None:
    turn = AssistantMessage(content=(Thinking("2+2"), Text("4")))
    assert encode(turn)["messages"] == [{"role": "assistant", "content": "4", "thinking": "2+2"}]


def test_images_stand_beside_the_text_and_without_their_type() -> None:
    found = encoded(ChatMessage.user((PNG, Text("Look"))))
    assert found.json["messages"] == [{"role": "user", "content": "Look", "images": [BASE64]}]
    assert found.losses == ()


def test_a_result_may_have_an_image() -> None:
    found = encoded(ChatMessage.tool_result("a", (PNG,), tool_name="look"))
    assert found.json["messages"] == [
        {
            "role": "tool",
            "tool_name": "look",
            "tool_call_id": "a",
            "content": "",
            "images": [BASE64],
        }
    ]


def test_a_result_names_its_tool_as_the_server_knows_it() -> None:
    call = ToolCall(id="a", name="fs_read_1", original_name="fs.read")
    turn, result = encode(ChatMessage.assistant(None, [call]), ToolResult.success("a", "ok"))[
        "messages"
    ]
    assert turn["tool_calls"][0]["function"]["name"] == "fs.read"
    assert result["tool_name"] == "fs.read"


def test_a_generated_id_is_never_sent() -> None:
    answer = (
        b'{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read",'
        b'"arguments":{}}}]},"done":true}\n'
    )
    turn = assemble_message(decode_events(ollama_chat, answer))
    [call] = turn.tool_calls
    assert call.id == "made_up"
    messages = encode(turn, ToolResult.success("made_up", "ok"))["messages"]
    assert messages == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "read", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "read", "content": "ok"},
    ]


def test_a_response_is_sent_back_unchanged() -> None:
    said = {
        "role": "assistant",
        "content": "I look.",
        "thinking": "Hm",
        "tool_calls": [
            {"id": "a", "function": {"index": 0, "name": "read", "arguments": {"p": 1}}},
            {"id": "b", "function": {"index": 1, "name": "fs.read", "arguments": {}}},
        ],
    }
    answer = ollama_chat.decode_response(msgspec.json.encode({"message": said, "done": True}))
    found = encoded(answer)
    assert found.json["messages"] == [said]
    assert found.losses == ()


# -- losses --------------------------------------------------------------------------------------


def test_a_tool_cannot_be_demanded() -> None:
    tools = (ToolDefinition.from_function(read_file, strict=False),)
    found = encoded(ChatMessage.user("Hi"), tools=tools, tool_choice="required")
    assert "tool_choice" not in found.json
    assert reasons(found) == ["setting.tool_choice_left_out"]
    assert encoded(ChatMessage.user("Hi"), tools=tools, tool_choice="auto").losses == ()


def test_schema_keywords_that_the_server_drops_are_sent_and_reported() -> None:
    count = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}
    schema = {
        "type": "object",
        "title": "Read",
        "properties": {
            "count": count,
            "lines": {"type": "array", "items": {"type": "string", "pattern": "x"}},
            "inner": {"type": "object", "properties": {"at": {"$ref": "#/$defs/At"}}},
        },
        "$defs": {"At": {"type": "string", "format": "date"}},
        "additionalProperties": False,
    }
    tool = ToolDefinition(name="read", description="Reads.", parameters=schema, strict=False)
    found = encoded(ChatMessage.user("Hi"), tools=(tool,))
    [sent] = found.json["tools"]
    assert sent == {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": schema},
    }
    [loss] = found.losses
    assert (loss.code, loss.reason) == (ChangeCode.TOOL, "keywords_ignored")
    assert loss.place == "request.tools[0]"
    assert loss.names == ("$ref", "additionalProperties", "default", "minimum")


def test_seals_of_others_are_left_out_and_their_text_is_sent() -> None:
    seal = Seal(data="c2ln", provider="anthropic", api="anthropic_messages", model="c-1")
    turn = AssistantMessage(
        content=(
            Thinking("Hm", seal=seal),
            Thinking("", seal=seal, redacted=True),
            Text("Yes", seal=seal),
            ToolCall(id="a", name="read", seal=seal),
        )
    )
    found = encoded(turn)
    assert found.json["messages"][0]["thinking"] == "Hm"
    assert reasons(found) == ["seal.other_model"] * 4
    assert b"c2ln" not in found.body


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (ImageUrl("https://example.org/a.png"), "not_fetched"),
        (ImageFile("a.png"), "bytes_required"),
    ],
)
def test_an_image_whose_bytes_are_elsewhere_is_left_out(source: Any, reason: str) -> None:
    found = encoded(ChatMessage.user((Image(source=source), Text("Look"))))
    assert found.json["messages"] == [{"role": "user", "content": "Look"}]
    assert reasons(found) == [f"image.{reason}"]


def test_the_position_of_an_image_in_the_text_is_lost() -> None:
    found = encoded(ChatMessage.user((Text("Before"), PNG, Text("Behind"))))
    assert found.json["messages"][0]["content"] == "Before\n\nBehind"
    assert reasons(found) == ["order.parts_reordered", "order.texts_joined"]


def test_text_after_a_call_is_moved_before_it() -> None:
    call = ToolCall(id="a", name="read")
    found = encoded(AssistantMessage(content=(call, Text("I loo"), Text("k."))))
    assert found.json["messages"][0]["content"] == "I look."
    assert reasons(found) == ["order.parts_reordered", "order.texts_joined"]


def test_the_failure_of_a_call_is_reported_as_a_loss() -> None:
    found = encoded(
        ToolResult.error("a", "no such file"),
        ToolResult(tool_call_id="b", content=(), outcome=Outcome.DENIED),
    )
    assert [message["content"] for message in found.json["messages"]] == ["no such file", "denied"]
    assert reasons(found) == ["outcome.not_sent"] * 2


def test_a_call_that_cannot_be_run_is_sent_so_that_the_server_can_read_it() -> None:
    bad = InvalidToolCall(id="a", name="read", arguments='{"p":', reason="cut")
    found = encoded(AssistantMessage(content=(bad,)))
    [sent] = found.json["messages"][0]["tool_calls"]
    assert sent["function"]["arguments"] == {"invalid_arguments": '{"p":'}
    assert reasons(found) == ["invalid_call.raw_text_as_only_argument"]


def test_a_call_without_a_name_gets_one_that_can_be_sent() -> None:
    bad = InvalidToolCall(id="a", name="", arguments="{}", reason="no such name")
    found = encoded(AssistantMessage(content=(bad,)))
    [sent] = found.json["messages"][0]["tool_calls"]
    assert sent["function"]["name"] == "invalid_tool_call"
    assert "tool_name.renamed" in reasons(found)


def test_unresolved_references_are_sent_by_name_and_reported() -> None:
    found = encoded(ChatMessage.user((FileReference(path="a.py"),)))
    assert found.json["messages"][0]["content"] == "@a.py"
    assert reasons(found) == ["reference.file_name"]


def test_content_of_other_wires_is_left_out_and_reported() -> None:
    odd = Opaque(kind="server_tool_use", raw="{}", origin="anthropic_messages")
    tick = Opaque(kind="event:tick", raw="{}", origin="ollama_chat")
    text = Text("Hi", extras={"anthropic_messages": {"cache_control": {"type": "ephemeral"}}})
    found = encoded(AssistantMessage(content=(text, odd, tick)))
    assert found.json["messages"] == [{"role": "assistant", "content": "Hi"}]
    assert reasons(found) == ["extras.other_wire", "opaque.other_wire"]


def test_unsupported_content_is_reported_even_if_it_claims_this_wire() -> None:
    odd = Opaque(kind="hologram", raw="{}", origin="ollama_chat")
    text = Text("Hi", extras={"ollama_chat": {"mood": "calm"}})
    found = encoded(AssistantMessage(content=(text, odd)))
    assert found.json["messages"] == [{"role": "assistant", "content": "Hi"}]
    assert reasons(found) == ["extras.no_place_in_blocks", "opaque.no_place_in_message"]


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_next_turn_begins_with_the_bytes_of_this_one() -> None:
    encoder = ollama_chat.Encoder()
    messages: tuple[Any, ...] = (ChatMessage.system("Be brief."), ChatMessage.user("One"))
    first = encoder.encode(Request(messages=messages, model="m:4b"), stream=True).body
    messages += (ChatMessage.assistant("Two"), ChatMessage.user("Three"))
    request = Request(messages=messages, model="m:4b")
    second = encoder.encode(request, stream=True).body
    assert second.startswith(first.removesuffix(b"]}"))
    assert second == ollama_chat.encode_request(request, stream=True).body


# -- decoding ------------------------------------------------------------------------------------

HI = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
RECORDED: dict[str, dict[str, Any]] = {
    "plain": {"model": "m:4b", "messages": HI, "stream": False},
    "roles in capitals": {"messages": [{"role": "User", "content": "Hi"}]},
    "roles of others": {"messages": [{"role": "control", "content": "thinking"}]},
    "nothing said": {
        "messages": [
            {"role": "user", "content": ""},
            {"role": "system", "content": ""},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": "", "thinking": "", "tool_calls": []},
            {"role": "assistant", "content": None, "thinking": "Hm"},
            {"role": "assistant", "thinking": "Hm"},
            {"role": "tool", "content": ""},
            {"role": "tool", "content": None, "tool_name": ""},
        ]
    },
    "calls": {
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "thinking": "Hm",
                "tool_calls": [
                    {"type": "function", "function": {"name": "fs.read", "arguments": {"p": 1}}},
                    {"id": "b", "function": {"name": "read", "arguments": {}, "index": 1}},
                    {"id": "", "function": {"name": "read", "arguments": None, "mood": "calm"}},
                    {"id": None, "function": {"name": "read"}},
                    {"function": {"name": "read", "arguments": '{"p": 1}'}},
                    {"function": {"name": "read", "arguments": '{"p":'}},
                    {"function": {"name": "read", "arguments": [1]}},
                    {"function": {"name": "no name!", "arguments": {"p": 1}}},
                ],
            },
            {"role": "tool", "tool_name": "fs.read", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "z", "tool_name": "no name!", "content": "3"},
            {"role": "tool", "tool_name": "read", "name": "read", "content": "4"},
        ]
    },
    "calls without a function": {
        "messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}, 7]}]
    },
    "images": {
        "messages": [
            {"role": "user", "content": "Look", "images": [BASE64, "bm8=", "https://a", 7]},
            {"role": "user", "content": "", "images": [BASE64]},
            {"role": "user", "content": "Look", "images": []},
            {"role": "system", "content": "Look", "images": [BASE64]},
            {"role": "tool", "content": "Look", "images": [BASE64], "tool_name": "look"},
        ]
    },
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "options": {
        "messages": HI,
        "options": {"num_predict": 5, "temperature": 0, "top_p": 0.5, "stop": ["END"], "seed": 1},
        "think": "high",
        "keep_alive": "5m",
        "format": {"type": "object"},
        "temperature": 0.5,
    },
    "odd options": {
        "messages": HI,
        "options": {"num_predict": -1, "temperature": 7, "top_p": None, "stop": "END"},
    },
    "no options": {"messages": HI, "options": {}, "tools": []},
    "null": {"messages": HI, "options": None, "tools": None, "model": None, "keep_alive": None},
    "tools": {
        "messages": HI,
        "tools": [
            {"type": "web_search"},
            {"type": "function", "function": TOOL},
            {"type": "function", "function": TOOL},
            {"type": "function", "function": {"name": "bare"}},
            {"type": "function", "function": {"name": "get-sum", "parameters": {}, "strict": True}},
            {"type": "function", "items": 1, "function": TOOL | {"name": "more", "cost": 1}},
            {"type": "function", "function": {"name": "odd", "parameters": {"type": "string"}}},
            7,
        ],
        "tool_choice": "auto",
    },
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_request_comes_back_as_it_was(name: str) -> None:
    request = ollama_chat.decode_request(msgspec.json.encode(RECORDED[name]))
    back = ollama_chat.encode_request(request)
    assert back.json == RECORDED[name]
    assert back.losses == ()


def test_a_recorded_request_is_made_of_our_values() -> None:
    request = ollama_chat.decode_request(msgspec.json.encode(RECORDED["options"]))
    assert (request.max_tokens, request.temperature, request.top_p) == (5, 0, 0.5)
    assert request.stop == ("END",)
    request = ollama_chat.decode_request(msgspec.json.encode(RECORDED["tools"]))
    assert [tool.original_name or tool.name for tool in request.tools] == [
        *("add", "bare", "get-sum", "more"),
    ]
    request = ollama_chat.decode_request(msgspec.json.encode(RECORDED["images"]))
    assert [type(block).__name__ for block in request.messages[0].content] == [
        *("Image", "Opaque", "Opaque", "Opaque", "Text"),
    ]


@pytest.mark.parametrize(
    ("start", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\n\0\0\0WEBP", "image/webp"),
    ],
)
def test_the_type_of_an_image_is_read_from_its_first_bytes(start: bytes, mime_type: str) -> None:
    images = [base64.b64encode(start).decode()]
    body = {"messages": [{"role": "user", "content": "Look", "images": images}]}
    [message] = ollama_chat.decode_request(msgspec.json.encode(body)).messages
    assert message.content[0] == Image(source=ImageData(start), mime_type=mime_type)


def calls(*names: str) -> dict[str, Any]:
    functions = [{"function": {"name": name, "arguments": {}}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": functions}


def result(name: str | None, **members: Any) -> dict[str, Any]:
    named = {} if name is None else {"tool_name": name}
    return {"role": "tool", "content": "ok"} | named | members


@pytest.mark.parametrize(
    ("results", "answered"),
    [
        ([result("a"), result("b"), result("a")], [0, 1, 2]),
        ([result("b"), result("a"), result("a")], [1, 0, 2]),
        ([result(None), result(None), result(None)], [0, 1, 2]),
    ],
    ids=["in order", "by name", "without a name"],
)
def test_results_are_paired_with_calls_that_have_no_id(
    results: list[dict[str, Any]], answered: list[int]
) -> None:
    body = {"messages": [calls("a", "b", "a"), *results]}
    turn, *others = ollama_chat.decode_request(msgspec.json.encode(body)).messages
    ids = [call.id for call in turn.tool_calls]
    assert len(set(ids)) == 3
    assert [message.tool_call_id for message in others] == [ids[n] for n in answered]


def test_a_result_is_paired_with_a_call_of_the_last_turn_only() -> None:
    body = {"messages": [calls("a", "b"), result("a"), calls("a"), result("a"), result("b")]}
    first, _, second, _, orphan = ollama_chat.decode_request(msgspec.json.encode(body)).messages
    ids = {call.id for turn in (first, second) for call in turn.tool_calls}
    assert len(ids) == 3
    assert orphan.tool_call_id not in ids


def test_the_same_request_is_read_alike_every_time() -> None:
    data = msgspec.json.encode(RECORDED["calls"])
    assert ollama_chat.decode_request(data) == ollama_chat.decode_request(data)


def test_another_provider_receives_the_generated_ids() -> None:
    data = msgspec.json.encode({"messages": [*HI, calls("a"), result("a")]})
    _, turn, answer = translate(data, source=ollama_chat, target=openai_chat).json["messages"]
    assert turn["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert turn["tool_calls"][0]["function"] == {"name": "a", "arguments": "{}"}


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
        ollama_chat.decode_request(data)
    assert (caught.value.code, caught.value.place) == (code, place)


def test_generated_ids_do_not_occur_in_the_request() -> None:
    calls = [
        {"function": {"name": "f", "arguments": {}}},
        {"id": "unnamed_1", "function": {"name": "g", "arguments": {}}},
    ]
    recorded = {
        "messages": [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "G", "tool_call_id": "unnamed_1"},
            {"role": "tool", "content": "F", "tool_name": "f"},
            {"role": "tool", "content": "H", "tool_name": "h"},
        ]
    }
    request = ollama_chat.decode_request(msgspec.json.encode(recorded))
    assert [made.id for made in request.messages[0].tool_calls] == ["unnamed_2", "unnamed_1"]
    results = [m.tool_call_id for m in request.messages if isinstance(m, ToolResult)]
    assert results == ["unnamed_1", "unnamed_2", "unnamed_3"]
    assert ollama_chat.encode_request(request).json == recorded


@pytest.mark.parametrize("name", ["", "a b"])
def test_a_call_is_recorded_under_any_name(name: str) -> None:
    calls = [{"id": "a", "function": {"name": name, "arguments": {}}}]
    recorded = {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}
    found = ollama_chat.encode_request(ollama_chat.decode_request(msgspec.json.encode(recorded)))
    assert found.json == recorded
    assert found.losses == ()
