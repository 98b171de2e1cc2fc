"""The JSON of an answer, as far as we have names for it."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw

from steno.messages.usage import StopReason, Usage
from steno.wire.tolerant import TolerantStruct

NAME: Final = "chat"
PROVIDER: Final = "steno"
"""Nobody but us speaks it."""
ANY_NAME: Final = re.compile(r".+", re.DOTALL)
"""Nobody objects to a name."""


class Function(TolerantStruct):
    """Name and arguments of a call, as OpenAI puts them."""

    name: str | None = None
    arguments: Raw = Raw()


class Call(TolerantStruct):
    """A whole call."""

    id: str | None = None
    type: str | None = None
    name: str | None = None
    arguments: Raw = Raw()
    function: Function | None = None


class TokenUsage(TolerantStruct):
    """What an answer cost, in our own words."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    thinking_tokens: int | None = None


class MessageChunk(TolerantStruct):
    """A message, more of it, or a fragment of one of its calls."""

    role: str | None = None
    content: str | None = None
    tool_calls: list[Call] | None = None
    stop_reason: str | None = None
    raw_stop_reason: str | None = None
    usage: TokenUsage | None = None
    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None


def map_stop_reason(raw: str) -> StopReason:
    """Read a reason by our own names."""
    return StopReason(raw) if raw in _STOP_REASONS else StopReason.UNKNOWN


_STOP_REASONS: Final = frozenset(reason.value for reason in StopReason)


def read_usage(tokens: TokenUsage) -> Usage:
    """Read the counts, which mean what ours mean."""
    return Usage(
        input_tokens=_valid_count(tokens.input_tokens),
        output_tokens=_valid_count(tokens.output_tokens),
        cache_read_tokens=_valid_count(tokens.cache_read_tokens),
        cache_write_tokens=_valid_count(tokens.cache_write_tokens),
        thinking_tokens=_valid_count(tokens.thinking_tokens),
    )


def _valid_count(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None
