"""Every protocol goes through the same provider: its path, its headers, its stream, its JSON."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from steno import Request, StopReason, TextDelta
from steno.errors import InvalidRequest, ProviderError
from steno.providers import CATALOG, connect, read_vendors
from steno.providers.endpoint import ENDPOINTS
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import KEY, REQUEST
from tests.providers.wire_cases import CASES, candidate
from tests.transport.http_server import run

every_case = pytest.mark.parametrize("vendor", CASES)


def test_there_is_a_case_for_every_protocol() -> None:
    used = {connect(vendor, key=KEY).vendor.wire for vendor in CASES}
    assert used == set(ENDPOINTS)


@every_case
def test_a_stream_of_every_protocol_is_read(vendor: str) -> None:
    async def main() -> None:
        case = CASES[vendor]
        transport = ReplayTransport([RecordedResponse(tuple(case.stream), 200, case.content_type)])
        stream = connect(vendor, key=KEY, transport=transport).stream(REQUEST)
        told = [event async for event in stream]
        deltas = [event for event in told if isinstance(event, TextDelta)]
        assert [delta.text for delta in deltas] == ["Hel", "lo"]
        assert stream.message().text == "Hello"
        assert stream.message().stop_reason is StopReason.END_TURN
        (sent,) = transport.sent
        assert sent.url == case.url
        assert sent.headers.items() >= case.headers.items()

    run(main())


@every_case
def test_a_whole_answer_of_every_protocol_is_read(vendor: str) -> None:
    body = json.dumps(CASES[vendor].whole).encode()
    transport = ReplayTransport([RecordedResponse((body[:9], body[9:]), 200, "application/json")])
    message = run(connect(vendor, key=KEY, transport=transport).stream(REQUEST).collect())
    assert message.text == "Hello"
    assert message.stop_reason is StopReason.END_TURN


@pytest.mark.parametrize(
    ("vendor", "indent"),
    [(vendor, None) for vendor in CASES]
    + [(vendor, 1) for vendor in CASES if vendor != "ollama"],  # whose answers are lines
)
def test_the_envelope_of_a_whole_response_is_kept(vendor: str, indent: int | None) -> None:
    """The text of the response is in the message, and not in the envelope as well."""
    beside = {"model": "m-2", "x_lab": {"of": ["the", "lab"]}}
    body = json.dumps(CASES[vendor].whole | beside, indent=indent).encode()
    transport = ReplayTransport([RecordedResponse((body[:9], body[9:]), 200, "application/json")])
    stream = connect(vendor, key=KEY, transport=transport).stream(REQUEST)
    assert stream.envelope == {}
    run(stream.collect())
    assert stream.envelope.items() >= beside.items()
    assert "Hello" not in json.dumps(stream.envelope)


def test_other_choices_of_a_whole_response_are_in_the_envelope() -> None:
    choices = [
        {"index": n, "message": {"content": str(n)}, "finish_reason": "stop"} for n in (0, 1)
    ]
    body = json.dumps({"choices": choices}).encode()
    transport = ReplayTransport([RecordedResponse((body,), 200, "application/json")])
    stream = connect("openai", key=KEY, transport=transport).stream(REQUEST)
    assert run(stream.collect()).text == "0"
    (other,) = stream.envelope["other_choices"]
    assert other["message"]["content"] == "1"


@every_case
def test_an_error_of_every_protocol_is_raised(vendor: str) -> None:
    body = json.dumps({"error": {"message": "No such thing.", "type": "invalid"}}).encode()
    transport = ReplayTransport([RecordedResponse((body,), 400, "application/json")])
    with pytest.raises(ProviderError) as caught:
        run(connect(vendor, key=KEY, transport=transport).stream(REQUEST).collect())
    assert caught.value.message.startswith("No such thing.")
    assert caught.value.status == 400


def test_a_json_array_is_a_stream_of_gemini() -> None:
    """Gemini streams like this without `alt=sse`, and some proxies always do."""
    body = json.dumps([candidate("Hel"), candidate("lo", finishReason="STOP")]).encode()
    pieces = tuple(body[at : at + 7] for at in range(0, len(body), 7))
    transport = ReplayTransport([RecordedResponse(pieces, 200, "application/json")])
    message = run(connect("google", key=KEY, transport=transport).stream(REQUEST).collect())
    assert message.text == "Hello"


def test_a_protocol_with_the_model_in_its_path_needs_one() -> None:
    vendor = replace(CATALOG["google"], needs_model=False)
    provider = connect(vendor, key=KEY, transport=ReplayTransport(()))
    with pytest.raises(InvalidRequest) as caught:
        provider.stream(Request(messages=REQUEST.messages))
    assert (caught.value.code, caught.value.place) == ("model_missing", "request")


@pytest.mark.parametrize("vendor", [name for name, row in CATALOG.items() if row.needs_model])
def test_a_vendor_of_many_models_requires_one(vendor: str) -> None:
    transport = ReplayTransport(())
    base_url = CATALOG[vendor].base_url or "http://lab.example"
    provider = connect(vendor, key=KEY, base_url=base_url, transport=transport)
    with pytest.raises(InvalidRequest) as caught:
        provider.stream(Request(messages=REQUEST.messages))
    assert (caught.value.code, caught.value.place) == ("model_missing", "request")
    assert vendor in caught.value.message
    assert transport.sent == []


@pytest.mark.parametrize("vendor", ["llama.cpp", "vllm", "lmstudio", "openrouter"])
def test_a_vendor_with_a_default_model_needs_none(vendor: str) -> None:
    transport = ReplayTransport([RecordedResponse(tuple(CASES["openai"].stream))])
    provider = connect(vendor, key=KEY, transport=transport)
    assert run(provider.stream(Request(messages=REQUEST.messages)).collect()).text == "Hello"
    assert b'"model"' not in transport.sent[0].body


def test_a_row_sets_whether_a_model_is_required() -> None:
    rows = read_vendors(
        {
            "gateway": {"like": "openai", "needs_model": False},
            "twin": {"like": "openai"},
        }
    )
    assert (rows["gateway"].needs_model, rows["twin"].needs_model) == (False, True)


def test_a_server_at_another_address_needs_no_model() -> None:
    here = "http://127.0.0.1:8080/v1"
    transport = ReplayTransport([RecordedResponse(tuple(CASES["openai"].stream))])
    provider = connect("openai", key=KEY, base_url=here, transport=transport)
    assert run(provider.stream(Request(messages=REQUEST.messages)).collect()).text == "Hello"
    rows = read_vendors(
        {
            "mine": {"like": "openai", "base_url": here},
            "strict": {"like": "openai", "base_url": here, "needs_model": True},
            "azure2": {"like": "azure", "base_url": here},
        }
    )
    needs = {name: row.needs_model for name, row in rows.items() if row.base_url == here}
    assert needs == {"mine": False, "strict": True, "azure2": True}
