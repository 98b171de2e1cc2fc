"""How files are found and searched: what every engine does alike, and the one in pure Python.

An `Engine` names files and finds lines. It leaves out what `Ignored` leaves out, never follows a
link out of the workspace, and takes as text what `open_text` takes. Which files and lines those
are does not depend on the engine, only how long it takes. What a model sees of it is up to tools.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, final

from steno.errors import ToolFailed
from steno.tools import line_matcher
from steno.tools.child import child
from steno.tools.descent import quoted
from steno.tools.ignore import Ignored
from steno.tools.line_matcher import NUMBER_BYTES, number
from steno.tools.patterns import Pattern
from steno.tools.workspace import MOST_BYTES, Workspace

_SNIFFED: Final = 8192
_UTF_16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Search(NamedTuple):
    """What is looked for, and where."""

    pattern: Pattern
    under: str
    """A file or folder, as the workspace spells it."""
    hidden: bool
    """Whether names that begin with a dot count."""
    wants: Callable[[str], bool]
    """Which of the files below count. Asked once about each, before any is searched."""
    most: int
    """How many lines of one file are enough."""


class FileFound(NamedTuple):
    """A file with lines that fit."""

    name: str
    lines: tuple[int, ...]
    """Their numbers, counted from 1."""
    text: bytes
    """The whole file, as UTF-8 where it was UTF-16; other bytes stay as they are."""


class Engine(Protocol):
    """Finds files and lines. Raises ToolFailed, which a model should read."""

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder that a search would look at, in order."""
        ...

    def search(self, search: Search) -> AsyncGenerator[FileFound, None]:
        """Yield the files that hold what is looked for, in order."""
        ...


@final
class Sieve:
    """Lets files through that are wanted, and counts those of them that a rule leaves out.

    The count says nothing about what is in them: files are left out before they are searched.
    """

    def __init__(self, wants: Callable[[str], bool], denies: Callable[[str], bool]) -> None:
        self._wants = wants
        self._denies = denies
        self.left_out = 0

    def __call__(self, name: str) -> bool:
        """Tell whether a file is to be searched."""
        if not self._wants(name):
            return False
        is_denied = self._denies(name)
        self.left_out += is_denied
        return not is_denied

    @property
    def notes(self) -> list[str]:
        """What a model should know of it, without names."""
        files = "1 file" if self.left_out == 1 else f"{self.left_out:,} files"
        return [f"[{files} left out by a rule]"] if self.left_out else []


def check_existing(workspace: Workspace, name: str) -> None:
    """Raise ToolFailed unless there is something of a name that was decided about."""
    if not workspace.strict.exists(name):
        raise ToolFailed(f"{quoted(name)}: there is no such file or folder")


async def wanted(search: Search, names: Sequence[str]) -> list[str]:
    """Return those of many names that are to be searched."""
    return await asyncio.to_thread(lambda: [*filter(search.wants, names)])


def in_order(name: str) -> list[str]:
    """Return what names of files are sorted by: folder by folder."""
    return name.split("/")


def open_text(workspace: Workspace, name: str) -> BinaryIO | None:
    """Open a file to search it; None for what is passed by.

    That is what is not there any more or cannot be read, what is too large, and what is binary: with a NUL in its first 8
    KiB, unless it begins with the mark of UTF-16.
    """
    try:
        file = workspace.strict.open_file(name)
    except ToolFailed:
        return None
    head = os.pread(file.fileno(), _SNIFFED, 0)
    is_text = b"\0" not in head or head[:2] in _UTF_16
    if is_text and os.fstat(file.fileno()).st_size <= MOST_BYTES:
        return file
    file.close()
    return None


def read_text(file: BinaryIO) -> bytes:
    """Return what is searched of a file from `open_text`, without the mark at its beginning."""
    data = file.read(MOST_BYTES)
    encoding = _UTF_16.get(data[:2])
    if encoding is not None:
        return data[2:].decode(encoding, "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


@final
class PythonEngine:
    """Searches without any other program but Python."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder that a search would look at, in order."""
        given_up = threading.Event()

        def collect() -> list[str]:
            names: list[str] = []
            for name in self._walk(under, hidden):
                if given_up.is_set():
                    break
                names.append(name)
            return names

        try:
            return await asyncio.to_thread(collect)
        finally:
            given_up.set()  # a thread that nobody waits for any more shall not go on

    async def search(self, search: Search) -> AsyncGenerator[FileFound, None]:
        """Yield the files that hold what is looked for, in order."""
        names = await wanted(search, await self.files(search.under, hidden=search.hidden))
        command = [sys.executable, "-I", "-S", str(Path(line_matcher.__file__))]
        async with child(command, folder=self._workspace.root, reads=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for pattern in (search.pattern.python.encode(), search.pattern.ascii.encode()):
                process.stdin.write(number(len(pattern)) + pattern)
            for name in names:
                text = await asyncio.to_thread(self._read, name)
                if text is None:
                    continue
                try:
                    process.stdin.write(number(search.most) + number(len(text)) + text)
                    await process.stdin.drain()
                    lines = await _receive_numbers(process.stdout)
                except (ConnectionError, asyncio.IncompleteReadError) as exc:
                    raise ToolFailed(
                        "pattern: Python cannot search for it; make it simpler"
                    ) from exc
                if lines:
                    yield FileFound(name, lines, text)

    def _read(self, name: str) -> bytes | None:
        file = open_text(self._workspace, name)
        if file is None:
            return None
        with file:
            return read_text(file)

    def _walk(self, under: str, hidden: bool) -> Iterator[str]:
        ignored = Ignored(partial(read_rules, self._workspace), os.path.lexists, hidden=hidden)
        top = self._absolute(under)

        def enters(folder: str) -> bool:
            return not ignored.ignores(self._absolute(folder), is_folder=True)

        for name in self._workspace.strict.files(under, enters=enters):
            path = self._absolute(name)
            # Who names a file wants it searched.
            if path == top or not ignored.ignores(path, is_folder=False):
                yield name

    def _absolute(self, name: str) -> str:
        return str(self._workspace.root / name)


def read_rules(workspace: Workspace, path: str) -> bytes | None:
    """Read a file of rules, in the workspace or above it, where no model can put one."""
    if not os.path.lexists(path):  # true of most folders, and quickly seen
        return None
    try:
        return workspace.read_file(path)
    except ToolFailed:
        pass
    folder = Path(path).parent
    if not any(folder in root.parents for root in workspace.roots):
        return None
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


async def _receive_numbers(stream: asyncio.StreamReader) -> tuple[int, ...]:
    count = int.from_bytes(await stream.readexactly(NUMBER_BYTES), sys.byteorder)
    found = array("Q")
    found.frombytes(await stream.readexactly(count * NUMBER_BYTES))
    return tuple(found)
