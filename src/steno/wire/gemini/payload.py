"""The JSON of an answer, as far as we have names for it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw, field

from steno.messages.usage import StopReason, Usage
from steno.wire.tolerant import DECODE_ERRORS, TolerantStruct, build_reader

ABSENT: Final = Raw()
"""What a member that is kept as text is where it did not come; false like everything empty."""


class _Camel(TolerantStruct, rename="camel"):
    """Members are written like `thoughtSignature`."""


class PartialArg(_Camel):
    """A fragment of one argument, at a path into all of them."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: str | int | None = None
    will_continue: bool | None = None


class FunctionCall(_Camel):
    """A call; only Vertex sends them in fragments."""

    id: str | None = None
    name: str | None = None
    args: Raw = ABSENT
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Part(_Camel):
    """One thing that is said; images and what we have no name for are in the rest."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class Content(_Camel):
    """What a candidate says."""

    parts: list[Part] | None = None
    role: str | None = None


class Candidate(_Camel):
    """One of the answers; all but the first are kept and not read."""

    content: Content | None = None
    finish_reason: str | int | None = None
    index: int = 0
    finish_message: str | None = None
    avg_logprobs: float | None = None
    token_count: int | None = None
    safety_ratings: Raw = ABSENT


class GenerateContentResponse(_Camel):
    """A whole answer, or one chunk of it."""

    candidates: list[Candidate] = field(default_factory=list)
    usage_metadata: Raw = ABSENT
    """Not read before the end: every chunk repeats it, and only the last counts."""
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


NAME: Final = "gemini"


PROVIDER: Final = "google"
"""Whom we assume to speak this protocol if nobody says otherwise."""


LEGAL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
"""What a function may be called."""


_STOP_REASONS: Final = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.LENGTH,
    "SAFETY": StopReason.CONTENT_FILTER,
    "RECITATION": StopReason.CONTENT_FILTER,
    "LANGUAGE": StopReason.CONTENT_FILTER,
    "BLOCKLIST": StopReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": StopReason.CONTENT_FILTER,
    "SPII": StopReason.CONTENT_FILTER,
    "MODEL_ARMOR": StopReason.CONTENT_FILTER,
    "IMAGE_SAFETY": StopReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": StopReason.CONTENT_FILTER,
    "IMAGE_RECITATION": StopReason.CONTENT_FILTER,
    "IMAGE_OTHER": StopReason.CONTENT_FILTER,
    "NO_IMAGE": StopReason.ERROR,
    "MALFORMED_FUNCTION_CALL": StopReason.ERROR,
    "MALFORMED_RESPONSE": StopReason.ERROR,
    "UNEXPECTED_TOOL_CALL": StopReason.ERROR,
    "TOO_MANY_TOOL_CALLS": StopReason.ERROR,
    "MISSING_THOUGHT_SIGNATURE": StopReason.ERROR,
    "OTHER": StopReason.ERROR,
    "CONTINUATION": StopReason.PAUSE,
    # Clients may ask for the numbers of enums. Google's two APIs agree on what these come to.
    "1": StopReason.END_TURN,
    "2": StopReason.LENGTH,
    "3": StopReason.CONTENT_FILTER,
    "4": StopReason.CONTENT_FILTER,
    "5": StopReason.ERROR,
    "6": StopReason.CONTENT_FILTER,
    "7": StopReason.CONTENT_FILTER,
    "8": StopReason.CONTENT_FILTER,
}


def map_stop_reason(raw: str | None) -> StopReason:
    """Map the provider's word for why it stopped."""
    return _STOP_REASONS.get(raw or "", StopReason.UNKNOWN)


_read_usage_metadata: Final = build_reader(_UsageMetadata, NAME)


_read_prompt_feedback: Final = build_reader(_PromptFeedback, NAME)


def read_usage(data: Raw) -> Usage | None:
    """Read the counts: those of the prompt include what was cached, the candidates' no thoughts.

    What tools of the server's read on the way is counted apart and not part of the input.
    """
    if bytes(data)[:1] != b"{":
        return None
    tokens = _read_usage_metadata(data)
    spoken, thought = tokens.candidates_token_count, tokens.thoughts_token_count
    is_told = spoken is not None or thought is not None
    counts: dict[str, Any] = {
        "input_tokens": tokens.prompt_token_count,
        "output_tokens": (spoken or 0) + (thought or 0) if is_told else None,
        "cache_read_tokens": tokens.cached_content_token_count,
        "thinking_tokens": thought,
    }
    told = {name: count for name, count in counts.items() if count is not None and count >= 0}
    return Usage(**told) if told else None


def read_block_reason(feedback: Raw) -> str | None:
    """Return why a prompt was refused, if it was."""
    if bytes(feedback)[:1] != b"{":
        return None
    reason = _read_prompt_feedback(feedback).block_reason
    return None if reason is None else str(reason)


def parse_value(data: Raw) -> Any:
    """Return what was kept for the record; text where it is JSON that Python has no value for."""
    try:
        return msgspec.json.decode(data)
    except DECODE_ERRORS:
        return bytes(data).decode(errors="replace")


# -- parts -----------------------------------------------------------------------------------------
#
# Read parts: whatever is said that is neither a call nor a result.


FUNCTION_CALL: Final = "functionCall"


FUNCTION_RESPONSE: Final = "functionResponse"


THOUGHT_SIGNATURE: Final = "thoughtSignature"


SIGNATURE_SENTINEL: Final = "skip_thought_signature_validator"
"""What Google wants in place of a signature on calls that were not made by the model at hand."""
