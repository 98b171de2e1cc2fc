"""The differences between servers of this protocol, as data that encoders read."""

from __future__ import annotations

import re
from typing import Final, final

from steno.values import RedactedRepr

DEFAULT_CALL_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
"""The call ids that are sent unchanged to servers without a rule of their own."""
MAX_TOKENS_FIELDS: Final = ("max_completion_tokens", "max_tokens")
"""The names of the token limit, the newer one first."""
USAGE_STREAM_OPTIONS: Final = {"include_usage": True}
"""The options that request usage at the end of a stream; other protocols always send usage."""
FUNCTION_EXTRAS: Final = "inner"
"""The note with the unknown members of a call's function."""
LEGACY_CALL: Final = "function_call"
"""The legacy member for the only call of a turn, from before calls had ids.

It is also the name of the note on such a call, and of the note with the tool name on its result.
"""
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
"""The call ids that Mistral accepts."""


@final
class Dialect(RedactedRepr, frozen=True, kw_only=True):
    """The features and rules of one server of this protocol."""

    provider: str
    """The name of the provider, to which seals (reasoning details) are bound."""
    max_tokens_field: str = "max_tokens"
    """The name of the token limit; many servers know only `max_tokens`, which OpenAI deprecates."""
    system_role: str = "system"
    thinking_field: str | None = None
    """The member of a message in which the server accepts thinking; None if it accepts none."""
    has_strict_tools: bool = True
    """Whether the server enforces the schemas of strict tools."""
    has_stream_options: bool = True
    """Whether the server accepts `stream_options`."""
    merges_neighbours: bool = False
    """Whether to merge adjacent messages of one role, and to send later system messages as user.

    The chat templates of many models require alternating user and assistant messages, after at
    most one system message; vLLM responds with status 400 otherwise.
    """
    parses_arguments: bool = False
    """Whether the server parses the arguments of earlier calls, and fails if they are not JSON."""
    has_custom_tools: bool = False
    """Whether the server supports custom tools, whose input is any text."""
    call_id: re.Pattern[str] = DEFAULT_CALL_ID
    """The call ids that the server accepts; any other id is replaced by a hash."""
    call_id_length: int = 24
    """The length of the hash that replaces a call id."""


DIALECTS: Final = {
    dialect.provider: dialect
    for dialect in (
        Dialect(provider="openai", max_tokens_field="max_completion_tokens", has_custom_tools=True),
        Dialect(
            provider="vllm",
            thinking_field="reasoning",
            merges_neighbours=True,
            parses_arguments=True,
        ),
        Dialect(provider="llama.cpp", thinking_field="reasoning_content", parses_arguments=True),
        Dialect(provider="lmstudio", has_strict_tools=False),
        Dialect(provider="ollama", thinking_field="reasoning", has_strict_tools=False),
        Dialect(provider="openrouter", thinking_field="reasoning"),
        Dialect(provider="groq", thinking_field="reasoning"),
        Dialect(provider="deepseek", thinking_field="reasoning_content", has_strict_tools=False),
        Dialect(
            provider="mistral",
            has_strict_tools=False,
            has_stream_options=False,
            call_id=_MISTRAL_ID,
            call_id_length=9,
        ),
        Dialect(provider="xai", thinking_field="reasoning_content"),
        Dialect(provider="together", thinking_field="reasoning"),
        Dialect(provider="fireworks", thinking_field="reasoning_content"),
        Dialect(provider="google", has_strict_tools=False),
    )
}
"""The dialects of known servers by provider. For another server, create your own `Dialect`."""

OPENAI: Final = DIALECTS["openai"]
