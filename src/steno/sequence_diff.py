"""The steps that turn one sequence into another, found in a bounded number of comparisons.

`difflib` needs a time that grows with the third power of the length for hostile sequences. This
module counts the comparisons, and replaces the parts for which none are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Final, TypeAlias, final

Opcode: TypeAlias = tuple[str, int, int, int, int]
"""A step as in `difflib`: its kind, and its range in each sequence."""
MAX_COMPARISONS: Final = 2_000_000
"""About a quarter of a second."""


def find_opcodes(
    old: Sequence[str],
    new: Sequence[str],
    *,
    autojunk: bool = True,
    max_comparisons: int = MAX_COMPARISONS,
) -> list[Opcode]:
    """Return the steps that turn `old` into `new`, as `SequenceMatcher.get_opcodes` does.

    With `autojunk`, elements that are very frequent in a long sequence begin no match.
    """
    # Equal elements become equal numbers, so that long texts are compared only once.
    numbers: dict[str, int] = {}
    a, b = ([numbers.setdefault(element, len(numbers)) for element in side] for side in (old, new))
    return list(_BoundedMatcher(a, b, autojunk, max_comparisons).get_opcodes())


@final
class _BoundedMatcher(SequenceMatcher[int]):
    def __init__(self, a: list[int], b: list[int], autojunk: bool, max_comparisons: int) -> None:
        super().__init__(None, a, b, autojunk)
        positions: dict[int, list[int]] = getattr(self, "b2j")  # noqa: B009 - missing in typeshed
        # The comparisons that the elements before each position of `a` need.
        self._costs = list(accumulate((1 + len(positions.get(x, ())) for x in a), initial=0))
        self._comparisons_left = max_comparisons

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest match of two ranges; an empty one if no comparisons are left."""
        ahi = len(self._costs) - 1 if ahi is None else ahi
        cost = self._costs[ahi] - self._costs[alo]
        if cost > self._comparisons_left:
            return Match(alo, blo, 0)
        self._comparisons_left -= cost
        return super().find_longest_match(alo, ahi, blo, bhi)
