"""How servers that speak this protocol differ: a row each, and never a question about a name."""

from __future__ import annotations

import re
from typing import Final, final

from steno.values import RedactedRepr

DEFAULT_CALL_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
MAX_TOKENS_FIELDS: Final = ("max_completion_tokens", "max_tokens")
"""The names that the most tokens to say have, the newest first."""
USAGE_STREAM_OPTIONS: Final = {"include_usage": True}
"""The options of a stream that ends with what it cost, which is what everybody else's do."""
FUNCTION_EXTRAS: Final = "inner"
"""A note of ours: members of the function of a call, which stand further inside than its others."""
LEGACY_CALL: Final = "function_call"
"""The only call of a turn, as it was written before there were several with ids.

It is a note of ours as well: on a call that was written so, and on a result, with its name.
"""
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")


@final
class Dialect(RedactedRepr, frozen=True, kw_only=True):
    """What a server wants to be told, and how."""

    provider: str
    """Who makes the seals, and for whom they are."""
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    thinking_field: str | None = None
    """The member of a message under which the server takes thinking back; None: it does not."""
    has_strict_tools: bool = True
    has_stream_options: bool = True
    merges_neighbours: bool = False
    """The server's templates want user and assistant in turn, and one system message, first."""
    parses_arguments: bool = False
    """The server reads the arguments in the history as JSON and fails if they are not."""
    has_custom_tools: bool = False
    """The server has tools whose input is any text, not JSON."""
    call_id: re.Pattern[str] = DEFAULT_CALL_ID
    call_id_length: int = 24


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
"""The servers we know. For another one make a `Dialect` of your own."""

OPENAI: Final = DIALECTS["openai"]
