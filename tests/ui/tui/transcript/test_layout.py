"""Heights and offsets of items, compared with plain sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steno.ui.tui.transcript.item_layout import HeightIndex, LinePosition

HEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(HEIGHTS, HEIGHTS, st.data())
def test_heights_are_found_as_a_plain_list_would_find_them(
    begun: list[int], added: list[int], data: st.DataObject
) -> None:
    heights = HeightIndex(begun)
    for height in added:
        heights.append(height)
    plain = begun + added
    for _ in range(5):
        index = data.draw(st.integers(0, len(plain) - 1))
        heights[index] = plain[index] = data.draw(st.integers(1, 50))

    assert len(heights) == len(plain)
    assert heights.total == sum(plain)
    assert [heights.offset(index) for index in range(len(plain))] == [
        sum(plain[:index]) for index in range(len(plain))
    ]
    places = [
        LinePosition(item, line) for item, height in enumerate(plain) for line in range(height)
    ]
    assert [heights.find(line) for line in range(sum(plain))] == places


def test_a_line_below_the_end_is_the_end() -> None:
    assert HeightIndex([2, 3]).find(99) == LinePosition(1, 2)


def test_nothing_has_no_height() -> None:
    assert HeightIndex().total == 0
