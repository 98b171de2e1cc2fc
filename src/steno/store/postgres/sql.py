"""The SQL of the PostgreSQL store: its tables, their migrations and all statements.

The connection replaces `{s}` with the name of the schema.

Ids, names and words are stored as `bytea`, since `text` rejects NUL and depends on the encoding of
the database. Names may have any length, but an index key is limited to about 2,700 bytes, so the
SHA-256 of each name is indexed. Entries refer to their parent by its `seq`.
"""

from __future__ import annotations

from typing import Final

from steno.errors import UnsupportedVersion
from steno.store.postgres.connections import PostgresConnection

_MIGRATIONS: Final = (
    """
    CREATE TABLE {s}.version (number integer NOT NULL);
    INSERT INTO {s}.version VALUES (0);

    CREATE TABLE {s}.session (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id bytea NOT NULL,
        header bytea NOT NULL,
        last bigint NOT NULL,
        entries bigint NOT NULL,
        updated_at timestamptz
    );
    COMMENT ON COLUMN {s}.session.last IS 'the number of the last record';
    CREATE UNIQUE INDEX session_id ON {s}.session (sha256(id));

    CREATE TABLE {s}.record (
        session bigint NOT NULL REFERENCES {s}.session ON DELETE CASCADE,
        seq bigint NOT NULL,
        parent bigint,
        id bytea,
        time timestamptz,
        body bytea NOT NULL,
        words bytea[],
        PRIMARY KEY (session, seq)
    );
    COMMENT ON COLUMN {s}.record.id IS 'of the entry; none where a branch begins';
    COMMENT ON COLUMN {s}.record.parent IS 'seq of the entry before it';
    CREATE UNIQUE INDEX record_id ON {s}.record (session, sha256(id));
    CREATE INDEX record_words ON {s}.record USING gin (words);

    CREATE TABLE {s}.branch (
        session bigint NOT NULL REFERENCES {s}.session ON DELETE CASCADE,
        name bytea NOT NULL,
        head bytea,
        seq bigint NOT NULL
    );
    COMMENT ON COLUMN {s}.branch.head IS 'id of its last entry';
    COMMENT ON COLUMN {s}.branch.seq IS 'its last record';
    CREATE UNIQUE INDEX branch_name ON {s}.branch (session, sha256(name));

    CREATE TABLE {s}.blob (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sha256 bytea NOT NULL UNIQUE,
        size bigint NOT NULL,
        stored_at timestamptz NOT NULL
    );
    CREATE TABLE {s}.blob_part (
        blob bigint NOT NULL REFERENCES {s}.blob ON DELETE CASCADE,
        part integer NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (blob, part)
    );
    ALTER TABLE {s}.blob_part ALTER data SET STORAGE EXTERNAL;
    """,
)
"""The first migration creates version 1; each later migration upgrades to the next version."""

LAYOUT_VERSION: Final = len(_MIGRATIONS)

_SESSION_SETTINGS: Final = """
    SELECT
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
        set_config('idle_in_transaction_session_timeout', '20s', false),
        set_config('lock_timeout', '30s', false)
"""
"""Makes commits durable, and ends transactions of clients that hang.

Transactions of steno are never idle for long, so the idle timeout ends only clients that hang.
`lock_timeout` is longer than the idle timeout, so that a writer that waits for such a client gets
the lock before its own wait times out.
"""


def prepare_connection(connection: PostgresConnection, *, schema: str, place: str) -> None:
    """Prepare a new connection, and create or migrate the tables in one process at a time.

    Raises UnsupportedVersion if the tables have a newer version.
    """
    connection.row(_SESSION_SETTINGS)
    version = _read_version(connection, schema)
    if version < LAYOUT_VERSION:
        with connection.transaction():
            connection.row("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{schema}.*"])
            version = _read_version(connection, schema)
            if version < LAYOUT_VERSION:
                _migrate(connection, schema, version)
                version = LAYOUT_VERSION
    if version > LAYOUT_VERSION:
        raise UnsupportedVersion(
            f"the tables have version {version}, but this version of steno supports versions up to "
            f"{LAYOUT_VERSION}; upgrade steno",
            place=place,
        )


