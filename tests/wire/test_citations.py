"""Citations of a response are kept, whole or streamed, and sent back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import AssistantMessage, ChatMessage, Request
from steno.codec import encode_message
from steno.wire import Wire, anthropic_messages, gemini, ollama_chat, openai_responses
from tests.wire.decode_helpers import assemble_message, decode_events, sse

SOURCE = {"type": "url_citation", "url": "https://example.org/a", "start_index": 0, "end_index": 2}
BLOCK = {"type": "text", "text": "Hi", "citations": [SOURCE]}
ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": [SOURCE]}],
}
GROUNDED = {
    "content": {"role": "model", "parts": [{"text": "Hi"}]},
    "index": 0,
    "finishReason": "STOP",
    "groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://example.org/a"}}]},
    "citationMetadata": {"citations": [{"uri": "https://example.org/b"}]},
    "avgLogprobs": -0.5,
}


def body_of(wire: Wire, message: AssistantMessage) -> Any:
    turns = (ChatMessage.user("Is it so?"), message, ChatMessage.user("Why?"))
    return wire.encode_request(Request(model="m", messages=turns)).json


def anthropic_stream() -> bytes:
    start = {"type": "text", "text": "", "citations": []}
    return sse(
        {"type": "message_start", "message": {"model": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        _delta({"type": "text_delta", "text": "Hi"}),
        _delta({"type": "citations_delta", "citation": SOURCE}),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def test_citations_of_a_block_go_back_with_it() -> None:
    answer = {"type": "message", "model": "m", "content": [BLOCK], "stop_reason": "end_turn"}
    whole = anthropic_messages.decode_response(msgspec.json.encode(answer))
    streamed = assemble_message(decode_events(anthropic_messages, anthropic_stream()))
    assert whole == streamed
    assert body_of(anthropic_messages, whole)["messages"][1]["content"] == [BLOCK]


def test_annotations_of_an_item_go_back_with_it() -> None:
    answer = {"id": "resp_1", "model": "m", "status": "completed", "output": [ITEM]}
    whole = openai_responses.decode_response(msgspec.json.encode(answer))
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hi"}
    stream = sse(
        {"type": "response.output_item.added", "item": ITEM | {"content": []}},
        delta | {"output_index": 0, "content_index": 0},
        {"type": "response.output_item.done", "item": ITEM},
        {"type": "response.completed", "response": answer},
    )
    assert whole == assemble_message(decode_events(openai_responses, stream))
    assert body_of(openai_responses, whole)["input"][1] == ITEM


def test_members_of_a_message_go_back_to_ollama() -> None:
    said = {"role": "assistant", "content": "Hi", "citations": [SOURCE], "audio": None}
    answer = {"model": "m", "message": said, "done": True, "done_reason": "stop"}
    whole = ollama_chat.decode_response(msgspec.json.encode(answer))
    assert whole == assemble_message(
        decode_events(ollama_chat, msgspec.json.encode(answer) + b"\n")
    )
    sent = {"role": "assistant", "content": "Hi", "citations": [SOURCE]}
    assert body_of(ollama_chat, whole)["messages"][1] == sent


@pytest.mark.parametrize("odd", [{"content": ["Hi"]}, {"thinking": {}}, {"images": 7}, {"role": 7}])
def test_invalid_values_of_known_ollama_fields_are_not_sent_back(odd: dict[str, Any]) -> None:
    answer = {"message": {"content": "Hi"} | odd, "done": True}
    message = ollama_chat.decode_response(msgspec.json.encode(answer))
    assert message.extras is None


def test_sources_of_gemini_are_kept_and_not_sent_since_contents_have_no_place_for_them() -> None:
    answer = {"candidates": [GROUNDED], "modelVersion": "m"}
    whole = gemini.decode_response(msgspec.json.encode(answer))
    assert whole == assemble_message(decode_events(gemini, sse(answer)))
    sources = {name: GROUNDED[name] for name in ("groundingMetadata", "citationMetadata")}
    stored = msgspec.json.decode(encode_message(whole))
    assert stored["extras"] == {"gemini": {"$form": sources}}
    assert body_of(gemini, whole)["contents"][1] == {"role": "model", "parts": [{"text": "Hi"}]}
