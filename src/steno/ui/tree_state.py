"""The state of the branch tree view: the folded and unfolded rows, and the text of each line.

Consecutive rows that are not notable are folded into one line, called a run, until the user unfolds
it. This module imports no widget.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias, final

from steno.app.session_log import BranchTreeRow, TreeLine, fold_rows, side_branch_starts
from steno.log.queries import searchable_text
from steno.render.quantities import format_count
from steno.render.terminal_text import (
    display_width,
    terminal_line,
    terminal_text,
    truncate_to_width,
)

_MAX_ENTRY_CHARACTERS: Final = 20_000
LinePart: TypeAlias = tuple[str, str]
"""A text and the name of its style, which is one of `LINE_STYLES`."""
LINE_STYLES: Final = (
    *("graph", "mark", "number", "kind", "active"),
    *("label", "branch", "summary", "found"),
)


def entry_heading(row: BranchTreeRow) -> str:
    """Return the number and the kind of an entry."""
    return f"#{row.number} {terminal_line(row.kind)}"


def entry_text(row: BranchTreeRow) -> str:
    """Return the text of an entry, truncated if it is long; its summary if it has no text."""
    text = searchable_text(row.entry)
    if not text.strip():
        return terminal_line(row.summary)
    omitted = len(text) - _MAX_ENTRY_CHARACTERS
    shown = terminal_text(text[:_MAX_ENTRY_CHARACTERS]).rstrip()
    more = format_count(omitted, "more character", "more characters")
    return shown if omitted <= 0 else f"{shown}\n… {more}"


def nearest_position(positions: Sequence[int], current: int, step: int) -> int | None:
    """Return the position nearest after (1) or before (-1) `current`; None if there is none."""
    nearest = bisect_right(positions, current) if step > 0 else bisect_left(positions, current) - 1
    return positions[nearest] if 0 <= nearest < len(positions) else None


@final
class TreeState:
    """The lines of a branch tree, with access to each line in constant time."""

    def __init__(self, rows: Sequence[BranchTreeRow] = (), unfolded: Collection[str] = ()) -> None:
        """Set the rows, and the IDs of the entries that are unfolded."""
        self.unfolded: Final = set(unfolded)
        self._shows_all = False
        self.search_text: str = ""
        self.marked_branch: str = ""
        """The branch to compare with the next selected branch; empty if no branch is marked."""
        self._active_branch = ""
        self.show_rows(rows)

    def show_rows(self, rows: Sequence[BranchTreeRow], active_branch: str = "") -> None:
        """Replace the rows of the tree; unfolded runs stay unfolded."""
        self.rows = rows
        self._active_branch = active_branch
        children = Counter(row.entry.parent for row in rows)
        self._index_by_entry = {row.entry.id: index for index, row in enumerate(rows)}
        self.branch_points = [
            index for index, row in enumerate(rows) if row.branches or children[row.entry.id] > 1
        ]
        """The indexes of the rows where branches diverge or end."""
        self._side_branch_starts = side_branch_starts(rows)
        self._fold()

    def _fold(self) -> None:
        self._lines = fold_rows(
            self.rows,
            lambda row: row.is_notable,
            lambda row: self._shows_all or row.entry.id in self.unfolded,
        )

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> TreeLine:
        return self._lines[number]

    def line_of(self, index: int) -> int:
        """Return the number of the line that contains the row at an index."""
        return max(0, bisect_right(self._lines, index, key=lambda line: line.first) - 1)

    def index_of(self, entry: str | None) -> int | None:
        """Return the index of an entry's row; None if the tree does not contain the entry."""
        return None if entry is None else self._index_by_entry.get(entry)

    @property
    def active_end(self) -> int:
        """The index of the row where the active branch ends.

        If the active branch ends at no row, this is the index of the last row.
        """
        ends = (i for i in self.branch_points if self._active_branch in self.rows[i].branches)
        return next(ends, len(self.rows) - 1)

    def unfold(self, line: TreeLine) -> None:
        """Unfold a run, so that each of its rows has its own line."""
        rows = self.rows[line.first : line.first + line.length]
        self.unfolded.update([row.entry.id for row in rows])
        self._fold()

    def toggle_all(self) -> None:
        """Unfold all runs, or fold them again."""
        self._shows_all = not self._shows_all
        self.unfolded.clear()
        self._fold()

    def starts_side_branch(self, index: int) -> bool:
        """Return whether the row at an index is the first row of a side branch."""
        return self.rows[index].entry.id in self._side_branch_starts

    def find(self, search: str, *, start: int, step: int = 1) -> int | None:
        """Return the index of the next (1) or previous (-1) row that contains a text.

        The search ignores case and wraps around. Returns None if no row contains the text.
        """
        folded, count = search.casefold(), len(self.rows)
        for distance in range(1, count + 1):
            index = (start + step * distance) % count
            row = self.rows[index]
            if folded in "\n".join([row.summary, *row.labels, *row.branches]).casefold():
                return index
        return None

    def branches_through(self, index: int) -> list[str]:
        """Return the names of the branches that contain a row, those that end at the row first."""
        names = list(self.rows[index].branches)
        # The successors of an entry always follow it in the rows.
        successors = {self.rows[index].entry.id}
        for row in self.rows[index + 1 :]:
            if row.entry.parent in successors:
                successors.add(row.entry.id)
                names += row.branches
        return names

    # -- text of a line -------------------------------------------------------------------

    def line_parts(self, number: int, width: int) -> list[LinePart]:
        """Return the styled parts of a line, fitted to a width in columns."""
        line = self[number]
        row = self.rows[line.first]
        graph = row.graph_prefix.replace("|", "│")
        if self.starts_side_branch(line.first):
            graph = f"{graph[:-2]}├─"
        if len(graph) > width // 3:  # keep the end, which is next to the entry
            graph = f"…{graph[1 - width // 3 :]}"
        if line.is_run:
            return [
                (graph, "graph"),
                (f"⋮ … {format_count(line.length, 'entry', 'entries')}", "graph"),
            ]
        parts = [
            (graph, "graph"),
            ("● ", "mark") if row.is_active else ("○ ", "graph"),
            (f"#{row.number} ", "number"),
            (terminal_line(row.kind), "active" if row.is_active else "kind"),
            *[(f" [{terminal_line(label)}]", "label") for label in row.labels],
        ]
        for name in row.branches:
            active_mark = " (active)" if name == self._active_branch else ""
            compare_mark = " (compare)" if name == self.marked_branch else ""
            parts.append((f" ← {terminal_line(name)}{active_mark}{compare_mark}", "branch"))
        columns = width - sum([display_width(text) for text, _ in parts])
        return [*parts, *(self._summary_parts(row, columns) if columns > 0 else ())]

    def _summary_parts(self, row: BranchTreeRow, columns: int) -> Iterator[LinePart]:
        """Yield the parts of the summary, with each match of the search as a separate part."""
        # Only text that may fit is sanitized, because summaries can be long.
        summary = truncate_to_width(f"  {terminal_line(row.summary[: 4 * columns])}", columns)
        texts = [summary]
        if self.search_text:
            texts = re.split(f"({re.escape(self.search_text)})", summary, flags=re.IGNORECASE)
        for number, text in enumerate(texts):
            yield text, "found" if number % 2 else "active" if row.is_active else "summary"
