"""The state machine, the check of a whole sequence and the history know the same rules."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from steno import ConversationHistory, OrderIssue, OutOfOrder, ToolResult, check_order
from steno.messages.message import Message
from steno.messages.order import OrderCode, OrderState, Severity
from steno.testing import conversations, damaged_conversations

any_conversations = st.one_of(
    conversations(), conversations(alternating=False), damaged_conversations()
)
either = st.booleans()


def errors(issues: Iterable[OrderIssue]) -> list[OrderIssue]:
    return [issue for issue in issues if issue.severity is Severity.ERROR]


def codes(issues: Iterable[OrderIssue]) -> set[OrderCode]:
    return {issue.code for issue in issues}


def is_in_order(messages: Iterable[Message], *, alternating: bool) -> bool:
    order = OrderState(alternating=alternating)
    try:
        for message in messages:
            order = order.after(message)
    except OutOfOrder:
        return False
    return not order.outstanding


@given(any_conversations, either)
def test_the_state_machine_and_the_check_agree(
    messages: tuple[Message, ...], alternating: bool
) -> None:
    issues = check_order(messages, alternating=alternating)
    event("in order" if not errors(issues) else errors(issues)[0].code)
    assert is_in_order(messages, alternating=alternating) == (not errors(issues))


@given(damaged_conversations(), st.permutations(range(12)), either)
def test_they_agree_about_messages_in_any_order(
    messages: tuple[Message, ...], order: list[int], alternating: bool
) -> None:
    shuffled = [messages[place] for place in order if place < len(messages)]
    issues = check_order(shuffled, alternating=alternating)
    assert is_in_order(shuffled, alternating=alternating) == (not errors(issues))


@pytest.mark.requirement("FR-004a-105", "FR-004a-106", "FR-004a-107")
@given(conversations())
def test_a_conversation_in_order_has_no_issue(messages: tuple[Message, ...]) -> None:
    assert codes(check_order(messages, alternating=True)) <= {OrderCode.CALL_ID_REUSED}
    assert codes(check_order(messages)) <= {OrderCode.CALL_ID_REUSED}


@given(conversations(alternating=False))
def test_a_conversation_in_order_need_not_alternate(messages: tuple[Message, ...]) -> None:
    assert codes(check_order(messages)) <= {OrderCode.CALL_ID_REUSED}


@given(any_conversations, either)
def test_every_issue_names_its_place_and_a_remedy(
    messages: tuple[Message, ...], alternating: bool
) -> None:
    issues = check_order(messages, alternating=alternating)
    positions = [issue.position for issue in issues]
    assert positions == sorted(positions)
    for issue in issues:
        assert 0 <= issue.position < len(messages)
        assert issue.remedy
        message = messages[issue.position]
        if issue.code.startswith("result"):
            assert isinstance(message, ToolResult)
            assert issue.call_id == message.tool_call_id
        elif issue.code.startswith("call"):
            assert issue.call_id in [call.id for call in message.tool_calls]


@given(any_conversations)
def test_alternation_only_adds_issues(messages: tuple[Message, ...]) -> None:
    plain = check_order(messages)
    strict = check_order(messages, alternating=True)
    codes = {issue.code for issue in strict} - {issue.code for issue in plain}
    assert codes <= {OrderCode.SYSTEM_MISSING, OrderCode.NOT_ALTERNATING}
    assert len(errors(plain)) <= len(errors(strict))


# -- the history -------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-104", "FR-004a-59", "S0-V7")
@given(any_conversations)
def test_a_message_out_of_order_changes_nothing(messages: tuple[Message, ...]) -> None:
    history = ConversationHistory()
    for message in messages:
        before = (history.messages, history.outstanding, history.last, len(history))
        try:
            history.add(message)
        except OutOfOrder:
            assert (history.messages, history.outstanding, history.last, len(history)) == before
        else:
            assert history.messages == (*before[0], message)
    assert not errors(
        issue
        for issue in check_order(history.messages, alternating=True)
        if issue.code is not OrderCode.CALL_UNANSWERED
    )


@pytest.mark.requirement("FR-004a-115")
@given(any_conversations)
def test_a_history_is_complete_exactly_if_it_is_in_order(messages: tuple[Message, ...]) -> None:
    try:
        history = ConversationHistory(messages)
        history.check_complete()
    except OutOfOrder:
        assert not messages or not is_in_order(messages, alternating=True)
    else:
        assert messages
        assert is_in_order(messages, alternating=True)
