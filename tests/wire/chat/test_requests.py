"""The flat chat JSON: requests, decoded and encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from steno import (
    ChatMessage,
    FileReference,
    Image,
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
from steno.codec import decode_document
from steno.messages.message import AssistantMessage
from steno.wire import ChangeCode, chat, openai_chat, translate

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


def read_file(path: str) -> str:
    """Read a file."""
    return path


def encoded(*messages: ChatMessage, **settings: Any) -> Any:
    return chat.encode_request(Request(messages=messages, **settings))  # type: ignore[arg-type] # any message


def encode(*messages: ChatMessage, **settings: Any) -> Any:
    return encoded(*messages, **settings).json


def reasons(found: Any) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


# -- encoding ------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-23", "FR-004a-25", "FR-004a-47", "FR-004a-65", "S2-21")
def test_a_conversation_is_a_flat_list_without_null_members() -> None:
    body = encode(
        ChatMessage.system("You fix code."),
        ChatMessage.user("Is it broken?"),
        ChatMessage.assistant(None, [ToolCall.create("run_tests", {"path": "tests"}, id="c1")]),
        ToolResult.success("c1", "3 passed"),
        ChatMessage.assistant("All green."),
    )
    assert body == {
        "messages": [
            {"role": "system", "content": "You fix code."},
            {"role": "user", "content": "Is it broken?"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "name": "run_tests", "arguments": {"path": "tests"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "3 passed"},
            {"role": "assistant", "content": "All green."},
        ]
    }


@pytest.mark.requirement("FR-004a-85")
def test_settings_and_tools_go_by_our_own_names() -> None:
    tool = ToolDefinition.from_function(read_file)
    body = encode(
        ChatMessage.user("Hi"),
        model="m-1",
        tools=(tool, ToolDefinition.from_function(read_file, name="other", strict=False)),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        tool_choice="read_file",
    )
    strict, loose = body.pop("tools")
    assert strict["name"] == "read_file"
    assert strict["description"] == "Read a file."
    assert strict["parameters"]["additionalProperties"] is False
    assert "strict" not in strict
    assert loose["strict"] is False
    assert body == {
        "model": "m-1",
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "tool_choice": "read_file",
        "messages": [{"role": "user", "content": "Hi"}],
    }


def test_arguments_keep_their_text() -> None:
    call = ToolCall(id="a", name="read", arguments='{"p" : 1.0}')
    assert b'"arguments":{"p" : 1.0}' in encoded(ChatMessage.assistant(None, [call])).body


@pytest.mark.requirement("FR-004a-65")
def test_a_result_is_sent_as_an_error_without_its_outcome() -> None:
    found = encoded(
        ToolResult.error("a", "no such file"),
        ToolResult(tool_call_id="b", content=(), outcome=Outcome.DENIED),
    )
    assert found.json["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": "no such file", "is_error": True},
        {"role": "tool", "tool_call_id": "b", "content": "", "is_error": True},
    ]
    assert reasons(found) == ["outcome.sent_as_error"]


def test_streaming_is_asked_for_by_name() -> None:
    request = Request(messages=(ChatMessage.user("Hi"),))
    assert chat.encode_request(request, stream=True).json["stream"] is True


# -- losses --------------------------------------------------------------------------------------


def test_blocks_that_are_not_text_are_left_out_and_reported() -> None:
    seal = Seal(data="c2ln", provider="anthropic", api="anthropic_messages", model="c-1")
    odd = Opaque(kind="server_tool_use", raw="{}", origin="anthropic_messages")
    found = encoded(
        ChatMessage.user(
            (Text("Look"), Image(source=ImageUrl("https://a")), FileReference(path="a.py"))
        ),
        AssistantMessage(content=(Thinking("Hm", seal=seal), odd, Text("Yes", seal=seal))),
    )
    assert found.json["messages"] == [
        {"role": "user", "content": "Look\n\n@a.py"},
        {"role": "assistant", "content": "Yes"},
    ]
    assert [(loss.code, loss.reason, loss.place) for loss in found.losses] == [
        (ChangeCode.IMAGE, "text_only", "messages[0].content[1]"),
        (ChangeCode.REFERENCE, "file_name", "messages[0].content[2]"),
        (ChangeCode.ORDER, "texts_joined", "messages[0]"),
        (ChangeCode.SEAL, "other_model", "messages[1].content[0]"),
        (ChangeCode.THINKING, "no_place", "messages[1].content[0]"),
        (ChangeCode.OPAQUE, "other_wire", "messages[1].content[1]"),
        (ChangeCode.SEAL, "other_model", "messages[1].content[2]"),
    ]


def test_text_after_a_call_is_moved_before_it() -> None:
    call = ToolCall(id="a", name="read")
    found = encoded(AssistantMessage(content=(call, Text("I look."))))
    assert found.json["messages"][0]["content"] == "I look."
    assert reasons(found) == ["order.calls_after_text"]


def test_members_of_a_text_go_with_it_only_where_it_is_a_part() -> None:
    found = encoded(ChatMessage.user((Text("Hi", extras={"chat": {"mood": "calm"}}),)))
    assert found.json["messages"] == [{"role": "user", "content": "Hi"}]
    assert reasons(found) == ["extras.no_place_in_text"]


def test_a_call_that_cannot_be_run_has_its_raw_text_as_an_argument() -> None:
    bad = InvalidToolCall(id="a", name="read", arguments='{"p":', reason="cut")
    found = encoded(AssistantMessage(content=(bad,)))
    [sent] = found.json["messages"][0]["tool_calls"]
    assert sent["arguments"] == {"invalid_arguments": '{"p":'}
    assert reasons(found) == ["invalid_call.raw_text_as_only_argument"]
    [loss] = found.losses
    assert (loss.value, loss.target) == ("read", "a")


def test_a_call_without_a_name_gets_one_that_can_be_sent() -> None:
    bad = InvalidToolCall(id="a", name="", arguments="{}", reason="no such name")
    found = encoded(AssistantMessage(content=(bad,)))
    [sent] = found.json["messages"][0]["tool_calls"]
    assert sent["name"] == "invalid_tool_call"
    assert "tool_name.renamed" in reasons(found)


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_next_turn_begins_with_the_bytes_of_this_one() -> None:
    encoder = chat.Encoder()
    messages: tuple[Any, ...] = (ChatMessage.system("Be brief."), ChatMessage.user("One"))
    first = encoder.encode(Request(messages=messages, model="m-1")).body
    messages += (ChatMessage.assistant("Two"), ChatMessage.user("Three"))
    request = Request(messages=messages, model="m-1")
    second = encoder.encode(request).body
    assert second.startswith(first.removesuffix(b"]}"))
    assert second == chat.encode_request(request).body


# -- decoding ------------------------------------------------------------------------------------

HI = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "object"}}}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = {"name": "add", "description": "Adds.", "parameters": SCHEMA}
RECORDED: dict[str, Any] = {
    "a list": HI,
    "an object": {"messages": HI, "model": "m-1"},
    "roles": [
        {"role": "System", "content": "Be brief."},
        {"role": "developer", "content": "Be brief."},
        {"role": "USER", "content": "Hi", "name": "ada", "type": "message"},
        {"role": "critic", "content": "Not one of ours."},
    ],
    "nothing said": [
        {"role": "user", "content": ""},
        {"role": "user", "content": None},
        {"role": "user"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": None},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "tool", "tool_call_id": "a", "content": None, "is_error": False},
        {"role": "tool", "tool_call_id": "a", "is_error": True},
        {"role": "tool", "content": "whose?"},
    ],
    "calls": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "name": "read", "arguments": {"p": 1}},
                {"id": "b", "name": "fs.read", "arguments": '{"p": 1}'},
                {"id": "", "name": "read", "arguments": None},
                {"name": "read"},
                {"id": "c", "name": "read", "arguments": '{"p":', "cost": 1},
                {"id": "d", "name": "no name!", "arguments": [1]},
                {
                    "id": "e",
                    "type": "function",
                    "function": {"name": "read", "arguments": "{}", "mood": "calm"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "name": "read", "arguments": {}}],
            "stop_reason": "tool_use",
        },
    ],
    "odd calls": [{"role": "assistant", "content": "Hi", "tool_calls": [7, {"id": "a"}]}],
    "parts": [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "mood": "calm"}]},
        {"role": "user", "content": [{"type": "image", "data": "bm8="}]},
        {"role": "system", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "x"}]},
        {"role": "assistant", "content": 7},
    ],
    "settings": {
        "messages": HI,
        "max_tokens": 5,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["END"],
        "stream": True,
        "seed": 1,
    },
    "odd settings": {
        "messages": HI,
        "model": None,
        "max_tokens": -1,
        "temperature": 7,
        "stop": "END",
        "tool_choice": {"name": "add"},
        "tools": None,
    },
    "tools": {
        "messages": HI,
        "tools": [
            TOOL,
            TOOL,
            TOOL | {"name": "b", "strict": False},
            TOOL | {"name": "c", "strict": True},
            TOOL | {"name": "d", "parameters": CLOSED},
            TOOL | {"name": "e", "parameters": CLOSED, "strict": True},
            TOOL | {"name": "get-sum", "parameters": CLOSED, "cost": 1},
            {"name": "bare"},
            7,
        ],
        "tool_choice": "add",
    },
    "no tools": {"messages": HI, "tools": []},
}


@pytest.mark.requirement("NFR-004a-31")
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_request_comes_back_as_it_was(name: str) -> None:
    request = chat.decode_request(msgspec.json.encode(RECORDED[name]))
    back = chat.encode_request(request)
    assert msgspec.json.decode(back.body) == RECORDED[name]
    assert back.losses == ()


def test_a_recorded_request_is_made_of_our_values() -> None:
    request = chat.decode_request(msgspec.json.encode(RECORDED["tools"]))
    assert [(tool.original_name or tool.name, tool.strict) for tool in request.tools] == [
        ("add", False),
        ("b", False),
        ("c", False),
        ("d", True),
        ("e", True),
        ("get-sum", True),
    ]
    request = chat.decode_request(msgspec.json.encode(RECORDED["settings"]))
    assert (request.max_tokens, request.temperature, request.stop) == (5, 0, ("END",))


def test_a_list_with_settings_becomes_an_object() -> None:
    request = chat.decode_request(msgspec.json.encode(HI))
    request = msgspec.structs.replace(request, model="m-1")
    assert chat.encode_request(request).json == {"model": "m-1", "messages": HI}


@pytest.mark.parametrize("name", ["v0_flat_chat", "v0_openai_calls"])
def test_documents_of_version_0_are_chat_requests(name: str) -> None:
    data = (GOLDEN / f"{name}.json").read_bytes()
    loaded = decode_document(data).messages
    read = chat.decode_request(data).messages[: len(loaded)]
    assert [message.text for message in read] == [message.text for message in loaded]
    assert [_calls(message) for message in read] == [_calls(message) for message in loaded]


def _calls(message: ChatMessage) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in message.tool_calls]


def test_it_can_be_translated_to_a_provider_s_protocol() -> None:
    data = (GOLDEN / "v0_flat_chat.json").read_bytes()
    messages = translate(data, source=chat, target=openai_chat).json["messages"]
    assert messages[2]["tool_calls"][0]["function"] == {
        "name": "read_file",
        "arguments": '{"path": "pyproject.toml", "limit": 1.0e2}',
    }
    assert messages[3] == {
        "role": "tool",
        "tool_call_id": "call_001",
        "content": "[project]\nname = demo",
    }


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        ("", "empty_document", "request"),
        ("{}", "messages_missing", "request"),
        ("[]", "empty", "request"),
        ("[7]", "unexpected_type", "messages[0]"),
        ('[{"role": "user"}', "not_json", "request"),
        ('{"messages": 7}', "messages_missing", "request"),
        ("[\ud800]", "lone_surrogate", "request"),
    ],
)
def test_other_json_than_a_request_is_refused(data: str, code: str, place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat.decode_request(data)
    assert (caught.value.code, caught.value.place) == (code, place)


def test_generated_ids_do_not_occur_in_the_request() -> None:
    calls = [
        {"name": "f", "arguments": {}},
        {"id": "unnamed_1", "name": "g", "arguments": {}},
    ]
    recorded = {
        "messages": [
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "G", "tool_call_id": "unnamed_1"},
        ]
    }
    request = chat.decode_request(msgspec.json.encode(recorded))
    assert [made.id for made in request.messages[0].tool_calls] == ["unnamed_2", "unnamed_1"]
    assert chat.encode_request(request).json == recorded


@pytest.mark.parametrize("name", ["", "a b"])
def test_a_call_is_recorded_under_any_name(name: str) -> None:
    calls = [{"id": "a", "name": name, "arguments": {}}]
    recorded = {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}
    found = chat.encode_request(chat.decode_request(msgspec.json.encode(recorded)))
    assert found.json == recorded
    assert found.losses == ()
