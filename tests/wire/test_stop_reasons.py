"""Stop reasons: the names of every provider, streamed and whole, written out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import Finished, StopReason
from steno.testing.conformance import Script, ScriptedServer, TextPiece, TurnEnd, WholeCall
from steno.testing.conformance.servers import (
    AnthropicMessagesServer,
    GeminiServer,
    OllamaChatServer,
    OpenAIChatServer,
)
from steno.wire import gemini, ollama_chat, openai_responses
from tests.wire.decode_helpers import assemble_message, decode_events, sse

ANTHROPIC, GEMINI = AnthropicMessagesServer(), GeminiServer()
OLLAMA, OPENAI = OllamaChatServer(), OpenAIChatServer()


@pytest.mark.parametrize(
    ("speaker", "raw", "reason"),
    [
        (OPENAI, "stop", "end_turn"),
        (OPENAI, "eos", "end_turn"),
        (OPENAI, "end_turn", "end_turn"),
        (OPENAI, "length", "length"),
        (OPENAI, "max_tokens", "length"),
        (OPENAI, "model_length", "length"),
        (OPENAI, "tool_calls", "tool_use"),
        (OPENAI, "tool_use", "tool_use"),
        (OPENAI, "function_call", "tool_use"),
        (OPENAI, "content_filter", "content_filter"),
        (OPENAI, "refusal", "content_filter"),
        (OPENAI, "error", "error"),
        (OPENAI, "abort", "aborted"),
        (OPENAI, "hologram", "unknown"),
        (ANTHROPIC, "end_turn", "end_turn"),
        (ANTHROPIC, "stop_sequence", "end_turn"),
        (ANTHROPIC, "max_tokens", "length"),
        (ANTHROPIC, "model_context_window_exceeded", "length"),
        (ANTHROPIC, "tool_use", "tool_use"),
        (ANTHROPIC, "refusal", "content_filter"),
        (ANTHROPIC, "pause_turn", "pause"),
        (ANTHROPIC, "compaction", "pause"),
        (ANTHROPIC, "hologram", "unknown"),
        (OLLAMA, "stop", "end_turn"),
        (OLLAMA, "load", "end_turn"),
        (OLLAMA, "unload", "end_turn"),
        (OLLAMA, "length", "length"),
        (OLLAMA, "tool_calls", "tool_use"),
        (OLLAMA, "hologram", "unknown"),
        (GEMINI, "STOP", "end_turn"),
        (GEMINI, "MAX_TOKENS", "length"),
        (GEMINI, "SAFETY", "content_filter"),
        (GEMINI, "RECITATION", "content_filter"),
        (GEMINI, "LANGUAGE", "content_filter"),
        (GEMINI, "BLOCKLIST", "content_filter"),
        (GEMINI, "PROHIBITED_CONTENT", "content_filter"),
        (GEMINI, "SPII", "content_filter"),
        (GEMINI, "MODEL_ARMOR", "content_filter"),
        (GEMINI, "IMAGE_SAFETY", "content_filter"),
        (GEMINI, "IMAGE_PROHIBITED_CONTENT", "content_filter"),
        (GEMINI, "IMAGE_RECITATION", "content_filter"),
        (GEMINI, "IMAGE_OTHER", "content_filter"),
        (GEMINI, "NO_IMAGE", "error"),
        (GEMINI, "MALFORMED_FUNCTION_CALL", "error"),
        (GEMINI, "MALFORMED_RESPONSE", "error"),
        (GEMINI, "UNEXPECTED_TOOL_CALL", "error"),
        (GEMINI, "TOO_MANY_TOOL_CALLS", "error"),
        (GEMINI, "MISSING_THOUGHT_SIGNATURE", "error"),
        (GEMINI, "OTHER", "error"),
        (GEMINI, "CONTINUATION", "pause"),
        (GEMINI, "HOLOGRAM", "unknown"),
    ],
    ids=lambda value: value.wire.NAME if isinstance(value, ScriptedServer) else value,
)
def test_a_stop_reason_is_mapped_and_kept(speaker: ScriptedServer, raw: str, reason: str) -> None:
    script: Script = [TextPiece("Hi"), TurnEnd(raw=raw)]
    streamed = assemble_message(decode_events(speaker.wire, *speaker.frames(script)))
    whole = speaker.wire.decode_response(speaker.response(script))
    for message in (streamed, whole):
        assert (message.stop_reason, message.raw_stop_reason) == (reason, raw)
        assert message.text == "Hi"


@pytest.mark.parametrize(
    ("speaker", "raw"),
    [(OPENAI, "stop"), (OLLAMA, "stop"), (GEMINI, "STOP"), (ANTHROPIC, "end_turn")],
    ids=lambda value: value.wire.NAME if isinstance(value, ScriptedServer) else value,
)
def test_calls_override_the_stop_reason(speaker: ScriptedServer, raw: str) -> None:
    script: Script = [WholeCall("call_1", "read_file", "{}"), TurnEnd(raw=raw)]
    streamed = assemble_message(decode_events(speaker.wire, *speaker.frames(script)))
    whole = speaker.wire.decode_response(speaker.response(script))
    for message in (streamed, whole):
        assert (message.stop_reason, message.raw_stop_reason) == (StopReason.TOOL_USE, raw)


# -- Gemini, as enum numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (1, "end_turn"),
        (2, "length"),
        (3, "content_filter"),
        (4, "content_filter"),
        (5, "error"),
        (6, "content_filter"),
        (7, "content_filter"),
        (8, "content_filter"),
        (99, "unknown"),
    ],
)
def test_gemini_may_give_the_number_of_its_reason(number: int, reason: str) -> None:
    content = {"role": "model", "parts": [{"text": "Hi"}]}
    answer = {"candidates": [{"content": content, "finishReason": number}]}
    streamed = assemble_message(decode_events(gemini, sse(answer)))
    whole = gemini.decode_response(msgspec.json.encode(answer))
    for message in (streamed, whole):
        assert (message.stop_reason, message.raw_stop_reason) == (reason, str(number))


# -- Ollama, without a reason --------------------------------------------------------------------


@pytest.mark.parametrize("about", [{}, {"done_reason": None}, {"done_reason": ""}])
def test_older_ollama_servers_end_without_a_reason(about: dict[str, Any]) -> None:
    line = {"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": True}
    data = msgspec.json.encode(line | about)
    streamed = assemble_message(decode_events(ollama_chat, data + b"\n"))
    for message in (streamed, ollama_chat.decode_response(data)):
        assert message.stop_reason is StopReason.END_TURN
        assert message.text == "Hi"


# -- Responses, by status ------------------------------------------------------------------------

SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "read_file",
    "arguments": "{}",
    "status": "completed",
}
REFUSED = SAID | {"content": [{"type": "refusal", "refusal": "No."}]}


def response(status: str, *output: dict[str, Any], why: str | None = None) -> dict[str, Any]:
    about = {"id": "resp_1", "object": "response", "model": "m", "error": None}
    details = None if why is None else {"reason": why}
    return about | {"status": status, "incomplete_details": details, "output": list(output)}


@pytest.mark.parametrize(
    ("answer", "reason", "raw"),
    [
        (response("completed", SAID), "end_turn", "completed"),
        (response("completed", CALLED), "tool_use", "completed"),
        (response("completed", REFUSED), "content_filter", "completed"),
        (response("incomplete", SAID, why="max_output_tokens"), "length", "incomplete"),
        (response("incomplete", SAID, why="max_tokens"), "length", "incomplete"),
        (response("incomplete", SAID, why="content_filter"), "content_filter", "incomplete"),
        (response("incomplete", SAID, why="boredom"), "unknown", "boredom"),
        (response("incomplete", SAID), "unknown", "incomplete"),
        (response("cancelled", SAID), "aborted", "cancelled"),
        (response("queued"), "pause", "queued"),
        (response("hologram", SAID), "unknown", "hologram"),
    ],
    ids=lambda value: value["status"] if isinstance(value, dict) else value,
)
def test_the_status_of_a_response_is_the_stop_reason(
    answer: dict[str, Any], reason: str, raw: str
) -> None:
    """An unknown reason of an incomplete response states more than its status."""
    ended = {"type": "response.completed", "sequence_number": 0, "response": answer}
    streamed = assemble_message(decode_events(openai_responses, sse(ended)))
    whole = openai_responses.decode_response(msgspec.json.encode(answer))
    for message in (streamed, whole):
        assert (message.stop_reason, message.raw_stop_reason) == (reason, raw)


@pytest.mark.parametrize(("status", "reason"), [("in_progress", "pause"), ("failed", "error")])
def test_a_whole_response_may_not_be_a_finished_one(status: str, reason: str) -> None:
    data = msgspec.json.encode(response(status, SAID))
    message = openai_responses.decode_response(data)
    assert (message.stop_reason, message.raw_stop_reason) == (reason, status)


def test_the_kind_of_the_last_event_counts_where_the_response_still_says_in_progress() -> None:
    ended = {"type": "response.completed", "response": response("in_progress", SAID)}
    (finished,) = [
        event
        for event in decode_events(openai_responses, sse(ended))
        if isinstance(event, Finished)
    ]
    assert (finished.stop_reason, finished.raw_stop_reason) == (StopReason.END_TURN, "completed")
