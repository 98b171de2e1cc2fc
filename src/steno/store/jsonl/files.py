"""Files that are locked, durable, and there as a whole or not at all. Nothing here knows a record.

Every operation opens its file and closes it again. So thousands of sessions take no descriptors,
and no lock is shared with a process that was forked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO, Final, NamedTuple

from steno.errors import Missing, Unavailable

_DRAFT_SUFFIX: Final = ".draft"
_DRAFT_IS_OLD_S: Final = 3600
"""From this age on, nobody is writing a draft any more."""
_sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # not everywhere


@contextmanager
def reporting(place: str) -> Generator[None]:
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
def locked(path: Path, *, to_write: bool, create: bool = False) -> Generator[int]:
    """Open a file and lock it: for one writer, or for any number of readers.

    Readers may `unlock` early and go on reading what they know to be there. Raises Missing.
    """
    file = _lock(path, to_write=to_write, create=create)
    try:
        yield file
    finally:
        unlock(file)
        os.close(file)


def _lock(path: Path, *, to_write: bool, create: bool) -> int:
    flags = os.O_CLOEXEC | (os.O_RDWR | os.O_APPEND if to_write else os.O_RDONLY)
    while True:
        try:
            file = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError as exc:
            raise Missing("store: there is no session of this id") from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX if to_write else fcntl.LOCK_SH)
            if _is_at(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # while we waited, another file took its place, or none


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def unlock(file: int) -> None:
    """Let others write to a file, also if it was opened by a process that has forked since."""
    fcntl.flock(file, fcntl.LOCK_UN)


# -- writing ---------------------------------------------------------------------------------


def append_whole(file: int, data: bytes, *, end: int) -> None:
    """Write to the end of a file, which is at `end`; nothing stays behind if that fails."""
    try:
        if os.write(file, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _sync(file)
    except BaseException:
        # What cannot be cut off either is not whole, and the next writer will see that.
        with suppress(OSError):
            os.ftruncate(file, end)
            _sync(file)
        raise


class Draft(NamedTuple):
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
def drafted(folder: Path) -> Generator[Draft]:
    """Begin a file; it is gone at the end of the block unless it was published."""
    file, name = mkstemp(dir=folder, prefix=".", suffix=_DRAFT_SUFFIX)
    path = Path(name)
    try:
        with os.fdopen(file, "wb") as stream:
            # Nobody may build on it before its name is durable as well.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield Draft(stream, path)
            finally:
                unlock(file)
    finally:
        path.unlink(missing_ok=True)


def remove_old_drafts(folder: Path) -> None:
    """Remove what processes left behind that did not live to publish it."""
    latest = time.time() - _DRAFT_IS_OLD_S
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
