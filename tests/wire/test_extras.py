"""Extras: no member is written twice, and every loss is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import (
    AssistantMessage,
    ChatMessage,
    Request,
    StenoError,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from steno.wire import (
    WIRES,
    Change,
    ChangeCode,
    EncodedRequest,
    anthropic_messages,
    gemini,
    load_wire,
    ollama_chat,
    openai_chat,
    openai_responses,
    translate,
)
from steno.wire import chat as flat
from steno.wire.openai_chat import DIALECTS

MESSAGES = {"gemini": "contents", "openai_responses": "input"}
USER = ChatMessage.user("Hi")


def read_file(path: str) -> str:
    """Read a file."""
    return path


TOOL = ToolDefinition.from_function(read_file, strict=False)


def members_once(encoded: EncodedRequest) -> dict[str, Any]:
    """Decode a body and check that no member name occurs twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    body: dict[str, Any] = json.loads(encoded.body, object_pairs_hook=members)
    return body


def repeated(*names: str, at: str = "request") -> Change:
    return Change(ChangeCode.EXTRAS, "conflicting", at, names=names)


def kept_for(wire: str, *names: str, at: str = "request") -> Change:
    return Change(ChangeCode.EXTRAS, "other_wire", at, value=wire, names=names)


# -- extras for members that the encoder writes --------------------------------------------------


@pytest.mark.parametrize("name", WIRES)
def test_extras_cannot_replace_members_of_every_body(name: str) -> None:
    holder = MESSAGES.get(name, "messages")
    request = Request(model="m-1", messages=(USER,), tools=(TOOL,))
    plain = load_wire(name).encode_request(request, stream=True)
    extras = {"model": "m-2", "stream": False, "tools": "all", holder: []}
    contrary = replace(request, extras={name: extras | {holder: "Hello"}})
    encoded = load_wire(name).encode_request(contrary, stream=True)
    assert members_once(encoded) == plain.json
    assert encoded.losses == (repeated(*extras), *plain.losses)


@pytest.mark.parametrize("name", WIRES)
def test_equal_or_empty_extras_are_not_a_loss(name: str) -> None:
    holder = MESSAGES.get(name, "messages")
    request = Request(model="m-1", messages=(USER,))
    extras = {"model": "m-1", "stream": True, holder: None}
    same = replace(request, extras={name: extras})
    encoded = load_wire(name).encode_request(same, stream=True)
    assert members_once(encoded) == load_wire(name).encode_request(request, stream=True).json
    assert encoded.losses == ()


@pytest.mark.parametrize("name", WIRES)
def test_a_member_that_the_encoder_does_not_write_may_come_from_extras(name: str) -> None:
    request = Request(messages=(USER,), extras={name: {"model": "m-2", "stream": False}})
    encoded = load_wire(name).encode_request(request)
    assert members_once(encoded)["model"] == "m-2"
    assert encoded.json["stream"] is False
    assert encoded.losses == ()


@pytest.mark.parametrize("name", WIRES)
def test_tools_in_extras_stand_behind_those_of_the_request(name: str) -> None:
    own = {"type": "web_search", "name": "search"}
    request = Request(messages=(USER,), tools=(TOOL,), extras={name: {"tools": [own]}})
    first, second = load_wire(name).encode_request(request).json["tools"]
    assert "read_file" in json.dumps(first)
    assert second == own


def test_a_recorded_blank_input_is_not_written_beside_new_messages() -> None:
    wire = load_wire("openai_responses")
    recorded = {"model": "m", "instructions": "Be brief.", "input": ""}
    request = wire.decode_request(json.dumps(recorded))
    assert wire.encode_request(request).json == recorded
    encoded = wire.encode_request(replace(request, messages=(*request.messages, USER)))
    assert members_once(encoded)["input"] == [{"role": "user", "content": "Hi"}]


LIMITS = {
    "anthropic_messages": "max_tokens",
    "chat": "max_tokens",
    "openai_chat": "max_completion_tokens",
    "openai_responses": "max_output_tokens",
}


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_settings_of_the_request_win_over_those_in_extras(name: str, limit: str) -> None:
    settings = {limit: 9, "temperature": 0.5, "seed": 7}
    request = Request(messages=(USER,), max_tokens=5, extras={name: settings})
    encoded = load_wire(name).encode_request(request)
    plain = load_wire(name).encode_request(replace(request, extras=None))
    assert members_once(encoded) == settings | plain.json
    assert encoded.json[limit] == 5
    assert encoded.losses == (repeated(limit),)


STOPS = {"anthropic_messages": "stop_sequences", "chat": "stop", "openai_chat": "stop"}


