"""Ollama's own protocol: responses as servers send them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    Image,
    ImageData,
    InvalidToolCall,
    Opaque,
    ProtocolError,
    ProviderError,
    StopReason,
    TextDelta,
    Thinking,
    Usage,
)
from steno.assemble import Assembler, ToolCallPart
from steno.errors import CutShort, NotFound
from steno.wire import ollama_chat
from tests.wire.decode_helpers import assemble_message, decode_events

PNG = b"\x89PNG\r\n\x1a\n\0"
METRICS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


def line(content: str | None = "", *, done: bool = False, **said: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content} | said
    return {"model": "m:4b", "created_at": "2026-01-02T03:04:05.6Z", "message": message} | {
        "done": done
    }


STOP = line(done=True) | {"done_reason": "stop"}


def call(name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    return members | {"function": {"name": name, "arguments": arguments}}


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"".join([msgspec.json.encode(line) + b"\n" for line in lines])


def decode(*lines: dict[str, Any]) -> Any:
    return assemble_message(decode_events(ollama_chat, ndjson(*lines)))


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\n\r\n"])
def test_a_whole_answer_may_be_spread_over_many_lines(mark: bytes) -> None:
    answer = line("Hi", done=True, tool_calls=[call("now", {})]) | {"done_reason": "stop"} | METRICS
    spread = mark + msgspec.json.format(msgspec.json.encode(answer), indent=2)
    assert spread.count(b"\n") > 10
    wanted = ollama_chat.decode_response(msgspec.json.encode(answer))
    assert (wanted.text, wanted.usage) == ("Hi", Usage(input_tokens=26, output_tokens=282))
    pieces = [spread[at : at + 1] for at in range(len(spread))]
    for found in (
        ollama_chat.decode_response(spread),
        assemble_message(decode_events(ollama_chat, spread)),
        assemble_message(decode_events(ollama_chat, spread + b"\n\n")),
        assemble_message(decode_events(ollama_chat, *pieces)),
    ):
        assert (found.text, found.stop_reason, found.usage) == (
            wanted.text,
            wanted.stop_reason,
            wanted.usage,
        )
        assert [made.name for made in found.tool_calls] == ["now"]


def test_an_answer_that_is_spread_and_cut_is_cut_short() -> None:
    spread = msgspec.json.format(msgspec.json.encode(line("Hi", done=True)), indent=2)
    with pytest.raises(CutShort):
        decode_events(ollama_chat, spread[:-2])


def test_an_error_may_be_spread_over_many_lines() -> None:
    with pytest.raises(ProviderError) as caught:
        decode_events(ollama_chat, b'{\n  "error": "overloaded"\n}\n')
    assert caught.value.message == "overloaded"


def test_a_brace_alone_after_the_first_line_is_an_error() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_events(ollama_chat, ndjson(line("Hi")), b"{\n", ndjson(STOP))
    assert caught.value.code == "not_json"


# -- text and thinking ---------------------------------------------------------------------------


@pytest.mark.requirement("S4-05")
def test_text_arrives_line_by_line() -> None:
    events = decode_events(ollama_chat, ndjson(line("Hel"), line("lo"), STOP))
    assert events[:2] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    message = assemble_message(events)
    assert message.text == "Hello"
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, "stop")


def test_thinking_comes_beside_the_text() -> None:
    message = decode(line(thinking="Let me"), line(thinking=" see"), line("4"), STOP)
    assert [block.text for block in message.content] == ["Let me see", "4"]
    assert isinstance(message.content[0], Thinking)


def test_a_line_may_hold_both_and_thinking_comes_first() -> None:
    message = decode(line("4", thinking="2+2"), STOP)
    assert [block.text for block in message.content] == ["2+2", "4"]


@pytest.mark.parametrize("content", [None, "absent"])
def test_content_may_be_missing(content: str | None) -> None:
    odd = line(None, thinking="Hm")
    if content == "absent":
        del odd["message"]["content"]
    assert [block.text for block in decode(odd, line("Hi"), STOP).content] == ["Hm", "Hi"]


def test_a_surrogate_pair_over_two_lines_is_joined() -> None:
    first, second = line("a?"), line("?b")
    body = ndjson(first, second, STOP).replace(b"a?", rb"a\ud83d").replace(b"?b", rb"\ude00b")
    assert assemble_message(decode_events(ollama_chat, body)).text == "a\U0001f600b"


def test_text_after_a_call_continues_the_text_before_it() -> None:
    message = decode(line("I "), line(tool_calls=[call("read", {})]), line("look."), STOP)
    assert message.text == "I look."
    assert [type(block).__name__ for block in message.content] == ["Text", "ToolCall"]


def test_the_type_of_an_image_is_read_from_its_first_bytes() -> None:
    encoded = msgspec.json.decode(msgspec.json.encode(PNG))
    message = decode(line("Look", images=[encoded, "bm8="]), STOP)
    known, unknown, _ = message.content
    assert known == Image(source=ImageData(PNG), mime_type="image/png")
    assert unknown == Opaque(kind="image", raw='"bm8="', origin="ollama_chat")


# -- calls ---------------------------------------------------------------------------------------


def test_a_call_comes_whole_and_keeps_the_text_of_its_arguments() -> None:
    body = ndjson(line(tool_calls=[call("read", {}, id="call_1")]), STOP)
    body = body.replace(b'"arguments":{}', b'"arguments":{"p" : 1.0}')
    events = decode_events(ollama_chat, body)
    [found] = assemble_message(events).tool_calls
    assert (found.id, found.name, found.arguments) == ("call_1", "read", '{"p" : 1.0}')
    assert any(isinstance(event, ToolCallPart) and event.ends for event in events)


def test_a_plain_stop_after_calls_is_tool_use() -> None:
    message = decode(line(tool_calls=[call("read", {})]), STOP)
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.TOOL_USE, "stop")


def test_calls_may_stand_in_the_last_line() -> None:
    last = line(done=True, tool_calls=[call("read", {"p": 1}), call("read", {"p": 2})])
    assert [c.arguments for c in decode(last).tool_calls] == ['{"p":1}', '{"p":2}']


def test_calls_that_share_an_index_stay_separate() -> None:
    calls = [call("read", {"p": n}, id=id) for n, id in enumerate("ab")]
    for one in calls:
        one["function"]["index"] = 0
    message = decode(line(tool_calls=calls[:1]), line(tool_calls=calls[1:]), STOP)
    assert [(c.id, c.arguments) for c in message.tool_calls] == [("a", '{"p":0}'), ("b", '{"p":1}')]


def test_calls_without_an_id_are_given_one() -> None:
    names = iter("xy")
    assembler = Assembler(new_id=lambda: next(names))
    calls = [call("read", {"p": 1}), call("read", {"p": 1})]
    for event in decode_events(ollama_chat, ndjson(line(tool_calls=calls), STOP)):
        assembler.feed(event)
    assert [found.id for found in assembler.message().tool_calls] == ["x", "y"]


def test_an_id_that_is_used_twice_names_the_first_call_only() -> None:
    calls = [call("read", {"p": n}, id="a") for n in (1, 2)]
    message = decode(line(tool_calls=calls), STOP)
    assert [(c.id, c.arguments) for c in message.tool_calls] == [
        ("a", '{"p":1}'),
        ("made_up", '{"p":2}'),
    ]


@pytest.mark.parametrize("arguments", ['{"p":1}', {"p": 1}])
def test_arguments_may_be_in_a_string(arguments: Any) -> None:
    [found] = decode(line(tool_calls=[call("read", arguments)]), STOP).tool_calls
    assert found.parsed == {"p": 1}


@pytest.mark.parametrize("function", [{"name": "read"}, {"name": "read", "arguments": None}])
def test_no_arguments_are_an_empty_object(function: dict[str, Any]) -> None:
    [found] = decode(line(tool_calls=[{"function": function}]), STOP).tool_calls
    assert found.arguments == "{}"


def test_arguments_that_are_not_an_object_make_an_invalid_call() -> None:
    [found] = decode(line(tool_calls=[call("read", [1])]), STOP).tool_calls
    assert isinstance(found, InvalidToolCall)
    assert found.arguments == "[1]"


# -- the end -------------------------------------------------------------------------------------


def test_the_last_line_counts_tokens_and_nanoseconds() -> None:
    decoder = ollama_chat.StreamDecoder()
    message = assemble_message(decoder.feed(ndjson(line("Hi"), STOP | METRICS)))
    assert message.usage == Usage(input_tokens=26, output_tokens=282)
    assert decoder.envelope == METRICS | {"model": "m:4b", "created_at": "2026-01-02T03:04:05.6Z"}


def test_a_count_that_is_missing_is_not_reported() -> None:
    assert decode(line("Hi"), STOP | {"eval_count": 3}).usage == Usage(output_tokens=3)
    assert decode(line("Hi"), STOP).usage is None


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        (None, StopReason.END_TURN),
        ("length", StopReason.LENGTH),
        ("load", StopReason.END_TURN),
        ("unload", StopReason.END_TURN),
        ("something new", StopReason.UNKNOWN),
    ],
)
def test_a_reason_is_mapped_and_kept(reason: str | None, ours: StopReason) -> None:
    end = line(done=True) | ({} if reason is None else {"done_reason": reason})
    message = decode(line("Hi"), end)
    assert (message.stop_reason, message.raw_stop_reason) == (ours, reason)


def test_a_stream_that_is_cut_is_cut_short_and_keeps_its_events() -> None:
    decoder = ollama_chat.StreamDecoder()
    events = list(decoder.feed(ndjson(line("Hal"))))
    with pytest.raises(CutShort):
        list(decoder.close())
    assert assemble_message(events).text == "Hal"
    assert list(decoder.close()) == []


# -- errors --------------------------------------------------------------------------------------


def test_an_error_after_200_is_raised_after_the_events_before_it() -> None:
    decoder = ollama_chat.StreamDecoder()
    events = decoder.feed(ndjson(line("Hal"), {"error": "the runner has died"}))
    assert next(events) == TextDelta(0, "Hal")
    with pytest.raises(ProviderError) as caught:
        next(events)
    assert (caught.value.message, caught.value.status) == ("the runner has died", 200)
    assert list(decoder.close()) == []


def test_an_error_that_is_null_is_ignored() -> None:
    assert decode(line("Hi") | {"error": None}, STOP).text == "Hi"


def test_a_model_that_is_not_there_is_not_found() -> None:
    error = ollama_chat.decode_error(404, '{"error":"model \'m\' not found"}')
    assert isinstance(error, NotFound)
    assert error.message == "model 'm' not found"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"nonsense", "not_json"),
        (b"[1]", "unexpected_type"),
        (b'{"message":7}x', "not_json"),
        (b'{"message"', "not_json"),
        (b"\xff", "not_utf8"),
    ],
)
def test_invalid_bytes_are_a_protocol_error(data: bytes, code: str) -> None:
    decoder = ollama_chat.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(data + b"\n"))
    assert caught.value.code == code
    assert list(decoder.close()) == []


def test_the_error_does_not_quote_the_text() -> None:
    decoder = ollama_chat.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(b'{"message":{"content":"hunter2-secret"}} hunter2-secret\n'))
    assert "hunter2" not in str(caught.value)


# -- pieces --------------------------------------------------------------------------------------

ANSWER = ndjson(
    line(thinking="Hm \u2028"),
    line("I look."),
    line(tool_calls=[call("read", {"p": "ä\n"}, id="call_1")]),
    line("?") | {"logprobs": [{"token": "?", "logprob": -0.5}]},
    STOP | METRICS,
)


def test_the_bytes_may_be_cut_anywhere() -> None:
    whole = decode_events(ollama_chat, ANSWER)
    for place in range(len(ANSWER)):
        assert decode_events(ollama_chat, ANSWER[:place], ANSWER[place:]) == whole
    assert decode_events(ollama_chat, *[bytes([byte]) for byte in ANSWER]) == whole


@pytest.mark.parametrize(
    "odd",
    [
        ANSWER.replace(b"\n", b"\r\n"),
        ANSWER.replace(b"\n", b"\n\n \n"),
        ANSWER.removesuffix(b"\n"),
        b"\xef\xbb\xbf" + ANSWER,
    ],
    ids=["CRLF", "blank lines", "no last line feed", "byte order mark"],
)
def test_lines_may_end_in_other_ways(odd: bytes) -> None:
    assert decode_events(ollama_chat, odd) == decode_events(ollama_chat, ANSWER)


def test_a_stream_cut_at_any_byte_is_cut_short_and_keeps_whole_lines() -> None:
    whole = decode_events(ollama_chat, ANSWER)
    for place in range(len(ANSWER.rstrip())):
        decoder = ollama_chat.StreamDecoder()
        events = list(decoder.feed(ANSWER[:place]))
        with pytest.raises(CutShort):
            list(decoder.close())
        assert events == whole[: len(events)]


# -- unknown members and events ------------------------------------------------------------------


def test_unknown_data_is_kept_for_the_log() -> None:
    decoder = ollama_chat.StreamDecoder()
    odd = line("Hi", channel="final") | {"remote_model": "m:671b", "logprobs": [{"token": "Hi"}]}
    more = line("!") | {"logprobs": [{"token": "!"}]}
    assert assemble_message(decoder.feed(ndjson(odd, more, STOP))).text == "Hi!"
    assert decoder.envelope == {
        "model": "m:4b",
        "created_at": "2026-01-02T03:04:05.6Z",
        "channel": "final",
        "remote_model": "m:671b",
        "logprobs": [{"token": "Hi"}, {"token": "!"}],
    }


def test_members_of_a_call_that_we_have_no_name_for_stay_with_it() -> None:
    odd = call("read", {}, id="a", mood="calm")
    odd["function"] |= {"index": 2, "cost": 1}
    [found] = decode(line(tool_calls=[odd]), STOP).tool_calls
    assert found.extras == {
        "ollama_chat": {"mood": "calm", "function": {"cost": 1}, "$form": {"index": 2}}
    }


# -- whole responses -----------------------------------------------------------------------------


@pytest.mark.requirement("S2-15")
def test_a_whole_answer_is_read_by_the_same_rules() -> None:
    answer = line("", thinking="Look first.", tool_calls=[call("fs.read", {"path": "a"})])
    message = ollama_chat.decode_response(
        msgspec.json.encode(answer | METRICS | {"done": True, "done_reason": "stop"})
    )
    thinking, found = message.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Look first."
    assert message.tool_calls == (found,)
    assert found.extras == {"ollama_chat": {"$form": {"id": "absent"}}}
    assert message.usage == Usage(input_tokens=26, output_tokens=282)
    assert message.stop_reason is StopReason.TOOL_USE


def test_a_whole_response_may_lack_done() -> None:
    message = ollama_chat.decode_response('{"message": {"content": "Hi"}}')
    assert (message.text, message.stop_reason) == ("Hi", StopReason.UNKNOWN)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", "message_missing"),
        ("[]", "unexpected_type"),
        ("{}", "message_missing"),
        ('{"message": 7}', "message_missing"),
        ('{"response": "Hi"}', "message_missing"),
        ("\ud800", "not_utf8"),
    ],
)
def test_other_json_than_a_response_is_a_protocol_error(data: str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        ollama_chat.decode_response(data)
    assert caught.value.code == code


def test_an_error_in_place_of_a_response_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        ollama_chat.decode_response('{"error": "\\"m\\" does not support thinking"}')
    assert caught.value.message == '"m" does not support thinking'
