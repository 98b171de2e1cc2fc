"""A store in one SQLite file."""

from steno.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
