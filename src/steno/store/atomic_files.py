"""Files that are locked, durable and published atomically. This module does not know their format.

Every operation opens its file and closes it again, so that thousands of sessions do not need
thousands of descriptors. A process that is forked during an operation inherits the open descriptors
and releases them at once, because flock holds a lock as long as any process has a copy of the
descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import mkstemp
from threading import RLock
from typing import BinaryIO, Final, NamedTuple
from weakref import WeakValueDictionary

from steno.errors import Missing, Unavailable
from steno.regular_file import NO_WAIT_FLAGS, check_regular

_DRAFT_SUFFIX: Final = ".draft"
_STALE_DRAFT_AGE_S: Final = 3600
"""The age at which a draft counts as abandoned by its writer."""
_MIN_LOCK_POLL_S: Final = 0.00002
_MAX_LOCK_POLL_S: Final = 0.02
"""The pause between two attempts to lock a file grows from the minimum to the maximum."""
_sync_file: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # not on macOS


@contextmanager
def translate_os_errors(place: str) -> Generator[None]:
    """Convert an OSError to Unavailable."""
    try:
        yield
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        message = f"reading or writing failed: {reason}; check the disk and the permissions"
        raise Unavailable(message, code="os_error", place=place) from exc


# -- locks -----------------------------------------------------------------------------------


@contextmanager
def open_locked(
    path: Path,
    *,
    to_write: bool,
    deadline: float,
    create: bool = False,
    missing: Callable[[], Missing] = lambda: Missing("file not found", code="file_not_found"),
) -> Generator[int]:
    """Open and lock a file, exclusively for a writer or shared for readers; yield its descriptor.

    Readers may `unlock` the file early and continue to read the part that is known to be complete.
    Raises the error that `missing` returns if the file does not exist, and Unavailable if the lock
    is not free before `deadline`, a time of `time.monotonic`.
    """
    mode = "r+b" if to_write else "rb"
    while True:
        with _open_registered(path, mode, create=create, missing=missing) as file:
            _acquire_file_lock(file, path.name, to_write=to_write, deadline=deadline)
            if _is_file_at(path, file):
                yield file
                return
        # The file was replaced or removed while this process waited for the lock, so try again.


@contextmanager
def _open_registered(
    path: Path, mode: str, *, create: bool, missing: Callable[[], Missing]
) -> Generator[int]:
    def open_regular(name: str, flags: int) -> int:
        return os.open(name, flags | NO_WAIT_FLAGS | (os.O_CREAT if create else 0), 0o600)

    # A FileIO instead of a bare descriptor, so that the file is closed even if KeyboardInterrupt
    # arrives between two statements.
    stream: FileIO | None = None
    try:
        with _fork_lock:
            stream = FileIO(path, mode, opener=open_regular)
            _lock_files[stream.fileno()] = stream
        check_regular(os.fstat(stream.fileno()))
        yield stream.fileno()
    except FileNotFoundError as exc:
        if stream is not None:
            raise
        raise missing() from exc
    finally:
        if stream is not None:
            unlock(stream.fileno())
            stream.close()


def _acquire_file_lock(file: int, name: str, *, to_write: bool, deadline: float) -> None:
    operation, pause_s = fcntl.LOCK_EX if to_write else fcntl.LOCK_SH, _MIN_LOCK_POLL_S
    while True:
        try:
            return fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            if time.monotonic() >= deadline:
                raise _lock_timeout(name) from exc
        time.sleep(pause_s)
        pause_s = min(1.1 * pause_s, _MAX_LOCK_POLL_S)


def _is_file_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def unlock(file: int) -> None:
    """Release the lock of a file."""
    fcntl.flock(file, fcntl.LOCK_UN)
    _lock_files.pop(file, None)


@contextmanager
def hold_lock(lock: RLock, name: str, *, deadline: float) -> Generator[None]:
    """Hold a thread lock in a `with` block.

    Raises Unavailable if the lock is not free before `deadline`, a time of `time.monotonic`.
    """
    try:
        if not lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise _lock_timeout(name)
        yield
    finally:
        # KeyboardInterrupt may arrive after `acquire` took the lock and before it returned, so
        # only the lock knows whether it is held.
        try:  # noqa: SIM105 - `suppress` is a call, which an interrupt could stop
            lock.release()
        except RuntimeError:
            pass


def _lock_timeout(name: str) -> Unavailable:
    message = "another program or thread holds the lock; try again, or end that program"
    return Unavailable(message, code="locked", place=name)


# -- forks -----------------------------------------------------------------------------------

_fork_lock: Final = RLock()
_lock_files: Final = WeakValueDictionary[int, FileIO | BinaryIO]()
"""The files that are locked or about to be locked, by descriptor."""


def _release_locks_in_child() -> None:
    """In a forked process, redirect the descriptors of files that the parent has locked.

    The descriptors then refer to /dev/null, so that only the parent holds the locks.
    """
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for file, stream in _lock_files.items():
        if not stream.closed:
            os.dup2(null, file, inheritable=False)
    os.close(null)
    _lock_files.clear()
    _fork_lock.release()


os.register_at_fork(
    before=_fork_lock.acquire,
    after_in_parent=_fork_lock.release,
    after_in_child=_release_locks_in_child,
)


# -- writing ---------------------------------------------------------------------------------


def append_durably(file: int, data: bytes, *, end: int) -> None:
    """Append data to a file that ends at `end`; if that fails, truncate the file to `end`."""
    try:
        if os.pwrite(file, data, end) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _sync_file(file)
    except BaseException:
        # If this fails as well, the next writer finds an incomplete line and truncates it.
        with suppress(OSError):
            os.ftruncate(file, end)
            _sync_file(file)
        raise


class DraftFile(NamedTuple):
    """A temporary file with a hidden name, which is published by moving it to its final path."""

    stream: BinaryIO
    path: Path

    def sync(self) -> None:
        """Make the content durable. After this, publishing is unlikely to fail."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def publish(self, path: Path) -> None:
        """Move the file to its final path, and replace an existing file."""
        self.path.replace(path)
        sync_folder(path.parent)


@contextmanager
def open_draft(folder: Path) -> Generator[DraftFile]:
    """Create a draft; it is removed at the end of the `with` block unless it was published."""
    file, name = mkstemp(dir=folder, prefix=".", suffix=_DRAFT_SUFFIX)
    path = Path(name)
    try:
        with os.fdopen(file, "wb") as stream:
            _lock_files[file] = stream
            # Locked until the end: no process may write to the file before its new name is
            # durable.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield DraftFile(stream, path)
            finally:
                unlock(file)
    finally:
        path.unlink(missing_ok=True)


def remove_stale_drafts(folder: Path) -> None:
    """Remove drafts that are so old that their writers must have ended."""
    latest = time.time() - _STALE_DRAFT_AGE_S
    for path in folder.iterdir():
        if path.name.endswith(_DRAFT_SUFFIX):
            with suppress(OSError):  # another process was faster, or the folder is read-only
                if path.stat().st_mtime <= latest:
                    path.unlink()


# -- folders ---------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are missing."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the list of files in a folder durable."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
