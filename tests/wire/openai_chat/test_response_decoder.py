"""OpenAI's chat completions: responses as servers send them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    ProtocolError,
    ProviderError,
    Request,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    Usage,
)
from steno.errors import CutShort
from steno.wire import openai_chat
from tests.wire.decode_helpers import assemble_message, decode_events, sse

STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def chunk(**delta: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
    }


def call(index: int | None = None, id: str | None = None, **function: Any) -> dict[str, Any]:
    members = {"index": index, "id": id, "function": function}
    return {name: value for name, value in members.items() if value is not None}


def decode(*chunks: dict[str, Any], done: bool = True) -> Any:
    return assemble_message(decode_events(openai_chat, sse(*chunks, done=done)))


# -- text and thinking ---------------------------------------------------------------------------


@pytest.mark.requirement("S4-05")
def test_text_arrives_piece_by_piece() -> None:
    events = decode_events(
        openai_chat, sse(chunk(content="Hel"), chunk(content="lo"), STOP, done=True)
    )
    assert events[:2] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    message = assemble_message(events)
    assert message.text == "Hello"
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, "stop")


@pytest.mark.parametrize("content", [None, "", "absent"])
def test_a_first_delta_may_be_empty(content: str | None) -> None:
    first = chunk(role="assistant") if content == "absent" else chunk(content=content)
    assert decode(first, chunk(content="Hi"), STOP).text == "Hi"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thinking_is_read_under_both_its_names(field: str) -> None:
    message = decode(chunk(**{field: "Let me"}), chunk(**{field: " see"}), chunk(content="4"), STOP)
    assert [block.text for block in message.content] == ["Let me see", "4"]
    assert isinstance(message.content[0], Thinking)


def test_thinking_that_arrives_twice_is_sent_once() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "index": 0}]
    message = decode(chunk(reasoning="Hm", reasoning_details=details), chunk(content="4"), STOP)
    assert message.content[0].text == "Hm"


def test_details_of_thinking_are_joined_into_a_seal_for_the_model_that_made_them() -> None:
    first = {"type": "reasoning.text", "text": "Hm", "index": 0}
    second = {"type": "reasoning.text", "text": ", yes", "signature": "c2ln", "index": 0}
    body = sse(chunk(reasoning_details=[first]), chunk(reasoning_details=[second]), STOP, done=True)
    events = decode_events(openai_chat, body, provider="openrouter", model="m-1")
    [thinking] = assemble_message(events).content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Hm, yes"
    assert thinking.seal is not None
    assert (thinking.seal.provider, thinking.seal.model) == ("openrouter", "m-1")
    assert msgspec.json.decode(thinking.seal.data) == [
        {"type": "reasoning.text", "text": "Hm, yes", "signature": "c2ln", "index": 0}
    ]


def test_content_in_parts_is_read() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Okay"}]}
    message = decode(chunk(content=[thought]), chunk(content=[{"type": "text", "text": "4"}]), STOP)
    assert [block.text for block in message.content] == ["Okay", "4"]


def test_a_refusal_is_kept_but_not_as_text() -> None:
    message = decode(chunk(refusal="I will"), chunk(refusal=" not."), STOP)
    assert message.text is None
    assert message.extras == {"openai_chat": {"refusal": "I will not."}}
    assert message.stop_reason is StopReason.CONTENT_FILTER


# -- calls ---------------------------------------------------------------------------------------


def test_two_calls_that_share_an_index_stay_two() -> None:
    message = decode(
        chunk(tool_calls=[call(0, "a", name="read", arguments='{"p":1}')]),
        chunk(tool_calls=[call(0, "b", name="write", arguments='{"p":2}')]),
        STOP,
    )
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        ("a", "read", '{"p":1}'),
        ("b", "write", '{"p":2}'),
    ]
    assert message.stop_reason is StopReason.TOOL_USE


def test_an_index_may_be_missing() -> None:
    message = decode(
        chunk(tool_calls=[call(None, "a", name="read", arguments='{"p"')]),
        chunk(tool_calls=[call(None, None, arguments=":1}")]),
        STOP,
    )
    assert [c.arguments for c in message.tool_calls] == ['{"p":1}']


def test_a_name_may_arrive_after_the_arguments() -> None:
    message = decode(
        chunk(tool_calls=[call(0, "a", arguments="{}")]),
        chunk(tool_calls=[call(0, name="read")]),
        STOP,
    )
    assert [(c.id, c.name) for c in message.tool_calls] == [("a", "read")]


def test_an_empty_id_counts_as_missing() -> None:
    message = decode(
        chunk(tool_calls=[call(0, "a", name="read", arguments="{")]),
        chunk(tool_calls=[call(0, "", name="", arguments="}")]),
        STOP,
    )
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [("a", "read", "{}")]


def test_arguments_may_come_as_an_object_and_keep_their_text() -> None:
    raw = sse(chunk(tool_calls=[call(0, "a", name="read")]), STOP, done=True)
    raw = raw.replace(b'"name":"read"', b'"name":"read","arguments":{"p" : 1.0}')
    [found] = assemble_message(decode_events(openai_chat, raw)).tool_calls
    assert found.arguments == '{"p" : 1.0}'


def test_arguments_that_are_not_json_make_an_invalid_call() -> None:
    message = decode(chunk(tool_calls=[call(0, "a", name="read", arguments='{"p":')]), STOP)
    [found] = message.tool_calls
    assert isinstance(found, InvalidToolCall)
    assert (found.id, found.arguments) == ("a", '{"p":')


def test_a_legacy_function_call_is_a_call() -> None:
    message = decode(
        chunk(function_call={"name": "read", "arguments": '{"p"'}),
        chunk(function_call={"arguments": ":1}"}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]},
    )
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("read", '{"p":1}')]
    assert message.stop_reason is StopReason.TOOL_USE


def test_a_function_call_of_empty_strings_is_ignored() -> None:
    message = decode(chunk(content="Hi", function_call={"name": "", "arguments": ""}), STOP)
    assert message.tool_calls == ()


def test_a_seal_finds_the_thinking_and_not_a_call_of_the_same_number() -> None:
    details = [{"type": "reasoning.text", "text": "Hm", "signature": "c2ln"}]
    message = decode(
        chunk(reasoning="Hm", reasoning_details=details),
        chunk(tool_calls=[call(0, "a", name="read", arguments="{}")]),
        chunk(tool_calls=[call(1, "b", name="read", arguments="{}")]),
        STOP,
    )
    assert [block.seal is not None for block in message.content] == [True, False, False]


GOOGLE = {"google": {"thought_signature": "s"}}


def test_members_of_a_call_that_we_have_no_name_for_go_with_it() -> None:
    message = decode(
        chunk(tool_calls=[call(0, "a", name="read", arguments="{}") | {"extra_content": GOOGLE}]),
        chunk(
            tool_calls=[
                {"index": 1, "id": "b", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
            ]
        ),
        chunk(tool_calls=[{"index": 1, "custom": {"input": "ect 1"}}]),
        STOP,
    )
    first, second = message.tool_calls
    assert first.extras == {"openai_chat": {"extra_content": GOOGLE}}
    assert (second.name, second.arguments) == ("sql", "select 1")
    assert second.extras == {"openai_chat": {"type": "custom"}}


def test_members_of_a_call_in_a_whole_answer_go_with_it_and_back() -> None:
    calls = [
        call(None, "a", name="read", arguments="{}")
        | {"type": "function", "extra_content": GOOGLE},
        call(None, "b", name="read", arguments="{}") | {"type": "function"},
        {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    found = openai_chat.decode_response(msgspec.json.encode(answer))
    assert [len(call.extras or {}) for call in found.tool_calls] == [1, 0, 1]
    request = Request(model="m", messages=(ChatMessage.user("Well?"), found))
    assert openai_chat.encode_request(request).json["messages"][1] == message


@pytest.mark.parametrize(
    "more",
    [{}, {"id": "a"}, {"extra_content": GOOGLE}, {"id": "a", "extra_content": GOOGLE}],
    ids=["bare", "id", "members", "both"],
)
def test_members_of_a_call_without_an_index_go_with_it(more: dict[str, Any]) -> None:
    first = call(None, "a", name="read", arguments='{"p"') | {"extra_content": GOOGLE}
    message = decode(
        chunk(tool_calls=[first]),
        chunk(tool_calls=[call(None, arguments=":1}") | more]),
        chunk(tool_calls=[call(None, "b", name="read", arguments="{}") | {"novel": 1}]),
        STOP,
    )
    assert [(call.id, call.arguments, call.extras) for call in message.tool_calls] == [
        ("a", '{"p":1}', {"openai_chat": {"extra_content": GOOGLE}}),
        ("b", "{}", {"openai_chat": {"novel": 1}}),
    ]


def test_members_of_one_call_do_not_take_its_arguments_to_another() -> None:
    message = decode(
        chunk(tool_calls=[call(None, "a", name="f", arguments="{") | {"odd": 1}]),
        chunk(tool_calls=[call(None, arguments="}")]),
        chunk(tool_calls=[call(None, "b", name="g", arguments="{")]),
        chunk(tool_calls=[call(None, arguments="}") | {"odd": 2}]),
        STOP,
    )
    assert [(call.id, call.arguments, call.extras) for call in message.tool_calls] == [
        ("a", "{}", {"openai_chat": {"odd": 1}}),
        ("b", "{}", {"openai_chat": {"odd": 2}}),
    ]


def whole(*calls: dict[str, Any]) -> AssistantMessage:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    return openai_chat.decode_response(msgspec.json.encode(answer))


def sent_back(message: AssistantMessage) -> list[dict[str, Any]]:
    request = Request(model="m", messages=(ChatMessage.user("Well?"), message))
    calls: list[dict[str, Any]] = openai_chat.encode_request(request).json["messages"][1][
        "tool_calls"
    ]
    return calls


def test_calls_with_and_without_an_id_are_as_many_as_came() -> None:
    nameless = call(None, name="f", arguments="{}") | {"odd": 1}
    message = whole(nameless, nameless | {"id": "0"}, nameless | {"id": "1"})
    assert [call.extras for call in message.tool_calls] == [{"openai_chat": {"odd": 1}}] * 3


def test_members_of_a_function_go_back_into_it() -> None:
    said = {"id": "a", "type": "function"}
    function = {"name": "f", "arguments": "{}", "sig": "s", "id": "x", "type": "t"}
    assert sent_back(whole(said | {"function": function})) == [said | {"function": function}]


def test_an_invalid_id_is_not_sent_back_beside_the_generated_one() -> None:
    message = whole({"id": 5, "type": "function", "function": {"name": "f", "arguments": "{}"}})
    [call] = message.tool_calls
    assert [sent["id"] for sent in sent_back(message)] == [call.id]


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning"])
def test_a_character_that_was_cut_in_two_is_whole_again(name: str) -> None:
    body = sse(chunk(**{name: "FIRST"}), chunk(**{name: "SECOND"}), STOP, done=True)
    body = body.replace(b"FIRST", b"\\ud83d").replace(b"SECOND", b"\\ude00")
    [block] = assemble_message(decode_events(openai_chat, body)).content
    assert isinstance(block, Text | Thinking)
    assert block.text == "\U0001f600"


def test_metadata_in_parts_is_joined() -> None:
    decoder = openai_chat.StreamDecoder()
    chunks = [chunk(content=word, annotations=[word]) for word in "ab"]
    for number, found in enumerate(chunks):
        found["choices"][0]["logprobs"] = {"content": [number]}
    nothing_new = chunk(content="c")
    nothing_new["choices"][0]["logprobs"] = {"content": None, "refusal": [2]}
    list(decoder.feed(sse(*chunks, nothing_new, STOP, done=True)))
    assert decoder.envelope["annotations"] == ["a", "b"]
    assert decoder.envelope["logprobs"] == {"content": [0, 1], "refusal": [2]}


@pytest.mark.parametrize("sources", [None, [], "none", {}])
def test_empty_sources_are_not_sent_back(sources: object) -> None:
    assert decode(chunk(content="Hi", annotations=sources), STOP).extras is None


def test_different_thinking_in_two_members_is_sent_once_and_kept_as_metadata() -> None:
    decoder = openai_chat.StreamDecoder()
    chunks = [chunk(reasoning_content=word, reasoning=f"{word}!") for word in ("Hm", " so")]
    alike = chunk(reasoning_content=" it is", reasoning=" it is")
    message = assemble_message(list(decoder.feed(sse(*chunks, alike, STOP, done=True))))
    assert message.content == (Thinking("Hm so it is"),)
    assert decoder.envelope["reasoning"] == "Hm! so!"


def test_audio_is_kept_and_its_id_is_sent_back() -> None:
    decoder = openai_chat.StreamDecoder()
    parts: list[dict[str, Any]] = [
        {"id": "audio_1", "transcript": "Good "},
        {"transcript": "day", "data": "AAAA"},
        {"data": "BBBB"},
        {"expires_at": 7},
    ]
    events = list(decoder.feed(sse(*[chunk(audio=part) for part in parts], STOP, done=True)))
    spoken = {"id": "audio_1", "transcript": "Good day", "data": "AAAABBBB", "expires_at": 7}
    assert decoder.envelope["audio"] == spoken
    assert assemble_message(events).extras == {"openai_chat": {"audio": {"id": "audio_1"}}}


def test_the_model_is_taken_from_the_first_chunk_that_names_it() -> None:
    decoder = openai_chat.StreamDecoder()
    prompt = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    list(decoder.feed(sse(prompt, chunk(content="Hi"), chunk(content="!") | {"model": "m-2"})))
    envelope = decoder.envelope
    assert (envelope["id"], envelope["model"]) == ("chatcmpl-1", "m-1")
    assert envelope["prompt_filter_results"] == [{"prompt_index": 0}]


def test_separately_counted_thinking_is_part_of_the_output() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 115,
        "completion_tokens_details": {"reasoning_tokens": 100},
    }
    assert decode(chunk(content="Hi"), STOP, {"choices": [], "usage": usage}).usage == Usage(
        input_tokens=10, output_tokens=105, thinking_tokens=100
    )


# -- the end -------------------------------------------------------------------------------------


def test_usage_may_come_in_a_chunk_of_its_own() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    message = decode(chunk(content="Hi"), STOP, {"choices": [], "usage": usage})
    assert message.usage == Usage(
        input_tokens=100, output_tokens=20, cache_read_tokens=64, thinking_tokens=5
    )


def test_usage_may_stand_where_only_groq_puts_it() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "queue_time": 0.1}
    message = decode(chunk(content="Hi"), STOP | {"x_groq": {"usage": usage}})
    assert message.usage == Usage(input_tokens=7, output_tokens=2)


def test_the_end_may_come_without_a_mark() -> None:
    assert decode(chunk(content="Hi"), STOP, done=False).stop_reason is StopReason.END_TURN


def test_the_mark_may_come_without_a_reason() -> None:
    message = decode(chunk(content="Hi"))
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.UNKNOWN, None)


def test_a_stream_that_is_cut_is_cut_short_and_keeps_its_events() -> None:
    decoder = openai_chat.StreamDecoder()
    events = list(decoder.feed(sse(chunk(content="Hal"))))
    with pytest.raises(CutShort):
        list(decoder.close())
    assert assemble_message(events).text == "Hal"
    assert list(decoder.close()) == []


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("length", StopReason.LENGTH),
        ("tool_calls", StopReason.TOOL_USE),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("something new", StopReason.UNKNOWN),
    ],
)
def test_a_reason_is_mapped_and_kept(reason: str, ours: StopReason) -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    message = decode(chunk(content="Hi"), end)
    assert (message.stop_reason, message.raw_stop_reason) == (ours, reason)


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        sse({"error": {"message": "engine died", "type": "server_error", "code": 500}}),
        b'event: error\ndata: {"error":{"message":"engine died","code":"500"}}\n\n',
        b'event: error\ndata: {"message":"engine died","code":500}\n\n',
        sse({"choices": [{"index": 0, "error": {"message": "engine died", "code": 500}}]}),
    ],
    ids=["data", "named", "bare", "in a choice"],
)
def test_an_error_after_200_is_raised_after_the_events_before_it(body: bytes) -> None:
    decoder = openai_chat.StreamDecoder()
    events = decoder.feed(sse(chunk(content="Hal")) + body)
    assert next(events) == TextDelta(0, "Hal")
    with pytest.raises(ProviderError) as caught:
        next(events)
    assert (caught.value.message, caught.value.status) == ("engine died", 200)
    assert caught.value.retryable
    assert list(decoder.close()) == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"nonsense", "not_json"),
        (b"[1]", "unexpected_type"),
        (b'{"choices":7}', "choices_not_a_list"),
        (b'{"choices"', "not_json"),
        (b"\xff", "not_utf8"),
    ],
)
def test_invalid_bytes_are_a_protocol_error(data: bytes, code: str) -> None:
    decoder = openai_chat.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(b"data: " + data + b"\n\n"))
    assert caught.value.code == code
    assert list(decoder.close()) == []


def test_the_error_does_not_quote_the_text() -> None:
    decoder = openai_chat.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(b'data: {"choices":"hunter2-secret"}\n\ndata: hunter2-secret\n\n'))
    assert "hunter2" not in str(caught.value)


# -- unknown members and events ------------------------------------------------------------------


def test_unknown_data_is_kept_for_the_log() -> None:
    decoder = openai_chat.StreamDecoder()
    odd = chunk(content="Hi", channel="final") | {"citations": ["https://example.org"]}
    events = list(decoder.feed(sse(odd, STOP, done=True)))
    assert assemble_message(events).text == "Hi"
    assert decoder.envelope == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "channel": "final",
        "citations": ["https://example.org"],
    }


def test_other_choices_are_kept_and_not_mixed_in() -> None:
    decoder = openai_chat.StreamDecoder()
    two = chunk(content="A")
    two["choices"].append({"index": 1, "delta": {"content": "B"}, "finish_reason": "length"})
    message = assemble_message(decoder.feed(sse(two, STOP, done=True)))
    assert (message.text, message.raw_stop_reason) == ("A", "stop")
    assert decoder.envelope["other_choices"] == [
        {"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}
    ]


# -- whole responses -----------------------------------------------------------------------------


@pytest.mark.requirement("S2-15")
def test_a_whole_answer_is_read_by_the_same_rules() -> None:
    answer = {
        "id": "chatcmpl-1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "Look first.",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "fs.read", "arguments": '{"path": "a"}'},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }
    message = openai_chat.decode_response(msgspec.json.encode(answer))
    thinking, found = message.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Look first."
    assert isinstance(found, ToolCall)
    assert (found.id, found.original_name) == ("call_1", "fs.read")
    assert found.parsed == {"path": "a"}
    assert message.usage == Usage(input_tokens=5, output_tokens=3)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", "not_json"),
        ("[]", "unexpected_type"),
        ("{}", "choices_missing"),
        ('{"choices": []}', "choices_missing"),
        ('{"choices": [7]}', "choices_not_a_list"),
    ],
)
def test_other_json_than_a_response_is_a_protocol_error(data: str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        openai_chat.decode_response(data)
    assert caught.value.code == code


def test_an_error_in_place_of_a_response_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        openai_chat.decode_response('{"error": {"message": "no such model"}}')
    assert caught.value.message == "no such model"
