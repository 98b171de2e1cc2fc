"""The search index of a SQLite store: an FTS5 table that each search updates first.

It holds the words of an entry as `split_words` finds them, each once and separated by blanks, so
FTS5 does not decide what a word is: its ASCII tokenizer leaves all other characters alone. Rows
have the keys of their records. A redaction removes the words from here as well; FTS5 has erased
them only after `optimize`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Final

from steno.errors import Unavailable
from steno.log.queries import searchable_text
from steno.records.entry import Entry
from steno.store.base import split_words
from steno.store.sqlite.layout import SESSION_SHIFT

BATCH_SIZE: Final = 500
"""How many records are indexed at once, while other writers wait."""
_MAX_QUERY_WORDS: Final = 50
"""How many words a query has; the entries found are checked for the others."""

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


def can_index(db: sqlite3.Connection) -> bool:
    """Tell whether this SQLite has FTS5."""
    row = db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return row is not None


def find_unindexed(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the sessions with records that are not in the index, and the last `seq` that is."""
    return db.execute(_SELECT_UNINDEXED, {"shift": SESSION_SHIFT}).fetchall()


def add_entries(db: sqlite3.Connection, rows: Iterable[tuple[int, Entry]]) -> None:
    """Add entries to the index."""
    db.execute(_CREATE_INDEX)
    words = [
        (key, " ".join(sorted(set(split_words(searchable_text(entry)))))) for key, entry in rows
    ]
    db.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)


def find_matches(db: sqlite3.Connection, words: Collection[str]) -> list[int]:
    """Return the keys of the records that may hold all words, the newest first."""
    if not _index_exists(db):
        return []
    longest = sorted(words, key=len, reverse=True)[:_MAX_QUERY_WORDS]
    query = " ".join([f'"{word}"' for word in longest])
    return [key for (key,) in db.execute(_SELECT_MATCHES, (query,))]


def remove_records(db: sqlite3.Connection, first: int, last: int) -> None:
    """Erase the records between two keys from the index.

    Raises Unavailable if this SQLite has no FTS5.
    """
    if not _index_exists(db):
        return
    if not can_index(db):
        raise Unavailable(
            "the search index cannot be changed; use a SQLite with FTS5",
            code="fts5_missing",
            place="store",
        )
    deleted = db.execute("DELETE FROM found WHERE rowid BETWEEN ? AND ?", (first, last))
    if deleted.rowcount:
        db.execute("INSERT INTO found (found) VALUES ('optimize')")


def _index_exists(db: sqlite3.Connection) -> bool:
    row = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'found'").fetchone()
    return row is not None
