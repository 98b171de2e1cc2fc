"""Headers of sessions as rows of a SQLite database, and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from zlib import crc32

from msgspec.structs import replace

from steno.codec import decode_header, encode_header
from steno.errors import Damaged, InvalidDocument, Missing, UnsupportedVersion
from steno.records.stored_record import Header


def read_header(db: sqlite3.Connection, session: str) -> Header:
    """Return the header of a session. Raises Missing, Damaged, UnsupportedVersion."""
    row = db.execute("SELECT header, checksum FROM session WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise session_not_found(db, session)
    return decode_stored_header(*row)


def read_headers(db: sqlite3.Connection) -> Iterator[Header]:
    """Return all headers that can be read, then raise the first problem with another."""
    return _decode_headers(
        db.execute("SELECT header, checksum FROM session ORDER BY key").fetchall()
    )


def _decode_headers(rows: Iterable[tuple[object, int | None]]) -> Iterator[Header]:
    problem: Damaged | UnsupportedVersion | None = None
    for data, checksum in rows:
        try:
            header = decode_stored_header(data, checksum)
        except (Damaged, UnsupportedVersion) as exc:
            problem = problem or exc
        else:
            yield header
    if problem is not None:
        raise problem


def decode_stored_header(data: object, checksum: int | None) -> Header:
    """Return a header; databases of the first version had no checksum. Raises Damaged."""
    if not isinstance(data, bytes) or (checksum is not None and crc32(data) != checksum):
        raise Damaged("store: the header of a session is not what was written")
    try:
        return decode_header(data)
    except UnsupportedVersion:
        raise
    except InvalidDocument as exc:
        raise Damaged("store: the header of a session cannot be read") from exc


def update_title(db: sqlite3.Connection, session: str, title: str | None) -> None:
    """Write another title into a header. Raises Missing, Damaged."""
    data = encode_header(replace(read_header(db, session), title=title))
    values = (data, crc32(data), session)
    db.execute("UPDATE session SET header = ?, checksum = ? WHERE id = ?", values)


def session_not_found(db: sqlite3.Connection, session: str) -> Missing | Damaged:
    """Say that there is no session of an id; if it is only missing in the index, that."""
    every_row = "SELECT 1 FROM session NOT INDEXED WHERE id = ?"
    if db.execute(every_row, (session,)).fetchone() is None:
        return Missing("store: there is no session of this id")
    return Damaged("store: the index of sessions is damaged; try `REINDEX` of sqlite3")
