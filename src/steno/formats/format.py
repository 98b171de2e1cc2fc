"""What a foreign format is to the rest of us, and how what came from one becomes a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from steno.chain import digest_of
from steno.entry import Entry
from steno.identity import new_id
from steno.record import MAIN, Header, Record


class Loss(NamedTuple):
    """Something that a format has no words for, and that is not in the exported file."""

    place: str
    """Where it stands: `entries[3]`, or `session` for what is known of the whole."""
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class Exported(NamedTuple):
    """A file for others, and all that it does not say."""

    data: bytes
    losses: tuple[Loss, ...]


class Imported(NamedTuple):
    """What a file of others says."""

    header: Header
    """Its id is a new one where the file names none."""
    entries: tuple[Entry, ...]
    """One branch in order: ids are unique, and each entry has the one before it as its parent."""


class Format(NamedTuple):
    """A way in which others write conversations down."""

    name: str
    extension: str
    encode: Callable[[Header, Sequence[Entry]], Exported]
    """Write the entries of one branch, in their order."""
    decode: Callable[[bytes], Imported]
    """Read all of a file. Raises InvalidDocument, with the place, and makes nothing by halves."""


class Place(NamedTuple):
    """Where the entries of a branch stand in their session, for people who look them up there."""

    branch: str = ""
    numbers: Mapping[str, int] = MappingProxyType({})
    """What people call each entry, by its id; where it is not said, its place in the branch."""


class Paper(NamedTuple):
    """A way in which people read a conversation; no program reads it back."""

    name: str
    extension: str
    encode: Callable[[Header, Sequence[Entry], Place], Exported]
    """Write the entries of one branch, in their order."""


def seal(entries: Iterable[Entry]) -> tuple[Record, ...]:
    """Turn entries into the records of a new session, on its main branch.

    An id that was used before is replaced by a new one.
    """
    records: list[Record] = []
    digest: str | None = None
    for seq, entry in enumerate(in_line(entries), start=1):
        digest = digest_of(entry, digest)
        records.append(Record(seq=seq, branch=MAIN, entry=entry, digest=digest))
    return tuple(records)


def in_line(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries with unique ids, each with the one before it as its parent."""
    placed: list[Entry] = []
    taken: set[str] = set()
    for entry in entries:
        parent = placed[-1].id if placed else None
        id = new_id() if entry.id in taken else entry.id
        taken.add(id)
        placed.append(entry if (entry.id, entry.parent) == (id, parent) else _at(entry, id, parent))
    return tuple(placed)


def _at(entry: Entry, id: str, parent: str | None) -> Entry:
    if entry.is_understood:
        return replace(entry, id=id, parent=parent)
    # A record of a newer version cannot be changed; it moves on as the payload of one of ours.
    return Entry(id=id, parent=parent, payload=entry.payload)
