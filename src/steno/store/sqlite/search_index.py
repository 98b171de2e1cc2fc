"""The search index of a SQLite store: an FTS5 table that a search brings up to date.

It holds the words of an entry as all stores find them, each once and apart by blanks, so FTS5
has nothing to decide about words: its tokenizer for ASCII leaves all other characters alone.
Rows have the keys of their records. Whatever takes content out of a record takes it out of here;
only after `optimize` FTS5 has really forgotten it.
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
"""How many words FTS5 is asked for; whether all are there is seen in the entries it finds."""

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
    """Return the sessions with records that are not in the index, and how far it knows them."""
    return db.execute(_SELECT_UNINDEXED, {"shift": SESSION_SHIFT}).fetchall()


def add_entries(db: sqlite3.Connection, rows: Iterable[tuple[int, Entry]]) -> None:
    """Put entries into the index."""
    db.execute(_CREATE_INDEX)
    words = [
        (key, " ".join(sorted(set(split_words(searchable_text(entry)))))) for key, entry in rows
    ]
    db.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)


def find_matches(db: sqlite3.Connection, words: Collection[str]) -> list[int]:
    """Return the keys of the records that may hold all words, the newest first."""
    if not _index_exists(db):
        return []
    asked = sorted(words, key=len, reverse=True)[:_MAX_QUERY_WORDS]
    query = " ".join([f'"{word}"' for word in asked])
    return [key for (key,) in db.execute(_SELECT_MATCHES, (query,))]


def remove_records(db: sqlite3.Connection, first: int, last: int) -> None:
    """Take the records between two keys out of the index, for good.

    Raises Unavailable if this SQLite cannot.
    """
    if not _index_exists(db):
        return
    if not can_index(db):
        raise Unavailable("store: the search index cannot be changed; use a SQLite with FTS5")
    gone = db.execute("DELETE FROM found WHERE rowid BETWEEN ? AND ?", (first, last))
    if gone.rowcount:
        db.execute("INSERT INTO found (found) VALUES ('optimize')")


def _index_exists(db: sqlite3.Connection) -> bool:
    row = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'found'").fetchone()
    return row is not None
