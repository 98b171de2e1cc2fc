"""Write to stdout and files, and report errors of writing.

A file is replaced as a whole. A device, a pipe, and the path of an open descriptor (`/dev/stdout`)
are never replaced: other processes use them, too.
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
"""The number of links in a row that an operating system follows."""
_DESCRIPTOR_PATH: Final = re.compile(
    r"/dev/fd/(\d{1,9})|/proc/(\d+)/(?:task/\d+/)?fd/(\d{1,9})", re.ASCII
)
"""The path of an open descriptor; in `/proc` with the id of its process."""
_PRINT_DESCRIPTORS: Final = (1, 2)
"""The descriptors of stdout and stderr."""


@final
class OutputError(OSError):
    """Output could not be written: the disk is full, or access is denied."""

    @property
    def is_stdout(self) -> bool:
        """Whether the error is about stdout, not about a file."""
        return bool(self.filename == STDOUT)

    def __str__(self) -> str:
        return (
            f"{self.filename}: cannot be written: {self.strerror}; fix the cause or write elsewhere"
        )


@contextmanager
def report_write_errors(place: str) -> Generator[None]:
    """Name the place in errors of writing. Raises OutputError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise OutputError(exc.errno, exc.strerror, place) from exc


def print_json(data: bytes, *, escape: bool = True) -> None:
    """Print JSON: indented on a terminal, else on one line. Raises OutputError.

    Characters that a terminal would act on are escaped; for a pipe, only if `escape` is true.
    """
    if sys.stdout.isatty():
        data = terminal_json(msgspec.json.format(data))
    elif escape:
        data = terminal_json(data)
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(data + b"\n")


def escape_unencodable_output() -> None:
    """Let stdout print characters that its encoding lacks as escapes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


# -- files -----------------------------------------------------------------------------------


def write_file(target: Path, data: bytes) -> None:
    """Write a file as a whole, or not at all, readable by the user alone. Raises OutputError.

    A shared target is appended to, not replaced.
    """
    with report_write_errors(str(target)):
        if is_shared_target(target):
            append_to_shared(target, data)
        else:
            _replace_file(_resolve_links(target), data)


def is_shared_target(target: Path) -> bool:
    """Return whether a path is a device, a pipe or an open file, which must not be replaced."""
    if _match_descriptor_path(target) is not None or _own_descriptor(target) is not None:
        return True
    return target.exists() and not target.is_file() and not target.is_dir()


def append_to_shared(target: Path, data: bytes) -> None:
    """Append to a shared target, after everything that was printed before. Raises OutputError."""
    with report_write_errors(str(target)):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # The descriptor of this process keeps its position in the file; a new one would not.
        own = _own_descriptor(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND) if own is None else os.dup(own)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except BrokenPipeError as exc:
            if own in _PRINT_DESCRIPTORS:
                raise  # the reader of the output is gone
            raise OutputError(exc.errno, exc.strerror, str(target)) from exc


def _resolve_links(target: Path) -> Path:
    """Return the file that links lead to, whether it exists or not. Raises OSError for a loop."""
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
    """Return the descriptor with which this process prints to a file; None if there is none."""
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
    """Follow the links of a path up to the path of a descriptor; None if there is none.

    The link of the descriptor itself is not followed: it leads to the file, not to the descriptor.
    """
    for _ in range(_MAX_LINKS):
        folder = Path(os.path.realpath(target.parent))
        match = _DESCRIPTOR_PATH.fullmatch(str(folder / target.name))
        if match is not None or not target.is_symlink():
            return match
        target = folder / target.readlink()
    return None
