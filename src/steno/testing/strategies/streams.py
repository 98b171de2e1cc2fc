"""Strategies for what a provider streams in one turn, and the message that it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno.call import AnyToolCall
from steno.event import Event, Finished
from steno.message import AssistantBlock, AssistantMessage
from steno.testing.strategies.events import finishes
from steno.testing.strategies.habits import StreamHabits, stream_habits
from steno.testing.strategies.script import MOST_PARTS, Part, TurnScript
from steno.usage import StopReason

_KINDS: Final[tuple[Part, ...]] = ("text", "thinking", "redacted", "whole", "call", "call", "call")
_PARTS: Final = st.lists(st.sampled_from(_KINDS), max_size=MOST_PARTS)


class EventStream(NamedTuple):
    """The events of one turn and the message that they mean."""

    events: tuple[Event, ...]
    message: AssistantMessage
    """What they should become; calls that got no id from the provider have an invented one."""
    habits: StreamHabits

    def expected(self, assembled: AssistantMessage) -> AssistantMessage:
        """Return `message`, with the ids of `assembled` where the provider gave none."""
        if self.habits.ids != "missing":
            return self.message
        made = iter(assembled.tool_calls)
        content = [_with_id_of(block, made) for block in self.message.content]
        return msgspec.structs.replace(self.message, content=tuple(content))


@st.composite
def event_streams(draw: DrawFn, habits: SearchStrategy[StreamHabits] | None = None) -> EventStream:
    """Turns as providers stream them, each with the message that it should become.

    Words and arguments are cut anywhere between two characters. `habits` chooses the provider,
    as in `event_streams(st.just(StreamHabits(index="shared")))`; without it, it is any.
    """
    chosen = draw(stream_habits() if habits is None else habits).made_decodable()
    script = TurnScript(draw, chosen)
    for part in draw(_PARTS):
        script.add(part)
    events = script.events()
    end = draw(finishes()) if chosen.finishes else None
    message = _message(tuple(script.expected_blocks(events)), end)
    return EventStream((*events, *([] if end is None else [end])), message, chosen)


def _message(content: tuple[AssistantBlock, ...], end: Finished | None) -> AssistantMessage:
    if end is None:
        return AssistantMessage(content=content, stop_reason=StopReason.UNKNOWN)
    has_calls = any(isinstance(block, AnyToolCall) for block in content)
    is_plain_end = has_calls and end.stop_reason is StopReason.END_TURN
    return AssistantMessage(
        content=content,
        stop_reason=StopReason.TOOL_USE if is_plain_end else end.stop_reason,
        raw_stop_reason=end.raw_stop_reason,
        usage=end.usage,
    )


def _with_id_of(block: AssistantBlock, made: Iterator[AnyToolCall]) -> AssistantBlock:
    if not isinstance(block, AnyToolCall) or (call := next(made, None)) is None:
        return block
    return msgspec.structs.replace(block, id=call.id)
