"""A store in a SQLite file, the default store, for any number of processes on one machine.

One file contains all sessions and blobs; while the file is in use, a write-ahead log is beside it.
`layout` describes the tables and why an append is cheap, `database` describes the connection and
its lock, and `rows` describes how records are stored.

The search index is an FTS5 table that each search updates first. It contains the words of an entry
as `split_words` returns them, each once and separated by spaces. So FTS5 does not decide what a
word is: its ASCII tokenizer does not split at non-ASCII characters. The row id is the key of the
record. A redaction removes the words from the index as well; FTS5 erases them only on `optimize`.

Records never change, so a long read needs no transaction: it determines the last record first and
reads a batch at a time, and never blocks a writer, a checkpoint or an erasure.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, final

from steno.codec import encode_header
from steno.errors import Damaged, InvalidValue, Missing, Unavailable
from steno.ids import utc_now
from steno.log.chain import Verification
from steno.log.queries import searchable_text
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store import base
from steno.store.sqlite import rows
from steno.store.sqlite.database import Durability, SqliteDatabase
from steno.store.sqlite.layout import SESSION_SHIFT

_BATCH_SIZE: Final = 64
"""The number of records that are read in one transaction."""
_INDEX_BATCH_SIZE: Final = 500
"""The number of records that are indexed in one transaction, while other writers wait."""
_MAX_QUERY_WORDS: Final = 50
"""The maximum number of words in an FTS5 query; the results are checked for the other words."""

_CREATE_INDEX: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS found
USING fts5(words, detail = none, columnsize = 0, tokenize = 'ascii')
"""
_SELECT_UNINDEXED: Final = """
SELECT key, indexed FROM session
WHERE (SELECT max(record.key) FROM record WHERE record.key < (session.key + 1) << :shift)
      > (session.key << :shift) + indexed
ORDER BY key
"""
_SELECT_MATCHES: Final = """
SELECT record.key FROM found CROSS JOIN record ON record.key = found.rowid
WHERE found MATCH ?
ORDER BY record.time DESC NULLS LAST, record.key
"""


