"""Parse the address of a store and open it; without an address, open the default store."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from steno.errors import InvalidDocument, InvalidValue, Missing, Unavailable
from steno.ports import strip_url_secrets
from steno.store.base import Store
from steno.store.memory import MemoryStore

STORE_VARIABLE: Final = "STENO_STORE"
"""The environment variable with the address of the default store."""
_SQLITE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
"""Paths with these suffixes are SQLite files even without the prefix `sqlite:`."""
_SQLITE_MAGIC: Final = b"SQLite format 3\0"


class StoreAddress(NamedTuple):
    """The kind of a store and its location."""

    kind: str
    location: Path | str
    """A file or folder; for a server, the whole address, which may contain a password."""

    @property
    def exists(self) -> bool:
        """Whether the file or folder exists; always True for a server and for `memory:`."""
        return not isinstance(self.location, Path) or self.location.exists()

    def __str__(self) -> str:
        if isinstance(self.location, Path):
            return f"{self.kind}:{self.location}"
        return strip_url_secrets(self.location) or f"{self.kind}:"


def read_address(address: str | Path) -> StoreAddress:
    """Parse `sqlite:FILE`, `jsonl:FOLDER`, `postgresql://...`, `memory:`, or the path of a file.

    A `Path` is always a SQLite file. A string without a kind is a SQLite file if it has a suffix
    such as .db, or if the file exists. Raises InvalidValue for anything else.
    """
    if isinstance(address, Path):
        return StoreAddress("sqlite", address)
    kind, colon, rest = address.partition(":")
    if kind in ("sqlite", "jsonl") and rest:
        return StoreAddress(kind, _parse_path(kind, rest))
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        return StoreAddress(kind, address)
    if kind == "memory" and colon and not rest:
        return StoreAddress(kind, "")
    if address and not colon:
        path = _expand_home(address)
        if path.suffix not in _SQLITE_SUFFIXES and not path.is_file():
            message = (
                f"{address} does not name the kind of store; "
                f"use sqlite:{address} or jsonl:{address}"
            )
            raise InvalidValue(message, code="store_kind_missing", place="store")
        return StoreAddress("sqlite", path)
    message = "invalid store address; use sqlite:FILE, jsonl:FOLDER, postgresql://... or memory:"
    raise InvalidValue(message, code="store_address_invalid", place="store")


def default_address() -> StoreAddress:
    """Return the address of the default store.

    The address is the value of STENO_STORE, or else the SQLite file `steno/steno.db` in
    XDG_DATA_HOME or ~/.local/share.
    """
    configured = os.environ.get(STORE_VARIABLE, "")
    return read_address(configured) if configured else _default_file_address()


def _default_file_address() -> StoreAddress:
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(data) if data.startswith("/") else _home_folder() / ".local" / "share"
    return StoreAddress("sqlite", folder / "steno" / "steno.db")


def open_store(address: str | Path | StoreAddress | None = None, *, create: bool = True) -> Store:
    """Open the store at an address, or the default store; create it if it does not exist.

    Raises InvalidValue for an invalid address or a file of another program, Unavailable if the
    store cannot be opened, and Missing if the store does not exist and `create` is false.
    """
    if address is None:
        found = default_address()
    else:
        found = address if isinstance(address, StoreAddress) else read_address(address)
    if found.kind == "memory":
        return MemoryStore()
    if not create and not found.exists:
        raise Missing(f"no store at {found}", code="store_missing", place="store")
    check_location(found)
    return _open_kind(found)


def _open_kind(address: StoreAddress) -> Store:
    """Open a store. The class of each kind is imported, with its driver, on first use."""
    kind, location = address
    if kind == "sqlite":
        from steno.store.sqlite import SqliteStore  # noqa: PLC0415 - sqlite3 is not always needed

        return SqliteStore(location)
    if kind == "jsonl":
        try:
            from steno.store.jsonl import JsonlStore  # noqa: PLC0415 - fcntl is not always needed
        except ModuleNotFoundError as exc:
            if exc.name != "fcntl":  # Windows lacks it
                raise
            message = "a JSONL store needs the file locks of Linux or macOS; use sqlite:FILE"
            raise Unavailable(message, code="no_file_locks", place="store") from exc

        return JsonlStore(Path(location))
    from steno.store.postgres import PostgresStore  # noqa: PLC0415 - psycopg is an extra

    return PostgresStore(str(location))


def check_location(address: StoreAddress) -> None:
    """Check the location of a store before a file or folder is created.

    Parent folders are created only for the default store, since any other path may contain a typo.
    Raises Unavailable if the parent folder is missing, and InvalidDocument if the file belongs to
    another program.
    """
    path = address.location
    if not isinstance(path, Path):
        return
    folder = path.absolute().parent
    if not folder.exists() and not _is_default_file(address):
        message = f"the folder {folder} does not exist; create it or use another path"
        raise Unavailable(message, code="store_folder_missing", place="store")
    with suppress(OSError):  # opening the store reports the error with a better message
        if address.kind == "sqlite" and path.is_file():
            with path.open("rb") as file:
                start = file.read(len(_SQLITE_MAGIC))
            if start not in (b"", _SQLITE_MAGIC):
                message = f"{address} is not a steno store; use another file"
                raise InvalidDocument(message, code="not_a_store", place="store")


def _is_default_file(address: StoreAddress) -> bool:
    try:
        return address == _default_file_address()
    except InvalidValue:  # the home folder is unknown
        return False


def _parse_path(kind: str, text: str) -> Path:
    """Return the path in the address of a SQLite or JSONL store.

    Raises InvalidValue if the path has no file name but the store is a file, or if the path is
    written like a URL with a host.
    """
    path = _expand_home(text)
    if kind == "sqlite" and not path.name:  # `.` or `/`
        message = f"{kind}:{text} is a folder; name a file in it"
        raise InvalidValue(message, code="store_address_invalid", place="store")
    if text.startswith("//") and not text.startswith("///"):  # written like a URL with a host
        name = text.lstrip("/")
        message = (
            f"invalid store address; use {kind}:{name} (relative) or {kind}:/{name} (absolute)"
        )
        raise InvalidValue(message, code="store_address_invalid", place="store")
    return path


def _expand_home(path: str) -> Path:
    """Expand a leading ~ in a path, since a shell does not expand it after a colon."""
    return Path(path).expanduser() if path.startswith("~/") else Path(path)


def _home_folder() -> Path:
    if os.environ.get("HOME") != "":  # Path.home() is "/" if HOME is empty
        with suppress(RuntimeError):
            return Path.home()
    message = f"the home folder is unknown; set HOME or {STORE_VARIABLE}, or pass a store address"
    raise InvalidValue(message, code="home_unknown", place="store")
