"""The JSON of responses, as far as steno reads it, with tables of stop reasons and usage."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from steno.messages.content import Image, ImageData, Opaque
from steno.messages.usage import StopReason, Usage
from steno.wire.request_decoder import read_base64
from steno.wire.response_decoder import read_counts
from steno.wire.tolerant import TolerantStruct, raw_text

NAME: Final = "ollama_chat"
PROVIDER: Final = "ollama"
"""The provider that is assumed unless the caller names one."""
OPAQUE_IMAGE_KIND: Final = "image"
"""The kind of an Opaque block that contains an image of an unknown format."""


class Function(TolerantStruct):
    """The name and arguments of a call."""

    name: str | None = None
    arguments: Raw = Raw()
    index: int | None = None


class Call(TolerantStruct):
    """A complete tool call; Ollama before 0.12.10 sends no id."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None


class ResponseMessage(TolerantStruct):
    """A whole message, or the part of it in one line."""

    growing = ("content", "thinking")
    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


class ChatResponse(TolerantStruct):
    """A whole response, or one line of it; the last line has token counts and durations."""

    model: str | None = None
    created_at: str | None = None
    message: ResponseMessage | None = None
    done: bool = False
    done_reason: str | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None


class TextMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with only text or thinking."""

    role: str | None = None
    content: str | None = None
    thinking: str | None = None


class TextLine(Struct, forbid_unknown_fields=True, gc=False):
    """A line with only text or thinking, as nearly all lines are; a small struct decodes faster."""

    model: str | None = None
    created_at: str | None = None
    message: TextMessage | None = None
    done: bool = False


class ContentMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with only text."""

    content: str
    role: str | None = None


class ContentLine(Struct, forbid_unknown_fields=True, gc=False):
    """A line with only text, other than the last line."""

    message: ContentMessage
    done: Literal[False]
    model: str | None = None
    created_at: str | None = None


# The server also sends `stop` for a turn with calls.
STOP_REASONS: Final = {
    "": StopReason.END_TURN,  # older servers send no reason
    "stop": StopReason.END_TURN,
    "load": StopReason.END_TURN,  # this and "unload" are responses to a request without messages
    "unload": StopReason.END_TURN,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_USE,
}
USAGE: Final = {"input_tokens": ("prompt_eval_count",), "output_tokens": ("eval_count",)}


def read_usage(line: ChatResponse) -> Usage | None:
    """Return the token counts of the last line; None if it has none.

    The server omits a count of 0.
    """
    counts = read_counts(line, USAGE)
    return Usage(**counts) if counts else None


# -- images ----------------------------------------------------------------------------------

_IMAGE_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
)


def read_image(raw: Raw) -> Image | Opaque:
    """Read an image in base64 and detect its type; an image of an unknown format is opaque."""
    try:
        data = read_base64(msgspec.json.decode(raw, type=str))
    except msgspec.ValidationError:
        data = None
    for start, mime_type in _IMAGE_SIGNATURES:
        if data is not None and start.match(data):
            return Image(source=ImageData(data), mime_type=mime_type)
    return Opaque(kind=OPAQUE_IMAGE_KIND, raw=raw_text(raw), origin=NAME)
