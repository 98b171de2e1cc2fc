"""All records of one session in memory: entries by number, id and label, paths and the tree.

The number of an entry is the number of its record. It is short and never changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from steno.app.session_lookup import count_entries, explain_damage, pick_one
from steno.errors import Damaged, Missing
from steno.log.queries import calls_by_entry, labels_of
from steno.messages.message import UserMessage
from steno.records.entry import Control, Entry, Label, Redacted, Resolution
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.render.describe import EntryDescription, describe_entry, entry_type, summarize_call
from steno.render.message_text import block_paragraph, describe_resolution
from steno.render.progress import ShowProgress, no_progress
from steno.render.terminal_text import terminal_line, terminal_text
from steno.store import Store
from steno.store.base import BranchHeads

_ENTRY_NUMBER: Final = re.compile(r"#?([1-9][0-9]{0,11})")
_MAX_UNFOLDED_RUN: Final = 3
"""The length of the longest run of rows that is not folded."""


@final
class SessionLog:
    """The records of a session, with indexes over them."""

    def __init__(self, header: Header, records: Iterable[Record]) -> None:
        """Take the records of a session in the order they were written."""
        self.header: Final = header
        self.records: Final = tuple(records)
        self.entries: Final[dict[str, Entry]] = {}
        self.numbers: Final[dict[str, int]] = {}
        heads = BranchHeads()
        for record in self.records:
            if record.entry is None:
                heads.begin(record.branch, record.at)
            else:
                heads.write(record.branch, record.entry.id)
                self.entries[record.entry.id] = record.entry
                self.numbers[record.entry.id] = record.seq
        self.heads: Final = heads.all()
        """The id of the last entry of every branch; None if the branch has no entries.

        The branch that was written to last comes last.
        """
        self._by_number: Final = {self.numbers[id]: entry for id, entry in self.entries.items()}
        self.labels: Final = labels_of(self.entries.values())
        self.calls: Final = calls_by_entry(self.entries.values())
        """The call that each approval and each result is about, by the id of the entry."""

    @classmethod
    def read(
        cls, store: Store, session: str, show_progress: ShowProgress = no_progress
    ) -> SessionLog:
        """Read a session. Raises Missing if it does not exist, and Damaged if it cannot be read."""
        length = None if show_progress is no_progress else count_entries(store, session)
        with explain_damage(session), show_progress("reading records", length) as progress:
            return cls(store.header(session), progress.track(store.records(session)))

    @property
    def active(self) -> str:
        """The branch that was written to last."""
        return next(reversed(self.heads), MAIN_BRANCH)

    def number(self, entry_id: str) -> str:
        """Return the number of an entry as text; `#?` if the entry is unknown."""
        number = self.numbers.get(entry_id)
        return "#?" if number is None else f"#{number}"

    def path(self, branch: str | None = None) -> list[Entry]:
        """Return the entries of a branch, by default the active one, from the first to the last.

        Raises Missing if there is no such branch, and Damaged if an entry is missing.
        """
        name = self.active if branch is None else branch
        if name not in self.heads and name != MAIN_BRANCH:
            known = ", ".join(map(terminal_text, self.heads))
            raise Missing(
                f"not found; use one of {known or MAIN_BRANCH}",
                code="branch_missing",
                place="branch",
            )
        path: list[Entry] = []
        entry_id, next_number = self.heads.get(name), len(self.records) + 1
        while entry_id is not None:
            number = self.numbers.get(entry_id, next_number)
            if number >= next_number:
                raise missing_parent()
            path.append(self.entries[entry_id])
            entry_id, next_number = path[-1].parent, number
        return path[::-1]

    def find_entry(self, name: str) -> Entry:
        """Return an entry by its number, its id, a prefix of its id, or its label.

        Every command prints numbers, so a number takes precedence over an ID or a label that looks
        like a number. Raises Missing if no entry matches, or if several entries match.
        """
        number = _ENTRY_NUMBER.fullmatch(name)
        if number is not None and int(number[1]) <= len(self.records):
            if int(number[1]) in self._by_number:
                return self._by_number[int(number[1])]
            raise Missing(
                f"this number is the start of a branch, not an entry; {self._tree_hint}",
                code="not_an_entry",
                place=f"entry #{number[1]}",
            )
        if name in self.entries:
            return self.entries[name]
        candidates: list[str] = []
        if number is None:
            if self.labels.get(name) in self.entries:
                return self.entries[self.labels[name]]
            candidates = [id for id in self.entries if name and id.startswith(name)]
        label = f"entry {terminal_line(name)}".rstrip()
        return self.entries[pick_one(candidates, label, self._tree_hint)]

    @property
    def _tree_hint(self) -> str:
        return f"run `steno sessions tree {terminal_line(self.header.id)}` to list the entries"


def restore_entry(store: Store, entry: Entry) -> tuple[Entry, bool]:
    """Return an entry with the content of its blobs, and whether all blobs were read."""
    try:
        return replace(entry, payload=store.restore_blobs(entry.payload)), True
    except (Missing, Damaged):
        return entry, False


def missing_parent() -> Damaged:
    """Return the error for a session that lacks the parent of an entry."""
    return Damaged(
        "the parent of an entry is missing; run `steno verify` to check the session",
        code="parent_missing",
        place="session",
    )


# -- the tree ---------------------------------------------------------------------------------


class BranchTreeRow(NamedTuple):
    """One row of a drawn tree: an entry and its position.

    Below an entry, its side branches come first, one step to the right. Its continuation follows in
    the same column.
    """

    graph_prefix: str
    """The indentation as drawn lines, such as `| | `."""
    entry: Entry
    number: int
    """The number of the entry, displayed as #12."""
    kind: str
    """`user`, `assistant`, `mode_change`, ..."""
    summary: str
    """The content of the entry on one line, printable."""
    labels: tuple[str, ...]
    branches: tuple[str, ...]
    """The branches that end here."""
    is_active: bool
    """Whether the active branch contains the entry."""
    is_notable: bool
    """Whether the row is a prompt or a landmark, which is drawn while other rows are folded."""
    is_landmark: bool = False
    """Whether the row is never folded.

    That is the case where a branch starts, forks or ends, for an entry with a label, and for
    control entries (except labels) and redacted entries.
    """


