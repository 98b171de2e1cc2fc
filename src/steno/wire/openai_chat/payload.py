"""The JSON of an answer, as far as we have names for it."""

from __future__ import annotations

import re
from typing import Final

from msgspec import field

from steno.messages.usage import StopReason, Usage
from steno.wire.tolerant import TolerantStruct


class Function(TolerantStruct):
    """Name and arguments of a call."""

    name: str | None = None
    arguments: str | None = None


class Call(TolerantStruct):
    """A call, or a fragment of one."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None


class ChoiceMessage(TolerantStruct):
    """A message or a part of one."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None


class Choice(TolerantStruct):
    """One of the answers; all but the first are kept and not read."""

    index: int = 0
    delta: ChoiceMessage | None = None
    message: ChoiceMessage | None = None
    finish_reason: str | None = None
    logprobs: None = None
    token_ids: None = None
    """vLLM says of every word that nobody asked for them."""
    native_finish_reason: None = None
    """OpenRouter does so of an end that has not come yet."""


class PromptTokensDetails(TolerantStruct):
    """What the prompt was made of."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    created_cache_tokens: int | None = None


class CompletionTokensDetails(TolerantStruct):
    """What the answer was made of."""

    reasoning_tokens: int | None = None


class CompletionUsage(TolerantStruct):
    """What an answer cost."""

    prompt_cache_hit_tokens: int | None = None
    """DeepSeek's name for what was cached."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class ChatCompletion(TolerantStruct):
    """A whole answer, or one chunk of it."""

    choices: list[Choice] = field(default_factory=list)
    id: str | None = None
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: CompletionUsage | None = None
    provider: str | None = None
    """Whom OpenRouter has asked."""
    obfuscation: str | None = None
    p: str | None = None
    """What Mistral fills events up with."""


NAME: Final = "openai_chat"
PROVIDER: Final = "openai"
"""Whom we assume to speak this protocol if nobody says otherwise."""

LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What OpenAI takes as the name of a tool."""

_STOP_REASONS: Final = {
    "stop": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "refusal": StopReason.CONTENT_FILTER,
    "error": StopReason.ERROR,
    "abort": StopReason.ABORTED,
}


def map_stop_reason(raw: str | None) -> StopReason:
    """Map the provider's word for why it stopped."""
    return _STOP_REASONS.get(raw or "", StopReason.UNKNOWN)


def read_usage(tokens: CompletionUsage) -> Usage:
    """Read the counts; prompt tokens include what was cached, completion tokens all thinking."""
    prompt = tokens.prompt_tokens_details or PromptTokensDetails()
    completion = tokens.completion_tokens_details or CompletionTokensDetails()
    written = prompt.cache_write_tokens
    if written is None:
        written = prompt.created_cache_tokens  # vLLM's name for it
    return Usage(
        input_tokens=_valid_count(tokens.prompt_tokens),
        output_tokens=_valid_count(_read_output_tokens(tokens, completion.reasoning_tokens)),
        cache_read_tokens=_valid_count(
            tokens.prompt_cache_hit_tokens if prompt.cached_tokens is None else prompt.cached_tokens
        ),
        cache_write_tokens=_valid_count(written),
        thinking_tokens=_valid_count(completion.reasoning_tokens),
    )


def _read_output_tokens(tokens: CompletionUsage, thinking: int | None) -> int | None:
    """Return all that was written: some servers count thinking apart, as their total shows."""
    read, written = tokens.prompt_tokens, tokens.completion_tokens
    if thinking and read is not None and written is not None:
        is_apart = tokens.total_tokens == read + written + thinking
        return written + thinking if is_apart else written
    return written


def _valid_count(tokens: int | None) -> int | None:
    return tokens if tokens is None or tokens >= 0 else None
