"""Convert sessions, records and branches to rows of a SQLite database and back.

All functions take a connection inside a transaction. `layout` explains the tables. This module
has no knowledge of locks, threads and the search index.

A database has many records, so rows are short. For a record with an entry, a row stores the JSON
of the entry, which is the same in every store; the number of the record is in the key, the branch
is a column, the digest takes 32 bytes, and the checksum covers all of these. A record that begins
a branch, or that has members of a newer version, is stored as the JSON of the whole record in a row
without a digest. An id that is a UUID, as steno generates them, takes 16 bytes; any other id is
stored as text.
"""

from __future__ import annotations

import re
import sqlite3
from binascii import crc32
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from steno.codec import decode_entry, decode_record, encode_entry, encode_header, encode_record
from steno.codec.json_scanner import replace_line_breaks
from steno.errors import Damaged, InvalidDocument, Missing, UnsupportedVersion
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store.base import decode_stored_header, missing_record, missing_session, validate_records
from steno.store.sqlite.layout import INDEX_INTERVAL, SESSION_SHIFT, old_layout

StoredId: TypeAlias = str | bytes
"""The id of an entry as stored in a row."""
RecordColumns: TypeAlias = tuple[
    int | None, int | None, str, StoredId | None, int, bytes, bytes | None
]
"""The columns of `record` after its key."""
StoredContent: TypeAlias = tuple[int, str, int, bytes, bytes | None]
"""The columns from which a record is decoded: its number, branch, checksum, data and digest."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_SEQ: Final = (1 << SESSION_SHIFT) - 1

_INSERT_RECORD: Final = """
INSERT INTO record (key, parent, time, branch, id, checksum, data, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_RECORD: Final = """
UPDATE record SET checksum = ?, data = ?, digest = ?
WHERE key = ? AND branch = ? AND ifnull(id, '') = ?
"""
_SELECT_RECORD_RANGE: Final = """
SELECT session.key, entries, has_text_ids, last.key, last.branch, last.id
FROM session LEFT JOIN record AS last ON last.key = (
    SELECT max(key) FROM record
    WHERE key BETWEEN session.key << :shift AND session.key << :shift | :longest
)
WHERE session.id = :session
"""
_SELECT_SEQ: Final = """
SELECT seq FROM entry WHERE session = :session AND id = :id
UNION ALL
SELECT key - :base FROM record WHERE key BETWEEN :recent AND :last AND id = :id
"""
_HEADS_TEMPLATE: Final = """
WITH written (name, seq, id) AS (
    SELECT name, seq, record.id FROM branch CROSS JOIN record ON record.key = :base + branch.seq
    WHERE session = :session {only_name}
    UNION ALL
    SELECT branch, key - :base, id FROM record WHERE key BETWEEN :recent AND :last {only_branch}
), latest (name, seq) AS (
    SELECT name, ifnull(max(seq) FILTER (WHERE id IS NOT NULL), min(seq))
    FROM written GROUP BY name
)
SELECT name, ifnull(own.id, start.id)
FROM latest
CROSS JOIN record AS own ON own.key = :base + latest.seq
LEFT JOIN record AS start ON start.key = :base + own.parent
ORDER BY own.id IS NOT NULL, latest.seq
"""
"""Selects the last entry of each branch.

A record without an entry counts only if it is the first record of its branch.
"""
_SELECT_HEADS: Final = _HEADS_TEMPLATE.format(only_name="", only_branch="")
_SELECT_HEAD: Final = _HEADS_TEMPLATE.format(
    only_name="AND name = :name", only_branch="AND branch = :name"
)
_SELECT_ANCESTORS: Final = """
WITH RECURSIVE path (seq, parent) AS (
    SELECT :seq, parent FROM record WHERE key = :base + :seq
    UNION ALL
    SELECT path.parent, record.parent FROM path CROSS JOIN record ON key = :base + path.parent
    LIMIT :number
)
SELECT seq, branch, checksum, data, digest, path.parent
FROM path CROSS JOIN record ON key = :base + seq
"""
_SELECT_ROWS: Final = """
SELECT own.key - :base, own.branch, own.checksum, own.data, own.digest,
       own.id, own.parent, before.id
FROM record AS own LEFT JOIN record AS before ON before.key = :base + own.parent
WHERE own.key BETWEEN :first AND :last ORDER BY own.key
"""
_SELECT_FIRST_ENTRIES: Final = """
SELECT key - :base, branch, checksum, data, digest FROM record
WHERE key BETWEEN :base AND :last AND id IS NOT NULL ORDER BY key LIMIT :number
"""
_SELECT_RECENT_TOTALS: Final = """
SELECT count(id), max(time), (
    SELECT time FROM record WHERE key BETWEEN :base AND :last AND id IS NOT NULL
    ORDER BY key DESC LIMIT 1
)
FROM record WHERE key BETWEEN :recent AND :last
"""
_SELECT_RECORD: Final = """
SELECT id, :seq, branch, own.checksum, data, digest
FROM (SELECT branch, checksum, data, digest FROM record WHERE key = :key) AS own
CROSS JOIN session ON session.key = :session
"""
_INDEX_STATEMENTS: Final = (
    """
    INSERT INTO entry (session, id, seq)
    SELECT :session, id, key - :base FROM record
    WHERE key BETWEEN :first AND :last AND id IS NOT NULL
    """,
    """
    INSERT INTO branch (session, name, seq)
    SELECT :session, branch, ifnull(max(key) FILTER (WHERE id IS NOT NULL), min(key)) - :base
    FROM record WHERE key BETWEEN :first AND :last GROUP BY branch
    ON CONFLICT (session, name) DO UPDATE SET seq = excluded.seq
    WHERE (SELECT id FROM record WHERE key = :base + excluded.seq) IS NOT NULL
    """,
    """
    UPDATE session SET
        entries = entries + (SELECT count(id) FROM record WHERE key BETWEEN :first AND :last),
        latest = (SELECT max(time) FROM (SELECT latest AS time UNION ALL
                  SELECT time FROM record WHERE key BETWEEN :first AND :last))
    WHERE key = :session
    """,
)


class RecordRange(NamedTuple):
    """The key of a session, the range of its record keys, and details of its last record."""

    session: int
    base: int
    """The key that record 0 would have."""
    last: int
    """The key of the last record; `base` if the session has no records."""
    branch: str | None = None
    """The branch of the last record; None if the session has no records."""
    entry_id: str | None = None
    """The id of the entry of the last record; None if the record has no entry.

    With `branch` and `entry_id`, most appends need no query for the last entry of their branch.
    """

    @property
    def length(self) -> int:
        """The number of records."""
        return self.last - self.base

    @property
    def first_unindexed(self) -> int:
        """The key after the last complete block of 32 records, even if no record has it yet."""
        return self.base + self.length // INDEX_INTERVAL * INDEX_INTERVAL + 1

    @property
    def parameters(self) -> dict[str, int]:
        """The named parameters of the SQL statements that select these records."""
        return {
            "session": self.session,
            "base": self.base,
            "recent": self.first_unindexed,
            "last": self.last,
        }


# -- headers ---------------------------------------------------------------------------------


def read_header(db: sqlite3.Connection, session: str) -> Header:
    """Return the header of a session.

    Raises Missing if the session does not exist, Damaged if its header cannot be read, and
    UnsupportedVersion if the header has another version.
    """
    row = db.execute("SELECT header, checksum FROM session WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise _missing_session(db, session)
    return _decode_checked_header(*row)


def read_headers(db: sqlite3.Connection) -> Iterator[Header]:
    """Yield all readable headers, then raise the error of the first unreadable header."""
    return _decode_headers(
        db.execute("SELECT header, checksum FROM session ORDER BY key").fetchall()
    )


def _decode_headers(rows: Iterable[tuple[object, int]]) -> Iterator[Header]:
    problem: Damaged | UnsupportedVersion | None = None
    for data, checksum in rows:
        try:
            header = _decode_checked_header(data, checksum)
        except (Damaged, UnsupportedVersion) as exc:
            problem = problem or exc
        else:
            yield header
    if problem is not None:
        raise problem


def _decode_checked_header(data: object, checksum: int) -> Header:
    if not isinstance(data, bytes) or crc32(data) != checksum:
        raise Damaged(
            "the header of a session does not match its checksum",
            code="header_damaged",
            place="store",
        )
    return decode_stored_header(data)


def update_title(db: sqlite3.Connection, session: str, title: str | None) -> None:
    """Change the title in the header of a session.

    Raises Missing if the session does not exist, and Damaged if its header cannot be read.
    """
    data = encode_header(replace(read_header(db, session), title=title))
    values = (data, crc32(data), session)
    db.execute("UPDATE session SET header = ?, checksum = ? WHERE id = ?", values)


def _missing_session(db: sqlite3.Connection, session: str) -> Missing | Damaged:
    """Return the error for a session that was not found by its id.

    The error is Damaged if the table contains the session but its index does not.
    """
    every_row = "SELECT 1 FROM session NOT INDEXED WHERE id = ?"
    if db.execute(every_row, (session,)).fetchone() is None:
        return missing_session()
    message = "the index of sessions is damaged; run REINDEX on the file with sqlite3"
    return Damaged(message, code="session_index_damaged", place="store")


# -- records as columns, and back ------------------------------------------------------------


def _columns_from_record(record: Record, parent: int | None) -> RecordColumns:
    """Return the columns of a record, without its key; `digest` is None if the data contains it."""
    entry, digest = record.entry, None
    if entry is None or record.digest is None or record.unknown:
        data = encode_record(record)
    else:
        data, digest = replace_line_breaks(encode_entry(entry)), bytes.fromhex(record.digest)
    return (
        parent,
        None if entry is None or entry.time is None else time_to_microseconds(entry.time),
        record.branch,
        None if entry is None else _pack_id(entry.id),
        _checksum(record.seq, record.branch, data, digest),
        data,
        digest,
    )


def record_from_content(row: StoredContent) -> Record:
    """Decode the record of a row. Raises Damaged if the row is damaged."""
    seq, branch, _, data, digest = row
    if digest is not None:
        entry, entry_digest = entry_from_content(row)
        return Record(seq=seq, branch=branch, entry=entry, digest=entry_digest)
    _check_content(row)
    try:
        record = decode_record(data)
    except InvalidDocument as exc:
        raise _unreadable_record(seq) from exc
    if record.seq != seq:
        raise Damaged(
            f"found record {record.seq} at this position",
            code="record_misplaced",
            place=f"record {seq}",
        )
    return record


def entry_from_content(row: StoredContent) -> tuple[Entry | None, str | None]:
    """Decode the entry of a row and its digest; both are None if the record has no entry.

    Raises Damaged if the row is damaged.
    """
    seq, _, _, data, digest = row
    if digest is None:
        record = record_from_content(row)
        return record.entry, record.digest
    _check_content(row)
    try:
        return decode_entry(data), digest.hex()
    except InvalidDocument as exc:
        raise _unreadable_record(seq) from exc


def _unreadable_record(seq: int) -> Damaged:
    return Damaged("the record cannot be decoded", code="record_unreadable", place=f"record {seq}")


def _check_content(row: StoredContent) -> None:
    """Raise Damaged unless the types and the checksum of a row are correct.

    SQLite columns are not typed, so a damaged row may contain values of any type.
    """
    seq, branch, checksum, data, digest = row
    is_readable = (
        type(branch) is str and type(data) is bytes and (digest is None or type(digest) is bytes)
    )
    if not is_readable or _checksum(seq, branch, data, digest) != checksum:
        message = "the data does not match the checksum"
        raise Damaged(message, code="checksum_mismatch", place=f"record {seq}")


def _checksum(seq: int, branch: str, data: bytes, digest: bytes | None) -> int:
    """Return the CRC-32 of the data and of the columns that the data does not contain."""
    if digest is None:
        return crc32(data)
    return crc32(data, crc32(digest, crc32(branch.encode(), seq)))


def _pack_id(id: str) -> StoredId:
    """Return the stored form of an id: bytes for a UUID, text for any other id."""
    return bytes.fromhex(id.replace("-", "")) if _UUID.fullmatch(id) else id


def _unpack_id(id: StoredId | None) -> str | None:
    """Return an id from either stored form; None for None."""
    if not isinstance(id, bytes):
        return id
    digits = id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def time_to_microseconds(moment: datetime) -> int:
    """Return the stored form of a time, in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def time_from_microseconds(microseconds: int) -> datetime:
    """Return a time from its stored form."""
    return _EPOCH + microseconds * _MICROSECOND


# -- writing ---------------------------------------------------------------------------------


def columns_of_records(records: Iterable[Record]) -> Iterator[RecordColumns]:
    """Yield the columns of the records of a session. Raises Damaged if they are inconsistent."""
    seqs: dict[str, int] = {}
    for record in validate_records(records):
        before = _preceding_id(record)
        yield _columns_from_record(record, None if before is None else seqs.get(before, 0))
        if record.entry is not None:
            seqs[record.entry.id] = record.seq


def _preceding_id(record: Record) -> str | None:
    """Return the id of the entry that precedes a record; None if no entry precedes it."""
    return record.at if record.entry is None else record.entry.parent


def insert_session(
    db: sqlite3.Connection, id: str, header: bytes, rows: list[RecordColumns]
) -> None:
    """Insert a new session with its records."""
    cursor = db.execute(
        "INSERT INTO session (id, header, checksum, has_text_ids) VALUES (?, ?, ?, 0)",
        (id, header, crc32(header)),
    )
    session = cursor.lastrowid
    assert session is not None
    base = session << SESSION_SHIFT
    db.executemany(_INSERT_RECORD, ((base + seq, *row) for seq, row in enumerate(rows, 1)))
    _index_records(db, session, 1, len(rows) // INDEX_INTERVAL * INDEX_INTERVAL)


def overwrite_record(db: sqlite3.Connection, extent: RecordRange, record: Record) -> int:
    """Replace the content of a record and return its key. Raises Missing if it does not exist."""
    key, id = extent.base + record.seq, "" if record.entry is None else _pack_id(record.entry.id)
    content = _columns_from_record(record, None)[4:]
    changed = db.execute(_UPDATE_RECORD, (*content, key, record.branch, id))
    if changed.rowcount != 1:
        raise missing_record()
    return key


def insert_record(
    db: sqlite3.Connection, extent: RecordRange, record: Record, parent: int | None
) -> None:
    """Insert a record after the last record; if it completes a block of 32, index the block."""
    db.execute(_INSERT_RECORD, (extent.last + 1, *_columns_from_record(record, parent)))
    if record.seq % INDEX_INTERVAL == 0:
        _index_records(db, extent.session, record.seq - INDEX_INTERVAL + 1, record.seq)


def _index_records(db: sqlite3.Connection, session: int, first: int, last: int) -> None:
    """Add records to the tables `entry` and `branch`, and to the totals of their session."""
    base = session << SESSION_SHIFT
    names = {"session": session, "base": base, "first": base + first, "last": base + last}
    for statement in _INDEX_STATEMENTS:
        db.execute(statement, names)


# -- reading ---------------------------------------------------------------------------------


def find_range(db: sqlite3.Connection, session: str) -> RecordRange:
    """Return the range of the records of a session.

    Raises Missing if the session does not exist, Damaged if records are lost, and
    UnsupportedVersion if the session has an old layout.
    """
    place = {"session": session, "shift": SESSION_SHIFT, "longest": _MAX_SEQ}
    row = db.execute(_SELECT_RECORD_RANGE, place).fetchone()
    if row is None:
        raise _missing_session(db, session)
    key, entries, has_text_ids, last, branch, id = row
    if has_text_ids:
        raise old_layout("the session stores its ids as in layout 2")
    base = key << SESSION_SHIFT
    last = base if last is None else last
    extent = RecordRange(key, base, last, branch, _unpack_id(id))
    if extent.length < entries:
        raise lost_record(f"record {entries}")
    return extent


def lost_record(place: str) -> Damaged:
    """Return the error for a record that should exist but has no row."""
    return Damaged("the row of the record is missing", code="record_lost", place=place)


def session_exists(db: sqlite3.Connection, session: int) -> bool:
    """Return whether a session still exists."""
    return db.execute("SELECT 1 FROM session WHERE key = ?", (session,)).fetchone() is not None


def find_seq(db: sqlite3.Connection, extent: RecordRange, entry_id: str) -> int | None:
    """Return the `seq` of an entry; None if the session does not have the entry."""
    if entry_id == extent.entry_id:
        return extent.length
    row = db.execute(_SELECT_SEQ, {**extent.parameters, "id": _pack_id(entry_id)}).fetchone()
    return None if row is None else row[0]


def read_heads(db: sqlite3.Connection, extent: RecordRange) -> list[tuple[str, str | None]]:
    """Return every branch and its last entry, ordered by the time of the last write."""
    return [(name, _unpack_id(id)) for name, id in db.execute(_SELECT_HEADS, extent.parameters)]


def read_head(
    db: sqlite3.Connection, extent: RecordRange, branch: str
) -> tuple[str, str | None] | None:
    """Return a branch and its last entry; None if the branch does not exist."""
    if branch == extent.branch and extent.entry_id is not None:
        return branch, extent.entry_id
    found = db.execute(_SELECT_HEAD, {**extent.parameters, "name": branch}).fetchone()
    return None if found is None else (found[0], _unpack_id(found[1]))


def read_ancestors(
    db: sqlite3.Connection, base: int, seq: int, number: int
) -> list[tuple[StoredContent, int | None]]:
    """Return up to `number` rows of a record and its ancestors, each with the parent's `seq`."""
    found = db.execute(_SELECT_ANCESTORS, {"base": base, "seq": seq, "number": number})
    return [(row[:-1], row[-1]) for row in found]


def read_record_at(db: sqlite3.Connection, key: int) -> tuple[str, Record] | None:
    """Return a record and the id of its session; None if the record was removed."""
    place = {"key": key, "session": key >> SESSION_SHIFT, "seq": key & _MAX_SEQ}
    row = db.execute(_SELECT_RECORD, place).fetchone()
    return None if row is None else (row[0], record_from_content(row[1:]))


class SessionCounts(NamedTuple):
    """The header of a session, its number of entries, and the times of its entries."""

    header: Header
    entries: int
    latest: datetime | None
    written_at: datetime | None
    """The time of the last entry."""


def read_counts(db: sqlite3.Connection, extent: RecordRange) -> SessionCounts:
    """Return the header and the totals of a session, including records that are not indexed."""
    header, checksum, entries, latest = db.execute(
        "SELECT header, checksum, entries, latest FROM session WHERE key = ?", (extent.session,)
    ).fetchone()
    number, last, written_at = db.execute(_SELECT_RECENT_TOTALS, extent.parameters).fetchone()
    times = [time for time in (latest, last) if time is not None]
    return SessionCounts(
        _decode_checked_header(header, checksum),
        entries + number,
        time_from_microseconds(max(times)) if times else None,
        None if written_at is None else time_from_microseconds(written_at),
    )


def read_first_entries(db: sqlite3.Connection, extent: RecordRange, number: int) -> list[Entry]:
    """Return the first `number` entries of a session."""
    rows = db.execute(_SELECT_FIRST_ENTRIES, {**extent.parameters, "number": number}).fetchall()
    return [entry for row in rows if (entry := record_from_content(row).entry) is not None]


class LinkedRow(NamedTuple):
    """A row of `record` with the columns that must match its data."""

    seq: int
    branch: str
    checksum: int
    data: bytes
    digest: bytes | None
    id: StoredId | None
    parent: int | None
    parent_id: StoredId | None
    """The id of the entry in the row of `parent`."""

    def record(self) -> Record:
        """Decode the record. Raises Damaged if it cannot be read or the columns do not match it."""
        record = record_from_content(self[:5])
        id = None if record.entry is None else record.entry.id
        before, parent = _preceding_id(record), self.parent
        if before is None:
            is_linked = parent is None
        else:
            is_linked = parent == 0 or _unpack_id(self.parent_id) == before
        if not is_linked or self.branch != record.branch or _unpack_id(self.id) != id:
            raise _columns_disagree(self.seq)
        return record


def check_parent_is_outside(db: sqlite3.Connection, extent: RecordRange, record: Record) -> None:
    """Raise Damaged if an earlier record of the same session contains the parent of a record."""
    before = _preceding_id(record)
    seq = None if before is None else find_seq(db, extent, before)
    if seq is not None and seq < record.seq:
        raise _columns_disagree(record.seq)


def _columns_disagree(seq: int) -> Damaged:
    message = "the columns do not match the data; restore the file from a backup"
    return Damaged(message, code="columns_disagree", place=f"record {seq}")


def read_rows(db: sqlite3.Connection, session: int, done: int, number: int) -> list[LinkedRow]:
    """Return the rows of up to `number` records after record `done`."""
    base = session << SESSION_SHIFT
    names = {"base": base, "first": base + done + 1, "last": base + done + number}
    return [LinkedRow._make(row) for row in db.execute(_SELECT_ROWS, names)]
