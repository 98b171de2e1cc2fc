"""The pairs of entries of two compared branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from steno import ChatMessage
from steno.messages.call import ToolCall
from steno.messages.message import UserMessage
from steno.records.entry import Entry, Mode, ModeChange, Payload
from steno.ui.compare_state import (
    BranchComparison,
    EntryPair,
    Span,
    TextDifferences,
    compare_branches,
    find_differences,
)

PAYLOADS: dict[str, Payload] = {
    "u": ChatMessage.user("ask"),
    "a": ChatMessage.assistant("answer"),
    "c": ChatMessage.assistant(None, [ToolCall(id="1", name="ls")]),
    "r": ChatMessage.tool_result("1", "files"),
    "m": ModeChange(old=Mode.PLAN, new=Mode.ACT),
}


def branch(kinds: str, side: str = "", shared: int = 0) -> list[Entry]:
    """Return entries by their kinds; the first ones are those of every other branch."""
    return [
        Entry(id=f"{'' if n < shared else side}{n}", payload=PAYLOADS[kind])
        for n, kind in enumerate(kinds)
    ]


def kinds(comparison: BranchComparison) -> list[str]:
    """Return the rows as two letters each."""
    letters = {payload: letter for letter, payload in PAYLOADS.items()}
    return [
        "".join(["-" if entry is None else letters[entry.payload] for entry in row])
        for row in comparison.rows
    ]


def test_a_common_beginning_is_shared() -> None:
    comparison = compare_branches(branch("uaua"), branch("uauau", "r", shared=2))
    assert comparison.shared == 2
    assert kinds(comparison) == ["uu", "aa", "-u"]


def test_the_same_branch_has_no_rows() -> None:
    assert compare_branches(branch("uaua"), branch("uaua")) == BranchComparison(4, ())
    assert compare_branches([], []) == BranchComparison(0, ())


def test_questions_stand_beside_questions_however_long_the_answers_are() -> None:
    comparison = compare_branches(branch("ucrcraua", "l"), branch("uaua", "r"))
    assert kinds(comparison) == ["uu", "c-", "r-", "c-", "r-", "aa", "uu", "aa"]


def test_calls_stand_beside_calls_and_answers_beside_answers() -> None:
    assert kinds(compare_branches(branch("ucra", "l"), branch("uacr", "r"))) == [
        *("uu", "-a", "cc", "rr", "a-")
    ]


def test_an_entry_without_counterpart_has_its_own_row() -> None:
    assert kinds(compare_branches(branch("mua", "l"), branch("uma", "r"))) == [
        "m-",
        "uu",
        "-m",
        "aa",
    ]
    assert kinds(compare_branches(branch("um", "l"), branch("ua", "r"))) == ["uu", "m-", "-a"]


def test_rows_tell_whether_both_say_the_same() -> None:
    left, right = branch("ua", "l"), branch("uc", "r")
    rows = compare_branches(left, right).rows
    assert [row.is_same for row in rows] == [True, False, False]


BRANCHES = st.text("uacrm", max_size=30)


@given(BRANCHES, BRANCHES, BRANCHES)
def test_nothing_is_dropped_and_nothing_changes_its_place(
    past: str, left_only: str, right_only: str
) -> None:
    left = branch(past + left_only, "l", shared=len(past))
    right = branch(past + right_only, "r", shared=len(past))
    comparison = compare_branches(left, right)
    assert comparison.shared == len(past)
    assert _column(comparison.rows, 0) == left[comparison.shared :]
    assert _column(comparison.rows, 1) == right[comparison.shared :]
    for one, other in comparison.rows:
        assert one is not None or other is not None
        if one is not None and other is not None:
            assert type(one.payload) is type(other.payload)


@given(BRANCHES, BRANCHES)
def test_the_number_of_a_question_decides_what_it_stands_beside(left: str, right: str) -> None:
    rows = compare_branches(branch(left, "l"), branch(right, "r")).rows
    pairs = [row for row in rows if any(entry is not None and _asks(entry) for entry in row)]
    both = min(left.count("u"), right.count("u"))
    assert all(None not in row for row in pairs[:both])
    assert len(pairs) == max(left.count("u"), right.count("u"))


@given(BRANCHES, BRANCHES)
def test_left_and_right_are_treated_alike(left: str, right: str) -> None:
    one = compare_branches(branch(left, "l"), branch(right, "r"))
    other = compare_branches(branch(right, "r"), branch(left, "l")).swapped()
    assert Counter(map(_ids, one.rows)) == Counter(map(_ids, other.rows))


def test_ten_thousand_entries_are_laid_beside_each_other() -> None:
    left, right = branch("u" + "cr" * 5_000, "l"), branch("u" + "a" * 10_000, "r")
    comparison = compare_branches(left, right)
    assert len(comparison.rows) == 20_001


def _column(rows: Sequence[EntryPair], side: int) -> list[Entry]:
    return [entry for row in rows if (entry := row[side]) is not None]


def _asks(entry: Entry) -> bool:
    return isinstance(entry.payload, UserMessage)


def _ids(row: EntryPair) -> tuple[str | None, ...]:
    return tuple(None if entry is None else entry.id for entry in row)


# -- test compare words ----------------------------------------------------------------------------
#
# Where two texts differ.


def outside(text: str, spans: tuple[Span, ...]) -> str:
    """Return the text outside of spans."""
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


def test_texts_that_are_too_long_differ_as_a_whole() -> None:
    left = "begin\n" + "".join(f"{n} left\n" for n in range(5_000)) + "end"
    right = "begin\n" + "".join(f"{n} right\n" for n in range(5_000)) + "end"
    found = find_differences(left, right)
    assert outside(left, found.left) == outside(right, found.right)
    assert len(found.left) <= 2


TEXTS = st.text("ab \n\u2028.é", max_size=40)


@given(TEXTS, TEXTS)
def test_text_between_the_differences_is_equal(left: str, right: str) -> None:
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
