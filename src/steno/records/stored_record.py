"""The records of a conversation in a store.

A session starts with a `Header`. Each `Record` after it appends an entry to a branch, or starts a
branch. The digest in a record covers its entry and all ancestors of that entry.
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
"""The name of the branch that every conversation starts with."""


def unused_branch_name(stem: str, taken: Container[str], *, first: int = 1) -> str:
    """Return the first of `stem-1`, `stem-2`, ... that is not taken; counting starts at `first`."""
    return next(name for number in count(first) if (name := f"{stem}-{number}") not in taken)


@final
class Header(Value, frozen=True, tag_field="v", tag=BASE_VERSION, kw_only=True):
    """The metadata of a session, written before its first entry."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "cloned_from"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    id: str
    created_at: datetime | None = None
    """The time of creation; None if the session was imported from a format without times."""
    title: str | None = None
    cloned_from: str | None = None
    """The id of the session that this one was cloned from."""
    about: Mapping[str, Any] | None = None
    """Further metadata, such as the folder, the program and its version."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.id:
            refuse(self, "id must not be empty", code="empty", field="id")


@final
class Record(Value, frozen=True, kw_only=True):
    """One stored step of the log, which appends an entry to a branch or starts a branch."""

    shown: ClassVar[frozenset[str]] = frozenset({"branch", "digest", "at"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    seq: int
    """The number of the record in its session, from 1."""
    branch: str
    entry: Entry | None = None
    """The entry that is appended to `branch`; None if the record starts a branch."""
    digest: str | None = None
    at: str | None = None
    """The id of the entry after which a new branch starts; None if the branch starts empty."""

    def __post_init__(self) -> None:
        if not is_prechecked() and not self._has_only_the_usual_fields():
            check_fields(self)
        if self.seq < 1:
            refuse(self, "seq must be at least 1", code="out_of_range", field="seq")
        if not self.branch:
            refuse(self, "branch must not be empty", code="empty", field="branch")
        entry, digest = self.entry, self.digest
        if (entry is None) != (digest is None):
            rule = "entry and digest must be set together"
            refuse(self, rule, code="digest_mismatch", field="digest")
        if digest is not None:
            check_sha256(self, "digest")
        if self.at is not None and entry is not None:
            rule = "entry and at must not both be set; only a record that starts a branch has at"
            refuse(self, rule, code="entry_with_at", field="at")

    def _has_only_the_usual_fields(self) -> bool:
        """Return whether all fields are plain enough that `check_fields` is not needed."""
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
