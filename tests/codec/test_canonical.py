"""Canonical JSON: its form, the data that it keeps, and its errors for bad input."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from steno import (
    AnyToolCall,
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    Entry,
    Image,
    ImageUrl,
    InvalidDocument,
    InvalidToolCall,
    InvalidValue,
    Opaque,
    Outcome,
    Resource,
    Seal,
    StopReason,
    SystemMessage,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UnsupportedVersion,
    Usage,
    UserMessage,
    check_order,
)
from steno.codec import (
    Document,
    decode_document,
    decode_entry,
    decode_message,
    decode_messages,
    decode_tool,
    encode_document,
    encode_entry,
    encode_message,
    encode_messages,
    encode_payload,
    encode_tool,
)
from steno.codec.canonical_json import encode_sorted
from steno.log.chain import entry_digest
from steno.records.entry import Mode, ModeChange, Payload
from steno.values import RawJson
from tests.every_payload import PAYLOADS

SEAL = Seal(data="c2lnbmVk", provider="anthropic", api="anthropic_messages", model="m-1")


# -- shape -----------------------------------------------------------------------------------


@pytest.mark.requirement("S2-08", "FR-004a-23", "FR-004a-25", "FR-004a-47", "FR-004a-65")
def test_a_turn_is_written_as_tagged_snake_case_json_without_empty_members() -> None:
    turn = AssistantMessage(
        content=(
            Thinking("hm", seal=SEAL),
            Text("I look."),
            ToolCall(id="c1", name="read", arguments='{"path": "a.py"}'),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=Usage(input_tokens=3, output_tokens=0),
    )
    assert json.loads(encode_message(turn)) == {
        "type": "assistant",
        "content": [
            {
                "type": "thinking",
                "text": "hm",
                "seal": {
                    "data": "c2lnbmVk",
                    "provider": "anthropic",
                    "api": "anthropic_messages",
                    "model": "m-1",
                },
            },
            {"type": "text", "text": "I look."},
            {"type": "tool_call", "id": "c1", "name": "read", "arguments": '{"path": "a.py"}'},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 0},
    }


@pytest.mark.requirement("S2-08", "FR-004a-65")
def test_a_result_is_written_with_its_details_as_json() -> None:
    result = ChatMessage.tool_result(
        "c1",
        "exit 1",
        outcome=Outcome.ERROR,
        tool_name="bash",
        details={"exit_code": 1, "cwd": {"path": "/tmp"}},
        started_at=datetime(2026, 5, 1, 12, 0, tzinfo=UTC),
        duration_s=0.25,
    )
    written = json.loads(encode_message(result))
    assert written["outcome"] == "error"
    assert written["details"] == {"exit_code": 1, "cwd": {"path": "/tmp"}}
    assert written["started_at"] == "2026-05-01T12:00:00Z"
    assert decode_message(encode_message(result)) == result


@pytest.mark.requirement("S2-08")
def test_every_record_carries_the_version() -> None:
    entry = Entry(id="e1", payload=ModeChange(old=Mode.PLAN, new=Mode.ACT))
    assert json.loads(encode_entry(entry)) == {
        "v": 2,
        "id": "e1",
        "payload": {"type": "mode_change", "old": "plan", "new": "act"},
    }
    assert encode_document(Document(entries=(entry,))).startswith(b'{"version":2,')
    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.requirement("FR-004a-114")
def test_a_history_is_stored_and_loaded() -> None:
    history = ConversationHistory([ChatMessage.system("s"), ChatMessage.user("u")])
    loaded = ConversationHistory(decode_document(encode_document(Document.of(history))).messages)
    assert loaded.messages == history.messages
    assert decode_messages(encode_messages(history)) == history.messages


def test_a_document_of_messages_chains_them() -> None:
    document = Document.of([ChatMessage.user("a"), ChatMessage.user("b")], id="s")
    assert [(entry.id, entry.parent) for entry in document.entries] == [("m1", None), ("m2", "m1")]


@pytest.mark.requirement("FR-004a-85")
def test_a_tool_definition_is_stored_and_loaded() -> None:
    tool = ToolDefinition(name="now", description="Tell the time.", parameters={"type": "object"})
    written = encode_tool(tool)
    assert json.loads(written) == {
        "name": "now",
        "description": "Tell the time.",
        "parameters": {"type": "object", "additionalProperties": False},
    }
    assert decode_tool(written) == tool
    newer = written[:-1] + b',"colour":"red"}'
    assert encode_tool(decode_tool(newer)) == newer
    with pytest.raises(InvalidDocument) as caught:
        decode_tool(b'{"name":"now"}')
    assert caught.value.code == "not_a_tool"


def test_appending_to_a_loaded_document_loses_nothing() -> None:
    stored = (
        b'{"version":2,"id":"s","entries":[{"v":2,"id":"m2","time":"2026-05-01T12:00:00Z",'
        b'"payload":{"type":"user","content":[{"type":"text","text":"a"}]},"extra":5},'
        b'{"v":2,"id":"x","parent":"m2","payload":{"type":"vote","for":1.50}}],"title":"T"}'
    )
    longer = decode_document(stored).append(
        ChatMessage.assistant("b"), time=datetime(2026, 5, 2, tzinfo=UTC)
    )
    assert [entry.id for entry in longer.entries] == ["m2", "x", "m3"]
    assert longer.entries[-1].parent == "x"
    written = encode_document(longer)
    for kept in (b'"extra":5', b'{"type":"vote","for":1.50}', b'"title":"T"', b"12:00:00Z"):
        assert kept in written
    assert [message.text for message in longer.messages] == ["a", "b"]


# -- what is not understood ------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"type":"hologram", "x" : 1.0e5}', id="message"),
        pytest.param(
            b'{"type":"user","content":[{"type":"text","text":"a"},{"type":"smell", "of": [ 1 ]}]}',
            id="block",
        ),
        pytest.param(
            b'{"type":"user","content":[{"type":"text","text":"a","\\u0061nd":1.50}],"z":null}',
            id="members",
        ),
        pytest.param(
            b'{"type":"assistant","content":[{"type":"thinking","text":"t","seal":{"data":"d",'
            b'"provider":"p","api":"a","model":"m","expires":1e9}}],"usage":{"input_tokens":1,'
            b'"watts":18446744073709551616}}',
            id="members of parts",
        ),
        pytest.param(
            b'{"type":"user","content":[{"type":"image","source":{"type":"star","ra":1}}]}',
            id="part without room for it",
        ),
        pytest.param(b'{"type":"user","content":"plain"}', id="other shape"),
        pytest.param(b'{"type":"user","content":[{"type":"text","text":5}]}', id="other type"),
        pytest.param(b'{"type":"user","content":[]}', id="against our rules"),
        pytest.param(b'{"type":"user","content":[{"type":"text"}]}', id="incomplete"),
        pytest.param(b'{"type":7,"content":[]}', id="odd tag"),
        pytest.param(b'{"content":[]}', id="no tag"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(
            b'{"type":"user","content":[{"type":"text","text":"a"}],"x":1,"x":2}', id="twice"
        ),
        pytest.param(
            b'{"type":"user","content":[{"type":"text","text":"a"}],"unknown":{"a":1}}',
            id="our own word",
        ),
    ],
)
@pytest.mark.requirement("S2-09", "NFR-004a-31")
def test_unknown_data_is_written_back_unchanged(
    raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    message = decode_message(raw)
    assert encode_message(message) == raw
    assert decode_message(encode_message(message)) == message
    assert [record.levelno for record in caplog.records].count(logging.WARNING) >= 1
    assert encode_messages([message]) == b"[" + raw + b"]"
    assert decode_messages(b"[" + raw + b"]") == (message,)


@pytest.mark.requirement("S2-09")
def test_the_rest_of_a_message_stays_usable() -> None:
    message = decode_message(
        b'{"type":"user","content":[{"type":"text","text":"read this","lang":"en"},{"type":"odd"}]}'
    )
    assert isinstance(message, UserMessage)
    assert message.text == "read this"
    assert message.content[1] == Opaque(kind="odd", raw='{"type":"odd"}', origin="steno")


def test_unknown_members_are_part_of_the_value() -> None:
    plain = decode_message(b'{"type":"user","content":[{"type":"text","text":"a"}]}')
    more = decode_message(b'{"type":"user","content":[{"type":"text","text":"a"}],"x":1}')
    assert plain != more
    assert hash(more) == hash(decode_message(encode_message(more)))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the place and the code of each warning of the codec."""
    return [(vars(record)["place"], vars(record)["code"]) for record in caplog.records]


