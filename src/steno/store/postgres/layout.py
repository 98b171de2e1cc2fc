"""The tables of a store in PostgreSQL, and their migrations.

Ids, names and words are stored as bytes: text refuses NUL, and depends on the encoding of the
database. Names may be of any length and an index takes some 2,700 bytes, so their SHA-256 is
indexed. Entries refer to their parent by its number.
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
"""The first creates version 1, each one after it leads to the next version."""

LAYOUT_VERSION: Final = len(_MIGRATIONS)

_SESSION_SETTINGS: Final = """
    SELECT
        set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
        set_config('idle_in_transaction_session_timeout', '20s', false),
        set_config('lock_timeout', '30s', false)
"""
"""Commits are durable, and a client that hangs does not block the others for long.

No transaction of ours waits for its client, and `lock_timeout` is longer than the idle timeout.
"""


def prepare_connection(connection: PostgresConnection, *, schema: str, place: str) -> None:
    """Create or migrate the tables; of several processes one does, the others wait.

    Raises UnsupportedVersion if they have a newer version.
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
            f"the tables are of version {version}, this steno knows {LAYOUT_VERSION}; upgrade it",
            place=place,
        )


def _read_version(connection: PostgresConnection, schema: str) -> int:
    # Not to_regclass, which reads a cache: that does not see tables that another process created
    # while this one waited for the lock.
    tables = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'version'"
    if connection.row(tables, [schema]) is None:
        return 0
    return int(connection.one("SELECT number FROM {s}.version")[0])


def _migrate(connection: PostgresConnection, schema: str, version: int) -> None:
    # Checked first: a user without the right to create schemas may not "create" an existing one.
    schemas = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s"
    if connection.row(schemas, [schema]) is None:
        connection.script("CREATE SCHEMA {s}")
    for step in _MIGRATIONS[version:]:
        connection.script(step)
    connection.count("UPDATE {s}.version SET number = %s", [LAYOUT_VERSION])