@pytest.mark.parametrize(("name", "field"), STOPS.items())
def test_equal_stop_sequences_do_not_conflict(name: str, field: str) -> None:
    request = Request(messages=(USER,), stop=("END",), extras={name: {field: ["END"]}})
    encoded = load_wire(name).encode_request(request)
    assert encoded.json[field] == ["END"]
    assert encoded.losses == ()


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("anthropic_messages", {"type": "auto"}),
        ("chat", "auto"),
        ("openai_chat", "auto"),
        ("openai_responses", "auto"),
    ],
)
def test_extras_do_not_replace_the_tool_choice(name: str, choice: Any) -> None:
    extras = {name: {"tool_choice": "any"}}
    request = Request(messages=(USER,), tools=(TOOL,), tool_choice="auto", extras=extras)
    encoded = load_wire(name).encode_request(request)
    assert encoded.json["tool_choice"] == choice
    assert encoded.losses == (repeated("tool_choice"),)


def test_openai_takes_a_limit_under_one_name() -> None:
    extras = {"openai_chat": {"max_tokens": 9}}
    encoded = openai_chat.encode_request(Request(messages=(USER,), max_tokens=5, extras=extras))
    assert encoded.json.keys() == {"max_completion_tokens", "messages"}
    assert encoded.json["max_completion_tokens"] == 5
    assert encoded.losses == (repeated("max_completion_tokens"),)
    recorded = openai_body(max_tokens=9, max_completion_tokens=5)
    same = translate(recorded, source=openai_chat, target=openai_chat)
    assert same.json == json.loads(recorded)


def test_a_stop_sequence_may_become_several() -> None:
    request = openai_chat.decode_request(openai_body(stop="END"))
    assert openai_chat.encode_request(request).json["stop"] == "END"
    longer = replace(request, stop=(*request.stop, "STOP"))
    assert openai_chat.encode_request(longer).json["stop"] == ["END", "STOP"]


def test_the_limit_that_anthropic_wants_may_come_from_extras() -> None:
    extras = {"anthropic_messages": {"max_tokens": 9}}
    encoded = anthropic_messages.encode_request(Request(messages=(USER,), extras=extras))
    assert members_once(encoded)["max_tokens"] == 9
    assert encoded.losses == ()


def test_a_system_prompt_in_extras_gives_way_to_the_message() -> None:
    extras: dict[str, Any] = {"anthropic_messages": {"system": [{"type": "text", "text": "Hm."}]}}
    request = Request(messages=(USER,), extras=extras)
    alone = anthropic_messages.encode_request(request)
    assert (alone.json["system"], alone.losses) == (extras["anthropic_messages"]["system"], ())
    system = SystemMessage((Text("Be brief."),))
    encoded = anthropic_messages.encode_request(replace(request, messages=(system, USER)))
    assert members_once(encoded)["system"] == "Be brief."
    assert encoded.losses == (repeated("system"),)


def test_instructions_in_extras_give_way_to_the_message() -> None:
    extras = {"openai_responses": {"instructions": "Hm."}}
    system = SystemMessage((Text("Be brief."),))
    encoded = openai_responses.encode_request(Request(messages=(system, USER), extras=extras))
    assert members_once(encoded)["instructions"] == "Be brief."
    assert encoded.losses == (repeated("instructions"),)


def test_ollama_merges_its_options() -> None:
    extras = {"ollama_chat": {"options": {"num_ctx": 8, "num_predict": 9}}}
    request = Request(messages=(USER,), max_tokens=5, extras=extras)
    encoded = ollama_chat.encode_request(request)
    assert members_once(encoded)["options"] == {"num_predict": 5, "num_ctx": 8}
    assert encoded.losses == (repeated("num_predict", at="request.options"),)


@pytest.mark.parametrize("options", ["fast", 7, ["num_ctx"]])
def test_options_of_ollama_that_are_no_object_give_way(options: Any) -> None:
    request = Request(messages=(USER,), extras={"ollama_chat": {"options": options}})
    assert ollama_chat.encode_request(request).json["options"] == options
    encoded = ollama_chat.encode_request(replace(request, max_tokens=5))
    assert encoded.json["options"] == {"num_predict": 5}
    assert encoded.losses == (repeated("options"),)


@pytest.mark.parametrize("field", ["generationConfig", "generation_config"])
def test_gemini_merges_its_settings_in_either_spelling(field: str) -> None:
    extras = {"gemini": {field: {"topK": 3, "maxOutputTokens": 9}}}
    encoded = gemini.encode_request(Request(messages=(USER,), max_tokens=5, extras=extras))
    assert members_once(encoded)["generationConfig"] == {"maxOutputTokens": 5, "topK": 3}
    assert encoded.losses == (repeated("maxOutputTokens", at="request.generationConfig"),)