def test_a_warning_names_the_place_and_not_the_content(caplog: pytest.LogCaptureFixture) -> None:
    decode_messages(
        b'[{"type":"user","content":[{"type":"text","text":"a","hunter2":"hunter2"}]},'
        b'{"type":"user","content":[{"type":"text","text":"a"},{"type":"odd","k":"hunter2"}]}]'
    )
    assert "hunter2" not in caplog.text
    assert {"$[0].content[0]", "$[1].content[1]"} <= {place for place, _ in warnings_of(caplog)}


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (b'[{"role":"user","content":"a"},{"role":"wizard"},5]', ["$[1]", "$[2]"]),
        (b'{"messages":[{"role":"user","content":[{"type":"x"}]}]}', ["$.messages[0].content[0]"]),
        (
            b'{"version":1,"system_prompt":"a","messages":[{"type":"user","content":[],"x":1},5]}',
            ["$.messages[0]", "$.messages[1]"],
        ),
        (b'{"version":1,"system_prompt":[],"messages":[5]}', ["$.system_prompt", "$.messages[0]"]),
        (b'{"version":2,"entries":[{"v":2,"id":"a","payload":5}]}', ["$.entries[0].payload"]),
    ],
)
def test_a_warning_about_a_document_of_any_version_names_a_place_in_it(
    data: bytes, places: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    decode_document(data)
    assert list(dict.fromkeys(place for place, _ in warnings_of(caplog))) == places


@pytest.mark.requirement("S2-09", "P-24")
def test_a_warning_names_the_type_that_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    decode_message(b'{"type":"wizard","content":"x"}')
    decode_message(b'{"type":"user","content":[{"type":"hologram"},{"no":"type"}]}')
    decode_entry(b'{"v":2,"id":"e1","payload":{"type":"vote"}}')
    decode_entry(b'{"v":99,"id":"e1","payload":{"type":"ballot"}}')
    tags = [vars(record)["tag"] for record in caplog.records]
    assert tags == ["wizard", "hologram", "", "vote", "ballot"]
    for tag, record in zip(tags, caplog.records, strict=True):
        assert tag in record.getMessage()


def test_a_warning_names_a_missing_member(caplog: pytest.LogCaptureFixture) -> None:
    decode_message(b'{"type":"tool_result","content":[]}')
    [record] = caplog.records
    assert record.getMessage().endswith(" has no tool_call_id")


def test_a_type_is_named_in_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    decode_message(b'{"type":"\\u001b[31m\\nx%s","content":"x"}' % (b"y" * 1_000))
    [record] = caplog.records
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < 200


def test_an_entry_of_a_newer_version_has_the_type_of_its_payload() -> None:
    raw = b'{"v":99,"id":"e1","payload":{"type":"ballot"}}'
    entry = decode_entry(raw)
    assert isinstance(entry.payload, Opaque)
    assert entry.payload.kind == "ballot"
    assert encode_entry(entry) == raw


def test_known_data_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    decode_messages(encode_messages([ChatMessage.user("a"), ToolResult.success("c", "")]))
    assert caplog.records == []


def test_an_opaque_block_of_a_provider_is_stored_with_its_origin() -> None:
    block = Opaque(kind="server_tool_use", raw='{"a": 1}', origin="anthropic_messages")
    turn = AssistantMessage(content=(block,))
    assert json.loads(encode_message(turn))["content"] == [
        {
            "type": "opaque",
            "kind": "server_tool_use",
            "raw": '{"a": 1}',
            "origin": "anthropic_messages",
        }
    ]
    assert decode_message(encode_message(turn)) == turn


@pytest.mark.requirement("S2-09")
def test_a_record_of_a_newer_version_keeps_its_place_in_the_tree() -> None:
    raw = b'{"v":4,"id":"e2","parent":"e1","novelty":{"a": [1,2]}}'
    entry = decode_entry(raw)
    assert (entry.id, entry.parent, entry.message) == ("e2", "e1", None)
    assert encode_entry(entry) == raw
    document = (
        b'{"version":2,"entries":[' + raw + b',"odd",{"v":2,"id":"e3","payload":{"type":"x"}}]}'
    )
    assert encode_document(decode_document(document)) == document


# -- calls that break a rule -----------------------------------------------------------------


def stored_call(members: str) -> bytes:
    return f'{{"type":"assistant","content":[{{"type":"tool_call",{members}}}]}}'.encode()


def load_call(members: str) -> AnyToolCall:
    """Load a stored call; check that it survives a round trip, and matches its result."""
    message = decode_message(stored_call(members))
    assert isinstance(message, AssistantMessage)
    saved = encode_message(message)
    assert decode_message(saved) == message
    assert encode_message(decode_message(saved)) == saved
    (call,) = message.tool_calls
    assert check_order([message, ToolResult.error(call.id, "no")]) == ()
    return call


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", '{"a": ', '{"a": "\\ud83d"}', '{"a":' * 50_000]
)
def test_a_stored_call_whose_arguments_are_not_an_object_is_invalid(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = load_call(f'"x":1.50,"id":"c","name":"read","arguments":{json.dumps(text)}')
    with pytest.raises(InvalidValue) as caught:
        ToolCall(id="c", name="read", arguments=text)
    assert call == InvalidToolCall(
        id="c",
        name="read",
        arguments=text,
        reason=str(caught.value),
        unknown=RawJson('"x":1.50'),
    )
    assert ("$.content[0]", "invalid_call") in warnings_of(caplog)


@pytest.mark.parametrize("raw", ['{ "a" : 1.50,\t"a":"\\u00e9" }', "{}", '{"n":1e400}'])
def test_arguments_that_were_stored_as_an_object_are_its_text(
    raw: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = load_call(f'"id":"c", "arguments" : {raw} ,"x":1.50,"name":"read"')
    unknown = RawJson('"x":1.50')
    assert call == ToolCall(id="c", name="read", arguments=raw, unknown=unknown)
    assert ("$.content[0]", "arguments_as_text") in warnings_of(caplog)


@pytest.mark.parametrize("raw", ["[1, 2]", "null", "7"])
def test_arguments_that_were_stored_as_other_json_are_its_text_too(raw: str) -> None:
    call = load_call(f'"id":"c","name":"read","arguments":{raw}')
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.name, call.arguments) == ("c", "read", raw)


def test_a_stored_call_keeps_everything_that_came_with_it() -> None:
    seal = encode_message(AssistantMessage(content=(Text("a", seal=SEAL),))).partition(b'"seal":')
    members = f'"id":"c","name":"fs.read","original_name":"r","seal":{seal[2][:-3].decode()}'
    call = load_call(members)
    assert isinstance(call, InvalidToolCall)
    assert (call.name, call.seal) == ("fs.read", SEAL)
    assert call.unknown == RawJson('"original_name":"r"')
    assert "name must be" in call.reason


@pytest.mark.parametrize(
    "members",
    [
        '"name":"read","arguments":"["',
        '"id":"","name":"read","arguments":"["',
        '"id":7,"name":"read","arguments":{}',
        '"id":"c","name":7,"arguments":"["',
        pytest.param('"id":"c","name":"read","arguments":"[","reason":1', id="a newer member"),
    ],
)
def test_a_call_that_cannot_be_matched_to_a_result_is_kept_as_opaque(members: str) -> None:
    raw = stored_call(members)
    message = decode_message(raw)
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.content[0], Opaque)
    assert encode_message(message) == raw


