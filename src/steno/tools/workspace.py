"""The folders that a model may use, and the files in them.

`open_path` resolves every path and never leaves these folders. A write replaces a file atomically:
a reader sees either the old or the new content, and after a failure the old content remains. The
workspace records which content was read, so that a model cannot overwrite content that it has not
seen. This module does not depend on any tool.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias, TypeVar, final

from steno.errors import InvalidValue, ToolFailed, Unavailable
from steno.lazy_task import start_task
from steno.tools.cancellable_thread import check_not_cancelled
from steno.tools.protected_paths import PathPolicy
from steno.tools.safe_open import (
    CREATE_FILE_FLAGS,
    MAX_DEPTH,
    OPEN_FILE_FLAGS,
    OPEN_FOLDER_FLAGS,
    PathNames,
    ResolvedPath,
    explain_os_errors,
    open_path,
    path_error,
    quote_path,
)
from steno.values import is_utf8_text

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a file that is read as a whole."""

_MAX_FOLDER_ENTRIES: Final = 1_000_000
"""The maximum number of entries of one folder, which are kept in memory to sort them."""

T = TypeVar("T")
_FolderPath: TypeAlias = str | os.PathLike[str]


class Fingerprint(NamedTuple):
    """The size and digest of the content of a file, with which changes are detected."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Fingerprint:
        """Return the fingerprint of the content of a file."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


