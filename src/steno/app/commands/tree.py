"""The tree of a session as rows, like `git log --graph`: for `steno sessions tree` and `/tree`.

A child is below its parent. Where an entry has several children, the one on the active branch stays
in its column, else the last one; the others are drawn first, one step to the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from steno.app.commands.report import Report, ReportLine
from steno.app.session_log import SessionLog, missing_parent, summarize_entry
from steno.records.entry import Control, Entry, Label, Redacted
from steno.render.describe import entry_type
from steno.render.table_output import StyledText
from steno.render.terminal_text import terminal_line, truncate_to_width

_MAX_UNFOLDED: Final = 3
"""A run of entries this long is not worth folding."""
_MAX_SUMMARY_LENGTH: Final = 100
"""How much of an entry is shown where a line may be of any length."""


class GraphRow(NamedTuple):
    """One line of the drawing: an entry, or a step to the right where it is None."""

    graph_prefix: str
    entry: Entry | None


@final
class TreeLayout:
    """The parents, heads and labels that the drawing of a session is made from."""

    def __init__(self, log: SessionLog) -> None:
        """Take a session. Raises Damaged if entries are missing from it."""
        self.log = log
        self.children: dict[str | None, list[Entry]] = {None: []}
        for entry in log.entries.values():
            if entry.parent is not None and entry.parent not in self.children:
                raise missing_parent()
            self.children[entry.parent].append(entry)
            self.children[entry.id] = []
        self.heads: dict[str, list[str]] = {}
        for name, head in log.heads.items():
            if head is not None:
                self.heads.setdefault(head, []).append(name)
        self.labels: dict[str, list[str]] = {}
        for label, target in log.labels.items():
            self.labels.setdefault(target, []).append(label)
        self.active_path: set[str] = {entry.id for entry in log.path()}

    def rows(self) -> Iterator[GraphRow]:
        """Return the lines of the drawing from top to bottom."""
        # The entries to draw, the next one last, and their columns.
        pending = [(root, 0, False) for root in reversed(self._ordered(None))]
        while pending:
            entry, depth, begins_column = pending.pop()
            if begins_column:
                yield GraphRow("| " * (depth - 1) + "|\\", None)
            yield GraphRow("| " * depth, entry)
            children = self._ordered(entry.id)
            pending += [(child, depth, False) for child in children[-1:]]
            pending += [(child, depth + 1, True) for child in reversed(children[:-1])]

    def _ordered(self, parent: str | None) -> list[Entry]:
        """Return the children of an entry, the one that stays in its column last."""
        return sorted(self.children[parent], key=lambda child: child.id in self.active_path)

    def is_remarkable(self, entry: Entry) -> bool:
        """Return whether an entry is never folded."""
        siblings, payload = self.children[entry.parent], entry.payload
        is_control = isinstance(payload, (Control, Redacted)) and not isinstance(payload, Label)
        return (
            entry.parent is None
            or len(siblings) > 1
            or len(self.children[entry.id]) != 1
            or entry.id in self.heads
            or entry.id in self.labels
            or is_control
        )

    def row_pieces(self, row: GraphRow) -> list[StyledText]:
        """Return the pieces of a line."""
        entry = row.entry
        if entry is None:
            return [(row.graph_prefix, "dim")]
        is_active = entry.id in self.active_path
        style = "dim" if entry.message is None else ("bold" if is_active else "")
        pieces: list[StyledText] = [
            (row.graph_prefix, "dim"),
            ("* ", "green" if is_active else "dim"),
            (f"{self.log.number(entry.id)} ", "dim"),
            (entry_type(entry), style),
        ]
        labels = [terminal_line(label) for label in self.labels.get(entry.id, ())]
        pieces += [(f" [{label}]", "yellow") for label in labels]
        pieces += self.branch_pieces(self.heads.get(entry.id, []))
        pieces.append(
            f"  {truncate_to_width(summarize_entry(entry, self.log), _MAX_SUMMARY_LENGTH)}"
        )
        return pieces

    def branch_pieces(self, branches: list[str]) -> list[StyledText]:
        """Return the names of branches that end somewhere."""
        return [
            (f" <- {terminal_line(name)} (active)", "bold green")
            if name == self.log.active
            else (f" <- {terminal_line(name)}", "cyan")
            for name in branches
        ]

    def entry_as_json(self, entry: Entry) -> dict[str, object]:
        """Return an entry and its place in the tree, as JSON."""
        return {
            "number": self.log.numbers[entry.id],
            "id": entry.id,
            "parent": entry.parent,
            "time": entry.time,
            "type": entry_type(entry),
            "labels": self.labels.get(entry.id, []),
            "branches": self.heads.get(entry.id, []),
            "active": entry.id in self.active_path,
        }


def report_tree(log: SessionLog, *, shows_all: bool) -> Report:
    """Draw the entries of a session; long runs of ordinary entries are folded into one line."""
    layout = TreeLayout(log)
    lines = [ReportLine([("session ", "dim"), terminal_line(log.header.id)])]
    folded: list[GraphRow] = []
    for row in layout.rows():
        if row.entry is not None and not shows_all and not layout.is_remarkable(row.entry):
            folded.append(row)
            continue
        lines += _fold_run(layout, folded)
        folded = []
        lines.append(ReportLine(layout.row_pieces(row), is_cut=True))
    lines += _fold_run(layout, folded)
    lines += [
        ReportLine([("(nothing yet)", "dim"), *layout.branch_pieces([name])])
        for name, head in log.heads.items()
        if head is None
    ]
    return Report(lines=lines, data=map(layout.entry_as_json, log.entries.values()))


def _fold_run(layout: TreeLayout, run: list[GraphRow]) -> list[ReportLine]:
    if len(run) <= _MAX_UNFOLDED:
        return [ReportLine(layout.row_pieces(row), is_cut=True) for row in run]
    text = f"{run[0].graph_prefix}: … {len(run):,} entries (--all shows them)"
    return [ReportLine([(text, "dim")], is_cut=True)]
