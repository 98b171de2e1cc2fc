"""Entries and events with headings, for an interface that writes line by line."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation, ToolCall
from steno.messages.outcome import Outcome
from steno.records.entry import ShellCommand
from steno.render.headed_text import (
    HeadedText,
    headed_call,
    headed_exit,
    headed_item,
    headed_output,
    headed_result,
    headed_steering,
    headed_thinking,
    recap,
)
from steno.render.items import ItemHint, ItemKind, TranscriptItem
from steno.render.session_items import returned_prompt_item
from steno.tools.calls import call_headline

CALL = ToolCall.create("bash", {"command": "pytest -q"}, id="c1")


def test_a_recap_has_the_last_exchanges_in_their_order() -> None:
    conversation = Conversation([ChatMessage.user("One"), ChatMessage.assistant("1")])
    conversation.append(ChatMessage.user("Two"))
    conversation.append(ChatMessage.assistant("\nI test.\n", [CALL]))
    conversation.append(ChatMessage.tool_result("c1", "ok\n"))
    conversation.append(ChatMessage.assistant("Done."))
    conversation.append(ShellCommand(command="ls", output="a.py", status=0))
    conversation.append(ChatMessage.user("Three"))
    assert list(recap(conversation.entries(), call_headline)) == [
        HeadedText("Notice", "2 earlier entries", hint=ItemHint.SHOW_TREE),
        HeadedText("You", "Two"),
        HeadedText("Answer", "I test."),
        HeadedText("Tool bash", "pytest -q"),
        HeadedText("Result", "ok, 1 line", [], is_quoted=True),
        HeadedText("Answer", "Done."),
        HeadedText("Shell", "$ ls\na.py"),
        HeadedText("You", "Three"),
    ]


def test_a_tool_gives_the_headline_of_its_calls() -> None:
    assert headed_call(CALL, lambda _: "all tests") == HeadedText("Tool bash", "all tests")
    assert headed_output(CALL) == HeadedText("Output", "of bash")


def test_lines_of_a_diff_are_quoted_and_those_of_a_failure_are_not() -> None:
    diff = ChatMessage.tool_result("c1", "written", details={"diff": "-a\n+b\n"})
    assert headed_result(diff).lines == ["-a", "+b"]
    assert headed_result(diff).is_quoted
    failed = ChatMessage.tool_result("c1", "no\nreally", outcome=Outcome.DENIED)
    assert headed_result(failed) == HeadedText("Result", "denied: no", ["really"])


@pytest.mark.parametrize(
    ("item", "headed"),
    [
        (TranscriptItem(ItemKind.NOTICE, body="x"), HeadedText("Notice", "x")),
        (TranscriptItem(ItemKind.MARKER, "head", "body"), HeadedText("Notice", "head")),
        (
            TranscriptItem(ItemKind.ERROR, body="x", hint=ItemHint.RETRY),
            HeadedText("Error", "x", hint=ItemHint.RETRY),
        ),
        (returned_prompt_item("hello"), HeadedText("Not said", "hello")),
    ],
)
def test_an_item_has_the_heading_of_its_kind(item: TranscriptItem, headed: HeadedText) -> None:
    assert headed_item(item) == headed


def test_prompts_thinking_and_exits_are_on_one_line() -> None:
    assert headed_steering("be\nbrief").text == "be brief"
    assert headed_thinking("let me\nthink") == HeadedText("Thinking", "3 words")
    assert headed_exit(None) == HeadedText("Shell", "stopped")
