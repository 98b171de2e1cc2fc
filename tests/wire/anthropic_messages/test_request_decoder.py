"""Anthropic's Messages: recorded requests, decoded and encoded again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from steno import (
    AssistantMessage,
    ChatMessage,
    Image,
    InvalidRequest,
    InvalidToolCall,
    Opaque,
    Outcome,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from steno.messages.message import SystemMessage, ToolResultMessage
from steno.wire import ChangeCode
from steno.wire.anthropic_messages import NAME, decode_request, decode_response, encode_request

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"p": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"}
CACHED = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}


def there_and_back(**members: Any) -> Request:
    """Decode a request, encode it again, and compare; return the decoded request."""
    recorded = {"model": "claude-1", "max_tokens": 100, "messages": [USER]} | members
    read = decode_request(msgspec.json.encode(recorded))
    written = encode_request(read)
    assert written.json == recorded
    assert written.losses == ()
    return read


def messages(*recorded: Any) -> tuple[Any, ...]:
    return there_and_back(messages=list(recorded)).messages


def message_of(*content: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def text(content: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": content} | members


# -- settings ------------------------------------------------------------------------------------


def test_settings_are_read_and_others_kept() -> None:
    read = there_and_back(
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop_sequences=["END"],
        stream=True,
        thinking={"type": "enabled", "budget_tokens": 1024},
        metadata={"user_id": "u"},
    )
    assert (read.model, read.max_tokens, read.temperature) == ("claude-1", 100, 0.5)
    assert (read.top_p, read.stop) == (0.9, ("END",))
    assert read.extras is not None
    assert set(read.extras[NAME]) == {"top_k", "stream", "thinking", "metadata"}


@pytest.mark.parametrize(
    "odd",
    [
        {"max_tokens": 0},
        {"max_tokens": None},
        {"temperature": 1.5},
        {"temperature": "warm"},
        {"stop_sequences": []},
        {"tools": []},
        {"tools": ["now"]},
        {"tool_choice": {"type": "moon"}},
        {"tool_choice": {"type": []}},
        {"tool_choice": {"type": "auto"}, "tools": [{"name": "auto", "input_schema": SCHEMA}]},
        {"tool_choice": {"type": "tool", "name": "unknown"}},
        {"system": ""},
        {"system": []},
        {"system": [text("")]},
        {"system": [{"type": "hologram"}]},
        {"system": ["Be brief."]},
    ],
)
def test_unusual_members_are_written_unchanged(odd: dict[str, Any]) -> None:
    there_and_back(**odd)


def test_a_request_without_limit_or_model_stays_without() -> None:
    """Cloud providers put the model into the URL."""
    recorded = {"anthropic_version": "v", "messages": [USER]}
    assert encode_request(decode_request(msgspec.json.encode(recorded))).json == recorded


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "empty_document"),
        (b"[]", "unexpected_type"),
        (b"{}", "messages_missing"),
        (b'{"messages":"Hi"}', "messages_missing"),
        (b'{"messages":[]}', "empty"),
    ],
)
def test_other_json_than_a_request_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_request(body)
    assert (caught.value.code, caught.value.place) == (code, "request")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "any", "disable_parallel_tool_use": True}, "required"),
        ({"type": "tool", "name": "fs-read"}, "fs_read"),
    ],
)
def test_choices_of_tools_are_read(theirs: dict[str, Any], ours: str) -> None:
    tool = {"name": "fs-read", "input_schema": SCHEMA}
    choice = there_and_back(tools=[tool], tool_choice=theirs).tool_choice
    assert choice is not None
    assert choice.startswith(ours)


def test_tools_are_read_and_those_of_the_provider_kept_in_their_places() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    read = there_and_back(
        tools=[
            search,
            {"name": "read", "description": "Reads.", "input_schema": SCHEMA} | CACHED,
            {"name": "bare", "input_schema": SCHEMA, "strict": False, "type": "custom"},
            {"name": "blank", "description": "", "input_schema": SCHEMA},
            {"name": "fs.read", "input_schema": SCHEMA, "defer_loading": True},
            search | {"name": "again"},
            {"name": "odd", "input_schema": {}},
        ]
    )
    assert [tool.original_name or tool.name for tool in read.tools] == [
        "read",
        "bare",
        "blank",
        "fs.read",
    ]


# -- system --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system", ["Be brief.", [text("Be brief.")], [text("Be "), text("brief.", **CACHED)]]
)
def test_the_system_prompt_is_the_first_message(system: Any) -> None:
    first = there_and_back(system=system).messages[0]
    assert isinstance(first, SystemMessage)
    assert first.text == "Be brief."


def test_system_messages_among_the_others_stay_there() -> None:
    recorded = [
        {"role": "system", "content": "Be brief."},
        USER,
        message_of(text("Or not."), role="system"),
    ]
    read = there_and_back(system="You help.", messages=recorded).messages
    assert [type(message) for message in read] == [
        SystemMessage,
        SystemMessage,
        UserMessage,
        SystemMessage,
    ]


# -- messages that steno has no type for ---------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        "Hi",
        {"role": "robot", "content": "Hi"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": []},
        {"role": "user", "content": " "},
        {"role": "assistant", "content": []},
        {"role": "user", "content": ["Hi"]},
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "now"}}]},
    ],
)
def test_a_message_that_steno_has_no_type_for_is_kept_whole(odd: Any) -> None:
    read = messages(odd, USER)
    assert isinstance(read[0].content[0], Opaque)
    assert read[0].content[0].kind == "message"


# -- results -------------------------------------------------------------------------------------


def test_a_message_of_the_user_with_results_is_several_of_ours() -> None:
    second = RESULT | {"tool_use_id": "toolu_2", "is_error": True}
    read = messages(
        USER, message_of(CALL, role="assistant"), message_of(RESULT, second, text("Well?"))
    )
    assert [type(message) for message in read[2:]] == [
        ToolResultMessage,
        ToolResultMessage,
        UserMessage,
    ]
    assert [result.outcome for result in read[2:4]] == [Outcome.OK, Outcome.ERROR]
    assert read[2].text == "one"


@pytest.mark.parametrize(
    "recorded",
    [
        [message_of(RESULT), message_of(RESULT)],
        [message_of(RESULT), message_of(text("Well?"))],
        [message_of(RESULT), USER],
        [message_of(text("First."), RESULT)],
        [message_of(RESULT, text("Then."), RESULT, text("Last."))],
        [USER, message_of(RESULT), message_of(text("a"), RESULT), message_of(RESULT, text("b"))],
        [message_of(RESULT), message_of(CALL, role="assistant"), message_of(RESULT)],
        [message_of(RESULT) | {"name": "ann"}],
        [message_of(RESULT, text(""))],
        [message_of({"type": "tool_result", "content": "whose?"}, RESULT)],
    ],
)
def test_the_recorded_grouping_of_results_is_restored(recorded: list[Any]) -> None:
    messages(*recorded)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"content": None},
        {"content": ""},
        {"content": []},
        {"content": [text("")]},
        {"content": [text("one")]},
        {"content": "one", "is_error": False},
        {"content": "one", "is_error": None},
        {"is_error": True},
        {"content": [{"type": "tool_reference", "tool_name": "now"}]},
        {"content": [{"type": "search_result", "title": "a"} | CACHED]} | CACHED,
        {"content": "one", "tool_use_id": "functions.read:0"},
    ],
)
def test_the_recorded_form_of_a_result_is_restored(members: dict[str, Any]) -> None:
    [read] = messages(message_of({"type": "tool_result", "tool_use_id": "toolu_1"} | members))
    assert isinstance(read, ToolResultMessage)


# -- blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (text("Hi"), Text),
        (text("Hi", citations=[{"url": "u"}], **CACHED), Text),
        (CALL | CACHED | {"caller": {"type": "direct"}}, ToolCall),
        (CALL | {"id": "functions.read:0", "name": "fs.read"}, ToolCall),
        (CALL | {"input": [1]}, InvalidToolCall),
        (CALL | {"name": "git commit"}, InvalidToolCall),
        ({"type": "tool_use", "id": "a", "name": "now"}, ToolCall),
        ({"type": "tool_use", "name": "now"}, Opaque),
        ({"type": "thinking", "thinking": "Hm", "signature": "c2ln"}, Thinking),
        ({"type": "thinking", "thinking": "", "signature": "c2ln"}, Thinking),
        ({"type": "thinking", "thinking": "Hm", "signature": ""}, Thinking),
        ({"type": "thinking", "thinking": "Hm"}, Thinking),
        ({"type": "redacted_thinking", "data": "ZW5j"}, Thinking),
        ({"type": "redacted_thinking", "data": ""}, Opaque),
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, Opaque),
        ({"type": "compaction", "content": "So far."}, Opaque),
    ],
)
def test_a_turn_of_the_model_is_sent_back_unchanged(block: dict[str, Any], kind: type) -> None:
    read = messages(USER, message_of(block, text("Done."), role="assistant"), USER)
    assert isinstance(read[1].content[0], kind)


PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (PNG, Image),
        ({"type": "url", "url": "https://example.org/a.png"}, Image),
        ({"type": "file", "file_id": "f"}, Opaque),
        (PNG | {"media_type": "image/bmp"}, Opaque),
        (PNG | {"data": "cut..."}, Opaque),
        (PNG | {"light": 7}, Opaque),
    ],
)
def test_images_are_read_where_we_would_write_the_same(source: dict[str, Any], kind: type) -> None:
    [read] = messages(message_of({"type": "image", "source": source} | CACHED, text("What is it?")))
    assert isinstance(read.content[0], kind)


@pytest.mark.parametrize("content", ["", " ", "The answer is "])
def test_blanks_that_were_recorded_are_kept(content: str) -> None:
    messages(USER, {"role": "assistant", "content": content})
    messages(USER, message_of(text("a"), text(content), role="assistant"))
    messages(
        message_of(text("a"), text(content)),
        message_of(text("a"), text(content), role="assistant"),
        USER,
    )


def test_arguments_keep_their_text() -> None:
    body = b"""{"messages":[{"role":"assistant","content":[
        {"type":"tool_use","id":"a","name":"read","input":{"p" : 1.0,  "a": []}}]}]}"""
    read = decode_request(body)
    [call] = read.messages[0].tool_calls
    assert call.arguments == '{"p" : 1.0,  "a": []}'
    assert b'{"p" : 1.0,  "a": []}' in encode_request(read).body


# -- continuing a recorded conversation ----------------------------------------------------------


def test_seals_that_were_recorded_are_for_the_model_that_was_asked() -> None:
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    read = there_and_back(messages=[USER, message_of(thought, text("4"), role="assistant"), USER])
    found = encode_request(replace(read, model="claude-2"))
    assert b"c2ln" not in found.body
    assert ChangeCode.SEAL in [loss.code for loss in found.losses]


def test_a_recorded_forbidden_id_is_used_for_the_result() -> None:
    odd = CALL | {"id": "functions.read:0"}
    read = there_and_back(messages=[USER, message_of(odd, role="assistant")])
    answered = replace(
        read, messages=(*read.messages, ToolResult.success("functions.read:0", "one"))
    )
    body = encode_request(answered).json
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions.read:0"


def test_a_response_is_sent_back_unchanged() -> None:
    content: list[Any] = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        text("I search.", citations=[{"url": "u"}]),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "a"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
        CALL | {"caller": {"type": "direct"}},
    ]
    about = {"type": "message", "model": "claude-1", "stop_reason": "tool_use"}
    message = decode_response(msgspec.json.encode(about | {"content": content}))
    assert isinstance(message, AssistantMessage)
    conversation = (ChatMessage.user("Hi"), message, ToolResult.success("toolu_1", "one"))
    found = encode_request(Request(messages=conversation, model="claude-1"))
    assert found.json["messages"][1] == {"role": "assistant", "content": content}
    assert found.losses == ()
