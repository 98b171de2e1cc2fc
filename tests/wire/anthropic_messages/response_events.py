"""Events of the Messages API, as servers send them."""

from __future__ import annotations

from typing import Any

import msgspec

from steno import (
    AssistantMessage,
)
from steno.wire import anthropic_messages
from steno.wire.anthropic_messages import decode_response
from tests.wire.decode_helpers import assemble_message, decode_events, sse

MODEL = "claude-1"
START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    },
}
STOP = {"type": "message_stop"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "u"}]}


def start(index: int, kind: str, **members: Any) -> dict[str, Any]:
    block = {"type": kind} | members
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | members}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str = "end_turn", *, usage: dict[str, Any] | None = None, **more: Any) -> Any:
    members = {"stop_reason": reason, "stop_sequence": None} | more
    return {"type": "message_delta", "delta": members, "usage": usage or {"output_tokens": 5}}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [start(index, "text", text=""), *deltas, stop(index)]


def read(*payloads: Any, **settings: Any) -> AssistantMessage:
    """Decode a complete stream."""
    body = sse(START, *payloads, STOP)
    return assemble_message(decode_events(anthropic_messages, body, **settings))


def whole(*blocks: dict[str, Any], reason: str = "end_turn", **settings: Any) -> AssistantMessage:
    answer = START["message"] | {"content": blocks, "stop_reason": reason}
    return decode_response(msgspec.json.encode(answer), **settings)


def less(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "type"}
