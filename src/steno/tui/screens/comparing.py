"""Two branches side by side: what they share, and which entry stands beside which.

Turns are laid beside each other by their number, since that is how people count them; within a
turn, entries of one kind in their order. Nothing is dropped and nothing changes its place. It
takes a time that grows with the number of entries, and no faster to speak of.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, final

from steno.entry import Entry
from steno.message import UserMessage


class Row(NamedTuple):
    """Two entries beside each other; one of them may be missing."""

    left: Entry | None
    right: Entry | None

    @property
    def is_same(self) -> bool:
        """Whether both say the same."""
        return (
            self.left is not None
            and self.right is not None
            and self.left.payload == self.right.payload
        )


class Comparison(NamedTuple):
    """What two branches share, and what each has of its own."""

    shared: int
    """How many entries both begin with."""
    rows: tuple[Row, ...]
    """What comes behind those."""

    def swapped(self) -> Comparison:
        """Return the same with left and right exchanged."""
        return Comparison(self.shared, tuple([Row(row.right, row.left) for row in self.rows]))


def compare(left: Sequence[Entry], right: Sequence[Entry]) -> Comparison:
    """Lay the entries of two branches beside each other."""
    shared = _shared(left, right)
    turns = zip_longest(_turns(left, shared), _turns(right, shared), fillvalue=())
    return Comparison(shared, tuple([row for pair in turns for row in _Pairing(*pair).rows()]))


def _shared(left: Sequence[Entry], right: Sequence[Entry]) -> int:
    pairs = zip(left, right, strict=False)
    return next(
        (number for number, (one, other) in enumerate(pairs) if one.id != other.id),
        min(len(left), len(right)),
    )


def _turns(entries: Sequence[Entry], start: int) -> list[list[Entry]]:
    """Return the entries from somewhere on, cut before every message of the person.

    The first part is what comes before any of them; it may be empty.
    """
    turns: list[list[Entry]] = [[]]
    for number in range(start, len(entries)):
        entry = entries[number]
        if isinstance(entry.payload, UserMessage):
            turns.append([])
        turns[-1].append(entry)
    return turns


def _kind(entry: Entry) -> Hashable:
    """Return what an entry has to have in common with another one to stand beside it."""
    message = entry.message
    return type(entry.payload), message is not None and bool(message.tool_calls)


@final
class _Pairing:
    """Two turns that are laid beside each other, from the first entry to the last."""

    def __init__(self, left: Sequence[Entry], right: Sequence[Entry]) -> None:
        self._left, self._right = left, right
        self._kinds = [_kind(entry) for entry in left], [_kind(entry) for entry in right]
        self._places = _places(self._kinds[0]), _places(self._kinds[1])

    def rows(self) -> Iterator[Row]:
        """Return the entries in rows; where kinds differ, the nearest of the same kind decides."""
        i = j = 0
        while i < len(self._left) and j < len(self._right):
            beyond_right = self._distance(1, self._kinds[0][i], j)
            beyond_left = self._distance(0, self._kinds[1][j], i)
            if not beyond_right:
                yield Row(self._left[i], self._right[j])
                i, j = i + 1, j + 1
                continue
            # What has a counterpart further on waits for it, the nearer one first.
            if beyond_left <= beyond_right:
                yield Row(self._left[i], None)
                i += 1
            if beyond_right <= beyond_left:
                yield Row(None, self._right[j])
                j += 1
        yield from [Row(entry, None) for entry in self._left[i:]]
        yield from [Row(None, entry) for entry in self._right[j:]]

    def _distance(self, side: int, kind: Hashable, start: int) -> float:
        """Return how far away the next entry of a kind is on a side."""
        places = self._places[side].get(kind, [])
        nearest = bisect_left(places, start)
        return places[nearest] - start if nearest < len(places) else float("inf")


def _places(kinds: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        places[kind].append(place)
    return places
