"""Document S0: roles and messages, and the scenarios of the user verification.

Names are those of Python: a factory is `ChatMessage.user`, the content is `.text`, an invalid value
raises a `ValueError`.
"""

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import steno
from steno import (
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    InvalidMessage,
    InvalidToolCall,
    Message,
    MessageRole,
    Opaque,
    Outcome,
    OutOfOrder,
    Request,
    SystemMessage,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResultMessage,
    UserMessage,
)
from steno.codec import (
    decode_message,
    encode_message,
)
from steno.wire import chat
from tests.acceptance.broken_rules import BROKEN_RULES
from tests.acceptance.message_samples import (
    ANSWER,
    CALL,
    CALLS,
    MANUAL,
    MESSAGES,
    RESULT,
    SYSTEM,
    USER,
    assert_immutable,
    refuses,
    type_name,
)

# -- MessageRole ----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-01")
def test_message_role_is_an_enumeration() -> None:
    assert "MessageRole" in steno.__all__
    assert issubclass(MessageRole, enum.Enum)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("SYSTEM", SYSTEM, marks=pytest.mark.requirement("FR-004a-02")),
        pytest.param("USER", USER, marks=pytest.mark.requirement("FR-004a-03")),
        pytest.param("ASSISTANT", ANSWER, marks=pytest.mark.requirement("FR-004a-04")),
        pytest.param("TOOL", RESULT, marks=pytest.mark.requirement("FR-004a-05")),
    ],
)
def test_message_role_has_a_member_for_each_sender(name: str, message: Message) -> None:
    assert message.role is MessageRole[name]


@pytest.mark.requirement("FR-004a-06")
def test_a_role_is_a_lower_case_string_in_json() -> None:
    assert json.dumps(list(MessageRole)) == '["system", "user", "assistant", "tool"]'
    sent = chat.encode_request(Request(messages=(SYSTEM, USER, CALLS, RESULT))).json
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


@pytest.mark.requirement("FR-004a-07")
@pytest.mark.parametrize("role", MessageRole)
def test_a_role_is_parsed_in_upper_lower_and_mixed_case(role: MessageRole) -> None:
    for text in (role.value, role.value.upper(), role.value.title(), role.value.swapcase()):
        assert MessageRole.parse(text) is role


@pytest.mark.requirement("FR-004a-08")
@pytest.mark.parametrize("text", ["robot", "", " user", "users", "function", "developer", "0"])
def test_an_unknown_role_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="role"):
        MessageRole.parse(text)


@pytest.mark.requirement("FR-004a-09")
def test_each_role_has_the_number_of_the_document() -> None:
    numbers = {role.name: int(role) for role in MessageRole}
    assert numbers == {"SYSTEM": 0, "USER": 1, "ASSISTANT": 2, "TOOL": 3}


@pytest.mark.requirement("FR-004a-10")
def test_there_are_four_roles_and_no_reserved_ones() -> None:
    assert set(MessageRole.__members__) == {"SYSTEM", "USER", "ASSISTANT", "TOOL"}
    assert len(MessageRole) == 4


# -- ChatMessage ----------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-11")
def test_every_message_is_a_chat_message() -> None:
    assert "ChatMessage" in steno.__all__
    for kind in (SystemMessage, UserMessage, AssistantMessage, ToolResultMessage):
        assert issubclass(kind, ChatMessage)


@pytest.mark.requirement("FR-004a-12")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_a_message_cannot_be_changed(message: Message) -> None:
    assert_immutable(message)
    for block in message.content:
        assert_immutable(block)


@pytest.mark.requirement("FR-004a-13")
def test_every_message_has_a_role_and_none_can_be_made_without_one() -> None:
    roles = [message.role for message in (SYSTEM, USER, ANSWER, RESULT)]
    assert roles == list(MessageRole)
    with pytest.raises(ValueError, match="message"):
        ChatMessage()
    assert not isinstance(decode_message('{"content": "Hello"}'), ChatMessage)


@pytest.mark.requirement("FR-004a-14")
def test_the_content_of_a_message_is_its_text_or_none() -> None:
    assert [message.text for message in MESSAGES] == [
        *("You are helpful.", "Hello", "Hi!"),
        *(None, "written", "disk full"),
    ]