def _read_version(connection: PostgresConnection, schema: str) -> int:
    # Not to_regclass: it reads a cache, which lacks tables that another process created while this
    # one waited for the lock.
    tables = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'version'"
    if connection.row(tables, [schema]) is None:
        return 0
    return int(connection.one("SELECT number FROM {s}.version")[0])


def _migrate(connection: PostgresConnection, schema: str, version: int) -> None:
    # Not CREATE SCHEMA IF NOT EXISTS: it fails for a user who may not create schemas, even if the
    # schema exists.
    schemas = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
    if connection.row(schemas, [schema]) is None:
        connection.script("CREATE SCHEMA {s}")
    for step in _MIGRATIONS[version:]:
        connection.script(step)
    connection.count("UPDATE {s}.version SET number = %s", [LAYOUT_VERSION])


# -- sessions --------------------------------------------------------------------------------

SESSION: Final = """
    SELECT number, header, last, entries, updated_at AT TIME ZONE 'UTC'
    FROM {s}.session WHERE sha256(id) = sha256(%s)
"""
LOCK: Final = "SELECT number, last FROM {s}.session WHERE sha256(id) = sha256(%s) FOR UPDATE"
ADD_SESSION: Final = """
    INSERT INTO {s}.session (id, header, last, entries, updated_at) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT DO NOTHING RETURNING number
"""
REMOVE: Final = "DELETE FROM {s}.session WHERE sha256(id) = sha256(%s)"
HEADER: Final = "SELECT header FROM {s}.session WHERE sha256(id) = sha256(%s)"
RENAME: Final = "UPDATE {s}.session SET header = %s WHERE number = %s"
HEADERS: Final = "SELECT number, header FROM {s}.session WHERE number > %s ORDER BY number LIMIT %s"

# -- records and branches --------------------------------------------------------------------

