"""The lines of a drawn tree: which twigs have one of their own, and which are folded into one.

A run of twigs that nothing is special about is one line until somebody opens it. Knows no widget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, final

from steno.tui.desk import Twig

_MOST_UNFOLDED: Final = 3
"""A run of twigs this long is not worth folding."""


class Line(NamedTuple):
    """What one line shows: a twig, or a run of them."""

    first: int
    """Which twig; of a run, the first one."""
    length: int = 1

    @property
    def is_run(self) -> bool:
        """Whether it stands for several twigs."""
        return self.length > 1


@final
class TreeLines:
    """A tree as lines. Looking at one costs the same however many there are."""

    def __init__(
        self, twigs: Sequence[Twig], opened: Collection[str] = (), *, is_whole: bool = False
    ) -> None:
        """Take the twigs, and the ids of entries whose runs are open; all are, where it is whole."""
        self.rows: Final = twigs
        self.unfolded: Final = set(opened)
        self.shows_all: Final = is_whole
        self._runs: Final[list[Line]] = []
        self._index_by_entry: Final[dict[str, int]] = {}
        children: Counter[str | None] = Counter()
        for index, twig in enumerate(twigs):
            self._index_by_entry[twig.entry.id] = index
            children[twig.entry.parent] += 1
            self._add_row(index, twig)
        self.branch_points: Final = [
            index
            for index, twig in enumerate(twigs)
            if twig.branches or children[twig.entry.id] > 1
        ]
        """The twigs where branches part or end."""
        self._lines = list(self._laid_out())

    def _add_row(self, index: int, twig: Twig) -> None:
        """Add a twig to the run before it, where it is as plain as that and hangs as far right."""
        if self._runs and not twig.is_notable:
            first = self.rows[self._runs[-1].first]
            if not first.is_notable and first.rails == twig.rails:
                self._runs[-1] = Line(self._runs[-1].first, self._runs[-1].length + 1)
                return
        self._runs.append(Line(index))

    def _laid_out(self) -> Iterator[Line]:
        for run in self._runs:
            is_open = self.shows_all or self.rows[run.first].entry.id in self.unfolded
            if run.length > _MOST_UNFOLDED and not is_open:
                yield run
            else:
                yield from map(Line, range(run.first, run.first + run.length))

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> Line:
        return self._lines[number]

    def line_of(self, index: int) -> int:
        """Return the number of the line that shows a twig."""
        return max(0, bisect_right(self._lines, index, key=lambda line: line.first) - 1)

    def index_of(self, entry: str) -> int | None:
        """Return which twig shows an entry."""
        return self._index_by_entry.get(entry)

    def unfold(self, line: Line) -> None:
        """Give every twig of a run its own line."""
        twigs = [self.rows[index] for index in range(line.first, line.first + line.length)]
        self.unfolded.update([twig.entry.id for twig in twigs])
        self._lines = list(self._laid_out())

    def starts_side_branch(self, index: int) -> bool:
        """Tell whether a twig is the first one of something that leads elsewhere."""
        twig = self.rows[index]
        parent = self.index_of(twig.entry.parent or "")
        return parent is not None and len(self.rows[parent].rails) < len(twig.rails)

    def find(self, words: str, *, beside: int, step: int = 1) -> int | None:
        """Return the next twig that holds the words, or the one before; from the other end at last."""
        wanted, count = words.casefold(), len(self.rows)
        for distance in range(1, count + 1):
            index = (beside + step * distance) % count
            twig = self.rows[index]
            if wanted in "\n".join([twig.gist, *twig.labels, *twig.branches]).casefold():
                return index
        return None

    def branches_through(self, index: int) -> list[str]:
        """Return the branches that lead through a twig, or end there: those first."""
        names = list(self.rows[index].branches)
        # What comes of an entry is drawn below it.
        below = {self.rows[index].entry.id}
        for later in range(index + 1, len(self.rows)):
            twig = self.rows[later]
            if twig.entry.parent in below:
                below.add(twig.entry.id)
                names += twig.branches
        return names
