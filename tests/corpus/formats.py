"""The wire of each set of recordings, and the conversion of its token counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from steno import Usage
from steno.wire import Wire, load_wire

Numbers = dict[str, int | None]


class Format(NamedTuple):
    """A set of recordings."""

    name: str
    wire: Wire
    expect_usage: Callable[[dict[str, Any]], tuple[int | None, int | None]]
    """Convert the wire's token counts to ours: the whole input, the whole output."""


def _inclusive(usage: Numbers) -> tuple[int | None, int | None]:
    return usage.get("input"), usage.get("output")


def _anthropic(usage: Numbers) -> tuple[int | None, int | None]:
    cached = (usage.get("cache_read") or 0) + (usage.get("cache_write") or 0)
    sent = usage.get("input")
    return None if sent is None else sent + cached, usage.get("output")


def _gemini(usage: Numbers) -> tuple[int | None, int | None]:
    thoughts = usage.get("thoughts") or usage.get("reasoning") or 0
    output = usage.get("output")
    if output is None:
        return usage.get("input"), thoughts or None
    return usage.get("input"), output + thoughts


FORMATS = (
    Format("openai_chat", load_wire("openai_chat"), _inclusive),
    Format("openai_responses", load_wire("openai_responses"), _inclusive),
    Format("anthropic", load_wire("anthropic_messages"), _anthropic),
    Format("gemini", load_wire("gemini"), _gemini),
    Format("ollama", load_wire("ollama_chat"), _inclusive),
)


def counted(usage: Usage | None) -> tuple[int | None, int | None]:
    """Return our token counts."""
    return (usage.input_tokens, usage.output_tokens) if usage is not None else (None, None)
