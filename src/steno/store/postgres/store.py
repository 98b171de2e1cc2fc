"""A store in a PostgreSQL database, which many machines can use at once.

Every writer first locks the row of its session, so the records of a session are numbered without
gaps, and writers of different sessions do not wait for each other. Reads are paged, with one
statement for each page: no transaction is open between pages, even if a reader stops early.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple, final

from msgspec.structs import replace

from steno.codec import decode_record, encode_header, encode_record
from steno.errors import Damaged, InvalidDocument, Missing, Unavailable
from steno.ids import utc_now
from steno.log.queries import searchable_text
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store import base
from steno.store.postgres import sql
from steno.store.postgres.connections import (
    ConnectionPool,
    PostgresConnection,
    QueryValues,
    ResultRow,
    parse_server_address,
)

_PAGE_ROWS: Final = 256
_PAGE_LIMITS: Final = {"rows": _PAGE_ROWS, "bytes": 4 * 1024 * 1024}
"""The maximum size of a page; the last record of a page may exceed `bytes`."""
_BLOB_PART_BYTES: Final = 4 * 1024 * 1024
"""The size of the parts of a blob; PostgreSQL limits a value to 1 GB and copies it repeatedly."""
_MAX_WORD_LENGTH: Final = 200
"""Longer words are indexed by their SHA-256: GIN limits a key to about 2,700 bytes."""


class _SessionRow(NamedTuple):
    """A row of `session`, without the id."""

    number: int
    header: bytes
    last: int
    entries: int
    updated_at: datetime | None


class _RecordRow(NamedTuple):
    """A row of `record`, without the number of its session."""

    seq: int
    parent: int | None
    id: bytes | None
    time: datetime | None
    body: bytes
    words: list[bytes] | None


_RECORD_COLUMN_TYPES: Final = ("int8", "int8", "int8", "bytea", "timestamptz", "bytea", "bytea[]")
"""The types of the session number and of the fields of _RecordRow."""


class _BranchRow(NamedTuple):
    """A row of `branch`, without the number of its session."""

    name: bytes
    head: bytes | None
    seq: int


class _AppendTarget(NamedTuple):
    """The state of a branch before a record is written to it."""

    has_branch: bool
    head: bytes | None
    existing_record: bytes | None
    """The stored record of the entry with the requested id; None if there is no such entry."""
    parent: int | None

    def holds_entry(self, branch: str, digest: str) -> bool:
        """Return whether an attempt whose connection broke has already stored the entry."""
        if self.existing_record is None:
            return False
        record = _decode_stored_record(self.existing_record)
        return record.branch == branch and record.digest == digest


@final
class _SessionRows:
    """The records of a session as rows, with its branches and totals."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Convert all records. Raises Damaged if they are inconsistent."""
        self.rows: list[_RecordRow] = []
        self.updated_at: datetime | None = None
        self.numbers: dict[str, int] = {}
        """The `seq` of every entry, by entry id."""
        self.branches: dict[str, _BranchRow] = {}
        """The row of every branch, by name."""
        for record in base.validate_records(records):
            self._add(record)

    def _add(self, record: Record) -> None:
        entry = record.entry
        parent = None if entry is None else self.numbers.get(entry.parent or "")
        self.rows.append(_build_record_row(record, parent))
        branch = _BranchRow(_encode_name(record.branch), _head_after_record(record), record.seq)
        if entry is None:
            self.branches.setdefault(record.branch, branch)  # only an entry moves a branch
            return
        self.branches[record.branch] = branch
        self.numbers[entry.id] = record.seq
        if entry.time is not None:
            self.updated_at = max(entry.time, self.updated_at or entry.time)


# -- the store ------------------------------------------------------------------------------


