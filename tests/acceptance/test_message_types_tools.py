"""Document S0: tool calls, their fragments and results, and tool definitions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import pytest

import steno
from steno import (
    Assembler,
    ChatMessage,
    ConversationHistory,
    InvalidArguments,
    InvalidTool,
    InvalidToolCall,
    JsonObject,
    Outcome,
    OutOfOrder,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
)
from steno.codec import (
    decode_call,
    decode_message,
    decode_tool,
    encode_call,
    encode_message,
    encode_tool,
)
from steno.wire import anthropic_messages, gemini, ollama_chat, openai_chat, openai_responses
from tests.acceptance.broken_rules import BROKEN_RULES
from tests.acceptance.message_samples import (
    ARGUMENTS,
    CALL,
    CALLS,
    DELTA,
    FAILURE,
    MANUAL,
    RESULT,
    SCHEMA,
    SYSTEM,
    TOOL,
    USER,
    Options,
    WriteFile,
    assert_immutable,
    assert_read_only,
    define,
    refuses,
)

# -- ToolCall -------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-36")
def test_tool_call_is_a_public_type() -> None:
    assert "ToolCall" in steno.__all__
    assert isinstance(CALL, ToolCall)


@pytest.mark.requirement("FR-004a-37")
def test_a_tool_call_and_its_arguments_cannot_be_changed() -> None:
    assert_immutable(CALL)
    assert_read_only(CALL.parsed)


@pytest.mark.requirement("FR-004a-38")
def test_a_tool_call_has_an_id() -> None:
    assert CALL.id == "call_1"
    with pytest.raises(TypeError):
        refuses(ToolCall, name="read")()
    assert len({ToolCall.create("read").id for _ in range(1_000)}) == 1_000


@pytest.mark.requirement("FR-004a-39")
@pytest.mark.parametrize("id", ["", None, 1])
def test_the_id_of_a_tool_call_is_a_string_that_is_not_empty(id: object) -> None:
    with pytest.raises(ValueError, match="id"):
        refuses(ToolCall, id=id, name="read")()


@pytest.mark.requirement("FR-004a-40")
def test_a_tool_call_has_a_name() -> None:
    assert CALL.name == "write_file"
    with pytest.raises(TypeError):
        refuses(ToolCall, id="c")()


@pytest.mark.requirement("FR-004a-41")
@pytest.mark.parametrize("name", ["", None])
def test_the_name_of_a_tool_call_is_not_empty(name: object) -> None:
    with pytest.raises(ValueError, match="name"):
        refuses(ToolCall, id="c", name=name)()


@pytest.mark.requirement("FR-004a-42")
def test_the_name_of_a_tool_call_has_letters_digits_and_underscores_only() -> None:
    for name in ("read", "Read_2", "_", "9"):
        assert ToolCall(id="c", name=name).name == name
    for name in ("a b", "a-b", "a.b", "a/b", "é", "名", "a\n", "٣"):
        with pytest.raises(ValueError, match="name"):
            ToolCall(id="c", name=name)


@pytest.mark.requirement("FR-004a-43")
def test_the_name_of_a_tool_call_has_at_most_64_characters() -> None:
    assert ToolCall(id="c", name="x" * 64).name == "x" * 64
    with pytest.raises(ValueError, match="64"):
        ToolCall(id="c", name="x" * 65)


@pytest.mark.requirement("FR-004a-44")
def test_a_tool_call_always_has_arguments() -> None:
    assert CALL.arguments == ARGUMENTS
    assert ToolCall(id="c", name="ls").arguments == "{}"
    with pytest.raises(ValueError, match="arguments"):
        refuses(ToolCall, id="c", name="ls", arguments=None)()


@pytest.mark.requirement("FR-004a-45")
def test_arguments_are_kept_as_received_and_read_as_json() -> None:
    text = '{ "b":1.50, "a" : [1, {"c": null}], "b2": 12345678901234567890 }'
    call = ToolCall(id="c", name="read", arguments=text)
    assert call.arguments == text
    assert list(call.parsed) == ["b", "a", "b2"]
    assert call.parsed["a"] == (1, {"c": None})
    assert call.parsed["b2"] == 12345678901234567890


@pytest.mark.requirement("FR-004a-46")
@pytest.mark.parametrize(
    "arguments",
    [
        "[]",
        '"text"',
        "1",
        "null",
        "true",
        "",
        " ",
        "{",
        '{"a":}',
        '{"a":1}}',
        "{'a':1}",
        '{"a":NaN}',
    ],
)
def test_arguments_that_are_not_a_json_object_are_refused(arguments: str) -> None:
    with pytest.raises(ValueError, match="arguments"):
        ToolCall(id="c", name="read", arguments=arguments)


@pytest.mark.requirement("FR-004a-47")
def test_a_tool_call_is_encoded_as_json() -> None:
    encoded = json.loads(encode_call(CALL))
    assert (encoded["id"], encoded["name"]) == ("call_1", "write_file")
    assert encoded["arguments"] == ARGUMENTS


@pytest.mark.requirement("FR-004a-48")
def test_a_tool_call_is_decoded_from_its_json_and_from_that_of_the_manual() -> None:
    assert decode_call(encode_call(CALL)) == CALL
    (flat,) = MANUAL["assistant"]["tool_calls"]
    call = decode_call(json.dumps(flat))
    assert isinstance(call, ToolCall)
    assert (call.id, call.name) == ("call_001", "write_file")
    assert call.parsed == flat["arguments"]


@pytest.mark.requirement("FR-004a-49")
def test_one_argument_is_read_as_the_type_that_is_asked_for() -> None:
    assert CALL.get("path", str) == "a.py"
    assert CALL.get("lines", tuple[int, int]) == (3, 9)
    assert CALL.get("options", Options) == Options(dry=True)
    with pytest.raises(InvalidArguments):
        CALL.get("path", int)


@pytest.mark.requirement("FR-004a-50")
def test_a_missing_argument_gives_the_default_and_no_error() -> None:
    assert CALL.get("mode", str) is None
    assert CALL.get("mode", str, "w") == "w"


@pytest.mark.requirement("FR-004a-51")
def test_all_arguments_are_read_as_one_object() -> None:
    arguments = CALL.arguments_as(WriteFile)
    assert isinstance(arguments, WriteFile)
    assert arguments.path == "a.py"


@pytest.mark.requirement("FR-004a-52")
def test_the_object_has_every_argument_also_nested_ones_and_defaults() -> None:
    assert CALL.arguments_as(WriteFile) == WriteFile("a.py", (3, 9), Options(dry=True), "w")
    wrong = ToolCall.create("write_file", {"path": "a.py", "lines": [3, 9], "options": {"dry": 1}})
    with pytest.raises(InvalidArguments) as caught:
        wrong.arguments_as(WriteFile)
    assert [problem.pointer for problem in caught.value.problems] == ["/options/dry"]


@pytest.mark.requirement("FR-004a-53")
def test_a_tool_call_is_checked_however_it_is_made() -> None:
    for rule in (
        "tool call name with invalid characters",
        "tool call created with an invalid name",
    ):
        BROKEN_RULES[rule].check()
    decoded = decode_call('{"id": "c", "name": "read file", "arguments": {}}')
    assert isinstance(decoded, InvalidToolCall)


@pytest.mark.requirement("FR-004a-54")
@pytest.mark.parametrize("rule", [rule for rule in BROKEN_RULES if rule.startswith("tool call")])
def test_an_invalid_tool_call_is_a_value_error(rule: str) -> None:
    assert issubclass(BROKEN_RULES[rule].error, ValueError)
    BROKEN_RULES[rule].check()


@pytest.mark.requirement("FR-004a-55")
def test_tool_calls_with_equal_fields_are_equal() -> None:
    same = ToolCall(id="call_1", name="write_file", arguments="".join(ARGUMENTS))
    assert same == CALL
    assert hash(same) == hash(CALL)
    for other in (
        ToolCall(id="call_2", name="write_file", arguments=ARGUMENTS),
        ToolCall(id="call_1", name="read_file", arguments=ARGUMENTS),
        ToolCall(id="call_1", name="write_file", arguments="{}"),
    ):
        assert other != CALL


# -- ToolResult -----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-56")
def test_tool_result_is_a_public_type() -> None:
    assert "ToolResult" in steno.__all__
    assert isinstance(RESULT, ToolResult)


@pytest.mark.requirement("FR-004a-57")
def test_a_tool_result_cannot_be_changed_at_any_depth() -> None:
    details = {"files": ["a.py"], "stats": {"bytes": 3}}
    result = ChatMessage.tool_result("c", "done", details=details)
    assert_immutable(result)
    assert_read_only(result.details)
    details["files"].append("b.py")  # type: ignore[attr-defined]
    assert result.details == {"files": ("a.py",), "stats": {"bytes": 3}}


@pytest.mark.requirement("FR-004a-58")
def test_a_tool_result_has_the_id_of_its_call() -> None:
    assert RESULT.tool_call_id == "call_1"
    for make in (ToolResult.success, ToolResult.error):
        with pytest.raises(ValueError, match="tool_call_id"):
            make("", "done")
        with pytest.raises(TypeError):
            refuses(make, message="done")()


@pytest.mark.requirement("FR-004a-59")
def test_a_history_accepts_a_result_only_under_the_id_of_its_call() -> None:
    history = ConversationHistory([SYSTEM, USER, CALLS])
    with pytest.raises(OutOfOrder):
        history.add(ToolResult.success("call_2", "done"))
    history.add(RESULT)
    assert history.last == RESULT


@pytest.mark.requirement("FR-004a-60")
def test_a_tool_result_needs_a_result() -> None:
    with pytest.raises(TypeError):
        refuses(ToolResult.success, "call_1")()
    with pytest.raises(ValueError, match="content"):
        refuses(ToolResult.success, "call_1", None)()


@pytest.mark.requirement("FR-004a-61")
def test_the_result_is_a_string_and_the_model_receives_it() -> None:
    assert RESULT.text == "written"
    sent = openai_chat.encode_request(Request(messages=(CALLS, RESULT))).json["messages"]
    assert sent[-1] == {"role": "tool", "tool_call_id": "call_1", "content": "written"}


@pytest.mark.requirement("FR-004a-62")
def test_the_result_may_be_the_empty_string() -> None:
    result = ToolResult.success("call_1", "")
    assert result.text == ""
    assert decode_message(encode_message(result)) == result


@pytest.mark.requirement("FR-004a-63")
def test_a_tool_result_states_whether_it_is_an_error() -> None:
    failed = {
        outcome: ChatMessage.tool_result("c", "", outcome=outcome).is_error for outcome in Outcome
    }
    assert failed == {outcome: outcome is not Outcome.OK for outcome in Outcome}


@pytest.mark.requirement("FR-004a-64")
def test_a_tool_result_is_no_error_unless_stated() -> None:
    assert ChatMessage.tool_result("c", "done").is_error is False
    assert ToolResult(tool_call_id="c", content=(Text("done"),)).is_error is False


@pytest.mark.requirement("FR-004a-65")
@pytest.mark.parametrize("result", [RESULT, FAILURE])
def test_a_tool_result_is_encoded_as_json_and_decoded(result: ToolResultMessage) -> None:
    assert json.loads(encode_message(result))["tool_call_id"] == "call_1"
    decoded = decode_message(encode_message(result))
    assert isinstance(decoded, ToolResultMessage)
    assert decoded == result
    assert decoded.is_error is result.is_error


@pytest.mark.requirement("FR-004a-66")
def test_a_tool_result_is_checked_when_it_is_made() -> None:
    for make in (
        refuses(ToolResult.success, 1, "done"),
        refuses(ToolResult.success, "call_1", 1),
        refuses(ToolResult, tool_call_id="call_1", content="done"),
        refuses(ToolResult, tool_call_id="call_1", content=(CALL,)),
        refuses(ChatMessage.tool_result, "call_1", "done", outcome="robot"),
    ):
        with pytest.raises(ValueError, match="tool result"):
            make()


@pytest.mark.requirement("FR-004a-67")
def test_success_makes_a_result_from_id_and_result() -> None:
    result = ToolResult.success("call_1", "done")
    assert (result.tool_call_id, result.text, result.is_error) == ("call_1", "done", False)


@pytest.mark.requirement("FR-004a-68")
def test_error_makes_a_result_from_id_and_message() -> None:
    result = ToolResult.error("call_1", "disk full")
    assert (result.tool_call_id, result.text) == ("call_1", "disk full")


@pytest.mark.requirement("FR-004a-69")
def test_a_result_made_by_error_is_an_error() -> None:
    assert ToolResult.error("call_1", "disk full").is_error is True
    assert ToolResult.error("call_1", "no", outcome=Outcome.DENIED).is_error is True
    with pytest.raises(ValueError, match="outcome"):
        ToolResult.error("call_1", "no", outcome=Outcome.OK)


@pytest.mark.requirement("FR-004a-70")
def test_tool_results_with_equal_fields_are_equal() -> None:
    assert ToolResult.success("call_1", "written") == RESULT
    assert hash(ToolResult.success("call_1", "written")) == hash(RESULT)
    assert ToolResult.success("call_2", "written") != RESULT
    assert ToolResult.success("call_1", "else") != RESULT
    assert ToolResult.error("call_1", "written") != RESULT


# -- ToolDefinition -------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-71")
def test_tool_definition_is_a_public_type() -> None:
    assert "ToolDefinition" in steno.__all__
    assert isinstance(TOOL, ToolDefinition)


@pytest.mark.requirement("FR-004a-72")
def test_a_tool_definition_cannot_be_changed() -> None:
    assert_immutable(TOOL)


@pytest.mark.requirement("FR-004a-73")
def test_a_tool_definition_has_a_name() -> None:
    assert TOOL.name == "write_file"
    with pytest.raises(TypeError):
        refuses(ToolDefinition, description="Do.", parameters=SCHEMA)()


@pytest.mark.requirement("FR-004a-74")
def test_the_name_of_a_definition_follows_the_rules_of_the_name_of_a_call() -> None:
    for name in ("read", "Read_2", "_", "x" * 64):
        assert define(name=name).name == ToolCall(id="c", name=name).name
    for wrong in ("", "a b", "a-b", "a.b", "é", "x" * 65, None):
        with pytest.raises(InvalidTool):
            define(name=wrong)


@pytest.mark.requirement("FR-004a-75")
def test_a_tool_definition_has_a_description() -> None:
    assert TOOL.description == "Write a file."
    with pytest.raises(TypeError):
        refuses(ToolDefinition, name="do", parameters=SCHEMA)()


@pytest.mark.requirement("FR-004a-76")
@pytest.mark.parametrize("description", ["", " \n", None])
def test_an_empty_description_is_refused(description: object) -> None:
    with pytest.raises(InvalidTool):
        define(description=description)


@pytest.mark.requirement("FR-004a-77")
def test_a_description_of_more_than_1024_characters_causes_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(define(description="x" * 1024).description) == 1024
    with pytest.warns(UserWarning, match="1024"):
        assert len(define(description="x" * 1025).description) == 1025


@pytest.mark.requirement("FR-004a-78")
def test_a_tool_definition_has_parameters() -> None:
    assert TOOL.parameters["properties"] == {"path": {"type": "string"}}
    with pytest.raises(TypeError):
        refuses(ToolDefinition, name="do", description="Do.")()


@pytest.mark.requirement("FR-004a-79")
def test_the_parameters_are_json_that_cannot_be_changed() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": [1, 2]}}}
    tool = define(parameters=schema)
    schema["properties"]["a"]["enum"].append(3)
    assert_read_only(tool.parameters)
    assert tool.parameters["properties"] == {"a": {"enum": (1, 2)}}
    assert json.loads(JsonObject(tool.parameters).text)["properties"] == {"a": {"enum": [1, 2]}}


@pytest.mark.requirement("FR-004a-80")
@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": []},
        {"properties": {"a": 3}},
        {"properties": {"a": {"type": "strnig"}}},
        {"required": "a"},
        {"required": [1]},
        {"additionalProperties": "no"},
        {"properties": {"a": {"type": "object", "properties": {"b": {"type": 1}}}}},
    ],
    ids=json.dumps,
)
def test_parameters_that_are_no_json_schema_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool):
        define(parameters={"type": "object"} | wrong)


@pytest.mark.requirement("FR-004a-81")
@pytest.mark.parametrize("wrong", [{}, {"type": "string"}, {"type": "array"}, {"properties": {}}])
def test_parameters_of_another_type_than_object_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match="object"):
        define(parameters=wrong)


NESTED = {
    "type": "object",
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
}


@pytest.mark.requirement("FR-004a-82")
def test_a_tool_definition_may_be_strict_or_not() -> None:
    assert define(strict=True).strict is True
    assert define(strict=False).strict is False


@pytest.mark.requirement("FR-004a-83")
def test_a_tool_definition_is_strict_unless_stated() -> None:
    assert define().strict is True
    assert ToolDefinition.from_type(WriteFile).strict is True


@pytest.mark.requirement("FR-004a-84")
def test_a_strict_definition_forbids_additional_properties_in_every_object() -> None:
    strict = define(parameters=NESTED).parameters
    assert strict["additionalProperties"] is False
    assert strict["properties"]["a"]["additionalProperties"] is False
    assert "additionalProperties" not in define(parameters=NESTED, strict=False).parameters
    more = ToolCall.create("do", {"path": "a", "speed": 3})
    assert [problem.pointer for problem in define().check(more)] == ["/speed"]
    assert define(strict=False).check(more) == ()


@pytest.mark.requirement("FR-004a-85")
@pytest.mark.parametrize("tool", [TOOL, define(parameters=NESTED, strict=False)])
def test_a_tool_definition_is_encoded_as_json_and_decoded(tool: ToolDefinition) -> None:
    encoded = encode_tool(tool)
    assert json.loads(encoded)["parameters"] == json.loads(JsonObject(tool.parameters).text)
    assert decode_tool(encoded) == tool


@pytest.mark.requirement("FR-004a-86")
def test_a_tool_definition_is_sent_in_the_format_of_each_provider() -> None:
    request = Request(model="m", messages=(USER,), tools=(TOOL,))
    schema = SCHEMA | {"additionalProperties": False}
    described = {"name": "write_file", "description": "Write a file."}
    function = described | {"parameters": schema}

    (openai,) = openai_chat.encode_request(request).json["tools"]
    assert openai == {"type": "function", "function": function | {"strict": True}}
    (responses,) = openai_responses.encode_request(request).json["tools"]
    assert responses == {"type": "function", "strict": True} | function
    (ollama,) = ollama_chat.encode_request(request).json["tools"]
    assert ollama == {"type": "function", "function": function}
    (anthropic,) = anthropic_messages.encode_request(request).json["tools"]
    assert anthropic.items() >= (described | {"input_schema": schema}).items()
    (google,) = gemini.encode_request(request).json["tools"]
    (declaration,) = google["functionDeclarations"]
    assert declaration == described | {"parametersJsonSchema": schema}


@pytest.mark.requirement("FR-004a-87")
@pytest.mark.parametrize("rule", [rule for rule in BROKEN_RULES if "definition" in rule])
def test_a_tool_definition_is_checked_when_it_is_made(rule: str) -> None:
    assert BROKEN_RULES[rule].error is InvalidTool
    BROKEN_RULES[rule].check()


@pytest.mark.requirement("FR-004a-88")
def test_tool_definitions_with_equal_fields_are_equal() -> None:
    same = ToolDefinition(
        name="write_file", description="Write a file.", parameters=json.loads(json.dumps(SCHEMA))
    )
    assert same == TOOL
    assert hash(same) == hash(TOOL)
    assert define() == define()
    for other in (
        define(name="other"),
        define(description="Other."),
        define(parameters=NESTED),
        define(strict=False),
    ):
        assert other != define()


@pytest.mark.requirement("FR-004a-89")
def test_a_definition_is_made_from_a_type() -> None:
    tool = ToolDefinition.from_type(
        WriteFile, name="write_file", description="Writes content to a file"
    )
    assert (tool.name, tool.description) == ("write_file", "Writes content to a file")
    assert tool.check(CALL) == ()


@pytest.mark.requirement("FR-004a-90")
def test_the_schema_comes_from_the_fields_of_the_type() -> None:
    @dataclass
    class Fetch:
        """Fetch a page."""

        url: str
        method: Literal["GET", "HEAD"] = "GET"
        tries: Annotated[int, "The number of tries."] = 2
        hosts: list[str] | None = None

    schema = json.loads(JsonObject(ToolDefinition.from_type(Fetch).parameters).text)
    assert schema["type"] == "object"
    assert schema["required"] == ["url"]
    assert schema["additionalProperties"] is False
    fields = schema["properties"]
    assert list(fields) == ["url", "method", "tries", "hosts"]
    assert fields["url"]["type"] == "string"
    assert (fields["method"]["enum"], fields["method"]["default"]) == (["GET", "HEAD"], "GET")
    assert (fields["tries"]["type"], fields["tries"]["default"]) == ("integer", 2)
    assert fields["tries"]["description"] == "The number of tries."


# -- ToolCallDelta --------------------------------------------------------------------------------


def assemble(*events: ToolCallDelta) -> tuple[ToolCall | InvalidToolCall, ...]:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    return assembler.message(StopReason.TOOL_USE).tool_calls


@pytest.mark.requirement("FR-004a-91")
def test_tool_call_delta_is_a_public_type() -> None:
    assert "ToolCallDelta" in steno.__all__
    assert isinstance(DELTA, ToolCallDelta)


@pytest.mark.requirement("FR-004a-92")
def test_a_delta_cannot_be_changed() -> None:
    assert_immutable(DELTA)


@pytest.mark.requirement("FR-004a-93")
def test_a_delta_has_an_index() -> None:
    assert ToolCallDelta(3).index == 3
    with pytest.raises(TypeError):
        refuses(ToolCallDelta)()


@pytest.mark.requirement("FR-004a-93")
@pytest.mark.parametrize("index", [-1, "0", 1.5])
def test_the_index_of_a_delta_is_a_number_from_0(index: object) -> None:
    with pytest.raises(ValueError, match="index"):
        refuses(ToolCallDelta, index)()


@pytest.mark.requirement("FR-004a-94")
def test_the_index_says_which_call_a_delta_belongs_to() -> None:
    first, second = assemble(
        ToolCallDelta(0, id="a", name="read"),
        ToolCallDelta(1, id="b", name="write"),
        ToolCallDelta(1, arguments_delta='{"n":'),
        ToolCallDelta(0, arguments_delta='{"m":'),
        ToolCallDelta(1, arguments_delta=" 2}"),
        ToolCallDelta(0, arguments_delta=" 1}"),
    )
    assert first == ToolCall(id="a", name="read", arguments='{"m": 1}')
    assert second == ToolCall(id="b", name="write", arguments='{"n": 2}')


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("id", "call_1", marks=pytest.mark.requirement("FR-004a-95")),
        pytest.param("name", "read", marks=pytest.mark.requirement("FR-004a-97")),
        pytest.param("arguments_delta", '{"pa', marks=pytest.mark.requirement("FR-004a-99")),
    ],
)
def test_a_delta_may_have_an_id_a_name_and_a_part_of_the_arguments(field: str, value: str) -> None:
    with_value: Callable[..., ToolCallDelta] = partial(ToolCallDelta, 0)
    assert getattr(ToolCallDelta(0), field) is None
    assert getattr(with_value(**{field: value}), field) == value


@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"name": "read"}, marks=pytest.mark.requirement("FR-004a-96")),
        pytest.param({"id": "a"}, marks=pytest.mark.requirement("FR-004a-98")),
        pytest.param({}, marks=pytest.mark.requirement("FR-004a-96", "FR-004a-98")),
    ],
    ids=["without id", "without name", "without both"],
)
def test_only_the_first_delta_of_a_call_needs_its_id_and_its_name(later: dict[str, str]) -> None:
    more: Callable[..., ToolCallDelta] = partial(ToolCallDelta, 0, **later)
    calls = assemble(
        ToolCallDelta(0, id="a", name="read", arguments_delta='{"pa'),
        more(arguments_delta='th": '),
        more(arguments_delta='"x"}'),
    )
    assert calls == (ToolCall(id="a", name="read", arguments='{"path": "x"}'),)


@pytest.mark.requirement("FR-004a-100")
def test_the_arguments_of_a_delta_are_text_that_need_not_be_json() -> None:
    text = '{"path": "a.py", "n": [1, 2]}'
    parts = [ToolCallDelta(0, id="a", name="read", arguments_delta="")]
    parts += [ToolCallDelta(0, arguments_delta=character) for character in text]
    (call,) = assemble(*parts)
    assert call.arguments == text
    with pytest.raises(ValueError, match="arguments_delta"):
        refuses(ToolCallDelta, 0, arguments_delta={"path": "a.py"})()
