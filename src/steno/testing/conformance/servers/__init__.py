"""Scripted servers for the protocols of steno's wires."""

from typing import Final

from steno.testing.conformance.scripted_server import ScriptedServer
from steno.testing.conformance.servers.block_servers import (
    AnthropicMessagesServer,
    OpenAIResponsesServer,
)
from steno.testing.conformance.servers.chunk_servers import (
    ChatServer,
    GeminiServer,
    OllamaChatServer,
    OpenAIChatServer,
)

SERVERS: Final[tuple[ScriptedServer, ...]] = (
    AnthropicMessagesServer(),
    ChatServer(),
    GeminiServer(),
    OllamaChatServer(),
    OpenAIChatServer(),
    OpenAIResponsesServer(),
)
"""One server for each wire of steno."""

__all__ = [
    "SERVERS",
    "AnthropicMessagesServer",
    "ChatServer",
    "GeminiServer",
    "OllamaChatServer",
    "OpenAIChatServer",
    "OpenAIResponsesServer",
]