@pytest.mark.parametrize("field", ["systemInstruction", "system_instruction"])
def test_gemini_has_one_system_instruction_in_one_spelling(field: str) -> None:
    recorded = {field: {"parts": [{"inlineData": {}}]}, "contents": [{"parts": [{"text": "Hi"}]}]}
    request = gemini.decode_request(json.dumps(recorded))
    assert gemini.encode_request(request).json[field] == recorded[field]
    system = SystemMessage((Text("Be brief."),))
    encoded = gemini.encode_request(replace(request, messages=(system, *request.messages)))
    assert encoded.json.keys() == {"systemInstruction", "contents"}
    assert encoded.json["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert encoded.losses == (repeated("systemInstruction"),)


def test_gemini_keeps_members_beside_the_tool_choice() -> None:
    calling = {"mode": "VALIDATED", "streamFunctionCallArguments": True}
    extras = {"gemini": {"toolConfig": {"functionCallingConfig": calling, "retrievalConfig": {}}}}
    request = Request(messages=(USER,), tool_choice="auto", extras=extras)
    encoded = gemini.encode_request(request)
    assert encoded.json["toolConfig"] == {
        "functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": True},
        "retrievalConfig": {},
    }
    assert encoded.losses == (repeated("mode", at="request.toolConfig"),)


# -- losses on another wire ----------------------------------------------------------------------


def openai_body(**members: Any) -> bytes:
    said = {"role": "user", "content": "Hi"}
    return json.dumps({"model": "m", "messages": [said], **members}).encode()