@final
class SqliteStore(base.Store):
    """A store that keeps sessions and blobs in one SQLite file.

    With `durability="normal"` an append does not wait for the disk: a crash of the program loses
    nothing; a crash of the machine may lose the last appends. Methods raise Unavailable if the file
    is locked for longer than `timeout_s` seconds. With `indexed=False` there is no search index,
    and a search reads all entries.

    A redaction rewrites the whole file (`compact`). This temporarily needs more space in the same
    folder, up to twice the size of the file, and other writers wait.
    """

    def __init__(
        self,
        file: Path | str,
        *,
        timeout_s: float = 30.0,
        durability: Durability = "full",
        indexed: bool = True,
    ) -> None:
        """Open a file, or create it with access for its owner only if it is missing.

        Raises Unavailable if that is not possible, Damaged if the file is not a database,
        InvalidDocument if it is a database of another program, and UnsupportedVersion if it has
        another layout.
        """
        if durability not in ("full", "normal"):
            raise InvalidValue(
                'invalid durability: use "full" or "normal"',
                code="durability_invalid",
                place="store",
            )
        self._database: Final = SqliteDatabase(
            Path(file), timeout_s=timeout_s, durability=durability
        )
        self._is_indexed: Final = indexed

    def close(self) -> None:
        """Close the file; the write-ahead log is removed if no other process uses the file."""
        self._database.close()

    # -- sessions ----------------------------------------------------------------------------

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        data = encode_header(header)
        # Read before the lock is taken: the records may come from this same store.
        columns = list(rows.columns_of_records(records))
        with self._database.write_transaction() as db:
            if db.execute("SELECT 1 FROM session WHERE id = ?", (header.id,)).fetchone():
                raise base.duplicate_session()
            rows.insert_session(db, header.id, data, columns)

    def headers(self) -> Iterator[Header]:
        """Return the header of every session, in the order in which they were added.

        After all readable headers, the iterator raises the error of the first unreadable header.
        """
        with self._database.read_transaction() as db:
            return rows.read_headers(db)

    def header(self, session: str) -> Header:
        with self._database.read_transaction() as db:
            return rows.read_header(db, session)

    def rename(self, session: str, title: str | None) -> None:
        with self._database.write_transaction() as db:
            rows.update_title(db, session, title)

    def remove(self, session: str) -> None:
        """Remove a session, and rewrite the file if at least a quarter of it is then free."""
        with self._database.erase_transaction() as db:
            extent = rows.find_range(db, session)
            _unindex_records(db, extent.base, extent.last)
            db.execute("DELETE FROM record WHERE key BETWEEN ? AND ?", (extent.base, extent.last))
            db.execute("DELETE FROM session WHERE key = ?", (extent.session,))
            (free,) = db.execute("PRAGMA freelist_count").fetchone()
            (pages,) = db.execute("PRAGMA page_count").fetchone()
        if free * 4 >= pages:
            self.compact()

    def compact(self) -> None:
        """Rewrite the file without free space and without traces of removed content.

        SQLite overwrites deleted content, but not the copies that it leaves in the gaps of pages
        when it moves rows to other pages. Rewriting takes about as long as copying the file, and
        temporarily needs up to twice its size.
        """
        self._database.compact()

    def summary(self, session: str) -> base.SessionOverview:
        """Return the overview of a session, from its totals and its first and last records."""
        with self._database.read_transaction() as db:
            extent = rows.find_range(db, session)
            counts = rows.read_counts(db, extent)
            first = rows.read_first_entries(db, extent, base.TITLE_SEARCH_ENTRIES)
            branches = [name for name, _ in rows.read_heads(db, extent)]
        title = counts.header.title or base.derive_title(first)
        return base.SessionOverview(
            counts.header,
            title,
            counts.entries,
            tuple(branches),
            counts.latest,
            counts.written_at,
        )

    # -- branches ----------------------------------------------------------------------------

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        with self._database.write_transaction() as db:
            extent = rows.find_range(db, session)
            found = rows.read_head(db, extent, branch)
            base.check_append(
                branch,
                is_known=found is not None,
                head=None if found is None else found[1],
                expected=expected,
                is_taken=rows.find_seq(db, extent, entry.id) is not None,
            )
            parent = None if entry.parent is None else rows.find_seq(db, extent, entry.parent) or 0
            record = Record(seq=extent.length + 1, branch=branch, entry=entry, digest=digest)
            rows.insert_record(db, extent, record, parent)

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        with self._database.write_transaction() as db:
            extent = rows.find_range(db, session)
            is_known = rows.read_head(db, extent, name) is not None
            parent = None if at is None else rows.find_seq(db, extent, at)
            base.check_fork(is_known=is_known, has_start=at is None or parent is not None)
            rows.insert_record(
                db, extent, Record(seq=extent.length + 1, branch=name, at=at), parent
            )

    def heads(self, session: str) -> Mapping[str, str | None]:
        with self._database.read_transaction() as db:
            return dict(rows.read_heads(db, rows.find_range(db, session)))

    # -- records -----------------------------------------------------------------------------

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        with self._database.read_transaction() as db:
            extent = rows.find_range(db, session)
            seq = rows.find_seq(db, extent, entry_id)
        wanted: str | None = entry_id
        while wanted is not None:
            batch: list[tuple[rows.StoredContent, int | None]] = []
            if seq is not None:
                with self._database.read_transaction() as db:
                    batch = rows.read_ancestors(db, extent.base, seq, _BATCH_SIZE)
            if not batch:
                raise base.missing_entry()
            for content, parent_seq in batch:
                (entry, digest), seq = rows.entry_from_content(content), parent_seq
                if entry is None or digest is None or entry.id != wanted:
                    message = "the record does not contain the expected entry"
                    raise Damaged(message, code="record_misplaced", place=f"record {content[0]}")
                yield entry, digest
                wanted = entry.parent

    def records(self, session: str) -> Iterator[Record]:
        """Return the records that a session has at the time of the call."""
        with self._database.read_transaction() as db:
            extent = rows.find_range(db, session)
        return self._records(extent)

    def _records(self, extent: rows.RecordRange) -> Iterator[Record]:
        for done in range(0, extent.length, _BATCH_SIZE):
            number = min(_BATCH_SIZE, extent.length - done)
            with self._database.read_transaction() as db:
                batch = rows.read_rows(db, extent.session, done, number)
                if not rows.session_exists(db, extent.session):
                    raise Missing(
                        "the session was removed while it was being read",
                        code="session_removed",
                        place="store",
                    )
            if len(batch) != number:
                raise rows.lost_record(f"record {done + 1} or one after it")
            for row in batch:
                record = row.record()
                if row.parent == 0:
                    with self._database.read_transaction() as db:
                        rows.check_parent_is_outside(db, extent, record)
                yield record

    def verify(self, session: str) -> Verification:
        """Check a session as every store does; if it is intact, check the whole file with SQLite.

        A damaged page may hide records from queries, which only the check of the file detects.
        """
        found = super().verify(session)
        if found.is_intact:
            self._database.check()
        return found

    def replace(self, session: str, record: Record) -> None:
        """Overwrite the record with the same `seq`, then rewrite the whole file.

        Nothing of the old record remains. Raises Unavailable even if only the rewrite failed;
        in that case, call this method again with the same record.
        """
        with self._database.erase_transaction() as db:
            extent = rows.find_range(db, session)
            key, entry = rows.overwrite_record(db, extent, record), record.entry
            _unindex_records(db, key, key)
            (indexed,) = db.execute(
                "SELECT indexed FROM session WHERE key = ?", (extent.session,)
            ).fetchone()
            if record.seq <= indexed and entry is not None:
                _index_entries(db, [(key, entry)])
        self.compact()

    # -- search ------------------------------------------------------------------------------

    def search(self, text: str, *, limit: int = 20) -> list[base.SearchHit]:
        """Return the entries that contain all words of `text`, the newest first.

        Entries written since the last search are indexed first. If the index cannot be updated, the
        search reads all entries.
        """
        wanted = frozenset(base.split_words(text))
        if not wanted or limit < 1:
            return []
        if self._is_indexed:
            try:
                if self._index_all():
                    return self._search_index(wanted, limit)
            except (Unavailable, Damaged):
                # The disk is read-only or full, or the index is damaged. If more than the
                # index is damaged, reading all entries raises an error.
                pass
        return super().search(text, limit=limit)

    def _index_all(self) -> bool:
        """Update the search index, a batch at a time.

        Return True when all records are indexed, and False if SQLite lacks FTS5.
        """
        while True:
            with self._database.read_transaction() as db:
                if not _can_index(db):
                    return False
                if not _find_unindexed(db):
                    return True
            with self._database.write_transaction() as db:
                _index_batch(db)

    def _search_index(self, wanted: frozenset[str], limit: int) -> list[base.SearchHit]:
        with self._database.read_transaction() as db:
            keys = _find_matches(db, wanted)
        hits: list[base.SearchHit] = []
        for key in keys:
            with self._database.read_transaction() as db:
                row = rows.read_record_at(db, key)
            session, record = row or ("", None)  # None if it was removed after the query
            entry = None if record is None else record.entry
            if entry is not None and wanted.issubset(
                base.split_words(found := searchable_text(entry))
            ):
                hits.append(base.SearchHit(session, entry, base.build_snippet(found, wanted)))
                if len(hits) == limit:
                    break
        return hits

    # -- blobs -------------------------------------------------------------------------------

    def put_blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data)
        with self._database.write_transaction() as db:
            db.execute(
                """
                INSERT INTO blob (sha256, size, stored_at) VALUES (?, ?, ?)
                ON CONFLICT (sha256) DO UPDATE SET stored_at = excluded.stored_at
                """,
                (digest.digest(), len(data), rows.time_to_microseconds(utc_now())),
            )
            (key,) = db.execute(
                "SELECT key FROM blob WHERE sha256 = ?", (digest.digest(),)
            ).fetchone()
            stored = db.execute("SELECT data FROM blob_data WHERE key = ?", (key,)).fetchone()
            if stored is None or stored[0] != data:
                db.execute(
                    "INSERT OR REPLACE INTO blob_data (key, data) VALUES (?, ?)", (key, data)
                )
        return digest.hexdigest()

    def blob(self, sha256: str) -> bytes:
        with self._database.read_transaction() as db:
            row = db.execute(
                "SELECT data FROM blob JOIN blob_data USING (key) WHERE sha256 = ?",
                (_digest_bytes(sha256),),
            ).fetchone()
        if row is None:
            raise base.missing_blob()
        data = row[0]
        if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != sha256:
            message = "the bytes of a blob do not match its digest; store the blob again"
            raise Damaged(message, code="blob_damaged", place="store")
        return data

    def blobs(self) -> Iterator[base.Blob]:
        with self._database.read_transaction() as db:
            found = db.execute("SELECT hex(sha256), size, stored_at FROM blob ORDER BY key")
            blobs = [
                base.Blob(digest.lower(), size, rows.time_from_microseconds(stored))
                for digest, size, stored in found
            ]
        return iter(blobs)

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        """Remove a blob, and erase its content from the files."""
        latest = None if put_before is None else rows.time_to_microseconds(put_before)
        with self._database.erase_transaction() as db:
            db.execute(
                "DELETE FROM blob WHERE sha256 = ? AND (? IS NULL OR stored_at <= ?)",
                (_digest_bytes(sha256), latest, latest),
            )


