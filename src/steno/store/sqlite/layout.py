"""The tables of a SQLite store, and the check that a file has them.

The key of a record is the number of its session times 2**32 plus its `seq`. So the records of a
session are adjacent and in order, and the table needs no further index to find the next record,
the last record or the parent of a record, since a row stores the `seq` of the parent. A row is
written once. It contains the JSON of the entry, which is the same in every store, and the rest of
the record in as few bytes as possible, in columns that queries read without the JSON (`rows`).

An append has to be cheap: it writes the page of the record and, when that page is new, also its
parent page and the first page of the file. Pages have 2048 bytes, since most records are small.
With pages of 4096 bytes an append would write 50 percent more. With 512 bytes it would write
little more than half as much and the file would be a tenth smaller, but opening a session would
take a quarter longer and compacting the file twice as long. With 1024 bytes many pages would stay
half empty.

The tables of entries and branches, and the totals that a list of sessions shows, are updated with
every 32nd record of a session (`INDEX_INTERVAL`). Records after the last multiple of 32 are not in
these tables; queries read their rows instead.

The search index is not part of the layout: it can be rebuilt at any time, and SQLite may lack
FTS5.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

from steno.errors import InvalidDocument, UnsupportedVersion

APPLICATION_ID: Final = 0x73746E6F
"""The application id in the header of the file, which `file` shows: "stno" in ASCII."""
LAYOUT_VERSION: Final = 3
PAGE_SIZE: Final = 2048
INDEX_INTERVAL: Final = 32
SESSION_SHIFT: Final = 32

_TABLES: Final = (
    """
        CREATE TABLE session (
            key INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: keys of records hang on it
            id TEXT NOT NULL UNIQUE,
            header BLOB NOT NULL,
            entries INTEGER NOT NULL DEFAULT 0,    -- how many there are in whole blocks
            latest INTEGER,                        -- the time of the latest of them
            indexed INTEGER NOT NULL DEFAULT 0     -- up to here the search index knows it
        , checksum INTEGER, has_text_ids INTEGER NOT NULL DEFAULT 1)
        """,
    """
        CREATE TABLE record (
            key INTEGER PRIMARY KEY,               -- session.key << 32 | seq
            parent INTEGER,                        -- a seq; 0 if it is not in this session
            time INTEGER,                          -- of the entry, in microseconds since 1970
            branch TEXT NOT NULL,
            id TEXT,                               -- of the entry; NULL where a branch begins
            checksum INTEGER NOT NULL,             -- CRC-32 of the data
            data BLOB NOT NULL
        , digest BLOB)
        """,
    """
        CREATE TABLE entry (
            session INTEGER NOT NULL REFERENCES session(key) ON DELETE CASCADE,
            id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (session, id)
        ) WITHOUT ROWID
        """,
    """
        CREATE TABLE branch (
            session INTEGER NOT NULL REFERENCES session(key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            seq INTEGER NOT NULL,                  -- of its last entry, or else of its beginning
            PRIMARY KEY (session, name)
        ) WITHOUT ROWID
        """,
    """
        CREATE TABLE blob (
            key INTEGER PRIMARY KEY,
            sha256 BLOB NOT NULL UNIQUE,
            size INTEGER NOT NULL,
            stored_at INTEGER NOT NULL             -- in microseconds since 1970
        )
        """,
    """
        CREATE TABLE blob_data (                   -- apart, so that a new time moves no bytes
            key INTEGER PRIMARY KEY REFERENCES blob(key) ON DELETE CASCADE,
            data BLOB NOT NULL
        )
        """,
)
"""The tables of layout 3.

SQLite stores these statements in the file, and `has_current_schema` compares them: do not change a
byte, not even a space or a comment. The stray commas are there because an earlier layout added the
last columns with ALTER TABLE.

`session.checksum` is the CRC-32 of the header. `session.has_text_ids` is 0; a development version
wrote 1 for sessions whose UUIDs are stored as text. `record.digest` is NULL where the data is the
whole record.
"""


def read_version(db: sqlite3.Connection) -> int:
    """Return the version of the layout; 0 for an empty file.

    Raises UnsupportedVersion for another layout, and InvalidDocument for a file of another program.
    """
    application = _read_pragma(db, "application_id")
    version = _read_pragma(db, "user_version")
    if application == APPLICATION_ID:
        if version > LAYOUT_VERSION:
            raise UnsupportedVersion(
                f"the database has layout {version}, but this version of steno supports layouts "
                f"up to {LAYOUT_VERSION}; upgrade steno",
                place="store",
            )
        if version < LAYOUT_VERSION:
            raise old_layout(f"the database has layout {version}")
        return version
    tables: int = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application or version or tables:
        message = "the database belongs to another program; use another file"
        raise InvalidDocument(message, code="foreign_file", place="store")
    return 0


def old_layout(reason: str) -> UnsupportedVersion:
    """Return the error for data in a layout of a development version."""
    return UnsupportedVersion(
        f"{reason} of a development version, which this version of steno does not support; convert "
        "it with the development version: steno store convert sqlite:FILE jsonl:FOLDER",
        code="layout_too_old",
        place="store",
    )


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables in an empty database; the caller holds the write lock."""
    if read_version(db):  # another process was faster
        return
    for statement in _TABLES:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


def has_current_schema(db: sqlite3.Connection) -> bool:
    """Return whether the table definitions in the file are those of layout 3.

    SQLite reads the rows according to the definitions in the file, which damage may change.
    """
    query = "SELECT name, sql FROM sqlite_schema"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as expected:
        create_tables(expected)
        return set(expected.execute(query)) <= set(db.execute(query))


def _read_pragma(db: sqlite3.Connection, name: str) -> int:
    found: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return found