def openai_tool(schema: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    parameters = schema or {"type": "object", "properties": {}, "additionalProperties": False}
    function = {"name": "f", "description": "F.", "parameters": parameters, **members}
    return {"type": "function", "function": function}


def losses_to(target: str, **members: Any) -> list[Change]:
    encoded = translate(openai_body(**members), source=openai_chat, target=target)
    return list(encoded.losses)


@pytest.mark.parametrize("target", [name for name in WIRES if name != "openai_chat"])
def test_empty_members_are_not_a_loss(target: str) -> None:
    empty: dict[str, Any] = {"refusal": None, "annotations": [], "audio": {}, "tool_calls": []}
    answer = {"role": "assistant", "content": "Hello", **empty}
    messages = [{"role": "user", "content": "Hi"}, answer, {"role": "user", "content": "Well?"}]
    body: dict[str, Any] = {
        "messages": messages,
        "metadata": {},
        "stop": None,
        "user": "",
        "tools": [],
    }
    assert losses_to(target, **body) == []
    recorded = openai_body(**body)
    same = translate(recorded, source=openai_chat, target=openai_chat)
    assert same.json == json.loads(recorded)


SAID: dict[str, dict[str, Any]] = {
    "anthropic_messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "ollama_chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "openai_chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"input": [{"role": "user", "content": "Hi"}]},
}


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("source", SAID)
@pytest.mark.parametrize("target", WIRES)
def test_a_streamed_request_stays_streamed(source: str, target: str, is_streamed: bool) -> None:
    recorded = SAID[source] | {"model": "m", "stream": is_streamed}
    encoded = translate(json.dumps(recorded), source=source, target=target)
    assert encoded.losses == ()
    if target == source:
        assert encoded.json == recorded
    else:  # Google has the model in the URL
        assert encoded.json.get("stream") is (None if target == "gemini" else is_streamed)


@pytest.mark.parametrize("stream", ["yes", 1])
def test_an_invalid_stream_flag_is_reported(stream: Any) -> None:
    assert losses_to("chat", stream=stream) == [kept_for("openai_chat", "stream")]


def test_the_option_for_usage_in_a_stream_is_not_a_loss() -> None:
    counted = {"stream": True, "stream_options": {"include_usage": True}}
    assert losses_to("anthropic_messages", **counted) == []
    same = translate(openai_body(**counted), source=openai_chat, target=openai_chat)
    assert same.json == json.loads(openai_body(**counted))
    assert losses_to("chat", stream_options={"include_usage": False}) == [
        kept_for("openai_chat", "stream_options")
    ]


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
@pytest.mark.parametrize("is_parts", [True, False])
@pytest.mark.parametrize("members", [{}, {"type": "message"}])
def test_the_type_of_a_message_item_is_not_a_loss(
    role: str, is_parts: bool, members: dict[str, Any]
) -> None:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": "Hi"}] if is_parts else "Hi"
    item = {"role": role, "content": content} | members
    recorded = json.dumps({"model": "m", "input": [item, {"role": "user", "content": "Well?"}]})
    same = translate(recorded, source=openai_responses, target=openai_responses)
    assert same.json == json.loads(recorded)
    [*losses] = translate(recorded, source=openai_responses, target=flat).losses
    lost = kept_for("openai_responses", "role", at="messages[0]")
    assert losses == ([lost] if role == "developer" else [])


def test_other_members_of_an_item_are_reported_by_name() -> None:
    said = {"type": "output_text", "text": "Hi", "annotations": []}
    item = {"type": "message", "role": "assistant", "id": "msg_1", "content": [said]}
    recorded = json.dumps({"model": "m", "input": [item, {"role": "user", "content": "Well?"}]})
    [loss] = translate(recorded, source=openai_responses, target=flat).losses
    assert loss == kept_for("openai_responses", "id", at="messages[0].content[0]")


def test_members_that_are_false_or_zero_are_a_loss() -> None:
    assert losses_to("chat", seed=0, logprobs=False) == [
        kept_for("openai_chat", "seed", "logprobs")
    ]


def test_a_strict_tool_is_a_loss_if_the_schema_is_not_enforced() -> None:
    tools = [openai_tool(), openai_tool(name="g", strict=True)]
    assert losses_to("gemini", tools=tools) == [
        Change(ChangeCode.TOOL, "schema_not_enforced", "request.tools[1]")
    ]
    validated = {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}
    strict = ToolDefinition.from_function(read_file)
    request = Request(messages=(USER,), tools=(strict,), extras={"gemini": validated})
    assert gemini.encode_request(request).losses == ()
    required = Request(messages=(USER,), tools=(strict,), tool_choice="required")
    assert gemini.encode_request(required).losses == ()


@pytest.mark.parametrize("provider", DIALECTS)
def test_a_strict_tool_is_sent_as_one_or_reported(provider: str) -> None:
    strict = ToolDefinition.from_function(read_file)
    request = Request(messages=(USER,), tools=(strict, replace(TOOL, name="loose")))
    encoded = openai_chat.encode_request(request, dialect=DIALECTS[provider])
    functions = [tool["function"] for tool in encoded.json["tools"]]
    has_strict = DIALECTS[provider].has_strict_tools
    assert [function.get("strict", False) for function in functions] == [has_strict, False]
    lost = Change(ChangeCode.TOOL, "schema_not_enforced", "request.tools[0]")
    assert encoded.losses == (() if has_strict else (lost,))


@pytest.mark.parametrize("is_strict", [True, False])
def test_our_own_json_says_whether_a_tool_is_strict(is_strict: bool) -> None:
    encoded = translate(
        openai_body(tools=[openai_tool(strict=is_strict)]), source=openai_chat, target=flat
    )
    assert encoded.losses == ()
    [tool] = flat.decode_request(encoded.body).tools
    assert tool.strict is is_strict


@pytest.mark.parametrize("target", ["chat", "gemini", "ollama_chat"])
def test_a_strict_tool_with_an_open_schema_is_reported(target: str) -> None:
    tool = openai_tool({"type": "object", "properties": {"p": {"type": "string"}}}, strict=True)
    assert losses_to(target, tools=[tool]) == [
        kept_for("openai_chat", "strict", at="request.tools[0]")
    ]


def test_members_from_further_inside_are_reported_as_well() -> None:
    body = {
        "model": "m",
        "max_tokens": 9,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "messages": [{"role": "user", "content": "Hi"}],
    }
    encoded = translate(json.dumps(body), source="anthropic_messages", target=flat)
    [loss] = encoded.losses
    assert loss == kept_for("anthropic_messages", "disable_parallel_tool_use")


# -- notes that steno did not write --------------------------------------------------------------

NOTES = [
    *("arguments", "content", "form", "function", "id", "inner", "item", "name", "parameters"),
    *("parts", "place", "role", "summary", "system", "text", "tools", "type", "messages"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "absent", "string", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NOTES), inner, max_size=2)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("name", list(WIRES))
@given(
    notes=st.lists(
        st.dictionaries(st.sampled_from(NOTES), JSON, max_size=3), min_size=6, max_size=6
    ),
    items=st.lists(JSON, min_size=6, max_size=6),
)
def test_notes_that_steno_did_not_write_are_refused_and_break_nothing(
    name: str, notes: list[Any], items: list[Any]
) -> None:
    extras = [{name: {"$form": n, "$item": i}} for n, i in zip(notes, items, strict=True)]
    call = ToolCall(id="c1", name="read", arguments="{}", extras=extras[0])
    answer = AssistantMessage(content=(Text("a", extras=extras[1]), call), extras=extras[2])
    question = UserMessage((Text("b", extras=extras[3]),), extras=extras[4])
    result = ToolResult.success("c1", "ok")
    request = Request(model="m", messages=(question, answer, result), extras=extras[5])
    try:
        body = load_wire(name).encode_request(request).body
    except StenoError:
        return
    assert json.loads(body)
