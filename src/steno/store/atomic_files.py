"""Files that are locked, durable, and there as a whole or not at all. Nothing here knows a record.

Every operation opens its file and closes it again, so thousands of sessions take no descriptors.
A process that is forked meanwhile gets copies of those that are open, and lets go of them at once:
a lock is held as long as anybody has a copy.
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
from typing import BinaryIO, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from steno.errors import Missing, Unavailable

_DRAFT_SUFFIX: Final = ".draft"
_STALE_DRAFT_AGE_S: Final = 3600
"""From this age on, nobody is writing a draft any more."""
_MIN_LOCK_POLL_S: Final = 0.00002
_MAX_LOCK_POLL_S: Final = 0.02
"""How often it is tried again to lock a file: the longer it takes, the less often."""
_sync_file: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # not everywhere


@contextmanager
def translate_os_errors(place: str) -> Generator[None]:
    """Let what the operating system refuses leave as an error of ours."""
    try:
        yield
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise Unavailable(
            f"{place}: cannot be read or written: {reason}; check the disk and the rights"
        ) from exc


# -- locks -----------------------------------------------------------------------------------


@contextmanager
def open_locked(
    path: Path, *, to_write: bool, deadline: float, create: bool = False
) -> Generator[int]:
    """Open a file and lock it: for one writer, or for any number of readers.

    Readers may `unlock` early and go on reading what they know to be there. Raises Missing, and
    Unavailable if others keep it locked until the deadline, which is a time of `monotonic`.
    """
    while True:
        with _open_registered(path, "r+b" if to_write else "rb", create=create) as file:
            _acquire_file_lock(file, path.name, to_write=to_write, deadline=deadline)
            if _is_file_at(path, file):
                yield file
                return
        # While we waited, another file took its place, or none.


@contextmanager
def _open_registered(path: Path, mode: str, *, create: bool) -> Generator[int]:
    # An object from the start, and no bare number: whenever an interrupt comes, it is closed.
    stream: FileIO | None = None
    try:
        with _fork_lock:
            stream = FileIO(path, mode, opener=_open_creating if create else None)
            _lock_files[stream.fileno()] = stream
        yield stream.fileno()
    except FileNotFoundError as exc:
        if stream is not None:
            raise
        raise Missing("store: there is no session of this id") from exc
    finally:
        if stream is not None:
            unlock(stream.fileno())
            stream.close()


def _open_creating(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CREAT, 0o600)


def _acquire_file_lock(file: int, name: str, *, to_write: bool, deadline: float) -> None:
    how, pause_s = fcntl.LOCK_EX if to_write else fcntl.LOCK_SH, _MIN_LOCK_POLL_S
    while True:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
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
    """Let others write to a file."""
    fcntl.flock(file, fcntl.LOCK_UN)
    _lock_files.pop(file, None)


class ThreadLock(Protocol):
    """What `threading.RLock` makes: a lock that knows which thread holds it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock."""
        ...

    def release(self) -> None:
        """Let go of it. Raises RuntimeError if another thread holds it, or none."""
        ...


@contextmanager
def hold_lock(lock: ThreadLock, name: str, *, deadline: float) -> Generator[None]:
    """Hold a lock between threads. Raises Unavailable at the deadline."""
    try:
        if not lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise _lock_timeout(name)
        yield
    finally:
        # An interrupt may come when it is ours and nobody was told so. The lock itself knows.
        try:  # noqa: SIM105 - nothing is called, and so nothing interrupted, before this
            lock.release()
        except RuntimeError:
            pass


def _lock_timeout(name: str) -> Unavailable:
    return Unavailable(
        f"{name}: another program or thread kept it locked for too long; try again, or end that one"
    )


# -- forks -----------------------------------------------------------------------------------

_fork_lock: Final = RLock()
_lock_files: Final = WeakValueDictionary[int, FileIO | BinaryIO]()
"""Files that are locked, or about to be, by their descriptors."""


def _release_locks_in_child() -> None:
    """Let go of the files that the parent locks; their numbers stay taken for who holds them."""
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for file, stream in _lock_files.items():
        if not stream.closed:
            os.dup2(nothing, file, inheritable=False)
    os.close(nothing)
    _lock_files.clear()
    _fork_lock.release()


os.register_at_fork(
    before=_fork_lock.acquire,
    after_in_parent=_fork_lock.release,
    after_in_child=_release_locks_in_child,
)


# -- writing ---------------------------------------------------------------------------------


def append_durably(file: int, data: bytes, *, end: int) -> None:
    """Write to the end of a file, which is at `end`; nothing stays behind if that fails."""
    try:
        if os.pwrite(file, data, end) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _sync_file(file)
    except BaseException:
        # What cannot be cut off either is not whole, and the next writer will see that.
        with suppress(OSError):
            os.ftruncate(file, end)
            _sync_file(file)
        raise


class DraftFile(NamedTuple):
    """A file that nobody sees until it is published."""

    stream: BinaryIO
    path: Path

    def sync(self) -> None:
        """Make durable what was written. Everything that may well fail has happened then."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def publish(self, path: Path) -> None:
        """Give it its place, in which there may be another file."""
        self.path.replace(path)
        sync_folder(path.parent)


@contextmanager
def open_draft(folder: Path) -> Generator[DraftFile]:
    """Begin a file; it is gone at the end of the block unless it was published."""
    file, name = mkstemp(dir=folder, prefix=".", suffix=_DRAFT_SUFFIX)
    path = Path(name)
    try:
        with os.fdopen(file, "wb") as stream:
            _lock_files[file] = stream
            # Nobody may build on it before its name is durable as well.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield DraftFile(stream, path)
            finally:
                unlock(file)
    finally:
        path.unlink(missing_ok=True)


def remove_stale_drafts(folder: Path) -> None:
    """Remove what processes left behind that did not live to publish it."""
    latest = time.time() - _STALE_DRAFT_AGE_S
    for path in folder.iterdir():
        if path.name.endswith(_DRAFT_SUFFIX):
            with suppress(OSError):  # another process was faster, or the folder is read-only
                if path.stat().st_mtime <= latest:
                    path.unlink()


# -- folders ---------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where there is none."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make durable which files are in a folder."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