# -- the search index --------------------------------------------------------------------------


def _unindex_records(db: sqlite3.Connection, first: int, last: int) -> None:
    """Erase the records between two keys from the search index.

    Raises Unavailable if there is a search index but this SQLite has no FTS5.
    """
    if not _index_exists(db):
        return
    if not _can_index(db):
        message = "the search index cannot be updated: this SQLite lacks FTS5; use one with FTS5"
        raise Unavailable(message, code="fts5_missing", place="store")
    deleted = db.execute("DELETE FROM found WHERE rowid BETWEEN ? AND ?", (first, last))
    if deleted.rowcount:
        db.execute("INSERT INTO found (found) VALUES ('optimize')")


def _index_exists(db: sqlite3.Connection) -> bool:
    row = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'found'").fetchone()
    return row is not None


def _can_index(db: sqlite3.Connection) -> bool:
    """Return whether this SQLite has FTS5."""
    row = db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return row is not None


def _index_entries(db: sqlite3.Connection, entries: Iterable[tuple[int, Entry]]) -> None:
    db.execute(_CREATE_INDEX)
    words = [
        (key, " ".join(sorted(set(base.split_words(searchable_text(entry))))))
        for key, entry in entries
    ]
    db.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)


def _find_unindexed(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the key and last indexed `seq` of each session with records that are not indexed."""
    return db.execute(_SELECT_UNINDEXED, {"shift": SESSION_SHIFT}).fetchall()


def _index_batch(db: sqlite3.Connection) -> None:
    remaining = _INDEX_BATCH_SIZE
    for session, indexed in _find_unindexed(db):
        batch = rows.read_rows(db, session, indexed, remaining)
        if not batch:
            raise rows.lost_record(f"record {indexed + 1}")
        found = [((session << SESSION_SHIFT) + row.seq, row.record().entry) for row in batch]
        _index_entries(db, [(key, entry) for key, entry in found if entry is not None])
        db.execute("UPDATE session SET indexed = ? WHERE key = ?", (batch[-1].seq, session))
        remaining -= len(batch)
        if remaining <= 0:
            break


def _find_matches(db: sqlite3.Connection, words: Collection[str]) -> list[int]:
    """Return the keys of the records that may contain all words, the newest first."""
    if not _index_exists(db):
        return []
    longest = sorted(words, key=len, reverse=True)[:_MAX_QUERY_WORDS]
    query = " ".join([f'"{word}"' for word in longest])
    return [key for (key,) in db.execute(_SELECT_MATCHES, (query,))]


# -- blobs ---------------------------------------------------------------------------------------


def _digest_bytes(sha256: str) -> bytes:
    """Return the stored form of a digest; for any other text, empty bytes, which match no blob."""
    return bytes.fromhex(sha256) if re.fullmatch("[0-9a-f]{64}", sha256) else b""
