"""Connections to PostgreSQL. No other module imports psycopg or handles its errors.

Any number of threads may use a store, but a server allows only about a hundred connections, and
opening one takes time. So a pool provides a connection for each operation and limits the number of
connections; no thread holds a connection between operations. If a connection breaks, the operation
is repeated on a new connection; a repeated write receives a flag, and first checks whether it was
already stored. This module has no knowledge of the content of the tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import BoundedSemaphore, Lock
from time import sleep
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, final

from steno.errors import Damaged, InvalidValue, LogError, MissingExtra, Unavailable
from steno.ports import strip_url_secrets

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as _exc:
    raise MissingExtra("PostgresStore needs psycopg", extra="postgres") from _exc

T = TypeVar("T")
ResultRow: TypeAlias = tuple[Any, ...]
QueryValues: TypeAlias = Sequence[object] | Mapping[str, object]

_DEFAULT_PARAMETERS: Final = {
    "fallback_application_name": "steno",
    "connect_timeout": "10",
    # A server that disappears without closing the connection is detected after half a minute.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""The libpq parameters that an address can override."""
_DEFAULT_SCHEMA: Final = "steno"
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MAX_CONNECTIONS: Final = 8
"""The maximum number of connections at once; further threads wait."""
_RETRY_DELAYS_S: Final = (0.0, 0.1, 0.5, 2.0)
"""The pauses before an operation is repeated, in total about the duration of a server restart."""
_TRANSIENT_CLASS: Final = "40"
"""The SQLSTATE class of serialization failures and deadlocks, after which a retry may succeed."""

_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "": (
        "server_unreachable",
        (
            "the server cannot be reached; check that it is running and that host, port, database, "
            "user and password are correct"
        ),
    ),
    "25006": ("read_only", "the server is read-only; use the address of the primary"),
    "42501": (
        "permission_denied",
        "the database user lacks a permission; ask the owner of the tables to grant it",
    ),
    "53": (
        "server_full",
        "the server is out of disk space, memory or connections; free some and try again",
    ),
    "54": ("too_large", "the data is larger than a limit of the server"),
    "55P03": ("locked", "another writer keeps the session locked; try again"),
    "57": ("server_stopped", "the server is stopping or cancelled the statement; try again"),
}
"""The code and message of a steno error by SQLSTATE or its class; "" is a failed connection."""
_MAYBE_WRITTEN: Final = (
    "; the connection broke during a write; refresh the conversation to check what was stored"
)
_DAMAGED_STATES: Final = frozenset({"XX001", "XX002"})


class UnconfirmedWrite(Unavailable):
    """The connection broke during a write, and its outcome could not be determined."""


# -- the server ------------------------------------------------------------------------------


class PostgresServer(NamedTuple):
    """A parsed address: the connection parameters and the schema of the tables."""

    parameters: Mapping[str, str]
    schema: str
    place: str
    """The address without user, password and options, for error messages."""

    def __repr__(self) -> str:
        return f"PostgresServer({self.place})"


def parse_server_address(text: str) -> PostgresServer:
    """Parse `postgresql://user:password@host:port/database?schema=name`.

    Raises InvalidValue if the address is invalid. The error does not quote the address, since parts
    of the password may be anywhere in a misspelt address.
    """
    credentials = text.partition("//")[2].rpartition("@")[0]
    if any(mark in credentials for mark in "/?#@ "):
        message = "percent-encode / ? # @ and spaces in the user name, password and options"
        raise InvalidValue(message, code="address_not_encoded", place="postgresql")
    address, _, query = text.partition("?")
    options = query.split("&") if query else []
    schemas = [option.partition("=")[2] for option in options if option.startswith("schema=")]
    schema = schemas[-1] if schemas else _DEFAULT_SCHEMA
    if not _SCHEMA_NAME.fullmatch(schema):
        message = (
            "invalid schema: use lower-case letters, digits and _, not starting with a digit, "
            "at most 63 characters"
        )
        raise InvalidValue(message, code="schema_name_invalid", place="postgresql")
    libpq_options = "&".join(option for option in options if not option.startswith("schema="))
    try:
        libpq_parameters = conninfo_to_dict(
            f"{address}?{libpq_options}" if libpq_options else address
        )
    except psycopg.Error:
        libpq_parameters = None
    if libpq_parameters is None:  # not inside `except`: the psycopg error quotes the address
        message = "invalid address; use postgresql://user:password@host:port/database"
        raise InvalidValue(message, code="store_address_invalid", place="postgresql")
    parameters = _DEFAULT_PARAMETERS | {
        name: str(value) for name, value in libpq_parameters.items()
    }
    return PostgresServer(parameters, schema, strip_url_secrets(address) or "postgresql")


