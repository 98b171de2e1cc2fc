"""The JSON of chat completions, as far as steno reads it, with tables of stop reasons and usage."""

from __future__ import annotations

import re
from typing import Final

from msgspec import field

from steno.messages.usage import StopReason, Usage
from steno.wire.response_decoder import UsageTable, read_counts
from steno.wire.tolerant import BlockIndex, TolerantStruct

NAME: Final = "openai_chat"
PROVIDER: Final = "openai"
"""The provider that is assumed unless the caller names one."""
LEGAL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The tool names that OpenAI accepts; not every server enforces this rule."""


class Function(TolerantStruct):
    """The name and arguments of a call, or a fragment of them."""

    growing = ("arguments",)
    name: str | None = None
    arguments: str | None = None


class Call(TolerantStruct):
    """A tool call, or a fragment of one."""

    index: BlockIndex | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None


class ChoiceMessage(TolerantStruct):
    """A whole message, or the delta of one chunk."""

    growing = ("content", "reasoning_content", "reasoning")
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    """DeepSeek's member for thinking, which many servers copied."""
    reasoning: str | None = None
    """The newer name of `reasoning_content`, in vLLM, OpenRouter and Ollama."""
    refusal: str | None = None
    tool_calls: list[Call] | None = None


class Choice(TolerantStruct):
    """One of the alternative responses; all but the first are kept only for the log."""

    index: int = 0
    delta: ChoiceMessage | None = None
    message: ChoiceMessage | None = None
    finish_reason: str | None = None
    logprobs: None = None
    token_ids: None = None
    """vLLM sends null with every chunk unless the request asks for token ids."""
    native_finish_reason: None = None
    """OpenRouter sends null in every chunk but the last."""


class PromptTokensDetails(TolerantStruct):
    """The breakdown of the prompt tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    created_cache_tokens: int | None = None
    """vLLM's name for the tokens written to the cache."""


class CompletionTokensDetails(TolerantStruct):
    """The breakdown of the completion tokens."""

    reasoning_tokens: int | None = None


class CompletionUsage(TolerantStruct):
    """The token counts of a response."""

    prompt_cache_hit_tokens: int | None = None
    """DeepSeek's name for cached tokens."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class ChatCompletion(TolerantStruct):
    """A whole response, or one chunk of a streamed response."""

    choices: list[Choice] = field(default_factory=list)
    id: str | None = None
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: CompletionUsage | None = None
    provider: str | None = None
    """The provider that OpenRouter forwards the request to."""
    obfuscation: str | None = None
    """OpenAI's padding, which hides the length of texts."""
    p: str | None = None
    """Mistral's padding."""


# -- tables -----------------------------------------------------------------------------------

# Some of these reasons are sent by other servers: eos (Together), model_length (Mistral),
# abort (vLLM), and the names of Anthropic's API.
STOP_REASONS: Final = {
    **dict.fromkeys(("stop", "eos", "end_turn"), StopReason.END_TURN),
    **dict.fromkeys(("length", "max_tokens", "model_length"), StopReason.LENGTH),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), StopReason.TOOL_USE),
    **dict.fromkeys(("content_filter", "refusal"), StopReason.CONTENT_FILTER),
    "error": StopReason.ERROR,
    "abort": StopReason.ABORTED,
}
USAGE: Final[UsageTable] = {
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "cache_read_tokens": ("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
    "cache_write_tokens": (
        "prompt_tokens_details.cache_write_tokens",
        "prompt_tokens_details.created_cache_tokens",
    ),
    "thinking_tokens": ("completion_tokens_details.reasoning_tokens",),
}


def read_usage(tokens: CompletionUsage) -> Usage:
    """Return the token counts, with thinking included in the output.

    Some servers exclude thinking from the output tokens, as a comparison with the total shows.
    """
    counts = read_counts(tokens, USAGE)
    if tokens.prompt_tokens is not None and counts.keys() >= {"output_tokens", "thinking_tokens"}:
        together = counts["output_tokens"] + counts["thinking_tokens"]
        if tokens.total_tokens == tokens.prompt_tokens + together:
            counts["output_tokens"] = together
    return Usage(**counts)
