"""Any bytes are decoded to events or a StenoError, however they are cut; any request is encoded.

`make property` runs these at length.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidRequest,
    Message,
    ProtocolError,
    ProviderError,
    Request,
)
from steno.codec import decode_message, encode_message
from steno.testing import conversations, requests
from steno.testing.case_results import expect_json
from steno.testing.conformance import SERVERS, ScriptedServer
from steno.testing.conformance.scripted_server import decode_pieces, expect_same_decoding
from tests.wire.broken_bytes import broken_answers, broken_requests, cuts

ANY_BYTES = st.binary(max_size=60) | st.lists(
    st.sampled_from(
        [
            *(b"data: ", b"event: ", b"\n", b"\n\n", b"\r", b"{", b"}", b"[", b"]", b'"', b":"),
            *(b",", b"error", b"null", b"\xff", b"\xef\xbb\xbf", b'"choices"', b'"type"'),
            *(b"[DONE]", b'"done":true'),
        ]
    ),
    max_size=12,
).map(b"".join)

USER = ChatMessage.user("Well?")

# -- responses -------------------------------------------------------------------------------------

every_wire = pytest.mark.parametrize("speaker", SERVERS, ids=lambda speaker: speaker.wire.NAME)


@every_wire
@given(data=st.data())
def test_any_bytes_give_events_or_a_steno_error(
    speaker: ScriptedServer, data: st.DataObject
) -> None:
    body = data.draw(ANY_BYTES | broken_answers(speaker), label="body")
    heard = decode_pieces(speaker.wire, [body])  # raises any error that is not a StenoError
    assert heard.error is not None or heard.has_ended
    assert decode_message(encode_message(heard.message)) == heard.message


@every_wire
@given(data=st.data())
@pytest.mark.requirement("S4-05")
def test_any_chunking_gives_the_same_events_and_the_same_error(
    speaker: ScriptedServer, data: st.DataObject
) -> None:
    body = data.draw(ANY_BYTES | broken_answers(speaker), label="body")
    pieces = data.draw(cuts(body), label="pieces")
    whole = decode_pieces(speaker.wire, [body])
    expect_same_decoding(decode_pieces(speaker.wire, pieces), whole, "cut in pieces")
    single = [body[place : place + 1] for place in range(len(body))]
    expect_same_decoding(decode_pieces(speaker.wire, single), whole, "byte by byte")


@every_wire
@given(data=st.data())
def test_any_whole_response_gives_a_message_or_a_steno_error(
    speaker: ScriptedServer, data: st.DataObject
) -> None:
    body = data.draw(ANY_BYTES | broken_answers(speaker), label="body")
    start, end = body.find(b"{"), body.rfind(b"}") + 1
    for answer in (body, body[start:end]):
        try:
            message = speaker.wire.decode_response(answer)
        except (ProtocolError, ProviderError):
            continue
        assert decode_message(encode_message(message)) == message


# -- requests --------------------------------------------------------------------------------------


@every_wire
@given(data=st.data())
def test_any_bytes_are_a_request_or_refused(speaker: ScriptedServer, data: st.DataObject) -> None:
    body = data.draw(ANY_BYTES | broken_requests(speaker), label="body")
    try:
        request = speaker.wire.decode_request(body)
    except InvalidRequest:
        return
    written = speaker.wire.encode_request(request)
    expect_json(json.loads(written.body), json.loads(body), speaker.wire.NAME)


@given(requests())
@pytest.mark.requirement("S1-02")
def test_any_request_is_written_and_reads_back_as_the_same(request_: Request) -> None:
    # Some wires leave out an empty turn of the model, and then no message remains.
    asked = msgspec.structs.replace(request_, messages=(USER, *request_.messages))
    for speaker in SERVERS:
        written = speaker.wire.encode_request(asked)
        again = speaker.wire.encode_request(speaker.wire.decode_request(written.body))
        expect_json(again.json, written.json, speaker.wire.NAME)


@given(conversations(alternating=False))
def test_the_next_request_of_any_conversation_begins_with_the_bytes_of_the_last(
    messages: tuple[Message, ...],
) -> None:
    asked = [USER, *messages]
    # Requests that end before a turn of the model. One that ends in an assistant message, to be
    # continued, is excluded: Anthropic rejects whitespace at its end, so steno strips it.
    turns = [
        number
        for number, (before, after) in enumerate(pairwise(asked), start=1)
        if isinstance(after, AssistantMessage) and not isinstance(before, AssistantMessage)
    ]
    for speaker in SERVERS:
        wire: Any = speaker.wire
        encoder = wire.Encoder()
        bodies: list[bytes] = []
        for count in turns:
            request = Request(messages=tuple(asked[:count]), model="m-1")
            bodies.append(encoder.encode(request).body)
            assert bodies[-1] == wire.encode_request(request).body
        for shorter, longer in pairwise(bodies):
            assert longer.startswith(shorter.rstrip(b"]}"))
