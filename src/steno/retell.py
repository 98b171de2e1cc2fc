"""A whole answer told as events: for what was asked to stream and did not, and for what is told again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from steno.call import InvalidToolCall, ToolCall
from steno.content import Image, Opaque, Text, Thinking
from steno.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.message import AssistantBlock, AssistantMessage
from steno.usage import StopReason


def tell(message: AssistantMessage) -> Iterator[Event]:
    """Yield the events of which an Assembler makes the same message again."""
    for index, block in enumerate(message.content):
        yield from _tell_block(index, block)
    if message.extras is not None:
        yield ExtrasAdded(None, message.extras)
    stop_reason = message.stop_reason or StopReason.UNKNOWN
    yield Finished(stop_reason, message.raw_stop_reason, message.usage)


def _tell_block(index: int, block: AssistantBlock) -> Iterator[Event]:
    match block:
        case Text():
            yield TextDelta(index, block.text)
            yield from _tell_rest(index, block)
        case Thinking():
            yield ThinkingDelta(index, block.text, block.redacted)
            yield from _tell_rest(index, block)
        case ToolCall() | InvalidToolCall():
            original = block.original_name if isinstance(block, ToolCall) else None
            yield ToolCallBegin(index, block.id, original or block.name)
            yield ToolCallDelta(index, arguments_delta=block.arguments)
            yield from _tell_rest(index, block)
            yield ToolCallEnd(index, block.id)
        case Image() | Opaque():
            yield BlockAdded(index, block)
        case _:
            assert_never(block)


def _tell_rest(index: int, block: Text | Thinking | ToolCall | InvalidToolCall) -> Iterator[Event]:
    if block.seal is not None:
        yield BlockSealed(index, block.seal)
    if block.extras is not None:
        yield ExtrasAdded(index, block.extras)
