"""Document S0: the history of a conversation."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import steno
from steno import (
    ChatMessage,
    ConversationHistory,
    Message,
    OutOfOrder,
    ToolCall,
    ToolResult,
    check_order,
)
from steno.codec import (
    decode_messages,
    encode_messages,
)
from tests.acceptance.command_line import run_steno
from tests.acceptance.message_samples import (
    ANSWER,
    CALLS,
    MANUAL,
    RESULT,
    SYSTEM,
    USER,
    history_of,
    switch_threads_often,
    type_name,
)


@pytest.mark.requirement("FR-004a-101")
def test_conversation_history_is_a_public_type_that_starts_empty() -> None:
    assert "ConversationHistory" in steno.__all__
    assert len(ConversationHistory()) == 0


@pytest.mark.requirement("FR-004a-102")
def test_of_many_threads_that_add_a_user_message_one_succeeds() -> None:
    def add(history: ConversationHistory, start: threading.Barrier) -> bool:
        start.wait(timeout=60)
        switch_threads_often()
        try:
            history.add(USER)
        except OutOfOrder:
            return False
        return True

    history, start = history_of(SYSTEM), threading.Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(add, [history] * 8, [start] * 8))
    assert added.count(True) == 1
    assert history.messages == (SYSTEM, USER)


@pytest.mark.requirement("FR-004a-103")
def test_add_appends_a_message() -> None:
    history = history_of(SYSTEM)
    history.add(USER)
    history.add(ANSWER)
    assert history.messages == (SYSTEM, USER, ANSWER)


@pytest.mark.requirement("FR-004a-104")
def test_add_refuses_a_message_out_of_order_and_changes_nothing() -> None:
    history = history_of(SYSTEM, USER)
    with pytest.raises(OutOfOrder) as caught:
        history.add(USER)
    assert isinstance(caught.value, ValueError)
    assert caught.value.position == 2
    assert history.messages == (SYSTEM, USER)
    history.add(ANSWER)


@pytest.mark.requirement("FR-004a-105")
@pytest.mark.parametrize("first", [USER, ANSWER, CALLS, RESULT], ids=type_name)
def test_the_first_message_is_a_system_message(first: Message) -> None:
    with pytest.raises(OutOfOrder):
        history_of(first)
    assert history_of(SYSTEM).last == SYSTEM


@pytest.mark.requirement("FR-004a-105")
def test_no_other_message_is_a_system_message() -> None:
    for messages in ([SYSTEM], [SYSTEM, USER], [SYSTEM, USER, ANSWER]):
        with pytest.raises(OutOfOrder):
            history_of(*messages).add(SYSTEM)


@pytest.mark.requirement("FR-004a-106")
@pytest.mark.parametrize(
    "messages",
    [
        (SYSTEM, USER, ANSWER, USER, ANSWER),
        (SYSTEM, USER, CALLS, RESULT, ANSWER, USER),
        (SYSTEM, USER, CALLS, RESULT, USER),
    ],
)
def test_user_and_assistant_alternate_with_tools_between(messages: Sequence[Message]) -> None:
    assert history_of(*messages).messages == messages


@pytest.mark.requirement("FR-004a-106")
@pytest.mark.parametrize(
    "messages",
    [
        (SYSTEM, USER, USER),
        (SYSTEM, USER, ANSWER, ANSWER),
        (SYSTEM, USER, ANSWER, USER, USER),
        (SYSTEM, USER, CALLS, RESULT, ANSWER, ANSWER),
        (SYSTEM, USER, CALLS, RESULT, USER, USER),
    ],
)
def test_two_messages_of_one_side_in_a_row_are_refused(messages: Sequence[Message]) -> None:
    *before, last = messages
    history = history_of(*before)
    with pytest.raises(OutOfOrder):
        history.add(last)


@pytest.mark.requirement("FR-004a-107")
@pytest.mark.parametrize(
    "before",
    [
        (SYSTEM,),
        (SYSTEM, USER),
        (SYSTEM, USER, ANSWER),
        (SYSTEM, USER, CALLS, RESULT),
        (SYSTEM, USER, CALLS, RESULT, ANSWER),
    ],
)
def test_a_tool_message_needs_an_assistant_message_that_waits_for_it(
    before: Sequence[Message],
) -> None:
    with pytest.raises(OutOfOrder):
        history_of(*before).add(RESULT)


@pytest.mark.requirement("FR-004a-107")
def test_every_call_is_answered_before_the_next_turn() -> None:
    two = ChatMessage.assistant(None, [ToolCall(id="a", name="ls"), ToolCall(id="b", name="ls")])
    history = history_of(SYSTEM, USER, two)
    history.add(ToolResult.success("b", ""))
    for message in (USER, ANSWER, ToolResult.success("b", "")):
        with pytest.raises(OutOfOrder):
            history.add(message)
    history.add(ToolResult.success("a", ""))
    history.add(ANSWER)


@pytest.mark.requirement("FR-004a-108")
def test_messages_returns_all_messages() -> None:
    history = history_of(SYSTEM, USER, ANSWER)
    assert history.messages == (SYSTEM, USER, ANSWER)


@pytest.mark.requirement("FR-004a-109")
def test_the_returned_messages_are_a_tuple_that_does_not_grow() -> None:
    history = history_of(SYSTEM)
    before = history.messages
    history.add(USER)
    assert isinstance(before, tuple)
    assert before == (SYSTEM,)


@pytest.mark.requirement("FR-004a-110")
def test_clear_removes_all_messages_and_the_history_starts_again() -> None:
    history = history_of(SYSTEM, USER, CALLS)
    history.clear()
    assert history.messages == ()
    with pytest.raises(OutOfOrder):
        history.add(RESULT)
    history.add(SYSTEM)
    history.add(USER)


@pytest.mark.requirement("FR-004a-111")
def test_len_counts_the_messages() -> None:
    history = ConversationHistory()
    counts = [len(history)]
    for message in (SYSTEM, USER, ANSWER):
        history.add(message)
        counts.append(len(history))
    assert counts == [0, 1, 2, 3]


@pytest.mark.requirement("FR-004a-112")
def test_last_is_the_newest_message_or_none() -> None:
    history = ConversationHistory()
    assert history.last is None
    history.add(SYSTEM)
    history.add(USER)
    assert history.last is USER


@pytest.mark.requirement("FR-004a-113")
def test_a_history_is_iterated_in_order_also_while_it_grows() -> None:
    history = history_of(SYSTEM, USER)
    seen = []
    for message in history:
        seen.append(message)
        if message is SYSTEM:
            history.add(ANSWER)
    assert seen == [SYSTEM, USER]
    assert list(history) == [SYSTEM, USER, ANSWER]


@pytest.mark.requirement("FR-004a-114")
def test_a_history_is_encoded_as_json_and_decoded() -> None:
    history = history_of(SYSTEM, USER, CALLS, RESULT, ANSWER)
    decoded = decode_messages(encode_messages(history))
    assert decoded == history.messages
    again = ConversationHistory(m for m in decoded if isinstance(m, ChatMessage))
    assert again.messages == history.messages


@pytest.mark.requirement("FR-004a-114", "FR-004a-24")
def test_the_program_imports_the_json_of_the_manual_and_exports_it(tmp_path: Path) -> None:
    written = json.dumps(list(MANUAL.values()))
    imported = run_steno("sessions", "import", "-", home=tmp_path, stdin=written)
    assert imported.status == 0, imported.err
    exported = run_steno(
        *("sessions", "export", imported.out.strip(), "--format", "chat"), home=tmp_path
    )
    assert json.loads(exported.out) == list(MANUAL.values())


@pytest.mark.requirement("FR-004a-115")
def test_a_complete_history_is_validated() -> None:
    history = history_of(SYSTEM, USER, CALLS)
    with pytest.raises(OutOfOrder):
        history.check_complete()
    history.add(RESULT)
    history.check_complete()
    with pytest.raises(OutOfOrder):
        ConversationHistory().check_complete()


TWICE = ChatMessage.assistant(None, CALLS.tool_calls * 2)
"""A message with two calls that share an id."""


@pytest.mark.requirement("FR-004a-115")
@pytest.mark.parametrize(
    ("messages", "position"),
    [
        ((USER, ANSWER), 0),
        ((SYSTEM, USER, USER), 2),
        ((SYSTEM, USER, CALLS, USER), 2),
        ((SYSTEM, USER, RESULT), 2),
        ((SYSTEM, USER, CALLS, RESULT, RESULT), 4),
        ((SYSTEM, USER, CALLS), 2),
        ((SYSTEM, USER, TWICE, RESULT, RESULT), 2),
        ((SYSTEM, USER, ANSWER, SYSTEM), 3),
    ],
)
def test_messages_from_elsewhere_are_validated_as_a_whole(
    messages: Sequence[Message], position: int
) -> None:
    assert position in [issue.position for issue in check_order(messages, alternating=True)]
    assert check_order([SYSTEM, USER, CALLS, RESULT, ANSWER], alternating=True) == ()


@pytest.mark.requirement("FR-004a-115")
def test_a_call_id_that_is_used_again_in_a_later_turn_is_reported() -> None:
    """The document assumes that ids are unique in a session, and lists their collision as a failure."""
    issues = check_order([SYSTEM, USER, CALLS, RESULT, ANSWER, USER, CALLS, RESULT, ANSWER])
    assert (6, "call_1") in [(issue.position, issue.call_id) for issue in issues]
