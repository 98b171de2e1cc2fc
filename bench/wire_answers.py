"""Synthetic streamed responses of providers, always the same: the input of the decoders.

Envelopes have the members of OpenAI, Anthropic and Ollama, in their order. All three responses have
the same text and calls. An event is what a server sends in one write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from random import Random
from typing import Any

from bench.conversation import Call, Turn, make_conversation

SMALLEST_PIECE, LARGEST_PIECE = 1_024, 4_096
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_FRAGMENT = 5
_START = datetime(2026, 8, 7, 6, 8, 14, tzinfo=UTC)


@dataclass(frozen=True)
class Answer:
    """The text and the calls of a response, in pieces."""

    words: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.words)


def make_answer(count: int, *, calls: int = 2) -> Answer:
    """Return a response of `count` words, each about as long as a token, and some calls."""
    turns = make_conversation(400)
    words = cycle([word for turn in turns for word in _words(turn)])
    edits = [call for turn in turns for call in turn.calls if 200 < len(call.arguments) < 400]
    return Answer(tuple(islice(words, count)), tuple(edits[:calls]))


def _words(turn: Turn) -> list[str]:
    return re.findall(r"\s*\S+", f" {turn.text}") if turn.role == "assistant" else []


def cut(events: Sequence[bytes]) -> list[bytes]:
    """Return the same bytes in pieces of 1 to 4 KB, as from a busy connection."""
    random, body, pieces, start = Random(11), b"".join(events), [], 0
    while start < len(body):
        end = start + random.randint(SMALLEST_PIECE, LARGEST_PIECE)
        pieces.append(body[start:end])
        start = end
    return pieces


# -- OpenAI ----------------------------------------------------------------------------------


def in_openai_chat(answer: Answer) -> list[bytes]:
    """Return the events of a Chat Completions stream with usage."""
    events: list[bytes] = []
    random = Random(1)

    def add(choices: list[Any], usage: Any = None) -> None:
        chunk = {
            "id": "chatcmpl-CyCXCxO2D0OmsFiPGPKPJQn2HTv1Z",
            "object": "chat.completion.chunk",
            "created": 1768463898,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_a0e9480a2f",
            "choices": choices,
            "usage": usage,
            "obfuscation": "".join(random.choices(_ALPHABET, k=random.randint(1, 14))),
        }
        events.append(b"data: %b\n\n" % _dump(chunk))

    def say(delta: dict[str, Any], finish_reason: str | None = None) -> None:
        add([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}])

    say({"role": "assistant", "content": "", "refusal": None})
    for word in answer.words:
        say({"content": word})
    for index, call in enumerate(answer.calls):
        head = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        say({"tool_calls": [{"index": index, **head}]})
        for fragment in _fragments(call):
            say({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]})
    say({}, "tool_calls")
    add(
        [],
        {
            "prompt_tokens": 140,
            "completion_tokens": len(events),
            "total_tokens": 140 + len(events),
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
    )
    return [*events, b"data: [DONE]\n\n"]


# -- Anthropic -------------------------------------------------------------------------------


def in_anthropic_messages(answer: Answer) -> list[bytes]:
    """Return the events of a Messages stream, with the padding of the server."""
    events: list[bytes] = []
    random = Random(2)
    counts = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}

    def add(type_: str, **members: Any) -> None:
        text = _dump({"type": type_, **members})[:-1] + b" " * random.randint(0, 15) + b"}"
        events.append(b"event: %b\ndata: %b\n\n" % (type_.encode(), text))

    def say(index: int, type_: str, **members: str) -> None:
        add("content_block_delta", index=index, delta={"type": type_, **members})

    message: dict[str, Any] = {
        "model": "claude-sonnet-4-6",
        "id": "msg_0168eu1vDnnMFBoGzuvgAG5p",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 596,
            **counts,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 3,
            "service_tier": "standard",
            "inference_geo": "global",
        },
    }
    add("message_start", message=message)
    add("content_block_start", index=0, content_block={"type": "text", "text": ""})
    events.append(b'event: ping\ndata: {"type": "ping"}\n\n')
    for word in answer.words:
        say(0, "text_delta", text=word)
    add("content_block_stop", index=0)
    for index, call in enumerate(answer.calls, start=1):
        block = {"type": "tool_use", "id": f"toolu_{call.id[5:]}", "name": call.name, "input": {}}
        add("content_block_start", index=index, content_block=block)
        say(index, "input_json_delta", partial_json="")
        for fragment in _fragments(call):
            say(index, "input_json_delta", partial_json=fragment)
        add("content_block_stop", index=index)
    add(
        "message_delta",
        delta={"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None},
        usage={"input_tokens": 596, **counts, "output_tokens": len(events)},
    )
    add("message_stop")
    return events


# -- Ollama ----------------------------------------------------------------------------------


def in_ollama_chat(answer: Answer) -> list[bytes]:
    """Return the lines of a response in Ollama's own protocol, in which calls are not split."""
    lines: list[bytes] = []

    def add(message: dict[str, Any], *, done: bool = False, **members: Any) -> None:
        now = _START + timedelta(microseconds=9_467 * len(lines))
        line = {
            "model": "qwen3:8b",
            "created_at": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z",
            "message": {"role": "assistant", "content": "", **message},
            "done": done,
        }
        lines.append(_dump(line | members) + b"\n")

    for word in answer.words:
        add({"content": word})
    for index, call in enumerate(answer.calls):
        function = {"index": index, "name": call.name, "arguments": json.loads(call.arguments)}
        add({"tool_calls": [{"id": f"call_{call.id[-8:]}", "function": function}]})
    add(
        {},
        done=True,
        done_reason="stop",
        total_duration=8_625_649_709,
        load_duration=142_828_459,
        prompt_eval_count=21,
        prompt_eval_duration=59_321_000,
        eval_count=len(lines),
        eval_duration=8_419_494_000,
    )
    return lines


# -- parts -----------------------------------------------------------------------------------


def _fragments(call: Call) -> Iterator[str]:
    for start in range(0, len(call.arguments), _FRAGMENT):
        yield call.arguments[start : start + _FRAGMENT]


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
