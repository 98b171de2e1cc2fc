"""Every conversation can be sent after a repair, and loses no content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    SystemMessage,
    Text,
    ToolResult,
    UserMessage,
    check_order,
    repair,
)
from steno.messages.call import AnyToolCall
from steno.messages.content import Block
from steno.messages.message import Message
from steno.messages.order import Severity
from steno.testing import conversations, damaged_conversations

shuffled_conversations = damaged_conversations().flatmap(
    lambda messages: st.permutations(messages).map(tuple)
)
any_conversations = st.one_of(
    damaged_conversations(),
    damaged_conversations(),
    shuffled_conversations,
    conversations(alternating=False),
)


@given(any_conversations)
def test_a_repaired_conversation_is_in_order(messages: tuple[Message, ...]) -> None:
    repaired = repair(messages)
    event("damaged" if repaired.issues else "as it was")
    issues = check_order(repaired.messages)
    assert [issue for issue in issues if issue.severity is Severity.ERROR] == []


@given(any_conversations)
def test_repairing_twice_changes_nothing_more(messages: tuple[Message, ...]) -> None:
    once = repair(messages).messages
    twice = repair(once)
    assert twice.messages == once
    assert twice.issues == ()
    assert all(one is other for one, other in zip(once, twice.messages, strict=True))


@given(st.booleans().flatmap(lambda alternating: conversations(alternating=alternating)))
def test_a_valid_sequence_is_returned_unchanged(messages: tuple[Message, ...]) -> None:
    repaired = repair(messages)
    assert repaired.issues == ()
    assert len(repaired.messages) == len(messages)
    assert all(one is other for one, other in zip(messages, repaired.messages, strict=True))


@given(any_conversations)
def test_repair_is_the_same_every_time(messages: tuple[Message, ...]) -> None:
    assert repair(messages) == repair(list(messages)) == repair(iter(messages))


@given(any_conversations)
def test_every_call_is_answered_once_and_at_once(messages: tuple[Message, ...]) -> None:
    repaired = repair(messages).messages
    position = 0
    while position < len(repaired):
        message = repaired[position]
        assert not isinstance(message, ToolResult)
        ids = [call.id for call in message.tool_calls]
        answers = repaired[position + 1 : position + 1 + len(ids)]
        assert [answer.tool_call_id for answer in answers] == ids
        assert len(set(ids)) == len(ids)
        position += 1 + len(ids)


# -- what is kept ------------------------------------------------------------------------------


@given(any_conversations)
def test_a_repair_keeps_all_content_in_order(messages: tuple[Message, ...]) -> None:
    repaired = repair(messages).messages
    assert list(people(repaired)) == list(people(messages))
    assert turns(repaired) == turns(messages)


def people(messages: Iterable[Message]) -> Iterable[Message]:
    return (message for message in messages if isinstance(message, (SystemMessage, UserMessage)))


def turns(messages: Iterable[Message]) -> list[list[Block | tuple[str, str]]]:
    """Return the blocks of every turn that has any; for calls, the fields that a repair keeps."""
    return [
        [
            (block.name, block.arguments) if isinstance(block, AnyToolCall) else block
            for block in message.content
        ]
        for message in messages
        if isinstance(message, AssistantMessage) and message.content
    ]


@given(any_conversations)
def test_speakers_keep_their_places(messages: tuple[Message, ...]) -> None:
    def roles(found: Iterable[Message]) -> list[str]:
        return [m.role for m in found if not isinstance(m, ToolResult) and m.content]

    assert roles(repair(messages).messages) == roles(messages)


@given(any_conversations)
def test_a_result_is_lost_only_if_its_call_has_another_or_does_not_exist(
    messages: tuple[Message, ...],
) -> None:
    numbered = [
        msgspec.structs.replace(message, content=(Text(f"result {position}"),))
        if isinstance(message, ToolResult)
        else message
        for position, message in enumerate(messages)
    ]
    repaired = repair(numbered).messages
    kept = Counter(message.text for message in repaired if isinstance(message, ToolResult))
    given_results = [message for message in numbered if isinstance(message, ToolResult)]
    assert all(kept[result.text] <= 1 for result in given_results)
    survivors = Counter(result.tool_call_id for result in given_results if kept[result.text])
    assert survivors == answerable(numbered)


def answerable(messages: Iterable[Message]) -> Counter[str]:
    """Count, for each id, the results that do not repeat an earlier one."""
    waiting: Counter[str] = Counter()
    early: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    called: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            waiting[call.id] += 1
            called.add(call.id)
        if not isinstance(message, ToolResult):
            continue
        call_id = message.tool_call_id
        if waiting[call_id]:
            waiting[call_id] -= 1
            answered[call_id] += 1
        elif call_id not in called:
            early[call_id] += 1
    for call_id in early:
        answered[call_id] += min(early[call_id], waiting[call_id])
    return +answered


@given(any_conversations)
def test_an_added_result_states_that_none_was_recorded(messages: tuple[Message, ...]) -> None:
    given_results = {message.content for message in messages if isinstance(message, ToolResult)}
    for message in repair(messages).messages:
        if isinstance(message, ToolResult) and message.content not in given_results:
            assert message.is_error
            assert message.text


@pytest.mark.requirement("FR-004a-59")
@given(any_conversations)
def test_a_repair_reports_its_changes(messages: tuple[Message, ...]) -> None:
    repaired = repair(messages)
    assert (repaired.messages == messages) == (not repaired.issues)
