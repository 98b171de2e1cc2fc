"""Connections to PostgreSQL: the only file that knows psycopg, whose errors stop here.

A store lends out connections for single operations, a few at most: any number of threads may ask,
servers allow about a hundred connections to everybody together, and threads that come and go
should not each pay for a new one. No connection is ever held while a caller thinks.
An operation whose connection breaks is done again on a new one. Whoever writes is told so, and
looks first whether it is there already. Nothing here knows what is stored.
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
except ImportError as exc:
    raise MissingExtra("PostgresStore needs psycopg", extra="postgres") from exc

T = TypeVar("T")
ResultRow: TypeAlias = tuple[Any, ...]
QueryValues: TypeAlias = Sequence[object] | Mapping[str, object]

_DEFAULT_PARAMETERS: Final = {
    "fallback_application_name": "steno",
    "connect_timeout": "10",
    # A server that went away without a word is noticed after half a minute.
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""What holds unless the address says otherwise."""
_DEFAULT_SCHEMA: Final = "steno"
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MAX_CONNECTIONS: Final = 8
"""So many connections at once; who comes then waits."""
_RETRY_DELAYS_S: Final = (0.0, 0.1, 0.5, 2.0)
"""Before an operation is done again. A server restarts in about this time."""
_TRANSIENT_CLASS: Final = "40"
"""The class of serialization failures and deadlocks: doing it again helps."""

_EXPLANATIONS: Final[Mapping[str, str]] = {
    "": "the server cannot be reached; see that it runs, and that host, port, database, user and "
    "password are right",
    "25006": "the server takes no writes now; give the address of the primary",
    "42501": "the user may not do this; let the owner of the tables grant it",
    "53": "the server has run out of disk, memory or connections; make room and try again",
    "54": "it is larger than the server can take",
    "55P03": "another writer holds on to the same session; try again",
    "57": "the server was stopped or told to give up; try again",
}
"""By SQLSTATE, or by its first two characters; empty where there is no connection."""
_MAYBE_WRITTEN: Final = (
    "; before that, the connection broke in the middle of it: refresh the conversation to see "
    "whether it was written"
)
_DAMAGED_STATES: Final = frozenset({"XX001", "XX002"})


# -- the server ------------------------------------------------------------------------------


class PostgresServer(NamedTuple):
    """What an address says of the server: how to reach it, and which schema is ours there."""

    parameters: Mapping[str, str]
    schema: str
    place: str
    """For messages: without user, password and options."""

    def __repr__(self) -> str:
        return f"Server({self.place})"


def parse_server_address(text: str) -> PostgresServer:
    """Read `postgresql://user:password@host:port/database?schema=name`; all but the schema is libpq's.

    Raises InvalidValue, which shows nothing of the address: a part of the password may stand
    anywhere in one that is misspelt.
    """
    credentials = text.partition("//")[2].rpartition("@")[0]
    if any(mark in credentials for mark in "/?#@ "):
        raise InvalidValue(
            "postgresql: in user names, passwords and options / ? # @ and blanks are percent-encoded"
        )
    address, _, query = text.partition("?")
    options = query.split("&") if query else []
    schemas = [option.partition("=")[2] for option in options if option.startswith("schema=")]
    schema = schemas[-1] if schemas else _DEFAULT_SCHEMA
    if not _SCHEMA_NAME.fullmatch(schema):
        raise InvalidValue("postgresql: schema is a word of small letters, digits and _")
    kept = "&".join(option for option in options if not option.startswith("schema="))
    try:
        said = conninfo_to_dict(f"{address}?{kept}" if kept else address)
    except psycopg.Error:
        said = None
    if said is None:  # not inside `except`: what psycopg raises quotes the address
        raise InvalidValue(
            "postgresql: an address is postgresql://user:password@host:port/database"
        )
    parameters = _DEFAULT_PARAMETERS | {name: str(value) for name, value in said.items()}
    return PostgresServer(parameters, schema, strip_url_secrets(address) or "postgresql")


# -- one connection --------------------------------------------------------------------------


