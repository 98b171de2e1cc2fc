"""Empty folders in place of protected paths that do not exist, and files in place of approved ones.

A path is only protected by a mount, and a mount needs something to mount on. A folder is used,
because git does not list empty folders. Several commands may use one folder at once, and the last
one removes it: each holds a shared lock on the folder, which ends with its process. A folder with
any content is never removed. The time of the last change marks the folders of steno, so that
the next command removes a folder that a killed process left behind.

The same holds for the files: a command that may write a missing file needs one to write to. The
first change of the file removes its mark, so that it stays.
"""

from __future__ import annotations

import os
import stat

from .orders import MARK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hold_placeholders(paths: Iterable[str]) -> dict[str, int]:
    """Create the missing folders and lock them; return the locked open folders by path.

    A folder that cannot be created is left out.
    """
    held: dict[str, int] = {}
    for path in paths:
        try:
            file = _hold(path)
        except OSError:  # such as a read-only parent: then nothing else is created there either
            continue
        held[path] = file
    return held


def hold_new_files(paths: Iterable[str]) -> dict[str, int]:
    """Create the missing files and lock them; return the locked open files by path.

    A file that exists or that cannot be created is left out.
    """
    held: dict[str, int] = {}
    for path in paths:
        try:
            file = _hold_file(path)
        except OSError:  # then the command cannot create it either
            continue
        if file is not None:
            held[path] = file
    return held


def release_placeholders(held: dict[str, int]) -> None:
    """Remove what no other command uses, if steno created it and it is empty and unchanged."""
    import fcntl  # noqa: PLC0415 - not on every platform that may import this file

    for path, file in held.items():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file)
            if _is_current(path, file) and int(found.st_mtime) == MARK_S:
                if stat.S_ISDIR(found.st_mode):
                    os.rmdir(path)
                elif not found.st_size:
                    os.unlink(path)
        except OSError:  # in use by another command, or not empty
            pass
        os.close(file)


def is_placeholder(path: str) -> bool:
    """Return whether a path is an empty folder with the mark of steno."""
    try:
        found = os.lstat(path)
        return (
            int(found.st_mtime) == MARK_S and stat.S_ISDIR(found.st_mode) and not os.listdir(path)
        )
    except OSError:
        return False


def is_held(path: str) -> bool:
    """Return whether a running command holds a folder."""
    import fcntl  # noqa: PLC0415 - not on every platform that may import this file

    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def mark_placeholder(path: str) -> None:
    """Mark an empty folder again, so that the last command that holds it removes it."""
    file = os.open(path, _FLAGS)
    try:
        os.utime(file, (MARK_S, MARK_S))
    finally:
        os.close(file)


def _hold(path: str) -> int:
    import fcntl  # noqa: PLC0415 - not on every platform that may import this file

    while True:
        try:
            os.mkdir(path, 0o755)
            os.utime(path, (MARK_S, MARK_S))
        except FileExistsError:
            pass
        try:
            file = os.open(path, _FLAGS)
        except FileNotFoundError:  # another command has just removed it
            continue
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_current(path, file):
            return file
        os.close(file)


def _hold_file(path: str) -> int | None:
    """Return the locked open file; None if the file belongs to somebody else."""
    import fcntl  # noqa: PLC0415 - not on every platform that may import this file

    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        is_created = False
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            is_created = True
        except FileExistsError:
            try:
                file = os.open(path, flags)
            except FileNotFoundError:  # another command has just removed it
                continue
        fcntl.flock(file, fcntl.LOCK_SH)
        if is_created:
            os.utime(file, (MARK_S, MARK_S))
        found = os.fstat(file)
        if _is_current(path, file):
            if int(found.st_mtime) == MARK_S and not found.st_size and stat.S_ISREG(found.st_mode):
                return file
            os.close(file)
            return None
        os.close(file)


def _is_current(path: str, file: int) -> bool:
    """Return whether an open folder is still at its path."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
    except OSError:
        return False
