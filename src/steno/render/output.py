"""Where commands write to: stdout, files, and what is said when there is no room.

A file is replaced as a whole. What somebody else reads from or writes to as well is never replaced:
a device, a pipe, and what a process has open, by whatever name it goes (`/dev/stdout`).
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

import msgspec

from steno.render.terminal_text import terminal_json

_MAX_LINKS: Final = 40
"""So many links one behind the other a system follows."""
_DESCRIPTOR_PATH: Final = re.compile(
    r"/dev/fd/(\d{1,9})|/proc/(\d+)/(?:task/\d+/)?fd/(\d{1,9})", re.ASCII
)
"""What is open, under its number; in `/proc` that of a process, which is told by its own."""
_PRINT_DESCRIPTORS: Final = (1, 2)
"""The descriptors of stdout and stderr."""


@final
class OutputError(OSError):
    """What was to be written could not be: the disk is full, or the place is not ours."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be written: {self.strerror}; make room or write elsewhere"


@contextmanager
def report_write_errors(place: str) -> Generator[None]:
    """Say which place it is where nothing can be written. Raises Unwritable."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise OutputError(exc.errno, exc.strerror, place) from exc


def print_json(data: bytes) -> None:
    """Print JSON: readable on a terminal, one line for a program. Raises Unwritable."""
    if sys.stdout.isatty():
        data = terminal_json(msgspec.json.format(data))
    with report_write_errors("stdout"):
        sys.stdout.buffer.write(data + b"\n")


# -- files -----------------------------------------------------------------------------------


def write_file(target: Path, data: bytes) -> None:
    """Write a file as a whole, or not at all; nobody else may read it. Raises Unwritable.

    What is not to be replaced is written to.
    """
    with report_write_errors(str(target)):
        if is_shared_target(target):
            append_to_shared(target, data)
        else:
            _replace_file(_resolve_links(target), data)


def is_shared_target(target: Path) -> bool:
    """Tell whether a place is a device, a pipe or open already: to be written to, not replaced."""
    if _match_descriptor_path(target) is not None or _own_descriptor(target) is not None:
        return True
    return target.exists() and not target.is_file() and not target.is_dir()


def append_to_shared(target: Path, data: bytes) -> None:
    """Write behind what is there, and behind what was printed before. Raises Unwritable."""
    with report_write_errors(str(target)):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # One that is ours is used as it is: opened anew, it would begin elsewhere in the file.
        own = _own_descriptor(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND) if own is None else os.dup(own)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except BrokenPipeError as exc:
            if own in _PRINT_DESCRIPTORS:
                raise  # who reads what we print has seen enough
            raise OutputError(exc.errno, exc.strerror, str(target)) from exc


def _resolve_links(target: Path) -> Path:
    """Return the file that links lead to, there or not. Raises OSError if they lead nowhere."""
    found = Path(os.path.realpath(target))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _replace_file(target: Path, data: bytes) -> None:
    draft = target.parent / f".steno-{os.urandom(8).hex()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _own_descriptor(target: Path) -> int | None:
    """Return under which number we have a file open that we may print to; None if we have not."""
    opened = _match_descriptor_path(target)
    if opened is not None:
        number, process, number_there = opened.groups()
        is_ours = process in (None, str(os.getpid()))
        return int(number or number_there) if is_ours else None
    for printed_to in _PRINT_DESCRIPTORS:
        with suppress(OSError):
            if os.path.samestat(target.stat(), os.fstat(printed_to)):
                return printed_to
    return None


def _match_descriptor_path(target: Path) -> re.Match[str] | None:
    """Return the name of a descriptor that a path leads to, link by link; None if to none.

    Its own link is not followed: it tells which file that is, and not how it was opened.
    """
    for _ in range(_MAX_LINKS):
        folder = Path(os.path.realpath(target.parent))
        found = _DESCRIPTOR_PATH.fullmatch(str(folder / target.name))
        if found is not None or not target.is_symlink():
            return found
        target = folder / target.readlink()
    return None
