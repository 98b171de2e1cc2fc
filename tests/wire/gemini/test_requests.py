"""Gemini's generateContent: requests, decoded and encoded."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from steno import (
    ChatMessage,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageUrl,
    InvalidRequest,
    InvalidToolCall,
    Opaque,
    Outcome,
    Request,
    Resource,
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
from steno.wire import gemini, openai_chat, translate

PNG = Image(source=ImageData(b"\x89PNG"), mime_type="image/png")
PNG_TEXT = base64.b64encode(b"\x89PNG").decode()
SENTINEL = "skip_thought_signature_validator"
HI = {"role": "user", "parts": [{"text": "Hi"}]}


def read_file(path: str) -> str:
    """Read a file."""
    return path


def encoded(*messages: ChatMessage, model: str = "gemini-9", **settings: Any) -> Any:
    request = Request(messages=messages, model=model, **settings)  # type: ignore[arg-type] # any message
    return gemini.encode_request(request)


def encode(*messages: ChatMessage, **settings: Any) -> Any:
    return encoded(*messages, **settings).json


def parts_of(*blocks: Any, model: str = "gemini-9") -> Any:
    """Return the parts that are sent for an assistant message of these blocks."""
    said = AssistantMessage(content=blocks)
    return encode(ChatMessage.user("Hi"), said, model=model)["contents"][1]["parts"]


def reasons(found: Any) -> list[str]:
    """Return code and reason of every change that a request reports."""
    return [f"{loss.code}.{loss.reason}" for loss in found.losses]


def seal(data: str = "s1", model: str = "gemini-9") -> Seal:
    return Seal(data=data, provider="google", api="gemini", model=model)


def body_of(*contents: Any, **members: Any) -> dict[str, Any]:
    return {"contents": list(contents), **members}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str, **members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **members}}


def result(name: str, **members: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **members}}


def decode(body: dict[str, Any], **settings: Any) -> Request:
    return gemini.decode_request(msgspec.json.encode(body), **settings)


# -- encoding ------------------------------------------------------------------------------------


def test_a_conversation_is_encoded_in_the_protocol() -> None:
    asked = ToolCall(id="call_1", name="read_file", arguments='{"path" : "a.py"}')
    found = encoded(
        ChatMessage.system("Be brief."),
        ChatMessage.user("What is in a.py?"),
        ChatMessage.assistant("I look.", [asked]),
        ChatMessage.tool_result("call_1", "print()"),
        ChatMessage.assistant("A print."),
        tools=(ToolDefinition.from_function(read_file),),
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        tool_choice="required",
    )
    assert found.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            user({"text": "What is in a.py?"}),
            model(
                {"text": "I look."},
                {
                    "functionCall": {
                        "id": "call_1",
                        "name": "read_file",
                        "args": {"path": "a.py"},
                    },
                    "thoughtSignature": SENTINEL,
                },
            ),
            user(
                {
                    "functionResponse": {
                        "id": "call_1",
                        "name": "read_file",
                        "response": {"output": "print()"},
                    }
                }
            ),
            model({"text": "A print."}),
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {"path": {"type": "string"}},
                            "required": ["path"],
                            "additionalProperties": False,
                        },
                    }
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
        },
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }
    assert found.losses == ()


def test_only_requested_settings_are_sent() -> None:
    request = Request(messages=(ChatMessage.user("Hi"),), model="gemini-9")
    assert gemini.encode_request(request, stream=True).json == body_of(HI)


def test_arguments_are_sent_byte_for_byte() -> None:
    asked = ToolCall(id="call_1", name="read_file", arguments='{"b" : 1.0, "a":1e2}')
    found = encoded(ChatMessage.user("Hi"), ChatMessage.assistant(None, [asked]))
    assert b'"args":{"b" : 1.0, "a":1e2}' in found.body


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("read_file", {"mode": "ANY", "allowedFunctionNames": ["read_file"]}),
    ],
)
def test_a_choice_of_tools_is_a_mode(choice: str, config: dict[str, Any]) -> None:
    tools = (ToolDefinition.from_function(read_file),)
    body = encode(ChatMessage.user("Hi"), tools=tools, tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_results_of_one_turn_share_one_content() -> None:
    calls = [ToolCall.create("read_file", id=id) for id in ("a", "b")]
    body = encode(
        ChatMessage.user("Hi"),
        ChatMessage.assistant(None, calls),
        ChatMessage.tool_result("a", "1"),
        ToolResult.error("b", "no such file"),
        ChatMessage.user("And?"),
    )
    results = body["contents"][2]
    assert results["role"] == "user"
    assert [part["functionResponse"]["response"] for part in results["parts"]] == [
        {"output": "1"},
        {"error": "no such file"},
    ]
    assert body["contents"][3] == user({"text": "And?"})


def test_a_failure_without_text_is_sent_with_its_outcome() -> None:
    denied = ChatMessage.tool_result("a", "", outcome=Outcome.DENIED, tool_name="read_file")
    body = encode(ChatMessage.user("Hi"), denied)
    assert body["contents"][1]["parts"][0]["functionResponse"]["response"] == {"error": "denied"}


def test_images_of_a_result_are_sent_beside_its_text() -> None:
    shown = ChatMessage.tool_result("a", (Text("See"), PNG), tool_name="look")
    [part] = encode(ChatMessage.user("Hi"), shown)["contents"][1]["parts"]
    assert part["functionResponse"] == {
        "id": "a",
        "name": "look",
        "response": {"output": "See"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}}],
    }


def test_resources_of_a_result_are_text_or_parts_beside_it() -> None:
    said = Resource(server="s", uri="x://a", text="A")
    shown = Resource(server="s", uri="x://b", mime_type="application/pdf", data=b"%PDF")
    found = encoded(ChatMessage.user("Hi"), ChatMessage.tool_result("a", (said, shown)))
    [part] = found.json["contents"][1]["parts"]
    assert part["functionResponse"]["response"] == {"output": "x://a\nA"}
    assert part["functionResponse"]["parts"][0]["inlineData"]["mimeType"] == "application/pdf"


def test_images_and_references_are_sent_with_the_text_of_the_user() -> None:
    found = encoded(
        ChatMessage.user(
            (
                Text("Look"),
                PNG,
                Image(source=ImageUrl("https://example.org/a.png"), mime_type="image/png"),
                Image(source=ImageBlob(sha256="0" * 64, size=1), mime_type="image/png"),
                FileReference(path="a.py", start_line=3),
                Resource(server="s", uri="x://y", mime_type="application/pdf", data=b"%PDF"),
            )
        )
    )
    assert found.json["contents"][0]["parts"] == [
        {"text": "Look"},
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
        {"text": "@a.py:3"},
        {
            "inlineData": {
                "mimeType": "application/pdf",
                "data": base64.b64encode(b"%PDF").decode(),
            }
        },
    ]
    assert reasons(found) == ["image.bytes_missing", "reference.file_name"]


def test_a_later_system_message_is_sent_as_user() -> None:
    found = encoded(
        ChatMessage.system("One."),
        ChatMessage.system("Two."),
        ChatMessage.user("Hi"),
        ChatMessage.system("Three."),
    )
    assert found.json["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    assert found.json["contents"] == [HI, user({"text": "Three."})]
    assert reasons(found) == ["system.sent_as_user"]


def test_names_that_google_allows_may_stand() -> None:
    made = ToolCall(id="a", name="fs_read", original_name="fs.read:v-2")
    assert parts_of(made)[0]["functionCall"]["name"] == "fs.read:v-2"


def test_a_name_that_google_forbids_is_replaced_and_reported() -> None:
    made = ToolCall(id="a", name="fs_read", original_name="fs/read")
    found = encoded(
        ChatMessage.user("Hi"),
        ChatMessage.assistant(None, [made]),
        ChatMessage.tool_result("a", "ok"),
    )
    sent = [content["parts"][0] for content in found.json["contents"][1:]]
    assert sent[0]["functionCall"]["name"] == "fs_read"
    assert sent[1]["functionResponse"]["name"] == "fs_read"
    assert reasons(found) == ["tool_name.renamed"]


def test_a_call_that_cannot_be_run_is_sent_with_its_raw_text() -> None:
    broken = InvalidToolCall(id="a", name="no such", arguments="{", reason="not JSON")
    found = encoded(ChatMessage.user("Hi"), ChatMessage.assistant(None, [broken]))
    sent = found.json["contents"][1]["parts"][0]["functionCall"]
    assert sent == {"id": "a", "name": "invalid_tool_call", "args": {"invalid_arguments": "{"}}
    assert reasons(found) == ["tool_name.renamed", "invalid_call.raw_text_as_only_argument"]


def test_generated_ids_do_not_occur_in_the_request() -> None:
    taken = call("add", id="gemini_call_1")
    answers = [
        {"functionResponse": {"id": "gemini_call_1", "name": "add", "response": {"output": "A"}}},
        {"functionResponse": {"name": "sub", "response": {"output": "B"}}},
        {"functionResponse": {"name": "gone", "response": {"output": "C"}}},
    ]
    later = call("add", id="gemini_call_4")
    recorded = body_of(
        user({"text": "Hi"}), model(call("sub"), taken), user(*answers), model(later)
    )
    text = msgspec.json.encode(recorded).replace(b"gemini_call_4", rb"gemini\u005fcall_4")
    request = gemini.decode_request(text)
    ids = [made.id for message in request.messages for made in message.tool_calls]
    assert ids == ["gemini_call_2", "gemini_call_1", "gemini_call_4"]
    results = [m.tool_call_id for m in request.messages if isinstance(m, ToolResult)]
    assert results == ["gemini_call_1", "gemini_call_2", "gemini_call_3"]
    assert gemini.decode_request(text) == request
    assert gemini.encode_request(request).json == recorded


def test_empty_text_is_left_out() -> None:
    assert parts_of(Text(""), Text("Hi")) == [{"text": "Hi"}]


def test_an_empty_turn_is_left_out_and_reported() -> None:
    nothing = ChatMessage.assistant("", stop_reason=StopReason.CONTENT_FILTER)
    found = encoded(ChatMessage.user("Hi"), nothing, ChatMessage.user("Well?"))
    assert found.json["contents"] == [HI, user({"text": "Well?"})]
    assert reasons(found) == ["order.empty_turn"]


# -- seals ---------------------------------------------------------------------------------------


def test_seals_go_back_to_the_model_that_made_them() -> None:
    blocks = (
        Thinking("Hm", seal=seal("s1")),
        Text("Four", seal=seal("s2")),
        ToolCall(id="a", name="add", seal=seal("s3")),
        ToolCall(id="b", name="add"),
        Text("", seal=seal("s4")),
    )
    assert parts_of(*blocks) == [
        {"text": "Hm", "thought": True, "thoughtSignature": "s1"},
        {"text": "Four", "thoughtSignature": "s2"},
        call("add", id="a") | {"thoughtSignature": "s3"},
        call("add", id="b"),
        {"text": "", "thoughtSignature": "s4"},
    ]


def test_seals_of_others_are_left_out_and_reported() -> None:
    said = AssistantMessage(
        content=(
            Thinking("Hm", seal=seal("s1", model="gemini-8")),
            Thinking("", seal=seal("s2", model="gemini-8"), redacted=True),
            ToolCall(id="a", name="add", seal=seal("s3", model="gemini-8")),
            Text("", seal=seal("s4", model="gemini-8")),
        )
    )
    found = encoded(ChatMessage.user("Hi"), said)
    assert found.json["contents"][1]["parts"] == [
        {"text": "Hm", "thought": True},
        call("add", id="a") | {"thoughtSignature": SENTINEL},
    ]
    assert reasons(found) == ["seal.other_model"] * 4


def test_only_the_first_call_of_a_step_from_elsewhere_bears_the_sentinel() -> None:
    calls = [ToolCall.create("add", id=id) for id in ("a", "b")]
    parts = parts_of(Text("So"), *calls)
    assert [part.get("thoughtSignature") for part in parts] == [None, SENTINEL, None]


def answer(*parts: Any) -> AssistantMessage:
    body = {"candidates": [{"content": model(*parts), "finishReason": "STOP"}]}
    return gemini.decode_response(msgspec.json.encode(body), model="gemini-9")


@pytest.mark.parametrize("to", ["gemini-9", "gemini-10"])
def test_a_call_without_a_signature_is_sent_unsigned_only_to_its_own_model(to: str) -> None:
    body = encode(ChatMessage.user("Hi"), answer(call("add")), model=to)
    [part] = body["contents"][1]["parts"]
    assert part.get("thoughtSignature") == (None if to == "gemini-9" else SENTINEL)


def test_a_response_is_sent_back_unchanged() -> None:
    parts = [
        {"text": "Hm", "thought": True},
        {"text": "So", "thoughtSignature": "s1"},
        {"executableCode": {"code": "1"}, "thoughtSignature": "s2"},
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}, "thoughtSignature": "s3"},
        call("add", id="a") | {"thoughtSignature": "s4"},
        {"functionCall": {"name": "now"}},
        {"text": "", "thoughtSignature": "s5"},
        {"thoughtSignature": "s6"},
    ]
    body = encode(ChatMessage.user("Hi"), answer(*parts))
    assert body["contents"][1] == model(*parts)


def test_signatures_of_unknown_parts_are_for_their_own_model_alone() -> None:
    said = answer(
        {"executableCode": {"code": "1"}, "thoughtSignature": "s2"},
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}, "thoughtSignature": "s3"},
    )
    found = encoded(ChatMessage.user("Hi"), said, model="gemini-10")
    assert found.json["contents"][1]["parts"] == [
        {"executableCode": {"code": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
    ]
    assert reasons(found) == ["seal.other_model"] * 2


def test_a_generated_id_is_not_sent() -> None:
    said = answer(call("add"))
    [made] = said.tool_calls
    body = encode(ChatMessage.user("Hi"), said, ChatMessage.tool_result(made.id, "4"))
    assert body["contents"][1:] == [
        model(call("add")),
        user(result("add", response={"output": "4"})),
    ]


# -- content of other wires ----------------------------------------------------------------------


def test_content_of_other_wires_is_left_out_and_reported() -> None:
    said = UserMessage(
        (
            Text("Hi", extras={"anthropic_messages": {"cache_control": {"type": "ephemeral"}}}),
            Opaque(kind="document", raw="{}", origin="anthropic_messages"),
        )
    )
    found = encoded(said)
    assert found.json["contents"] == [HI]
    assert reasons(found) == ["extras.other_wire", "opaque.other_wire"]
    assert found.losses[1].place == "messages[0].content[1]"


def test_unknown_events_are_never_sent() -> None:
    said = AssistantMessage(
        content=(Text("Hi"), Opaque(kind="event:new", raw="{}", origin="gemini"))
    )
    assert encode(ChatMessage.user("Hi"), said)["contents"][1] == model({"text": "Hi"})


def test_a_history_of_another_provider_is_understood() -> None:
    source = {
        "model": "gemini-9",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Sum?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "add", "arguments": '{"a": 1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "4"},
        ],
    }
    found = translate(msgspec.json.encode(source), source=openai_chat, target=gemini)
    assert [content["role"] for content in found.json["contents"]] == ["user", "model", "user"]
    assert found.json["contents"][1]["parts"][0]["thoughtSignature"] == SENTINEL
    [answered] = found.json["contents"][2]["parts"]
    assert answered == result("add", id="call_1", response={"output": "4"})


# -- recorded requests ---------------------------------------------------------------------------

ROUND_TRIPS: dict[str, dict[str, Any]] = {
    "snake_case": body_of(
        user({"text": "Hi"}),
        model(
            {"function_call": {"id": "a", "name": "add", "args": {}}, "thought_signature": "s1"},
            {"functionCall": {"name": "add", "args": {}}, "thought_signature": "s2"},
        ),
        user(
            {"function_response": {"id": "a", "name": "add", "response": {"output": "x"}}},
            {"inline_data": {"mime_type": "image/png", "data": PNG_TEXT}},
            {"fileData": {"file_uri": "https://example.org/a.png", "mime_type": "image/png"}},
        ),
        system_instruction={"parts": [{"text": "Be brief."}]},
        generation_config={"max_output_tokens": 5, "top_p": 0.5, "thinking_config": {"a": 1}},
        tool_config={"function_calling_config": {"mode": "ANY", "allowed_function_names": ["x"]}},
    ),
    "no_roles": body_of({"parts": [{"text": "Hi"}]}, {"parts": [result("add")]}),
    "function_role": body_of(
        HI, model(call("add")), {"role": "function", "parts": [result("add")]}
    ),
    "split_results": body_of(HI, model(call("a"), call("b")), user(result("a")), user(result("b"))),
    "mixed_content": body_of(
        HI, model(call("a")), user({"text": "See"}, result("a"), {"text": "and"}, {"text": "so"})
    ),
    "neighbours": body_of(HI, HI, model({"text": "a"}), model({"text": "b"})),
    "parts_alone": body_of(
        {"role": "user", "parts": {"text": "Hi"}}, systemInstruction={"parts": {"text": "Be."}}
    ),
    "contents_alone": {"contents": HI},
    "empty": body_of(user({"text": ""}), {"role": "model"}, model(), model({"text": ""})),
    "nulls": body_of(
        user({"text": "Hi", "thought": None}),
        systemInstruction=None,
        generationConfig=None,
        tools=None,
        toolConfig=None,
    ),
    "false_thoughts": body_of(
        user({"text": "Hi", "thought": False}),
        model(call("a") | {"thought": False}),
        user(result("a") | {"thought": False}),
    ),
    "arguments": body_of(
        HI,
        model(
            {"functionCall": {"name": "a"}},
            {"functionCall": {"name": "a", "args": None}},
            {"functionCall": {"name": "a", "args": ["x"]}},
            {"functionCall": {"args": {}}},
        ),
    ),
    "ids": body_of(
        HI,
        model(call("a", id="1"), call("a", id="1"), call("a", id="")),
        user(result("a"), result("a", id="2"), result("b", id="1"), result("c")),
    ),
    "responses": body_of(
        HI,
        model(*[call("a")] * 8),
        user(
            result("a", response={"error": "no"}),
            result("a", response={"error": ""}),
            result("a", response={"output": {"x": [1.0]}}),
            result("a", response={"result": "x"}),
            result("a", response={}),
            {"functionResponse": {"name": "a"}},
            result("a", parts=[]),
            result("a", parts=[{"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}]),
        ),
    ),
    "odd_parts": body_of(
        user(
            {"videoMetadata": {"fps": 1}, "fileData": {"fileUri": "gs://a", "mimeType": "video/x"}}
        ),
        user({"inlineData": {"mimeType": "image/png", "data": "_-8=", "displayName": "a"}}),
        model({"toolCall": {"id": "x"}, "thoughtSignature": "s1"}, {"toolResponse": {"id": "x"}}),
        model(call("a") | {"thoughtSignature": SENTINEL}),
        model({"thought": True, "thoughtSignature": "s2"}, {"thoughtSignature": "s3"}),
        {"role": "critic", "parts": [{"text": "Hm"}], "mood": 1},
    ),
    "settings": body_of(
        HI,
        model="models/gemini-9",
        generationConfig={"temperature": 9, "maxOutputTokens": 0, "seed": 1, "stopSequences": []},
        safetySettings=[{"category": 7, "threshold": 3}],
        cachedContent="cachedContents/a",
        toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {}},
    ),
    "tools_of_something_else": body_of(HI, tools=[{"functionDeclarations": ["a", None]}]),
    "instruction_of_something_else": body_of(
        HI, systemInstruction={"parts": [{"text": "Be."}, {"inlineData": {}}]}
    ),
    "results_alone": body_of(
        user(
            result("a", parts={"inlineData": {"mimeType": "image/png", "data": "!"}}),
            {"text": "Hm", "thought": True},
        ),
        user(result("a", response="odd"), {"text": " "}),
    ),
    "empty_settings": body_of(HI, generationConfig={}, toolConfig={}, tools=[]),
    "tools": body_of(
        HI,
        tools=[
            {"googleSearch": {}},
            {
                "functionDeclarations": [
                    {"name": "a", "description": "Adds.", "parameters": {"type": "OBJECT"}},
                    {"name": "b", "description": "", "parametersJsonSchema": {"type": "object"}},
                    {"name": "c/d", "parameters_json_schema": {"properties": {}}},
                    {"name": "a", "description": "Again."},
                    {"name": "e", "description": None, "behavior": "NON_BLOCKING"},
                    {"name": "f", "parameters": {"type": 6, "properties": {"x": {"type": 1}}}},
                ],
                "codeExecution": None,
            },
            {"function_declarations": [{"name": "g", "description": "Goes.", "$form": 1}]},
            {
                "functionDeclarations": [
                    {
                        "name": "h",
                        "parameters": {"type": "OBJECT", "properties": {"x": {"type": 1}}},
                    },
                    {"name": "i", "parameters": {"type": 6, "properties": {"x": {"type": 99}}}},
                    {
                        "name": "j",
                        "parameters": {
                            "type": "OBJECT",
                            "properties": {
                                "x": {"anyOf": [{"type": "STRING"}, {"type": "NULL"}]},
                                "y": {"type": "ARRAY", "items": {"type": "NUMBER"}},
                            },
                        },
                    },
                ]
            },
        ],
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["c/d"]}},
    ),
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_recorded_content_is_written_unchanged(case: str) -> None:
    body = ROUND_TRIPS[case]
    request = decode(body)
    found = gemini.encode_request(request)
    assert found.json == body
    assert found.losses == ()
    assert decode(found.json) == request


def test_a_recorded_request_is_read_as_a_conversation() -> None:
    request = decode(
        body_of(
            user({"text": "Hi"}),
            model({"text": "Hm", "thought": True}, call("add") | {"thoughtSignature": "s1"}),
            user(result("add")),
            systemInstruction={"parts": [{"text": "Be brief."}]},
            generationConfig={"maxOutputTokens": 5, "temperature": 0, "stopSequences": ["x"]},
        ),
        model="gemini-9",
    )
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert (request.model, request.max_tokens, request.temperature) == ("gemini-9", 5, 0)
    assert request.stop == ("x",)
    thinking, made = request.messages[2].content
    assert isinstance(thinking, Thinking)
    assert isinstance(made, ToolCall)
    assert made.seal == seal("s1")
    assert request.messages[3].tool_call_id == made.id
    assert "model" not in gemini.encode_request(request).json


def test_results_find_their_calls_by_id_else_by_name_and_order() -> None:
    request = decode(
        body_of(
            HI,
            model(call("a", id="1"), call("b"), call("a"), call("a", id="4")),
            user(result("a", id="4"), result("a"), result("b"), result("a")),
        )
    )
    ids = [made.id for made in request.messages[1].tool_calls]
    answered = [message.tool_call_id for message in request.messages[2:]]
    assert answered == [ids[3], ids[0], ids[1], ids[2]]


def test_generated_ids_depend_only_on_the_history() -> None:
    history = [HI, model(call("a")), user(result("a"))]
    shorter = decode(body_of(*history))
    longer = decode(body_of(*history, model(call("a")), user(result("a"))))
    assert longer.messages[: len(shorter.messages)] == shorter.messages
    ids = [made.id for message in longer.messages for made in message.tool_calls]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("response", "text", "outcome"),
    [
        ({"output": "4"}, "4", Outcome.OK),
        ({"error": "no"}, "no", Outcome.ERROR),
        ({"result": 4}, '{"result":4}', Outcome.OK),
        ({"error": {"code": 1}}, '{"error":{"code":1}}', Outcome.ERROR),
        ({"output": "4", "error": "late"}, '{"output":"4","error":"late"}', Outcome.OK),
    ],
)
def test_results_are_read_by_convention(
    response: dict[str, Any], text: str, outcome: Outcome
) -> None:
    request = decode(body_of(HI, model(call("a")), user(result("a", response=response))))
    found = request.messages[2]
    assert isinstance(found, ToolResult)
    assert (found.text, found.outcome) == (text, outcome)


def test_types_in_capitals_become_a_json_schema() -> None:
    schema = {"type": "OBJECT", "properties": {"type": {"type": "STRING", "enum": ["STRING"]}}}
    declared = {"name": "add", "description": "Adds.", "parameters": schema}
    [tool] = decode(body_of(HI, tools=[{"functionDeclarations": [declared]}])).tools
    assert tool.parameters == {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["STRING"]}},
    }


def test_tools_may_be_added_to_and_taken_from_what_was_recorded() -> None:
    declared = [{"name": name, "description": "Adds."} for name in ("a", "b")]
    layout = [{"googleSearch": {}}, {"functionDeclarations": declared}]
    request = decode(body_of(HI, tools=layout))
    new = ToolDefinition.from_function(read_file)
    changed = msgspec.structs.replace(request, tools=(request.tools[1], new))
    search, group = gemini.encode_request(changed).json["tools"]
    assert search == {"googleSearch": {}}
    assert [each["name"] for each in group["functionDeclarations"]] == ["b", "read_file"]


def test_tools_may_be_added_where_only_those_of_the_server_were() -> None:
    request = decode(body_of(HI, tools=[{"codeExecution": {}}]))
    new = (ToolDefinition.from_function(read_file),)
    body = gemini.encode_request(msgspec.structs.replace(request, tools=new)).json
    assert [list(entry) for entry in body["tools"]] == [["codeExecution"], ["functionDeclarations"]]


def test_an_instruction_may_be_added_to() -> None:
    request = decode(body_of(HI, systemInstruction={"parts": {"text": "Be."}, "role": "user"}))
    first, *others = request.messages
    longer = (first, ChatMessage.system("Brief."), *others)
    body = gemini.encode_request(msgspec.structs.replace(request, messages=longer)).json
    assert body["systemInstruction"] == {
        "role": "user",
        "parts": [{"text": "Be."}, {"text": "Brief."}],
    }


def test_a_sentinel_is_not_a_seal() -> None:
    request = decode(
        body_of(HI, model(call("a") | {"thoughtSignature": SENTINEL})), model="gemini-9"
    )
    assert request.messages[1].tool_calls[0].seal is None
    moved = msgspec.structs.replace(request, model="gemini-10")
    assert gemini.encode_request(moved).json == gemini.encode_request(request).json


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        (b"[]", "unexpected_type", "request"),
        (b"{}", "messages_missing", "request"),
        (b'{"contents": []}', "empty", "request"),
        (b'{"contents": ["Hi"]}', "unexpected_type", "contents[0]"),
        (b'{"contents": 1, "$form": 1}', "reserved_name", "request"),
    ],
)
def test_other_json_than_a_request_is_refused(body: bytes, code: str, place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        gemini.decode_request(body)
    assert (caught.value.code, caught.value.place) == (code, place)


def test_a_reserved_name_in_a_message_is_kept_with_it() -> None:
    body = body_of(user({"text": "Hi", "$form": {"role": "model"}}))
    assert gemini.encode_request(decode(body)).json == body


# -- an encoder for a conversation ---------------------------------------------------------------


def test_the_body_of_the_next_turn_begins_with_this_one() -> None:
    encoder = gemini.Encoder()
    calls = [ToolCall.create("read_file", {"path": id}, id=id) for id in ("a", "b")]
    messages: list[Any] = [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Hi"),
        ChatMessage.assistant("So", calls),
        ChatMessage.tool_result("a", "1"),
        ChatMessage.tool_result("b", "2"),
        ChatMessage.assistant("Done."),
        ChatMessage.user("Thanks"),
    ]
    before = b""
    for count in range(2, len(messages) + 1):
        request = Request(messages=tuple(messages[:count]), model="gemini-9", max_tokens=5)
        body = encoder.encode(request).body
        assert body.startswith(before)
        assert body == gemini.encode_request(request).body
        before = body.removesuffix(b"]}]}")


def test_an_encoder_that_meets_another_model_starts_over() -> None:
    encoder = gemini.Encoder()
    said = AssistantMessage(content=(Text("So", seal=seal()),))
    request = Request(messages=(ChatMessage.user("Hi"), said), model="gemini-9")
    assert encoder.encode(request).losses == ()
    moved = msgspec.structs.replace(request, model="gemini-10")
    assert reasons(encoder.encode(moved)) == ["seal.other_model"]