# -- input that hurts ------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("\\ud800", "\ufffd"),
        ("\\udc00x", "\ufffdx"),
        ("\\ud83d\\ude00", "\U0001f600"),
        ("\\uD83D\\uDE00\\uD83D", "\U0001f600\ufffd"),
        ("\\\\ud800", "\\ud800"),
        ("\\ud800\\u0041", "\ufffdA"),
    ],
)
def test_lone_surrogates_are_replaced_at_the_door(escaped: str, text: str) -> None:
    raw = f'{{"type":"user","content":[{{"type":"text","text":"a{escaped}"}}]}}'
    message = decode_message(raw)
    assert isinstance(message, UserMessage)
    assert message.text == "a" + text
    assert decode_message(encode_message(message)) == message


def test_a_replaced_surrogate_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    decode_message('{"type":"user","content":[{"type":"text","text":"a\ud800\\udfff"}]}')
    assert warnings_of(caplog) == [("$", "surrogates_replaced")]
    assert caplog.records[0].message.count("2")


@pytest.mark.parametrize("decode", [decode_message, decode_messages, decode_entry, decode_document])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nope",
        b'{"type":"user"',
        b"\xff\xfe",
        b'{"a":NaN}',
        b'{"a":1}{',
        b'"\xed\xa0\x80"',
        "",
    ],
)
@pytest.mark.requirement("NFR-004a-18", "NFR-004a-26")
def test_invalid_json_is_an_error_with_the_place(
    decode: Callable[[Any], object], data: bytes | str
) -> None:
    with pytest.raises(InvalidDocument) as caught:
        decode(data)
    assert caught.value.code in {"not_json", "not_utf8"}


