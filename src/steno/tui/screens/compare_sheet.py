"""What there is to see of two branches, from top to bottom: their past on one line, then rows.

Knows no widget; nothing is drawn here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from steno.entry import Entry
from steno.errors import Missing
from steno.printable import counted
from steno.tui.desk import Desk, Twig
from steno.tui.screens.comparing import Row, compare
from steno.tui.screens.differing import Differences, differences
from steno.tui.screens.entry_words import head_of, words_of

_TAB: Final = 4


class Side(NamedTuple):
    """What one branch has in a row."""

    head: str
    text: str


class Pair(NamedTuple):
    """A row in words; a side is None where a branch has nothing there."""

    left: Side | None
    right: Side | None
    differences: Differences
    """Of the words, where there are two sides; else there is nothing to compare with."""
    is_same: bool


@final
class Sheet:
    """Two branches, item by item. Item 0 is the line about what they share."""

    def __init__(self, desk: Desk, twigs: Sequence[Twig], left: str, right: str) -> None:
        """Compare two branches of a tree that was read before. Raises Missing."""
        self.names = (left, right)
        self.shows_shared = False
        self._left_entries = desk.entries(left)
        entries = self._left_entries, desk.entries(right)
        self._comparison = compare(*entries)
        self._tree_rows: Mapping[str, Twig] = {twig.entry.id: twig for twig in twigs}
        if any(entry.id not in self._tree_rows for branch in entries for entry in branch):
            raise Missing("compare: the record has changed meanwhile; open the tree again")
        rows = self._comparison.rows
        self._different_rows = [number for number, row in enumerate(rows) if not row.is_same]

    @property
    def _first_row(self) -> int:
        """Which item is the first row behind what is shared."""
        return 1 + (self._comparison.shared if self.shows_shared else 0)

    def __len__(self) -> int:
        return self._first_row + len(self._comparison.rows)

    @property
    def shared_text(self) -> str:
        """What is said about the past that both branches share."""
        shared = self._comparison.shared
        if not shared:
            return "these branches share nothing"
        last = self._tree_rows[self._left_entries[shared - 1].id].number
        how = "hides" if self.shows_shared else "shows"
        them = "it" if shared == 1 else "them"
        return f"shares {counted(shared, 'entry', 'entries')} up to #{last} · Enter {how} {them}"

    @property
    def summary(self) -> str:
        """How much the branches differ, in a few words."""
        count = len(self._different_rows)
        return counted(count, "difference", "differences") if count else "no difference"

    def row(self, item: int) -> Pair:
        """Return a row in words; any item but the first one."""
        if item < self._first_row:
            entry = self._left_entries[item - 1]
            row = Row(entry, entry)
        else:
            row = self._comparison.rows[item - self._first_row]
        left, right = self._side(row.left), self._side(row.right)
        unequal = Differences((), ())
        if left is not None and right is not None:
            unequal = differences(left.text, right.text)
        return Pair(left, right, unequal, row.is_same)

    def _side(self, entry: Entry | None) -> Side | None:
        if entry is None:
            return None
        twig = self._tree_rows[entry.id]
        return Side(head_of(twig), words_of(twig).expandtabs(_TAB))

    def next_difference(self, item: int, step: int) -> int | None:
        """Return the next item where the branches differ, or the one before."""
        here = item - self._first_row
        unequal = self._different_rows
        nearest = bisect_right(unequal, here) if step > 0 else bisect_left(unequal, here) - 1
        return self._first_row + unequal[nearest] if 0 <= nearest < len(unequal) else None

    def swap(self) -> None:
        """Exchange left and right."""
        self.names = self.names[::-1]
        self._comparison = self._comparison.swapped()
