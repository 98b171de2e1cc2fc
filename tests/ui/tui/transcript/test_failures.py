"""A failed call shows its reason if that is short; it can be folded."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Outcome
from steno.render.items import ItemKind, TranscriptItem
from steno.render.session_items import apply_result
from steno.ui.tui.transcript.item_drawing import estimate_height
from tests.ui.tui.transcript.drawn_items import lines_of


def ended(said: str, outcome: Outcome = Outcome.ERROR) -> TranscriptItem:
    item = TranscriptItem(ItemKind.CALL, head="bash pytest -q", is_open=True, is_folded=True)
    apply_result(item, ChatMessage.tool_result("call_1", said, outcome=outcome), "entry")
    return item


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("count", [1, 5])
def test_a_few_lines_of_a_failure_are_shown_at_once(count: int) -> None:
    why = [f"reason {number}" for number in range(count)]
    item = ended("\n".join(why) + "\n")
    assert lines_of(item) == ["✗ bash pytest -q", *[f"  {line}" for line in why], ""]
    assert estimate_height(item, 60) >= count + 2
    item.is_folded = True
    assert len(lines_of(item)) == 2


@pytest.mark.parametrize(
    ("said", "lines"), [("a\n" * 6, "6 lines"), ("word " * 101, "1 line")], ids=["lines", "words"]
)
def test_of_a_long_failure_only_the_head_is_shown(said: str, lines: str) -> None:
    assert lines_of(ended(said)) == [f"✗ bash pytest -q … {lines}", ""]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.DENIED, Outcome.CANCELLED])
def test_calls_that_did_not_fail_stay_folded(outcome: Outcome) -> None:
    shown = lines_of(ended("1 passed", outcome))
    assert len(shown) == 2
    assert shown[0].endswith("bash pytest -q … 1 line")


def test_a_failure_that_says_nothing_is_a_head_alone() -> None:
    assert lines_of(ended("")) == ["✗ bash pytest -q", ""]