# -- one connection --------------------------------------------------------------------------


@final
class PostgresConnection:
    """A connection to the server, which replaces `{s}` in statements with the schema name."""

    def __init__(self, raw: psycopg.Connection[ResultRow], schema: str) -> None:
        self._raw = raw
        self._schema = f'"{schema}"'

    def rows(self, statement: str, values: QueryValues = ()) -> list[ResultRow]:
        """Execute a statement and return its rows."""
        return self._raw.execute(self._text(statement), values, binary=True).fetchall()

    def row(self, statement: str, values: QueryValues = ()) -> ResultRow | None:
        """Execute a statement and return its first row; None if there are no rows."""
        return self._raw.execute(self._text(statement), values, binary=True).fetchone()

    def one(self, statement: str, values: QueryValues = ()) -> ResultRow:
        """Execute a statement that always returns a row, and return that row."""
        found = self.row(statement, values)
        assert found is not None
        return found

    def count(self, statement: str, values: QueryValues = ()) -> int:
        """Execute a statement and return the number of rows it changed."""
        return self._raw.execute(self._text(statement), values).rowcount

    def script(self, statements: str) -> None:
        """Execute one or more statements without parameters."""
        self._raw.execute(self._text(statements))

    def copy(self, statement: str, types: Sequence[str], rows: Iterable[ResultRow]) -> None:
        """Write many rows with COPY, in binary format so that server errors quote no content."""
        with self._raw.cursor().copy(self._text(statement)) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def transaction(self) -> AbstractContextManager[object]:
        """Return a transaction as a context manager."""
        return self._raw.transaction()

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and idle."""
        return self._raw.info.transaction_status is psycopg.pq.TransactionStatus.IDLE

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed or broken."""
        return self._raw.closed

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def _text(self, statement: str) -> bytes:
        return statement.replace("{s}", self._schema).encode()


# -- the pool --------------------------------------------------------------------------------


class _ConnectionLost(Exception):
    """A connection could not be opened or was lost; the cause is chained."""


