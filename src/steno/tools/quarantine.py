"""A folder for files and folders that were moved out of the way, and safe changes of single entries.

All changes are made through open folders, one name at a time from a root on, without following
links, so that a process that still runs cannot redirect them. Nothing is deleted: what another
file system forces us to remove was copied before.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, final

from steno.tools.safe_open import CREATE_FILE_FLAGS, OPEN_FILE_FLAGS, OPEN_FOLDER_FLAGS

_MAX_MOVED_ENTRIES: Final = 20_000
_MAX_MOVED_BYTES: Final = 256 * 1024 * 1024
"""The limits for copying into a quarantine folder on another file system."""


class EntryKind(StrEnum):
    """The kinds of entries of a folder."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"
    """A pipe, a socket or a device."""


_ASIDE_PREFIX: Final = ".steno-quarantine-"
_MAX_KEPT_PATH_BYTES: Final = 1024


def name_of(path: str) -> str:
    """Return the last name of a path."""
    return path.rpartition("/")[2]


def parent_of(path: str) -> str:
    """Return the folder of an absolute path."""
    return path.rpartition("/")[0] or "/"


@final
class Quarantine:
    """A private folder outside of the roots, and the entries that were moved there.

    Paths are absolute, as text. Methods raise OSError if the folder of a path cannot be opened.
    """

    def __init__(
        self, folder: Path, roots: Sequence[str], *, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Set the folder, which is created when it is needed, and the roots of the paths."""
        self._folder = folder
        self._roots = sorted([root.rstrip("/") for root in roots], key=len)
        self._now_ns = now_ns

    def copy_away(self, path: str) -> Path | None:
        """Copy an entry to the quarantine and return the copy; None if that is not possible."""
        try:
            place = self._new_place(path)
            with self.open_parent(path) as folder:
                _copy_entry(folder, name_of(path), place, _Budget())
        except (OSError, _TooLargeError):
            return None
        return place

    def move_away(self, path: str) -> Path | None:
        """Move an entry to the quarantine and return its new path; None if it cannot be moved.

        On another file system, the entry is copied first. If that is not possible, it is renamed in
        its folder.
        """
        name = name_of(path)
        try:
            with self.open_parent(path) as folder, _made_writable(folder, name):
                try:
                    place = self._new_place(path)
                    _move_out(folder, name, place)
                except (OSError, _TooLargeError):
                    place = Path(parent_of(path), f"{_ASIDE_PREFIX}{os.urandom(8).hex()}")
                    os.rename(name, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            return None
        return place

    def _new_place(self, path: str) -> Path:
        """Create a private folder in the quarantine, and return the path for an entry in it."""
        top = next((root for root in self._roots if path.startswith(f"{root}/")), "")
        names = path[len(top) + 1 :]
        if len(os.fsencode(names)) > _MAX_KEPT_PATH_BYTES:  # the new path must not become too long
            names = name_of(path)
        place = self._folder / f"{self._now_ns()}-{os.urandom(4).hex()}" / names
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    @contextmanager
    def open_parent(self, path: str) -> Generator[int, None, None]:
        """Open the folder of a path, one name at a time from the outermost root on."""
        top = next((root for root in self._roots if path.startswith(f"{root}/")), None)
        if top is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder = os.open(top or "/", OPEN_FOLDER_FLAGS)
        try:
            for name in path[len(top) + 1 :].split("/")[:-1]:
                below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)


# -- entries of an open folder --------------------------------------------------------------------


def kind_of(mode: int) -> EntryKind:
    """Return the kind of an entry by its mode."""
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.FOLDER
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER


def read_file(path: str, max_bytes: int, folder: int | None = None) -> bytes | None:
    """Return the content of a regular file; None if it is unreadable, too large or of another kind."""
    try:
        with os.fdopen(os.open(path, OPEN_FILE_FLAGS, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
                return None
            data = file.read(max_bytes + 1)
    except OSError:
        return None
    return data if len(data) <= max_bytes else None


def exists_in(folder: int, name: str) -> bool:
    """Return whether an open folder contains a name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def set_mode(folder: int, name: str, mode: int, owner: tuple[int, int]) -> None:
    """Set the mode and, if permitted, the owner of a file or folder in an open folder."""
    file = os.open(name, OPEN_FILE_FLAGS, dir_fd=folder)
    try:
        _set_mode_of_open(file, mode, owner)
    finally:
        os.close(file)


def _set_mode_of_open(file: int, mode: int, owner: tuple[int, int]) -> None:
    with suppress(PermissionError):
        os.fchown(file, *owner)
    os.fchmod(file, mode)


def replace_file(
    folder: int, name: str, data: bytes, mode: int, owner: tuple[int, int] | None = None
) -> None:
    """Write a file next to another, and replace that one in one step."""
    temporary = f".steno-{os.urandom(8).hex()}.tmp"
    file = os.fdopen(os.open(temporary, CREATE_FILE_FLAGS, 0o600, dir_fd=folder), "wb")
    try:
        with file:
            file.write(data)
            file.flush()
            _set_mode_of_open(file.fileno(), mode, owner or (-1, -1))
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


class _TooLargeError(Exception):
    """An entry is too large to be copied, or is neither file, folder nor link."""


class _Budget:
    """The limits of one copy."""

    def __init__(self) -> None:
        self.entries = _MAX_MOVED_ENTRIES
        self.bytes = _MAX_MOVED_BYTES

    def spend(self, size: int) -> None:
        self.entries -= 1
        self.bytes -= size
        if self.entries < 0 or self.bytes < 0:
            raise _TooLargeError


@contextmanager
def _made_writable(folder: int, name: str) -> Generator[None, None, None]:
    """Make an open folder and a folder in it writable for us during the block.

    A folder without that permission cannot be moved away.
    """
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):
            os.fchmod(folder, mode | stat.S_IRWXU)
    with suppress(OSError):
        below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
        try:
            os.fchmod(below, stat.S_IMODE(os.fstat(below).st_mode) | stat.S_IRWXU)
        finally:
            os.close(below)
    try:
        yield
    finally:
        if stat.S_IMODE(os.fstat(folder).st_mode) != mode:
            with suppress(PermissionError):
                os.fchmod(folder, mode)


