"""Lines split and decoded by msgspec into only the needed fields: the lower bound for a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from bench.wire_bare import bare

Decode = Callable[[bytes], Any]
Split = Callable[[Iterable[bytes]], list[Any]]

# -- OpenAI ----------------------------------------------------------------------------------


class Function(Struct):
    name: str | None = None
    arguments: str | None = None


class Call(Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class ChatDelta(Struct):
    content: str | None = None
    tool_calls: list[Call] | None = None


class Choice(Struct):
    index: int = 0
    delta: ChatDelta | None = None
    finish_reason: str | None = None


class Tokens(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Chunk(Struct):
    choices: list[Choice]
    usage: Tokens | None = None


def _split_openai_chat(decode: Decode, pieces: Iterable[bytes]) -> list[Any]:
    found: list[Any] = []
    add, tail = found.append, b""
    for piece in pieces:
        lines = (tail + piece).split(b"\n")
        tail = lines.pop()
        for line in lines:
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                add(decode(line[6:]))
    return found


# -- Anthropic -------------------------------------------------------------------------------


class TextPart(Struct, tag_field="type", tag="text_delta"):
    text: str


class InputPart(Struct, tag_field="type", tag="input_json_delta"):
    partial_json: str


class BlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    index: int
    delta: TextPart | InputPart


class Block(Struct):
    id: str | None = None
    name: str | None = None


class BlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int
    content_block: Block


class BlockStop(Struct, tag_field="type", tag="content_block_stop"):
    index: int


class End(Struct):
    stop_reason: str | None = None


class Used(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    delta: End
    usage: Used


class MessageStart(Struct, tag_field="type", tag="message_start"):
    pass


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    pass


class Ping(Struct, tag_field="type", tag="ping"):
    pass


AnyEvent = BlockDelta | BlockStart | BlockStop | MessageDelta | MessageStart | MessageStop | Ping


def _split_anthropic_messages(decode: Decode, pieces: Iterable[bytes]) -> list[Any]:
    found: list[Any] = []
    add, tail = found.append, b""
    for piece in pieces:
        lines = (tail + piece).split(b"\n")
        tail = lines.pop()
        for line in lines:
            if line.startswith(b"data: "):
                add(decode(line[6:]))
    return found


# -- Ollama ----------------------------------------------------------------------------------


class WholeFunction(Struct):
    name: str
    arguments: msgspec.Raw


class WholeCall(Struct):
    function: WholeFunction
    id: str | None = None


class OllamaSaid(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[WholeCall] | None = None


class Line(Struct):
    message: OllamaSaid | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None


def _split_ollama_chat(decode: Decode, pieces: Iterable[bytes]) -> list[Any]:
    found: list[Any] = []
    add, tail = found.append, b""
    for piece in pieces:
        lines = (tail + piece).split(b"\n")
        tail = lines.pop()
        for line in lines:
            if line:
                add(decode(line))
    return found


# -- all of them -----------------------------------------------------------------------------

_WAYS: dict[str, tuple[Callable[[Decode, Iterable[bytes]], list[Any]], Any]] = {
    "openai_chat": (_split_openai_chat, Chunk),
    "anthropic_messages": (_split_anthropic_messages, AnyEvent),
    "ollama_chat": (_split_ollama_chat, Line),
}


def split(wire: str, *, is_tracked: bool = True) -> Split:
    """Return a function that decodes pieces of a stream into values with only the needed fields.

    The garbage collector ignores the values if they are not tracked.
    """
    way, shape = _WAYS[wire]
    return partial(way, msgspec.json.Decoder(shape if is_tracked else bare(shape, {})).decode)
