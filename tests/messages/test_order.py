"""The order of messages: one at a time, and as a whole."""

from __future__ import annotations

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    Message,
    OutOfOrder,
    StopReason,
    ToolCall,
    check_order,
)
from steno.messages.order import ORDER_REMEDIES, OrderCode, OrderState, Severity

SYSTEM = ChatMessage.system("You are helpful.")
USER = ChatMessage.user("Hello")
ASSISTANT = ChatMessage.assistant("Hi")


def calling(*ids: str) -> AssistantMessage:
    return ChatMessage.assistant(None, [ToolCall(id=id, name="read") for id in ids])


def result(id: str, text: str = "ok") -> Message:
    return ChatMessage.tool_result(id, text)


def fold(*messages: Message, alternating: bool = False) -> OrderState:
    order = OrderState(alternating=alternating)
    for message in messages:
        order = order.after(message)
    return order


def codes(*messages: Message, alternating: bool = False) -> list[tuple[str, int]]:
    issues = check_order(messages, alternating=alternating)
    return [(issue.code.value, issue.position) for issue in issues]


# -- one message at a time -------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-106", "FR-004a-107")
def test_an_assistant_message_may_follow_tool_results() -> None:
    order = fold(
        SYSTEM, USER, calling("a", "b"), result("b"), result("a"), ASSISTANT, alternating=True
    )
    assert order.outstanding == ()


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((USER,), "system_missing"),
        ((SYSTEM, SYSTEM), "system_not_first"),
        ((SYSTEM, USER, USER), "not_alternating"),
        ((SYSTEM, USER, ASSISTANT, ASSISTANT), "not_alternating"),
    ],
)
@pytest.mark.requirement("FR-004a-104", "FR-004a-105", "FR-004a-106")
def test_a_plain_chat_alternates_after_its_system_message(
    messages: tuple[Message, ...], code: str
) -> None:
    with pytest.raises(OutOfOrder) as caught:
        fold(*messages, alternating=True)
    assert caught.value.code == code
    assert fold(*messages).outstanding == ()


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((calling("a"), USER), "call_unanswered"),
        ((calling("a"), ASSISTANT), "call_unanswered"),
        ((calling("a", "b"), result("a"), USER), "call_unanswered"),
        ((result("a"),), "result_orphaned"),
        ((calling("a"), result("b")), "result_orphaned"),
        ((calling("a"), result("a"), result("a")), "result_repeated"),
        ((calling("a", "a"),), "call_id_repeated"),
        ((calling("a"), result("a"), USER, result("a")), "result_orphaned"),
    ],
)
@pytest.mark.requirement("FR-004a-59", "FR-004a-107")
def test_every_call_is_answered_exactly_once_before_the_next_turn(
    messages: tuple[Message, ...], code: str
) -> None:
    with pytest.raises(OutOfOrder) as caught:
        fold(*messages)
    assert caught.value.code == code


def test_a_user_message_may_follow_tool_results() -> None:
    assert fold(SYSTEM, USER, calling("a"), result("a"), USER, alternating=True).outstanding == ()


def test_a_call_that_cannot_be_run_awaits_its_result_too() -> None:
    broken = ChatMessage.assistant(None, [InvalidToolCall(id="a", reason="no JSON")])
    assert fold(broken).outstanding == ("a",)


def test_an_id_may_be_used_again_in_a_later_turn() -> None:
    """Kimi numbers its calls anew in each turn."""
    assert fold(calling("a"), result("a"), calling("a"), result("a")).outstanding == ()


# -- a whole sequence ------------------------------------------------------------------------


def test_a_valid_sequence_has_no_issue() -> None:
    assert codes(SYSTEM, USER, calling("a", "b"), result("a"), result("b"), ASSISTANT, USER) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER, calling("a")], [("call_unanswered", 1)]),
        ([calling("a", "b"), result("a"), USER], [("call_unanswered", 0)]),
        ([USER, result("x")], [("result_orphaned", 1)]),
        ([calling("a"), result("a"), result("a")], [("result_repeated", 2)]),
        ([calling("a"), USER, result("a")], [("result_late", 2)]),
        ([result("a"), calling("a")], [("result_early", 0)]),
        ([calling("a", "b"), result("b"), result("a")], [("results_reordered", 2)]),
        ([calling("a", "a"), result("a"), result("a")], [("call_id_repeated", 0)]),
        (
            [calling("a"), result("a"), calling("b", "a"), result("b"), result("a")],
            [("call_id_reused", 2)],
        ),
        (
            [USER, AssistantMessage(content=(), stop_reason=StopReason.ABORTED)],
            [("turn_empty", 1)],
        ),
        ([USER, SYSTEM], [("system_not_first", 1)]),
        (
            [calling("a"), USER, calling("a"), result("a")],
            [("call_unanswered", 0), ("call_id_reused", 2)],
        ),
    ],
)
@pytest.mark.requirement("FR-004a-115", "P-18")
def test_every_violation_is_reported_with_its_place(
    messages: list[Message], expected: list[tuple[str, int]]
) -> None:
    assert codes(*messages) == expected


def test_a_plain_chat_is_checked_for_alternation_as_well() -> None:
    assert codes(USER, USER, ASSISTANT, ASSISTANT, SYSTEM, alternating=True) == [
        ("system_missing", 0),
        ("not_alternating", 1),
        ("not_alternating", 3),
        ("system_not_first", 4),
    ]


@pytest.mark.requirement("P-18")
def test_an_issue_has_a_severity_and_a_remedy() -> None:
    (late,) = check_order([calling("a"), USER, result("a")])
    assert late.severity is Severity.ERROR
    assert late.call_id == "a"
    assert late.remedy == "move the result up to its call"
    (reused,) = check_order([calling("a"), result("a"), calling("a"), result("a")])
    assert (reused.severity, reused.call_id) == (Severity.WARNING, "a")
    (reordered,) = check_order([calling("a", "b"), result("b"), result("a")])
    assert reordered.severity is Severity.WARNING


def test_every_code_has_a_remedy() -> None:
    assert set(ORDER_REMEDIES) == set(OrderCode)


def test_issues_come_in_the_order_of_their_places() -> None:
    positions = [
        issue.position
        for issue in check_order([result("x"), calling("a"), USER, calling("b"), result("y")])
    ]
    assert positions == sorted(positions)
