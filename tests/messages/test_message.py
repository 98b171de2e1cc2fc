"""The four messages: their content, and the values that they refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast, get_args

import msgspec
import pytest

import steno
from steno import (
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    Failure,
    FileReference,
    Image,
    ImageUrl,
    InvalidDocument,
    InvalidMessage,
    InvalidToolCall,
    InvalidValue,
    JsonObject,
    Message,
    MessageRole,
    Opaque,
    Outcome,
    OutOfOrder,
    Resource,
    StopReason,
    SystemMessage,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from steno.codec import decode_message, encode_message
from steno.values import NOTHING
from tests.code_probes import expect_error
from tests.value_samples import MESSAGES, SECRET, Sample, name_of

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
CALL = ToolCall(id="call_1", name="read_file", arguments='{"path": "a.py"}')
OTHER_CALL = ToolCall(id="call_2", name="read_file", arguments='{"path": "b.py"}')
LOST_CALL = InvalidToolCall(id="call_3", name="read_file", arguments='{"pa', reason="cut")

BLOCKS: dict[str, Any] = {
    "Text": Text("Hello"),
    "Thinking": Thinking("Hm"),
    "Image": Image(source=ImageUrl("https://example.org/a.png")),
    "FileReference": FileReference(path="a.py"),
    "Resource": Resource(server="db", uri="db://schema"),
    "ToolCall": CALL,
    "InvalidToolCall": LOST_CALL,
    "Opaque": Opaque(kind="x", raw="{}", origin="gemini"),
}


def made_by_factories() -> list[Message]:
    return [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Hello"),
        ChatMessage.assistant("I look.", [CALL]),
        ChatMessage.tool_result("call_1", "ok"),
    ]


# -- what every message has ----------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-11", "FR-004a-27", "S4-02")
def test_chat_message_has_four_subclasses_and_a_factory_for_each() -> None:
    messages = made_by_factories()
    assert [type(message) for message in messages] == [*get_args(Message)]
    assert [type(message).__name__ for message in messages] == [
        *("SystemMessage", "UserMessage", "AssistantMessage", "ToolResultMessage"),
    ]
    assert all(isinstance(message, ChatMessage) for message in messages)


@pytest.mark.requirement("FR-004a-13")
def test_every_message_knows_its_role() -> None:
    assert [message.role for message in made_by_factories()] == [*MessageRole]
    for message in made_by_factories():
        with pytest.raises(AttributeError):
            message.role = MessageRole.USER  # type: ignore[misc]


@pytest.mark.requirement("FR-004a-13")
def test_a_message_of_no_role_cannot_be_made() -> None:
    assert expect_error(ChatMessage).code == "abstract_message"


@pytest.mark.requirement("FR-004a-13", "FR-004a-32")
@pytest.mark.parametrize("tag", ['"chat"', '"tool"', '"User"', "null", "3", '""'])
def test_a_message_of_an_unknown_role_is_not_loaded_as_a_message(tag: str) -> None:
    data = f'{{"type":{tag},"content":[{{"type":"text","text":"Hello"}}]}}'
    assert type(decode_message(data)) is Opaque


@pytest.mark.requirement("FR-004a-14")
def test_every_message_answers_text() -> None:
    assert [message.text for message in made_by_factories()] == [
        *("Be brief.", "Hello", "I look.", "ok"),
    ]
    assert ChatMessage.assistant(None, [CALL]).text is None
    assert AssistantMessage(content=(Thinking("Hm"),)).text is None
    assert not ChatMessage.user([BLOCKS["Image"]]).text
    assert not ChatMessage.tool_result("call_1", []).text


@pytest.mark.requirement("FR-004a-14", "FR-004a-61", "S2-01")
def test_the_text_of_several_parts_is_joined() -> None:
    parts = [Text("Hello, "), BLOCKS["Image"], Text("world"), Text("!")]
    assert ChatMessage.user(parts).text == "Hello, world!"
    assert ChatMessage.tool_result("call_1", parts).text == "Hello, world!"
    assert SystemMessage((Text("a"), Text("b"))).text == "ab"
    turn = AssistantMessage(content=(Thinking("Hm"), Text("a"), CALL, Text("b")))
    assert turn.text == "ab"


@pytest.mark.requirement("FR-004a-15")
def test_every_message_answers_tool_calls() -> None:
    assert [message.tool_calls for message in made_by_factories()] == [(), (), (CALL,), ()]


@pytest.mark.requirement("FR-004a-16")
def test_only_a_tool_result_has_a_tool_call_id() -> None:
    assert [message.tool_call_id for message in made_by_factories()] == [
        *(None, None, None, "call_1"),
    ]


@pytest.mark.requirement("FR-004a-18", "S2-04")
def test_the_calls_of_a_message_come_as_a_tuple_in_their_order() -> None:
    calls: list[ToolCall | InvalidToolCall] = [OTHER_CALL, CALL, LOST_CALL]
    message = ChatMessage.assistant("I look.", calls)
    assert message.tool_calls == (OTHER_CALL, CALL, LOST_CALL)
    assert type(message.tool_calls) is tuple
    calls.clear()
    assert len(message.tool_calls) == 3
    mixed = AssistantMessage(content=(CALL, Text("and"), OTHER_CALL, Thinking("hm"), LOST_CALL))
    assert mixed.tool_calls == (CALL, OTHER_CALL, LOST_CALL)


@pytest.mark.requirement("FR-004a-12", "S0-V2")
@pytest.mark.parametrize("sample", MESSAGES, ids=name_of)
def test_a_message_resists_every_attempt_to_change_it(sample: Sample) -> None:
    message, twin = sample.build(), sample.build()
    for name in (*message.__struct_fields__, "text", "role", "tool_calls", "tool_call_id", "x"):
        with pytest.raises(AttributeError):
            setattr(message, name, ())
        with pytest.raises(AttributeError):
            delattr(message, name)
    with pytest.raises(TypeError):
        message.content[0] = Text("other")
    with pytest.raises(AttributeError):
        message.content.append(Text("other"))
    with pytest.raises(AttributeError):
        message.content[0].text = "other"
    assert message == twin


# -- scenarios of the first seed -----------------------------------------------------------------


@pytest.mark.requirement("S0-V1", "FR-004a-28", "FR-004a-35")
def test_a_system_message_has_its_role_and_text_and_a_telling_repr() -> None:
    message = ChatMessage.system("You are helpful.")
    assert message.role is MessageRole.SYSTEM
    assert message.text == "You are helpful."
    assert message.tool_calls == ()
    assert repr(message) == "SystemMessage(content=(Text(text=<16 characters>)))"


@pytest.mark.requirement("S0-V2", "FR-004a-29", "S3-01")
def test_a_user_message_has_its_role_and_text() -> None:
    message = ChatMessage.user("Hello")
    assert message.role is MessageRole.USER
    assert message.text == "Hello"
    assert message.content == (Text("Hello"),)


@pytest.mark.requirement("S0-V3", "FR-004a-30", "S3-01", "S2-04")
def test_an_assistant_message_may_be_made_of_calls_alone() -> None:
    message = ChatMessage.assistant(None, [CALL])
    assert message.role is MessageRole.ASSISTANT
    assert message.text is None
    assert message.tool_calls == (CALL,)
    assert message.content == (CALL,)


@pytest.mark.requirement("S0-V6", "FR-004a-17", "FR-004a-20", "FR-004a-33")
def test_a_user_message_without_content_and_a_result_without_a_call_are_value_errors() -> None:
    for make, code in (
        (lambda: ChatMessage.user(cast("Any", None)), "wrong_type"),
        (lambda: ChatMessage.user(""), "blank"),
        (lambda: ChatMessage.tool_result(cast("Any", None), "ok"), "invalid_id"),
        (lambda: ChatMessage.tool_result("", "ok"), "invalid_id"),
    ):
        error = expect_error(make)
        assert isinstance(error, ValueError)
        assert error.code == code


@pytest.mark.requirement("S0-V5", "FR-004a-23", "FR-004a-24")
@pytest.mark.parametrize("sample", MESSAGES, ids=name_of)
def test_a_message_comes_back_equal_from_json(sample: Sample) -> None:
    message = sample.build()
    loaded = decode_message(encode_message(message))
    assert loaded == message
    assert type(loaded) is type(message)
    assert encode_message(loaded) == encode_message(message)


@pytest.mark.requirement("FR-004a-35")
def test_the_repr_of_a_message_shows_kind_role_and_sizes() -> None:
    for message in made_by_factories():
        assert repr(message).startswith(f"{type(message).__name__}(content=") or (
            "content=" in repr(message)
        )
        assert message.role.value in repr(message).lower()
        assert "characters>" in repr(message)
    assert repr(ChatMessage.tool_result("call_1", "no", outcome=Outcome.DENIED)) == (
        "ToolResultMessage(tool_call_id='call_1', content=(Text(text=<2 characters>)),"
        " outcome=denied)"
    )


# -- which block may stand where -----------------------------------------------------------------

ALLOWED = {
    SystemMessage: {"Text", "Opaque"},
    UserMessage: {"Text", "Image", "FileReference", "Resource", "Opaque"},
    AssistantMessage: {"Text", "Thinking", "Image", "ToolCall", "InvalidToolCall", "Opaque"},
    ToolResultMessage: {"Text", "Image", "FileReference", "Resource", "Opaque"},
}


def with_content(type: Any, *content: Any) -> Message:
    extra = {"tool_call_id": "call_1"} if type is ToolResultMessage else {}
    return cast("Message", type(content=content, **extra))


def test_every_block_is_in_the_table_of_blocks() -> None:
    assert {type(block) for block in BLOCKS.values()} == set(get_args(steno.Block))


@pytest.mark.requirement("S4-12", "S2-34", "FR-004a-33")
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("type", ALLOWED)
def test_a_message_accepts_only_its_own_kinds_of_blocks(type: Any, name: str) -> None:
    if name in ALLOWED[type]:
        assert with_content(type, Text("a"), BLOCKS[name]).content[1] is BLOCKS[name]
        return
    error = expect_error(lambda: with_content(type, Text("a"), BLOCKS[name]))
    assert isinstance(error, InvalidMessage)
    assert (error.code, error.field) == ("wrong_type", "content[1]")
    assert name in str(error)
    assert all(kind in str(error) for kind in ALLOWED[type])


@pytest.mark.requirement("S4-12", "FR-004a-32")
@pytest.mark.parametrize("wrong", [None, "Hello", b"Hello", 7, [Text("a")], (), {}, Text, NOON])
@pytest.mark.parametrize("type", ALLOWED)
def test_values_that_are_not_blocks_are_refused(type: Any, wrong: object) -> None:
    expect_error(lambda: with_content(type, Text("a"), wrong))


@pytest.mark.requirement("FR-004a-32", "NFR-004a-24", "FR-004a-12")
@pytest.mark.parametrize("wrong", [None, "Hello", [Text("a")], {Text("a")}, Text("a"), 7])
@pytest.mark.parametrize("type", ALLOWED)
def test_content_is_a_tuple(type: Any, wrong: object) -> None:
    extra = {"tool_call_id": "call_1"} if type is ToolResultMessage else {}
    error = expect_error(lambda: type(content=wrong, **extra))
    assert (error.code, error.field) == ("not_a_tuple", "content")
    factory = type.__struct_config__.tag
    assert f"ChatMessage.{factory} " in error.message
    assert callable(getattr(ChatMessage, factory))


# -- system --------------------------------------------------------------------------------------

BLANK = ["", " ", "\n\t \r", "\u00a0\u2003", "\u3000"]


@pytest.mark.requirement("FR-004a-21", "FR-004a-28", "FR-004a-32", "FR-004a-33", "S2-34")
@pytest.mark.parametrize("text", BLANK)
def test_a_system_message_needs_text(text: str) -> None:
    for code in (
        lambda: ChatMessage.system(text),
        lambda: SystemMessage((Text(text),)),
        lambda: SystemMessage(()),
    ):
        error = expect_error(code)
        assert isinstance(error, InvalidMessage)
        assert (error.place, error.code, error.field) == ("system message", "blank", "text")


@pytest.mark.requirement("FR-004a-21", "NFR-004a-24")
@pytest.mark.parametrize("wrong", [None, 7, b"Hello", ["Hello"], [Text("Hello")]], ids=repr)
def test_a_system_message_is_made_of_text(wrong: Any) -> None:
    expect_error(lambda: ChatMessage.system(wrong))


# -- user ----------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-20", "FR-004a-29", "FR-004a-32", "FR-004a-33", "S2-34")
@pytest.mark.parametrize("text", BLANK)
def test_user_text_must_not_be_blank(text: str) -> None:
    for code in (
        lambda: ChatMessage.user(text),
        lambda: ChatMessage.user([Text(text), Text(text)]),
        lambda: UserMessage((Text(text),)),
    ):
        error = expect_error(code)
        assert isinstance(error, InvalidMessage)
        assert (error.place, error.code, error.field) == ("user message", "blank", "text")


@pytest.mark.requirement("FR-004a-20", "NFR-004a-24")
@pytest.mark.parametrize(
    "wrong", [None, 7, [], (), b"Hello", ["Hello"], [None], Text("Hello"), {"a": 1}], ids=repr
)
def test_a_user_message_needs_content(wrong: Any) -> None:
    expect_error(lambda: ChatMessage.user(wrong))


@pytest.mark.requirement("FR-004a-29", "S2-01", "S2-02", "S2-03", "S2-07")
def test_a_user_message_is_made_of_blocks_of_any_iterable() -> None:
    blocks = [BLOCKS[name] for name in ALLOWED[UserMessage]]
    for given in (blocks, tuple(blocks), iter(blocks), (block for block in blocks)):
        assert ChatMessage.user(given).content == tuple(blocks)
    # A reference is content, even without text.
    assert ChatMessage.user([BLOCKS["FileReference"]]).content == (BLOCKS["FileReference"],)
    assert ChatMessage.user([Text(" "), BLOCKS["Image"]]).text == " "


@pytest.mark.requirement("FR-004a-29", "FR-004a-12")
def test_a_message_does_not_see_what_happens_to_the_list_it_was_made_of() -> None:
    blocks: list[Any] = [Text("Hello")]
    message = ChatMessage.user(blocks)
    blocks.append(Text("!"))
    assert message == ChatMessage.user("Hello")


# -- assistant -----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-19", "FR-004a-30", "FR-004a-33")
def test_an_assistant_message_needs_text_or_a_call() -> None:
    for code in (
        ChatMessage.assistant,
        lambda: ChatMessage.assistant(None),
        lambda: ChatMessage.assistant(None, []),
        lambda: AssistantMessage(content=()),
    ):
        error = expect_error(code)
        assert isinstance(error, InvalidMessage)
        assert (error.place, error.code) == ("assistant message", "empty_turn")


@pytest.mark.requirement("FR-004a-30", "NFR-004a-28")
def test_assistant_text_may_be_empty_and_comes_before_its_calls() -> None:
    assert ChatMessage.assistant("").text == ""
    assert ChatMessage.assistant("").content == (Text(""),)
    both = ChatMessage.assistant("I look.", (call for call in [CALL, OTHER_CALL]))
    assert both.content == (Text("I look."), CALL, OTHER_CALL)
    assert both.stop_reason is None
    assert both.usage is None


@pytest.mark.requirement("FR-004a-19", "S4-09")
def test_a_turn_that_a_model_ended_without_a_word_is_a_fact() -> None:
    turn = AssistantMessage(content=(), stop_reason=StopReason.END_TURN)
    assert turn.text is None
    assert turn.tool_calls == ()
    assert decode_message(encode_message(turn)) == turn


@pytest.mark.requirement("FR-004a-30", "NFR-004a-24", "S4-12")
@pytest.mark.parametrize("calls", [None, 7, CALL, "call_1", [None], ["call_1"], [[CALL]]], ids=repr)
def test_the_calls_of_an_assistant_are_calls(calls: Any) -> None:
    expect_error(lambda: ChatMessage.assistant("I look.", calls))


@pytest.mark.requirement("FR-004a-30", "NFR-004a-24")
@pytest.mark.parametrize("text", [7, b"Hello", ["Hello"], Text("Hello")], ids=repr)
def test_the_text_of_an_assistant_is_text(text: Any) -> None:
    expect_error(lambda: ChatMessage.assistant(text, [CALL]))


# -- tool results --------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-56", "S4-02", "S2-05")
def test_a_tool_result_is_a_message_of_its_own() -> None:
    assert ToolResult is ToolResultMessage
    assert issubclass(ToolResult, ChatMessage)
    assert ToolResult in get_args(Message)
    assert ChatMessage.tool_result("call_1", "ok").role is MessageRole.TOOL


@pytest.mark.requirement("FR-004a-17", "FR-004a-58", "FR-004a-66", "FR-004a-33", "NFR-004a-24")
@pytest.mark.parametrize("id", ["", None, 7, b"call_1", ["call_1"], "call\ud83d"], ids=repr)
def test_a_tool_result_names_the_call_it_answers(id: Any) -> None:
    for code in (
        lambda: ChatMessage.tool_result(id, "ok"),
        lambda: ToolResult(tool_call_id=id, content=(Text("ok"),)),
        lambda: ToolResult.success(id, "ok"),
        lambda: ToolResult.error(id, "no"),
    ):
        error = expect_error(code)
        assert isinstance(error, InvalidMessage)
        assert (error.code, error.field) == ("invalid_id", "tool_call_id")
    with pytest.raises(TypeError, match="tool_call_id"):
        ToolResult(content=(Text("ok"),))  # type: ignore[call-arg]


@pytest.mark.requirement("FR-004a-22", "FR-004a-60", "FR-004a-66", "NFR-004a-24")
@pytest.mark.parametrize("content", [None, 7, b"ok", ["ok"], [None], Text("ok"), [CALL]], ids=repr)
def test_a_tool_result_needs_content(content: Any) -> None:
    expect_error(lambda: ChatMessage.tool_result("call_1", content))
    with pytest.raises(TypeError, match="content"):
        ToolResult(tool_call_id="call_1")  # type: ignore[call-arg]


@pytest.mark.requirement("FR-004a-22", "FR-004a-62", "NFR-004a-28")
def test_a_tool_result_may_be_the_empty_text() -> None:
    assert ChatMessage.tool_result("call_1", "").text == ""
    assert ToolResult.success("call_1", "").content == (Text(""),)
    assert ChatMessage.tool_result("call_1", []).content == ()


@pytest.mark.requirement("FR-004a-61")
def test_the_content_of_a_result_can_be_had_as_one_string() -> None:
    result = ChatMessage.tool_result("call_1", [Text("1  a\n"), BLOCKS["Image"], Text("2  b")])
    assert result.text == "1  a\n2  b"
    assert type(result.text) is str


@pytest.mark.requirement("FR-004a-31", "FR-004a-63", "FR-004a-64")
def test_a_result_without_an_outcome_is_a_success() -> None:
    for result in (
        ChatMessage.tool_result("call_1", "ok"),
        ToolResult(tool_call_id="call_1", content=(Text("ok"),)),
    ):
        assert result.outcome is Outcome.OK
        assert result.is_error is False


@pytest.mark.requirement("FR-004a-31", "FR-004a-63", "S4-08")
@pytest.mark.parametrize("outcome", Outcome)
def test_whether_a_tool_failed_is_read_from_the_outcome(outcome: Outcome) -> None:
    result = ChatMessage.tool_result("call_1", "…", outcome=outcome)
    assert result.outcome is outcome
    assert result.is_error is (outcome is not Outcome.OK)
    with pytest.raises(TypeError):
        ToolResult(tool_call_id="a", content=(), is_error=True)  # type: ignore[call-arg]


@pytest.mark.requirement("S4-08")
def test_a_tool_that_reports_failure_differs_from_one_that_was_not_run() -> None:
    """One outcome; a failure for people, content for the model, exceptions for us."""
    assert [outcome.value for outcome in Outcome] == [
        *("ok", "error", "denied", "skipped", "timeout", "cancelled", "unavailable"),
    ]
    reported = ToolResult.error("call_1", "no such file")
    not_run = ToolResult.error("call_1", "no such tool", outcome=Outcome.UNAVAILABLE)
    assert reported.outcome is Outcome.ERROR
    assert not_run.outcome is Outcome.UNAVAILABLE
    assert reported.is_error
    assert not_run.is_error
    # An error that the caller handles is raised; one that the model reads is a value.
    assert not issubclass(ToolResult, BaseException)


@pytest.mark.requirement("FR-004a-67")
def test_the_success_factory_makes_an_ok_result() -> None:
    assert ToolResult.success("call_1", "ok") == ChatMessage.tool_result("call_1", "ok")
    assert ToolResult.success("call_1", "ok").failure is None


@pytest.mark.requirement("FR-004a-68", "FR-004a-69", "S2-05")
@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.OK])
def test_the_failure_factory_makes_an_error_with_an_explanation(outcome: Outcome) -> None:
    plain = ToolResult.error("call_1", "no such file")
    assert plain.tool_call_id == "call_1"
    assert plain.text == "no such file"
    assert plain.is_error is True
    assert plain.outcome is Outcome.ERROR
    assert plain.failure == Failure(message="no such file")
    assert ToolResult.error("call_1", "no", outcome=outcome).is_error is True


@pytest.mark.requirement("FR-004a-69")
def test_the_failure_factory_makes_no_success() -> None:
    error = expect_error(lambda: ToolResult.error("call_1", SECRET, outcome=Outcome.OK))
    assert error.code == "failure_of_ok"


@pytest.mark.requirement("FR-004a-66")
def test_a_success_carries_no_failure() -> None:
    failure = Failure(message=SECRET)
    error = expect_error(lambda: ChatMessage.tool_result("call_1", "ok", failure=failure))
    assert error.code == "failure_of_ok"


@pytest.mark.requirement("FR-004a-66", "NFR-004a-24")
@pytest.mark.parametrize("outcome", [None, "ok", "error", True, 0, MessageRole.USER], ids=repr)
def test_an_outcome_is_one_of_a_fixed_set(outcome: Any) -> None:
    error = expect_error(lambda: ChatMessage.tool_result("call_1", "ok", outcome=outcome))
    assert (error.code, error.field) == ("wrong_type", "outcome")


@pytest.mark.requirement("S2-05", "FR-004a-65")
def test_a_result_holds_content_outcome_details_time_and_duration() -> None:
    result = ChatMessage.tool_result(
        "call_1",
        "3 lines",
        outcome=Outcome.TIMEOUT,
        tool_name="read_file",
        details={"lines": [1, 2, 3]},
        failure=Failure(message="slow", traceback="File …", recoverable=False),
        started_at=NOON,
        duration_s=0.25,
    )
    assert (result.tool_call_id, result.tool_name) == ("call_1", "read_file")
    assert (result.started_at, result.duration_s) == (NOON, 0.25)
    assert result.details == {"lines": [1, 2, 3]}
    assert result.failure == Failure(message="slow", traceback="File …", recoverable=False)
    assert decode_message(encode_message(result)) == result


@pytest.mark.requirement("FR-004a-57")
def test_the_details_of_a_result_are_read_only_at_every_depth() -> None:
    details: dict[str, Any] = {"lines": [{"n": 1}]}
    result = ChatMessage.tool_result("call_1", "", details=details)
    details["lines"][0]["n"] = 2
    assert type(result.details) is JsonObject
    assert cast("Any", result.details)["lines"][0]["n"] == 1
    with pytest.raises(TypeError):
        cast("Any", result.details)["lines"] = ()
    loaded = cast("ToolResult", decode_message(encode_message(result)))
    assert type(loaded.details) is JsonObject


@pytest.mark.requirement("FR-004a-66", "NFR-004a-25")
@pytest.mark.parametrize(
    ("details", "code"),
    [
        ([], "not_a_mapping"),
        ("x", "not_a_mapping"),
        (7, "not_a_mapping"),
        ({"a": math.nan}, "not_finite"),
        ({"a": {1j}}, "unsupported_type"),
        ({"a": "\ud83d"}, "lone_surrogate"),
    ],
)
def test_the_details_of_a_result_are_a_json_object(details: Any, code: str) -> None:
    error = expect_error(lambda: ChatMessage.tool_result("call_1", "", details=details))
    assert isinstance(error, InvalidMessage)
    assert (error.code, error.field) == (code, "details")


@pytest.mark.requirement("S2-05")
@pytest.mark.parametrize("duration", [-1, -0.001, math.nan, math.inf, -math.inf])
def test_a_duration_is_a_finite_number_of_seconds(duration: float) -> None:
    error = expect_error(lambda: ChatMessage.tool_result("call_1", "", duration_s=duration))
    assert (error.code, error.field) == ("out_of_range", "duration_s")


@pytest.mark.requirement("S2-05", "NFR-004a-27")
@pytest.mark.parametrize("duration", [0, 0.0, 1e-9, 5, 1e9])
def test_a_duration_comes_back_from_json(duration: float) -> None:
    result = ChatMessage.tool_result("call_1", "", duration_s=duration)
    assert decode_message(encode_message(result)) == result


@pytest.mark.requirement("S2-05")
def test_the_time_of_a_result_is_kept_in_utc() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-7)))
    result = ChatMessage.tool_result("call_1", "", started_at=elsewhere)
    assert result.started_at == NOON
    assert result == ChatMessage.tool_result("call_1", "", started_at=NOON)
    assert b'"started_at":"2026-06-01T12:00:00Z"' in encode_message(result)
    expect_error(lambda: ChatMessage.tool_result("c", "", started_at=NOON.replace(tzinfo=None)))


@pytest.mark.requirement("FR-004a-59", "FR-004a-107")
def test_a_result_counts_only_for_the_call_with_its_id() -> None:
    history = ConversationHistory(
        [ChatMessage.system("s"), ChatMessage.user("u"), ChatMessage.assistant(None, [CALL])]
    )
    with pytest.raises(OutOfOrder) as caught:
        history.add(ChatMessage.tool_result("call_9", "ok"))
    assert caught.value.code == "result_orphaned"
    history.add(ChatMessage.tool_result("call_1", "ok"))
    assert history.outstanding == ()


# -- equality ------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-34", "FR-004a-70")
def test_messages_of_the_same_content_are_equal() -> None:
    for first, second in zip(made_by_factories(), made_by_factories(), strict=True):
        assert first == second
        assert hash(first) == hash(second)
        assert len({first, second}) == 1
    assert ChatMessage.user("Hello") == UserMessage((Text("Hello"),))
    assert ChatMessage.user("Hello") != ChatMessage.user("hello")
    assert cast("Any", ChatMessage.user("Hello")) != ChatMessage.system("Hello")
    assert ChatMessage.user([Text("He"), Text("llo")]) != ChatMessage.user("Hello")
    assert ToolResult.success("a", "ok") != ToolResult.success("b", "ok")
    assert ToolResult.success("a", "no") != ToolResult.error("a", "no")
    assert ChatMessage.tool_result("a", "", details={"x": 1, "y": 2}) == ChatMessage.tool_result(
        "a", "", details={"y": 2, "x": 1}
    )


# -- JSON ----------------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-23", "FR-004a-25", "S2-08")
def test_a_message_in_json_is_tagged_and_omits_defaults() -> None:
    written = [json.loads(encode_message(message)) for message in made_by_factories()]
    assert written == [
        {"type": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"type": "user", "content": [{"type": "text", "text": "Hello"}]},
        {
            "type": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {
                    "type": "tool_call",
                    "id": "call_1",
                    "name": "read_file",
                    "arguments": '{"path": "a.py"}',
                },
            ],
        },
        {
            "type": "tool_result",
            "tool_call_id": "call_1",
            "content": [{"type": "text", "text": "ok"}],
        },
    ]


@pytest.mark.requirement("FR-004a-25")
@pytest.mark.parametrize("sample", MESSAGES, ids=name_of)
def test_no_null_is_written_for_missing_values(sample: Sample) -> None:
    optional = [f.name for f in msgspec.structs.fields(sample.type) if f.default is None]
    for name in optional:
        written = json.loads(encode_message(sample.build(**{name: None})))
        assert name not in written
    bare = json.loads(encode_message(sample.build(unknown=NOTHING, **dict.fromkeys(optional))))
    assert bare.keys() <= {"type", "content", "tool_call_id", "tool_name", "outcome"}


@pytest.mark.requirement("FR-004a-26", "S2-10")
def test_members_that_are_missing_in_the_json_have_their_default() -> None:
    loaded = decode_message(b'{"type":"tool_result","tool_call_id":"call_1","content":[]}')
    assert loaded == ToolResult(tool_call_id="call_1", content=())
    assert isinstance(loaded, ToolResult)
    assert loaded.outcome is Outcome.OK
    assert (loaded.details, loaded.failure, loaded.started_at) == (None, None, None)
    turn = decode_message(b'{"type":"assistant","content":[{"type":"text","text":"a"}]}')
    assert turn == ChatMessage.assistant("a")


@pytest.mark.requirement("FR-004a-32", "FR-004a-33")
@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"user","content":[]}',
        b'{"type":"user","content":[{"type":"text","text":" "}]}',
        b'{"type":"user","content":[{"type":"tool_call","id":"a","name":"b"}],"x":1}',
        b'{"type":"system","content":[{"type":"text","text":""}]}',
        b'{"type":"system","content":[{"type":"thinking","text":"a"}]}',
        b'{"type":"assistant","content":[]}',
        b'{"type":"tool_result","content":[]}',
        b'{"type":"tool_result","tool_call_id":"","content":[]}',
        b'{"type":"tool_result","tool_call_id":"a"}',
        b'{"type":"tool_result","tool_call_id":"a","content":null}',
        b'{"type":"tool_result","tool_call_id":"a","content":[],"outcome":"great"}',
        b'{"type":"tool_result","tool_call_id":"a","content":[],"duration_s":-1}',
    ],
)
def test_the_rules_apply_to_loaded_messages(data: bytes) -> None:
    """No odd record makes loading fail: it is kept unchanged, and is not a message."""
    loaded = decode_message(data)
    if isinstance(loaded, UserMessage):
        assert type(loaded.content[0]) is Opaque
    else:
        assert type(loaded) is Opaque
    assert encode_message(loaded) == data


@pytest.mark.requirement("NFR-004a-26", "NFR-004a-18", "NFR-004a-24")
@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b"null", b"[]", b'"user"', b"7", b"\xff", b'{"type":"user"', b"{}}", b"{]"],
)
def test_json_that_is_not_a_message_is_an_invalid_document(data: bytes) -> None:
    error = expect_error(lambda: decode_message(data))
    assert isinstance(error, InvalidDocument)
    assert isinstance(error, ValueError)


@pytest.mark.requirement("NFR-004a-31", "NFR-004a-23")
def test_members_without_a_name_here_are_kept_and_written_back() -> None:
    data = b'{"type":"user","content":[{"type":"text","text":"Hello"}],"mood":{ "x" : [1.0] }}'
    loaded = decode_message(data)
    assert isinstance(loaded, UserMessage)
    assert loaded.text == "Hello"
    assert encode_message(loaded) == data
    assert loaded != ChatMessage.user("Hello")


@pytest.mark.requirement("NFR-004a-27")
def test_borders_of_messages_hold() -> None:
    many = ChatMessage.user([Text("a")] * 10_000)
    assert decode_message(encode_message(many)) == many
    assert many.text == "a" * 10_000
    calls = [ToolCall(id=f"call_{n}", name="a" * 64) for n in range(1_000)]
    turn = ChatMessage.assistant(None, calls)
    assert decode_message(encode_message(turn)) == turn
    assert ChatMessage.user("x").text == "x"
    assert ChatMessage.user("\u200b").text == "\u200b"


# -- failures and messages of several parts -------------------------------------------------------


@pytest.mark.requirement("S2-01", "S2-34")
def test_each_part_of_a_message_is_checked() -> None:
    message = ChatMessage.user([Text("a"), Text(" "), Text("b")])
    assert message.text == "a b"
    error = expect_error(lambda: ChatMessage.user([Text("a"), Text("b"), cast("Any", SECRET)]))
    assert (error.code, error.field) == ("wrong_type", "content[2]")


@pytest.mark.requirement("S2-34", "P-16")
@pytest.mark.parametrize("type", [SystemMessage, UserMessage])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_empty_text_of_a_prompt_is_refused(type: Any, number: int) -> None:
    texts = [Text("a"), Text("b")]
    texts.insert(number, Text(""))
    error = expect_error(lambda: with_content(type, *texts))
    assert (error.code, error.field) == ("empty", f"content[{number}]")


@pytest.mark.requirement("S2-34", "P-16")
def test_an_empty_text_next_to_another_block_is_refused() -> None:
    error = expect_error(lambda: ChatMessage.user([Text(""), BLOCKS["Image"]]))
    assert (error.code, error.field) == ("empty", "content[0]")


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize("type", [AssistantMessage, ToolResultMessage])
def test_a_text_of_a_response_or_a_result_may_be_empty(type: Any) -> None:
    assert with_content(type, Text("a"), Text(""), Text("b")).text == "ab"


def test_a_system_message_has_text() -> None:
    error = expect_error(lambda: SystemMessage((BLOCKS["Opaque"],)))
    assert error.code == "blank"


@pytest.mark.requirement("S2-01")
def test_every_role_can_send_text() -> None:
    for make in (ChatMessage.system, ChatMessage.user, ChatMessage.assistant):
        factory: Callable[[str], Message] = make
        assert factory("Hello").text == "Hello"


def test_a_failure_has_a_message_and_may_be_beyond_repair() -> None:
    assert Failure(message="").recoverable is True
    assert Failure(message="x", recoverable=False).recoverable is False
    expect_error(lambda: Failure(message=cast("Any", None)))


@pytest.mark.requirement("S4-08")
def test_a_message_holds_nothing_that_runs() -> None:
    """The definition of a tool and its execution are separate; so are messages and their transport."""
    for type in (*get_args(Message), ToolDefinition, Usage, ToolCall):
        fields = {field.name: field.type for field in msgspec.structs.fields(type)}
        assert "callable" not in str(fields).lower()
    with pytest.raises(InvalidValue):
        ChatMessage.user(cast("Any", print))
