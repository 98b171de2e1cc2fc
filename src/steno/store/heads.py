"""What holds for the records of a session in every store: their order, and where branches end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

from steno.errors import Damaged, Missing
from steno.record import Record


def in_order(records: Iterable[Record]) -> Iterator[Record]:
    """Return the records of a whole session as they come. Raises Damaged if they cannot be one."""
    ids: set[str] = set()
    for expected, record in enumerate(records, 1):
        if record.seq != expected:
            raise Damaged(f"record {expected}: another one is in its place")
        if record.entry is not None:
            if record.entry.id in ids:
                raise Damaged(f"record {expected}: the id of its entry was used before")
            ids.add(record.entry.id)
        yield record


def check_replaces(record: Record, old: Record | None) -> None:
    """Refuse a record that is to take the place of another but in content. Raises Missing."""
    if old is None or _place_of(record) != _place_of(old):
        raise Missing("store: there is no record of this number with this entry")


def _place_of(record: Record) -> tuple[int, str, str | None]:
    return record.seq, record.branch, None if record.entry is None else record.entry.id


@final
class Heads:
    """The ends of all branches, in their order: the one whose entry was written last at the end.

    Branches that nothing was written to yet stand first. So to fork, and to go on where one was,
    does not make the fork the branch that a session opens with.
    """

    __slots__ = ("_begun", "_written")

    def __init__(self) -> None:
        """Start without a branch."""
        self._begun: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}

    def begin(self, branch: str, at: str | None) -> None:
        """Take note of a record without an entry: where there is no such branch, one begins.

        Whatever else it may mean to a newer version, it does not move a branch.
        """
        if branch not in self:
            self._begun[branch] = at

    def write(self, branch: str, entry_id: str) -> None:
        """Take note of an entry that was written to a branch."""
        self._begun.pop(branch, None)
        self._written.pop(branch, None)  # the latest stands last
        self._written[branch] = entry_id

    def of(self, branch: str) -> str | None:
        """Return the last entry of a branch; None if it has none, or there is no such branch."""
        return self._written.get(branch) or self._begun.get(branch)

    def all(self) -> dict[str, str | None]:
        """Return the last entry of every branch."""
        return self._begun | self._written

    def __contains__(self, branch: str) -> bool:
        return branch in self._written or branch in self._begun
