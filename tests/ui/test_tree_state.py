"""A tree as lines: folding, branch points, and search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steno import ChatMessage
from steno.app.session_log import BranchTreeRow, TreeLine
from steno.records.entry import Entry
from steno.ui.tree_state import TreeState


def twig(
    number: int,
    *,
    parent: int | None = None,
    graph_prefix: str = "",
    summary: str = "",
    branches: tuple[str, ...] = (),
    is_remarkable: bool = False,
) -> BranchTreeRow:
    entry = Entry(
        id=f"e{number}",
        parent=None if parent is None else f"e{parent}",
        payload=ChatMessage.user("words"),
    )
    return BranchTreeRow(
        graph_prefix=graph_prefix,
        entry=entry,
        number=number,
        kind="user",
        summary=summary,
        labels=(),
        branches=branches,
        is_active=True,
        is_notable=is_remarkable,
    )


def chain(length: int, *remarkable: int) -> list[BranchTreeRow]:
    return [
        twig(n, parent=n - 1 if n else None, summary=f"gist {n}", is_remarkable=n in remarkable)
        for n in range(length)
    ]


def forked() -> list[BranchTreeRow]:
    """Return a tree of two branches that diverge after the second entry."""
    return [
        twig(0, is_remarkable=True),
        twig(1, parent=0),
        twig(2, parent=1, graph_prefix="| ", is_remarkable=True),
        twig(3, parent=2, graph_prefix="| ", branches=("side",), is_remarkable=True),
        twig(4, parent=1, is_remarkable=True),
        twig(5, parent=4, branches=("main",), is_remarkable=True),
    ]


def test_a_long_run_that_nothing_is_special_about_is_one_line() -> None:
    lines = TreeState(chain(412, 0, 411))
    assert [lines[n] for n in range(len(lines))] == [TreeLine(0), TreeLine(1, 410), TreeLine(411)]


def test_a_short_run_is_not_worth_folding() -> None:
    assert len(TreeState(chain(5, 0, 4))) == 5


def test_a_run_ends_where_another_branch_begins() -> None:
    rows = [*chain(5, 0), *[twig(n, parent=n - 1, graph_prefix="| ") for n in range(5, 10)]]
    lines = TreeState(rows)
    assert [lines[n] for n in range(len(lines))] == [TreeLine(0), TreeLine(1, 4), TreeLine(5, 5)]


def test_an_open_run_stays_open_when_a_part_of_it_becomes_remarkable() -> None:
    lines = TreeState(chain(20, 0, 19))
    lines.unfold(lines[1])
    assert len(lines) == 20
    assert len(TreeState(chain(20, 0, 10, 19), lines.unfolded)) == 20


def test_a_twig_turns_right_only_where_its_branch_begins() -> None:
    lines = TreeState(forked())
    assert [n for n in range(6) if lines.starts_side_branch(n)] == [2]


def test_branches_part_at_entries_that_lead_to_several_and_end_where_they_are_named() -> None:
    assert TreeState(forked()).branch_points == [1, 3, 5]


def test_the_branches_through_an_entry_are_those_that_come_of_it() -> None:
    lines = TreeState(forked())
    assert lines.branches_through(1) == ["side", "main"]
    assert lines.branches_through(2) == ["side"]
    assert lines.branches_through(5) == ["main"]


def test_a_search_wraps_around_in_both_directions() -> None:
    lines = TreeState(chain(12, 0))
    assert lines.find("GIST 1", start=1) == 10
    assert lines.find("gist 1", start=11) == 1
    assert lines.find("gist 1", start=1, step=-1) == 11
    assert lines.find("gist 3", start=3) == 3
    assert lines.find("nowhere", start=0) is None


def test_an_empty_tree_has_no_lines() -> None:
    lines = TreeState(())
    assert len(lines) == 0
    assert lines.find("x", start=0) is None


@given(st.lists(st.booleans(), max_size=40), st.sets(st.integers(0, 39)), st.booleans())
def test_every_twig_is_on_one_line_in_its_order(
    remarkable: list[bool], opened: set[int], shows_all: bool
) -> None:
    rows = chain(len(remarkable), *[n for n, is_so in enumerate(remarkable) if is_so])
    lines = TreeState(rows, {f"e{n}" for n in opened})
    if shows_all:
        lines.toggle_all()
    shown = [lines[n] for n in range(len(lines))]
    assert [n for line in shown for n in range(line.first, line.first + line.length)] == [
        *range(len(rows))
    ]
    for index in range(len(rows)):
        line = shown[lines.line_of(index)]
        assert line.first <= index < line.first + line.length
    if shows_all:
        assert not any(line.is_run for line in shown)
