"""Cases about crashes, and about files that disks, power cuts or other programs damaged.

After any damage a store either opens and continues, with at most the loss of entries that were not
durable, or reports the damage when it is opened, read or verified. It never presents damaged
content as intact.

The cases know no file format. They copy the files while the store is open, so that the copies are
like the files after a power cut: write-ahead logs are not cleared, and the last write is at the
end of its file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from steno.errors import InvalidDocument, LogError, Missing
from steno.messages.message import ChatMessage
from steno.store import Store
from steno.testing.case_results import CaseFailure, expect
from steno.testing.stores.crash_rounds import ROUNDS_VARIABLE, run_crash_rounds
from steno.testing.stores.store_harness import (
    SAMPLE_MESSAGES,
    NotApplicable,
    StoredSession,
    StoreHarness,
    WriterProcess,
    expect_stored,
    new_sample_session,
    read_session,
)

_FileContents: TypeAlias = Mapping[Path, bytes]
"""The content of each file of a store, by path."""
_PADDING_SIZES: Final = (1, 100, 5_000, 1 << 17)
_SPLICE_SIZES: Final = (1, 17, 400)
"""The numbers of bytes to damage at once."""


# -- ends of files -----------------------------------------------------------------------------


def torn_last_record(harness: StoreHarness) -> None:
    """Check that an incomplete last record is ignored, and that the session accepts new entries."""
    with _preserve_files(harness):
        written = _write_session(harness)
        for path, (*_, begin, end) in _files_with_last_record(written):
            data, others = written.files[path], len(written.stored.records) - 1
            for cut in (begin + 1, (begin + end) // 2, end - 1):
                damage = _DamagedFile(f"truncated at byte {cut}", path, data[:cut], others, False)
                _check_damaged(harness, written, damage)


def nul_padding(harness: StoreHarness) -> None:
    """Check that NUL bytes at the end of a file, as after a power cut, are ignored."""
    with _preserve_files(harness):
        written = _write_session(harness)
        for path, (*_, begin, end) in _files_with_last_record(written):
            data, all_records = written.files[path], len(written.stored.records)
            middle = (begin + end) // 2
            for size in _PADDING_SIZES:
                zeros = bytes(size)
                for description, padded, records in (
                    (f"{size} NULs after the end", data + zeros, all_records),
                    (f"{size} NULs from byte {middle} on", data[:middle] + zeros, all_records - 1),
                ):
                    damage = _DamagedFile(description, path, padded, records, False)
                    _check_damaged(harness, written, damage)


def truncated_files(harness: StoreHarness) -> None:
    """Check that truncating a file at any offset loses only the records after the offset."""
    with _preserve_files(harness):
        written = _write_session(harness)
        for path, sizes in _files_with_last_record(written):
            data = written.files[path]
            anywhere = _spread_offsets(sizes[0], sizes[-1], harness.scale.places)
            in_the_last = _spread_offsets(sizes[-2], sizes[-1], harness.scale.places)
            for cut in sorted({*anywhere, *in_the_last}):
                # The first snapshot has no session, and the second a session without records.
                records = sum(size <= cut for size in sizes) - 2
                damage = _DamagedFile(f"truncated at byte {cut}", path, data[:cut], records)
                _check_damaged(harness, written, damage)


def _files_with_last_record(written: _WrittenSession) -> list[tuple[Path, list[int]]]:
    """Return the files to which the last record was appended, with their sizes by snapshot.

    Raises NotApplicable if the store does not append to files, and CaseFailure if the last record
    is in no file.
    """
    if written.snapshots[-1] == written.snapshots[-2]:
        raise CaseFailure("the last record was acknowledged but not written to a file")
    found: list[tuple[Path, list[int]]] = []
    for path in written.files:
        sizes = [len(files.get(path, b"")) for files in written.snapshots]
        if sizes[-2] < sizes[-1] and sizes == sorted(sizes):
            found.append((path, sizes))
    if not found:
        raise NotApplicable("the store does not append to files")
    return found


def _spread_offsets(begin: int, end: int, max_count: int) -> range:
    """Return at most `max_count` evenly spread offsets from `begin` to `end`."""
    return range(begin, end, max(1, -(-(end - begin) // max_count)))


# -- middles of files --------------------------------------------------------------------------


def spliced_files(harness: StoreHarness) -> None:
    """Check that lost, repeated, reordered or changed bytes inside a file are detected."""
    with _preserve_files(harness):
        written = _write_session(harness)
        closed = _read_files(harness)  # the store is closed, so the files are final
        settled = written._replace(snapshots=[*written.snapshots, closed])
        records, before = len(written.stored.records), written.snapshots[0]
        for path in [path for path in closed if closed[path] != before.get(path)]:
            for place in _spread_offsets(0, len(closed[path]), harness.scale.places // 20):
                for description, data in _splices(closed[path], place):
                    damage = _DamagedFile(f"{description} at byte {place}", path, data, records)
                    _check_damaged(harness, settled, damage)


def _splices(data: bytes, place: int) -> Iterator[tuple[str, bytes]]:
    """Yield a description and the damaged content for each kind of damage at an offset."""
    head = data[:place]
    for size in _SPLICE_SIZES:
        piece, rest = data[place : place + size], data[place + size :]
        if not rest:  # damage at the end of a file may look like an incomplete write
            return
        yield f"{size} bytes removed", head + rest
        yield f"{size} bytes repeated", head + piece + piece + rest
        # As after two writers that wrote at the same time without a lock.
        yield f"{size} bytes swapped", head + rest[:size] + piece + rest[size:]
        yield f"{size} NULs", head + bytes(len(piece)) + rest
        yield f"{size} bytes changed", head + bytes(byte ^ 1 for byte in piece) + rest
        yield f"a line break and {size} bytes inserted", head + b"\n" + piece[::-1] + data[place:]


# -- file permissions --------------------------------------------------------------------------


def read_only_store(harness: StoreHarness) -> None:
    """Check that a read-only store can be read, and that every change raises Unavailable."""
    if sys.platform == "win32" or (sys.platform != "linux" and os.geteuid() == 0):
        raise NotApplicable("file permissions do not prevent writes on this system")
    with _preserve_files(harness):
        with harness.open() as store:
            session = new_sample_session(store).id
            before = read_session(store, session)
        for with_folders in (True, False):
            with (
                _make_read_only(harness, with_folders=with_folders),
                WriterProcess(harness, session, "--read-only") as writer,
            ):
                writer.start_writing()
                reports = writer.finish()
            entries = [report for report in reports if report.kind == "entry"]
            expect(len(entries), len(SAMPLE_MESSAGES), "entries that could be read")
            found = [report.branch for report in reports if report.kind == "found"]
            expect(found, [session], "sessions that a search found")
            refused = {report.branch for report in reports if report.kind == "refused"}
            expect(refused, {"Unavailable"}, "errors of changes to a read-only store")
            changed = [report.branch for report in reports if report.kind == "changed"]
            expect(changed, [], "changes to a read-only store")
            with harness.open() as store:
                expect_stored(store, session, before, "after changes were rejected")


@contextmanager
def _make_read_only(harness: StoreHarness, *, with_folders: bool) -> Generator[None]:
    """Make the store's files read-only for the `with` block.

    With `with_folders`, folders that contain only these files become read-only, too.
    """
    files = _find_files(harness)
    folders = {path.parent for path in files} if with_folders else set[Path]()
    own = [folder for folder in folders if _holds_only(folder, files)]
    modes = {path: path.stat().st_mode for path in (*files, *own)}
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in modes.items():
            with suppress(FileNotFoundError):  # the store wrongly removed the file
                path.chmod(mode)


def _holds_only(folder: Path, files: tuple[Path, ...]) -> bool:
    return all(
        path in files or (path.is_dir() and _holds_only(path, files)) for path in folder.iterdir()
    )


# -- crashes -----------------------------------------------------------------------------------


def crash(harness: StoreHarness) -> None:
    """Check that killing a writer at any time leaves an intact session that accepts entries."""
    run_crash_rounds(harness, int(os.environ.get(ROUNDS_VARIABLE) or harness.scale.crashes))


# -- sessions and damaged files ----------------------------------------------------------------


class _WrittenSession(NamedTuple):
    """A session, and the files of its store after each step."""

    session: str
    snapshots: list[_FileContents]
    """The files before the session was created, after its creation, and after each record."""
    stored: StoredSession

    @property
    def files(self) -> _FileContents:
        return self.snapshots[-1]


def _write_session(harness: StoreHarness) -> _WrittenSession:
    """Write a short session, and copy the files after each step while the store is open."""
    with harness.open() as store:
        new_sample_session(store)
        snapshots = [_read_files(harness)]
        conversation = store.new()
        acts: list[Callable[[], object]] = [
            lambda: None,
            lambda: conversation.append(ChatMessage.user("one")),
            lambda: conversation.append(ChatMessage.assistant("two")),
            lambda: conversation.fork("idea"),
            lambda: conversation.append(ChatMessage.user("three"), branch="idea"),
        ]
        for act in acts:
            act()
            snapshots.append(_read_files(harness))
        return _WrittenSession(conversation.id, snapshots, read_session(store, conversation.id))


class _DamagedFile(NamedTuple):
    """The content of a damaged file, and the number of records that must remain readable."""

    description: str
    path: Path
    data: bytes
    records: int
    """The minimum number of records if the store opens; if negative, the session may be missing."""
    may_be_refused: bool = True


def _check_damaged(harness: StoreHarness, written: _WrittenSession, damage: _DamagedFile) -> None:
    """Open a store with a damaged file, and append an entry if the session is intact.

    Raises CaseFailure if the store neither recovers from the damage nor reports it.
    """
    place = f"{damage.path.name}, {damage.description}"
    _restore_files(harness, {**written.files, damage.path: damage.data})
    try:
        with harness.open() as store:
            problem = _find_problem(store, written, damage.records)
    except (LogError, InvalidDocument) as exc:
        problem = None if damage.may_be_refused else f"the store must open, got {exc!r}"
    except Exception as exc:
        raise CaseFailure(f"{place}: expected a LogError or InvalidDocument, got {exc!r}") from exc
    if problem is not None:
        raise CaseFailure(f"{place}: {problem}")


def _find_problem(store: Store, written: _WrittenSession, at_least: int) -> str | None:
    """Return a description of a problem that the store does not report; None if there is none."""
    session, undamaged = written.session, written.stored
    try:
        store.header(session)
    except Missing:
        return "the session was durable but is missing" if at_least >= 0 else None
    found = read_session(store, session)
    if not store.verify(session).is_intact:
        return None
    number = len(found.records)
    if found.header != undamaged.header or found.records != undamaged.records[:number]:
        return "verify reports an intact session, but its content has changed"
    if number < at_least:
        return f"verify reports an intact session, but it has {number} of {at_least} records"
    conversation = store.open(session)
    for branch in conversation.branches:
        conversation.messages(branch)
    conversation.append(ChatMessage.user("Continue."))
    after = store.verify(session)
    if not after.is_intact or read_session(store, session).records[:number] != found.records:
        return f"the session is not intact after an append: {after.bad}"
    return None


# -- files -------------------------------------------------------------------------------------


def _read_files(harness: StoreHarness) -> _FileContents:
    return {path: path.read_bytes() for path in _find_files(harness)}


def _find_files(harness: StoreHarness) -> tuple[Path, ...]:
    """Return the files of a store. Raises NotApplicable if the harness has no files."""
    found = harness.files()
    if found is None:
        raise NotApplicable("the store has no files to damage")
    return tuple(found)


def _restore_files(harness: StoreHarness, files: _FileContents) -> None:
    """Write these files and remove all other files of the store, which must be closed."""
    for path in _find_files(harness):
        if path not in files:
            path.unlink()
    for path, data in files.items():
        path.write_bytes(data)


@contextmanager
def _preserve_files(harness: StoreHarness) -> Generator[None]:
    before = _read_files(harness)
    try:
        yield
    finally:
        _restore_files(harness, before)