class TreeLine(NamedTuple):
    """One line of a tree: a row, or a folded run of rows."""

    first: int
    """The index of the row, or of the first row of a folded run."""
    length: int = 1

    @property
    def is_run(self) -> bool:
        """Whether the line is a folded run of several rows."""
        return self.length > 1


def tree_rows(log: SessionLog, *, with_summaries: bool = True) -> list[BranchTreeRow]:
    """Return the tree of a session from top to bottom. Raises Damaged if entries are missing.

    If `with_summaries` is false, the summaries are empty, which is much faster.
    """
    layout = _TreeLayout(log)
    return [
        BranchTreeRow(
            graph_prefix="| " * depth,
            entry=entry,
            number=log.numbers[entry.id],
            kind=entry_type(entry),
            summary=summarize_entry(entry, log) if with_summaries else "",
            labels=tuple(layout.labels.get(entry.id, ())),
            branches=tuple(layout.heads.get(entry.id, ())),
            is_active=entry.id in layout.active_path,
            is_notable=isinstance(entry.message, UserMessage) or layout.is_landmark(entry),
            is_landmark=layout.is_landmark(entry),
        )
        for depth, entry in layout.positions()
    ]


def fold_rows(
    rows: Sequence[BranchTreeRow],
    is_kept: Callable[[BranchTreeRow], bool],
    is_unfolded: Callable[[BranchTreeRow], bool] = lambda _: False,
) -> list[TreeLine]:
    """Return the lines of a tree: a long run of rows that may be folded becomes one line.

    `is_kept` returns whether a row is never folded. All rows of a run have the same graph prefix.
    `is_unfolded` receives the first row of a run, and returns whether the run stays unfolded.
    """
    lines: list[TreeLine] = []
    run_keys = [None if is_kept(row) else row.graph_prefix for row in rows]
    for key, run in groupby(range(len(rows)), run_keys.__getitem__):
        first, *others = run
        length = 1 + len(others)
        if key is not None and length > _MAX_UNFOLDED_RUN and not is_unfolded(rows[first]):
            lines.append(TreeLine(first, length))
        else:
            lines += map(TreeLine, range(first, first + length))
    return lines


def side_branch_starts(rows: Sequence[BranchTreeRow]) -> frozenset[str]:
    """Return the ids of the entries that are one step to the right of their parents."""
    prefixes = {row.entry.id: row.graph_prefix for row in rows}
    return frozenset(
        [
            row.entry.id
            for row in rows
            if len(prefixes.get(row.entry.parent or "", row.graph_prefix)) < len(row.graph_prefix)
        ]
    )


@final
class _TreeLayout:
    """The tree of a session in columns, like `git log --graph`.

    A child is below its parent. Of several children, the one on the active branch, or else the last
    one, is in the column of the parent; the others are drawn first, one step to the right.
    """

    def __init__(self, log: SessionLog) -> None:
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

    def positions(self) -> Iterator[tuple[int, Entry]]:
        """Yield the entries from top to bottom, each with its column."""
        # The entries to draw, the next one last, and their columns.
        pending = [(0, root) for root in reversed(self._ordered(None))]
        while pending:
            depth, entry = pending.pop()
            yield depth, entry
            children = self._ordered(entry.id)
            pending += [(depth, child) for child in children[-1:]]
            pending += [(depth + 1, child) for child in reversed(children[:-1])]

    def _ordered(self, parent: str | None) -> list[Entry]:
        """Return the children of an entry; the one in the column of the entry comes last."""
        return sorted(self.children[parent], key=lambda child: child.id in self.active_path)

    def is_landmark(self, entry: Entry) -> bool:
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


# -- entries ----------------------------------------------------------------------------------


def summarize_entry(entry: Entry, log: SessionLog) -> str:
    """Return the content of an entry on one line."""
    message = entry.message
    if message is not None:
        paragraphs = map(block_paragraph, message.content)
        texts = [
            terminal_line(paragraph.text) for paragraph in paragraphs if not paragraph.is_secondary
        ]
        return " ".join(filter(None, texts))
    return terminal_line(describe_log_entry(entry, log))


def describe_log_entry(entry: Entry, log: SessionLog) -> str:
    """Describe an entry that is not a message."""

    def call_label(call_id: str) -> str:
        known = log.calls.get(entry.id)
        return terminal_line(call_id) if known is None else summarize_call(known)

    def describe_reference_resolution(resolution: Resolution) -> EntryDescription:
        target = log.entries.get(resolution.target)
        text = describe_resolution(None if target is None else target.payload, resolution)
        return EntryDescription(f"{log.number(resolution.target)}, {text}")

    description = describe_entry(
        entry,
        entry_label=log.number,
        call_label=call_label,
        describe_resolution=describe_reference_resolution,
    )
    return ": ".join(filter(None, description))