def _move_out(folder: int, name: str, place: Path) -> None:
    """Move an entry of an open folder to a path, also on another file system."""
    try:
        os.rename(name, place, src_dir_fd=folder)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _copy_entry(folder, name, place, _Budget())
        _remove_entry(folder, name)


def _copy_entry(folder: int, name: str, place: Path, budget: _Budget) -> None:
    """Copy an entry of an open folder, without following links."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    match kind_of(found.st_mode):
        case EntryKind.LINK:
            budget.spend(0)
            place.symlink_to(os.readlink(name, dir_fd=folder))
        case EntryKind.FILE:
            budget.spend(found.st_size)
            data = read_file(name, _MAX_MOVED_BYTES, folder)
            if data is None:
                raise _TooLargeError
            place.write_bytes(data)
            place.chmod(found.st_mode & 0o777)  # the quarantine itself is private
        case EntryKind.FOLDER:
            budget.spend(0)
            place.mkdir(mode=0o700)
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
            try:
                for each in os.listdir(below):  # noqa: PTH208 - an open folder
                    _copy_entry(below, each, place / each, budget)
            finally:
                os.close(below)
            place.chmod(found.st_mode & 0o777 | stat.S_IRWXU)
        case EntryKind.OTHER:
            raise _TooLargeError


def _remove_entry(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(name, dir_fd=folder)


def move_into(source: Path, name: str, folder: int) -> None:
    """Move an entry of the quarantine into an open folder, and replace a file there."""
    try:
        os.rename(source, name, dst_dir_fd=folder)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        if source.is_symlink():
            os.symlink(source.readlink(), name, dir_fd=folder)
            source.unlink()
        elif source.is_file():
            replace_file(folder, name, source.read_bytes(), stat.S_IMODE(source.stat().st_mode))
            source.unlink()
        else:
            os.mkdir(name, 0o700, dir_fd=folder)
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
            try:
                for each in list(source.iterdir()):
                    move_into(each, each.name, below)
                os.fchmod(below, stat.S_IMODE(source.stat().st_mode))
            finally:
                os.close(below)
            source.rmdir()
