"""Sessions and records as rows of the tables in PostgreSQL, and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple, final

from steno.codec import decode_header, decode_record, encode_record
from steno.errors import Damaged, InvalidDocument, UnsupportedVersion
from steno.log.queries import searchable_text
from steno.records.stored_record import Header, Record
from steno.store.base import split_words, validate_records

_MAX_WORD_LENGTH: Final = 200
"""Longer words are indexed by their SHA-256: GIN takes keys of some 2,700 bytes."""


class SessionRow(NamedTuple):
    """A row of `session`, without the id."""

    number: int
    header: bytes
    last: int
    entries: int
    updated_at: datetime | None


class RecordRow(NamedTuple):
    """A row of `record`, without the number of its session."""

    seq: int
    parent: int | None
    id: bytes | None
    time: datetime | None
    body: bytes
    words: list[bytes] | None


RECORD_COLUMN_TYPES: Final = ("int8", "int8", "int8", "bytea", "timestamptz", "bytea", "bytea[]")
"""The types of the session number and of the fields of RecordRow."""


class BranchRow(NamedTuple):
    """A row of `branch`, without the number of its session."""

    name: bytes
    head: bytes | None
    seq: int


class AppendTarget(NamedTuple):
    """The state of a branch before a record is written to it."""

    has_branch: bool
    head: bytes | None
    existing_record: bytes | None
    """The record that has the id of the new entry."""
    parent: int | None

    def holds_entry(self, branch: str, digest: str) -> bool:
        """Return whether this very entry was written to the branch before."""
        if self.existing_record is None:
            return False
        record = decode_stored_record(self.existing_record)
        return record.branch == branch and record.digest == digest


@final
class SessionRows:
    """The records of a session as rows, with its branches and totals."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Convert all records. Raises Damaged if they are inconsistent."""
        self.rows: list[RecordRow] = []
        self.updated_at: datetime | None = None
        self._numbers: dict[str, int] = {}
        self._branches: dict[str, BranchRow] = {}
        for record in validate_records(records):
            self._add(record)

    @property
    def entries(self) -> int:
        """The number of records with an entry."""
        return len(self._numbers)

    @property
    def branches(self) -> list[BranchRow]:
        """The branches, each with its last record."""
        return list(self._branches.values())

    def _add(self, record: Record) -> None:
        entry = record.entry
        parent = None if entry is None else self._numbers.get(entry.parent or "")
        self.rows.append(build_record_row(record, parent))
        branch = BranchRow(encode_name(record.branch), head_after_record(record), record.seq)
        if entry is None:
            self._branches.setdefault(record.branch, branch)  # it never moves a branch
            return
        self._branches[record.branch] = branch
        self._numbers[entry.id] = record.seq
        if entry.time is not None:
            self.updated_at = max(entry.time, self.updated_at or entry.time)


# -- values to rows --------------------------------------------------------------------------


def build_record_row(record: Record, parent: int | None) -> RecordRow:
    """Return the row of a record; `parent` is the `seq` of the parent of its entry."""
    body, entry = encode_record(record), record.entry
    if entry is None:
        return RecordRow(record.seq, None, None, None, body, None)
    keys = word_keys(split_words(searchable_text(entry)))
    return RecordRow(record.seq, parent, encode_name(entry.id), entry.time, body, keys)


def head_after_record(record: Record) -> bytes | None:
    """Return the last entry of a branch after the record was written to it."""
    if record.entry is not None:
        return encode_name(record.entry.id)
    return None if record.at is None else encode_name(record.at)


def word_keys(words: Iterable[str]) -> list[bytes]:
    """Return the distinct words as they are indexed."""
    return [
        word.encode() if len(word) <= _MAX_WORD_LENGTH else sha256(word.encode()).digest()
        for word in dict.fromkeys(words)
    ]


def encode_name(text: str) -> bytes:
    """Return a name or id as bytes; no value has a lone surrogate, so such a name is not found."""
    return text.encode("utf-8", "surrogatepass")


# -- rows to values --------------------------------------------------------------------------


def decode_stored_record(body: bytes) -> Record:
    """Decode a record. Raises Damaged."""
    try:
        return decode_record(body)
    except InvalidDocument as exc:
        raise Damaged("a record cannot be read", code="record_unreadable", place="store") from exc


def decode_stored_header(body: bytes) -> Header:
    """Decode the header of a session. Raises Damaged, UnsupportedVersion."""
    try:
        return decode_header(body)
    except UnsupportedVersion:
        raise
    except InvalidDocument as exc:
        raise Damaged(
            "the header of a session cannot be read", code="header_unreadable", place="store"
        ) from exc


def as_utc(time: Any) -> Any:
    """Return a time that was selected `AT TIME ZONE 'UTC'`; None if there is none."""
    return None if time is None else time.replace(tzinfo=UTC)
