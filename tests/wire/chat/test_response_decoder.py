"""The flat chat JSON: responses, whole and line by line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    AssistantMessage,
    Opaque,
    ProtocolError,
    ProviderError,
    StopReason,
    Text,
    ToolCall,
    Usage,
)
from steno.assemble import ToolCallPart
from steno.errors import CutShort
from steno.wire import chat
from tests.wire.decode_helpers import assemble_message, decode_events

STOP = {"stop_reason": "end_turn"}


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"".join([msgspec.json.encode(line) + b"\n" for line in lines])


def decode(*lines: dict[str, Any]) -> AssistantMessage:
    return assemble_message(decode_events(chat, ndjson(*lines)))


def whole(**members: Any) -> AssistantMessage:
    return chat.decode_response(msgspec.json.encode({"role": "assistant"} | members))


# -- whole responses -----------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-24", "FR-004a-48")
def test_an_answer_is_an_assistant_message() -> None:
    call = {"id": "call_001", "name": "write_file", "arguments": {"path": "hello.py"}}
    message = whole(content="I write.", tool_calls=[call])
    assert message.content == (
        Text("I write."),
        ToolCall(id="call_001", name="write_file", arguments='{"path":"hello.py"}'),
    )
    assert message.stop_reason is StopReason.TOOL_USE


@pytest.mark.requirement("FR-004a-26")
@pytest.mark.parametrize("members", [{"content": None}, {}], ids=["null", "absent"])
def test_content_may_be_null_or_absent_beside_calls(members: dict[str, Any]) -> None:
    message = whole(tool_calls=[{"id": "a", "name": "read", "arguments": {}}], **members)
    assert message.text is None
    assert [call.name for call in message.tool_calls] == ["read"]


def test_a_whole_response_ends_with_or_without_a_stop_reason() -> None:
    assert whole(content="Hi").stop_reason is StopReason.END_TURN
    message = whole(content="Hi", stop_reason="length", raw_stop_reason="max_tokens")
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.LENGTH, "max_tokens")
    assert whole(content="Hi", stop_reason="something new").stop_reason is StopReason.UNKNOWN


def test_usage_has_our_names() -> None:
    usage = {"input_tokens": 5, "output_tokens": 3, "cache_read_tokens": 2, "thinking_tokens": -1}
    ours = Usage(input_tokens=5, output_tokens=3, cache_read_tokens=2)
    assert whole(content="Hi", usage=usage, **STOP).usage == ours
    assert whole(content="Hi", usage=usage).usage == ours


@pytest.mark.requirement("FR-004a-07")
def test_a_role_is_read_in_any_case() -> None:
    assert whole(role="Assistant", content="Hi").text == "Hi"


@pytest.mark.parametrize(
    "call",
    [
        {"id": "a", "name": "read", "arguments": {"p": 1}},
        {"id": "a", "name": "read", "arguments": '{"p":1}'},
        {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}},
    ],
    ids=["object", "string", "function"],
)
def test_a_call_is_read_however_it_is_written(call: dict[str, Any]) -> None:
    [found] = whole(tool_calls=[call]).tool_calls
    assert (found.id, found.name, found.arguments) == ("a", "read", '{"p":1}')


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": ""}])
def test_no_arguments_are_an_empty_object(arguments: dict[str, Any]) -> None:
    [found] = whole(tool_calls=[{"id": "a", "name": "read"} | arguments]).tool_calls
    assert found.arguments == "{}"


def test_unknown_content_is_kept() -> None:
    odd = {"type": "hologram", "light": 1}
    parts = [{"type": "text", "text": "Hi", "mood": "calm"}, odd]
    call = {"id": "a", "name": "read", "arguments": {}, "cost": 1}
    text, block, found = whole(content=parts, tool_calls=[call]).content
    assert text == Text("Hi", extras={"chat": {"mood": "calm"}})
    assert block == Opaque(kind="hologram", raw='{"type":"hologram","light":1}', origin="chat")
    assert found.extras == {"chat": {"cost": 1}}


def test_a_member_that_is_nested_beyond_reason_is_kept_as_text() -> None:
    deep = "[" * 300 + "]" * 300
    data = '{"role":"assistant","tool_calls":[{"id":"a","name":"read","odd":' + deep + "}]}"
    [found] = chat.decode_response(data).tool_calls
    assert found.extras == {"chat": {"odd": deep}}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", "message_missing"),
        ("[]", "unexpected_type"),
        ("{}", "message_missing"),
        ('{"role": "user", "content": "Hi"}', "unexpected_role"),
        ('{"stop_reason": "end_turn"}', "message_missing"),
    ],
)
def test_other_json_than_a_response_is_a_protocol_error(data: str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        chat.decode_response(data)
    assert (caught.value.code, caught.value.place) == (code, "chat")


def test_an_error_in_place_of_a_response_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        chat.decode_response('{"error": "no such model"}')
    assert caught.value.message == "no such model"


# -- line by line --------------------------------------------------------------------------------


def test_text_grows_line_by_line() -> None:
    message = decode({"role": "assistant", "content": "Hel"}, {"content": "lo"}, STOP)
    assert message.text == "Hello"
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, "end_turn")


@pytest.mark.requirement("FR-004a-95", "FR-004a-97", "FR-004a-99")
def test_a_call_grows_by_fragments() -> None:
    lines = (
        {"index": 0, "id": "a", "name": "read", "arguments_delta": '{"p"'},
        {"index": 1, "id": "b", "name": "read", "arguments_delta": "{}"},
        {"index": 0, "arguments_delta": ":1}"},
        STOP,
    )
    events = decode_events(chat, ndjson(*lines))
    assert events[0] == ToolCallPart(0, "a", "read", '{"p"')
    message = assemble_message(events)
    assert [(call.id, call.arguments) for call in message.tool_calls] == [
        ("a", '{"p":1}'),
        ("b", "{}"),
    ]
    assert message.stop_reason is StopReason.TOOL_USE


def test_whole_calls_and_fragments_stay_separate() -> None:
    calls = [{"id": id, "name": "read", "arguments": {"p": id}} for id in "cd"]
    message = decode(
        {"index": 0, "id": "a", "name": "read", "arguments_delta": "{}"},
        {"tool_calls": calls[:1]},
        {"tool_calls": calls[1:]},
        STOP,
    )
    assert [call.id for call in message.tool_calls] == ["a", "c", "d"]


def test_calls_without_an_id_are_given_one() -> None:
    message = decode({"tool_calls": [{"name": "read", "arguments": {}}]}, STOP)
    assert [call.id for call in message.tool_calls] == ["made_up"]


def test_an_error_is_raised_after_the_events_before_it() -> None:
    decoder = chat.StreamDecoder()
    events = decoder.feed(ndjson({"content": "Hal"}, {"error": {"message": "it died"}}))
    assert assemble_message([next(events)]).text == "Hal"
    with pytest.raises(ProviderError) as caught:
        next(events)
    assert caught.value.message == "it died"
    assert list(decoder.close()) == []


def test_unknown_members_are_kept_for_the_log() -> None:
    decoder = chat.StreamDecoder()
    usage = {"output_tokens": 1, "cost": 2}
    line = {"content": "Hi", "id": "msg_1", "model": "m-1", "usage": usage}
    message = assemble_message(decoder.feed(ndjson(line, STOP)))
    assert message.usage == Usage(output_tokens=1)
    assert decoder.envelope == {"id": "msg_1", "model": "m-1", "usage": usage}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"nonsense", "not_json"),
        (b"[1]", "unexpected_type"),
        (b'{"content"', "not_json"),
        (b'{"role":"user"}', "unexpected_role"),
        (b"\xff", "not_utf8"),
    ],
)
def test_invalid_bytes_are_a_protocol_error(data: bytes, code: str) -> None:
    decoder = chat.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(data + b"\n"))
    assert caught.value.code == code


ANSWER = ndjson(
    {"role": "assistant", "content": "I look. \u2028"},
    {"index": 0, "id": "a", "name": "read", "arguments_delta": '{"p":"ä"}'},
    STOP | {"usage": {"output_tokens": 3}},
)


def test_the_bytes_may_be_cut_anywhere() -> None:
    whole = decode_events(chat, ANSWER)
    for place in range(len(ANSWER)):
        assert decode_events(chat, ANSWER[:place], ANSWER[place:]) == whole
    assert decode_events(chat, ANSWER.replace(b"\n", b"\r\n")) == whole
    assert decode_events(chat, ANSWER.removesuffix(b"\n")) == whole


def test_a_stream_cut_at_any_byte_is_cut_short() -> None:
    for place in range(len(ANSWER.rstrip())):
        decoder = chat.StreamDecoder()
        list(decoder.feed(ANSWER[:place]))
        with pytest.raises(CutShort):
            list(decoder.close())
