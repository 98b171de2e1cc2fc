"""A store on a PostgreSQL server, which many machines can use at once."""

from steno.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
