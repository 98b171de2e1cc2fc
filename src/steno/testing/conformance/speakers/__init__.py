"""Speakers of the protocols that steno speaks, one file for each."""

from typing import Final

from steno.testing.conformance.speaker import Speaker
from steno.testing.conformance.speakers.anthropic_messages import AnthropicMessagesSpeaker
from steno.testing.conformance.speakers.chat import ChatSpeaker
from steno.testing.conformance.speakers.gemini import GeminiSpeaker
from steno.testing.conformance.speakers.ollama_chat import OllamaChatSpeaker
from steno.testing.conformance.speakers.openai_chat import OpenAIChatSpeaker
from steno.testing.conformance.speakers.openai_responses import OpenAIResponsesSpeaker

SPEAKERS: Final[tuple[Speaker, ...]] = (
    AnthropicMessagesSpeaker(),
    ChatSpeaker(),
    GeminiSpeaker(),
    OllamaChatSpeaker(),
    OpenAIChatSpeaker(),
    OpenAIResponsesSpeaker(),
)
"""One for each wire of steno."""

__all__ = [
    "SPEAKERS",
    "AnthropicMessagesSpeaker",
    "ChatSpeaker",
    "GeminiSpeaker",
    "OllamaChatSpeaker",
    "OpenAIChatSpeaker",
    "OpenAIResponsesSpeaker",
]
