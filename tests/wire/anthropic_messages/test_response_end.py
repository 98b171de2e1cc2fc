"""Anthropic's Messages: the end of a response, errors, and invalid bytes."""

from __future__ import annotations

from typing import Any

import pytest

from steno import (
    ChatMessage,
    Opaque,
    ProtocolError,
    ProviderError,
    Request,
    StopReason,
    TextDelta,
    Usage,
)
from steno.assemble import WireEvent
from steno.errors import CutShort, Overloaded
from steno.wire import anthropic_messages
from steno.wire.anthropic_messages import NAME, StreamDecoder, decode_response
from tests.wire.anthropic_messages.response_events import (
    FOUND,
    SEARCH,
    START,
    STOP,
    delta,
    end,
    less,
    read,
    start,
    stop,
    text,
    whole,
)
from tests.wire.decode_helpers import assemble_message, decode_events, sse

# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("end_turn", StopReason.END_TURN),
        ("stop_sequence", StopReason.END_TURN),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("tool_use", StopReason.TOOL_USE),
        ("refusal", StopReason.CONTENT_FILTER),
        ("pause_turn", StopReason.PAUSE),
        ("compaction", StopReason.PAUSE),
        ("by_the_moon", StopReason.UNKNOWN),
    ],
)
def test_reasons_are_mapped_and_kept(raw: str, ours: StopReason) -> None:
    for message in (
        read(*text(0, "Hi"), end(raw)),
        whole({"type": "text", "text": "Hi"}, reason=raw),
    ):
        assert (message.stop_reason, message.raw_stop_reason) == (ours, raw)


def test_token_counts_are_totals_and_the_last_counts() -> None:
    usage = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 300,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 30},
    }
    assert read(*text(0, "Hi"), end(usage=usage)).usage == Usage(
        input_tokens=327,
        output_tokens=50,
        cache_read_tokens=300,
        cache_write_tokens=20,
        thinking_tokens=30,
    )


def test_missing_counts_keep_the_earlier_value_or_are_none() -> None:
    assert read(*text(0, "Hi"), end()).usage == Usage(input_tokens=10, output_tokens=5)
    null = {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5}
    assert read(*text(0, "Hi"), end(usage=null)).usage == Usage(input_tokens=10, output_tokens=5)
    body = sse(
        *text(0, "Hi"), {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP
    )
    assert assemble_message(decode_events(anthropic_messages, body)).usage is None


def test_null_does_not_replace_members_of_the_start() -> None:
    begun = START["message"] | {"container": {"id": "box_1"}, "stop_details": None}
    last = end() | {"context_management": None}
    last["delta"] |= {"container": None, "stop_details": None}
    body = sse({"type": "message_start", "message": begun}, *text(0, "Hi"), last, STOP)
    decoder = StreamDecoder()
    message = assemble_message(decoder.feed(body))
    assert decoder.envelope["container"] == {"id": "box_1"}
    assert decoder.envelope["stop_details"] is None
    assert message.extras == {NAME: {"$form": {"container": "box_1"}}}


def test_usage_before_a_response_broke_off_is_known() -> None:
    decoder = StreamDecoder()
    assert decoder.usage is None
    list(decoder.feed(sse(START, *text(0, "Hi"))))
    assert decoder.usage == Usage(input_tokens=10, output_tokens=1)
    with pytest.raises(CutShort):
        list(decoder.close())
    assert decoder.usage == Usage(input_tokens=10, output_tokens=1)


def test_the_count_as_it_was_is_kept_beside_the_message() -> None:
    decoder = StreamDecoder()
    tokens = {"output_tokens": 5, "server_tool_use": {"web_search_requests": 1}}
    list(decoder.feed(sse(START, end(usage=tokens), STOP)))
    assert decoder.envelope["usage"] == {"input_tokens": 10} | tokens


def test_a_whole_answer_is_the_same_message_as_its_stream() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "text", "text": "Both."},
        SEARCH,
        FOUND,
        {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
    ]
    streamed = read(
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        *text(1, "Bo", "th."),
        start(2, **{"kind": "server_tool_use"} | less(SEARCH)),
        stop(2),
        start(3, **{"kind": "web_search_tool_result"} | less(FOUND)),
        stop(3),
        start(4, "tool_use", id="a", name="read", input={}),
        delta(4, "input_json_delta", partial_json='{"p":1}'),
        stop(4),
        end("tool_use", usage={"output_tokens": 1}),
    )
    assert whole(*blocks, reason="tool_use") == streamed


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "payload", "is_retryable"),
    [
        (
            b"error",
            {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
            True,
        ),
        (b"error", {"code": 500, "message": "busy"}, True),
        (b"error", {"code": 500, "message": "busy", "type": "server_error"}, True),
        (
            None,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "busy"}},
            False,
        ),
        (None, {"error": {"message": "busy"}}, False),
    ],
)
def test_an_error_inside_a_response_is_raised_after_the_events_before_it(
    event: bytes | None, payload: dict[str, Any], is_retryable: bool
) -> None:
    name = b"" if event is None else b"event: " + event + b"\n"
    decoder = StreamDecoder()
    events = decoder.feed(sse(START, delta(0, "text_delta", text="Hi")) + name + sse(payload))
    assert next(events) == TextDelta(0, "Hi")
    with pytest.raises(ProviderError) as caught:
        next(events)
    assert (caught.value.message, caught.value.status) == ("busy", 200)
    assert caught.value.retryable is is_retryable
    assert list(decoder.close()) == []


