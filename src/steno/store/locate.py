"""Find the store that an address names, or the one that is used if nobody names one."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, cast

from steno.errors import InvalidValue, Missing
from steno.ports import without_secrets
from steno.store.memory import MemoryStore
from steno.store.store import Store

VARIABLE: Final = "STENO_STORE"
"""The environment variable that names a store."""
_KINDS: Final = {
    "sqlite": ("sqlite", "SqliteStore"),
    "jsonl": ("jsonl", "JsonlStore"),
    "postgresql": ("postgres", "PostgresStore"),
    "postgres": ("postgres", "PostgresStore"),
}


class Address(NamedTuple):
    """Where a store is."""

    kind: str
    place: Path | str
    """A file or folder; for a server the whole address, which may hold a password."""

    @property
    def is_there(self) -> bool:
        """Whether there is a store; a server will say so itself."""
        return not isinstance(self.place, Path) or self.place.exists()

    def __str__(self) -> str:
        if isinstance(self.place, Path):
            return f"{self.kind}:{self.place}"
        return without_secrets(self.place) or f"{self.kind}:"


def read_address(address: str | Path) -> Address:
    """Read `sqlite:FILE`, `jsonl:FOLDER`, `postgresql://...`, `memory:`, or the path of a file.

    Raises InvalidValue for anything else.
    """
    if isinstance(address, Path):
        return Address("sqlite", address)
    kind, colon, rest = address.partition(":")
    if kind in ("sqlite", "jsonl") and rest:
        return Address(kind, _expanded(rest))
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        return Address(kind, address)
    if kind == "memory" and colon and not rest:
        return Address(kind, "")
    if address and not colon:
        return Address("sqlite", _expanded(address))
    raise InvalidValue(
        "store: an address is sqlite:FILE, jsonl:FOLDER, postgresql://... or memory:"
    )


def default_address() -> Address:
    """Return the store that is used if nobody names one.

    That is what STENO_STORE says, else `steno/steno.db` in XDG_DATA_HOME or ~/.local/share.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked:
        return read_address(asked)
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(data) if data.startswith("/") else _home() / ".local" / "share"
    return Address("sqlite", folder / "steno" / "steno.db")


def open_store(address: str | Path | Address | None = None, *, create: bool = True) -> Store:
    """Open the store at an address, or the default one; make it if there is none yet.

    Raises InvalidValue for what is no address, Unavailable if the store cannot be opened, and
    Missing if there is none and none is to be made.
    """
    if address is None:
        found = default_address()
    else:
        found = address if isinstance(address, Address) else read_address(address)
    if found.kind == "memory":
        return MemoryStore()
    if not create and not found.is_there:
        raise Missing(f"store: there is none at {found}")
    module, name = _KINDS[found.kind]
    kind = getattr(import_module(f"steno.store.{module}"), name)
    return cast("Store", kind(found.place))


def _expanded(path: str) -> Path:
    """Return a path; a shell does not see to ~ behind a colon."""
    return Path(path).expanduser() if path.startswith("~/") else Path(path)


def _home() -> Path:
    if os.environ.get("HOME") != "":  # Python would take that for the root of all folders
        with suppress(RuntimeError):
            return Path.home()
    raise InvalidValue(f"store: no home folder is known; set HOME or {VARIABLE}, or name a store")
