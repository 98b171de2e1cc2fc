"""Responses of providers, as their documentation shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

IMAGE_REFUSED = b"""\
HTTP/1.1 400 Bad Request\r
Content-Type: application/json\r
\r
{"error": {"message": "This model does not support image input.", "type": "invalid_request_error"}}
"""


def openai_stream(
    *deltas: Mapping[str, Any], finish: str = "stop", tokens: tuple[int, int] | None = None
) -> bytes:
    """Return a stream of `/v1/chat/completions`; `tokens` are those of the prompt and the output."""
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    if tokens is not None:
        usage = dict(zip(("prompt_tokens", "completion_tokens"), tokens, strict=True))
        chunks.append({"choices": [], "usage": usage})
    lines = [*map(json.dumps, chunks), "[DONE]"]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def anthropic_stream(text: str) -> bytes:
    """Return a stream of `/v1/messages` that consists of a text."""
    message = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": []}
    delta = {"type": "text_delta", "text": text}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()