DECODERS = [decode_message, decode_messages, decode_tool, decode_entry, decode_document]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("wrong", [None, Path("hunter2"), 7, {"hunter2": 1}, ["hunter2"]], ids=repr)
def test_other_types_than_text_and_bytes_are_refused(
    decode: Callable[[Any], object], wrong: object
) -> None:
    with pytest.raises(InvalidDocument) as caught:
        decode(wrong)
    assert (caught.value.place, caught.value.code) == ("input", "wrong_type")
    assert type(wrong).__name__ in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_are_read_understood_or_not(kind: Callable[[bytes], Any]) -> None:
    for raw in (b'{"type":"user","content":[{"type":"text","text":"a"}]}', b'{"type":"odd"}'):
        assert decode_message(kind(raw)) == decode_message(raw)


@pytest.mark.parametrize(
    ("decode", "data", "code"),
    [
        (decode_message, b"[]", "not_an_object"),
        (decode_messages, b"{}", "not_an_array"),
        (decode_document, b"7", "not_a_conversation"),
        (decode_document, b'{"a":1}', "no_version"),
        (decode_document, b'{"version":"two"}', "invalid_version"),
        (decode_document, b'{"version":-1}', "negative_version"),
        (decode_document, b'{"version":1,"messages":{}}', "messages_not_an_array"),
        (decode_document, b'{"messages":7}', "messages_not_an_array"),
        (decode_document, b'[{"content":"x"}]', "no_roles"),
        (decode_document, b'{"version":2,"entries":7}', "document_unreadable"),
    ],
)
def test_json_of_another_kind_is_an_error_with_its_own_code(
    decode: Callable[[Any], object], data: bytes, code: str
) -> None:
    with pytest.raises(InvalidDocument) as caught:
        decode(data)
    assert caught.value.code == code


