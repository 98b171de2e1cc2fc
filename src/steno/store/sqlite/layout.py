"""How a SQLite database of ours is laid out, and how it came to be so.

A record lies under `key`, the number of its session times 2**32 plus its `seq`. So the records of
a session lie side by side, in order, in a table that needs no further index to find the next one,
the last one or the parent of one, which is kept as its `seq`. A row is written once, whole: the
JSON of the entry as every store keeps it, what a record adds to that in as few bytes as it takes
(`sqlite_columns`), and before both what is looked at without reading them.

To append must cost as little as can be, so it writes the page that the record lies on, and when
that is a new one also the page above it and the first of the file. Pages are small, as most
records are: with those of 4096 bytes half as much again would be written. With those of 512 bytes
it would be little more than half as much, in a tenth less room, but whoever opens a session would
take a quarter longer, and whoever compacts the file twice as long; with those of 1024 bytes half of
many pages would stay empty.

What is looked up by name, entries and branches, and what a list shows of a session, is brought up
to date with every 32nd record of a session (`INDEX_INTERVAL`); for what came since then the last rows are
looked at. Nothing has to remember how far that went: it follows from the number of the record.

Changes of the layout are steps at the end of `MIGRATIONS`; those that were released stay as they are.
The search index is no part of it: it can be made again at any time, and SQLite may lack FTS5.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

from steno.errors import InvalidDocument, UnsupportedVersion

APPLICATION_ID: Final = 0x73746E6F
"""What `file` and SQLite show as the kind of the database: "stno"."""
PAGE_SIZE: Final = 2048
INDEX_INTERVAL: Final = 32
SESSION_SHIFT: Final = 32

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """
        CREATE TABLE session (
            key INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: keys of records hang on it
            id TEXT NOT NULL UNIQUE,
            header BLOB NOT NULL,
            entries INTEGER NOT NULL DEFAULT 0,    -- how many there are in whole blocks
            latest INTEGER,                        -- the time of the latest of them
            indexed INTEGER NOT NULL DEFAULT 0     -- up to here the search index knows it
        )
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
        )
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
    ),
    ("ALTER TABLE session ADD COLUMN checksum INTEGER",),  # CRC-32 of the header, if it has one
    (
        "ALTER TABLE record ADD COLUMN digest BLOB",  # NULL: the data is the whole record
        # What was there before has them, and what a program adds that still has the file open.
        "ALTER TABLE session ADD COLUMN has_text_ids INTEGER NOT NULL DEFAULT 1",
    ),
)
LAYOUT_VERSION: Final = len(MIGRATIONS)


def read_version(db: sqlite3.Connection) -> int:
    """Return the version of the layout; 0 for an empty file. Raises what refuses any other."""
    application = _read_pragma(db, "application_id")
    version = _read_pragma(db, "user_version")
    if application == APPLICATION_ID:
        if version > LAYOUT_VERSION:
            raise UnsupportedVersion(
                f"store: the database is of version {version}, this steno knows {LAYOUT_VERSION}; "
                "upgrade it"
            )
        return version
    tables: int = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application or version or tables:
        raise InvalidDocument("store: the database belongs to another program; name another file")
    return 0


def migrate(db: sqlite3.Connection) -> None:
    """Bring a database to this version; its caller holds the lock for writing."""
    for step in MIGRATIONS[read_version(db) :]:
        for statement in step:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")


def has_current_schema(db: sqlite3.Connection) -> bool:
    """Tell whether the tables are described as this version would: by that SQLite reads them."""
    described = "SELECT name, sql FROM sqlite_schema"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
        migrate(other)
        return set(other.execute(described)) <= set(db.execute(described))


def _read_pragma(db: sqlite3.Connection, name: str) -> int:
    found: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return found
