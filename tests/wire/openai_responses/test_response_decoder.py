"""OpenAI's responses as servers send them."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import msgspec
import pytest

from steno import (
    ChatMessage,
    InvalidToolCall,
    Opaque,
    ProtocolError,
    ProviderError,
    Request,
    Seal,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Usage,
)
from steno.assemble import ToolCallPart
from steno.errors import CutShort, RateLimited
from steno.wire import openai_responses
from tests.wire.decode_helpers import assemble_message, decode_events, sse
from tests.wire.openai_responses.response_events import (
    NAME,
    added,
    arguments_delta,
    call,
    created,
    decode,
    done,
    end,
    event,
    extras_of,
    message,
    reasoning,
    refusal_delta,
    summary_delta,
    text_delta,
    text_part,
    whole,
)

# -- text and thinking ---------------------------------------------------------------------------


def test_text_arrives_piece_by_piece() -> None:
    item = message(text_part("Hello"))
    body = sse(
        created(),
        added(message()),
        text_delta("Hel"),
        text_delta("lo"),
        done(item),
        end("completed", item),
    )
    events = decode_events(openai_responses, body)
    assert events[:2] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    found = assemble_message(events)
    assert found.text == "Hello"
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.END_TURN, "completed")


def test_content_that_arrives_three_times_is_sent_once() -> None:
    thought, said, asked = reasoning("Hm"), message(text_part("Yes")), call('{"p":1}')
    found = decode(
        created(),
        *(added(reasoning()), summary_delta("Hm"), done(thought)),
        *(added(message(), 1), text_delta("Yes", 1), done(said, 1)),
        *(added(call(), 2), arguments_delta('{"p":1}', 2), done(asked, 2)),
        end("completed", thought, said, asked),
    )
    assert [type(block).__name__ for block in found.content] == ["Thinking", "Text", "ToolCall"]
    assert (found.content[0].text, found.text) == ("Hm", "Yes")
    assert [c.arguments for c in found.tool_calls] == ['{"p":1}']


def test_streamed_content_counts_if_the_end_repeats_nothing() -> None:
    found = decode(
        created(), added(message()), text_delta("Hi"), done(message(text_part("Hi"))), end()
    )
    assert found.text == "Hi"


def test_content_that_only_the_end_has_is_added() -> None:
    output = (reasoning("Hm"), message(text_part("Hi")), call("{}"))
    found = decode(created(), end("completed", *output))
    assert [type(block).__name__ for block in found.content] == ["Thinking", "Text", "ToolCall"]
    assert found == decode(*[done(item, n) for n, item in enumerate(output)], end())


def test_an_item_that_is_never_done_is_completed_by_the_end() -> None:
    item = message(text_part("Hi"), phase="final_answer")
    found = decode(added(message()), text_delta("Hi"), end("completed", item))
    assert found.text == "Hi"
    assert extras_of(found.content[0])["$item"]["phase"] == "final_answer"


def test_an_empty_done_item_does_not_remove_its_text() -> None:
    found = decode(added(message()), text_delta("Hi"), done(message()), end())
    assert found.content == (Text("Hi"),)


def test_parts_of_a_message_are_blocks_of_their_own() -> None:
    item = message(text_part("One"), text_part("Two"))
    parts = [
        event("content_part.added", output_index=0, content_index=n, part=text_part())
        for n in (0, 1)
    ]
    found = decode(
        added(message()),
        parts[0],
        text_delta("One"),
        parts[1],
        text_delta("Two", part=1),
        done(item),
        end(),
    )
    assert [block.text for block in found.content] == ["One", "Two"]
    assert found.text == "OneTwo"


def test_a_part_may_be_counted_from_anywhere() -> None:
    found = decode(
        added(message()), text_delta("Hi", part=1), done(message(text_part("Hi"))), end()
    )
    assert found.text == "Hi"


def test_an_empty_delta_adds_no_event() -> None:
    found = decode(added(message()), text_delta(""), done(message(text_part("Hi"))), end())
    assert found.text == "Hi"


def test_citations_and_members_of_the_item_stay_with_the_text() -> None:
    citation = {"type": "url_citation", "url": "https://example.org", "start_index": 0}
    part = text_part("See there.", annotations=[citation], logprobs=[])
    [text] = decode(done(message(part, phase="commentary")), end()).content
    assert extras_of(text) == {
        "$item": {"id": "msg_1", "status": "completed", "phase": "commentary"},
        "$form": {"item": "message"},
        "annotations": [citation],
        "logprobs": [],
    }


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    body = sse(created(), text_delta("<"), text_delta(">"), end())
    body = body.replace(b"<", rb"\ud83d").replace(b">", rb"\ude00")
    assert assemble_message(decode_events(openai_responses, body)).text == "\N{GRINNING FACE}"


def test_a_lone_surrogate_beside_a_number_that_python_cannot_read_is_replaced() -> None:
    body = sse(created(), text_delta("a<"), end())
    body = body.replace(b'a<"', rb'a\ud83d","zz":' + b"1" * 5000)
    assert (
        assemble_message(decode_events(openai_responses, body)).text == "a\N{REPLACEMENT CHARACTER}"
    )


# -- ids and indexes -----------------------------------------------------------------------------


def test_indexes_may_be_missing() -> None:
    """llama.cpp sends ids without indexes."""
    asked = call('{"p":1}')
    body = [
        event("output_item.added", item=message()),
        event("output_text.delta", item_id="msg_1", delta="Hi"),
        event("output_item.done", item=message(text_part("Hi"))),
        event("output_item.added", item=call()),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"p":1}'),
        event("output_item.done", item=asked),
        end("completed", message(text_part("Hi")), asked),
    ]
    found = decode(*body)
    assert found.text == "Hi"
    assert [(c.id, c.arguments) for c in found.tool_calls] == [("call_1", '{"p":1}')]


def test_every_event_may_have_a_new_id() -> None:
    """GitHub Copilot sends a new id with each event."""
    found = decode(
        *(added(message(id="a")), text_delta("Hel", id="b"), text_delta("lo", id="c")),
        done(message(text_part("Hello"), id="d")),
        *(added(call(id="e"), 1), arguments_delta("{}", 1, id="f"), done(call("{}", id="g"), 1)),
        end("completed", message(text_part("Hello"), id="h"), call("{}", id="i")),
    )
    assert found.text == "Hello"
    assert [(c.id, extras_of(c)["id"]) for c in found.tool_calls] == [("call_1", "g")]


def test_two_items_may_share_an_index() -> None:
    """Some servers count messages and calls separately."""
    found = decode(
        *(
            added(message()),
            added(call()),
            text_delta("Hel"),
            arguments_delta("{"),
            text_delta("lo"),
            arguments_delta("}"),
        ),
        *(done(message(text_part("Hello"))), done(call("{}"))),
        end("completed", message(text_part("Hello")), call("{}")),
    )
    assert found.text == "Hello"
    assert [c.arguments for c in found.tool_calls] == ["{}"]


# -- thinking ------------------------------------------------------------------------------------


def test_summaries_are_joined_and_their_parts_kept() -> None:
    item = reasoning("One.", "Two.", encrypted_content="gAAA", content=[])
    body = (
        created(),
        added(reasoning()),
        summary_delta("One."),
        summary_delta("Two.", part=1),
        done(item),
        end(),
    )
    [thinking] = decode(*body, model="m-1").content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "One.Two."
    assert thinking.seal == Seal(data="gAAA", provider="openai", api=NAME, model="m-1")
    assert extras_of(thinking) == {"id": "rs_1", "summary": item["summary"], "content": []}


def test_a_seal_is_taken_from_the_item_that_is_done() -> None:
    found = decode(
        created(),
        added(reasoning(encrypted_content="first")),
        done(reasoning(encrypted_content="second")),
        end("completed", reasoning(encrypted_content="third")),
    )
    [thinking] = found.content
    assert (thinking.text, thinking.seal.data) == ("", "second")
    assert thinking.seal.model == "m-1-2026"


def test_raw_thinking_is_thinking() -> None:
    item = reasoning(content=[{"type": "reasoning_text", "text": "Hm"}])
    delta = event("reasoning_text.delta", output_index=0, content_index=0, delta="Hm")
    events = decode_events(openai_responses, sse(delta, done(item), end()))
    assert events[0] == ThinkingDelta(0, "Hm")
    assert assemble_message(events) == whole(item)


def test_thinking_in_both_places_is_sent_once() -> None:
    [thinking] = whole(reasoning("Hm", content=[{"type": "reasoning_text", "text": "Hm"}])).content
    assert thinking.text == "Hm"


def test_thinking_without_text_is_kept_for_its_id() -> None:
    [thinking] = whole(reasoning()).content
    assert thinking == Thinking("", extras={NAME: {"id": "rs_1"}})


# -- calls ---------------------------------------------------------------------------------------


def test_a_call_has_two_ids() -> None:
    item = call('{"p" : 1}', namespace="fs")
    body = sse(added(call()), arguments_delta('{"p" '), arguments_delta(": 1}"), done(item), end())
    events = decode_events(openai_responses, body)
    assert events[:2] == [
        ToolCallPart(0, "call_1", "read", starts=True),
        ToolCallPart(0, None, None, '{"p" '),
    ]
    found = assemble_message(events)
    [asked] = found.tool_calls
    assert (asked.id, asked.name, asked.arguments) == ("call_1", "read", '{"p" : 1}')
    assert extras_of(asked) == {"id": "fc_1", "status": "completed", "namespace": "fs"}
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.TOOL_USE, "completed")


def test_arguments_may_come_whole() -> None:
    found = decode(added(call('{"p":1}')), done(call('{"p":1}')), end())
    assert [c.arguments for c in found.tool_calls] == ['{"p":1}']


def test_a_call_may_come_without_a_beginning() -> None:
    found = decode(arguments_delta('{"p":1}'), done(call('{"p":1}')), end())
    assert [(c.id, c.name, c.arguments) for c in found.tool_calls] == [
        ("call_1", "read", '{"p":1}')
    ]


def test_a_call_without_an_id_gets_one() -> None:
    item = {"type": "function_call", "name": "read", "arguments": "{}"}
    [asked] = decode(done(item), end()).tool_calls
    assert (asked.id, asked.name) == ("made_up", "read")


def test_arguments_that_are_not_json_make_an_invalid_call() -> None:
    [asked] = decode(added(call()), arguments_delta('{"p":'), done(call('{"p":')), end()).tool_calls
    assert isinstance(asked, InvalidToolCall)
    assert (asked.id, asked.arguments) == ("call_1", '{"p":')


# -- unknown members and events ------------------------------------------------------------------


def test_server_tools_stand_where_they_were_used() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = decode(
        *(added(search), event("web_search_call.searching", output_index=0, item_id="ws_1")),
        done(search),
        *(added(message(), 1), text_delta("Found.", 1), done(message(text_part("Found.")), 1)),
        end("completed", search, message(text_part("Found."))),
    )
    opaque, text = found.content
    assert isinstance(opaque, Opaque)
    assert (opaque.kind, opaque.origin) == ("web_search_call", NAME)
    assert msgspec.json.decode(opaque.raw) == search
    assert text.text == "Found."


def test_an_unknown_event_is_kept() -> None:
    odd = event("hologram.delta", output_index=0, delta={"x": 1})
    found = decode(odd, event("hologram.done"), text_delta("Hi"), end())
    assert [block.kind for block in found.content[:2]] == [
        *("event:response.hologram.delta", "event:response.hologram.done"),
    ]
    assert msgspec.json.decode(found.content[0].raw) == odd
    assert found.text == "Hi"


def test_progress_events_add_nothing() -> None:
    kinds = ("in_progress", "queued", "content_part.done", "output_text.done", "mcp_call.completed")
    steps = [event(kind, output_index=0, item_id="x") for kind in kinds]
    assert decode({"type": "ping", "cost": "0"}, *steps, text_delta("Hi"), end()).content == (
        Text("Hi"),
    )


def test_metadata_of_a_response_is_kept_for_the_log() -> None:
    decoder = openai_responses.StreamDecoder()
    list(decoder.feed(sse(created())))
    assert decoder.envelope == {"id": "resp_1", "model": "m-1-2026"}
    odd = text_delta("Hi") | {"model": "proxy", "shard": 7}
    list(
        decoder.feed(
            sse(odd, end(store=False) | {"timings": {"n": 1}}, {"type": "ping", "cost": "0"})
        )
    )
    assert decoder.envelope == {
        "id": "resp_1",
        "model": "m-1-2026",
        "status": "completed",
        "store": False,
        "timings": {"n": 1},
        "shard": 7,
        "cost": "0",
    }


# -- refusals ------------------------------------------------------------------------------------


def test_a_refusal_is_kept_but_not_as_text() -> None:
    item = message({"type": "refusal", "refusal": "I will not."})
    found = decode(
        added(message()), refusal_delta("I will"), refusal_delta(" not."), done(item), end()
    )
    assert found.text is None
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.CONTENT_FILTER, "completed")
    [opaque] = found.content
    assert msgspec.json.decode(opaque.raw) == {"type": "refusal", "refusal": "I will not."}
    assert found == whole(item)


def test_a_refusal_that_is_cut_is_kept_too() -> None:
    decoder = openai_responses.StreamDecoder()
    assert list(decoder.feed(sse(added(message()), refusal_delta("I wi")))) == []
    closing = decoder.close()
    [opaque] = assemble_message([next(closing)]).content
    assert isinstance(opaque, Opaque)
    assert msgspec.json.decode(opaque.raw) == {"type": "refusal", "refusal": "I wi"}
    with pytest.raises(CutShort):
        next(closing)


def test_a_refusal_of_many_pieces_is_joined_and_so_are_halves_of_characters() -> None:
    pieces = ["No ", *["no "] * 500, "\ud83d", "\ude00", " \ud83d"]
    payloads = [json.dumps(refusal_delta(piece)).encode() for piece in pieces]
    body = b"".join([b"data: " + payload + b"\n\n" for payload in payloads])
    [opaque] = assemble_message(decode_events(openai_responses, body, sse(end()))).content
    assert isinstance(opaque, Opaque)
    said = msgspec.json.decode(opaque.raw)["refusal"]
    assert said == "No " + "no " * 500 + "😀 \N{REPLACEMENT CHARACTER}"


# -- the end -------------------------------------------------------------------------------------


def test_usage_is_read_as_it_is() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    assert decode(text_delta("Hi"), end(usage=usage)).usage == Usage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=64,
        cache_write_tokens=8,
        thinking_tokens=5,
    )
    assert decode(text_delta("Hi"), end(usage=None)).usage is None
    assert decode(text_delta("Hi"), end(usage={"input_tokens": 0})).usage == Usage(input_tokens=0)


@pytest.mark.requirement("S4-09")
@pytest.mark.parametrize(
    ("status", "reason", "ours", "raw"),
    [
        ("incomplete", "max_output_tokens", StopReason.LENGTH, "incomplete"),
        ("incomplete", "content_filter", StopReason.CONTENT_FILTER, "incomplete"),
        ("incomplete", "something new", StopReason.UNKNOWN, "something new"),
        ("incomplete", None, StopReason.UNKNOWN, "incomplete"),
        ("incomplete", 7, StopReason.UNKNOWN, "incomplete"),
        ("cancelled", None, StopReason.ABORTED, "cancelled"),
    ],
)
def test_a_status_or_an_unknown_reason_is_mapped_and_kept(
    status: str, reason: object, ours: StopReason, raw: str
) -> None:
    found = decode(text_delta("Hi"), end(status, incomplete_details={"reason": reason}))
    assert (found.stop_reason, found.raw_stop_reason) == (ours, raw)


def test_a_completed_event_may_have_an_incomplete_response() -> None:
    """vLLM ends every stream with the same event."""
    details = {"reason": "max_output_tokens"}
    last = end("completed", incomplete_details=details)
    last["response"]["status"] = "incomplete"
    found = decode(text_delta("Hi"), last)
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.LENGTH, "incomplete")


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_has_not_begun_is_a_pause(status: str) -> None:
    found = whole(status=status)
    assert (found.content, found.stop_reason, found.raw_stop_reason) == (
        (),
        StopReason.PAUSE,
        status,
    )


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n", b'event: ping\ndata: {"type":"ping"}'])
def test_more_may_follow_the_end(tail: bytes) -> None:
    assert (
        assemble_message(decode_events(openai_responses, sse(text_delta("Hi"), end()) + tail)).text
        == "Hi"
    )


@pytest.mark.parametrize(
    "tail", [b"", b'data: {"type":"resp', b"data: [DONE]\n\n", b"event: x\nda"]
)
def test_a_stream_that_is_cut_is_cut_short_and_keeps_its_events(tail: bytes) -> None:
    decoder = openai_responses.StreamDecoder()
    events = list(decoder.feed(sse(created(), added(message()), text_delta("Hal")) + tail))
    with pytest.raises(CutShort):
        list(decoder.close())
    assert assemble_message(events).content == (Text("Hal"),)
    assert list(decoder.close()) == []


# -- pieces --------------------------------------------------------------------------------------

STREAM = sse(
    created(),
    *(
        added(reasoning()),
        summary_delta("H"),
        summary_delta("m"),
        done(reasoning("Hm", encrypted_content="gAAA")),
    ),
    *(
        added(message(), 1),
        text_delta("Hé", 1),
        text_delta("\u2028", 1),
        done(message(text_part("Hé\u2028")), 1),
    ),
    *(added(call(), 2), arguments_delta("{", 2), arguments_delta("}", 2), done(call("{}"), 2)),
    event("hologram"),
    end("completed", usage={"input_tokens": 1}),
)


@pytest.mark.parametrize("body", [STREAM, STREAM[:-200], STREAM + b"data: nonsense\n\n"])
def test_chunking_does_not_change_the_events(body: bytes) -> None:
    named = body.replace(b"data: ", b"event: x\ndata: ")
    for other in (
        body,
        body.replace(b"\n", b"\r\n"),
        body.replace(b"\n\n", b"\n\n: hi\n\n"),
        named,
    ):
        for size in (1, 2, 3, 7, 64, len(other)):
            assert decode_in_pieces(other, size) == decode_in_pieces(body, len(body))


def decode_in_pieces(body: bytes, size: int) -> tuple[list[Any], str]:
    decoder = openai_responses.StreamDecoder()
    events: list[Any] = []
    try:
        for start in range(0, len(body), size):
            events += decoder.feed(body[start : start + size])
        events += decoder.close()
    except ProtocolError as error:
        return events, repr(error)
    return events, ""


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        sse({"error": {"message": "engine died", "type": "server_error", "code": 500}}),
        sse({"type": "error", "error": {"message": "engine died", "code": "server_error"}}),
        sse({"type": "error", "code": "server_error", "message": "engine died", "param": None}),
        b'event: error\ndata: {"message":"engine died","code":500}\n\n',
        sse(end("failed", error={"code": "server_error", "message": "engine died"})),
    ],
    ids=["data", "nested", "flat", "named", "failed"],
)
def test_an_error_after_200_is_raised_after_the_events_before_it(body: bytes) -> None:
    decoder = openai_responses.StreamDecoder()
    events = chain(decoder.feed(sse(text_delta("Hal")) + body), decoder.close())
    assert next(events) == TextDelta(0, "Hal")
    with pytest.raises(ProviderError) as caught:
        list(events)
    assert (caught.value.message, caught.value.status) == ("engine died", 200)
    assert caught.value.retryable


def test_an_error_that_is_reported_twice_is_raised_after_the_end() -> None:
    """OpenAI sends an event for the error and repeats it in the last event."""
    error = {"type": "tokens", "code": "rate_limit_exceeded", "message": "too much"}
    failed = {"code": "rate_limit_exceeded", "message": "too much"}
    body = sse(text_delta("Hal"), {"type": "error", "error": error}, end("failed", error=failed))
    events = openai_responses.StreamDecoder().feed(body)
    found = assemble_message([next(events), next(events)])
    assert found.text == "Hal"
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.ERROR, "failed")
    with pytest.raises(RateLimited) as caught:
        next(events)
    assert caught.value.provider_code == "rate_limit_exceeded"


def test_a_failure_without_a_reason_is_an_error() -> None:
    with pytest.raises(ProviderError):
        decode(text_delta("Hal"), end("failed", error=None))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"nonsense", "not_json"),
        (b"[1]", "unexpected_type"),
        (b"\xff", "not_utf8"),
        (b'{"type":"response.output_item.done"}', "unexpected_type"),
        (b'{"type":"response.output_text.delta","delta":7}', "unexpected_type"),
        (b'{"type":"hologram","x":"\xff"}', "not_utf8"),
        (
            b'{"type":"response.output_item.done","item":' + b'{"a":' * 300 + b"1" + b"}" * 301,
            "nested_too_deeply",
        ),
    ],
)
def test_invalid_bytes_are_a_protocol_error(data: bytes, code: str) -> None:
    decoder = openai_responses.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(b"data: " + data + b"\n\n"))
    assert (caught.value.code, caught.value.place) == (code, NAME)
    assert list(decoder.close()) == []


def test_the_error_does_not_quote_the_text() -> None:
    decoder = openai_responses.StreamDecoder()
    with pytest.raises(ProtocolError) as caught:
        list(decoder.feed(b'data: {"type":"response.output_item.done","item":"hunter2"}\n\n'))
    assert "hunter2" not in str(caught.value)


# -- whole responses -----------------------------------------------------------------------------


def test_a_whole_answer_is_read_by_the_same_rules() -> None:
    output = (reasoning("Hm", encrypted_content="gAAA"), message(text_part("Hi")), call("{}"))
    usage = {"input_tokens": 5, "output_tokens": 3}
    found = whole(*output, usage=usage)
    assert found == decode(end("completed", *output, usage=usage), model="m-1")
    assert found.stop_reason is StopReason.TOOL_USE


def test_a_whole_answer_may_hold_an_error() -> None:
    with pytest.raises(ProviderError) as caught:
        openai_responses.decode_response('{"error":{"message":"no credit","type":"x"}}')
    assert (caught.value.message, caught.value.provider_type) == ("no credit", "x")
    with pytest.raises(RateLimited) as caught:
        whole(status="failed", error={"code": "rate_limit_exceeded", "message": "too much"})
    assert caught.value.message == "too much"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", "not_json"),
        ("[]", "unexpected_type"),
        ("{}", "output_missing"),
        ('{"choices":[]}', "output_missing"),
        (b'{"output":"\xff"}', "not_utf8"),
    ],
)
def test_other_json_than_a_response_is_a_protocol_error(data: bytes | str, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        openai_responses.decode_response(data)
    assert (caught.value.code, caught.value.place) == (code, NAME)


def test_a_lone_surrogate_is_replaced() -> None:
    body = b'{"status":"completed","output":[{"type":"message","role":"assistant","content":"<"}]}'
    found = openai_responses.decode_response(body.replace(b"<", rb"a\ud83d"))
    assert found.text == "a\ufffd"


def test_a_seal_is_sent_back_if_no_model_was_requested() -> None:
    item = reasoning("Hm", encrypted_content="s1")
    turn = decode(created(), done(item), done(call("{}"), 1), end(), model="")
    request = Request(messages=(ChatMessage.user("Hi"), turn), model="")
    found = openai_responses.encode_request(request)
    assert found.json["input"][1] == item
    assert found.losses == ()
