"""What is tested: a place where a kind of store keeps things, and how it is opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, cast

from steno.store import MemoryStore, Store
from steno.store.locate import read_address

OPEN_STORE: Final = "steno.store:open_store"
"""What opens an address, unless a subject says otherwise."""


class NotApplicable(Exception):
    """A case asks for what this kind of store does not promise."""


class Scale(NamedTuple):
    """How much of everything; smaller for a quick look."""

    entries: int = 100_000
    sessions: int = 200
    writes: int = 40
    """Of each thread or process that writes beside others."""
    crashes: int = 20
    places: int = 400
    """In how many places a file is damaged; in every one if it is no longer than that."""


class Subject(ABC):
    """A place of its own for one kind of store. The kit leaves nothing behind in it.

    Another process opens the same place by calling `opener` with `address`.
    """

    name: str
    address: str
    opener: str = OPEN_STORE
    """A function that takes an address and returns a Store, as `module:function`."""
    is_durable: ClassVar[bool] = True
    """Whether what was written is there after the process has ended, or was ended."""
    is_shared: ClassVar[bool] = True
    """Whether several processes may use the place at once."""
    scale: Scale = Scale()

    @abstractmethod
    def open(self) -> Store:
        """Open the place, once more if it is open already."""

    def files(self) -> Iterable[Path] | None:
        """Return all files that it has on this machine by now; None if it never has any.

        Cases damage them to see what the store makes of that, and put them back.
        """
        return None


class AddressSubject(Subject):
    """A place that an address names."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        opener: str = OPEN_STORE,
        root: Path | None = None,
        scale: Scale = Scale(),  # noqa: B008 - it is a tuple, and cannot change
    ) -> None:
        """Name a place. `root` is a folder with all of its files, or the first part of their names.

        Where `open_store` knows the address it need not be given.
        """
        self.name = name
        self.address = address
        self.opener = opener
        self.scale = scale
        self._root = root

    def open(self) -> Store:
        """Open the place."""
        return find_opener(self.opener)(self.address)

    def files(self) -> Iterable[Path] | None:
        """Return what is in its folder, or begins with the name of its file."""
        is_known = self._root is None and self.opener == OPEN_STORE
        root = read_address(self.address).location if is_known else self._root
        if not isinstance(root, Path):
            return None
        found = root.rglob("*") if root.is_dir() else root.parent.glob(f"{escape(root.name)}*")
        return [path for path in found if path.is_file()]


class MemorySubject(Subject):
    """A store that nobody else can reach; opening it again gives the same one."""

    is_durable = False
    is_shared = False

    def __init__(
        self,
        store: Store | None = None,
        *,
        name: str = "memory",
        scale: Scale = Scale(),  # noqa: B008 - it is a tuple, and cannot change
    ) -> None:
        self.name = name
        self.address = "memory:"
        self.scale = scale
        self._store = MemoryStore() if store is None else store

    def open(self) -> Store:
        """Return the one store."""
        return self._store


def opener_argument(place: str) -> str:
    """Take `module:function` from a command line. Raises ArgumentTypeError unless it is there.

    It stays a name, since other processes are told it.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ArgumentTypeError(f"{place}: write MODULE:FUNCTION")
    try:
        found = find_opener(place)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise ArgumentTypeError(f"{place} cannot be imported: {exc}") from exc
    if not callable(found):
        raise ArgumentTypeError(f"{place} is no function")
    return place


def find_opener(place: str) -> Callable[[str], Store]:
    """Find what `module:function` names. Raises ImportError or AttributeError."""
    module, _, name = place.partition(":")
    return cast("Callable[[str], Store]", getattr(import_module(module), name))