@final
class ConnectionPool:
    """A pool of connections to one server, shared by the threads of a store."""

    def __init__(
        self, server: PostgresServer, prepare: Callable[[PostgresConnection], None]
    ) -> None:
        """Create an empty pool. `prepare` is called with every new connection."""
        self._server = server
        self._prepare = prepare
        self._is_closed = False
        self._inherited: list[PostgresConnection] = []
        """Connections of the parent process, which still uses them; they are not closed here."""
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._slots = BoundedSemaphore(_MAX_CONNECTIONS)
        self._idle: list[PostgresConnection] = []

    def _reset_after_fork(self) -> None:
        """In a forked process, stop using the connections of the parent."""
        if self._process != os.getpid():
            self._inherited += self._idle
            self._reset()

    def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Call `work` with a connection and return its result; retry after a temporary error."""
        return self._run(work, lambda: False)

    def write(self, work: Callable[[PostgresConnection, bool], T]) -> T:
        """Call `work` in a transaction and return its result; the changes are then durable.

        If the connection breaks, the outcome is unknown: `work` is called again, with True, and
        must check which changes were stored. The first statement of `work` must lock the rows that
        it writes, so that it waits until the server has finished the lost attempt. The lost attempt
        cannot commit later, since a client commits only after the server has confirmed its lock.
        """
        is_unsure = False

        def in_transaction(connection: PostgresConnection) -> T:
            nonlocal is_unsure
            has_begun = False
            try:
                with connection.transaction():
                    has_begun = True
                    result = work(connection, is_unsure)
            except psycopg.Error:
                is_unsure = is_unsure or (has_begun and connection.is_lost)
                raise
            return result

        return self._run(in_transaction, lambda: is_unsure)

    def close(self) -> None:
        """Close all idle connections; a connection in use is closed when it is returned."""
        self._reset_after_fork()
        with self._lock:
            self._is_closed = True
        self._close_idle()

    def _run(self, work: Callable[[PostgresConnection], T], is_unsure: Callable[[], bool]) -> T:
        """Call `work`, and repeat the call after errors that may be temporary."""
        pauses = iter(_RETRY_DELAYS_S)
        # A server that was reached once may become reachable again, so retry, but on a new
        # connection, since the old ones are broken.
        was_reached = False
        while True:
            pause = next(pauses, None)
            try:
                with self._borrow(is_new=was_reached) as connection:
                    was_reached = True
                    return work(connection)
            except _ConnectionLost as broken:
                if pause is None or not was_reached:
                    raise self._error_for(None, is_unsure=is_unsure()) from broken.__cause__
            except psycopg.Error as exc:
                if pause is None or not (exc.sqlstate or "").startswith(_TRANSIENT_CLASS):
                    raise self._error_for(exc, is_unsure=is_unsure()) from exc
                was_reached = False
            sleep(pause)

    @contextmanager
    def _borrow(self, *, is_new: bool) -> Generator[PostgresConnection]:
        """Yield an idle connection or a new one; with `is_new`, close the idle connections first.

        Raises _ConnectionLost if the connection cannot be opened, or breaks in use.
        """
        self._reset_after_fork()
        with self._slots:
            if is_new:
                self._close_idle()  # they are probably broken, too
            connection = self._acquire()
            try:
                yield connection
            except psycopg.Error as exc:
                if connection.is_lost:
                    raise _ConnectionLost from exc
                raise
            finally:
                self._release(connection)

    def _acquire(self) -> PostgresConnection:
        with self._lock:
            if self._is_closed:
                raise Unavailable(
                    "the store is closed; open it again",
                    code="store_closed",
                    place=self._server.place,
                )
            if self._idle:
                return self._idle.pop()
        try:
            raw = psycopg.connect(
                # psycopg passes all of these to libpq.
                **self._server.parameters,  # type: ignore[arg-type]
                autocommit=True,
            )
        except psycopg.Error as exc:
            raise _ConnectionLost from exc
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection = PostgresConnection(raw, self._server.schema)
        try:
            self._prepare(connection)
        except BaseException as exc:
            if connection.is_lost:
                raise _ConnectionLost from exc
            connection.close()
            raise
        return connection

    def _release(self, connection: PostgresConnection) -> None:
        with self._lock:
            if connection.is_usable and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _error_for(self, error: BaseException | None, *, is_unsure: bool) -> LogError:
        place, state = self._server.place, getattr(error, "sqlstate", None) or ""
        if state in _DAMAGED_STATES:
            text = "the server reports that its files are damaged; restore a backup"
            return Damaged(text, code="database_damaged", place=place)
        refused = "server_refused", f"the server reported an error (SQLSTATE {state})"
        code, message = _ERRORS.get(state) or _ERRORS.get(state[:2]) or refused
        if is_unsure:
            return UnconfirmedWrite(message + _MAYBE_WRITTEN, code=code, place=place)
        return Unavailable(message, code=code, place=place)
