"""One connection to a SQLite file, for all threads of a process: opened, locked, let go.

One connection behind a lock, since SQLite lets one write at a time anyway and every use of it is
short: what is long is read and written in portions. No connection may live through a fork, not
even unused (SQLite keeps track of locks by process), so it is closed before one and opened again,
on either side, when it is needed. What SQLite raises stops here.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, Literal, final
from weakref import WeakSet

from steno.errors import Damaged, Missing, Unavailable
from steno.store.sqlite.layout import (
    LAYOUT_VERSION,
    PAGE_SIZE,
    has_current_schema,
    migrate,
    read_version,
)

Durability = Literal["full", "normal"]

_ADVICE_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_READONLY: "it is read-only; change the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; see that its folder is there and may be used",
    sqlite3.SQLITE_PERM: "it may not be opened; change the rights of the file and its folder",
    sqlite3.SQLITE_BUSY: "another program kept it locked for too long; try again, or end that one",
    sqlite3.SQLITE_LOCKED: "another program kept it locked for too long; try again, or end that one",
    sqlite3.SQLITE_PROTOCOL: "too many programs use it at once; try again",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write, or is full; see to it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_TOOBIG: "it takes up to 1 GB in one piece; split what is larger",
}
_CHECK_INTERVAL_S: Final = 60
"""Whoever verifies a thousand sessions need not look at the whole file a thousand times."""
_REFUSED_MESSAGE: Final = (
    "SQLite refused it; try again, and if that does not help, check the file with "
    "`PRAGMA integrity_check` of sqlite3"
)
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_MESSAGE: Final = (
    "store: the database is damaged; bring back a copy of it, or try `.recover` of sqlite3"
)


@final
class SqliteDatabase:
    """A SQLite file of ours. Any number of threads may use it."""

    def __init__(self, file: Path, *, timeout_s: float, durability: Durability) -> None:
        """Open a file, and make it if there is none. Raises Unavailable, Damaged."""
        self._file: Final = file.absolute()
        self._timeout_s: Final = timeout_s
        self._durability: Final = durability
        self._is_closed = False
        self._checked_at: float | None = None
        self.lock: Final = Lock()
        self.connection: sqlite3.Connection | None = None
        with _fork_lock:
            _databases.add(self)
        with self.lock, _translate_errors():
            _make_file(self._file)
            self._ensure_open()

    def read_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Give the connection for a moment, in which nothing changes."""
        return self._transaction("BEGIN")

    def write_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Give the connection for changes: all of them are durable at the end, or none is made."""
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def erase_transaction(self) -> Generator[sqlite3.Connection]:
        """Do the same, and let nothing of what was there before remain in the write-ahead log.

        The log is cleared before as well: a reader who would keep it alive is noticed then, when
        nothing has been changed yet.
        """
        self._clear_log()
        with self.write_transaction() as db:
            yield db
        self._clear_log()

    def compact(self) -> None:
        """Write the file anew, without what is free in it or in its pages."""
        with self.lock, _translate_errors():
            db = self._ensure_open()
            with _use_temp_folder(self._file.parent, db):
                db.execute("VACUUM")
        self._clear_log()

    def check(self) -> None:
        """Let SQLite look for damage in the whole file, if it did not just do so. Raises Damaged."""
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at < _CHECK_INTERVAL_S:
            return
        with self.read_transaction() as db:
            (problem,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok" or not has_current_schema(db):
                raise Damaged(_DAMAGED_MESSAGE)
        self._checked_at = now

    def close(self) -> None:
        """Let go of the file, with all changes in it. Calling it twice is fine."""
        with self.lock:
            self.release()
            self._is_closed = True

    def release(self) -> None:
        """Close the connection until it is needed again; the lock is held."""
        if self.connection is not None:
            with suppress(sqlite3.Error):  # what could not be moved to the file stays in the log
                self.connection.execute("PRAGMA busy_timeout = 0")
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
            self.connection = None

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        with self.lock, _translate_errors():
            db = self._ensure_open()
            try:
                # It waits for others, and whoever interrupts that is heard when it has begun.
                db.execute(begin)
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _clear_log(self) -> None:
        with self.lock, _translate_errors():
            is_blocked = (
                self._ensure_open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            )
        if is_blocked:
            raise Unavailable(
                "store: another program reads old content and keeps it from being erased; "
                "end that one, then try again"
            )

    # -- opening -----------------------------------------------------------------------------

    def _ensure_open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise Unavailable("store: it was closed; open it again")
        if self.connection is None:
            self.connection = self._open()
        if self.connection.in_transaction:  # even a rollback can fail or be interrupted
            self.connection.execute("ROLLBACK")
        return self.connection

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect("mode=rw")
        except sqlite3.OperationalError:
            # Where nothing can be written, there is no place for the shared memory of a log. With
            # no log there, nobody is writing either.
            if os.access(self._file.parent, os.W_OK) or self._has_log():
                raise
            return self._connect("mode=ro&immutable=1")

    def _has_log(self) -> bool:
        return self._file.with_name(f"{self._file.name}-wal").exists()

    def _connect(self, how: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self._file.as_uri()}?{how}",
            uri=True,
            timeout=self._timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare_with_retry(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare_with_retry(self, db: sqlite3.Connection) -> None:
        """Prepare a database, also while others do. SQLite does not wait by itself for all of it."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._prepare(db)
            except sqlite3.OperationalError as exc:
                if _primary_code(exc) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _prepare(self, db: sqlite3.Connection) -> None:
        for setting in (
            "foreign_keys = ON",
            "secure_delete = ON",
            f"synchronous = {self._durability}",
            "temp_store = MEMORY",  # little, and no content in files elsewhere
            "trusted_schema = OFF",
            "cell_size_check = ON",
            # In pages of half the usual size. What the log has grown to stays then, and is written
            # over: to sync a file that grows costs half as much again.
            "wal_autocheckpoint = 2000",
            "journal_size_limit = 4194304",
            f"page_size = {PAGE_SIZE}",
        ):
            db.execute(f"PRAGMA {setting}")
        with _rollback_on_exit(
            db
        ):  # else another process may be done with its first half meanwhile
            db.execute("BEGIN")
            version = read_version(db)
        if version < LAYOUT_VERSION:
            db.execute("PRAGMA journal_mode = WAL")
            with _rollback_on_exit(db):
                db.execute("BEGIN EXCLUSIVE")
                migrate(db)
                db.execute("COMMIT")