@pytest.mark.requirement("FR-004a-15")
def test_a_message_without_tool_calls_has_none() -> None:
    assert CALLS.tool_calls == (CALL,)
    assert not any(message.tool_calls for message in (SYSTEM, USER, ANSWER, RESULT))


@pytest.mark.requirement("FR-004a-16")
def test_only_a_tool_message_has_a_tool_call_id() -> None:
    assert RESULT.tool_call_id == "call_1"
    assert [m.tool_call_id for m in (SYSTEM, USER, ANSWER, CALLS)] == [None, None, None, None]


@pytest.mark.requirement("FR-004a-17")
@pytest.mark.parametrize("missing", ["", None])
def test_a_tool_message_without_the_id_of_its_call_is_refused(missing: str | None) -> None:
    content = (Text("done"),)
    for make in (
        refuses(ChatMessage.tool_result, missing, "done"),
        refuses(ToolResultMessage, tool_call_id=missing, content=content),
    ):
        with pytest.raises(ValueError, match="tool_call_id"):
            make()


@pytest.mark.requirement("FR-004a-18")
def test_tool_calls_are_a_tuple_in_the_order_of_the_calls() -> None:
    calls = [ToolCall(id=f"c{n}", name="read") for n in range(3)]
    message = ChatMessage.assistant("Reading.", calls)
    calls.clear()
    assert isinstance(message.tool_calls, tuple)
    assert [call.id for call in message.tool_calls] == ["c0", "c1", "c2"]


@pytest.mark.requirement("FR-004a-19")
def test_an_assistant_message_needs_content_or_tool_calls() -> None:
    for make in (
        refuses(ChatMessage.assistant),
        refuses(ChatMessage.assistant, None, []),
        refuses(AssistantMessage, content=()),
    ):
        with pytest.raises(ValueError, match="assistant message"):
            make()
    assert ChatMessage.assistant("", [CALL]).tool_calls == (CALL,)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(ChatMessage.user, marks=pytest.mark.requirement("FR-004a-20")),
        pytest.param(ChatMessage.system, marks=pytest.mark.requirement("FR-004a-21")),
        pytest.param(
            partial(ChatMessage.tool_result, "call_1"), marks=pytest.mark.requirement("FR-004a-22")
        ),
        pytest.param(
            lambda content: UserMessage(content=content),
            marks=pytest.mark.requirement("FR-004a-20"),
        ),
        pytest.param(
            lambda content: SystemMessage(content=content),
            marks=pytest.mark.requirement("FR-004a-21"),
        ),
        pytest.param(
            lambda content: ToolResultMessage(tool_call_id="call_1", content=content),
            marks=pytest.mark.requirement("FR-004a-22"),
        ),
    ],
)
def test_a_message_without_content_is_refused(make: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidMessage):
        make(None)


@pytest.mark.requirement("FR-004a-20", "FR-004a-21")
@pytest.mark.parametrize("make", [ChatMessage.user, ChatMessage.system])
@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_user_or_system_message_is_refused(
    make: Callable[[str], object], blank: str
) -> None:
    with pytest.raises(InvalidMessage):
        make(blank)


@pytest.mark.requirement("FR-004a-23")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_a_message_is_encoded_as_one_json_object(message: Message) -> None:
    assert isinstance(json.loads(encode_message(message)), dict)


@pytest.mark.requirement("FR-004a-23")
@pytest.mark.parametrize("role", MANUAL)
def test_a_message_is_written_in_the_flat_form_of_the_manual(role: str) -> None:
    message = decode_message(json.dumps(MANUAL[role]))
    assert isinstance(message, ChatMessage)
    sent = chat.encode_request(Request(messages=(message,))).json["messages"]
    assert sent == [{key: value for key, value in MANUAL[role].items() if value is not None}]


@pytest.mark.requirement("FR-004a-24")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_a_message_is_decoded_from_its_json(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("FR-004a-24")
def test_the_examples_of_the_manual_are_decoded() -> None:
    user, assistant, result = (decode_message(json.dumps(example)) for example in MANUAL.values())
    assert isinstance(user, UserMessage)
    assert user.text == "Write a hello world program"
    assert isinstance(assistant, AssistantMessage)
    assert assistant.text is None
    (call,) = assistant.tool_calls
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.get("path", str)) == ("call_001", "write_file", "hello.cs")
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_call_id, result.text) == ("call_001", "File written successfully")