def test_a_newer_document_is_refused_with_a_remedy() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_document(b'{"version":3,"entries":[]}')
    assert caught.value.code == "unsupported_version"


def test_a_byte_order_mark_is_ignored() -> None:
    raw = b'\xef\xbb\xbf{"type":"user","content":[{"type":"text","text":"a"}]}'
    assert decode_message(raw) == ChatMessage.user("a")
    assert decode_message(raw.decode()) == ChatMessage.user("a")


@pytest.mark.parametrize("depth", [500, 100_000])
def test_nesting_of_any_depth_is_kept(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    raw = b'{"type":"user","content":[{"type":"text","text":"a","deep":' + deep + b"}]}"
    message = decode_message(raw)
    assert isinstance(message, UserMessage)
    assert message.text == "a"
    assert encode_message(message) == raw
    assert encode_messages(
        decode_messages(b"[" + deep.replace(b"[", b'{"a":[').replace(b"]", b"]}") + b"]")
    )


def test_a_result_with_details_too_deep_to_read_is_kept_whole() -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    raw = b'{"type":"tool_result","tool_call_id":"c","content":[],"details":' + deep + b"}"
    message = decode_message(raw)
    assert isinstance(message, Opaque)
    assert encode_message(message) == raw


@pytest.mark.parametrize("number", ["9007199254740993", "123456789012345678901234567890", "1e400"])
def test_big_numbers_are_kept_to_the_digit(number: str) -> None:
    raw = f'{{"type":"user","content":[{{"type":"text","text":"a","n":{number}}}]}}'
    assert encode_message(decode_message(raw)).decode() == raw


def test_big_integers_in_details_stay_integers() -> None:
    result = ChatMessage.tool_result("c", "", details={"n": 2**53 + 1, "m": 2**70})
    loaded = decode_message(encode_message(result))
    assert loaded == result
    assert isinstance(loaded, ToolResult)
    assert loaded.details is not None
    assert loaded.details["m"] == 2**70


def test_nan_is_refused_where_it_would_become_null() -> None:
    with pytest.raises(InvalidValue) as caught:
        ChatMessage.tool_result("c", "", details={"ratio": float("nan")})
    assert (caught.value.code, caught.value.field) == ("not_finite", "details")


@pytest.mark.requirement("NFR-004a-29")
def test_fifty_megabytes_of_content_make_the_round_trip() -> None:
    message = ChatMessage.user("é" * 10 + "x" * 50_000_000)
    encoded = encode_message(message)
    assert decode_message(encoded) == message
    kept = decode_message(encoded.replace(b'{"type":"user"', b'{"type":"user","new":1', 1))
    assert isinstance(kept, UserMessage)
    assert kept.text == message.text


def test_line_separators_and_nul_are_ordinary_characters() -> None:
    message = ChatMessage.user("a\u2028b\u2029c\u0085d\x00e\r\nf")
    encoded = encode_message(message)
    assert b"\n" not in encoded
    assert decode_message(encoded) == message


def test_one_odd_message_does_not_change_how_the_others_are_read() -> None:
    good = ChatMessage.user("a")
    raw = b"[" + encode_message(good) + b',{"type":"odd"},' + encode_message(good) + b"]"
    first, odd, last = decode_messages(raw)
    assert (first, last) == (good, good)
    assert isinstance(odd, Opaque)
    assert encode_messages((first, odd, last)) == raw


@pytest.mark.parametrize("messages", [5, None, [5], ["a"], [None]])
def test_only_messages_are_encoded_as_messages(messages: Any) -> None:
    with pytest.raises(InvalidValue) as refusal:
        encode_messages(messages)
    assert refusal.value.code == "not_encodable"


def test_an_error_of_the_caller_while_it_makes_messages_is_not_hidden() -> None:
    def fail() -> Iterator[ChatMessage]:
        yield ChatMessage.user("a")
        raise TypeError

    with pytest.raises(TypeError):
        encode_messages(fail())


def test_one_odd_part_does_not_keep_the_rest_from_being_read() -> None:
    first, odd = decode_messages(b'[{"type":"user","content":[{"type":"text","text":"a"}]},5]')
    assert first == ChatMessage.user("a")
    assert odd == Opaque(kind="", raw="5", origin="steno")
    document = decode_document(b'[{"role":"user","content":"hi"},{"x":1},7]')
    assert [message.text for message in document.messages] == ["hi"]
    assert b'{"x":1}' in encode_document(document)


def test_times_are_written_in_utc() -> None:
    resource = Resource(
        server="docs",
        uri="doc://1",
        text="x",
        retrieved_at=datetime.fromisoformat("2026-05-01T14:00:00+02:00"),
    )
    image = Image(source=ImageUrl("https://example.org/a.png"))
    encoded = encode_message(ChatMessage.user([resource, image]))
    assert b'"retrieved_at":"2026-05-01T12:00:00Z"' in encoded
    assert decode_message(encoded) == ChatMessage.user([resource, image])


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_sorted_bytes_are_the_stored_json_with_its_members_sorted(payload: Payload) -> None:
    stored = msgspec.json.decode(encode_payload(payload))
    assert encode_sorted(payload) == msgspec.json.encode(stored, order="sorted")


# -- empty texts -----------------------------------------------------------------------------

EMPTY_TEXTS = (
    '{"v":2,"id":"e1","payload":{"type":"%s","content":[{"type":"text","text":""},'
    '{"type":"text","text":"Hi"},'
    '{"type":"text","text":"","extras":{"chat":{"b":1,"a":2}}}]}}'
)


@pytest.mark.requirement("S2-34", "P-16")
@pytest.mark.parametrize(
    ("role", "digest"),
    [
        ("user", "6d4ff4aaaee16f5ff4d769daf59b7ee755ea387f175e76b71da9b0ee828e3eb6"),
        ("system", "8e2d4313598abcb443ccdf8d754a4e714da81bb8a5a27dc6af76b71583e1d4ce"),
    ],
)
def test_an_empty_text_that_an_earlier_version_stored_is_kept(
    role: str, digest: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The digest is the one that the earlier version computed."""
    raw = (EMPTY_TEXTS % role).encode()
    entry = decode_entry(raw)
    message = entry.message
    assert message is not None
    assert (message.role, message.text) == (role, "Hi")
    assert [type(block) for block in message.content] == [Opaque, Text, Opaque]
    assert [isinstance(block, Opaque) and block.is_empty_text for block in message.content] == [
        *(True, False, True)
    ]
    assert warnings_of(caplog) == [
        ("$.payload.content[0]", "empty_text"),
        ("$.payload.content[2]", "empty_text"),
    ]
    assert encode_entry(entry) == raw
    assert entry_digest(entry, None) == digest
    longer: Any = replace(message, content=(*message.content, Text("!")))
    assert longer.text == "Hi!"


@pytest.mark.requirement("P-16")
def test_a_system_message_with_an_unknown_block_keeps_its_text() -> None:
    raw = b'{"type":"system","content":[{"type":"text","text":"Be brief."},{"type":"tone","n":1}]}'
    message = decode_message(raw)
    assert isinstance(message, SystemMessage)
    assert message.text == "Be brief."
    assert encode_message(message) == raw
