"""Sessions in a folder: a file for each, which everyone only adds lines to.

Writers hold an exclusive lock on the file for one record, readers a shared one until they know
how far it reaches; what is before that never changes. To take content out, a new file is written
and put in the place of the old one. What is known of a file is kept, so that no line is read
twice; whether it is still the same file is looked at every time.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, final
from weakref import WeakSet

from msgspec.structs import replace

from steno.errors import Conflict, Damaged, InvalidDocument, LogError, Missing, Unavailable
from steno.records.entry import Entry
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store.atomic_files import (
    append_durably,
    hold_lock,
    make_folder,
    open_draft,
    open_locked,
    remove_stale_drafts,
    sync_folder,
    translate_os_errors,
    unlock,
)
from steno.store.base import Blob, Store, check_replacement, validate_records
from steno.store.jsonl.blobs import BlobFolder
from steno.store.jsonl.session_file import (
    BackwardReader,
    ForeignFile,
    LineSpan,
    SessionFileIndex,
    SessionLine,
    encode_line,
    read_header,
    read_lines,
)

_SUFFIX: Final = ".jsonl"
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_CACHED_ENTRIES: Final = 250_000
"""How many entries, over all sessions, we know the place of; some 75 MB."""
_CACHE_WEIGHT_PER_SESSION: Final = 100
"""A session without entries counts as this many."""
_logger: Final = logging.getLogger("steno.store")


@final
class JsonlStore(Store):
    """Keeps each session in a file of its own, as lines of JSON that other programs can read.

    Whoever finds a file locked for longer than `timeout_s` gets Unavailable, and so does whoever
    uses a store that was closed.
    """

    def __init__(self, folder: Path, *, timeout_s: float = 30.0) -> None:
        """Use a folder, and make it if there is none. Raises Unavailable."""
        with translate_os_errors("store"):
            self._folder: Final = Path(folder).absolute()
            try:
                make_folder(self._folder)
            except ValueError as exc:
                raise Unavailable("store: no folder can have this name; choose another") from exc
            remove_stale_drafts(self._folder)
        self._timeout_s: Final = timeout_s
        self._blobs: Final = BlobFolder(self._folder, timeout_s=timeout_s)
        self._is_closed = False
        self.reset_cache()
        _stores.add(self)

    def reset_cache(self) -> None:
        """Know nothing of any file, as a process that was forked from one whose threads went on."""
        self._lock = Lock()
        self._indexes = OrderedDict[str, SessionFileIndex]()
        """What is known of files, the one used last at the end."""

    # -- sessions ----------------------------------------------------------------------------

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        """Begin a session: write all of it to a draft, then give that its place."""
        path = self._path(header.id)
        with translate_os_errors(path.name), open_draft(self._folder) as draft:
            draft.stream.write(encode_line(header))
            draft.stream.writelines(map(encode_line, validate_records(records)))
            draft.sync()
            # An empty file is no session yet, but it can be locked: so only one can be first.
            with open_locked(path, to_write=True, deadline=self._deadline(), create=True) as file:
                if read_header(file, path.name) is not None:
                    raise Conflict("store: there is a session of this id")
                draft.publish(path)

    def headers(self) -> Iterator[Header]:
        """Return the header of every session; what cannot be read is raised behind the others.

        Files of other programs are left out.
        """
        self._check_open()
        problem: LogError | InvalidDocument | None = None
        with translate_os_errors("store"):
            # Not `glob`, which takes a folder that cannot be read for an empty one.
            found = [path for path in self._folder.iterdir() if path.suffix == _SUFFIX]
            paths = [path for path in found if path.is_file()]
        for path in paths:
            try:
                header = self._header_of(path)
            except Missing:
                continue  # it was removed meanwhile
            except ForeignFile as exc:
                _logger.warning("left out %s", exc)
                continue
            except (LogError, InvalidDocument) as exc:
                problem = problem or exc
                continue
            if header is None:
                continue  # it was never there as a whole
            if self._path(header.id) == path:
                yield header
            else:
                _logger.warning("%s: left out; its session is kept in another file", path.name)
        if problem is not None:
            raise problem

    def header(self, session: str) -> Header:
        """Return the header of a session."""
        return _check_id(self._header_of(self._path(session)), session)

    def rename(self, session: str, title: str | None) -> None:
        """Give a session another title, in a new file."""
        with self._open_for_rewriting(session) as (lines, stream):
            for line in lines:
                raw = line.raw
                if isinstance(line.content, Header):
                    raw = encode_line(replace(line.content, title=title))
                stream.write(raw)

    def records(self, session: str) -> Iterator[Record]:
        """Return all records of a session, read as they are asked for."""
        self.header(session)
        return self._records(session)

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        """Put an entry at the end of a branch, with one write."""
        with self._open_for_writing(session) as (file, log):
            if branch not in log.heads and branch != MAIN_BRANCH:
                raise Missing("store: there is no branch of this name")
            if log.heads.of(branch) != expected:
                raise Conflict("store: the branch has moved on; refresh the conversation")
            if entry.id in log.spans:
                raise Conflict("store: there is an entry of this id")
            seq = log.last_seq + 1
            _append_record(file, log, Record(seq=seq, branch=branch, entry=entry, digest=digest))

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        """Let a branch begin behind an entry."""
        with self._open_for_writing(session) as (file, log):
            if name in log.heads:
                raise Conflict("store: there is a branch of this name")
            if at is not None and at not in log.spans:
                raise Missing("store: there is no entry of this id")
            _append_record(file, log, Record(seq=log.last_seq + 1, branch=name, at=at))

    def heads(self, session: str) -> Mapping[str, str | None]:
        """Return the last entry of every branch."""
        with self._open_for_reading(session) as known:
            return known.heads

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an entry, then its parent and so on; no other is read."""
        wanted: str | None = entry_id
        for _ in range(2):
            for found in self._read_back_from(session, wanted):
                yield found
                wanted = found[0].parent
            if wanted is None:
                return
            # The next is not where it was. If the file is damaged, reading all of it says where;
            # if it was rewritten in a way that could not be noticed, we go on.
            log = self._index_of(session)
            with hold_lock(log.lock, self._path(session).name, deadline=self._deadline()):
                log.reset()
        raise Damaged("store: the parents of an entry lead nowhere; verify the session")

    def replace(self, session: str, record: Record) -> None:
        """Write a record over the one of the same `seq`, in a new file."""
        with self._open_for_rewriting(session) as (lines, stream):
            old: Record | None = None
            for line in lines:
                raw = line.raw
                if isinstance(line.content, Record) and line.content.seq == record.seq:
                    old, raw = line.content, encode_line(record)
                stream.write(raw)
            check_replacement(record, old)

    def remove(self, session: str) -> None:
        """Forget a session, also one that cannot be read."""
        path, deadline = self._path(session), self._deadline()
        with (
            translate_os_errors(path.name),
            open_locked(path, to_write=True, deadline=deadline) as file,
        ):
            try:
                _check_id(read_header(file, path.name), session)
            except ForeignFile:
                raise
            except (Damaged, InvalidDocument):
                pass
            path.unlink()
            sync_folder(self._folder)
        with self._lock:
            self._indexes.pop(path.name, None)

    def close(self) -> None:
        """Forget what is known of the files; none is open."""
        self._is_closed = True
        with self._lock:
            self._indexes.clear()

    # -- blobs -------------------------------------------------------------------------------

    def put_blob(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256."""
        self._check_open()
        return self._blobs.put(data)

    def blob(self, sha256: str) -> bytes:
        """Return the bytes."""
        self._check_open()
        return self._blobs.read(sha256)

    def blobs(self) -> Iterator[Blob]:
        """Return what is known of every blob."""
        self._check_open()
        return self._blobs.list()

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        """Forget a blob."""
        self._check_open()
        self._blobs.remove(sha256, put_before=put_before)

    # -- inside ------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("store: the store was closed; open it again")

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _path(self, session: str) -> Path:
        """Return the file of a session. An id that makes no good name gives way to its digest.

        Raises Unavailable if the store was closed.
        """
        self._check_open()
        if _PLAIN_ID.fullmatch(session):
            return self._folder / f"{session}{_SUFFIX}"
        digest = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"_{digest}{_SUFFIX}"  # no plain id begins like this

    def _index_of(self, session: str) -> SessionFileIndex:
        """Return what is known of a session; of those not used for long nothing is."""
        name = self._path(session).name
        with self._lock:
            log = self._indexes.get(name)
            if log is None:
                log = self._indexes[name] = SessionFileIndex(name)
                weight = sum(
                    len(other.spans) + _CACHE_WEIGHT_PER_SESSION for other in self._indexes.values()
                )
                while weight > _MAX_CACHED_ENTRIES and len(self._indexes) > 1:
                    _, oldest = self._indexes.popitem(last=False)
                    weight -= len(oldest.spans) + _CACHE_WEIGHT_PER_SESSION
            else:
                self._indexes.move_to_end(name)
            return log

    @contextmanager
    def _open_for_writing(self, session: str) -> Generator[tuple[int, SessionFileIndex]]:
        """Keep all others from a session, and know what is in it. Raises Missing, Damaged."""
        log, path, deadline = self._index_of(session), self._path(session), self._deadline()
        with (
            translate_os_errors(path.name),
            hold_lock(log.lock, path.name, deadline=deadline),
            open_locked(path, to_write=True, deadline=deadline) as file,
        ):
            torn = log.catch_up(file)
            _check_id(log.header, session)
            if torn:
                os.ftruncate(file, log.end)
                _logger.warning("%s: cut off a record that was not written whole", path.name)
            yield file, log

    @contextmanager
    def _open_for_rewriting(
        self, session: str
    ) -> Generator[tuple[Iterator[SessionLine], BinaryIO]]:
        """Give what is in a session, and a draft that takes its place if all goes well."""
        path = self._path(session)
        with self._open_for_writing(session) as (file, log), open_draft(self._folder) as draft:
            yield read_lines(file, path.name, size=log.end), draft.stream
            draft.sync()
            draft.publish(path)

    @contextmanager
    def _open_for_reading(self, session: str) -> Generator[_SessionSnapshot]:
        """Know what is in a session; others may go on writing. Raises Missing, Damaged."""
        log, path, deadline = self._index_of(session), self._path(session), self._deadline()
        with translate_os_errors(path.name), ExitStack() as stack:
            with hold_lock(log.lock, path.name, deadline=deadline):
                file = stack.enter_context(open_locked(path, to_write=False, deadline=deadline))
                torn = log.catch_up(file)
                _check_id(log.header, session)
                unlock(file)
                _warn_of_torn_tail(log, path.name, log.end, log.end + torn)
                known = _SessionSnapshot(file, log.heads.all(), log.spans)
            yield known

    def _read_back_from(self, session: str, entry_id: str | None) -> Iterator[tuple[Entry, str]]:
        """Return an entry, then its parent and so on, until one is not where it should be."""
        with self._open_for_reading(session) as (file, _, places):
            wanted, reader = entry_id, BackwardReader(file)
            for _ in range(len(places) + 1):
                if wanted is None:
                    return
                if (place := places.get(wanted)) is None:
                    raise Missing("store: there is no entry of this id")
                if (found := reader.read(wanted, place)) is None:
                    return
                yield found
                wanted = found[0].parent

    def _records(self, session: str) -> Iterator[Record]:
        path, deadline, end = self._path(session), self._deadline(), 0
        with (
            translate_os_errors(path.name),
            open_locked(path, to_write=False, deadline=deadline) as file,
        ):
            size = os.fstat(file).st_size
            unlock(file)
            for line in read_lines(file, path.name, size=size):
                end = line.offset + len(line.raw)
                if isinstance(line.content, Record):
                    yield line.content
        if end < size:
            _warn_of_torn_tail(self._index_of(session), path.name, end, size)

    def _header_of(self, path: Path) -> Header | None:
        deadline = self._deadline()
        with (
            translate_os_errors(path.name),
            open_locked(path, to_write=False, deadline=deadline) as file,
        ):
            return read_header(file, path.name)


class _SessionSnapshot(NamedTuple):
    """What was known of a session when it was opened, and the file to read it from."""

    file: int
    heads: dict[str, str | None]
    spans: dict[str, LineSpan]


def _check_id(header: Header | None, session: str) -> Header:
    """Refuse the file of another session, as folders have it that know no upper case."""
    if header is None or header.id != session:
        raise Missing("store: there is no session of this id")
    return header


def _append_record(file: int, log: SessionFileIndex, record: Record) -> None:
    raw = encode_line(record)
    append_durably(file, raw, end=log.end)
    log.add_line(raw, record)


def _warn_of_torn_tail(log: SessionFileIndex, name: str, end: int, size: int) -> None:
    """Say that readers leave out what is behind `end`; once, however often it is read."""
    if end < size and log.reported_tail != (end, size):
        log.reported_tail = end, size
        _logger.warning("%s: left out a record at its end that was not written whole", name)


# -- forks -----------------------------------------------------------------------------------

_stores: Final[WeakSet[JsonlStore]] = WeakSet()


def _reset_caches_after_fork() -> None:
    for store in _stores:
        store.reset_cache()


# Threads that held a lock are not there in the child, and would never let go of it.
os.register_at_fork(after_in_child=_reset_caches_after_fork)