@final
class PostgresStore(base.Store):
    """A store that keeps sessions in the tables of a PostgreSQL database.

    The address is a libpq address, `postgresql://user:password@host/database`; `?schema=name`
    names the schema of the tables if it is not `steno`. Missing tables are created.

    If a connection breaks, the operation is repeated on a new one and never writes an entry twice.
    If the connection breaks during a write and the server remains unreachable, it is unknown
    whether the write was stored; in that case, UnconfirmedWrite, a subclass of Unavailable, is
    raised.
    """

    def __init__(self, address: str) -> None:
        """Connect to the database, and create missing tables.

        Raises InvalidValue for an invalid address, Unavailable if the server cannot be used, and
        UnsupportedVersion if the tables have a newer version.
        """
        found = parse_server_address(address)
        self._place = found.place
        make_tables = partial(sql.prepare_connection, schema=found.schema, place=found.place)
        self._connections = ConnectionPool(found, make_tables)
        self._connections.read(lambda connection: None)

    def __repr__(self) -> str:
        return f"PostgresStore({self._place!r})"

    # -- sessions ----------------------------------------------------------------------------

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        id, body, content = _encode_name(header.id), encode_header(header), _SessionRows(records)
        values = [id, body, len(content.rows), len(content.numbers), content.updated_at]

        def add(connection: PostgresConnection, is_again: bool) -> None:
            # Waits for another writer that is adding a session with this id.
            number = connection.row(sql.ADD_SESSION, values)
            if number is None:
                if is_again and connection.row(sql.HEADER, [id]) == (body,):
                    return
                raise base.duplicate_session()
            connection.copy(
                sql.COPY_RECORDS, _RECORD_COLUMN_TYPES, (number + row for row in content.rows)
            )
            for branch in content.branches.values():
                connection.count(sql.ADD_BRANCH, number + branch)

        self._connections.write(add)

    def headers(self) -> Iterator[Header]:
        for _, body in self._rows_by_number(sql.HEADERS):
            yield base.decode_stored_header(body)

    def header(self, session: str) -> Header:
        return base.decode_stored_header(self._session_row(session).header)

    def rename(self, session: str, title: str | None) -> None:
        def put(connection: PostgresConnection, _is_again: bool) -> None:
            number, _ = _lock_session(connection, session)
            header = base.decode_stored_header(
                connection.one(sql.HEADER, [_encode_name(session)])[0]
            )
            body = encode_header(replace(header, title=title))
            connection.count(sql.RENAME, [body, number])

        self._connections.write(put)

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        def put(connection: PostgresConnection, is_again: bool) -> None:
            number, last = _lock_session(connection, session)
            target = _read_append_target(
                connection, number, branch, id=entry.id, parent=entry.parent
            )
            if is_again and target.holds_entry(branch, digest):
                return
            base.check_append(
                branch,
                is_known=target.has_branch,
                head=target.head,
                expected=_encode_optional(expected),
                is_taken=target.existing_record is not None,
            )
            record = Record(seq=last + 1, branch=branch, entry=entry, digest=digest)
            _write_record(connection, number, record, target.parent)

        self._connections.write(put)

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        def begin(connection: PostgresConnection, is_again: bool) -> None:
            number, last = _lock_session(connection, session)
            target = _read_append_target(connection, number, name, id=at)
            if is_again and target.has_branch and target.head == _encode_optional(at):
                return
            base.check_fork(
                is_known=target.has_branch,
                has_start=at is None or target.existing_record is not None,
            )
            _write_record(connection, number, Record(seq=last + 1, branch=name, at=at), None)

        self._connections.write(begin)

    def heads(self, session: str) -> Mapping[str, str | None]:
        rows = self._rows(sql.HEADS, [self._session_row(session).number])
        return {name.decode(): None if head is None else head.decode() for name, head in rows}

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        number = self._session_row(session).number
        wanted: str | None = entry_id
        before: int | None = None
        while wanted is not None:
            # Runs once, unless the record of a parent is missing or is stored after its child.
            found = self._rows(sql.NUMBER, [number, _encode_name(wanted)])
            if not found:
                raise base.missing_entry()
            seq: int | None = found[0][0]
            if before is not None and found[0][0] >= before:
                raise Damaged(
                    "an entry is stored before its parent", code="parent_misplaced", place="store"
                )
            while seq is not None:
                page = self._rows(sql.BACK, _PAGE_LIMITS | {"session": number, "seq": seq})
                if not page:
                    raise _removed_session()
                for _, _, body in page:
                    record = _decode_stored_record(body)
                    if record.entry is None or record.digest is None:
                        raise Damaged(
                            "an entry has no digest", code="digest_missing", place="store"
                        )
                    yield record.entry, record.digest
                    wanted = record.entry.parent
                before, seq, _ = page[-1]

    def records(self, session: str) -> Iterator[Record]:
        """Return the records that a session has at the time of the call."""
        return self._records(self._session_row(session))

    def replace(self, session: str, record: Record) -> None:
        """Overwrite the record with the same `seq`. Raises Missing if there is no such record.

        PostgreSQL retains the old version of a row until a VACUUM, and its words in the index until
        a REINDEX; this method runs both. Copies that a client cannot reach remain until the
        server or its administrator removes them: row versions for transactions that began before,
        the write-ahead log, standbys and backups.

        Raises Unavailable even if only VACUUM or REINDEX failed; in that case, call the method
        again.
        """
        row = _build_record_row(record, None)

        def put(connection: PostgresConnection, _is_again: bool) -> None:
            number, _ = _lock_session(connection, session)
            old = connection.row(sql.RECORD, [number, row.seq])
            base.check_replacement(record, None if old is None else _decode_stored_record(old[0]))
            connection.count(sql.REPLACE, [row.time, row.body, row.words, number, row.seq])

        self._connections.write(put)
        try:
            self._connections.read(_erase_old_versions)
        except Unavailable as exc:
            raise Unavailable(
                "the content was erased, but the server may still have old versions of it; "
                "ask the owner of the table `record` to run VACUUM and REINDEX on it",
                code="old_versions_remain",
                place=self._place,
            ) from exc

    def remove(self, session: str) -> None:
        def remove(connection: PostgresConnection, is_again: bool) -> None:
            if not connection.count(sql.REMOVE, [_encode_name(session)]) and not is_again:
                raise base.missing_session()

        self._connections.write(remove)

    def close(self) -> None:
        """Close all connections; a connection in use is closed when its operation ends."""
        self._connections.close()

    # -- lists and search --------------------------------------------------------------------

    def summary(self, session: str) -> base.SessionOverview:
        found = self._session_row(session)
        header = base.decode_stored_header(found.header)
        first = [
            _decode_stored_record(body)
            for (body,) in self._rows(sql.FIRST, [found.number, base.TITLE_SEARCH_ENTRIES])
        ]
        written = self._rows(sql.LAST_TIME, [found.number])
        return base.SessionOverview(
            header,
            header.title
            or base.derive_title(record.entry for record in first if record.entry is not None),
            found.entries,
            tuple(self.heads(session)),
            _as_utc(found.updated_at),
            _as_utc(written[0][0]) if written else None,
        )

    def search(self, text: str, *, limit: int = 20) -> list[base.SearchHit]:
        wanted = frozenset(base.split_words(text))
        if not wanted or limit <= 0:
            return []
        found = self._rows(sql.SEARCH, [_word_keys(wanted), limit])
        hits = [(session.decode(), _decode_stored_record(body).entry) for session, body in found]
        return [
            base.SearchHit(session, entry, base.build_snippet(searchable_text(entry), wanted))
            for session, entry in hits
            if entry is not None
        ]

    # -- blobs -------------------------------------------------------------------------------

    def put_blob(self, data: bytes) -> str:
        digest, now = hashlib.sha256(data).hexdigest(), utc_now()

        def put(connection: PostgresConnection, _is_again: bool) -> None:
            if connection.count(sql.TOUCH_BLOB, [now, _encode_name(digest)]):
                return
            number = connection.one(sql.ADD_BLOB, [_encode_name(digest), len(data), now])
            for part, start in enumerate(range(0, len(data), _BLOB_PART_BYTES)):
                connection.count(
                    sql.ADD_PART, [*number, part, data[start : start + _BLOB_PART_BYTES]]
                )

        self._connections.write(put)
        return digest

    def blob(self, sha256: str) -> bytes:
        found = self._rows(sql.BLOB, [_encode_name(sha256)])
        if not found:
            raise base.missing_blob()
        parts: list[bytes] = []
        while part := self._rows(sql.PART, [*found[0], len(parts)]):
            parts.append(part[0][0])
        data = b"".join(parts)
        if hashlib.sha256(data).hexdigest() != sha256:
            message = "the bytes do not match the digest; restore the database from a backup"
            raise Damaged(message, code="blob_damaged", place=f"blob {sha256}")
        return data

    def blobs(self) -> Iterator[base.Blob]:
        for _, digest, size, stored_at in self._rows_by_number(sql.BLOBS):
            yield base.Blob(digest.decode(), size, _as_utc(stored_at))

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        values = [_encode_name(sha256), put_before]
        self._connections.write(lambda connection, _: connection.count(sql.REMOVE_BLOB, values))

    # -- queries -----------------------------------------------------------------------------

    def _rows(self, statement: str, values: QueryValues) -> list[ResultRow]:
        return self._connections.read(lambda connection: connection.rows(statement, values))

    def _rows_by_number(self, statement: str) -> Iterator[ResultRow]:
        """Yield rows page by page, ordered by the number in their first column."""
        last = 0
        while page := self._rows(statement, [last, _PAGE_ROWS]):
            yield from page
            last = page[-1][0]

    def _session_row(self, session: str) -> _SessionRow:
        found = self._rows(sql.SESSION, [_encode_name(session)])
        if not found:
            raise base.missing_session()
        return _SessionRow(*found[0])

    def _records(self, session: _SessionRow) -> Iterator[Record]:
        seq, last = 0, session.last
        while seq < last:
            values = _PAGE_LIMITS | {"session": session.number, "after": seq, "last": last}
            page = self._rows(sql.RECORDS, values)
            if not page:
                raise _removed_session()
            for _, body in page:
                yield _decode_stored_record(body)
            seq = page[-1][0]


