"""A store on a PostgreSQL server, for many machines."""

from steno.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
