"""A store in a folder, with one file for each session, to which writers only append lines.

A writer holds an exclusive lock on the file while it appends one record. A reader holds a shared
lock until it knows the size of the file; the lines up to that size never change. A redaction or a
new title replaces the file with a new one. The index of a file is cached, so that no line is
indexed twice; each operation first checks that the file was not replaced.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, NamedTuple, final
from weakref import WeakSet

from msgspec.structs import replace

from steno.errors import Damaged, InvalidDocument, LogError, Missing, Unavailable
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.regular_file import open_regular_file
from steno.store import base
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
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_CACHED_ENTRIES: Final = 250_000
"""The maximum number of entries in the cached indexes of all sessions; about 75 MB."""
_CACHE_WEIGHT_PER_SESSION: Final = 100
"""The number of entries added to the size of each cached index, for its fixed cost."""
_logger: Final = logging.getLogger("steno.store")
_open_session_file: Final = partial(open_locked, missing=base.missing_session)


@final
class JsonlStore(base.Store):
    """A store that keeps each session in its own file, as lines of JSON that any program can read.

    Every method raises Unavailable if a file is locked for longer than `timeout_s` seconds, or if
    the store is closed.
    """

    def __init__(self, folder: Path, *, timeout_s: float = 30.0) -> None:
        """Open a folder as a store, and create it if it is missing.

        Raises Unavailable if the folder cannot be created or read.
        """
        with translate_os_errors("store"):
            self._folder: Final = Path(folder).absolute()
            try:
                make_folder(self._folder)
            except ValueError as exc:
                message = "the name of the folder is invalid; choose another name"
                raise Unavailable(message, code="folder_name_invalid", place="store") from exc
            remove_stale_drafts(self._folder)
        self._timeout_s: Final = timeout_s
        self._blobs: Final = self._folder / "blobs"
        self._is_closed = False
        self.reset_cache()
        _stores.add(self)

    def reset_cache(self) -> None:
        """Drop the index of every file; called automatically in a forked process."""
        self._lock = Lock()
        self._indexes = OrderedDict[str, SessionFileIndex]()
        """The index of each file, ordered by the time of the last use."""

    # -- sessions ----------------------------------------------------------------------------

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        """Add a session by writing it to a draft and publishing the draft."""
        path = self._path(header.id)
        with translate_os_errors(path.name), open_draft(self._folder) as draft:
            draft.stream.write(encode_line(header))
            draft.stream.writelines(map(encode_line, base.validate_records(records)))
            draft.sync()
            # An empty file is not a session yet, but it can be locked: of several processes that
            # add this session, only one succeeds.
            deadline = self._deadline()
            with _open_session_file(path, to_write=True, deadline=deadline, create=True) as file:
                if read_header(file, path.name) is not None:
                    raise base.duplicate_session()
                draft.publish(path)

    def headers(self) -> Iterator[Header]:
        """Yield all readable headers, then raise the error of the first unreadable header.

        Files of other programs are skipped.
        """
        self._check_open()
        problem: LogError | InvalidDocument | None = None
        with translate_os_errors("store"):
            # Not `glob`, which treats a folder that cannot be read as an empty one.
            found = [path for path in self._folder.iterdir() if path.suffix == _SUFFIX]
            paths = [path for path in found if path.is_file()]
        for path in paths:
            try:
                header = self._header_of(path)
            except Missing:
                continue  # it was removed after the folder was listed
            except ForeignFile as exc:
                _logger.warning("skipped %s", exc)
                continue
            except (LogError, InvalidDocument) as exc:
                problem = problem or exc
                continue
            if header is None:
                continue  # its header was never written completely
            if self._path(header.id) == path:
                yield header
            else:
                _logger.warning("skipped %s: the name does not match the session id", path.name)
        if problem is not None:
            raise problem

    def header(self, session: str) -> Header:
        return _check_id(self._header_of(self._path(session)), session)

    def rename(self, session: str, title: str | None) -> None:
        """Change the title of a session by writing a new file."""
        with self._open_for_rewriting(session) as (lines, stream):
            for line in lines:
                raw = line.raw
                if isinstance(line.content, Header):
                    raw = encode_line(replace(line.content, title=title))
                stream.write(raw)

    def records(self, session: str) -> Iterator[Record]:
        """Return all records of a session, which are read one by one."""
        self.header(session)
        return self._records(session)

    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        """Append an entry to a branch with one write."""
        with self._open_for_writing(session) as (file, index):
            base.check_append(
                branch,
                is_known=branch in index.heads,
                head=index.heads.of(branch),
                expected=expected,
                is_taken=entry.id in index.spans,
            )
            seq = index.last_seq + 1
            _append_record(file, index, Record(seq=seq, branch=branch, entry=entry, digest=digest))

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        with self._open_for_writing(session) as (file, index):
            base.check_fork(is_known=name in index.heads, has_start=at is None or at in index.spans)
            _append_record(file, index, Record(seq=index.last_seq + 1, branch=name, at=at))

    def heads(self, session: str) -> Mapping[str, str | None]:
        with self._open_for_reading(session) as snapshot:
            return snapshot.heads

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Yield an entry, then its ancestors, without reading other entries."""
        wanted: str | None = entry_id
        for _ in range(2):
            for found in self._read_back_from(session, wanted):
                yield found
                wanted = found[0].parent
            if wanted is None:
                return
            # The next entry is not at its indexed position. If the file is damaged, indexing all of
            # it again raises Damaged with the line number; if another program rewrote the file,
            # the second round continues.
            index = self._index_of(session)
            with hold_lock(index.lock, self._path(session).name, deadline=self._deadline()):
                index.reset()
        message = "a parent of an entry is missing; verify the session"
        raise Damaged(message, code="parent_missing", place="store")

    def replace(self, session: str, record: Record) -> None:
        """Overwrite the record with the same `seq` by writing a new file."""
        with self._open_for_rewriting(session) as (lines, stream):
            old: Record | None = None
            for line in lines:
                raw = line.raw
                if isinstance(line.content, Record) and line.content.seq == record.seq:
                    old, raw = line.content, encode_line(record)
                stream.write(raw)
            base.check_replacement(record, old)

    def remove(self, session: str) -> None:
        """Remove a session, even if it cannot be read."""
        path, deadline = self._path(session), self._deadline()
        with (
            translate_os_errors(path.name),
            _open_session_file(path, to_write=True, deadline=deadline) as file,
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
        """Close the store and drop all indexes. No file is open between operations."""
        self._is_closed = True
        with self._lock:
            self._indexes.clear()

    # -- blobs -------------------------------------------------------------------------------

    # The modification time of a blob's file is the time at which the blob was last stored.

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; a damaged blob with this digest is replaced."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._blob_path(digest)
        with translate_os_errors(f"blob {digest}"):
            if self._touch_blob(path, data):
                return digest
            make_folder(path.parent)
            with open_draft(self._folder) as draft:
                draft.stream.write(data)
                draft.sync()
                draft.publish(path)
        return digest

    def _touch_blob(self, path: Path, data: bytes) -> bool:
        """Update the time of a blob; return False if the blob is missing or damaged."""
        try:
            # Locked, so that no other process removes the blob before its time is updated.
            with open_locked(path, to_write=False, deadline=self._deadline()) as file:
                if _read_file(path) != data:
                    return False
                os.utime(file)
                sync_folder(path.parent)
                return True
        except Missing:
            return False

    def blob(self, sha256: str) -> bytes:
        path = self._blob_path(sha256)
        with translate_os_errors(f"blob {sha256}"):
            try:
                data = _read_file(path)
            except FileNotFoundError as exc:
                raise base.missing_blob() from exc
        if hashlib.sha256(data).hexdigest() != sha256:
            message = "the bytes do not match the digest; store the blob again"
            raise Damaged(message, code="blob_damaged", place=f"blob {sha256}")
        return data

    def blobs(self) -> Iterator[base.Blob]:
        self._check_open()
        return self._read_blobs()

    def _read_blobs(self) -> Iterator[base.Blob]:
        with translate_os_errors("blobs"):
            # Not `glob`, which treats a folder that cannot be read as an empty one.
            for folder in self._blobs.iterdir() if self._blobs.exists() else ():
                for path in folder.iterdir() if folder.is_dir() else ():
                    if not _DIGEST.fullmatch(path.name) or path.name[:2] != folder.name:
                        continue
                    with suppress(FileNotFoundError):  # it was removed after the listing
                        status = path.stat()
                        stored_at = datetime.fromtimestamp(status.st_mtime, UTC)
                        yield base.Blob(path.name, status.st_size, stored_at)

    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        self._check_open()
        with translate_os_errors(f"blob {sha256}"), suppress(Missing):
            path = self._blob_path(sha256)
            with open_locked(path, to_write=True, deadline=self._deadline()) as file:
                put_at = datetime.fromtimestamp(os.fstat(file).st_mtime, UTC)
                if put_before is None or put_at <= put_before:
                    path.unlink()
                    sync_folder(path.parent)

    def _blob_path(self, digest: str) -> Path:
        """Return the path of a blob. Raises Missing for text that is not a digest."""
        self._check_open()
        if not _DIGEST.fullmatch(digest):
            raise base.missing_blob()
        return self._blobs / digest[:2] / digest

    # -- paths, locks and indexes ------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable(
                "the store is closed; open it again", code="store_closed", place="store"
            )

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _path(self, session: str) -> Path:
        """Return the path of a session file, named after the session id or the SHA-256 of the id.

        The digest is used if the id is not a suitable file name. Raises Unavailable if the store is
        closed.
        """
        self._check_open()
        if _PLAIN_ID.fullmatch(session):
            return self._folder / f"{session}{_SUFFIX}"
        digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"_{digest}{_SUFFIX}"  # no plain id begins like this

    def _index_of(self, session: str) -> SessionFileIndex:
        """Return the cached index of a session, or add a new index to the cache.

        If the cache becomes too large, the least recently used indexes are removed from it.
        """
        name = self._path(session).name
        with self._lock:
            index = self._indexes.get(name)
            if index is None:
                index = self._indexes[name] = SessionFileIndex(name)
                weight = sum(
                    len(other.spans) + _CACHE_WEIGHT_PER_SESSION for other in self._indexes.values()
                )
                while weight > _MAX_CACHED_ENTRIES and len(self._indexes) > 1:
                    _, oldest = self._indexes.popitem(last=False)
                    weight -= len(oldest.spans) + _CACHE_WEIGHT_PER_SESSION
            else:
                self._indexes.move_to_end(name)
            return index

    @contextmanager
    def _open_for_writing(self, session: str) -> Generator[tuple[int, SessionFileIndex]]:
        """Lock a session for writing, update its index, and yield the descriptor and the index.

        Raises Missing if the session does not exist, and Damaged if its file is damaged.
        """
        index, path, deadline = self._index_of(session), self._path(session), self._deadline()
        with (
            translate_os_errors(path.name),
            hold_lock(index.lock, path.name, deadline=deadline),
            _open_session_file(path, to_write=True, deadline=deadline) as file,
        ):
            torn = index.catch_up(file)
            _check_id(index.header, session)
            if torn:
                os.ftruncate(file, index.end)
                _logger.warning("%s: truncated an incomplete record at its end", path.name)
            yield file, index

    @contextmanager
    def _open_for_rewriting(
        self, session: str
    ) -> Generator[tuple[Iterator[SessionLine], BinaryIO]]:
        """Yield the lines of a session, and the stream of a draft that replaces its file."""
        path = self._path(session)
        with self._open_for_writing(session) as (file, index), open_draft(self._folder) as draft:
            yield read_lines(file, path.name, size=index.end), draft.stream
            draft.sync()
            draft.publish(path)

    @contextmanager
    def _open_for_reading(self, session: str) -> Generator[_SessionSnapshot]:
        """Update the index of a session and yield a snapshot, while writers may continue.

        Raises Missing if the session does not exist, and Damaged if its file is damaged.
        """
        index, path, deadline = self._index_of(session), self._path(session), self._deadline()
        with translate_os_errors(path.name), ExitStack() as stack:
            with hold_lock(index.lock, path.name, deadline=deadline):
                file = stack.enter_context(
                    _open_session_file(path, to_write=False, deadline=deadline)
                )
                torn = index.catch_up(file)
                _check_id(index.header, session)
                unlock(file)
                _warn_of_torn_tail(index, path.name, index.end, index.end + torn)
                snapshot = _SessionSnapshot(file, index.heads.all(), index.spans)
            yield snapshot

    def _read_back_from(self, session: str, entry_id: str | None) -> Iterator[tuple[Entry, str]]:
        """Yield an entry and its ancestors, up to the first one not found at its indexed offset."""
        with self._open_for_reading(session) as (file, _, spans):
            wanted, reader = entry_id, BackwardReader(file)
            for _ in range(len(spans) + 1):
                if wanted is None:
                    return
                if (span := spans.get(wanted)) is None:
                    raise base.missing_entry()
                if (found := reader.read(wanted, span)) is None:
                    return
                yield found
                wanted = found[0].parent

    def _records(self, session: str) -> Iterator[Record]:
        path, deadline, end = self._path(session), self._deadline(), 0
        with (
            translate_os_errors(path.name),
            _open_session_file(path, to_write=False, deadline=deadline) as file,
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
            _open_session_file(path, to_write=False, deadline=deadline) as file,
        ):
            return read_header(file, path.name)