# -- steps of a transaction ------------------------------------------------------------------


def _lock_session(connection: PostgresConnection, session: str) -> tuple[int, int]:
    """Lock a session against other writers; return its number and its last `seq`."""
    found = connection.row(sql.LOCK, [_encode_name(session)])
    if found is None:
        raise base.missing_session()
    return found[0], found[1]


def _read_append_target(
    connection: PostgresConnection,
    session: int,
    branch: str,
    *,
    id: str | None,
    parent: str | None = None,
) -> _AppendTarget:
    values = {
        "session": session,
        "branch": _encode_name(branch),
        "id": _encode_optional(id),
        "parent": _encode_optional(parent),
    }
    return _AppendTarget(*connection.one(sql.PLACE, values))


def _write_record(
    connection: PostgresConnection, session: int, record: Record, parent: int | None
) -> None:
    row = _build_record_row(record, parent)
    values = {
        "session": session,
        "branch": _encode_name(record.branch),
        "head": _head_after_record(record),
    }
    connection.count(sql.WRITE, values | row._asdict())


def _erase_old_versions(connection: PostgresConnection) -> None:
    for statement in sql.CLEAN:
        connection.script(statement)


def _removed_session() -> Missing:
    return Missing(
        "the session was removed while it was being read", code="session_removed", place="store"
    )