@pytest.mark.requirement("FR-004a-25")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_the_json_of_a_message_has_no_null(message: Message) -> None:
    assert b"null" not in encode_message(message)
    assert b"null" not in chat.encode_request(Request(messages=(message,))).body


@pytest.mark.requirement("FR-004a-26")
def test_missing_properties_get_their_defaults() -> None:
    answer = decode_message('{"role": "assistant", "tool_calls": [{"id": "c", "name": "ls"}]}')
    assert isinstance(answer, AssistantMessage)
    assert (answer.text, answer.stop_reason, answer.usage) == (None, None, None)
    (call,) = answer.tool_calls
    assert call.arguments == "{}"
    result = decode_message('{"role": "tool", "tool_call_id": "c", "content": ""}')
    assert isinstance(result, ToolResultMessage)
    assert result.is_error is False
    stored = decode_message('{"type": "tool_result", "tool_call_id": "c", "content": []}')
    assert isinstance(stored, ToolResultMessage)
    assert stored.outcome is Outcome.OK


@pytest.mark.requirement("FR-004a-27")
def test_chat_message_has_a_factory_for_each_role() -> None:
    made = [
        ChatMessage.system("a"),
        ChatMessage.user("b"),
        ChatMessage.assistant("c"),
        ChatMessage.tool_result("call_1", "d"),
    ]
    kinds = [SystemMessage, UserMessage, AssistantMessage, ToolResultMessage]
    assert [type(message) for message in made] == kinds


@pytest.mark.requirement("FR-004a-28")
def test_the_system_factory_takes_the_content() -> None:
    message = ChatMessage.system("Be brief.")
    assert (message.role, message.text) == (MessageRole.SYSTEM, "Be brief.")


@pytest.mark.requirement("FR-004a-29")
def test_the_user_factory_takes_the_content() -> None:
    message = ChatMessage.user("Why?")
    assert (message.role, message.text) == (MessageRole.USER, "Why?")
    assert ChatMessage.user([Text("Why?")]) == message


@pytest.mark.requirement("FR-004a-30")
def test_the_assistant_factory_takes_content_and_tool_calls() -> None:
    message = ChatMessage.assistant("I will write it.", [CALL])
    assert (message.text, message.tool_calls) == ("I will write it.", (CALL,))
    assert ChatMessage.assistant("Hi!").tool_calls == ()
    assert ChatMessage.assistant(None, [CALL]).text is None


@pytest.mark.requirement("FR-004a-31")
def test_the_tool_result_factory_takes_the_id_the_result_and_whether_it_failed() -> None:
    good = ChatMessage.tool_result("call_1", "done")
    bad = ChatMessage.tool_result("call_1", "no such file", outcome=Outcome.ERROR)
    assert (good.role, good.tool_call_id, good.text) == (MessageRole.TOOL, "call_1", "done")
    assert (good.is_error, bad.is_error) == (False, True)


@pytest.mark.requirement("FR-004a-32")
def test_constructor_factory_and_decoder_check_a_message_by_the_same_rules() -> None:
    with pytest.raises(InvalidMessage):
        ChatMessage.user(" ")
    with pytest.raises(InvalidMessage):
        UserMessage(content=(Text(" "),))
    assert isinstance(decode_message('{"role": "user", "content": " "}'), Opaque)
    with pytest.raises(InvalidMessage):
        refuses(UserMessage, content=(CALL,))()


@pytest.mark.requirement("FR-004a-33", "NFR-004a-25", "NFR-004a-39")
@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_a_broken_rule_is_a_value_error_with_its_code_and_field(rule: str) -> None:
    assert issubclass(BROKEN_RULES[rule].error, ValueError)
    BROKEN_RULES[rule].check()


CHECKED_TYPES: tuple[type, ...] = (
    *(MessageRole, ChatMessage, *typing.get_args(Message)),
    *(ToolCall, InvalidToolCall, ToolDefinition, ToolCallDelta, ConversationHistory, Request),
)


