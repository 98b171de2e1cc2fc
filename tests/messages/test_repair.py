"""Repair: after any history, every call has exactly one result in the request."""

from __future__ import annotations

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    Message,
    Outcome,
    StopReason,
    Text,
    ToolCall,
    repair,
)
from steno.messages.order import NO_RESULT_TEXT

USER = ChatMessage.user("Go on")
DONE = ChatMessage.assistant("Done")


def calling(*ids: str) -> AssistantMessage:
    return ChatMessage.assistant("Now", [ToolCall(id=id, name="read") for id in ids])


def result(id: str, text: str = "ok") -> Message:
    return ChatMessage.tool_result(id, text, tool_name="read")


def missing(id: str) -> Message:
    return ChatMessage.tool_result(id, NO_RESULT_TEXT, outcome=Outcome.CANCELLED, tool_name="read")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param([USER, result("x"), DONE], [USER, DONE], id="orphan"),
        pytest.param(
            [calling("a"), result("a", "first"), result("a", "second")],
            [calling("a"), result("a", "first")],
            id="duplicate",
        ),
        pytest.param(
            [calling("a"), USER, DONE, result("a")],
            [calling("a"), result("a"), USER, DONE],
            id="late",
        ),
        pytest.param([result("a"), calling("a")], [calling("a"), result("a")], id="early"),
        pytest.param(
            [calling("a", "b"), result("b"), result("a")],
            [calling("a", "b"), result("a"), result("b")],
            id="reordered",
        ),
        pytest.param([USER, calling("a")], [USER, calling("a"), missing("a")], id="interrupted"),
        pytest.param(
            [calling("a", "b"), result("b"), USER],
            [calling("a", "b"), missing("a"), result("b"), USER],
            id="interrupted between calls",
        ),
        pytest.param(
            [calling("a", "a"), result("a", "1"), result("a", "2")],
            [calling("a", "a_2"), result("a", "1"), result("a_2", "2")],
            id="shared id",
        ),
        pytest.param(
            [calling("a", "a", "a_2")],
            [calling("a", "a_3", "a_2"), missing("a"), missing("a_3"), missing("a_2")],
            id="shared id whose new name is taken",
        ),
        pytest.param(
            [USER, AssistantMessage(content=(), stop_reason=StopReason.ABORTED), DONE],
            [USER, DONE],
            id="turn without a word",
        ),
        pytest.param(
            [calling("a"), USER, calling("a"), result("a", "second")],
            [calling("a"), missing("a"), USER, calling("a"), result("a", "second")],
            id="an id used again takes the nearest call",
        ),
    ],
)
def test_after_a_repair_every_call_has_one_result(
    given: list[Message], sent: list[Message]
) -> None:
    repaired = repair(given)
    assert list(repaired.messages) == sent
    assert repaired.issues
    again = repair(repaired.messages)
    assert again.messages == repaired.messages
    assert again.issues == ()


def test_a_call_that_could_not_be_run_is_answered_with_the_reason() -> None:
    broken = ChatMessage.assistant(None, [InvalidToolCall(id="a", reason="no JSON")])
    answer = repair([broken]).messages[1]
    assert answer.text == "The call could not be run: no JSON"
    assert answer.tool_call_id == "a"


def test_a_valid_sequence_comes_back_as_it_is() -> None:
    given = (USER, calling("a"), result("a"), DONE)
    assert repair(given) == (given, ())
    assert all(one is other for one, other in zip(repair(given).messages, given, strict=True))


def test_the_given_messages_are_left_alone() -> None:
    given = [calling("a"), USER, result("a")]
    before = list(given)
    repair(given)
    assert given == before


def test_other_blocks_keep_their_place_when_a_call_is_renamed() -> None:
    first, second = ToolCall(id="a", name="read"), ToolCall(id="a", name="write")
    turn = AssistantMessage(content=(first, Text("and"), second))
    renamed = repair([turn]).messages[0]
    assert isinstance(renamed, AssistantMessage)
    assert renamed.content == (first, Text("and"), ToolCall(id="a_2", name="write"))


def test_positions_are_those_of_the_input() -> None:
    issues = repair([USER, calling("a"), USER, result("a")]).issues
    assert [(issue.code.value, issue.position) for issue in issues] == [("result_late", 3)]
