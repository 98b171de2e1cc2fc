"""Broken stores that another process can open. Imports little, since that process starts often."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from steno.errors import Conflict, Damaged, InvalidDocument, Missing, Unavailable
from steno.log.chain import Verification
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store import Blob, Store
from steno.store.jsonl import JsonlStore
from steno.store.jsonl.session_file import decode_line


class Wrapped(Store):
    """A wrapper of a correct store; a subclass adds one fault."""

    fails: ClassVar[str] = ""
    """The cases that find it out."""
    may_fail: ClassVar[str] = ""
    """The cases that find it out if a process is killed at a certain moment."""

    def __init__(self, good: Store) -> None:
        self.good = good

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        self.good.add_session(header, records)

    def headers(self) -> Iterator[Header]:
        return self.good.headers()

    def header(self, session: str) -> Header:
        return self.good.header(session)

    def rename(self, session: str, title: str | None) -> None:
        self.good.rename(session, title)

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

    fails = (
        "two_processes_same_branch full_disk torn_last_record nul_padding truncated_files "
        "read_only_store crash"
    )

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
    """Raises OSError when the disk is full."""

    fails = "full_disk read_only_store"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        try:
            super().append(session, entry, **place)
        except Unavailable as exc:
            raise OSError(28, "No space left on device") from exc


class LocksOthersOut(Wrapped):
    """Belongs to the process that opened it first."""

    fails = (
        "writes_visible_to_others two_processes_same_branch two_processes_two_branches full_disk "
        "read_only_store crash"
    )


class RacesWithOthers(Wrapped):
    """Appends without comparing the last entry with `expected`."""

    fails = "two_processes_same_branch"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        time.sleep(0.005)  # so that two processes overlap on a busy machine, too
        place["expected"] = self.heads(session).get(place["branch"])
        super().append(session, entry, **place)


class RefusesTornFiles(Wrapped):
    """Reports a torn tail as damage."""

    fails = "torn_last_record nul_padding"
    may_fail = "crash"


class MendsTooMuch(Wrapped):
    """Truncates a torn record and the complete record before it."""

    fails = "torn_last_record nul_padding truncated_files"
    may_fail = "crash"


class VouchesForAll(Wrapped):
    """Skips records that it cannot read, and reports an intact session."""

    fails = "spliced_files"
    may_fail = "crash"

    def verify(self, session: str) -> Verification:
        return super().verify(session)._replace(bad=None)


def open_refuses_torn_files(address: str) -> Store:
    for path in _short_files(address):
        if not path.read_bytes().endswith(b"\n"):
            raise Damaged(f"{path.name}: it is torn")
    return RefusesTornFiles(JsonlStore(Path(address)))


def open_mends_too_much(address: str) -> Store:
    for path in _short_files(address):
        *lines, tail = path.read_bytes().split(b"\n")
        if tail:
            path.write_bytes(b"".join(line + b"\n" for line in lines[:-1]))
    return MendsTooMuch(JsonlStore(Path(address)))


def open_vouches_for_all(address: str) -> Store:
    for path in _short_files(address):
        lines = path.read_bytes().splitlines(keepends=True)
        if not all(map(_is_whole, lines)):
            path.write_bytes(b"".join([line for line in lines if _is_whole(line)]))
    return VouchesForAll(JsonlStore(Path(address)))


def _short_files(address: str) -> list[Path]:
    """Return files in which a kill hardly ever tears a record; else `crash` would fail often."""
    return [path for path in Path(address).glob("*.jsonl") if path.stat().st_size < 200_000]


def _is_whole(line: bytes) -> bool:
    try:
        decode_line(line)
    except (Damaged, InvalidDocument):
        return False
    return line.endswith(b"\n")


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
