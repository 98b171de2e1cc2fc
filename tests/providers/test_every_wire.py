"""Every protocol goes through the same provider: its path, its headers, its stream, its JSON."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from steno import Request, StopReason, TextDelta
from steno.errors import InvalidRequest, ProviderError
from steno.providers import CATALOG, connect, read_vendors
from steno.providers.endpoint import ENDPOINTS
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import KEY, REQUEST
from tests.transport.http_server import run


class Case(NamedTuple):
    """How one vendor is asked, and how it answers with "Hello" in two ways."""

    url: str
    headers: dict[str, str]
    stream: list[bytes]
    whole: Any
    content_type: str = "text/event-stream"


def events(*payloads: Any) -> list[bytes]:
    return [
        f"event: {payload.get('type', 'message')}\ndata: {json.dumps(payload)}\n\n".encode()
        for payload in payloads
    ]


def lines(*payloads: Any) -> list[bytes]:
    return [json.dumps(payload).encode() + b"\n" for payload in payloads]


def _item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m1", "role": "assistant", "content": [part]}


def _response(*items: Any, status: str = "completed") -> dict[str, Any]:
    return {"id": "r1", "object": "response", "status": status, "model": "m", "output": items}


def _candidate(text: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}} | more]}


CASES: dict[str, Case] = {
    "openai": Case(
        "https://api.openai.com/v1/chat/completions",
        {"authorization": f"Bearer {KEY}"},
        events(
            {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
            {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
        ),
        {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]},
    ),
    "openai-responses": Case(
        "https://api.openai.com/v1/responses",
        {"authorization": f"Bearer {KEY}"},
        events(
            {"type": "response.created", "response": _response(status="in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": _item("")},
            *(
                {
                    "type": "response.output_text.delta",
                    "item_id": "m1",
                    "output_index": 0,
                    "content_index": 0,
                    "delta": delta,
                }
                for delta in ("Hel", "lo")
            ),
            {"type": "response.output_item.done", "output_index": 0, "item": _item("Hello")},
            {"type": "response.completed", "response": _response(_item("Hello"))},
        ),
        _response(_item("Hello")),
    ),
    "anthropic": Case(
        "https://api.anthropic.com/v1/messages",
        {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        events(
            {"type": "message_start", "message": {"id": "a", "role": "assistant", "content": []}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            *(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": text},
                }
                for text in ("Hel", "lo")
            ),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ),
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "Hello"}],
            "stop_reason": "end_turn",
        },
    ),
    "google": Case(
        "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        {"x-goog-api-key": KEY},
        events(_candidate("Hel"), _candidate("lo", finishReason="STOP")),
        _candidate("Hello", finishReason="STOP"),
    ),
    "ollama": Case(
        "http://localhost:11434/api/chat",
        {"authorization": f"Bearer {KEY}"},
        lines(
            {"message": {"role": "assistant", "content": "Hel"}, "done": False},
            {"message": {"role": "assistant", "content": "lo"}, "done": False},
            {"message": {"content": ""}, "done": True, "done_reason": "stop"},
        ),
        {"message": {"content": "Hello"}, "done": True, "done_reason": "stop"},
        "application/x-ndjson",
    ),
}
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
def test_what_is_said_beside_a_whole_answer_is_kept(vendor: str, indent: int | None) -> None:
    """The text of the answer is in the message, and not there as well."""
    beside = {"model": "m-2", "x_lab": {"of": ["the", "lab"]}}
    body = json.dumps(CASES[vendor].whole | beside, indent=indent).encode()
    transport = ReplayTransport([RecordedResponse((body[:9], body[9:]), 200, "application/json")])
    stream = connect(vendor, key=KEY, transport=transport).stream(REQUEST)
    assert stream.envelope == {}
    run(stream.collect())
    assert stream.envelope.items() >= beside.items()
    assert "Hello" not in json.dumps(stream.envelope)


def test_other_choices_of_a_whole_answer_are_kept_for_the_record() -> None:
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
    with pytest.raises(ProviderError, match="No such thing") as caught:
        run(connect(vendor, key=KEY, transport=transport).stream(REQUEST).collect())
    assert caught.value.status == 400


def test_a_json_array_is_a_stream_of_gemini() -> None:
    """So it streams without `alt=sse`, and so some proxies do with it."""
    body = json.dumps([_candidate("Hel"), _candidate("lo", finishReason="STOP")]).encode()
    pieces = tuple(body[at : at + 7] for at in range(0, len(body), 7))
    transport = ReplayTransport([RecordedResponse(pieces, 200, "application/json")])
    message = run(connect("google", key=KEY, transport=transport).stream(REQUEST).collect())
    assert message.text == "Hello"


def test_a_protocol_with_the_model_in_its_path_needs_one() -> None:
    vendor = replace(CATALOG["google"], needs_model=False)
    provider = connect(vendor, key=KEY, transport=ReplayTransport(()))
    with pytest.raises(InvalidRequest, match="model must name one, this protocol has it in"):
        provider.stream(Request(messages=REQUEST.messages))


@pytest.mark.parametrize("vendor", [name for name, row in CATALOG.items() if row.needs_model])
def test_who_serves_many_models_is_not_asked_without_one(vendor: str) -> None:
    transport = ReplayTransport(())
    base_url = CATALOG[vendor].base_url or "http://lab.example"
    provider = connect(vendor, key=KEY, base_url=base_url, transport=transport)
    with pytest.raises(InvalidRequest) as caught:
        provider.stream(Request(messages=REQUEST.messages))
    assert str(caught.value) == (
        f"request: model must name one of {vendor}; name it there, or pass model to connect"
    )
    assert transport.sent == []


@pytest.mark.parametrize("vendor", ["llama.cpp", "vllm", "lmstudio", "openrouter"])
def test_who_has_a_model_of_its_own_is_asked_without_one(vendor: str) -> None:
    transport = ReplayTransport([RecordedResponse(tuple(CASES["openai"].stream))])
    provider = connect(vendor, key=KEY, transport=transport)
    assert run(provider.stream(Request(messages=REQUEST.messages)).collect()).text == "Hello"
    assert b'"model"' not in transport.sent[0].body


def test_whether_a_model_is_needed_is_said_in_a_row() -> None:
    rows = read_vendors(
        {
            "gateway": {"like": "openai", "needs_model": False},
            "twin": {"like": "openai"},
        }
    )
    assert (rows["gateway"].needs_model, rows["twin"].needs_model) == (False, True)


def test_who_answers_at_another_address_may_have_one_model_only() -> None:
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
