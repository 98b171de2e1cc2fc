"""A store in memory, for tests and for sessions that are not saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import final

from msgspec.structs import replace

from steno.errors import Damaged
from steno.ids import utc_now
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store import base


@final
class _MemorySession:
    """The records of a session, with its branches and the position of every entry."""

    def __init__(self, header: Header, records: Iterable[Record]) -> None:
        self.header = header
        self.records: list[Record] = []
        self.heads = base.BranchHeads()
        self.by_id: dict[str, int] = {}
        for record in base.validate_records(records):
            self.add(record)

    def add(self, record: Record) -> None:
        entry = record.entry
        if entry is None:
            self.heads.begin(record.branch, record.at)
        else:
            self.by_id[entry.id] = len(self.records)
            self.heads.write(record.branch, entry.id)
        self.records.append(record)


@final
class MemoryStore(base.Store):
    """A store that keeps its content in memory, and remains usable after `close`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: dict[str, _MemorySession] = {}
        self._blobs: dict[str, tuple[bytes, datetime]] = {}

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        session = _MemorySession(header, records)
        with self._lock:
            if header.id in self._sessions:
                raise base.duplicate_session()
            self._sessions[header.id] = session

    def headers(self) -> Iterator[Header]:
        with self._lock:
            return iter([session.header for session in self._sessions.values()])

    def header(self, session: str) -> Header:
        with self._lock:
            return self._session(session).header

    def rename(self, session: str, title: str | None) -> None:
        with self._lock:
            found = self._session(session)
            found.header = replace(found.header, title=title)

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        with self._lock:
            found = self._session(session)
            base.check_append(
                branch,
                is_known=branch in found.heads,
                head=found.heads.of(branch),
                expected=expected,
                is_taken=entry.id in found.by_id,
            )
            seq = len(found.records) + 1
            found.add(Record(seq=seq, branch=branch, entry=entry, digest=digest))

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        with self._lock:
            found = self._session(session)
            base.check_fork(is_known=name in found.heads, has_start=at is None or at in found.by_id)
            found.add(Record(seq=len(found.records) + 1, branch=name, at=at))

    def heads(self, session: str) -> Mapping[str, str | None]:
        with self._lock:
            return self._session(session).heads.all()

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        with self._lock:
            found = self._session(session)
        wanted: str | None = entry_id
        for _ in range(len(found.records) + 1):
            if wanted is None:
                return
            number = found.by_id.get(wanted)
            if number is None:
                raise base.missing_entry()
            record = found.records[number]
            if record.entry is None or record.digest is None:
                raise Damaged("an entry has no digest", code="digest_missing", place="store")
            yield record.entry, record.digest
            wanted = record.entry.parent
        message = "the parents of an entry form a cycle; verify the session"
        raise Damaged(message, code="parents_circular", place="store")

    def records(self, session: str) -> Iterator[Record]:
        with self._lock:
            return iter(list(self._session(session).records))

    def replace(self, session: str, record: Record) -> None:
        with self._lock:
            records = self._session(session).records
            base.check_replacement(
                record, records[record.seq - 1] if record.seq <= len(records) else None
            )
            records[record.seq - 1] = record

    def remove(self, session: str) -> None:
        with self._lock:
            self._session(session)
            del self._sessions[session]

    def close(self) -> None:
        """Do nothing, since a store in memory remains usable after `close`."""

    def put_blob(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        with self._lock:
            self._blobs[digest] = (bytes(data), utc_now())
        return digest

    def blob(self, sha256: str) -> bytes:
        with self._lock:
            found = self._blobs.get(sha256)
        if found is None:
            raise base.missing_blob()
        return found[0]

    def blobs(self) -> Iterator[base.Blob]:
        with self._lock:
            found = list(self._blobs.items())
        return iter([base.Blob(digest, len(data), time) for digest, (data, time) in found])

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        with self._lock:
            found = self._blobs.get(sha256)
            if found is not None and (put_before is None or found[1] <= put_before):
                del self._blobs[sha256]

    def _session(self, session: str) -> _MemorySession:
        found = self._sessions.get(session)
        if found is None:
            raise base.missing_session()
        return found
