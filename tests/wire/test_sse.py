"""Server-sent events: the same payloads, however the bytes are cut and the lines are ended."""

from __future__ import annotations

from collections import deque
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import TextDelta
from steno.errors import ProtocolError, ProviderError
from steno.wire import load_wire
from steno.wire.framing import MAX_BUFFERED_BYTES, ErrorPayload, LineSplitter, SseSplitter


def payloads(*data: bytes) -> list[bytes]:
    splitter = SseSplitter()
    found = [payload for piece in data for payload in splitter.feed(piece)]
    return found + splitter.close()


def test_an_event_is_the_data_before_an_empty_line() -> None:
    assert payloads(b'data: {"a":1}\n\ndata: {"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_an_event_is_returned_as_soon_as_it_is_complete() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: {}") == []
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"\n") == [b"{}"]
    assert splitter.close() == []


def test_the_last_event_needs_no_empty_line() -> None:
    assert payloads(b"data: {}\n\ndata: [DONE]") == [b"{}", b"[DONE]"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_all_line_ends_are_taken(end: bytes) -> None:
    body = end.join([b"event: message", b'data: {"a":1}', b"", b'data: {"b":2}', b"", b""])
    assert payloads(body) == [b'{"a":1}', b'{"b":2}']
    assert payloads(*[body[at : at + 1] for at in range(len(body))]) == [b'{"a":1}', b'{"b":2}']


def test_an_event_that_ends_with_a_lone_cr_does_not_wait_for_the_next_one() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: {}\r\r") == [b"{}"]
    assert splitter.feed(b"\ndata: []\r\n\r\n") == [b"[]"]


def test_comments_ids_and_retries_are_passed_over() -> None:
    body = b": ping\n\nid: 7\nretry: 3000\ndata: {}\n\n: ping\n\n"
    assert payloads(body) == [b"{}"]


def test_a_byte_order_mark_is_not_part_of_the_first_line() -> None:
    body = b"\xef\xbb\xbfdata: {}\n\n"
    assert payloads(body) == [b"{}"]
    assert payloads(*[body[at : at + 1] for at in range(len(body))]) == [b"{}"]


def test_unicode_line_separators_and_nul_stay_inside_the_data() -> None:
    text = 'data: {"a":"\u2028\u2029\x85"}'.encode() + b"\n\n"
    assert payloads(text) == ['{"a":"\u2028\u2029\x85"}'.encode()]
    assert payloads(b"data: a\0b\n\n") == [b"a\0b"]


def test_data_in_several_lines_is_one_payload() -> None:
    assert payloads(b'data: {"a":\ndata: 1}\n\n') == [b'{"a":\n1}']


def test_events_without_an_empty_line_between_them_are_separate() -> None:
    assert payloads(b'data: {"a":1}\ndata: {"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


@pytest.mark.parametrize("line", [b"data:", b"data: ", b"data:\ndata: "])
def test_an_event_without_data_is_ignored(line: bytes) -> None:
    assert payloads(line + b"\n\ndata: {}\n\n") == [b"{}"]


def test_the_space_behind_the_colon_may_be_missing() -> None:
    assert payloads(b"data:{}\n\n") == [b"{}"]


@pytest.mark.parametrize(
    "body",
    [
        b'event: error\ndata: {"code":500}\n\n',
        b'event:error\ndata:{"code":500}\n\n',
        b'error: {"code":500}\n\n',
    ],
    ids=["named", "without blanks", "a field of its own"],
)
def test_an_error_is_recognized_by_the_event_name(body: bytes) -> None:
    [payload] = payloads(body)
    assert type(payload) is ErrorPayload
    assert payload.data == b'{"code":500}'


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        ("openai_chat", b'{"choices":[{"index":0,"delta":{"content":"Hi"}}]}'),
        ("openai_chat", b"{}"),
        (
            "anthropic_messages",
            b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}',
        ),
        (
            "openai_responses",
            b'{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}',
        ),
        ("gemini", b'{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}'),
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b""], ids=["ended", "cut"])
def test_an_event_named_error_is_an_error_even_if_its_data_looks_like_a_response(
    wire: str, data: bytes, end: bytes
) -> None:
    decoder = load_wire(wire).StreamDecoder()
    told = chain(decoder.feed(b"event: error\ndata: " + data + end), decoder.close())
    with pytest.raises(ProviderError):
        next(told)


def test_a_bare_body_in_the_stream_is_a_payload() -> None:
    body = b'data: {}\n\n{\n  "error": {\n    "code": 499\n  }\n}\n\n'
    assert payloads(body) == [b"{}", b'{\n  "error": {\n    "code": 499\n  }\n}']


@given(
    st.lists(st.sampled_from([b"data: {}", b"data: 1", b": c", b"event: e", b"", b"x: y"])),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_chunking_does_not_change_the_payloads(
    lines: list[bytes], end: bytes, data: st.DataObject
) -> None:
    body = end.join(lines)
    at = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    cut = [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]
    assert payloads(*cut) == payloads(body)


@pytest.mark.parametrize("piece", [b"data: xxx", b"data: xxx\n", b"data: " + b"x" * 2_000 + b"\n"])
def test_an_event_without_end_is_refused_and_not_kept_forever(piece: bytes) -> None:
    splitter = SseSplitter(max_bytes=1_000)
    with pytest.raises(ProtocolError) as caught:
        deque(map(splitter.feed, [piece] * 1_000), maxlen=0)
    assert caught.value.code == "buffer_limit_exceeded"


def test_many_events_are_no_event_without_end() -> None:
    splitter = SseSplitter(max_bytes=1_000)
    assert sum(len(splitter.feed(b"event: a\nid: 1\ndata: xx\n\n" * 9)) for _ in range(100)) == 900


@pytest.mark.parametrize("first", [0, 2_000_000], ids=["in one piece", "in two"])
def test_events_before_an_endless_event_are_returned_first(first: int) -> None:
    good = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    body = good + b"data: " + b"x" * MAX_BUFFERED_BYTES + b"\n\n" + good
    decoder = load_wire("openai_chat").StreamDecoder()
    events = chain(decoder.feed(body[:first]), decoder.feed(body[first:]))
    assert next(events) == TextDelta(0, "Hi")
    with pytest.raises(ProtocolError) as caught:
        next(events)
    assert caught.value.code == "buffer_limit_exceeded"


def test_lines_are_given_out_whole() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.feed(b":2}\r\n\n") == [b'{"b":2}\r']
    assert splitter.feed(b"{}") == []
    assert splitter.close() == [b"{}"]
    assert splitter.close() == []
