"""The JSON of this protocol, as far as we have names for it."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Raw, Struct

from steno.messages.usage import StopReason, Usage

NAME: Final = "anthropic_messages"
PROVIDER: Final = "anthropic"
"""Whom we assume to speak this protocol if nobody says otherwise."""

DEFAULT_MAX_TOKENS: Final = 4096
"""What is asked for where a request leaves it open: the protocol wants a number."""
MAX_TEMPERATURE: Final = 1

LEGAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

CONTENT_AS_LIST: Final = "parts"
"""The content was a list, where we would write a string."""
ABSENT: Final = "absent"
"""Something was left out that we would write."""
UNSIGNED: Final = "unsigned"
"""The member of a form that names the provider and model that did not sign their thinking."""
VERBATIM: Final = "as_it_was"
"""The member of a form that keeps text which the provider would not take from us: blanks."""
JOINS_PREVIOUS: Final = "joins"
"""The member of a form that tells whether something stood in the message before it."""
IN_MESSAGES: Final = "in_messages"
"""The member of a form that tells that a system message stood among the others."""


def is_blank(text: str) -> bool:
    """Tell whether text says nothing; Anthropic refuses such blocks."""
    return not text or text.isspace()


# -- the events that there are many of -------------------------------------------------------


class _Tagged(Struct, tag_field="type", forbid_unknown_fields=True, gc=False):
    """Shared settings; never named outside this file."""


class TextDeltaPayload(_Tagged, tag="text_delta"):
    """More text."""

    text: str


class InputJsonDeltaPayload(_Tagged, tag="input_json_delta"):
    """More of the input of a call, as JSON text."""

    partial_json: str


class ThinkingDeltaPayload(_Tagged, tag="thinking_delta"):
    """More thinking."""

    thinking: str


class SignatureDeltaPayload(_Tagged, tag="signature_delta"):
    """The signature of the thinking before it."""

    signature: str


class CitationsDeltaPayload(_Tagged, tag="citations_delta"):
    """One more source of the text."""

    citation: Raw


DeltaPayload = (
    TextDeltaPayload
    | InputJsonDeltaPayload
    | ThinkingDeltaPayload
    | SignatureDeltaPayload
    | CitationsDeltaPayload
)


class ContentBlockDelta(_Tagged, tag="content_block_delta"):
    """More of the block at `index`."""

    index: int
    delta: DeltaPayload


# -- why it stopped, and what it cost --------------------------------------------------------

_STOP_REASONS: Final = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "tool_use": StopReason.TOOL_USE,
    "refusal": StopReason.CONTENT_FILTER,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
}


def map_stop_reason(raw: str | None) -> StopReason:
    """Map the provider's word for why it stopped."""
    return _STOP_REASONS.get(raw or "", StopReason.UNKNOWN)


def read_usage(tokens: dict[str, Any]) -> Usage:
    """Read the counts. Input tokens are without what was cached, and so are added up."""
    fresh = _valid_count(tokens.get("input_tokens"))
    read = _valid_count(tokens.get("cache_read_input_tokens"))
    written = _valid_count(tokens.get("cache_creation_input_tokens"))
    details = tokens.get("output_tokens_details")
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=_valid_count(tokens.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        thinking_tokens=_valid_count(details.get("thinking_tokens"))
        if isinstance(details, dict)
        else None,
    )


def _valid_count(found: object) -> int | None:
    return found if type(found) is int and found >= 0 else None
