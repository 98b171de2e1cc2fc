"""What there is in a folder, which files a pattern names, and which name may have been meant.

Files are found by the engine that searches for models, too, so that the same ones are left out:
what is hidden, and what `.gitignore` and its like name. Nothing is asked here about permissions.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from difflib import get_close_matches
from itertools import chain, islice
from typing import Final, NamedTuple

from steno.errors import InvalidValue, ToolFailed
from steno.tools.descent import quoted
from steno.tools.globs import below, names_hidden, printable
from steno.tools.search import Engine, check_existing
from steno.tools.searching import TIME_LIMIT_S
from steno.tools.workspace import Workspace

_GLOB: Final = frozenset("*?[{")
_MOST_COMPARED: Final = 2_000
"""Of the names in a folder, so many are compared with one that is not there."""


# -- patterns --------------------------------------------------------------------------------


def is_pattern(path: str) -> bool:
    """Tell whether a path may stand for several, if nothing is called just that."""
    return not _GLOB.isdisjoint(path)


async def matching(workspace: Workspace, engine: Engine, pattern: str) -> list[str]:
    """Return the names of all files that a pattern is about, in order.

    `*` stops at a slash, as in a shell. Raises ToolFailed.
    """
    steps = pattern.split("/")
    fixed = next(number for number, step in enumerate(steps) if is_pattern(step))
    folder, rest = "/".join(steps[:fixed]), "/".join(steps[fixed:])
    if fixed and not folder:
        folder = "/"
    try:
        # The slash says that the pattern begins in this folder, and not in any below it.
        under = await asyncio.to_thread(workspace.relative, folder or ".")
        wants = below(under, f"/{rest}")
    except InvalidValue as exc:
        raise ToolFailed(f"{quoted(pattern)}: {exc}") from exc
    await asyncio.to_thread(check_existing, workspace, under)
    names = await _files(engine, under, hidden=names_hidden(rest))
    return await asyncio.to_thread(
        lambda: [each for each in names if each != under and wants(each)]
    )


# -- folders ---------------------------------------------------------------------------------


class Listing(NamedTuple):
    """What is in a folder, a line each, and how many lines there was no room for."""

    text: str
    left_out: int


async def list_folder(workspace: Workspace, engine: Engine, name: str, *, most: int) -> Listing:
    """List a folder: what lies in it, and not what lies deeper. Raises ToolFailed.

    Folders in which there are no files to speak of are not among them.
    """
    await asyncio.to_thread(_check_readable, workspace, name)
    names = await _files(engine, name, hidden=False)
    return await asyncio.to_thread(_listing, workspace, name, names, most)


def _check_readable(workspace: Workspace, name: str) -> None:
    """Raise ToolFailed unless a folder can be listed: an engine passes by what it cannot read."""
    for _ in workspace.strict.files(name, enters=lambda _: False):
        return


def _listing(workspace: Workspace, name: str, names: list[str], most: int) -> Listing:
    start = 0 if name == "." else len(name) + 1
    folders = sorted({each[start:].partition("/")[0] for each in names if "/" in each[start:]})
    files = sorted([each for each in names if "/" not in each[start:]])
    counts = f"{_counted(folders, 'folder')} and {_counted(files, 'file')}"
    lines = [f"{printable(name)}/ holds {counts}, without what is hidden or ignored:"]
    lines += [f"{printable(folder)}/" for folder in folders[:most]]
    for file in files[: max(0, most - len(folders))]:
        lines.append(printable(file[start:]) + _size_of(workspace, file))
    left_out = max(0, len(folders) + len(files) - most)
    if left_out:
        lines.append(f"[... {left_out:,} more ...]")
    return Listing("\n".join(lines) + "\n", left_out)


def _counted(names: list[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _size_of(workspace: Workspace, name: str) -> str:
    try:
        with workspace.strict.open_file(name) as file:
            return f" ({os.fstat(file.fileno()).st_size:,} bytes)"
    except ToolFailed:
        return ""  # it may not be read, or has gone since


async def _files(engine: Engine, under: str, *, hidden: bool) -> list[str]:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await engine.files(under, hidden=hidden)
    except TimeoutError:
        raise ToolFailed(
            f"{quoted(under)}: not looked through after {TIME_LIMIT_S:g} s; point at less of it"
        ) from None


# -- names that there are not ----------------------------------------------------------------


def nearest(workspace: Workspace, name: str) -> str | None:
    """Return what may be meant by a name that is not there: one like it, in the same folder.

    If folders on the way are missing, the first of them is looked at.
    """
    folder, missing = posixpath.split(name)
    try:
        while not workspace.exists(folder or "."):
            folder, missing = posixpath.split(folder)
        found = _closest(missing, _names_in(workspace, folder or "."))
        if found is None:
            return None
        near = posixpath.join(folder, found)
        whole = near + name[len(posixpath.join(folder, missing)) :]
        return whole if workspace.exists(whole) else near
    except ToolFailed:
        return None


def _names_in(workspace: Workspace, folder: str) -> list[str]:
    folders: list[str] = []

    def enters(below: str) -> bool:
        folders.append(below)
        return False

    found = chain(workspace.files(folder, enters=enters), folders)
    return [each.rpartition("/")[2] for each in islice(found, _MOST_COMPARED)]


def _closest(name: str, known: list[str]) -> str | None:
    by_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_case, n=1)
    return by_case[near[0]] if near else None
