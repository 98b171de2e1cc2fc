"""Where two texts differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steno.ui.compare_state import Span, TextDifferences, find_differences


def outside(text: str, spans: tuple[Span, ...]) -> str:
    """Return what is not in a span."""
    ends = [0, *[end for _, end in spans]]
    starts = [*[start for start, _ in spans], len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def inside(text: str, spans: tuple[Span, ...]) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_words_that_differ_are_found_in_lines_that_do() -> None:
    left = "the same\nuse ls -a here\nthe end"
    right = "the same\nuse ls -t here now\nthe end"
    found = find_differences(left, right)
    assert inside(left, found.left) == ["a"]
    assert inside(right, found.right) == ["t", " now"]


def test_equal_texts_do_not_differ() -> None:
    assert find_differences("a\nb", "a\nb") == TextDifferences((), ())
    assert find_differences("", "") == TextDifferences((), ())


def test_lines_that_only_one_has_differ_as_a_whole() -> None:
    found = find_differences("one\nthree\n", "one\ntwo\nthree\n")
    assert found == TextDifferences((), ((4, 8),))


def test_what_is_too_long_differs_as_a_whole() -> None:
    left = "begin\n" + "".join(f"{n} left\n" for n in range(5_000)) + "end"
    right = "begin\n" + "".join(f"{n} right\n" for n in range(5_000)) + "end"
    found = find_differences(left, right)
    assert outside(left, found.left) == outside(right, found.right)
    assert len(found.left) <= 2


TEXTS = st.text("ab \n\u2028.é", max_size=40)


@given(TEXTS, TEXTS)
def test_what_lies_between_the_differences_is_the_same(left: str, right: str) -> None:
    found = find_differences(left, right)
    assert outside(left, found.left) == outside(right, found.right)
    for text, spans in ((left, found.left), (right, found.right)):
        edges = [edge for span in spans for edge in span]
        assert edges == sorted(edges)
        assert all(start < end for start, end in spans)
        assert all(0 <= edge <= len(text) for edge in edges)


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert find_differences(text, text) == TextDifferences((), ())
