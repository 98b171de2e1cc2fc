"""Find the store that an address names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final, cast

from steno.errors import InvalidValue
from steno.store.memory import MemoryStore
from steno.store.store import Store

_KINDS: Final = ("sqlite", "jsonl", "postgresql", "memory")


def open_store(address: str | Path) -> Store:
    """Open the store at an address, and make it if there is none yet.

    `sqlite:FILE`, `jsonl:FOLDER`, `postgresql://...` or `memory:`; a plain path is a SQLite file.
    Raises InvalidValue for any other address, Unavailable if it cannot be opened.
    """
    if isinstance(address, Path):
        return _open("sqlite", "SqliteStore", address)
    kind, colon, rest = address.partition(":")
    if kind == "sqlite" and rest:
        return _open("sqlite", "SqliteStore", Path(rest))
    if kind == "jsonl" and rest:
        return _open("jsonl", "JsonlStore", Path(rest))
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        return _open("postgres", "PostgresStore", address)
    if kind == "memory" and not rest:
        return MemoryStore()
    if not colon and address:
        return _open("sqlite", "SqliteStore", Path(address))
    kinds = ", ".join(f"{kind}:" for kind in _KINDS)
    raise InvalidValue(f"store: an address begins with one of {kinds} and says where")


def _open(module: str, name: str, place: str | Path) -> Store:
    kind = getattr(import_module(f"steno.store.{module}"), name)
    return cast("Store", kind(place))
