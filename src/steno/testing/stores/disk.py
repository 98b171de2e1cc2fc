"""The files of a store, taken down as they are and put back otherwise. Nothing here knows a format.

A case takes them down while the store is open, and so gets what a machine that lost its power
would find: logs that nobody has cleared, and the last write at the very end of its file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from steno.testing.stores.subject import NotApplicable, Subject

Files: TypeAlias = Mapping[Path, bytes]
"""What is in each file."""


def taken_down(subject: Subject) -> Files:
    """Return what a store has on the disk now. Raises NotApplicable if it has nothing there."""
    return {path: path.read_bytes() for path in paths_of(subject)}


def paths_of(subject: Subject) -> tuple[Path, ...]:
    """Return the files of a store. Raises NotApplicable if it has none."""
    found = subject.files()
    if found is None:
        raise NotApplicable("it has no files of its own that could be damaged")
    return tuple(found)


def put_back(subject: Subject, files: Files) -> None:
    """Let these files, and no others, be what the store has on the disk; nobody has it open."""
    for path in paths_of(subject):
        if path not in files:
            path.unlink()
    for path, data in files.items():
        path.write_bytes(data)


@contextmanager
def mended_after(subject: Subject) -> Generator[None]:
    """Put everything back as it was, whatever is done to it meanwhile."""
    before = taken_down(subject)
    try:
        yield
    finally:
        put_back(subject, before)


@contextmanager
def read_only(subject: Subject, *, with_folders: bool) -> Generator[None]:
    """Let nobody write to the files for a while, nor to the folders in which nothing else lies."""
    files = paths_of(subject)
    folders = {path.parent for path in files} if with_folders else set[Path]()
    own = [folder for folder in folders if _holds_only(folder, files)]
    modes = {path: path.stat().st_mode for path in (*files, *own)}
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in modes.items():
            with suppress(FileNotFoundError):  # it was not as read-only as it should be
                path.chmod(mode)


def _holds_only(folder: Path, files: tuple[Path, ...]) -> bool:
    return all(
        path in files or (path.is_dir() and _holds_only(path, files)) for path in folder.iterdir()
    )


def grown(stages: list[Files]) -> Iterator[tuple[Path, list[int]]]:
    """Return the files that were added to, each with how long it was at every stage."""
    for path in stages[-1]:
        sizes = [len(files.get(path, b"")) for files in stages]
        if sizes[0] < sizes[-1] and sizes == sorted(sizes):
            yield path, sizes
