"""Anthropic's Messages: encoded requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from steno import (
    AssistantMessage,
    ChatMessage,
    FileReference,
    Image,
    ImageData,
    ImageFile,
    ImageUrl,
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
from steno.messages.message import Message, SystemMessage
from steno.wire import ChangeCode, EncodedRequest, anthropic_messages, openai_chat, translate
from steno.wire.anthropic_messages import (
    DEFAULT_MAX_TOKENS,
    NAME,
    Encoder,
    decode_request,
    encode_request,
)
from tests.wire.anthropic_messages.response_events import end, read, text

MODEL = "claude-1"
HI = ChatMessage.user("Hi")
PNG = Image(source=ImageData(b"\x89PNG"), mime_type="image/png")
USER = ChatMessage.user("Hi")
SEAL = Seal(data="c2ln", provider="anthropic", api=NAME, model=MODEL)
CALL = ToolCall(id="toolu_1", name="read_file", arguments='{"path" : "a.py"}')


def read_file(path: str) -> str:
    """Read a file."""
    return path


TOOL = ToolDefinition.from_function(read_file)


def request(*messages: ChatMessage, **settings: Any) -> Request:
    settings = {"model": MODEL, "max_tokens": 100} | settings
    return Request(messages=messages, **settings)  # type: ignore[arg-type] # any message


def encoded(*messages: ChatMessage, **settings: Any) -> EncodedRequest:
    return encode_request(request(*messages, **settings))


def said(*messages: ChatMessage) -> Any:
    """Return the messages of a request that loses nothing."""
    found = encoded(*messages)
    assert found.losses == ()
    return found.json["messages"]


def reasons(found: EncodedRequest) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


# -- a conversation ------------------------------------------------------------------------------


def test_a_conversation_is_encoded_in_the_protocol() -> None:
    body = encoded(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        ChatMessage.assistant("I look.", [CALL]),
        ToolResult.success("toolu_1", "print()"),
        ChatMessage.assistant("A print."),
        tools=(TOOL,),
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        tool_choice="required",
    )
    assert body.losses == ()
    assert body.json == {
        "model": MODEL,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "system": "Be brief.",
        "tools": [
            {
                "name": "read_file",
                "description": "Read a file.",
                "input_schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ],
        "tool_choice": {"type": "any"},
        "messages": [
            {"role": "user", "content": "What is in a.py?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "read_file",
                        "input": {"path": "a.py"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "print()"}
                ],
            },
            {"role": "assistant", "content": "A print."},
        ],
    }


def test_arguments_are_sent_as_the_text_they_came_in() -> None:
    found = encoded(HI, ChatMessage.assistant(None, [CALL]))
    assert b'"input":{"path" : "a.py"}' in found.body


def test_a_limit_of_tokens_is_always_sent() -> None:
    assert encoded(HI, max_tokens=None).json["max_tokens"] == DEFAULT_MAX_TOKENS


@pytest.mark.parametrize("stream", [None, True, False])
def test_streaming_is_requested_only_if_wanted(stream: bool | None) -> None:
    body = encode_request(request(HI), stream=stream).json
    assert body.get("stream") is stream


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("read_file", {"type": "tool", "name": "read_file"}),
    ],
)
def test_tool_choices_are_encoded(ours: str, theirs: dict[str, Any]) -> None:
    assert encoded(HI, tools=(TOOL,), tool_choice=ours).json["tool_choice"] == theirs


def test_a_temperature_beyond_the_highest_is_lowered() -> None:
    found = encoded(HI, temperature=1.5)
    assert found.json["temperature"] == 1
    assert reasons(found) == ["setting.temperature_lowered"]


def test_a_model_that_cannot_be_held_to_a_schema_is_not_asked_to() -> None:
    found = encode_request(request(HI, tools=(TOOL,)), strict_tools=False)
    assert "strict" not in found.json["tools"][0]
    assert reasons(found) == ["tool.schema_not_enforced"]


# -- system messages -----------------------------------------------------------------------------


def test_system_messages_at_the_start_are_the_system_prompt() -> None:
    cached = Text("Know all this.", extras={NAME: {"cache_control": {"type": "ephemeral"}}})
    found = encoded(ChatMessage.system("Be brief."), SystemMessage((cached,)), HI)
    assert found.json["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Know all this.", "cache_control": {"type": "ephemeral"}},
    ]
    assert (len(found.json["messages"]), found.losses) == (1, ())


def test_a_later_system_message_is_sent_as_user() -> None:
    found = encoded(HI, ChatMessage.assistant("Hello."), ChatMessage.system("Be brief."))
    assert found.json["messages"][2] == {"role": "user", "content": "Be brief."}
    assert [(loss.code, loss.place) for loss in found.losses] == [
        (ChangeCode.SYSTEM, "messages[2]")
    ]


# -- results of calls ----------------------------------------------------------------------------


def test_results_of_a_turn_are_first_in_the_next_user_message() -> None:
    calls = [CALL, ToolCall(id="toolu_2", name="now")]
    messages = said(
        HI,
        ChatMessage.assistant(None, calls),
        ToolResult.success("toolu_1", "one"),
        ToolResult.error("toolu_2", "no clock"),
        ChatMessage.user("Well?"),
    )
    assert messages[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "is_error": True,
                    "content": "no clock",
                },
                {"type": "text", "text": "Well?"},
            ],
        }
    ]


def result(**members: Any) -> Any:
    message = ChatMessage.tool_result("toolu_1", **members)
    return said(HI, ChatMessage.assistant(None, [CALL]), message)[2]["content"][0]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_any_failure_is_an_error(outcome: Outcome) -> None:
    assert result(content="no", outcome=outcome)["is_error"] is True


def test_an_empty_result_has_no_content_but_an_error_has_text() -> None:
    for nothing in ("", ()):
        assert "content" not in result(content=nothing)
        assert result(content=nothing, outcome=Outcome.TIMEOUT)["content"] == "timeout"


def test_results_may_hold_images() -> None:
    assert result(content=[Text("Look:"), PNG])["content"] == [
        {"type": "text", "text": "Look:"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
        },
    ]


# -- thinking ------------------------------------------------------------------------------------


def test_thinking_goes_back_to_its_maker_in_its_place() -> None:
    blocks = (
        Thinking("Hm", seal=SEAL),
        Thinking("", seal=SEAL, redacted=True),
        Thinking("", seal=SEAL),
        Text("I look."),
        CALL,
    )
    assert said(HI, AssistantMessage(content=blocks))[1]["content"][:3] == [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(SEAL, model="claude-2"),
        replace(SEAL, provider="bedrock"),
        replace(SEAL, api="openai_responses"),
    ],
)
def test_thinking_sealed_by_another_is_left_out_and_reported(other: Seal) -> None:
    blocks = (Thinking("Hm", seal=other), Thinking("", seal=other, redacted=True), Text("4"))
    found = encoded(HI, AssistantMessage(content=blocks))
    assert found.json["messages"][1] == {"role": "assistant", "content": "4"}
    assert reasons(found) == ["seal.other_model", "thinking.no_place", "seal.other_model"]


def test_thinking_without_a_seal_is_left_out_and_reported() -> None:
    found = encoded(HI, AssistantMessage(content=(Thinking("Hm"), Text("4"))))
    assert found.json["messages"][1] == {"role": "assistant", "content": "4"}
    assert reasons(found) == ["thinking.no_place"]


def test_thinking_that_its_maker_never_signs_goes_back_to_it_alone() -> None:
    """Local servers implement this protocol without signatures."""
    answer = b'{"type":"message","content":[{"type":"thinking","thinking":"Hm"}],"model":"local"}'
    message = anthropic_messages.decode_response(answer, provider="llama.cpp")
    conversation = request(HI, message, HI, model="local")
    sent = encode_request(conversation, provider="llama.cpp")
    assert sent.json["messages"][1]["content"] == [{"type": "thinking", "thinking": "Hm"}]
    assert sent.losses == ()
    for found in (
        encode_request(conversation),
        encode_request(replace(conversation, model="claude-1"), provider="llama.cpp"),
    ):
        assert b"Hm" not in found.body
        assert "thinking.no_place" in reasons(found)


# -- content that the provider rejects -----------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_text_is_left_out(blank: str) -> None:
    found = encoded(HI, ChatMessage.assistant(blank, [CALL]))
    assert [part["type"] for part in found.json["messages"][1]["content"]] == ["tool_use"]
    assert reasons(found) == (["blank.blank_text"] if blank else [])


def test_an_empty_message_is_left_out() -> None:
    silent = AssistantMessage(content=(), stop_reason=StopReason.CONTENT_FILTER)
    found = encoded(HI, silent, ChatMessage.user("Well?"))
    assert [message["role"] for message in found.json["messages"]] == ["user", "user"]
    assert reasons(found) == ["blank.empty_message"]


def test_whitespace_at_the_end_of_a_turn_to_continue_is_stripped() -> None:
    encoder = Encoder()
    found = encoder.encode(request(HI, ChatMessage.assistant("The answer is ")))
    assert found.json["messages"][1]["content"] == "The answer is"
    assert reasons(found) == ["blank.trailing_blanks"]
    found = encoder.encode(request(HI, ChatMessage.assistant("The answer is "), HI))
    assert found.json["messages"][1]["content"] == "The answer is "
    assert found.losses == ()


def test_forbidden_ids_are_hashed_and_stay_paired() -> None:
    calls = [ToolCall(id=id, name="now") for id in ("functions.now:0", "functions.now:1")]
    results = [ToolResult.success(call.id, "12:00") for call in calls]
    found = encoded(HI, ChatMessage.assistant(None, calls), *results)
    asked = [part["id"] for part in found.json["messages"][1]["content"]]
    assert [part["tool_use_id"] for part in found.json["messages"][2]["content"]] == asked
    assert len(set(asked)) == 2
    assert all(id.isalnum() for id in asked)
    assert set(reasons(found)) == {"call_id.replaced"}


def test_names_from_elsewhere_are_sent_if_they_may_be() -> None:
    names = {"get-sum": "get-sum", "fs.read": "fs_read_"}
    for outside, sent in names.items():
        tool = replace(TOOL, name=outside.replace("-", "_").replace(".", "_") + "_x")
        tool = replace(tool, original_name=outside)
        call = ToolCall(id="a", name=tool.name, original_name=outside)
        found = encoded(
            HI, ChatMessage.assistant(None, [call]), tools=(tool,), tool_choice=tool.name
        )
        body = found.json
        name = body["tools"][0]["name"]
        assert name.startswith(sent)
        assert name == body["messages"][1]["content"][0]["name"] == body["tool_choice"]["name"]
        assert reasons(found) == ([] if name == outside else ["tool_name.renamed"] * 2)


def test_an_invalid_call_is_sent_with_its_text() -> None:
    call = InvalidToolCall(id="a", name="git commit", arguments='{"p', reason="no JSON")
    found = encoded(HI, AssistantMessage(content=(call,)), ToolResult.error("a", "no JSON"))
    assert found.json["messages"][1]["content"] == [
        {
            "type": "tool_use",
            "id": "a",
            "name": "invalid_tool_call",
            "input": {"invalid_arguments": '{"p'},
        }
    ]
    assert reasons(found) == ["tool_name.renamed", "invalid_call.raw_text_as_only_argument"]


def test_images_are_sent_by_bytes_or_by_address() -> None:
    web = Image(source=ImageUrl("https://example.org/a.png"))
    assert said(UserMessage((Text("Look:"), PNG, web)))[0]["content"][1:] == [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
        },
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]


def test_images_that_cannot_be_sent_are_reported() -> None:
    bitmap = Image(source=ImageData(b"BM"), mime_type="image/bmp")
    file = Image(source=ImageFile("a.png"))
    found = encoded(
        UserMessage((Text("Look:"), bitmap, file)), AssistantMessage(content=(Text("Here:"), PNG))
    )
    assert [message["content"] for message in found.json["messages"]] == ["Look:", "Here:"]
    assert [loss.place for loss in found.losses] == [
        "messages[0].content[1]",
        "messages[0].content[2]",
        "messages[1].content[1]",
    ]
    assert set(reasons(found)) == {
        "image.bytes_missing",
        "image.from_model",
        "image.type_not_supported",
    }


def test_unresolved_file_references_are_sent_by_name() -> None:
    found = encoded(UserMessage((Text("Read"), FileReference(path="a.py", start_line=3))))
    assert found.json["messages"][0]["content"][1] == {"type": "text", "text": "@a.py:3"}
    assert reasons(found) == ["reference.file_name"]


def test_content_of_other_wires_is_left_out_and_reported() -> None:
    foreign = Opaque(kind="hologram", raw='{"type":"hologram"}', origin="gemini")
    event = Opaque(kind="event:hologram", raw='{"type":"hologram"}', origin=NAME)
    odd = Text("4", extras={"gemini": {"light": 7}}, seal=replace(SEAL, api="gemini"))
    call = replace(CALL, seal=replace(SEAL, api="gemini"))
    found = encoded(HI, AssistantMessage(content=(foreign, event, odd, call)))
    assert b"hologram" not in found.body
    assert reasons(found) == [
        "opaque.other_wire",
        "extras.other_wire",
        "seal.no_place_in_text",
        "seal.no_place_in_calls",
    ]


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_next_body_begins_with_the_bytes_of_the_last() -> None:
    conversation = (
        ChatMessage.system("Be brief."),
        HI,
        AssistantMessage(content=(Thinking("Hm", seal=SEAL), Text("I look."), CALL)),
        ToolResult.success("toolu_1", "one"),
        ChatMessage.user("Well?"),
        ChatMessage.assistant("One."),
        ChatMessage.user("Thanks."),
    )
    encoder = Encoder()
    before = b""
    for count in range(2, len(conversation) + 1):
        turn = request(*conversation[:count], tools=(TOOL,))
        body = encoder.encode(turn).body
        assert body == encode_request(turn).body
        assert body.startswith(before)
        before = body.removesuffix(b"]}").removesuffix(b"]}") if count == 4 else body[:-2]


def test_a_request_of_another_protocol_can_be_encoded() -> None:
    chat = b"""{"model":"m","messages":[
        {"role":"system","content":"Be brief."},
        {"role":"user","content":"Hi"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"call_1","type":"function","function":{"name":"now","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"12:00"}]}"""
    body = translate(chat, source=openai_chat, target=anthropic_messages).json
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"][0]["tool_use_id"] == "call_1"


# -- ids that several calls share ----------------------------------------------------------------


def asked_twice(count: int) -> tuple[Message, ...]:
    call = ToolCall(id="functions.read:0", name="read", arguments="{}")
    turn = (AssistantMessage(content=(call,)), ToolResult.success("functions.read:0", "one"))
    return (USER, *(turn * count), USER)


def ids_in(body: Any) -> list[tuple[str, str]]:
    blocks = [block for m in body["messages"] for block in m["content"] if isinstance(block, dict)]
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    return list(zip(uses, results, strict=True))


def test_calls_with_the_same_id_are_sent_with_different_ids() -> None:
    pairs = ids_in(encode_request(Request(model="m", messages=asked_twice(3))).json)
    assert all(use == result for use, result in pairs)
    assert len(set(pairs)) == 3
    shorter = ids_in(encode_request(Request(model="m", messages=asked_twice(2))).json)
    assert shorter == pairs[:2]


def test_calls_of_one_id_in_one_turn_get_their_results_in_order() -> None:
    call = ToolCall(id="a", name="read", arguments="{}")
    turn = AssistantMessage(content=(call, call))
    results = (ToolResult.success("a", "one"), ToolResult.success("a", "two"))
    body = encode_request(Request(model="m", messages=(USER, turn, *results))).json
    pairs = ids_in(body)
    assert pairs[0] == ("a", "a")
    assert pairs[1][0] == pairs[1][1] != "a"


def test_recorded_calls_of_one_id_are_written_as_they_were() -> None:
    use = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "one"}
    turn = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    messages = [{"role": "user", "content": "Hi"}, *turn, *turn]
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    request = decode_request(json.dumps(body))
    assert encode_request(request).json == body


def test_a_forced_call_while_the_model_thinks_is_reported() -> None:
    extras = {NAME: {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    for choice, is_told in (("required", True), ("read", True), ("auto", False)):
        request = Request(model="m", messages=(USER,), tool_choice=choice, extras=extras)
        losses = [loss.place for loss in encode_request(request).losses]
        assert losses == (["request.tool_choice"] if is_told else [])


def test_a_block_that_cannot_be_assembled_is_left_out_and_reported() -> None:
    block = {"type": "novel", "x": 1}
    turn = read(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "novel_delta", "y": "a"}},
        {"type": "content_block_stop", "index": 0},
        *text(1, "Well"),
        end(),
    )
    encoded = encode_request(Request(model=MODEL, messages=(USER, turn, USER)))
    assert [(loss.code, loss.place) for loss in encoded.losses] == [
        (ChangeCode.OPAQUE, "messages[1].content[0]")
    ]
    assert encoded.json["messages"][1]["content"] == "Well"
