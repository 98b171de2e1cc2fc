"""Count the tokens of texts, messages and tools, or estimate them.

An estimate is cheap, and precise enough to keep a conversation within its limits. Counts are exact
for OpenAI models, whose vocabularies `rs-bpe` contains, and estimated for all other models.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, assert_never

import msgspec

from steno.json_object import as_json_object, raw_members
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.content import Block, FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.message import Message
from steno.messages.tool import ToolDefinition

CountTokens: TypeAlias = Callable[[str], int]
"""A function that returns the number of tokens of a text."""

IMAGE_TOKENS: Final = 1_600
"""The tokens assumed for an image of any size, the most that vendors usually charge."""
_MESSAGE_OVERHEAD: Final = 4
"""The tokens that encode the role, the start and the end of a message."""
_CALL_OVERHEAD: Final = 8
"""The tokens that encode the id and the member names of a tool call or a tool definition."""
_MODEL_VOCABULARIES: Final = (
    ("gpt-4o", "o200k_base"),
    ("gpt-4.", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-", "o200k_base"),
    ("chatgpt-", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
)
"""Prefixes of model names and their vocabularies; the first matching prefix is used."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text as one for every 3.5 bytes of UTF-8, plus one.

    For prose and code in any language, the estimate is slightly above the count of common
    vocabularies. It is too low for text that they encode badly, such as digests and base64 data.
    The estimate for an empty text is 0.
    """
    size = len(text) if text.isascii() else len(text.encode())
    return size * 2 // 7 + 1 if size else 0


def token_counter_for(model: str) -> CountTokens:
    """Return an exact token counter for a model, whose name may have a vendor prefix.

    Return `estimate_tokens` if the vocabulary is not known or `rs-bpe` is not installed.
    """
    name = model.rpartition("/")[2].lower()
    vocabulary = next(
        (found for start, found in _MODEL_VOCABULARIES if name.startswith(start)), None
    )
    if vocabulary is None:
        return estimate_tokens
    try:
        openai = importlib.import_module("rs_bpe").openai
    except ImportError:
        return estimate_tokens
    count: CountTokens = getattr(openai, vocabulary)().count
    return count


def message_tokens(message: Message, count_tokens: CountTokens) -> int:
    """Return the number of tokens of a message."""
    total = _MESSAGE_OVERHEAD
    for block in message.content:
        total += (
            count_tokens(block.text) if type(block) is Text else block_tokens(block, count_tokens)
        )
    return total


def block_tokens(block: Block, count_tokens: CountTokens) -> int:
    """Return the number of tokens of a block of a message."""
    match block:
        case Text():
            return count_tokens(block.text)
        case Thinking():
            # For thinking without text, the provider receives the seal.
            return count_tokens(block.text or ("" if block.seal is None else block.seal.data))
        case ToolCall() | InvalidToolCall():
            return _CALL_OVERHEAD + count_tokens(block.name) + count_tokens(block.arguments)
        case Image():
            return IMAGE_TOKENS
        case FileReference():
            return count_tokens(block.path) + _MESSAGE_OVERHEAD
        case Resource():
            return (
                count_tokens(block.uri)
                + count_tokens(block.text or "")
                + len(block.data or b"") // 2
            )
        case Opaque():
            return count_tokens(block.raw)
        case _:
            assert_never(block)


def tool_tokens(tools: Iterable[ToolDefinition], count_tokens: CountTokens) -> int:
    """Return the number of tokens of tool definitions."""
    total = 0
    for tool in tools:
        schema = msgspec.json.encode(raw_members(as_json_object(tool.parameters))).decode()
        total += (
            _CALL_OVERHEAD
            + count_tokens(tool.name)
            + count_tokens(tool.description)
            + count_tokens(schema)
        )
    return total
