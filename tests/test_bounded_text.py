"""The beginning and the end of a long text: the same in pieces as at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steno.bounded_text import BoundedText, truncate_lines, truncate_middle

LIMITS = st.integers(0, 8)


@given(st.lists(st.text("abc", max_size=6)), LIMITS, LIMITS)
def test_pieces_give_the_same_as_the_whole(pieces: list[str], head: int, tail: int) -> None:
    text = "".join(pieces)
    whole = truncate_middle(text, max_head=head, max_tail=tail, note="[{omitted}]")
    texts = BoundedText("".join, max_head=head, max_tail=tail)
    data = BoundedText(b"".join, max_head=head, max_tail=tail)
    for piece in pieces:
        texts.add(piece)
        data.add(piece.encode())
    beginning, missing, end = texts.ends()
    assert f"{beginning}{f'[{missing}]' if missing else ''}{end}" == whole
    assert data.ends() == (beginning.encode(), missing, end.encode())
    assert texts.total == len(text)
    texts.clear()
    assert (texts.ends(), texts.total) == (("", 0, ""), 0)


def test_the_note_names_the_number_of_missing_characters() -> None:
    text = truncate_middle("a" * 2_000, max_head=1, max_tail=0, note=" {hint} {omitted}")
    assert text == "a {hint} 1,999"


@given(st.lists(st.sampled_from("abc")), LIMITS, LIMITS)
def test_lines_are_kept_like_characters(lines: list[str], head: int, tail: int) -> None:
    texts = BoundedText("".join, max_head=head, max_tail=tail)
    kept = BoundedText[list[str]](
        lambda pieces: [line for piece in pieces for line in piece], max_head=head, max_tail=tail
    )
    for line in lines:
        texts.add(line)
        kept.add([line])
    beginning, missing, end = texts.ends()
    assert kept.ends() == ([*beginning], missing, [*end])


def test_the_middle_of_many_lines_is_replaced_by_a_note() -> None:
    assert truncate_lines("abcd", max_lines=4, note=str) == ["a", "b", "c", "d"]
    assert truncate_lines("abcdefg", max_lines=4, note=str) == ["a", "b", "3", "f", "g"]
    assert truncate_lines("abc", max_lines=1, note=str) == ["3"]


def test_memory_is_bounded() -> None:
    text = BoundedText("".join, max_head=10, max_tail=10)
    for _ in range(10_000):
        text.add("x" * 7)
    assert text.ends() == ("x" * 10, 69_980, "x" * 10)
    assert len(text._tail) <= 3
