"""Scripted servers of the protocols that steno has wires for, one module for each."""

from typing import Final

from steno.testing.conformance.scripted_server import ScriptedServer
from steno.testing.conformance.servers.anthropic_messages import AnthropicMessagesServer
from steno.testing.conformance.servers.chat import ChatServer
from steno.testing.conformance.servers.gemini import GeminiServer
from steno.testing.conformance.servers.ollama_chat import OllamaChatServer
from steno.testing.conformance.servers.openai_chat import OpenAIChatServer
from steno.testing.conformance.servers.openai_responses import OpenAIResponsesServer

SERVERS: Final[tuple[ScriptedServer, ...]] = (
    AnthropicMessagesServer(),
    ChatServer(),
    GeminiServer(),
    OllamaChatServer(),
    OpenAIChatServer(),
    OpenAIResponsesServer(),
)
"""One for each wire of steno."""

__all__ = [
    "SERVERS",
    "AnthropicMessagesServer",
    "ChatServer",
    "GeminiServer",
    "OllamaChatServer",
    "OpenAIChatServer",
    "OpenAIResponsesServer",
]
