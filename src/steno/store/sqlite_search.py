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

from steno.entry import Entry
from steno.errors import Unavailable
from steno.store.sqlite_layout import SESSION_SHIFT
from steno.store.words import words_of
from steno.views import text_of

PORTION: Final = 500
"""How many records are indexed at once, while other writers wait."""
_MOST_WORDS: Final = 50
"""How many words FTS5 is asked for; whether all are there is seen in the entries it finds."""

_CREATE: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS found
USING fts5(words, detail = none, columnsize = 0, tokenize = 'ascii')
"""
_PENDING: Final = """
SELECT key, indexed FROM session
WHERE (SELECT max(record.key) FROM record WHERE record.key < (session.key + 1) << :shift)
      > (session.key << :shift) + indexed
ORDER BY key
"""
_MATCHING: Final = """
SELECT record.key FROM found CROSS JOIN record ON record.key = found.rowid
WHERE found MATCH ?
ORDER BY record.time DESC NULLS LAST, record.key
"""


def can_index(db: sqlite3.Connection) -> bool:
    """Tell whether this SQLite has FTS5."""
    row = db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return row is not None


def pending(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the sessions with records that are not in the index, and how far it knows them."""
    return db.execute(_PENDING, {"shift": SESSION_SHIFT}).fetchall()


def add(db: sqlite3.Connection, rows: Iterable[tuple[int, Entry]]) -> None:
    """Put entries into the index."""
    db.execute(_CREATE)
    words = [(key, " ".join(sorted(set(words_of(text_of(entry)))))) for key, entry in rows]
    db.executemany("INSERT INTO found (rowid, words) VALUES (?, ?)", words)


def matching(db: sqlite3.Connection, words: Collection[str]) -> list[int]:
    """Return the keys of the records that may hold all words, the newest first."""
    if not _exists(db):
        return []
    asked = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    query = " ".join([f'"{word}"' for word in asked])
    return [key for (key,) in db.execute(_MATCHING, (query,))]


def forget(db: sqlite3.Connection, first: int, last: int) -> None:
    """Take the records between two keys out of the index, for good.

    Raises Unavailable if this SQLite cannot.
    """
    if not _exists(db):
        return
    if not can_index(db):
        raise Unavailable("store: the search index cannot be changed; use a SQLite with FTS5")
    gone = db.execute("DELETE FROM found WHERE rowid BETWEEN ? AND ?", (first, last))
    if gone.rowcount:
        db.execute("INSERT INTO found (found) VALUES ('optimize')")


def _exists(db: sqlite3.Connection) -> bool:
    row = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'found'").fetchone()
    return row is not None
