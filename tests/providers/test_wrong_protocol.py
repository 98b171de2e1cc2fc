"""A response of the wrong protocol is not retried; the error has the address and what to check."""

from __future__ import annotations

import json

import pytest

from steno import TextDelta
from steno.errors import CutShort, ProtocolError
from steno.messages.content import Opaque
from steno.messages.event import BlockAdded
from steno.providers import HttpProvider, Retries, connect
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import KEY, REQUEST
from tests.providers.wire_cases import CASES
from tests.transport.http_server import run

AT_ONCE = Retries(max_retries=2, first_wait_s=0)
BINARY = bytes(range(256)) * 4


def at_lab(vendor: str, *pieces: bytes, kind: str) -> tuple[HttpProvider, ReplayTransport]:
    """Return a provider whose server always returns the same response."""
    transport = ReplayTransport([RecordedResponse(pieces, 200, kind)] * 3)
    provider = connect(
        vendor, key=KEY, base_url="http://lab.example", transport=transport, retries=AT_ONCE
    )
    return provider, transport


def check_refused(vendor: str, *pieces: bytes, kind: str) -> None:
    provider, transport = at_lab(vendor, *pieces, kind=kind)
    stream = provider.stream(REQUEST)
    with pytest.raises(ProtocolError) as caught:
        run(stream.collect())
    assert not caught.value.retryable
    assert caught.value.code == "wrong_protocol"
    assert caught.value.place == transport.sent[0].address
    assert f"({kind})" in caught.value.message
    assert str(provider.vendor.wire) in caught.value.message
    assert len(transport.sent) == 1
    assert stream.message().content == ()


PAIRS = [(vendor, other) for vendor in CASES for other in CASES if vendor != other]


@pytest.mark.parametrize(("vendor", "other"), PAIRS)
def test_a_stream_of_another_protocol_is_refused_with_its_address(vendor: str, other: str) -> None:
    case = CASES[other]
    check_refused(vendor, *case.stream, kind=case.content_type)
    check_refused(vendor, case.stream[0], kind=case.content_type)
    check_refused(vendor, b"".join(case.stream), kind=case.content_type)


@pytest.mark.parametrize("vendor", CASES)
@pytest.mark.parametrize(
    "pieces",
    [
        (BINARY,),
        (BINARY[:100], BINARY[100:]),
        (b"It works!",),
        (b'{"status": "ok"}',),
        (b": wait\n\n", b'data: {"status": "ok"}\r\n\r\n'),
    ],
    ids=["binary", "binary in pieces", "text", "json", "events"],
)
def test_a_response_of_no_protocol_is_refused_with_its_address(
    vendor: str, pieces: tuple[bytes, ...]
) -> None:
    check_refused(vendor, *pieces, kind="application/octet-stream")


@pytest.mark.parametrize("vendor", CASES)
def test_a_stream_that_is_truncated_anywhere_raises_cut_short(vendor: str) -> None:
    case = CASES[vendor]
    body = b"".join(case.stream)
    for end in range(len(body)):
        provider, transport = at_lab(vendor, body[:end], kind=case.content_type)
        stream = provider.stream(REQUEST)
        try:
            run(stream.collect())
        except CutShort:
            told = stream.message().content
            assert len(transport.sent) == (1 if told else 3)
        else:
            assert stream.message().text == "Hello"


@pytest.mark.parametrize(
    ("vendor", "body"),
    [
        ("openai", b""),
        ("openai", b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"),
        ("openai", b'data: {"id": "", "choices": [], "prompt_filter_results": [{}]}\n\n'),
        ("anthropic", b'event: ping\ndata: {"type": "ping"}\n\n'),
        ("openai-responses", b'data: {"type": "keepalive", "sequence_number": 1}\n\n'),
        ("google", b'data: {"usageMetadata": {"promptTokenCount": 3}}\n\n'),
    ],
)
def test_a_request_is_repeated_after_a_stream_of_comments_only(vendor: str, body: bytes) -> None:
    provider, transport = at_lab(vendor, body, kind="text/event-stream")
    with pytest.raises(CutShort):
        run(provider.stream(REQUEST).collect())
    assert len(transport.sent) == 3


def test_an_unknown_event_before_the_first_known_one_is_returned_in_its_place() -> None:
    unknown = b"data: " + json.dumps({"type": "news", "text": "x"}).encode() + b"\n\n"
    case = CASES["anthropic"]
    provider, _ = at_lab("anthropic", unknown, *case.stream, kind=case.content_type)
    message = run(provider.stream(REQUEST).collect())
    assert isinstance(message.content[0], Opaque)
    assert message.text == "Hello"

    async def first_two() -> list[type]:
        provider, _ = at_lab("anthropic", unknown, *case.stream, kind=case.content_type)
        async with provider.stream(REQUEST) as stream:
            return [type(await anext(stream)) for _ in range(2)]

    assert run(first_two()) == [BlockAdded, TextDelta]


EVENTS = [vendor for vendor, case in CASES.items() if case.content_type == "text/event-stream"]


@pytest.mark.parametrize("vendor", EVENTS)
@pytest.mark.parametrize("half", [b"", b'data: {"id":'])
@pytest.mark.parametrize(
    "nothing", [b"retry: 3000\n\n", b"id: 1\n\n", b"data:\n\n", b"event: heartbeat\n\n", b": x\r\r"]
)
def test_a_stream_that_ends_before_its_first_event_is_requested_again(
    vendor: str, half: bytes, nothing: bytes
) -> None:
    provider, transport = at_lab(vendor, nothing + half, kind="text/event-stream")
    with pytest.raises(CutShort):
        run(provider.stream(REQUEST).collect())
    assert len(transport.sent) == 3


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("vendor", "body"),
    [
        ("google", b"["),
        ("google", b'[{\n "cand'),
        ("openai", b'{"choices":[{"index":0,"mess'),
        ("openai-responses", b'{"output":[{"type":'),
        ("anthropic", b'{"type":"message","content":[{"ty'),
        ("ollama", b'{"model":"m","mess'),
    ],
)
def test_truncated_json_is_requested_again(vendor: str, body: bytes, kind: str) -> None:
    provider, transport = at_lab(vendor, body, kind=kind)
    with pytest.raises(CutShort):
        run(provider.stream(REQUEST).collect())
    assert len(transport.sent) == 3


@pytest.mark.parametrize("kind", ["", "text/plain", "text/event-stream"])
@pytest.mark.parametrize("vendor", CASES)
def test_a_whole_response_is_read_whatever_its_content_type(vendor: str, kind: str) -> None:
    provider, _ = at_lab(vendor, json.dumps(CASES[vendor].whole).encode(), kind=kind)
    assert run(provider.stream(REQUEST).collect()).text == "Hello"
