"""The JSON of generateContent, as far as steno reads it, with tables of stop reasons and usage."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, field

from steno.messages.usage import StopReason, Usage
from steno.wire.response_decoder import read_counts
from steno.wire.tolerant import TolerantStruct, build_reader

NAME: Final = "gemini"
PROVIDER: Final = "google"
"""The provider that is assumed unless the caller names one."""
LEGAL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
"""The function names that Google accepts."""
FUNCTION_CALL: Final = "functionCall"
FUNCTION_RESPONSE: Final = "functionResponse"
THOUGHT_SIGNATURE: Final = "thoughtSignature"
SIGNATURE_SENTINEL: Final = "skip_thought_signature_validator"
"""Sent as the signature of calls of other models, because Gemini 3 rejects unsigned calls."""
ABSENT: Final = Raw()
"""The default of a member that is kept as JSON text; it is falsy, like empty bytes."""


class _Camel(TolerantStruct, rename="camel"):
    """A struct whose members have names in camel case in JSON."""


class PartialArg(_Camel):
    """A fragment of one argument; `json_path` is its position in the arguments."""

    growing = ("string_value",)
    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: str | int | None = None
    will_continue: bool | None = None


class FunctionCall(_Camel):
    """A function call, or a fragment of one; only Vertex sends fragments."""

    id: str | None = None
    name: str | None = None
    args: Raw = ABSENT
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Part(_Camel):
    """A part of the content; images and unknown members are kept in `rest`."""

    growing = ("text",)
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class Content(_Camel):
    """The content of a candidate, as a list of parts."""

    parts: list[Part] | None = None
    role: str | None = None


class Candidate(_Camel):
    """One of the alternative responses; all but the first are kept only for the log."""

    content: Content | None = None
    finish_reason: str | int | None = None
    index: int = 0
    finish_message: str | None = None
    avg_logprobs: float | None = None
    token_count: int | None = None
    safety_ratings: Raw = ABSENT


class GenerateContentResponse(_Camel):
    """A whole response, or one chunk of a streamed response."""

    candidates: list[Candidate] = field(default_factory=list)
    usage_metadata: Raw = ABSENT
    """The token counts; every chunk repeats them, so only the last ones are read."""
    model_version: str | None = None
    response_id: str | None = None
    create_time: str | None = None
    prompt_feedback: Raw = ABSENT


class _UsageMetadata(_Camel):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _PromptFeedback(_Camel):
    block_reason: str | int | None = None


# -- tables -----------------------------------------------------------------------------------

# Clients may request enums as numbers. These numbers are the same in the Gemini API and Vertex.
STOP_REASONS: Final = {
    **dict.fromkeys(("STOP", "1"), StopReason.END_TURN),
    **dict.fromkeys(("MAX_TOKENS", "2"), StopReason.LENGTH),
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
            *("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
            *("IMAGE_OTHER", "3", "4", "6", "7", "8"),
        ),
        StopReason.CONTENT_FILTER,
    ),
    **dict.fromkeys(
        (
            *("NO_IMAGE", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"),
            *("TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER", "5"),
        ),
        StopReason.ERROR,
    ),
    "CONTINUATION": StopReason.PAUSE,
}
USAGE: Final = {
    "input_tokens": ("prompt_token_count",),
    "output_tokens": ("candidates_token_count",),
    "cache_read_tokens": ("cached_content_token_count",),
    "thinking_tokens": ("thoughts_token_count",),
}
_read_usage_metadata: Final = build_reader(_UsageMetadata, NAME)
_read_prompt_feedback: Final = build_reader(_PromptFeedback, NAME)


def read_usage(data: Raw) -> Usage | None:
    """Return the token counts, with thinking added to the output; None if there are none.

    Google excludes thinking from the output. `toolUsePromptTokenCount`, the input of server tools,
    is not counted as input.
    """
    if bytes(data)[:1] != b"{":
        return None
    counts = read_counts(_read_usage_metadata(data), USAGE)
    if "thinking_tokens" in counts:
        counts["output_tokens"] = counts.get("output_tokens", 0) + counts["thinking_tokens"]
    return Usage(**counts) if counts else None


def read_block_reason(feedback: Raw) -> str | None:
    """Return the reason why the prompt was blocked; None if it was not blocked."""
    if bytes(feedback)[:1] != b"{":
        return None
    reason = _read_prompt_feedback(feedback).block_reason
    return None if reason is None else str(reason)
