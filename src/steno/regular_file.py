"""Open files that somebody else may have replaced by a pipe, a socket or a device.

Opening a pipe waits for a writer, reading it may wait forever, and opening a device may have side
effects. Files in a workspace are opened by `steno.tools.safe_open`, which also decides about links.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

NO_WAIT_FLAGS: Final[int] = (  # Windows lacks them
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
)
"""Flags for opening a file, with which a pipe in its place cannot hang the program."""


def open_regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; links are followed.

    Raises OSError if the file cannot be opened, or is not a regular file.
    """
    # Checked before opening, because opening a device may have side effects. Only the second check,
    # of the opened file, is safe from a swap.
    check_regular(os.stat(path))  # noqa: PTH116 - Path would be made of every path
    return open(path, "rb", opener=_open_without_waiting)


def open_input(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file or a pipe that the user names, such as `<(command)`, for reading.

    A pipe that no program writes to is empty instead of waiting for a writer. Raises OSError if the
    file cannot be opened.
    """
    return open(path, "rb", opener=_open_input)


def check_regular(found: os.stat_result) -> None:
    """Raise OSError unless a file is a regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def _open_without_waiting(path: str, flags: int) -> int:
    file = os.open(path, flags | NO_WAIT_FLAGS)
    try:
        check_regular(os.fstat(file))
    except BaseException:
        os.close(file)
        raise
    return file


def _open_input(path: str, flags: int) -> int:
    file = os.open(path, flags | NO_WAIT_FLAGS)
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(file, True)  # only opening must not wait; a writer may need time
    return file