def makers_of(cls: type) -> Iterator[Callable[..., object]]:
    """Yield the constructor and the public factories of a class."""
    if not issubclass(cls, enum.Enum):  # the constructor of an enumeration is that of Python
        yield cls
    for name, member in vars(cls).items():
        if isinstance(member, classmethod | staticmethod) and not name.startswith("_"):
            yield getattr(cls, name)


@pytest.mark.requirement("NFR-004a-39")
@pytest.mark.parametrize("cls", CHECKED_TYPES)
def test_a_rule_is_broken_with_each_public_constructor_and_factory(cls: type) -> None:
    broken = [rule.make.func for rule in BROKEN_RULES.values()]
    assert [maker for maker in makers_of(cls) if maker not in broken] == []


@pytest.mark.requirement("FR-004a-33")
def test_an_invalid_message_is_an_invalid_message_error() -> None:
    assert issubclass(InvalidMessage, ValueError)
    with pytest.raises(InvalidMessage):
        ChatMessage.user("")


@pytest.mark.requirement("FR-004a-34")
def test_messages_with_equal_content_are_equal() -> None:
    assert ChatMessage.user("Hello") == USER
    assert len({ChatMessage.user("Hello"), USER}) == 1
    assert len(set(MESSAGES)) == len(MESSAGES)
    same_text: ChatMessage = ChatMessage.user("Hi!")
    assert same_text != ANSWER
    assert ChatMessage.assistant("Hi!", [CALL]) != ANSWER


@pytest.mark.requirement("FR-004a-35")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_the_text_form_of_a_message_shows_its_role_and_what_it_contains(message: Message) -> None:
    """The type names the role; content appears as its size, because it can be private."""
    for text in (str(message), repr(message)):
        assert text.startswith(type(message).__name__)
        size = f"{len(message.text)} character" if message.text else "ToolCall(id='call_1'"
        assert size in text


# -- User verification ----------------------------------------------------------------------------


@pytest.mark.requirement("S0-V1")
def test_scenario_1_create_a_system_message() -> None:
    message = ChatMessage.system("You are helpful.")
    assert message.role is MessageRole.SYSTEM
    assert message.text == "You are helpful."
    assert not message.tool_calls
    assert "SystemMessage" in str(message)
    assert "16 characters" in str(message)  # the size stands for the content


@pytest.mark.requirement("S0-V2")
def test_scenario_2_create_a_user_message() -> None:
    message = ChatMessage.user("Hello")
    assert message.role is MessageRole.USER
    assert message.text == "Hello"
    assert_immutable(message)
    assert message.text == "Hello"


@pytest.mark.requirement("S0-V3")
def test_scenario_3_create_an_assistant_message_with_tool_calls() -> None:
    call = ToolCall(id="call_001", name="write_file", arguments='{"path": "fibonacci.cs"}')
    message = ChatMessage.assistant(None, [call])
    assert message.role is MessageRole.ASSISTANT
    assert message.text is None
    assert message.tool_calls == (call,)


@pytest.mark.requirement("S0-V4")
def test_scenario_4_read_the_arguments_of_a_tool_call() -> None:
    call = ToolCall(id="call_001", name="write_file", arguments='{"path": "fibonacci.cs"}')
    assert call.get("path", str) == "fibonacci.cs"
    assert call.get("missing", str) is None


@pytest.mark.requirement("S0-V5")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_scenario_5_a_message_survives_json(message: Message) -> None:
    text = encode_message(message).decode("utf-8")
    assert decode_message(text) == message


@pytest.mark.requirement("S0-V6")
def test_scenario_6_invalid_messages_are_value_errors() -> None:
    with pytest.raises(ValueError, match="user message"):
        refuses(ChatMessage.user, None)()
    with pytest.raises(ValueError, match="tool_call_id"):
        refuses(ChatMessage.tool_result, None, "done")()


@pytest.mark.requirement("S0-V7")
def test_scenario_7_a_history_keeps_its_order() -> None:
    history = ConversationHistory()
    history.add(ChatMessage.system("You are helpful."))
    history.add(ChatMessage.user("Hello"))
    with pytest.raises(OutOfOrder):
        history.add(ChatMessage.user("Are you there?"))
    history.add(ChatMessage.assistant("Hi!"))
    assert [message.role for message in history] == [
        *(MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT),
    ]
