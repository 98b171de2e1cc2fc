"""The connection of a process to a SQLite file, with its lock and the translation of its errors.

All threads share one connection under a lock, since SQLite allows one writer at a time and every
use is short: long reads and writes are done in batches. No connection may survive a fork, even if
it is not used, because SQLite tracks locks by process. The connection is therefore closed before a
fork, and the parent and the child open it again when they need it. SQLite errors do not leave this
module.
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
from steno.store.sqlite.layout import PAGE_SIZE, create_tables, has_current_schema, read_version

Durability = Literal["full", "normal"]

_LOCKED_MESSAGE: Final = "another program keeps the file locked; try again, or end that program"
_ERROR_BY_CODE: Final = {
    sqlite3.SQLITE_FULL: ("disk_full", "the disk is full; free some space"),
    sqlite3.SQLITE_READONLY: (
        "read_only",
        "the file is read-only; change the permissions of the file and its folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot_open",
        "the file cannot be opened; check that its folder exists and is accessible",
    ),
    sqlite3.SQLITE_PERM: (
        "permission_denied",
        "no permission to open the file; change the permissions of the file and its folder",
    ),
    sqlite3.SQLITE_BUSY: ("locked", _LOCKED_MESSAGE),
    sqlite3.SQLITE_LOCKED: ("locked", _LOCKED_MESSAGE),
    sqlite3.SQLITE_PROTOCOL: (
        "too_many_programs",
        "too many programs use the file at once; try again",
    ),
    sqlite3.SQLITE_IOERR: (
        "os_error",
        "the disk failed to read or write; check the disk and its free space",
    ),
    sqlite3.SQLITE_NOMEM: ("out_of_memory", "not enough memory"),
    sqlite3.SQLITE_TOOBIG: ("too_large", "a value is larger than 1 GB; split it"),
}
"""The code and message of a steno error by SQLite error code."""
_CHECK_INTERVAL_S: Final = 60
"""The time for which a check of the whole file is valid, so that many sessions verify quickly."""
_REFUSED: Final = (
    "sqlite_refused",
    (
        "SQLite reported an error; try again, and if that does not help, run "
        "`PRAGMA integrity_check` on the file with sqlite3"
    ),
)
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@final
class SqliteDatabase:
    """A SQLite file with the tables of a store. Any number of threads may use it."""

    def __init__(self, file: Path, *, timeout_s: float, durability: Durability) -> None:
        """Open a file, and create it if it is missing.

        Raises Unavailable if that is not possible, Damaged if the file is not a database,
        InvalidDocument if it is a database of another program, and UnsupportedVersion if it has
        another layout.
        """
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
        """Return a transaction that reads a consistent snapshot of the file."""
        return self._transaction("BEGIN")

    def write_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Return a transaction that stores all of its changes at its end.

        If the `with` block raises, no changes are stored.
        """
        return self._transaction("BEGIN IMMEDIATE")

    @contextmanager
    def erase_transaction(self) -> Generator[sqlite3.Connection]:
        """Return a write transaction after which the write-ahead log has no old content.

        The log is also cleared before the transaction, so that Unavailable is raised before any
        change if a reader blocks the clearing.
        """
        self._clear_log()
        with self.write_transaction() as db:
            yield db
        self._clear_log()

    def compact(self) -> None:
        """Rewrite the file without free pages and without gaps inside pages."""
        with self.lock, _translate_errors():
            db = self._ensure_open()
            with _use_temp_folder(self._file.parent, db):
                db.execute("VACUUM")
        self._clear_log()

    def check(self) -> None:
        """Check the whole file with SQLite, unless that was done recently.

        Raises Damaged if the file is damaged.
        """
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at < _CHECK_INTERVAL_S:
            return
        with self.read_transaction() as db:
            (problem,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok" or not has_current_schema(db):
                raise _damaged_database()
        self._checked_at = now

    def close(self) -> None:
        """Apply the write-ahead log if possible, and close the file. Can be called repeatedly."""
        with self.lock:
            self.release()
            self._is_closed = True

    def release(self) -> None:
        """Close the connection until it is needed again; the caller holds the lock."""
        if self.connection is not None:
            with suppress(sqlite3.Error):  # content that is not in the file yet stays in the log
                self.connection.execute("PRAGMA busy_timeout = 0")
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.close()
            self.connection = None

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        with self.lock, _translate_errors():
            db = self._ensure_open()
            try:
                # BEGIN waits for other writers in C, so an interrupt takes effect only after it.
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
                "another program is reading the file, so old content cannot be erased; "
                "end that program and try again",
                code="erasure_blocked",
                place="store",
            )

    # -- opening -----------------------------------------------------------------------------

    def _ensure_open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise Unavailable(
                "the store is closed; open it again", code="store_closed", place="store"
            )
        if self.connection is None:
            self.connection = self._open()
        if self.connection.in_transaction:  # the last rollback failed or was interrupted
            self.connection.execute("ROLLBACK")
        return self.connection

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect("mode=rw")
        except sqlite3.OperationalError:
            # In a read-only folder SQLite cannot create the shared memory of the log. If there is
            # no log, no other process is writing, and the file can be opened as immutable.
            log = self._file.with_name(f"{self._file.name}-wal")
            if os.access(self._file.parent, os.W_OK) or log.exists():
                raise
            return self._connect("mode=ro&immutable=1")

    def _connect(self, mode: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self._file.as_uri()}?{mode}",
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
        """Prepare a database, even while other processes prepare it.

        For some statements SQLite does not wait for the lock, so this method retries all of them.
        """
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
            "temp_store = MEMORY",  # it is small, and no content is written to other files
            "trusted_schema = OFF",
            "cell_size_check = ON",
            # Twice the default, since pages have half the usual size. The log keeps its size and
            # is overwritten: syncing a file that grows takes 50 percent longer.
            "wal_autocheckpoint = 2000",
            "journal_size_limit = 4194304",
            f"page_size = {PAGE_SIZE}",
        ):
            db.execute(f"PRAGMA {setting}")
        # In a transaction, since another process may be creating the tables now.
        with _rollback_on_exit(db):
            db.execute("BEGIN")
            version = read_version(db)
        if not version:
            db.execute("PRAGMA journal_mode = WAL")
            with _rollback_on_exit(db):
                db.execute("BEGIN EXCLUSIVE")
                create_tables(db)
                db.execute("COMMIT")


