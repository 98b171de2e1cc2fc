"""Open a path one folder at a time, and keep each folder open.

Each name is looked up in the folder that was opened before it, and this module resolves links
itself. A file or folder that is swapped during the walk therefore cannot redirect it: there is no
gap between checking a path and opening it. Files outside of the allowed folders are never opened;
links outside are only read, to find out whether they point back into an allowed folder. This module
does not depend on any tool and changes no files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from unicodedata import normalize

from steno.errors import ToolFailed
from steno.invisible import escape_invisible
from steno.values import is_utf8_text

PathNames: TypeAlias = tuple[str, ...]
"""A real path: the names from the root of the file system, without links."""

# These flags are absent on platforms without `dir_fd`, where a workspace cannot be created.
_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
OPEN_FOLDER_FLAGS: Final[int] = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
OPEN_FILE_FLAGS: Final[int] = (
    os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
)
"""Flags for reading a file, non-blocking so that a pipe in its place cannot hang the program."""
CREATE_FILE_FLAGS: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW

MAX_DEPTH: Final = 200
"""The maximum depth of folders; each level needs an open file descriptor."""
_MAX_LINKS: Final = 40  # the limit of Linux
_MAX_PATH_BYTES: Final = 4096  # the limit of Linux


class ResolvedPath(NamedTuple):
    """A resolved path: a folder, which `open_path` opens and closes, and the names below it."""

    folder_names: PathNames
    """The real path of the folder."""
    folder: int
    rest: PathNames
    """The names below `folder`: none for the folder itself, several if folders are missing."""

    @property
    def name(self) -> str:
        """The only name in `rest`.

        Raises IsADirectoryError if `rest` is empty, and FileNotFoundError if it has several names.
        """
        match self.rest:
            case (name,):
                return name
            case ():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            case _:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    @property
    def names(self) -> PathNames:
        """The real path, whether or not it exists."""
        return self.folder_names + self.rest


@contextmanager
def open_path(
    path: str, base: PathNames, tops: Collection[PathNames]
) -> Generator[ResolvedPath, None, None]:
    """Yield the resolved path, whose folder remains open during the `with` block.

    A relative path starts from the folder `base`. Raises ToolFailed if the path is invalid or is in
    none of the folders `tops`, and OSError if a folder on the path cannot be opened.
    """
    if not path:
        raise ToolFailed("must not be empty", code="path_empty", place="path")
    if "\0" in path:
        raise ToolFailed("must not contain a NUL character", code="path_has_nul", place="path")
    if not is_utf8_text(path):
        raise ToolFailed("must be valid UTF-8 text", code="path_not_utf8", place="path")
    if len(path.encode()) > _MAX_PATH_BYTES:
        rule = f"must not be longer than {_MAX_PATH_BYTES} bytes"
        raise ToolFailed(rule, code="path_too_long", place="path")
    walk = _PathWalk(path, base, tops)
    try:
        yield walk.resolve()
    finally:
        walk.close()


@contextmanager
def explain_os_errors(path: str) -> Generator[None, None, None]:
    """Convert an OSError to a ToolFailed with a text that a model can act on."""
    try:
        yield
    except OSError as exc:
        unknown = ("os_error", exc.strerror or type(exc).__name__)
        code, reason = _ERRORS.get(exc.errno or 0, unknown)
        raise path_error(path, reason, code=code) from exc


def path_error(path: str, message: str, *, code: str) -> ToolFailed:
    """Return an error whose place is the quoted path."""
    return ToolFailed(message, code=code, place=quote_path(path))


def quote_path(path: str) -> str:
    """Return a path for an error message, quoted on one line and shortened if it is long."""
    return escape_invisible(repr(path if len(path) <= 300 else f"{path[:200]}...{path[-80:]}"))


_ERRORS: Final = {
    errno.ENOENT: ("file_not_found", "no such file or folder"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is not a folder"),
    errno.EISDIR: ("is_a_folder", "the path is a folder; use glob to list its files"),
    errno.EACCES: ("permission_denied", "permission denied"),
    errno.EPERM: ("permission_denied", "permission denied"),
    errno.EROFS: ("read_only", "the file system is read-only"),
    errno.ENAMETOOLONG: ("name_too_long", "the name is too long"),
    errno.ELOOP: ("link_swapped", "the path became a link while it was being opened; try again"),
    errno.ENOSPC: ("disk_full", "the disk is full; nothing was changed"),
    errno.EDQUOT: ("quota_exceeded", "the disk quota is exceeded; nothing was changed"),
    errno.EFBIG: ("file_too_large", "the file would be too large; nothing was changed"),
}
"""The codes and texts of errors that a model can act on, by error number."""


class _PathWalk:
    """The state of a walk: the current folder, the open folders above it, the remaining names."""

    def __init__(self, path: str, base: PathNames, tops: Collection[PathNames]) -> None:
        self._path = path
        self._tops = tops
        self._names: list[str] = []
        self._folders: list[int] = []  # open folders from one of `tops` down; empty outside of them
        self._todo = path.split("/")[::-1]
        if not path.startswith("/"):
            self._todo += base[::-1]
        self._links = 0

    def resolve(self) -> ResolvedPath:
        self._enter_top()
        while self._todo:
            name = self._todo.pop()
            if name in {"", "."}:
                continue
            if name == "..":  # not looked up in the folder, which may have been moved
                self._names = self._names[:-1]
                if self._folders:
                    os.close(self._folders.pop())
            elif not self._folders:
                self._step_outside(name)
            elif rest := self._step_inside(name):
                return ResolvedPath(tuple(self._names), self._folders[-1], rest)
        if not self._folders:
            # No details: a model must not learn whether a file outside exists.
            message = "the path is outside of the workspace"
            raise path_error(self._path, message, code="outside_workspace")
        return ResolvedPath(tuple(self._names), self._folders[-1], ())

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())

    def _enter_top(self) -> None:
        if tuple(self._names) in self._tops:
            self._folders.append(os.open(Path("/", *self._names), OPEN_FOLDER_FLAGS))

    def _step_outside(self, name: str) -> None:
        """Resolve one name outside of the allowed folders, where models cannot change anything."""
        try:
            target = str(Path("/", *self._names, name).readlink())
        except OSError:
            self._names.append(name)
            self._enter_top()
        else:
            self._follow(target)

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > _MAX_LINKS:
            message = "the path contains too many links"
            raise path_error(self._path, message, code="too_many_links")
        if not is_utf8_text(target):
            message = "a link in the path points to a name that is not UTF-8"
            raise path_error(self._path, message, code="link_not_utf8")
        self._todo.extend(target.split("/")[::-1])
        if target.startswith("/"):
            self.close()
            self._names.clear()
            self._enter_top()

    def _step_inside(self, name: str) -> PathNames:
        """Resolve one name inside an allowed folder.

        Return the value of `ResolvedPath.rest` if it is known, or an empty tuple to continue.
        """
        folder = self._folders[-1]
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return self._missing_names(name)
        if stat.S_ISLNK(found.st_mode):
            self._follow(os.readlink(name, dir_fd=folder))
            return ()
        name = _real_spelling(name, found, folder)
        is_last = all(step in {"", "."} for step in self._todo)
        if is_last and not stat.S_ISDIR(found.st_mode):
            return (name,)
        if len(self._folders) > MAX_DEPTH:
            raise path_error(self._path, "the path is nested too deeply", code="path_too_deep")
        self._folders.append(os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder))
        self._names.append(name)
        return ()

    def _missing_names(self, name: str) -> PathNames:
        """Return a missing name and all names after it.

        Raises FileNotFoundError if one of these names is `..`.
        """
        rest = [name, *(step for step in reversed(self._todo) if step not in {"", "."})]
        if ".." in rest:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return tuple(rest)


def _real_spelling(name: str, found: os.stat_result, folder: int) -> str:
    """Return the real spelling of a name on a file system that accepts several spellings.

    Rules match the real name: a file that is denied as `.env` must not be read as `.ENV`.
    """
    other_case = name.swapcase()
    if name.isascii() and other_case != name and not _is_same_file(other_case, found, folder):
        return name  # the file system is case-sensitive, and ASCII has no other forms
    entries = os.listdir(folder)
    if name in entries:
        return name
    same = [
        entry for entry in entries if is_utf8_text(entry) and _is_same_file(entry, found, folder)
    ]
    if not same:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    # Prefer the name that differs only in case; the others are hard links to the same file.
    return min(same, key=lambda entry: _fold_case(entry) != _fold_case(name))


def _fold_case(name: str) -> str:
    return normalize("NFC", name.casefold())


def _is_same_file(name: str, found: os.stat_result, folder: int) -> bool:
    try:
        other = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(other, found)
