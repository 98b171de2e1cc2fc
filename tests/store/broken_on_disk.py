"""Broken stores that another process can open; it loads nothing else, since it is started often."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from steno.entry import Entry
from steno.errors import Conflict, Missing, Unavailable
from steno.record import Header, Record
from steno.store import Blob, Store
from steno.store.jsonl import JsonlStore


class Wrapped(Store):
    """A good store, as far as a subclass leaves it so."""

    fails: ClassVar[str] = ""
    """The cases that find it out."""

    def __init__(self, good: Store) -> None:
        self.good = good

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        self.good.add_session(header, records)

    def headers(self) -> Iterator[Header]:
        return self.good.headers()

    def header(self, session: str) -> Header:
        return self.good.header(session)

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        self.good.append(session, entry, branch=branch, digest=digest, expected=expected)

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        self.good.begin_branch(session, name, at)

    def heads(self, session: str) -> Mapping[str, str | None]:
        return self.good.heads(session)

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self.good.read_back(session, entry_id)

    def records(self, session: str) -> Iterator[Record]:
        return self.good.records(session)

    def replace(self, session: str, record: Record) -> None:
        self.good.replace(session, record)

    def remove(self, session: str) -> None:
        self.good.remove(session)

    def close(self) -> None:
        self.good.close()

    def put_blob(self, data: bytes) -> str:
        return self.good.put_blob(data)

    def blob(self, sha256: str) -> bytes:
        return self.good.blob(sha256)

    def blobs(self) -> Iterator[Blob]:
        return self.good.blobs()

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        self.good.remove_blob(sha256, put_before=put_before)


class WritesLate(Wrapped):
    """Acknowledges an entry before it is written, which happens with the next call."""

    fails = "two_processes_same_branch full_disk crash"

    def __init__(self, good: Store) -> None:
        super().__init__(good)
        self.late: list[Any] = []

    def _catch_up(self) -> None:
        while self.late:
            session, entry, place = self.late.pop(0)
            self.good.append(session, entry, **place)

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        self._catch_up()
        heads = self.good.heads(session)
        if entry.message is None or heads.get(place["branch"]) != place["expected"]:
            super().append(session, entry, **place)
        else:
            self.late.append((session, entry, place))

    def heads(self, session: str) -> Mapping[str, str | None]:
        self._catch_up()
        return super().heads(session)

    def records(self, session: str) -> Iterator[Record]:
        self._catch_up()
        return super().records(session)

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        self._catch_up()
        super().begin_branch(session, name, at)

    def close(self) -> None:
        with suppress(Conflict, Missing):
            self._catch_up()
        super().close()


class LetsOsErrorsThrough(Wrapped):
    """Knows nothing of full disks."""

    fails = "full_disk"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        try:
            super().append(session, entry, **place)
        except Unavailable as exc:
            raise OSError(28, "No space left on device") from exc


class LocksOthersOut(Wrapped):
    """Belongs to the process that opened it first."""

    fails = "seen_by_others two_processes_same_branch two_processes_two_branches full_disk crash"


class RacesWithOthers(Wrapped):
    """Takes whatever comes for the next entry."""

    fails = "two_processes_same_branch"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        place["expected"] = self.heads(session).get(place["branch"])
        super().append(session, entry, **place)


def open_writes_late(address: str) -> Store:
    return WritesLate(JsonlStore(Path(address)))


def open_lets_os_errors_through(address: str) -> Store:
    return LetsOsErrorsThrough(JsonlStore(Path(address)))


def open_races_with_others(address: str) -> Store:
    return RacesWithOthers(JsonlStore(Path(address)))


def open_locks_others_out(address: str) -> Store:
    owner = Path(f"{address}.owner")
    if not owner.exists():
        owner.write_text(str(os.getpid()))
    if owner.read_text() != str(os.getpid()):
        raise Unavailable("store: another process uses it")
    return LocksOthersOut(JsonlStore(Path(address)))