@contextmanager
def _rollback_on_exit(db: sqlite3.Connection) -> Generator[None]:
    """Roll back a transaction that the `with` block has begun and not committed."""
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _make_file(file: Path) -> None:
    """Create a file that only its owner may read, and the folders that are missing."""
    try:
        for folder in reversed(file.parents):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as exc:
        message = f"cannot create {file}; check that its folder exists and is writable"
        raise Unavailable(message, code="cannot_create", place="store") from exc


_temp_folder_lock: Final = Lock()


@contextmanager
def _use_temp_folder(folder: Path, db: sqlite3.Connection) -> Generator[None]:
    """Make VACUUM write its copy of the whole database to a folder instead of memory.

    SQLite creates the copy with access for its owner only and unlinks it at once. The folder is a
    setting of the whole process. If SQLite does not accept the folder, it uses the default folder
    for temporary files.
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


# -- SQLite errors ---------------------------------------------------------------------------


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except UnicodeEncodeError as exc:
        raise Missing(
            "not found: the id or name contains a lone surrogate, which no stored id or name has",
            code="lone_surrogate",
            place="store",
        ) from exc
    except (TypeError, OverflowError, UnicodeDecodeError) as exc:  # a column of the wrong type
        raise _damaged_database() from exc
    except sqlite3.Error as exc:
        code = _primary_code(exc)
        if code in _DAMAGE_CODES:
            raise _damaged_database() from exc
        our_code, message = _ERROR_BY_CODE.get(code, _REFUSED)
        raise Unavailable(message, code=our_code, place="store") from exc


def _damaged_database() -> Damaged:
    message = (
        "the database is damaged; restore it from a backup, or run `.recover` on it with sqlite3"
    )
    return Damaged(message, code="database_damaged", place="store")


def _primary_code(exc: sqlite3.Error) -> int:
    """Return the primary code of an error; SQLite adds details in the higher bits."""
    code: int = getattr(exc, "sqlite_errorcode", 0)  # errors of the Python module have none
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
