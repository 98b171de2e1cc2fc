"""The validation rules of the types of document S0, each broken once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    Image,
    ImageData,
    InvalidArguments,
    InvalidMessage,
    InvalidRequest,
    InvalidTool,
    InvalidToolCall,
    InvalidValue,
    Message,
    MessageRole,
    Outcome,
    OutOfOrder,
    Request,
    Seal,
    SystemMessage,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    check_order,
    map_tool_name,
)
from tests.acceptance.message_samples import ANSWER, CALL, CALLS, RESULT, SCHEMA, SYSTEM, TOOL, USER

NESTED = '{"a":' * 2_000 + "1" + "}" * 2_000
PICTURE = Image(source=ImageData(b"\x89PNG\r\n"), mime_type="image/png")


class BrokenRule(NamedTuple):
    """A call that breaks a rule, and the error that names the rule."""

    make: partial[Any]
    error: type[InvalidValue]
    code: str
    field: str

    def check(self) -> None:
        """Check that the call fails with this error."""
        with pytest.raises(InvalidValue) as caught:
            self.make()
        error = caught.value
        assert (type(error), error.code, error.field) == (self.error, self.code, self.field)


def message(code: str, field: str, make: Callable[..., object], *of: Any, **by: Any) -> BrokenRule:
    """Return a broken rule of a message or a tool call; the arguments may have wrong types."""
    return BrokenRule(partial(make, *of, **by), InvalidMessage, code, field)


def definition(code: str, field: str, **fields: Any) -> BrokenRule:
    """Return a broken rule of a tool definition, whose other fields are valid."""
    valid = {"name": "do", "description": "Do.", "parameters": SCHEMA}
    return BrokenRule(partial(ToolDefinition, **valid | fields), InvalidTool, code, field)


def generated(code: str, make: Callable[..., object], source: object) -> BrokenRule:
    """Return a broken rule of the source of a generated tool definition."""
    return BrokenRule(partial(make, source), InvalidTool, code, "")


def request(code: str, field: str, **fields: Any) -> BrokenRule:
    """Return a broken rule of a request, whose other fields are valid."""
    make = partial(Request, **{"messages": (USER,)} | fields)
    return BrokenRule(make, InvalidRequest, code, field)


def arguments(make: Callable[..., object], *of: Any) -> BrokenRule:
    """Return a broken rule of arguments, which is found when they are used."""
    return BrokenRule(partial(make, *of), InvalidArguments, "invalid_arguments", "")


def order(code: str, make: Callable[..., object], *arguments: Any) -> BrokenRule:
    """Return a broken rule of the order of messages."""
    return BrokenRule(partial(make, *arguments), OutOfOrder, code, "")


def delta(code: str, field: str, *arguments: Any, **fields: Any) -> BrokenRule:
    """Return a broken rule of a part of a tool call."""
    return BrokenRule(partial(ToolCallDelta, *arguments, **fields), InvalidValue, code, field)


def add_after(*messages: Message) -> Callable[[Message], None]:
    """Return the method that adds a message to a history of these messages."""
    return ConversationHistory(messages).add


class Undocumented(TypedDict):
    path: str


def undocumented(path: str) -> None: ...


def takes_half_a_character(mode: Literal["\ud83d"]) -> None:
    """Take a value that no JSON can contain."""


def takes_a_place(path: str, /) -> None:
    """Take a path by its place."""


def takes_any_number(*paths: str) -> None:
    """Take any number of paths."""


BROKEN_RULES = {
    # Roles.
    "role is undefined": message("abstract_message", "", ChatMessage),
    "role is unknown": message("unknown_role", "", MessageRole.parse, "undefined"),
    "role is none": message("unknown_role", "", MessageRole.parse, None),
    # System and user messages.
    "system message without content": message("wrong_type", "text", ChatMessage.system, None),
    "system message with empty content": message("blank", "text", ChatMessage.system, ""),
    "system message of blank text": message("blank", "text", ChatMessage.system, " \n"),
    "system message with a tool call": message("wrong_type", "content[0]", SystemMessage, (CALL,)),
    "system message with a picture": message(
        "wrong_type", "content[1]", SystemMessage, (Text("Look"), PICTURE)
    ),
    "user message without content": message("wrong_type", "content", ChatMessage.user, None),
    "user message with empty content": message("blank", "text", ChatMessage.user, ""),
    "user message of blank text": message("blank", "text", ChatMessage.user, "\t "),
    "user message without blocks": message("blank", "text", ChatMessage.user, []),
    "user message of blank blocks": message(
        "blank", "text", ChatMessage.user, [Text(" "), Text("\n")]
    ),
    "user message with an empty text before other parts": message(
        "empty", "content[0]", ChatMessage.user, [Text(""), Text("Hello"), PICTURE]
    ),
    "user message with an empty text after other parts": message(
        "empty", "content[2]", ChatMessage.user, [Text("Hello"), PICTURE, Text("")]
    ),
    "system message with an empty text among other parts": message(
        "empty", "content[1]", SystemMessage, (Text("Be"), Text(""), Text(" brief."))
    ),
    "user message with a tool call": message("wrong_type", "content[0]", ChatMessage.user, [CALL]),
    "user message with a string as a block": message(
        "wrong_type", "content[1]", ChatMessage.user, [Text("Hello"), "you"]
    ),
    "user message with half a character": message(
        "lone_surrogate", "text", ChatMessage.user, "a\ud83d"
    ),
    "user message with text in place of blocks": message(
        "not_a_tuple", "content", UserMessage, "Hello"
    ),
    "system message with a list of blocks": message(
        "not_a_tuple", "content", SystemMessage, [Text("Be brief.")]
    ),
    # Assistant messages.
    "assistant message with neither": message("empty_turn", "content", ChatMessage.assistant),
    "assistant message without blocks": message(
        "empty_turn", "content", AssistantMessage, content=()
    ),
    "assistant message with no list of calls": message(
        "wrong_type", "calls", ChatMessage.assistant, "Hi", CALL
    ),
    "assistant message with another type of call": message(
        "wrong_type", "content[1]", ChatMessage.assistant, "Hi", [{"id": "c"}]
    ),
    "assistant message whose text is no text": message(
        "wrong_type", "text", ChatMessage.assistant, 3
    ),
    "assistant message with a stop reason as text": message(
        "wrong_type", "stop_reason", ChatMessage.assistant, "Hi", stop_reason="stop"
    ),
    "assistant message with a number as usage": message(
        "wrong_type", "usage", ChatMessage.assistant, "Hi", usage=12
    ),
    # Tool results.
    "tool message without tool call id": message(
        "invalid_id", "tool_call_id", ChatMessage.tool_result, None, "done"
    ),
    "tool message with an empty tool call id": message(
        "invalid_id", "tool_call_id", ChatMessage.tool_result, "", "done"
    ),
    "tool message without content": message(
        "wrong_type", "content", ChatMessage.tool_result, "call_1", None
    ),
    "tool message with a tool call": message(
        "wrong_type", "content[0]", ToolResultMessage, tool_call_id="c", content=(CALL,)
    ),
    "tool message with details that are not JSON": message(
        "not_finite", "details", ChatMessage.tool_result, "c", "x", details={"a": float("nan")}
    ),
    "tool message with a negative duration": message(
        "out_of_range", "duration_s", ChatMessage.tool_result, "c", "x", duration_s=-1.0
    ),
    "tool message with an outcome as text": message(
        "wrong_type", "outcome", ChatMessage.tool_result, "c", "x", outcome="ok"
    ),
    "tool message with an infinite duration": message(
        "out_of_range", "duration_s", ChatMessage.tool_result, "c", "x", duration_s=float("inf")
    ),
    "tool message with a time without a zone": message(
        *("no_time_zone", "started_at", ChatMessage.tool_result, "c", "x"),
        started_at=datetime(2026, 1, 2),  # noqa: DTZ001 - the zone is missing on purpose
    ),
    "tool result without id": message("invalid_id", "tool_call_id", ToolResult.success, "", "done"),
    "tool result without result": message(
        "wrong_type", "content", ToolResult.success, "call_1", None
    ),
    "tool error without id": message("invalid_id", "tool_call_id", ToolResult.error, "", "No."),
    "tool error without message": message(
        "wrong_type", "message", ToolResult.error, "call_1", None
    ),
    "tool error that is no error": message(
        "failure_of_ok", "failure", ToolResult.error, "call_1", "No.", outcome=Outcome.OK
    ),
    # Tool calls.
    "tool call with empty id": message("invalid_id", "id", ToolCall, id="", name="read"),
    "tool call with half a character as id": message(
        "invalid_id", "id", ToolCall, id="\ud83d", name="read"
    ),
    "tool call with empty name": message("invalid_name", "name", ToolCall, id="c", name=""),
    "tool call name with invalid characters": message(
        "invalid_name", "name", ToolCall, id="c", name="read file"
    ),
    "tool call name with letters that are not ASCII": message(
        "invalid_name", "name", ToolCall, id="c", name="größe"
    ),
    "tool call name too long": message("invalid_name", "name", ToolCall, id="c", name="x" * 65),
    "tool call arguments not an object": message(
        "not_json_object", "arguments", ToolCall, id="c", name="n", arguments="[1]"
    ),
    "tool call arguments not JSON": message(
        "truncated_json", "arguments", ToolCall, id="c", name="n", arguments='{"a":'
    ),
    "tool call arguments empty": message(
        "truncated_json", "arguments", ToolCall, id="c", name="n", arguments=""
    ),
    "tool call arguments not text": message(
        "wrong_type", "arguments", ToolCall, id="c", name="n", arguments={"a": 1}
    ),
    "tool call arguments with half a character": message(
        "lone_surrogate", "arguments", ToolCall, id="c", name="n", arguments='{"a":"\\ud83d"}'
    ),
    "tool call arguments nested too deeply": message(
        "too_deep", "arguments", ToolCall, id="c", name="n", arguments=NESTED
    ),
    "tool call created with an invalid name": message(
        "invalid_name", "name", ToolCall.create, "read file"
    ),
    "tool call created with arguments that are not JSON": message(
        "unsupported_type", "arguments", ToolCall.create, "read", {"a": object()}
    ),
    "tool call created with an argument whose name is no text": message(
        "name_not_text", "arguments", ToolCall.create, "read", {1: "a"}
    ),
    "tool call that is invalid without an id": message(
        "invalid_id", "id", InvalidToolCall, id="", reason="malformed"
    ),
    "tool call that is invalid without a reason": message(
        "wrong_type", "reason", InvalidToolCall, id="c", reason=None
    ),
    "tool call that is invalid with half a character": message(
        "lone_surrogate", "arguments", InvalidToolCall, id="c", arguments="\ud83d", reason="cut"
    ),
    "seal without data": message("empty", "data", Seal, data="", provider="p", api="a", model="m"),
    # Arguments when they are used.
    "arguments with a number that is too large": arguments(
        getattr, ToolCall(id="c", name="n", arguments='{"a": 1e999}'), "parsed"
    ),
    "arguments that do not fit the tool": arguments(
        TOOL.check_arguments, ToolCall(id="c", name="write_file", arguments='{"path": 1}')
    ),
    "arguments of a call to another tool": arguments(
        TOOL.check_arguments, ToolCall(id="c", name="read_file", arguments='{"path": "a"}')
    ),
    "arguments of a call that is invalid": arguments(
        TOOL.check_arguments, InvalidToolCall(id="c", name="write_file", reason="malformed")
    ),
    # Tool definitions.
    "tool definition with empty name": definition("invalid_name", "name", name=""),
    "tool definition with invalid name": definition("invalid_name", "name", name="a-b"),
    "tool definition with a long name": definition("invalid_name", "name", name="x" * 65),
    "tool definition with empty description": definition("blank", "description", description=""),
    "tool definition without description": definition(
        "wrong_type", "description", description=None
    ),
    "tool definition without parameters": definition("wrong_type", "parameters", parameters=None),
    "tool definition with parameters as text": definition(
        "not_a_mapping", "parameters", parameters='{"type": "object"}'
    ),
    "tool definition with parameters that are no schema": definition(
        "invalid_schema", "parameters", parameters={"type": "object", "required": 1}
    ),
    "tool definition with a member that has no schema": definition(
        "invalid_schema",
        "parameters",
        parameters={"type": "object", "properties": {"path": {"type": "path"}}},
    ),
    "tool definition whose parameters are not an object": definition(
        "not_an_object_schema", "parameters", parameters={"type": "string"}
    ),
    "tool definition whose parameters have no type": definition(
        "not_an_object_schema", "parameters", parameters={}
    ),
    "tool definition that is neither strict nor not": definition(
        "wrong_type", "strict", strict=None
    ),
    "tool definition of a type without description": generated(
        "no_description", ToolDefinition.from_type, Undocumented
    ),
    "tool definition of a type that JSON cannot represent": generated(
        "unsupported_type", ToolDefinition.from_type, complex
    ),
    "tool definition of a function without description": generated(
        "no_description", ToolDefinition.from_function, undocumented
    ),
    "tool definition of a lambda": generated("lambda", ToolDefinition.from_function, lambda: None),
    "tool definition of a type without a name": generated(
        "no_name", ToolDefinition.from_type, int | str
    ),
    "tool definition of something that is no function": generated(
        "not_a_function", ToolDefinition.from_function, SCHEMA
    ),
    "tool definition of an argument without a name": generated(
        "positional_only", ToolDefinition.from_function, takes_a_place
    ),
    "tool definition of any number of arguments": generated(
        "variable_arguments", ToolDefinition.from_function, takes_any_number
    ),
    "tool definition with parameters that are not JSON": definition(
        "unsupported_type", "parameters", parameters=SCHEMA | {"examples": [object()]}
    ),
    "tool definition of a function whose schema is not JSON": BrokenRule(
        *(partial(ToolDefinition.from_function, takes_half_a_character), InvalidTool),
        *("lone_surrogate", "parameters"),
    ),
    "external tool name with a space": generated(
        "invalid_external_name", map_tool_name, "read file"
    ),
    "external tool name that is empty": generated("invalid_external_name", map_tool_name, ""),
    "external tool name that is too long": generated(
        "invalid_external_name", map_tool_name, "x" * 129
    ),
    "external tool name that is no text": generated("invalid_external_name", map_tool_name, None),
    # Requests.
    "request of no messages": request("empty", "messages", messages=()),
    "request without messages": request("wrong_type", "messages", messages=None),
    "request with something else": request("wrong_type", "messages[1]", messages=(USER, "Hello")),
    "request with something else as a tool": request("wrong_type", "tools[0]", tools=("read",)),
    "request with two tools of one name": request(
        "duplicate_tool_name", "tools[1]", tools=(TOOL, TOOL)
    ),
    "request of no tokens": request("out_of_range", "max_tokens", max_tokens=0),
    "request with a temperature above the highest": request(
        "out_of_range", "temperature", temperature=2.1
    ),
    "request with a temperature below zero": request(
        "out_of_range", "temperature", temperature=-0.1
    ),
    "request whose end is half a character": request("lone_surrogate", "stop[0]", stop=("\ud83d",)),
    # Parts of tool calls.
    "delta with a negative index": delta("out_of_range", "index", -1),
    "delta with text as index": delta("wrong_type", "index", "0"),
    "delta whose arguments are no text": delta(
        "wrong_type", "arguments_delta", 0, arguments_delta={"a": 1}
    ),
    # The order of messages.
    "history of no messages": message("not_iterable", "", ConversationHistory, None),
    "history of something else": message(
        "not_a_message", "", ConversationHistory, [{"role": "system"}]
    ),
    "order of something else": message("not_a_message", "", check_order, [USER, "Hello"]),
    "history with something else": message("not_a_message", "", add_after(SYSTEM), "Hello"),
    "history without a system message": order("system_missing", ConversationHistory, [USER]),
    "system message later": order("system_not_first", add_after(SYSTEM, USER), SYSTEM),
    "user messages in a row": order("not_alternating", add_after(SYSTEM, USER), USER),
    "assistant messages in a row": order(
        "not_alternating", add_after(SYSTEM, USER, ANSWER), ANSWER
    ),
    "calls that share an id": order(
        "call_id_repeated", add_after(SYSTEM, USER), ChatMessage.assistant(None, [CALL, CALL])
    ),
    "call without a result": order("call_unanswered", add_after(SYSTEM, USER, CALLS), USER),
    "result without a call": order("result_orphaned", add_after(SYSTEM, USER), RESULT),
    "second result of a call": order(
        "result_repeated", add_after(SYSTEM, USER, CALLS, RESULT), RESULT
    ),
}
"""The rules of the manual and of the requirements."""
