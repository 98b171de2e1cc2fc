"""Records: the sequence that a store keeps of a conversation.

A `Header` opens a session. A `Record` puts an entry at the end of a branch, or begins a branch.
Its digest ties an entry to everything that came before it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import datetime
from itertools import count
from typing import Any, ClassVar, Final, final

from steno.errors import InvalidDocument, InvalidValue
from steno.records.entry import BASE_VERSION, Entry
from steno.values import NOTHING, Value, check_fields, check_sha256, is_prechecked, refuse

MAIN_BRANCH: Final = "main"
"""The branch that every conversation begins with."""


def unused_branch_name(stem: str, taken: Container[str], *, first: int = 1) -> str:
    """Return a branch name that is not taken: `fork-1`, or the next free number."""
    return next(name for number in count(first) if (name := f"{stem}-{number}") not in taken)


@final
class Header(Value, frozen=True, tag_field="v", tag=BASE_VERSION, kw_only=True):
    """The head of a session, written before its first entry."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "cloned_from"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    id: str
    created_at: datetime | None = None
    """The time of creation; None if the session was imported from a format without times."""
    title: str | None = None
    cloned_from: str | None = None
    """The id of the session that this one was cloned from."""
    about: Mapping[str, Any] | None = None
    """Further facts: the folder, the program, its version."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.id:
            refuse(self, "id must not be empty", code="empty", field="id")


@final
class Record(Value, frozen=True, kw_only=True):
    """One step of the log, as it is stored: an entry, or the beginning of a branch."""

    shown: ClassVar[frozenset[str]] = frozenset({"branch", "digest", "at"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    seq: int
    """The number of the record in its session, from 1."""
    branch: str
    entry: Entry | None = None
    """The new last entry of its branch; None if the record begins a branch."""
    digest: str | None = None
    at: str | None = None
    """The entry after which the branch begins; None also for an empty branch."""

    def __post_init__(self) -> None:
        if not is_prechecked() and not self._has_only_the_usual_fields():
            check_fields(self)
        if self.seq < 1:
            refuse(self, "seq must be at least 1", code="out_of_range", field="seq")
        if not self.branch:
            refuse(self, "branch must not be empty", code="empty", field="branch")
        entry, digest = self.entry, self.digest
        if (entry is None) != (digest is None):
            rule = "set entry and digest together"
            refuse(self, rule, code="digest_mismatch", field="digest")
        if digest is not None:
            check_sha256(self, "digest")
        if self.at is not None and entry is not None:
            rule = "set entry or at, not both: only a new branch has an at"
            refuse(self, rule, code="entry_with_at", field="at")

    def _has_only_the_usual_fields(self) -> bool:
        """Return whether only the fields of a plain entry are set; these need no further check."""
        return (
            type(self.seq) is int
            and type(self.branch) is str
            and self.branch.isascii()
            and type(self.entry) is Entry
            and type(self.digest) is str
            and self.digest.isascii()
            and self.at is None
            and self.unknown is NOTHING
        )