def _encode_optional(text: str | None) -> bytes | None:
    return None if text is None else _encode_name(text)


# -- values to rows --------------------------------------------------------------------------


def _build_record_row(record: Record, parent: int | None) -> _RecordRow:
    """Return the row of a record; `parent` is the `seq` of the parent of its entry."""
    body, entry = encode_record(record), record.entry
    if entry is None:
        return _RecordRow(record.seq, None, None, None, body, None)
    keys = _word_keys(base.split_words(searchable_text(entry)))
    return _RecordRow(record.seq, parent, _encode_name(entry.id), entry.time, body, keys)


def _head_after_record(record: Record) -> bytes | None:
    """Return the id of the last entry of a branch after a record was written to the branch."""
    if record.entry is not None:
        return _encode_name(record.entry.id)
    return None if record.at is None else _encode_name(record.at)


def _word_keys(words: Iterable[str]) -> list[bytes]:
    return [
        word.encode() if len(word) <= _MAX_WORD_LENGTH else hashlib.sha256(word.encode()).digest()
        for word in dict.fromkeys(words)
    ]


def _encode_name(text: str) -> bytes:
    """Encode a name or id. Names with lone surrogates are never stored, so they are not found."""
    return text.encode("utf-8", "surrogatepass")


# -- rows to values --------------------------------------------------------------------------


def _decode_stored_record(body: bytes) -> Record:
    try:
        return decode_record(body)
    except InvalidDocument as exc:
        raise Damaged("a record cannot be read", code="record_unreadable", place="store") from exc


def _as_utc(time: Any) -> Any:
    """Add the time zone to a time that was selected `AT TIME ZONE 'UTC'`; None for None."""
    return None if time is None else time.replace(tzinfo=UTC)
