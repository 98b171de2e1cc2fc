"""The tables of a SQLite store, and the check that a file has them.

The key of a record is the number of its session times 2**32 plus its `seq`. So the records of a
session are adjacent, in order, in a table that needs no further index to find the next one, the
last one or the parent of one, which is stored as its `seq`. A row is written once: the JSON of the
entry as every store keeps it, the rest of the record in as few bytes as possible (`rows`), and
before both the columns that are read without them.

An append has to be cheap, so it writes the page of the record, and when that is a new one also the
page above it and the first of the file. Pages are small, as most records are: with pages of 4096
bytes half as much again would be written. With 512 bytes it would be little more than half as
much, in a tenth less space, but opening a session would take a quarter longer and compacting the
file twice as long; with 1024 bytes half of many pages would stay empty.

The tables of entries and branches, and the totals that a list of sessions shows, are updated with
every 32nd record of a session (`INDEX_INTERVAL`); for later records the last rows are read. How
far the tables are follows from the number of the last record.

The search index is no part of the layout: it can be built again at any time, and SQLite may lack
FTS5.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

from steno.errors import InvalidDocument, UnsupportedVersion

APPLICATION_ID: Final = 0x73746E6F
"""The kind of the database, as `file` and SQLite show it: "stno"."""
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
"""The tables of layout 3, byte for byte, blanks included, as every file of it describes them.

`session.checksum` is the CRC-32 of the header. `session.has_text_ids` is 0; a development version
wrote 1 for sessions whose UUIDs are stored as text. `record.digest` is NULL where the data is the
whole record. The last columns were added to existing tables once, hence the commas.
"""


def read_version(db: sqlite3.Connection) -> int:
    """Return the version of the layout; 0 for an empty file.

    Raises UnsupportedVersion for another layout, InvalidDocument for another program's file.
    """
    application = _read_pragma(db, "application_id")
    version = _read_pragma(db, "user_version")
    if application == APPLICATION_ID:
        if version > LAYOUT_VERSION:
            raise UnsupportedVersion(
                f"the database is of version {version}, this steno knows {LAYOUT_VERSION}; "
                "upgrade it",
                place="store",
            )
        if version < LAYOUT_VERSION:
            raise old_layout(f"the database has layout {version}")
        return version
    tables: int = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application or version or tables:
        message = "the database belongs to another program; name another file"
        raise InvalidDocument(message, code="foreign_file", place="store")
    return 0


def old_layout(reason: str) -> UnsupportedVersion:
    """Return the error for data in a layout of a development version."""
    return UnsupportedVersion(
        f"{reason}, which no release has written and this steno does not read; copy its sessions "
        "with the steno that wrote them: steno store convert sqlite:FILE jsonl:FOLDER",
        code="layout_too_old",
        place="store",
    )


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables in an empty database; the caller holds the lock for writing."""
    if read_version(db):  # another process was faster
        return
    for statement in _TABLES:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


def has_current_schema(db: sqlite3.Connection) -> bool:
    """Return whether the file describes its tables as layout 3 does: SQLite reads them by that."""
    query = "SELECT name, sql FROM sqlite_schema"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as expected:
        create_tables(expected)
        return set(expected.execute(query)) <= set(db.execute(query))


def _read_pragma(db: sqlite3.Connection, name: str) -> int:
    found: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return found
