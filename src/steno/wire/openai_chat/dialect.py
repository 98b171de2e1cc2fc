"""The differences between servers of this protocol: a row for each, never a test of a name."""

from __future__ import annotations

import re
from typing import Final, final

from steno.values import RedactedRepr

DEFAULT_CALL_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
MAX_TOKENS_FIELDS: Final = ("max_completion_tokens", "max_tokens")
"""The names of the token limit, the newest first."""
USAGE_STREAM_OPTIONS: Final = {"include_usage": True}
"""The options of a stream that ends with its usage, which other protocols send anyway."""
FUNCTION_EXTRAS: Final = "inner"
"""The note that holds unknown members of the function of a call, apart from those of the call."""
LEGACY_CALL: Final = "function_call"
"""The only call of a turn, as it was written before calls had ids.

It is also a note: on a call in this form, and on a result, with its name.
"""
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")


@final
class Dialect(RedactedRepr, frozen=True, kw_only=True):
    """The features and rules of a server."""

    provider: str
    """The owner of the seals."""
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    thinking_field: str | None = None
    """The member of a message in which the server accepts thinking; None: it does not."""
    has_strict_tools: bool = True
    has_stream_options: bool = True
    merges_neighbours: bool = False
    """The server's templates require user and assistant in turn, and one system message, first."""
    parses_arguments: bool = False
    """The server parses the arguments in the history as JSON, and fails if they are not."""
    has_custom_tools: bool = False
    """The server has tools whose input is any text, not only JSON."""
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
"""The known servers. For another one, create a `Dialect` of your own."""

OPENAI: Final = DIALECTS["openai"]
