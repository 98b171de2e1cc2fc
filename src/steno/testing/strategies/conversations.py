"""Strategies for sequences of messages: in order, and with everything that happens to order.

The order is the point here, so what is said is kept short; ids are as wild as anywhere, and a
later turn may use the ids of an earlier one again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.content import FileReference, Text, Thinking
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.outcome import Outcome
from steno.role import MessageRole
from steno.testing.strategies.primitives import identifiers, texts, visible_texts
from steno.usage import StopReason

_MOST_TURNS: Final = 5
_SYSTEM: Final = visible_texts().map(lambda text: SystemMessage((Text(text),)))
_USER: Final = st.one_of(
    visible_texts().map(lambda text: UserMessage((Text(text),))),
    st.just(UserMessage((FileReference(path="notes.txt"),))),
)
_SHORT: Final = texts(max_size=8)
_WORDS: Final = st.lists(_SHORT.map(Text) | _SHORT.map(Thinking), max_size=2)
# Some look like what a second call of the id "a" is renamed to.
_SOME_IDS: Final = st.sampled_from(("a", "b", "a_2", "a_3", "toolu_01", "\u2028", "日本"))
_IDS: Final = st.lists(_SOME_IDS | _SOME_IDS | identifiers(), min_size=3, max_size=5, unique=True)
_NAMES: Final = st.sampled_from(("read", "write", "bash"))
_ARGUMENTS: Final = st.sampled_from(("{}", '{"path":"a"}', '{ "n": 1.0e5 }', '{"path":'))
_OUTCOMES: Final = st.sampled_from(Outcome)
_FIRST_IDS: Final = st.integers(0, 2)
_CALL_COUNTS: Final = st.sampled_from((0, 1, 1, 2, 2, 3))


@st.composite
def conversations(draw: DrawFn, *, alternating: bool = True) -> tuple[Message, ...]:
    """Whole conversations in perfect order: `check_order` has nothing to say about them.

    `alternating` keeps the rules of a plain chat as well, those of `ConversationHistory`: the
    system message first, user and assistant taking turns.
    """
    return tuple(_converse(draw, alternating, draw(st.integers(0, _MOST_TURNS))))


@st.composite
def damaged_conversations(draw: DrawFn) -> tuple[Message, ...]:
    """Conversations in which something happened to the order; now and then it did no harm.

    Results are missing, repeated, moved, orphaned; calls share an id; turns are empty, gone or
    cut off in the middle.
    """
    messages = _converse(draw, draw(st.booleans()), draw(st.integers(2, _MOST_TURNS)))
    for damage in draw(st.lists(st.sampled_from(_DAMAGES), min_size=1, max_size=4)):
        damage(draw, messages)
    return tuple(messages)


def _converse(draw: DrawFn, alternating: bool, turns: int) -> list[Message]:
    messages: list[Message] = []
    if alternating or draw(st.booleans()):
        messages.append(draw(_SYSTEM))
    ids = draw(_IDS)
    for _ in range(turns):
        last = messages[-1].role if messages else None
        speakers = [
            speaker
            for speaker in (MessageRole.USER, MessageRole.ASSISTANT)
            if not (alternating and speaker is last)
        ]
        if draw(st.sampled_from(speakers)) is MessageRole.USER:
            messages.append(draw(_USER))
        else:
            turn = _turn(draw, ids)
            messages += [turn, *(_result(draw, call) for call in turn.tool_calls)]
    return messages


def _turn(draw: DrawFn, ids: list[str]) -> AssistantMessage:
    words: list[AssistantBlock] = [*draw(_WORDS)]
    first, count = draw(_FIRST_IDS), draw(_CALL_COUNTS)
    calls = [_call(draw, call_id) for call_id in (ids[first:] + ids[:first])[:count]]
    position = draw(st.integers(0, len(words)))
    content = (*words[:position], *calls, *words[position:])
    if not content:
        return AssistantMessage(content=(Text(""),), stop_reason=StopReason.END_TURN)
    return AssistantMessage(content=content)


def _call(draw: DrawFn, call_id: str) -> AnyToolCall:
    name, arguments = draw(_NAMES), draw(_ARGUMENTS)
    if arguments.endswith("}"):
        return ToolCall(id=call_id, name=name, arguments=arguments)
    return InvalidToolCall(id=call_id, arguments=arguments, reason="the text ends too soon")


def _result(draw: DrawFn, call: AnyToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(draw(_SHORT)),),
        outcome=draw(_OUTCOMES),
    )


# -- damage ------------------------------------------------------------------------------------

_Damage: TypeAlias = Callable[[DrawFn, list[Message]], None]


def _drop_result(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        del messages[draw(st.sampled_from(found))]


def _repeat_result(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        again = msgspec.structs.replace(
            messages[draw(st.sampled_from(found))], content=(Text(draw(_SHORT)),)
        )
        _insert(draw, messages, again)


def _move_result(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        _insert(draw, messages, messages.pop(draw(st.sampled_from(found))))


def _swap_results(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        one, other = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        messages[one], messages[other] = messages[other], messages[one]


def _add_orphan(draw: DrawFn, messages: list[Message]) -> None:
    orphan = ToolResultMessage(tool_call_id=draw(identifiers()), content=())
    _insert(draw, messages, orphan)


def _share_call_id(draw: DrawFn, messages: list[Message]) -> None:
    """Let one more call of a turn have the id of another, with or without one more result."""
    found = [position for position in _find_turns(messages) if messages[position].tool_calls]
    if not found:
        return
    position = draw(st.sampled_from(found))
    turn = messages[position]
    call = _call(draw, draw(st.sampled_from(turn.tool_calls)).id)
    assert isinstance(turn, AssistantMessage)
    messages[position] = msgspec.structs.replace(turn, content=(*turn.content, call))
    if draw(st.booleans()):
        messages.insert(position + 1 + len(turn.tool_calls), _result(draw, call))


def _empty_turn(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_turns(messages):
        empty = AssistantMessage(content=(), stop_reason=StopReason.ABORTED)
        messages[draw(st.sampled_from(found))] = empty


def _drop_turn(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_turns(messages):
        del messages[draw(st.sampled_from(found))]


def _cut_off(draw: DrawFn, messages: list[Message]) -> None:
    del messages[draw(st.integers(0, len(messages))) :]


_DAMAGES: Final[tuple[_Damage, ...]] = (
    _drop_result,
    _repeat_result,
    _move_result,
    _swap_results,
    _add_orphan,
    _share_call_id,
    _empty_turn,
    _drop_turn,
    _cut_off,
)


def _find_results(messages: list[Message]) -> list[int]:
    return [n for n, message in enumerate(messages) if isinstance(message, ToolResultMessage)]


def _find_turns(messages: list[Message]) -> list[int]:
    return [n for n, message in enumerate(messages) if isinstance(message, AssistantMessage)]


def _insert(draw: DrawFn, messages: list[Message], message: Message) -> None:
    messages.insert(draw(st.integers(0, len(messages))), message)
