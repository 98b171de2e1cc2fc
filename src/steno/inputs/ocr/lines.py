"""Lines of text and where they stand: in which order they are read, and how sure an engine is.

Coordinates are those of images: to the right and down. This file knows no engine and no pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import dist, hypot
from typing import Final, NamedTuple, TypeAlias

from steno.inputs.ocr.engine import Recognised

Point: TypeAlias = tuple[float, float]
_SAME_ROW: Final = 0.5
"""Two pieces stand in one row if they are no further apart than this part of their height."""


class Corners(NamedTuple):
    """The four corners of a line, named as its reader sees them, however it is turned."""

    top_left: Point
    top_right: Point
    bottom_right: Point
    bottom_left: Point

    @property
    def length(self) -> float:
        """How far it reaches in the direction of reading."""
        return dist(self.top_left, self.top_right)

    @property
    def height(self) -> float:
        """How high its letters are, about."""
        return dist(self.top_left, self.bottom_left)

    @property
    def centre(self) -> Point:
        """Where it is."""
        return (
            (self.top_left[0] + self.bottom_right[0]) / 2,
            (self.top_left[1] + self.bottom_right[1]) / 2,
        )

    def rotated(self, quarters: int) -> Corners:
        """Return them as seen by who turns the head so often clockwise."""
        return Corners(*self[quarters % 4 :], *self[: quarters % 4])


class Line(NamedTuple):
    """Some words, and how sure an engine is of them, from 0 to 1."""

    text: str
    confidence: float


def recognised(lines: Iterable[Line]) -> Recognised:
    """Put lines together that are in the order of reading."""
    kept = [line for line in lines if line.text.strip()]
    return Recognised("\n".join([line.text.strip() for line in kept]), confidence_of(kept))


def confidence_of(lines: Iterable[Line]) -> float | None:
    """Return how sure an engine is of some lines, each by its length; None if there are none."""
    weighed = [(len(line.text.strip()), line.confidence) for line in lines]
    total = sum(weight for weight, _ in weighed)
    if not total:
        return None
    return round(sum(weight * confidence for weight, confidence in weighed) / total, 4)


def in_reading_order(pieces: Sequence[tuple[Corners, Line]]) -> list[Line]:
    """Return rows from the top, each from its left; what stands in one row becomes one line.

    Up is where the longest pieces have it: a page may lie on its side, or not quite straight.
    """
    across, down = _direction([corners for corners, _ in pieces])
    rows: list[list[_Placed]] = []
    for piece in sorted(_placed(pieces, across, down), key=lambda piece: piece.down):
        row = rows[-1] if rows else []
        if row and _is_level(piece, row):
            row.append(piece)
        else:
            rows.append([piece])
    return [_joined(sorted(row, key=lambda piece: piece.across)) for row in rows]


class _Placed(NamedTuple):
    across: float
    down: float
    height: float
    line: Line


def _direction(pieces: Sequence[Corners]) -> Point:
    """Return in which direction most is read, as a step of length 1."""
    steps = [(c.top_right[0] - c.top_left[0], c.top_right[1] - c.top_left[1]) for c in pieces]
    # Either most goes along the lines of the image or down its columns; the rest has no say.
    sideways = [step for step in steps if abs(step[1]) > abs(step[0])]
    upright = [step for step in steps if abs(step[1]) <= abs(step[0])]
    most = max(upright, sideways, key=lambda some: sum([hypot(*step) for step in some]))
    x, y = sum(step[0] for step in most), sum(step[1] for step in most)
    length = hypot(x, y) or 1.0
    return x / length, y / length


def _placed(
    pieces: Sequence[tuple[Corners, Line]], across: float, down: float
) -> Iterable[_Placed]:
    for corners, line in pieces:
        x, y = corners.centre
        yield _Placed(x * across + y * down, y * across - x * down, corners.height, line)


def _is_level(piece: _Placed, row: Sequence[_Placed]) -> bool:
    last = row[-1]
    return piece.down - last.down <= _SAME_ROW * min(piece.height, last.height)


def _joined(row: Sequence[_Placed]) -> Line:
    lines = [piece.line for piece in row]
    return Line(" ".join([line.text.strip() for line in lines]), confidence_of(lines) or 0.0)