COPY_RECORDS: Final = """
    COPY {s}.record (session, seq, parent, id, time, body, words) FROM STDIN (FORMAT binary)
"""
ADD_BRANCH: Final = "INSERT INTO {s}.branch (session, name, head, seq) VALUES (%s, %s, %s, %s)"
HEADS: Final = """
    SELECT branch.name, branch.head
    FROM {s}.branch LEFT JOIN {s}.record USING (session, seq)
    WHERE session = %s ORDER BY record.id IS NOT NULL, seq
"""
PLACE: Final = """
    SELECT branch.session IS NOT NULL, branch.head, taken.body, parent.seq
    FROM (SELECT %(session)s::bigint AS session) AS here
    LEFT JOIN {s}.branch
        ON branch.session = here.session AND sha256(branch.name) = sha256(%(branch)s)
    LEFT JOIN {s}.record AS taken
        ON taken.session = here.session AND sha256(taken.id) = sha256(%(id)s::bytea)
    LEFT JOIN {s}.record AS parent
        ON parent.session = here.session AND sha256(parent.id) = sha256(%(parent)s::bytea)
"""
WRITE: Final = """
    WITH
    moved AS (
        INSERT INTO {s}.branch (session, name, head, seq)
        VALUES (%(session)s, %(branch)s, %(head)s, %(seq)s)
        ON CONFLICT (session, sha256(name)) DO UPDATE SET head = excluded.head, seq = excluded.seq
        WHERE %(id)s::bytea IS NOT NULL  -- only an entry moves an existing branch
    ),
    counted AS (
        UPDATE {s}.session SET
            last = %(seq)s,
            entries = entries + (%(id)s::bytea IS NOT NULL)::integer,
            updated_at = greatest(updated_at, %(time)s::timestamptz)
        WHERE number = %(session)s
    )
    INSERT INTO {s}.record (session, seq, parent, id, time, body, words)
    VALUES (%(session)s, %(seq)s, %(parent)s, %(id)s, %(time)s, %(body)s, %(words)s::bytea[])
"""
RECORD: Final = "SELECT body FROM {s}.record WHERE session = %s AND seq = %s"
REPLACE: Final = """
    UPDATE {s}.record SET time = %s, body = %s, words = %s::bytea[] WHERE session = %s AND seq = %s
"""
CLEAN: Final = (  # these statements cannot run in a transaction
    # By default, VACUUM skips the indexes if there is little to do.
    "VACUUM (INDEX_CLEANUP ON) {s}.record",
    # GIN keeps a key even if no row has it any more, so the index is rebuilt. An interrupted
    # REINDEX leaves an index `_ccnew`, which is dropped first. Neither statement blocks readers or
    # writers.
    "DROP INDEX CONCURRENTLY IF EXISTS {s}.record_words_ccnew",
    "REINDEX INDEX CONCURRENTLY {s}.record_words",
)
RECORDS: Final = """
    SELECT seq, body FROM (
        SELECT seq, body, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
        FROM (
            SELECT seq, body FROM {s}.record
            WHERE session = %(session)s AND seq > %(after)s AND seq <= %(last)s
            ORDER BY seq LIMIT %(rows)s
        ) AS most
    ) AS page
    WHERE before < %(bytes)s ORDER BY seq
"""
NUMBER: Final = "SELECT seq FROM {s}.record WHERE session = %s AND sha256(id) = sha256(%s)"
BACK: Final = """
    WITH RECURSIVE back AS (
        SELECT seq, parent, body, 1 AS step, octet_length(body)::bigint AS size
        FROM {s}.record WHERE session = %(session)s AND seq = %(seq)s
        UNION ALL
        SELECT record.seq, record.parent, record.body, step + 1, size + octet_length(record.body)
        FROM back JOIN {s}.record ON record.session = %(session)s AND record.seq = back.parent
        WHERE step < %(rows)s AND size < %(bytes)s
    )
    SELECT seq, parent, body FROM back ORDER BY step
"""
FIRST: Final = """
    SELECT body FROM {s}.record WHERE session = %s AND id IS NOT NULL ORDER BY seq LIMIT %s
"""
LAST_TIME: Final = """
    SELECT time AT TIME ZONE 'UTC' FROM {s}.record
    WHERE session = %s AND id IS NOT NULL ORDER BY seq DESC LIMIT 1
"""
SEARCH: Final = """
    SELECT session.id, record.body
    FROM {s}.record JOIN {s}.session ON session.number = record.session
    WHERE record.words @> %s::bytea[]
    ORDER BY record.time DESC NULLS LAST, record.session, record.seq LIMIT %s
"""

# -- blobs -----------------------------------------------------------------------------------

TOUCH_BLOB: Final = "UPDATE {s}.blob SET stored_at = %s WHERE sha256 = %s"
ADD_BLOB: Final = """
    INSERT INTO {s}.blob (sha256, size, stored_at) VALUES (%s, %s, %s)
    ON CONFLICT (sha256) DO UPDATE SET stored_at = excluded.stored_at RETURNING number
"""
ADD_PART: Final = """
    INSERT INTO {s}.blob_part (blob, part, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING
"""
BLOB: Final = "SELECT number FROM {s}.blob WHERE sha256 = %s"
PART: Final = "SELECT data FROM {s}.blob_part WHERE blob = %s AND part = %s"
BLOBS: Final = """
    SELECT number, sha256, size, stored_at AT TIME ZONE 'UTC' FROM {s}.blob
    WHERE number > %s ORDER BY number LIMIT %s
"""
REMOVE_BLOB: Final = """
    DELETE FROM {s}.blob WHERE sha256 = %s AND stored_at <= coalesce(%s, stored_at)
"""
