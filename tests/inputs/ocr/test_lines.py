"""The reading order of lines, whatever the rotation of the page."""

from __future__ import annotations

from math import cos, radians, sin

import pytest

from steno.inputs.ocr.engine import (
    LineCorners,
    OcrLine,
    RecognisedText,
    join_lines,
    sort_in_reading_order,
)

PAGE = [
    (10, 100, "second left"),
    (300, 104, "second right"),
    (10, 10, "first"),
    (500, 97, "second end"),
    (12, 190, "third"),
]
READ = ["first", "second left second right second end", "third"]


def corners(x: float, y: float, *, width: float = 150, height: float = 30) -> LineCorners:
    return LineCorners((x, y), (x + width, y), (x + width, y + height), (x, y + height))


def laid(box: LineCorners, degrees: float) -> LineCorners:
    """Rotate a box about the origin, together with its page."""
    c, s = cos(radians(degrees)), sin(radians(degrees))
    return LineCorners(*[(x * c - y * s, x * s + y * c) for x, y in box])


@pytest.mark.parametrize("degrees", [0, 4, -4, 90, 180, 270, 93, 176])
def test_a_page_is_read_from_its_own_top_however_it_lies(degrees: float) -> None:
    pieces = [(laid(corners(x, y), degrees), OcrLine(text, 1.0)) for x, y, text in PAGE]
    assert [line.text for line in sort_in_reading_order(pieces)] == READ


def test_one_label_on_its_side_does_not_turn_the_page() -> None:
    label = corners(0, 20, width=30, height=160).rotated(3)
    assert label.length == 160
    pieces = [
        (corners(40, y), OcrLine(text, 1.0)) for y, text in ((20, "a"), (80, "b"), (140, "c"))
    ]
    read = [line.text for line in sort_in_reading_order([*pieces, (label, OcrLine("axis", 1.0))])]
    assert read == ["a", "axis b", "c"]


def test_small_print_beside_a_headline_keeps_its_own_rows() -> None:
    headline = corners(0, 0, width=400, height=80)
    small = [corners(420, y, width=90, height=20) for y in (0, 58)]
    pieces = [(headline, OcrLine("BIG", 1.0)), (small[0], OcrLine("on top", 1.0))]
    pieces.append((small[1], OcrLine("below", 1.0)))
    read = [line.text for line in sort_in_reading_order(pieces)]
    assert read == ["on top", "BIG", "below"]


def test_a_row_is_as_sure_as_its_pieces_by_their_length() -> None:
    pieces = [(corners(0, 0), OcrLine("abc", 1.0)), (corners(200, 0), OcrLine("d", 0.6))]
    assert sort_in_reading_order(pieces) == [OcrLine("abc d", 0.9)]


def test_all_lines_are_as_sure_as_each_by_its_length() -> None:
    assert join_lines(
        [OcrLine("abc\n", 1.0), OcrLine("  ", 0.1), OcrLine("d", 0.6)]
    ) == RecognisedText("abc\nd", 0.9)


def test_no_text_has_no_confidence() -> None:
    assert join_lines(sort_in_reading_order([])) == RecognisedText("", None)
    assert join_lines([OcrLine(" ", 0.9)]) == RecognisedText("", None)
