"""One case for every wire: the request of a vendor, and two forms of the same response."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.providers.provider_setup import KEY


class Case(NamedTuple):
    """The request of one vendor, and the response "Hello" as a stream and as a whole."""

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


def candidate(text: str, **more: Any) -> dict[str, Any]:
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
        events(candidate("Hel"), candidate("lo", finishReason="STOP")),
        candidate("Hello", finishReason="STOP"),
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
