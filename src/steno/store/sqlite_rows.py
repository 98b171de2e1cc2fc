"""The tables of a SQLite store: how sessions, records and branches become rows, and come back.

All functions take a connection in the middle of a transaction. What the columns mean, and what
is noted when, says `sqlite_layout`; how a record becomes one, `sqlite_columns`. Nothing here knows
about locks, threads or the search index.
"""

from __future__ import annotations

import sqlite3
from binascii import crc32
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from steno.entry import Entry
from steno.errors import Damaged, Missing
from steno.record import Header, Record
from steno.store.heads import in_order
from steno.store.sqlite_columns import (
    Content,
    Id,
    Row,
    content_of,
    moment,
    packed,
    record_from,
    row_of,
    unpacked,
)
from steno.store.sqlite_headers import header_from, not_found
from steno.store.sqlite_layout import BLOCK, SESSION_SHIFT

_LONGEST: Final = (1 << SESSION_SHIFT) - 1
_DISAGREE: Final = "record {}: its columns do not say what its data says; bring back a copy"

_INSERT: Final = """
INSERT INTO record (key, parent, time, branch, id, checksum, data, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE: Final = """
UPDATE record SET checksum = ?, data = ?, digest = ?
WHERE key = ? AND branch = ? AND ifnull(id, '') IN (?, ?)
"""
_EXTENT: Final = """
SELECT session.key, entries, has_text_ids, last.key, last.branch, last.id
FROM session LEFT JOIN record AS last ON last.key = (
    SELECT max(key) FROM record
    WHERE key BETWEEN session.key << :shift AND session.key << :shift | :longest
)
WHERE session.id = :session
"""
_FIND: Final = """
SELECT seq FROM entry WHERE session = :session AND id = :id
UNION ALL
SELECT key - :base FROM record WHERE key BETWEEN :recent AND :last AND id = :id
"""
_HEAD_OF: Final = """
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
"""A record without an entry begins its branch if it is the first of it; any other is no head."""
_HEADS: Final = _HEAD_OF.format(only_name="", only_branch="")
_HEAD: Final = _HEAD_OF.format(only_name="AND name = :name", only_branch="AND branch = :name")
_BACK: Final = """
WITH RECURSIVE path (seq, parent) AS (
    SELECT :seq, parent FROM record WHERE key = :base + :seq
    UNION ALL
    SELECT path.parent, record.parent FROM path CROSS JOIN record ON key = :base + path.parent
    LIMIT :number
)
SELECT seq, branch, checksum, data, digest, path.parent
FROM path CROSS JOIN record ON key = :base + seq
"""
_SOME: Final = """
SELECT own.key - :base, own.branch, own.checksum, own.data, own.digest,
       own.id, own.parent, before.id
FROM record AS own LEFT JOIN record AS before ON before.key = :base + own.parent
WHERE own.key BETWEEN :first AND :last ORDER BY own.key
"""
_FIRST: Final = """
SELECT key - :base, branch, checksum, data, digest FROM record
WHERE key BETWEEN :base AND :last AND id IS NOT NULL ORDER BY key LIMIT :number
"""
_ONE: Final = """
SELECT id, :seq, branch, own.checksum, data, digest
FROM (SELECT branch, checksum, data, digest FROM record WHERE key = :key) AS own
CROSS JOIN session ON session.key = :session
"""
_ENTER: Final = (
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


class Extent(NamedTuple):
    """Where the records of a session lie."""

    session: int
    base: int
    """The key that a record 0 would have."""
    last: int
    """The key of the last record; `base` if there is none."""
    branch: str | None = None
    """The branch of the last record."""
    entry_id: str | None = None
    """Its entry, if it has one; what comes next is most often about these two."""
    has_text_ids: bool = False
    """Whether an older version wrote some of it: then a UUID may also stand as text."""

    @property
    def length(self) -> int:
        """How many records there are."""
        return self.last - self.base

    @property
    def first_unindexed(self) -> int:
        """The key of the first record behind the last whole block, also if there is none yet."""
        return self.base + self.length // BLOCK * BLOCK + 1

    @property
    def parameters(self) -> dict[str, int]:
        """The same, for a statement."""
        return {
            "session": self.session,
            "base": self.base,
            "recent": self.first_unindexed,
            "last": self.last,
        }


# -- writing ---------------------------------------------------------------------------------


def rows_of(records: Iterable[Record]) -> Iterator[Row]:
    """Return the rows of a whole session. Raises Damaged if it cannot be one."""
    seqs: dict[str, int] = {}
    for record in in_order(records):
        before = _before(record)
        yield row_of(record, None if before is None else seqs.get(before, 0))
        if record.entry is not None:
            seqs[record.entry.id] = record.seq


def _before(record: Record) -> str | None:
    """Return the entry that a record stands behind."""
    return record.at if record.entry is None else record.entry.parent


def add_session(db: sqlite3.Connection, id: str, header: bytes, rows: list[Row]) -> None:
    """Write a session that is not there yet."""
    made = db.execute(
        "INSERT INTO session (id, header, checksum, has_text_ids) VALUES (?, ?, ?, 0)",
        (id, header, crc32(header)),
    )
    session = made.lastrowid
    assert session is not None
    base = session << SESSION_SHIFT
    db.executemany(_INSERT, ((base + seq, *row) for seq, row in enumerate(rows, 1)))
    _enter(db, session, 1, len(rows) // BLOCK * BLOCK)


def remove_session(db: sqlite3.Connection, extent: Extent) -> None:
    """Delete a session with all that belongs to it."""
    db.execute("DELETE FROM record WHERE key BETWEEN ? AND ?", (extent.base, extent.last))
    db.execute("DELETE FROM session WHERE key = ?", (extent.session,))


def overwrite(db: sqlite3.Connection, extent: Extent, record: Record) -> int:
    """Put other bytes in the place of a record; return its key. Raises Missing."""
    key, id = extent.base + record.seq, "" if record.entry is None else record.entry.id
    values = (*content_of(record), key, record.branch, id, packed(id))
    changed = db.execute(_UPDATE, values)
    if changed.rowcount != 1:
        raise Missing("store: there is no record of this number with this entry")
    return key


def write(db: sqlite3.Connection, extent: Extent, record: Record, parent: int | None) -> None:
    """Put a record behind the last one; with the last of a block, enter what it holds."""
    db.execute(_INSERT, (extent.last + 1, *row_of(record, parent)))
    if record.seq % BLOCK == 0:
        _enter(db, extent.session, record.seq - BLOCK + 1, record.seq)


def _enter(db: sqlite3.Connection, session: int, first: int, last: int) -> None:
    """Note the names that records bear, and what a list shows of them."""
    base = session << SESSION_SHIFT
    names = {"session": session, "base": base, "first": base + first, "last": base + last}
    for statement in _ENTER:
        db.execute(statement, names)


# -- reading ---------------------------------------------------------------------------------


def extent_of(db: sqlite3.Connection, session: str) -> Extent:
    """Find the records of a session. Raises Missing."""
    place = {"session": session, "shift": SESSION_SHIFT, "longest": _LONGEST}
    row = db.execute(_EXTENT, place).fetchone()
    if row is None:
        raise not_found(db, session)
    key, entries, has_text_ids, last, branch, id = row
    base = key << SESSION_SHIFT
    last = base if last is None else last
    extent = Extent(key, base, last, branch, unpacked(id), bool(has_text_ids))
    if extent.length < entries:
        raise Damaged(f"record {entries}: it is not there")
    return extent


def is_there(db: sqlite3.Connection, session: int) -> bool:
    """Tell whether a session is still there."""
    return db.execute("SELECT 1 FROM session WHERE key = ?", (session,)).fetchone() is not None


def find(db: sqlite3.Connection, extent: Extent, entry_id: str) -> int | None:
    """Return the `seq` of an entry."""
    if entry_id == extent.entry_id:
        return extent.length
    names, kept = extent.parameters, packed(entry_id)
    row = db.execute(_FIND, {**names, "id": kept}).fetchone()
    if row is None and extent.has_text_ids and kept != entry_id:
        row = db.execute(_FIND, {**names, "id": entry_id}).fetchone()
    return None if row is None else row[0]


def heads_of(db: sqlite3.Connection, extent: Extent) -> list[tuple[str, str | None]]:
    """Return every branch and its last entry, the branch whose entry came last at the end."""
    return [(name, unpacked(id)) for name, id in db.execute(_HEADS, extent.parameters)]


def head_of(db: sqlite3.Connection, extent: Extent, branch: str) -> tuple[str, str | None] | None:
    """Return the same for one branch; None if there is none of this name."""
    if branch == extent.branch and extent.entry_id is not None:
        return branch, extent.entry_id
    found = db.execute(_HEAD, {**extent.parameters, "name": branch}).fetchone()
    return None if found is None else (found[0], unpacked(found[1]))


def path_back(
    db: sqlite3.Connection, base: int, seq: int, number: int
) -> list[tuple[Content, int | None]]:
    """Return the row of a record, of its parent and so on; with each the `seq` of the next."""
    found = db.execute(_BACK, {"base": base, "seq": seq, "number": number})
    return [(row[:-1], row[-1]) for row in found]


def found_at(db: sqlite3.Connection, key: int) -> tuple[str, Record] | None:
    """Return a record and the id of its session; None if it is gone."""
    place = {"key": key, "session": key >> SESSION_SHIFT, "seq": key & _LONGEST}
    row = db.execute(_ONE, place).fetchone()
    return None if row is None else (row[0], record_from(row[1:]))


class Figures(NamedTuple):
    """What is known of a session without reading it."""

    header: Header
    entries: int
    latest: datetime | None


def figures_of(db: sqlite3.Connection, extent: Extent) -> Figures:
    """Return what was noted with the blocks of a session, and what came since then."""
    header, checksum, entries, latest = db.execute(
        "SELECT header, checksum, entries, latest FROM session WHERE key = ?", (extent.session,)
    ).fetchone()
    number, last = db.execute(
        "SELECT count(id), max(time) FROM record WHERE key BETWEEN :recent AND :last",
        extent.parameters,
    ).fetchone()
    times = [time for time in (latest, last) if time is not None]
    latest_of_all = moment(max(times)) if times else None
    return Figures(header_from(header, checksum), entries + number, latest_of_all)


def first_entries(db: sqlite3.Connection, extent: Extent, number: int) -> list[Entry]:
    """Return the first entries of a session."""
    rows = db.execute(_FIRST, {**extent.parameters, "number": number}).fetchall()
    return [entry for row in rows if (entry := record_from(row).entry) is not None]


class Whole(NamedTuple):
    """A row of `record` with all that can be compared with its data."""

    seq: int
    branch: str
    checksum: int
    data: bytes
    digest: bytes | None
    id: Id | None
    parent: int | None
    parent_id: Id | None
    """Of the entry that `parent` leads to."""

    def record(self) -> Record:
        """Return the record. Raises Damaged if the columns do not say the same."""
        record = record_from(self[:5])
        id = None if record.entry is None else record.entry.id
        before, parent = _before(record), self.parent
        if before is None:
            is_linked = parent is None
        else:
            is_linked = parent == 0 or unpacked(self.parent_id) == before
        if not is_linked or self.branch != record.branch or unpacked(self.id) != id:
            raise Damaged(_DISAGREE.format(self.seq))
        return record


def check_parent_is_elsewhere(db: sqlite3.Connection, extent: Extent, record: Record) -> None:
    """Raise Damaged if what comes before a record is in its session after all."""
    before = _before(record)
    seq = None if before is None else find(db, extent, before)
    if seq is not None and seq < record.seq:
        raise Damaged(_DISAGREE.format(record.seq))


def portion(db: sqlite3.Connection, session: int, done: int, number: int) -> list[Whole]:
    """Return the rows of the records behind the record `done`."""
    base = session << SESSION_SHIFT
    names = {"base": base, "first": base + done + 1, "last": base + done + number}
    return [Whole._make(row) for row in db.execute(_SOME, names)]
