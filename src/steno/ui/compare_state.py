"""The comparison of two branches: the entries that they share, and the other entries in pairs.

Turns are paired by number; within a turn, entries of the same kind are paired in order. No entry is
dropped or moved. For `n` entries, the cost is O(n log n).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import Final, NamedTuple, TypeAlias, final

from steno.app.session import AgentSession
from steno.app.session_log import BranchTreeRow
from steno.errors import Missing
from steno.messages.message import MessageRole
from steno.records.entry import Entry
from steno.render.quantities import format_count
from steno.sequence_diff import find_opcodes
from steno.ui.tree_state import entry_heading, entry_text, nearest_position

_MAX_PARTS: Final = 250
"""The maximum number of lines or words to compare one by one, because the cost is quadratic."""
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
Span: TypeAlias = tuple[int, int]
"""The start and end of a range of characters."""
_TAB_SIZE: Final = 4


class EntryPair(NamedTuple):
    """Two entries to show side by side; one of them may be None."""

    left: Entry | None
    right: Entry | None

    @property
    def is_same(self) -> bool:
        """Whether both entries exist and have equal payloads."""
        left, right = self
        return left is not None and right is not None and left.payload == right.payload


class BranchComparison(NamedTuple):
    """The number of entries that two branches share, and the other entries in pairs."""

    shared: int
    """The number of entries that both branches start with."""
    rows: tuple[EntryPair, ...]
    """The pairs of entries after the shared entries."""

    def swapped(self) -> BranchComparison:
        """Return the comparison with left and right exchanged."""
        rows = [EntryPair(row.right, row.left) for row in self.rows]
        return BranchComparison(self.shared, tuple(rows))


def compare_branches(left: Sequence[Entry], right: Sequence[Entry]) -> BranchComparison:
    """Count the entries that two branches share, and pair the other entries."""
    shared = _common_prefix([entry.id for entry in left], [entry.id for entry in right])
    turns = zip_longest(_split_turns(left[shared:]), _split_turns(right[shared:]), fillvalue=())
    return BranchComparison(shared, tuple([row for pair in turns for row in _align_turns(*pair)]))


def _split_turns(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Split entries into turns, each of which starts with a user message.

    The first item contains the entries before the first user message, and may be empty.
    """
    turns: list[list[Entry]] = [[]]
    for entry in entries:
        if entry.message is not None and entry.message.role is MessageRole.USER:
            turns.append([])
        turns[-1].append(entry)
    return turns


def _align_turns(left: Sequence[Entry], right: Sequence[Entry]) -> Iterator[EntryPair]:
    """Yield the entries of two turns in pairs.

    An entry is paired with an entry of the same kind in the other turn, or with None.
    """
    left_kinds, right_kinds = [*map(_entry_kind, left)], [*map(_entry_kind, right)]
    left_positions, right_positions = map(_positions_by_kind, (left_kinds, right_kinds))
    i = j = 0
    while i < len(left) and j < len(right):
        beyond_right = _distance(right_positions.get(left_kinds[i], []), j)
        beyond_left = _distance(left_positions.get(right_kinds[j], []), i)
        if not beyond_right:
            yield EntryPair(left[i], right[j])
            i, j = i + 1, j + 1
            continue
        # The entry with the nearer counterpart waits for it, while the other side advances.
        if beyond_left <= beyond_right:
            yield EntryPair(left[i], None)
            i += 1
        if beyond_right <= beyond_left:
            yield EntryPair(None, right[j])
            j += 1
    yield from [EntryPair(entry, None) for entry in left[i:]]
    yield from [EntryPair(None, entry) for entry in right[j:]]


def _entry_kind(entry: Entry) -> Hashable:
    """Return a key for the kind of an entry; only entries of the same kind are paired."""
    message = entry.message
    return type(message or entry.payload), message is not None and bool(message.tool_calls)