@final
class Workspace:
    """The folders that a model may use; relative paths start from the first folder.

    Models provide the paths. A path may be absolute or relative and contain links or `..`, but the
    real file must be in one of the folders. Methods raise ToolFailed if it is not, and for errors
    of the file system. Methods may block, and may be called from any thread.
    """

    def __init__(
        self, roots: _FolderPath | Iterable[_FolderPath], *, policy: PathPolicy | None = None
    ) -> None:
        """Create a workspace of existing folders.

        `policy` decides which paths are protected or secret; without it, the default list applies,
        with the home folder of this process. Raises InvalidValue if a folder cannot be used, and Unavailable if the platform lacks the
        required system calls.
        """
        needed = {os.open, os.stat, os.access, os.mkdir, os.readlink, os.rename}
        if not needed <= os.supports_dir_fd:
            message = "this platform cannot open files relative to an open folder"
            raise Unavailable(message, code="unsupported_platform", place="workspace")
        folders = (roots,) if isinstance(roots, (str, os.PathLike)) else tuple(roots)
        if not folders:
            raise _root_error("at least one folder is required", code="no_folder")
        self.roots: Final = tuple(map(_resolve_root, folders))
        self.policy: Final = policy or PathPolicy(self.roots, environ=os.environ)
        self.protected_write_listeners: Final[
            list[Callable[[str], AbstractContextManager[None]]]
        ] = []
        """Functions to call with the real path for an approved write to a protected path.

        The write happens inside of the context that they return.
        """
        self._base: Final = self.root.parts[1:]
        # A folder inside another is reached through the outer one, because a model can change the
        # path between them. A model can change nothing above the outermost folders.
        self._outermost_roots: Final = frozenset(
            root.parts[1:]
            for root in self.roots
            if not any(other in root.parents for other in self.roots)
        )
        self._read_fingerprints: Final[dict[PathNames, Fingerprint]] = {}
        self._is_strict = False

    @property
    def root(self) -> Path:
        """The folder that relative paths start from."""
        return self.roots[0]

    @property
    def strict(self) -> Workspace:
        """A copy of this workspace that accepts only paths as `relative` returns them.

        A decision about one path must not apply to another: methods raise ToolFailed if a part of
        the path has become a link since the decision. The copy shares the record of read files.
        """
        strict = copy(self)
        strict._is_strict = True
        return strict

    # -- names -------------------------------------------------------------------------------

    def relative(self, path: str) -> str:
        """Return the canonical spelling of a path, which permission rules match.

        The canonical spelling is the real path, with links resolved: relative to the first folder
        (`.` for the folder itself), or absolute if it is in another folder. The path need not
        exist.
        """
        with explain_os_errors(path), self._open_path(path) as resolved:
            return self._relative_name(resolved.names)

    def relative_of_real_path(self, real: str) -> str:
        """Return the canonical spelling of an absolute path that is known to be real."""
        return self._relative_name(Path(real).parts[1:])

    def real_path(self, name: str) -> str:
        """Return the absolute real path of a canonical spelling."""
        return str(self.root / name)

    def files(
        self, under: str = ".", *, should_enter: Callable[[str], bool] = lambda folder: True
    ) -> Iterator[str]:
        """Yield the names of all regular files below a folder, as `relative` returns them.

        `should_enter` decides whether to enter a folder. Names are sorted, folder by folder. Links
        are neither followed nor yielded; folders that cannot be read and names that are not UTF-8
        are skipped. If `under` is a file, only that file is yielded.
        """
        with explain_os_errors(under), self._open_path(under) as place:
            if not place.rest:
                yield from self._walk_files(place.folder, place.folder_names, should_enter)
                return
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield self._relative_name(place.names)

    def _walk_files(
        self, folder: int, above: PathNames, should_enter: Callable[[str], bool], level: int = 0
    ) -> Iterator[str]:
        """Yield the names of regular files in an open folder and below."""
        with os.scandir(folder) as found:
            entries = sorted(_read_entries(found), key=lambda e: e.name)
        for entry in entries:
            names = (*above, entry.name)
            if entry.is_file(follow_symlinks=False):
                yield self._relative_name(names)
            elif entry.is_dir(follow_symlinks=False) and level < MAX_DEPTH:
                if not should_enter(self._relative_name(names)):
                    continue
                with suppress(OSError):
                    below = os.open(entry.name, OPEN_FOLDER_FLAGS, dir_fd=folder)
                    try:
                        yield from self._walk_files(below, names, should_enter, level + 1)
                    finally:
                        os.close(below)

    # -- content -----------------------------------------------------------------------------

    def open_file(self, path: str) -> BinaryIO:
        """Open a regular file for reading.

        A file that also has a hard link outside of the workspace counts as inside.
        """
        with explain_os_errors(path), self._open_path(path) as place:
            return _open_regular(place, path)

    def read_file(self, path: str, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return the content of a regular file of at most `max_bytes`."""
        with self.open_file(path) as file, explain_os_errors(path):
            data = file.read(max_bytes + 1)
            size = os.fstat(file.fileno()).st_size
        if len(data) > max_bytes:
            raise path_error(
                path,
                f"the file has {size:,} bytes, more than the limit of {max_bytes:,};"
                " search it, or extract the part you need with a command",
                code="file_too_large",
            )
        return data

    def exists(self, path: str) -> bool:
        """Return whether a path exists, even if it cannot be read."""
        with explain_os_errors(path), self._open_path(path) as place:
            return not place.rest or _stat_or_none(place) is not None

    def write_file(
        self,
        path: str,
        data: bytes,
        *,
        expected: Fingerprint | None,
        may_be_protected: bool = False,
    ) -> None:
        """Write a file atomically, and record the content as read.

        `expected` identifies the content to replace; None if the file must not exist yet. Missing
        folders are created, and an existing file retains its mode. `may_be_protected` says that the
        user has approved the change of a protected path. Other hard links to the same
        file, perhaps outside of the workspace, retain the old content.
        """
        with explain_os_errors(path), self._open_path(path) as place, ExitStack() as writing:
            # The real path of the open folder: nothing can be swapped after this check.
            real = "/" + "/".join(place.names)
            if self.policy.is_protected(real):
                if not may_be_protected:
                    message = "the path is protected; each change needs approval"
                    raise path_error(path, message, code="protected_path")
                for listener in self.protected_write_listeners:
                    writing.enter_context(listener(real))
            with _create_parent_folders(place) as folder:
                target = ResolvedPath(place.folder_names, folder, place.rest[-1:])
                _replace_file(target, path, data, expected=expected)
            self._read_fingerprints[place.names] = Fingerprint.of(data)

    # -- content that the model has read -----------------------------------------------------

    def mark_as_read(self, path: str, data: bytes) -> None:
        """Record that the model has read this content of a file."""
        with explain_os_errors(path), self._open_path(path) as place:
            self._read_fingerprints[place.names] = Fingerprint.of(data)

    def check_unchanged_since_read(self, path: str, data: bytes) -> None:
        """Raise ToolFailed unless `data` is the content that the model last read from the file."""
        with explain_os_errors(path), self._open_path(path) as place:
            read_fingerprint = self._read_fingerprints.get(place.names)
        if read_fingerprint is None:
            message = "the file has not been read yet; read it before changing it"
            raise path_error(path, message, code="not_read_yet")
        if read_fingerprint != Fingerprint.of(data):
            raise _changed_error(path)

    @contextmanager
    def _open_path(self, path: str) -> Generator[ResolvedPath, None, None]:
        with open_path(path, self._base, self._outermost_roots) as place:
            # Checked after the walk, so that the path cannot change between the two.
            if self._is_strict and self._relative_name(place.names) != path:
                message = "the path has changed since it was allowed; try again"
                raise path_error(path, message, code="changed_since_allowed")
            yield place

    def _relative_name(self, names: PathNames) -> str:
        if names[: len(self._base)] == self._base:
            return "/".join(names[len(self._base) :]) or "."
        return "/" + "/".join(names)


def _read_entries(folder: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    """Yield the entries whose names are UTF-8. Ends early in a thread whose task is cancelled."""
    for number, entry in enumerate(folder, 1):
        check_not_cancelled()
        if number > _MAX_FOLDER_ENTRIES:
            message = f"a folder has more than {_MAX_FOLDER_ENTRIES:,} entries; narrow the path"
            raise ToolFailed(message, code="folder_too_large", place="search")
        if is_utf8_text(entry.name):
            yield entry


async def run_to_completion(work: Callable[[], T]) -> T:
    """Run blocking work in a thread to its end, even if the task is cancelled.

    Cancellation is raised after the work has ended, so that a call cannot change files after it
    has returned.
    """
    task = start_task(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        task.exception()  # retrieved, so that asyncio does not warn about it
        raise cancelled
    return task.result()


# -- folders ---------------------------------------------------------------------------------


def _resolve_root(root: _FolderPath) -> Path:
    if not isinstance(root, (str, os.PathLike)):
        message = f"a folder must be a path, not {type(root).__name__}"
        raise _root_error(message, code="folder_not_a_path")
    name = quote_path(str(root))
    try:
        real = Path(root).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        message = f"the folder {name} cannot be used: {reason}"
        raise _root_error(message, code="folder_unusable") from exc
    if not is_utf8_text(str(real)):
        raise _root_error("the path of a folder must be valid UTF-8", code="path_not_utf8")
    if not real.is_dir():
        raise _root_error(f"{name} is not a folder", code="not_a_folder")
    return real


def _root_error(message: str, *, code: str) -> InvalidValue:
    return InvalidValue(message, code=code, place="workspace")


@contextmanager
def _create_parent_folders(place: ResolvedPath) -> Generator[int, None, None]:
    """Create the missing folders above a file, and yield the folder of the file.

    The new folders are removed if the block fails.
    """
    folder = place.folder
    with ExitStack() as opened, ExitStack() as undo:
        for name in place.rest[:-1]:
            os.mkdir(name, dir_fd=folder)
            undo.callback(_remove_folder, name, folder)
            os.fsync(folder)
            folder = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
            opened.callback(os.close, folder)
        yield folder
        undo.pop_all()


def _remove_folder(name: str, folder: int) -> None:
    with suppress(OSError):  # another program may have written there
        os.rmdir(name, dir_fd=folder)


# -- files -----------------------------------------------------------------------------------


def _open_regular(place: ResolvedPath, path: str) -> BinaryIO:
    """Open a regular file for reading, without blocking on a pipe or a device."""
    name = place.name
    # Checked before opening, because opening a device may have side effects. Only the second check,
    # of the opened file, is safe from a swap.
    _check_regular(os.stat(name, dir_fd=place.folder, follow_symlinks=False), path)
    file = os.fdopen(os.open(name, OPEN_FILE_FLAGS, dir_fd=place.folder), "rb")
    try:
        _check_regular(os.fstat(file.fileno()), path)
    except BaseException:
        file.close()
        raise
    return file


def _check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        message = "the path is a device, pipe or socket, not a regular file"
        raise path_error(path, message, code="not_a_regular_file")


def _replace_file(
    place: ResolvedPath, path: str, data: bytes, *, expected: Fingerprint | None
) -> None:
    """Write a temporary file in the same folder, and rename it to replace the file."""
    folder, name = place.folder, place.name
    existing = _stat_or_none(place)
    if existing is not None and not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(
            errno.EACCES, os.strerror(errno.EACCES)
        )  # rename() ignores the mode of the file
    temporary = f".steno-{os.urandom(8).hex()}.tmp"
    # The replacement of an existing file is private until its mode is set.
    mode = 0o666 if existing is None else 0o600
    file = os.fdopen(os.open(temporary, CREATE_FILE_FLAGS, mode, dir_fd=folder), "wb")
    try:
        with file:
            file.write(data)
            file.flush()
            if existing is not None:
                _copy_owner_and_mode(file.fileno(), existing)
            os.fsync(file.fileno())
        # As late as possible: no file system can compare and replace in one step.
        _check_content(place, path, expected)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _stat_or_none(place: ResolvedPath) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_content(place: ResolvedPath, path: str, expected: Fingerprint | None) -> None:
    """Raise ToolFailed unless a file has the expected content.

    If `expected` is None, the file must not exist.
    """
    try:
        file = _open_regular(place, path)
    except FileNotFoundError:
        if expected is not None:
            message = "the file has been deleted since it was read"
            raise path_error(path, message, code="removed_since_read") from None
        return
    with file:
        if expected is None:
            message = "the file already exists; read it before changing it"
            raise path_error(path, message, code="already_exists")
        if Fingerprint.of(file.read(expected.size + 1)) != expected:
            raise _changed_error(path)


def _changed_error(path: str) -> ToolFailed:
    message = "the file has changed since it was read; read it again before changing it"
    return path_error(path, message, code="changed_since_read")


def _copy_owner_and_mode(file: int, before: os.stat_result) -> None:
    """Copy the mode and, if permitted, the owner of the file that is replaced."""
    with suppress(PermissionError):
        os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, before.st_mode & 0o777)  # a write also clears set-user-ID and set-group-ID
