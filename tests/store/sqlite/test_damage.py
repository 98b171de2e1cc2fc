"""SQLite files that were changed by another program or a fault of the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steno import ChatMessage
from steno.errors import Damaged
from steno.store.sqlite.layout import PAGE_SIZE
from steno.store.sqlite.store import SqliteStore


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a session of one entry."""
    with SqliteStore(tmp_path / "store.db") as store:
        store.new([ChatMessage.user("hello")], id="session-in-a-file", title="Hello")
    return tmp_path / "store.db"


def test_a_header_that_another_program_changed_is_damaged(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE session SET header = CAST(replace(header, 'Hello', 'Jello') AS BLOB)")
    with SqliteStore(file) as store:
        for act in (store.header, store.summary, store.open, lambda _: list(store.headers())):
            with pytest.raises(Damaged) as caught:
                act("session-in-a-file")
            assert caught.value.code == "header_damaged"


def test_a_session_that_only_the_index_lacks_is_damage(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_session_1'"
        (page,) = db.execute(query).fetchone()
    data = file.read_bytes()
    begin, end = (page - 1) * PAGE_SIZE, page * PAGE_SIZE
    index = data[begin:end].replace(b"session-in-a-file", b"session-in-a-fime")
    file.write_bytes(data[:begin] + index + data[end:])
    with SqliteStore(file) as store:
        for act in (store.header, store.heads, store.verify):
            with pytest.raises(Damaged) as caught:
                act("session-in-a-file")
            assert caught.value.code == "session_index_damaged"


def test_verify_reports_a_changed_table_definition(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'key INTEGER', 'key INTEGEQ')"
            " WHERE name = 'record'"
        )
    with SqliteStore(file) as store:
        with pytest.raises(Damaged) as caught:
            store.verify("session-in-a-file")
        assert caught.value.code == "database_damaged"
