"""Strategies for sequences of messages: in order, and with everything that happens to order.

The order is the point here, so what is said is kept short; ids are as wild as anywhere, and a
later turn may use the ids of an earlier one again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.content import FileReference, Text, Thinking
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    MessageRole,
    Outcome,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.testing.primitives import identifiers, texts, visible_texts
from steno.usage import StopReason

_MOST_TURNS: Final = 5
_SYSTEM: Final = visible_texts().map(lambda text: SystemMessage((Text(text),)))
_USER: Final = st.one_of(
    visible_texts().map(lambda text: UserMessage((Text(text),))),
    st.just(UserMessage((FileReference(path="notes.txt"),))),
)
_WORDS: Final = st.lists(texts(max_size=8).map(Text) | texts(max_size=8).map(Thinking), max_size=2)
# The last ones look like what a second call of the id "a" is renamed to.
_IDS: Final = st.lists(
    identifiers() | st.sampled_from(("a", "b", "a_2", "a_3")), min_size=3, max_size=5, unique=True
)
_NAMES: Final = st.sampled_from(("read", "write", "bash"))
_ARGUMENTS: Final = st.sampled_from(("{}", '{"path":"a"}', '{ "n": 1.0e5 }'))


@st.composite
def conversations(draw: DrawFn, *, alternating: bool = True) -> tuple[Message, ...]:
    """Whole conversations in perfect order: `check_order` has nothing to say about them.

    `alternating` keeps the rules of a plain chat as well, those of `ConversationHistory`: the
    system message first, user and assistant taking turns.
    """
    messages: list[Message] = []
    if alternating or draw(st.booleans()):
        messages.append(draw(_SYSTEM))
    ids = draw(_IDS)
    for _ in range(draw(st.integers(0, _MOST_TURNS))):
        last = messages[-1].role if messages else None
        speakers = [
            speaker
            for speaker in (MessageRole.USER, MessageRole.ASSISTANT)
            if not (alternating and speaker is last)
        ]
        if draw(st.sampled_from(speakers)) is MessageRole.USER:
            messages.append(draw(_USER))
        else:
            turn = draw(_turns(ids))
            messages += [turn, *(draw(_results(call)) for call in turn.tool_calls)]
    return tuple(messages)


@st.composite
def damaged_conversations(draw: DrawFn) -> tuple[Message, ...]:
    """Conversations in which something happened to the order; now and then it did no harm.

    Results are missing, repeated, moved, orphaned; calls share an id; turns are empty, gone or
    cut off in the middle.
    """
    messages = list(draw(conversations(alternating=draw(st.booleans()))))
    for damage in draw(st.lists(st.sampled_from(_DAMAGES), min_size=1, max_size=4)):
        damage(draw, messages)
    return tuple(messages)


@st.composite
def _turns(draw: DrawFn, ids: list[str]) -> AssistantMessage:
    words: list[AssistantBlock] = [*draw(_WORDS)]
    chosen = draw(st.lists(st.sampled_from(ids), max_size=3, unique=True))
    calls = [draw(_calls(call_id)) for call_id in chosen]
    position = draw(st.integers(0, len(words)))
    content = (*words[:position], *calls, *words[position:])
    if not content:
        return AssistantMessage(content=(Text(""),), stop_reason=StopReason.END_TURN)
    return AssistantMessage(content=content)


def _calls(call_id: str) -> SearchStrategy[AnyToolCall]:
    valid = st.builds(ToolCall, id=st.just(call_id), name=_NAMES, arguments=_ARGUMENTS)
    invalid = InvalidToolCall(id=call_id, arguments='{"path":', reason="the text ends too soon")
    return valid | valid | st.just(invalid)


def _results(call: AnyToolCall) -> SearchStrategy[ToolResultMessage]:
    return st.builds(
        ToolResultMessage,
        tool_call_id=st.just(call.id),
        tool_name=st.just(call.name),
        content=st.tuples(texts(max_size=8).map(Text)),
        outcome=st.sampled_from(Outcome),
    )


# -- damage ------------------------------------------------------------------------------------

_Damage: TypeAlias = Callable[[DrawFn, list[Message]], None]


def _drop_result(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        del messages[draw(st.sampled_from(found))]


def _repeat_result(draw: DrawFn, messages: list[Message]) -> None:
    if found := _find_results(messages):
        again = msgspec.structs.replace(
            messages[draw(st.sampled_from(found))], content=(Text(draw(texts(max_size=8))),)
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
    call = draw(_calls(draw(st.sampled_from(turn.tool_calls)).id))
    assert isinstance(turn, AssistantMessage)
    messages[position] = msgspec.structs.replace(turn, content=(*turn.content, call))
    if draw(st.booleans()):
        messages.insert(position + 1 + len(turn.tool_calls), draw(_results(call)))


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
