"""Functions that write to stdout and files, and report write errors.

A file is replaced as a whole. A device, a pipe and the path of an open descriptor (`/dev/stdout`)
are never replaced, because other processes use them, too.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

import msgspec

from steno.render.terminal_text import terminal_json

STDOUT: Final = "stdout"
"""The name of stdout in errors."""
_MAX_LINKS: Final = 40
"""The maximum number of consecutive symbolic links to follow, as in Linux."""
_DESCRIPTOR_PATH: Final = re.compile(
    r"/dev/fd/(\d{1,9})|/proc/(\d+)/(?:task/\d+/)?fd/(\d{1,9})", re.ASCII
)
"""The path of an open descriptor; a path in `/proc` contains the id of its process."""
_PRINT_DESCRIPTORS: Final = (1, 2)
"""The descriptors of stdout and stderr."""


@final
class OutputError(OSError):
    """Output could not be written, for example because the disk is full or access is denied."""

    @property
    def is_stdout(self) -> bool:
        """Whether the error concerns stdout, not a file."""
        return bool(self.filename == STDOUT)

    def __str__(self) -> str:
        return (
            f"{self.filename}: cannot be written: {self.strerror}; fix the cause or write elsewhere"
        )


@contextmanager
def report_write_errors(place: str) -> Generator[None]:
    """Convert an OSError in the block to an OutputError that names the place.

    A BrokenPipeError is not converted.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise OutputError(exc.errno, exc.strerror, place) from exc


def print_json(data: bytes, *, escape: bool = True) -> None:
    """Print JSON, indented if stdout is a terminal. Raises OutputError if writing fails.

    If stdout is a terminal or `escape` is true, characters that a terminal would interpret are
    escaped.
    """
    if sys.stdout.isatty():
        data = terminal_json(msgspec.json.format(data))
    elif escape:
        data = terminal_json(data)
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(data + b"\n")


def print_line(text: str) -> None:
    """Print a line on stdout. Raises OutputError if writing fails."""
    escape_unencodable_output()
    with report_write_errors(STDOUT):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def escape_unencodable_output() -> None:
    """Configure stdout to print characters that its encoding lacks as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


# -- files -----------------------------------------------------------------------------------


def write_file(target: Path, data: bytes) -> None:
    """Write a file atomically, readable by the user alone. Raises OutputError if writing fails.

    Data for a shared target is appended to it; the target is not replaced.
    """
    with report_write_errors(str(target)):
        if is_shared_target(target):
            append_to_shared(target, data)
        else:
            _replace_file(_resolve_links(target), data)


def is_shared_target(target: Path) -> bool:
    """Return whether the target of a path must not be replaced, because other processes use it.

    This applies to a device, a pipe, the path of an open descriptor, and a file to which stdout or
    stderr is redirected.
    """
    if _match_descriptor_path(target) is not None or _own_descriptor(target) is not None:
        return True
    return target.exists() and not target.is_file() and not target.is_dir()


def append_to_shared(target: Path, data: bytes) -> None:
    """Append data to a shared target, after all output printed so far.

    Raises OutputError if writing fails.
    """
    with report_write_errors(str(target)):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # The descriptor of this process has the current file position; a new one would not.
        own = _own_descriptor(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND) if own is None else os.dup(own)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except BrokenPipeError as exc:
            if own in _PRINT_DESCRIPTORS:
                raise  # the process that read the output has exited
            raise OutputError(exc.errno, exc.strerror, str(target)) from exc


def _resolve_links(target: Path) -> Path:
    """Return a path with its links resolved; the target need not exist.

    Raises OSError if the links form a loop.
    """
    resolved = Path(os.path.realpath(target))
    if resolved.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return resolved


def _replace_file(target: Path, data: bytes) -> None:
    temporary = target.parent / f".steno-{os.urandom(8).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _own_descriptor(target: Path) -> int | None:
    """Return the descriptor of this process that refers to the target; None if there is none."""
    match = _match_descriptor_path(target)
    if match is not None:
        number, process, process_number = match.groups()
        is_own = process in (None, str(os.getpid()))
        return int(number or process_number) if is_own else None
    for descriptor in _PRINT_DESCRIPTORS:
        with suppress(OSError):
            if os.path.samestat(target.stat(), os.fstat(descriptor)):
                return descriptor
    return None


def _match_descriptor_path(target: Path) -> re.Match[str] | None:
    """Follow links up to the path of an open descriptor, and return the match.

    Return None if the links do not lead to such a path. The path of a descriptor is itself a link
    to the file, which is not followed.
    """
    for _ in range(_MAX_LINKS):
        folder = Path(os.path.realpath(target.parent))
        match = _DESCRIPTOR_PATH.fullmatch(str(folder / target.name))
        if match is not None or not target.is_symlink():
            return match
        target = folder / target.readlink()
    return None