def _positions_by_kind(kinds: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    positions: dict[Hashable, list[int]] = defaultdict(list)
    for position, kind in enumerate(kinds):
        positions[kind].append(position)
    return positions


def _distance(positions: Sequence[int], start: int) -> float:
    """Return the distance from `start` to the next position; infinite if there is none."""
    nearest = bisect_left(positions, start)
    return positions[nearest] - start if nearest < len(positions) else float("inf")


class TextDifferences(NamedTuple):
    """The spans in which two texts differ. The text outside the spans is equal."""

    left: tuple[Span, ...]
    right: tuple[Span, ...]


def find_differences(left: str, right: str) -> TextDifferences:
    """Return the spans that differ between two texts, compared by lines and then by words."""
    pairs: list[tuple[Span, Span]] = []
    lines = left.splitlines(keepends=True), right.splitlines(keepends=True)
    for left_lines, right_lines in _unequal_spans(*lines):
        words = _WORD.findall(left[slice(*left_lines)]), _WORD.findall(right[slice(*right_lines)])
        pairs += _unequal_spans(*words, offsets=(left_lines[0], right_lines[0]))
    return TextDifferences(
        tuple([span for span, _ in pairs if span[0] < span[1]]),
        tuple([span for _, span in pairs if span[0] < span[1]]),
    )


def _unequal_spans(
    left: Sequence[str], right: Sequence[str], *, offsets: tuple[int, int] = (0, 0)
) -> Iterator[tuple[Span, Span]]:
    """Yield the differing spans of two texts, which are passed as lists of lines or words.

    `offsets` are added to the spans of the left and of the right text.
    """
    begin = _common_prefix(left, right)
    end = _common_prefix(left[begin:][::-1], right[begin:][::-1])
    middle = left[begin : len(left) - end], right[begin : len(right) - end]
    left_starts, right_starts = [
        list(accumulate(map(len, parts), initial=offset))
        for parts, offset in zip((left, right), offsets, strict=True)
    ]
    if max(map(len, middle)) > _MAX_PARTS:
        unequal = [(0, len(middle[0]), 0, len(middle[1]))]
    else:
        opcodes = find_opcodes(*middle, autojunk=False)
        unequal = [(i, j, k, m) for operation, i, j, k, m in opcodes if operation != "equal"]
    for i, j, k, m in unequal:
        yield (
            (left_starts[begin + i], left_starts[begin + j]),
            (right_starts[begin + k], right_starts[begin + m]),
        )


def _common_prefix(left: Sequence[str], right: Sequence[str]) -> int:
    shorter = min(len(left), len(right))
    return next((number for number in range(shorter) if left[number] != right[number]), shorter)


class ComparedEntry(NamedTuple):
    """An entry of a compared row, with its heading, its text and the spans that differ."""

    head: str
    text: str
    differences: tuple[Span, ...] = ()
    """The spans of `text` that differ from the paired entry; empty if there is no paired entry."""


class ComparedRow(NamedTuple):
    """A pair of entries as text; a side is None if its branch has no matching entry."""

    left: ComparedEntry | None
    right: ComparedEntry | None
    is_same: bool


@final
class CompareState:
    """The comparison of two branches as a list. Item 0 is the line about the shared entries."""

    def __init__(
        self, session: AgentSession, tree_rows: Sequence[BranchTreeRow], left: str, right: str
    ) -> None:
        """Compare two branches. Raises Missing if `tree_rows` lacks one of their entries."""
        self.names: tuple[str, str] = (left, right)
        self.shows_shared = False
        self._left_entries = session.entries(left)
        entries = self._left_entries, session.entries(right)
        self._comparison = compare_branches(*entries)
        self._tree_rows: Mapping[str, BranchTreeRow] = {row.entry.id: row for row in tree_rows}
        if any(entry.id not in self._tree_rows for branch in entries for entry in branch):
            raise Missing(
                "the session has changed; open the tree again",
                code="session_changed",
                place="compare",
            )
        rows = self._comparison.rows
        self._different_rows = [number for number, row in enumerate(rows) if not row.is_same]

    @property
    def _first_row(self) -> int:
        return 1 + (self.shared if self.shows_shared else 0)

    def __len__(self) -> int:
        return self._first_row + len(self._comparison.rows)

    @property
    def shared_text(self) -> str:
        """The text of item 0, with the number of shared entries."""
        shared = self.shared
        if not shared:
            return "these branches share no entries"
        last = self._tree_rows[self._left_entries[shared - 1].id].number
        action = "hide" if self.shows_shared else "show"
        count = format_count(shared, "shared entry", "shared entries")
        return f"{count} up to #{last} · Enter {action}"

    @property
    def shared(self) -> int:
        """The number of entries that both branches start with."""
        return self._comparison.shared

    def own_rows(self, side: int) -> list[BranchTreeRow]:
        """Return the tree rows of the entries that only the left (0) or right (1) branch has."""
        entries = [pair[side] for pair in self._comparison.rows]
        return [self._tree_rows[entry.id] for entry in entries if entry is not None]

    @property
    def summary(self) -> str:
        """The number of differences, as text."""
        count = len(self._different_rows)
        return format_count(count, "difference", "differences") if count else "no differences"

    def row(self, item: int) -> ComparedRow:
        """Return the compared entries of an item other than item 0."""
        if item < self._first_row:
            entry = self._left_entries[item - 1]
            row = EntryPair(entry, entry)
        else:
            row = self._comparison.rows[item - self._first_row]
        left, right = self._side(row.left), self._side(row.right)
        if left is not None and right is not None:
            differences = find_differences(left.text, right.text)
            left = left._replace(differences=differences.left)
            right = right._replace(differences=differences.right)
        return ComparedRow(left, right, row.is_same)

    def _side(self, entry: Entry | None) -> ComparedEntry | None:
        if entry is None:
            return None
        row = self._tree_rows[entry.id]
        return ComparedEntry(entry_heading(row), entry_text(row).expandtabs(_TAB_SIZE))

    def next_difference(self, item: int, step: int) -> int | None:
        """Return the next (1) or previous (-1) item that differs; None if there is none."""
        row = nearest_position(self._different_rows, item - self._first_row, step)
        return None if row is None else self._first_row + row

    def swap(self) -> None:
        """Exchange the left and the right branch."""
        left, right = self.names
        self.names = right, left
        self._comparison = self._comparison.swapped()