class _SessionSnapshot(NamedTuple):
    """An open session file, with its branches and line positions when it was opened."""

    file: int
    heads: dict[str, str | None]
    spans: dict[str, LineSpan]


def _read_file(path: Path) -> bytes:
    with open_regular_file(path) as file:
        return file.read()


def _check_id(header: Header | None, session: str) -> Header:
    """Return the header. Raises Missing if there is no header or it has another session id.

    A case-insensitive file system may open the file of another session.
    """
    if header is None or header.id != session:
        raise base.missing_session()
    return header


def _append_record(file: int, index: SessionFileIndex, record: Record) -> None:
    raw = encode_line(record)
    append_durably(file, raw, end=index.end)
    index.add_line(raw, record)


def _warn_of_torn_tail(index: SessionFileIndex, name: str, end: int, size: int) -> None:
    """Log that readers ignore the bytes after `end`, once for each torn tail."""
    if end < size and index.reported_tail != (end, size):
        index.reported_tail = end, size
        _logger.warning("%s: ignored an incomplete record at its end", name)


# -- forks -----------------------------------------------------------------------------------

_stores: Final[WeakSet[JsonlStore]] = WeakSet()


def _reset_caches_after_fork() -> None:
    for store in _stores:
        store.reset_cache()


# A thread of the parent that held a lock does not exist in the child and would never release it.
os.register_at_fork(after_in_child=_reset_caches_after_fork)