@contextmanager
def _rollback_on_exit(db: sqlite3.Connection) -> Generator[None]:
    """Leave no transaction open behind what was begun here and not committed."""
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _make_file(file: Path) -> None:
    """Make a file that nobody else may read, and the folders that are missing."""
    try:
        for folder in reversed(file.parents):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as exc:
        raise Unavailable(
            "store: the file cannot be made; see that its folder is there and may be written to"
        ) from exc


_temp_folder_lock: Final = Lock()


@contextmanager
def _use_temp_folder(folder: Path, db: sqlite3.Connection) -> Generator[None]:
    """Let a copy of a whole database lie in a folder instead of in memory.

    SQLite makes such a file for its owner only and takes away its name at once. The folder is a
    setting of the process; where SQLite does not take it, it uses that for temporary files.
    """
    with _temp_folder_lock:
        before = db.execute("PRAGMA temp_store_directory").fetchone()
        try:
            with suppress(sqlite3.OperationalError, UnicodeEncodeError):
                _set_temp_folder(db, str(folder))
            db.execute("PRAGMA temp_store = FILE")
            yield
        finally:
            db.execute("PRAGMA temp_store = MEMORY")
            _set_temp_folder(db, "" if before is None else before[0])


def _set_temp_folder(db: sqlite3.Connection, folder: str) -> None:
    quoted = folder.replace("'", "''")
    db.execute(f"PRAGMA temp_store_directory = '{quoted}'")


# -- what SQLite raises ----------------------------------------------------------------------


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except UnicodeEncodeError as exc:
        raise Missing("store: no name in it has a half of a surrogate pair") from exc
    except (TypeError, OverflowError, UnicodeDecodeError) as exc:  # no column was written so
        raise Damaged(_DAMAGED_MESSAGE) from exc
    except sqlite3.Error as exc:
        code = _primary_code(exc)
        if code in _DAMAGE_CODES:
            raise Damaged(_DAMAGED_MESSAGE) from exc
        advice = _ADVICE_BY_CODE.get(code, _REFUSED_MESSAGE)
        raise Unavailable(f"store: {advice}") from exc


def _primary_code(exc: sqlite3.Error) -> int:
    """Return the kind of an error, without the details that SQLite adds in the higher bits."""
    code: int = getattr(exc, "sqlite_errorcode", 0)  # what Python raises by itself has none
    return code & 0xFF


# -- forks -----------------------------------------------------------------------------------

_fork_lock: Final = Lock()
_databases: Final[WeakSet[SqliteDatabase]] = WeakSet()
_locked_for_fork: Final[list[SqliteDatabase]] = []


def _before_fork() -> None:
    _fork_lock.acquire()
    for database in list(_databases):
        database.lock.acquire()
        database.release()
        _locked_for_fork.append(database)


def _after_fork() -> None:
    while _locked_for_fork:
        _locked_for_fork.pop().lock.release()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