def test_an_error_in_place_of_a_whole_response_is_raised() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"r"}'
    with pytest.raises(Overloaded) as caught:
        decode_response(body)
    assert caught.value.message == "busy"
    error = anthropic_messages.decode_error(529, body)
    assert (error.provider_type, error.request_id, error.retryable) == (
        "overloaded_error",
        "r",
        True,
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b"no", "not_json"),
        (b"[]", "unexpected_type"),
        (b"{}", "content_missing"),
        (b'{"type":"message","content":null}', "content_missing"),
        (b'{"a":"\xff"}', "not_utf8"),
    ],
)
def test_other_json_than_a_response_is_refused_without_quoting_it(body: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_response(body)
    assert (caught.value.code, caught.value.place) == (code, NAME)
    assert "message" not in caught.value.message


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"{", "not_json"),
        (b"5", "unexpected_type"),
        (b"secret", "not_json"),
        (b'{"type":"message_delta","delta":{"a":"\xff"}}', "not_utf8"),
        (b'{"type":"content_block_start","index":0,"content_block":5}', "unexpected_type"),
        (
            b'{"type":"content_block_start","index":0,"content_block":{"type":"text","a":'
            + b"[" * 300
            + b"]" * 300
            + b"}}",
            "nested_too_deeply",
        ),
    ],
)
def test_invalid_bytes_are_an_error_after_the_events_before(payload: bytes, code: str) -> None:
    body = sse(START, delta(0, "text_delta", text="Hi")) + b"data: " + payload + b"\n\n"
    events = StreamDecoder().feed(body)
    assert next(events) == TextDelta(0, "Hi")
    with pytest.raises(ProtocolError) as caught:
        list(events)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)


def test_a_stream_that_ends_too_early_is_cut_short_and_keeps_its_events() -> None:
    search = [start(1, **{"kind": "server_tool_use"} | less(SEARCH))]
    search.append(delta(1, "input_json_delta", partial_json='{"que'))
    body = sse(START, start(0, "text", text="Hi"), stop(0), *search)
    for tail in (b"", b"data: {", b'event: content_block_delta\ndata: {"type":"cont'):
        events, error = decode_to_error(body + tail)
        assert isinstance(error, CutShort)
        message = assemble_message(events)
        assert message.text == "Hi"
        assert [block.kind for block in message.content if isinstance(block, Opaque)] == [
            "event:server_tool_use"
        ]


def test_the_last_event_may_be_missing_or_lack_its_end() -> None:
    body = sse(START, *text(0, "Hi"), end())
    for tail in (
        b"",
        b'event: message_stop\ndata: {"type":"mess',
        b"data: [DONE]\n\n",
        sse(STOP)[:-2],
    ):
        events, error = decode_to_error(body + tail)
        assert error is None
        assert assemble_message(events).stop_reason is StopReason.END_TURN


# -- pieces --------------------------------------------------------------------------------------

RICH = sse(
    START,
    start(0, "thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="ü"),
    delta(0, "signature_delta", signature="c2ln"),
    stop(0),
    *text(1, "a\u2028b", "😀"),
    start(2, **{"kind": "server_tool_use"} | less(SEARCH)),
    delta(2, "input_json_delta", partial_json='{"query":"ü"}'),
    stop(2),
    start(3, "tool_use", id="a", name="read", input={}),
    delta(3, "input_json_delta", partial_json="{}"),
    stop(3),
    {"type": "hologram", "light": 7},
    end("tool_use"),
    STOP,
)


HALF = RICH.index(b"\n\n", 500) + 2


@pytest.mark.parametrize("body", [RICH, RICH[:-200], RICH[:HALF] + b"data: {\n\n" + RICH[HALF:]])
def test_events_and_errors_do_not_depend_on_the_pieces(body: bytes) -> None:
    events, error = decode_to_error(body)
    ways = [
        [body[at : at + 1] for at in range(len(body))],
        [body[at : at + 97] for at in range(0, len(body), 97)],
        [body.replace(b"\n", b"\r\n")],
        [body.replace(b"\n\n", b"\n\n: still here\n\n")],
        [body.replace(b"data: ", b"event: some_name\ndata: ")],
    ]
    ways += [[body[:at], body[at:]] for at in range(len(body))]
    for pieces in ways:
        found, other = decode_to_error(*pieces)
        assert found == events
        assert (type(other), str(other)) == (type(error), str(error))


def test_wherever_a_stream_ends_there_is_a_message() -> None:
    for length in range(len(RICH)):
        events, error = decode_to_error(RICH[:length])
        assert error is None or isinstance(error, CutShort)
        assert "a\u2028b😀".startswith(assemble_message(events).text or "")


def decode_to_error(*pieces: bytes) -> tuple[list[WireEvent], Exception | None]:
    decoder = StreamDecoder()
    events: list[WireEvent] = []
    try:
        for piece in pieces:
            for event in decoder.feed(piece):
                events.append(event)  # noqa: PERF402 - what came before an error counts
        for event in decoder.close():
            events.append(event)  # noqa: PERF402 - likewise
    except (ProtocolError, ProviderError) as exc:
        return events, exc
    return events, None


# -- seals -----------------------------------------------------------------------------------


def test_a_seal_is_sent_back_if_no_model_was_requested() -> None:
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "s1"}
    body = sse(
        START,
        {"type": "content_block_start", "index": 0, "content_block": thinking},
        stop(0),
        end(),
        STOP,
    )
    turn = assemble_message(decode_events(anthropic_messages, body, model=""))
    request = Request(messages=(ChatMessage.user("Hi"), turn), model="")
    found = anthropic_messages.encode_request(request)
    assert found.json["messages"][1]["content"][0] == thinking
    assert found.losses == ()
