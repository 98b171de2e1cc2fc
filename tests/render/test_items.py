"""What a block keeps of what it is told."""

from __future__ import annotations

import pytest

from steno.render.items import CallState, ItemKind, TextForm, TranscriptItem

MOST = 200_200
"""Characters: what is kept, and the words about what is not."""


@pytest.mark.parametrize("kind", [ItemKind.CALL, ItemKind.SHELL])
def test_of_a_command_that_says_much_the_beginning_and_the_end_are_kept(kind: ItemKind) -> None:
    block = TranscriptItem(kind, head="$ yes", state=CallState.RUNNING, is_open=True)
    block.append("first\n")
    for number in range(3_000):
        block.append(f"{number:>999}\n")
    body = block.join_chunks()
    assert len(body) <= MOST
    assert body.startswith("first\n")
    assert body.endswith("2999\n")
    said = 6 + 3_000 * 1_000
    kept = 20_000 + 180_000
    assert f"[... {said - kept:,} characters are not shown while the command runs ...]" in body


def test_it_is_the_same_however_it_came() -> None:
    text = "".join([f"line {number}\n" for number in range(50_000)])
    whole, lines = TranscriptItem(ItemKind.SHELL), TranscriptItem(ItemKind.SHELL)
    whole.append(text)
    for line in text.splitlines(keepends=True):
        lines.append(line)
        if line.endswith("00\n"):
            lines.join_chunks()
    assert whole.join_chunks() == lines.join_chunks()


def test_of_what_a_model_says_nothing_is_left_out() -> None:
    block = TranscriptItem(ItemKind.ANSWER, is_open=True)
    for _ in range(300):
        block.append("word " * 200)
    assert len(block.join_chunks()) == 300_000


def test_the_result_of_a_call_replaces_its_live_output() -> None:
    block = TranscriptItem(ItemKind.CALL, is_open=True)
    block.append("x" * 300_000)
    block.join_chunks()
    block.append("more")
    block.replace_body("all of it", TextForm.PLAIN)
    assert (block.join_chunks(), block.output) == ("all of it", None)
