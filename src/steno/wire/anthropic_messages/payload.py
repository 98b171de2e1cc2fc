"""The JSON of the Messages API, as far as steno reads it, with tables of stop reasons and usage."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, Struct

from steno.messages.usage import StopReason, Usage
from steno.wire.extras import Members
from steno.wire.response_decoder import read_counts
from steno.wire.tolerant import BlockIndex

NAME: Final = "anthropic_messages"
PROVIDER: Final = "anthropic"
"""The provider that is assumed unless the caller names one."""

DEFAULT_MAX_TOKENS: Final = 4096
"""The token limit for a request without a limit; the protocol requires one."""
MAX_TEMPERATURE: Final = 1
"""The highest temperature that Anthropic accepts; other providers accept 2."""

LEGAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The call ids that Anthropic accepts; some other models use ids with dots and colons."""
LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""The tool names that Anthropic accepts."""
IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The types of images that Anthropic accepts."""

UNFINISHED_PREFIX: Final = '{"content_block":'
"""The prefix of the JSON of an unknown block that could not be assembled from its deltas."""
UNSIGNED: Final = "unsigned"
"""The note on thinking without a signature; its value is the provider and the model."""
VERBATIM: Final = "as_it_was"
"""The note on recorded content that is written unchanged, even if the provider may reject it."""
JOINS_PREVIOUS: Final = "joins"
"""The note on whether a message was recorded as a part of the message before it."""
IN_MESSAGES: Final = "in_messages"
"""The note on a system message that was recorded in `messages`, not in `system`."""


def is_blank(text: str) -> bool:
    """Return whether a text is empty or only whitespace; Anthropic rejects blank text blocks."""
    return not text or text.isspace()


# -- frequent events -------------------------------------------------------------------------


class _Tagged(Struct, tag_field="type", forbid_unknown_fields=True, gc=False):
    """The base class of the payloads of frequent events."""


class TextDeltaPayload(_Tagged, tag="text_delta"):
    """A delta with more text."""

    text: str


class InputJsonDeltaPayload(_Tagged, tag="input_json_delta"):
    """A delta with more of the input of a call, as JSON text."""

    partial_json: str


class ThinkingDeltaPayload(_Tagged, tag="thinking_delta"):
    """A delta with more thinking."""

    thinking: str


class SignatureDeltaPayload(_Tagged, tag="signature_delta"):
    """A delta with the signature of a thinking block."""

    signature: str


class CitationsDeltaPayload(_Tagged, tag="citations_delta"):
    """A delta with one more citation of a text block."""

    citation: Raw


DeltaPayload = (
    TextDeltaPayload
    | InputJsonDeltaPayload
    | ThinkingDeltaPayload
    | SignatureDeltaPayload
    | CitationsDeltaPayload
)


class ContentBlockDelta(_Tagged, tag="content_block_delta"):
    """An event with a delta for the block at `index`."""

    index: BlockIndex
    delta: DeltaPayload


# -- tables ----------------------------------------------------------------------------------

STOP_REASONS: Final = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_use": StopReason.TOOL_USE,
    "refusal": StopReason.CONTENT_FILTER,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
}
USAGE: Final = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cache_read_tokens": ("cache_read_input_tokens",),
    "cache_write_tokens": ("cache_creation_input_tokens",),
    "thinking_tokens": ("output_tokens_details.thinking_tokens",),
}


def read_usage(tokens: Members) -> Usage:
    """Return the token counts; cached tokens, which Anthropic excludes, are added to the input."""
    counts = read_counts(tokens, USAGE)
    if "input_tokens" in counts:
        counts["input_tokens"] += counts.get("cache_read_tokens", 0)
        counts["input_tokens"] += counts.get("cache_write_tokens", 0)
    return Usage(**counts)
