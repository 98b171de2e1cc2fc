"""The JSON of a response, as far as steno names it, its tables and its images."""

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
"""The kind of an Opaque block that is an image of an unknown format."""


class Function(TolerantStruct):
    """Name and arguments of a call."""

    name: str | None = None
    arguments: Raw = Raw()
    index: int | None = None


class Call(TolerantStruct):
    """A call. Servers before 0.12.10 send no id."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None


class ResponseMessage(TolerantStruct):
    """A message or a part of one."""

    growing = ("content", "thinking")
    role: str | None = None
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


class ChatResponse(TolerantStruct):
    """One line of a response, or a whole response. The last line has counts and nanoseconds."""

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
    """A message with text or thinking, and nothing else."""

    role: str | None = None
    content: str | None = None
    thinking: str | None = None


class TextLine(Struct, forbid_unknown_fields=True, gc=False):
    """The shape of nearly all lines. The fewer members a struct has, the faster it decodes."""

    model: str | None = None
    created_at: str | None = None
    message: TextMessage | None = None
    done: bool = False


class ContentMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with text only."""

    content: str
    role: str | None = None


class ContentLine(Struct, forbid_unknown_fields=True, gc=False):
    """A line with text only that is not the last."""

    message: ContentMessage
    done: Literal[False]
    model: str | None = None
    created_at: str | None = None


# The server sends `stop` for a turn with calls, too.
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
    """Read the counts of the last line; the server omits those that are 0."""
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
    """Read an image, which is base64 without a type; one of an unknown format is opaque."""
    try:
        data = read_base64(msgspec.json.decode(raw, type=str))
    except msgspec.ValidationError:
        data = None
    for start, mime_type in _IMAGE_SIGNATURES:
        if data is not None and start.match(data):
            return Image(source=ImageData(data), mime_type=mime_type)
    return Opaque(kind=OPAQUE_IMAGE_KIND, raw=raw_text(raw), origin=NAME)