@final
class PostgresConnection:
    """A line to the server. In statements, `{s}` stands for the schema."""

    def __init__(self, raw: psycopg.Connection[ResultRow], schema: str) -> None:
        self._raw = raw
        self._schema = f'"{schema}"'

    def rows(self, statement: str, values: QueryValues = ()) -> list[ResultRow]:
        """Execute a statement and return its rows."""
        return self._raw.execute(self._text(statement), values, binary=True).fetchall()

    def row(self, statement: str, values: QueryValues = ()) -> ResultRow | None:
        """Execute a statement and return its first row."""
        return self._raw.execute(self._text(statement), values, binary=True).fetchone()

    def one(self, statement: str, values: QueryValues = ()) -> ResultRow:
        """Execute a statement that has a row for sure, and return it."""
        found = self.row(statement, values)
        assert found is not None
        return found

    def count(self, statement: str, values: QueryValues = ()) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._raw.execute(self._text(statement), values).rowcount

    def script(self, statements: str) -> None:
        """Execute statements without values."""
        self._raw.execute(self._text(statements))

    def copy(self, statement: str, types: Sequence[str], rows: Iterable[ResultRow]) -> None:
        """Write many rows. In binary: then an error of the server has no row to quote."""
        with self._raw.cursor().copy(self._text(statement)) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def transaction(self) -> AbstractContextManager[object]:
        """Return a transaction, to be used in `with`."""
        return self._raw.transaction()

    @property
    def is_usable(self) -> bool:
        """Whether the connection stands, and nothing is under way on it."""
        return self._raw.info.transaction_status is psycopg.pq.TransactionStatus.IDLE

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone."""
        return self._raw.closed

    def close(self) -> None:
        """Let go of the connection."""
        self._raw.close()

    def _text(self, statement: str) -> bytes:
        return statement.replace("{s}", self._schema).encode()


# -- many ------------------------------------------------------------------------------------


class _ConnectionLost(Exception):
    """There is no connection, or none any more; the cause says why."""


@final
class ConnectionPool:
    """The connections of a store, which come and go."""

    def __init__(
        self, server: PostgresServer, prepare: Callable[[PostgresConnection], None]
    ) -> None:
        """Know a server; `prepare` is called with every new connection."""
        self._server = server
        self._prepare = prepare
        self._is_closed = False
        self._inherited: list[PostgresConnection] = []
        """Of the process that this one was forked from, who speaks on them: not ours to close."""
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._slots = BoundedSemaphore(_MAX_CONNECTIONS)
        self._idle: list[PostgresConnection] = []

    def _reset_after_fork(self) -> None:
        """Begin anew in a process that was forked."""
        if self._process != os.getpid():
            self._inherited += self._idle
            self._reset()

    def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Return what `work` does with a connection; it may be done again."""
        return self._run(work, lambda: False)

    def write(self, work: Callable[[PostgresConnection, bool], T]) -> T:
        """Return what `work` does in a transaction, which is durable then.

        If the connection breaks, nobody knows whether it was: `work` is called again, with True,
        and has to look. Its first statement locks what it is about, and so waits until the
        server is done with the lost attempt. That attempt cannot begin later: it is committed
        only by a client that heard of its lock.
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
        """Close all connections; those in use when they come back."""
        self._reset_after_fork()
        with self._lock:
            self._is_closed = True
        self._close_idle()

    def _run(self, work: Callable[[PostgresConnection], T], is_unsure: Callable[[], bool]) -> T:
        """Do it, again if that may help."""
        pauses = iter(_RETRY_DELAYS_S)
        was_there = False  # the server: if so it may come back, and old connections are broken
        while True:
            pause = next(pauses, None)
            try:
                with self._borrow(is_new=was_there) as connection:
                    was_there = True
                    return work(connection)
            except _ConnectionLost as broken:
                if pause is None or not was_there:
                    raise self._error_for(None, is_unsure=is_unsure()) from broken.__cause__
            except psycopg.Error as exc:
                if pause is None or not (exc.sqlstate or "").startswith(_TRANSIENT_CLASS):
                    raise self._error_for(exc, is_unsure=is_unsure()) from exc
                was_there = False
            sleep(pause)

    @contextmanager
    def _borrow(self, *, is_new: bool) -> Generator[PostgresConnection]:
        """Lend out a connection. Raises _Broken if there is none, or it breaks while in use."""
        self._reset_after_fork()
        with self._slots:
            if is_new:
                self._close_idle()  # they are likely to be broken, too
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
                raise Unavailable(f"{self._server.place}: the store was closed")
            if self._idle:
                return self._idle.pop()
        try:
            raw = psycopg.connect(
                # All of them are libpq's.
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
            return Damaged(f"{place}: the server finds its own files damaged; restore a backup")
        explanation = _EXPLANATIONS.get(state) or _EXPLANATIONS.get(state[:2])
        explanation = explanation or f"the server refused it (SQLSTATE {state})"
        return Unavailable(f"{place}: {explanation}{_MAYBE_WRITTEN if is_unsure else ''}")
