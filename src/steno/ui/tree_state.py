"""The lines of a branch tree: which rows have a line of their own, and which are folded into one.

A run of rows without anything notable is one line until the user unfolds it. This module imports no
widget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, final

from steno.app.session_events import BranchTreeRow
from steno.log.queries import entry_decision, searchable_text
from steno.render.describe import describe_decider
from steno.render.quantities import format_time
from steno.render.terminal_text import terminal_line, terminal_text

_MAX_ENTRY_CHARACTERS: Final = 20_000
"""The number of characters of an entry that are shown."""
_MAX_UNFOLDED_RUN: Final = 3
"""A run of this length is not folded."""


def entry_heading(row: BranchTreeRow) -> str:
    """Return the number and the kind of an entry."""
    return f"#{row.number} {terminal_line(row.kind)}"


def entry_text(row: BranchTreeRow) -> str:
    """Return the text of an entry, line by line; its summary if it has no text."""
    text = searchable_text(row.entry)
    if not text.strip():
        return terminal_line(row.summary)
    omitted = len(text) - _MAX_ENTRY_CHARACTERS
    shown = terminal_text(text[:_MAX_ENTRY_CHARACTERS]).rstrip()
    return shown if omitted <= 0 else f"{shown}\n… {omitted:,} more characters"


def entry_facts(row: BranchTreeRow) -> list[str]:
    """Return facts about an entry besides its text."""
    facts = [format_time(row.entry.time), _decision_text(row), *entry_names(row)]
    return [fact for fact in facts if fact]


def entry_names(row: BranchTreeRow) -> list[str]:
    """Return which labels an entry has, and which branches end there."""
    return [
        *[f"label {terminal_line(label)}" for label in row.labels],
        *[f"branch {terminal_line(name)} ends here" for name in row.branches],
    ]


def _decision_text(row: BranchTreeRow) -> str:
    decision = entry_decision(row.entry)
    if decision is None:
        return ""
    decider = describe_decider(row.entry.payload)
    return terminal_line(decision) + (f" by {decider}" if decider else "")


class TreeLine(NamedTuple):
    """One line: a row, or a run of rows."""

    first: int
    """The row; of a run, the first one."""
    length: int = 1

    @property
    def is_run(self) -> bool:
        """Whether it stands for several rows."""
        return self.length > 1


@final
class TreeLines:
    """A tree as lines; reading one line takes constant time."""

    def __init__(
        self,
        rows: Sequence[BranchTreeRow],
        unfolded: Collection[str] = (),
        *,
        shows_all: bool = False,
    ) -> None:
        """Take the rows, and the ids of entries whose runs are unfolded, or `shows_all`."""
        self.rows: Final = rows
        self.unfolded: Final = set(unfolded)
        self.shows_all: Final = shows_all
        self._runs: Final[list[TreeLine]] = []
        self._index_by_entry: Final[dict[str, int]] = {}
        children: Counter[str | None] = Counter()
        for index, row in enumerate(rows):
            self._index_by_entry[row.entry.id] = index
            children[row.entry.parent] += 1
            self._add_row(index, row)
        self.branch_points: Final = [
            index for index, row in enumerate(rows) if row.branches or children[row.entry.id] > 1
        ]
        """The rows where branches part or end."""
        self._lines = list(self._build_lines())

    def _add_row(self, index: int, row: BranchTreeRow) -> None:
        """Add a row to the run before it, if both are plain and have the same graph prefix."""
        if self._runs and not row.is_notable:
            first = self.rows[self._runs[-1].first]
            if not first.is_notable and first.graph_prefix == row.graph_prefix:
                self._runs[-1] = TreeLine(self._runs[-1].first, self._runs[-1].length + 1)
                return
        self._runs.append(TreeLine(index))

    def _build_lines(self) -> Iterator[TreeLine]:
        for run in self._runs:
            is_open = self.shows_all or self.rows[run.first].entry.id in self.unfolded
            if run.length > _MAX_UNFOLDED_RUN and not is_open:
                yield run
            else:
                yield from map(TreeLine, range(run.first, run.first + run.length))

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> TreeLine:
        return self._lines[number]

    def line_of(self, index: int) -> int:
        """Return the number of the line that shows a row."""
        return max(0, bisect_right(self._lines, index, key=lambda line: line.first) - 1)

    def index_of(self, entry: str) -> int | None:
        """Return the row of an entry."""
        return self._index_by_entry.get(entry)

    def unfold(self, line: TreeLine) -> None:
        """Give every row of a run its own line."""
        rows = [self.rows[index] for index in range(line.first, line.first + line.length)]
        self.unfolded.update([row.entry.id for row in rows])
        self._lines = list(self._build_lines())

    def starts_side_branch(self, index: int) -> bool:
        """Return whether a row is the first one of a side branch."""
        row = self.rows[index]
        parent = self.index_of(row.entry.parent or "")
        return parent is not None and len(self.rows[parent].graph_prefix) < len(row.graph_prefix)

    def find(self, search: str, *, start: int, step: int = 1) -> int | None:
        """Return the next row that contains the text, or the one before; wraps around."""
        folded, count = search.casefold(), len(self.rows)
        for distance in range(1, count + 1):
            index = (start + step * distance) % count
            row = self.rows[index]
            if folded in "\n".join([row.summary, *row.labels, *row.branches]).casefold():
                return index
        return None

    def branches_through(self, index: int) -> list[str]:
        """Return the branches that lead through a row; those that end there first."""
        names = list(self.rows[index].branches)
        # The successors of an entry are drawn below it.
        successors = {self.rows[index].entry.id}
        for later in range(index + 1, len(self.rows)):
            row = self.rows[later]
            if row.entry.parent in successors:
                successors.add(row.entry.id)
                names += row.branches
        return names
