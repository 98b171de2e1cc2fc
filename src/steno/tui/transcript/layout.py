"""How high things are that stand one below the other, and where each begins.

A binary indexed tree (Fenwick): to change a height, to append one, to ask where something begins
and what stands in a line all cost the logarithm of how many there are. It knows no block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final


class Place(NamedTuple):
    """A line of something: which one, and how far below its beginning."""

    item: int
    line: int


@final
class Heights:
    """Heights in lines, all of them one or more."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        # sums[i] is what the heights up to i - 1 come to, as many as the lowest bit of i says.
        self._sums = [0, *self._heights]
        for position in range(1, len(self._sums)):
            above = position + (position & -position)
            if above < len(self._sums):
                self._sums[above] += self._sums[position]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        change = height - self._heights[index]
        if not change:
            return
        self._heights[index] = height
        position = index + 1
        while position < len(self._sums):
            self._sums[position] += change
            position += position & -position

    @property
    def total(self) -> int:
        """All of them together."""
        return self.offset(len(self))

    def append(self, height: int) -> None:
        """Put one more below the last."""
        position = len(self._sums)
        below = self.offset(position - 1) - self.offset(position - (position & -position))
        self._heights.append(height)
        self._sums.append(below + height)

    def offset(self, index: int) -> int:
        """Return the line in which something begins."""
        total = 0
        while index:
            total += self._sums[index]
            index &= index - 1
        return total

    def find(self, line: int) -> Place:
        """Return what stands in a line; below the end that is the end of the last."""
        if line >= (total := self.total):
            return Place(len(self) - 1, self._heights[-1] - 1 if total else 0)
        position = 0
        step = 1 << len(self._heights).bit_length()
        while step:
            ahead = position + step
            if ahead < len(self._sums) and self._sums[ahead] <= line:
                position = ahead
                line -= self._sums[ahead]
            step >>= 1
        return Place(position, line)
