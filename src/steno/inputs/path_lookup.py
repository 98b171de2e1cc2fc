"""List folders, find the files of a pattern, and suggest a path for one that does not exist.

Hidden and ignored files are left out, as in the searches of models. Permissions are not checked
here.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Awaitable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from steno.context.notes import folder_heading
from steno.errors import InvalidValue, ToolFailed
from steno.suggest import closest_name
from steno.tools.path_patterns import (
    IgnoreRules,
    asks_for_hidden_names,
    build_filter_below,
    printable_name,
)
from steno.tools.safe_open import explain_os_errors, open_path, path_error, quote_path
from steno.tools.search import SearchEngine, check_exists, read_ignore_file
from steno.tools.workspace import Workspace
from steno.values import is_utf8_text

T = TypeVar("T")

_GLOB_CHARACTERS: Final = frozenset("*?[{")
_MAX_COMPARED_NAMES: Final = 2_000
"""Of the names in a folder, so many are compared with one that is not there."""
_SUGGEST_TIMEOUT_S: Final = 3.0
"""How long to search for a file that may have been meant."""
_ENTRY_SUFFIX: Final = re.compile(r" \((?:[0-9,]+ bytes|link)\)\Z")
"""The size or kind that follows a name in a listing."""


class PathLookupTimeout(ToolFailed):
    """A search for files took too long."""

    code = "lookup_timeout"


async def _with_timeout(limit_s: float, name: str, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        raise PathLookupTimeout(
            f"not looked through after {limit_s:g} s; point at less of it",
            place=quote_path(name),
        ) from None


def workspace_name(workspace: Workspace, path: str) -> str:
    """Return the name that the workspace has for a path. Raises ToolFailed."""
    try:
        return workspace.relative(path)
    except ToolFailed as exc:
        real = Path(os.path.realpath(workspace.root / path))
        if any(real.is_relative_to(root) for root in workspace.roots):
            raise
        raise ToolFailed(
            f"{exc.message}; its folder can be added with --add-dir",
            code=exc.code,
            place=exc.place,
        ) from exc


# -- patterns --------------------------------------------------------------------------------


def is_glob(path: str) -> bool:
    """Return whether a path is a pattern, unless a file has exactly this name."""
    return not _GLOB_CHARACTERS.isdisjoint(path)


async def find_matching_files(
    workspace: Workspace, engine: SearchEngine, pattern: str, *, timeout_s: float
) -> list[str]:
    """Return the names of all files that a pattern is about, in order.

    `*` stops at a slash, as in a shell. Raises ToolFailed, PathLookupTimeout.
    """
    steps = pattern.split("/")
    first_glob = next(number for number, step in enumerate(steps) if is_glob(step))
    folder, rest = "/".join(steps[:first_glob]), "/".join(steps[first_glob:])
    if first_glob and not folder:
        folder = "/"
    try:
        # A leading slash anchors the pattern in this folder.
        under = await asyncio.to_thread(workspace_name, workspace, folder or ".")
        matches = build_filter_below(under, f"/{rest}")
    except InvalidValue as exc:
        raise path_error(pattern, str(exc), code=exc.code) from exc
    await asyncio.to_thread(check_exists, workspace, under)
    names = await _with_timeout(
        timeout_s, under, engine.files(under, hidden=asks_for_hidden_names(rest))
    )
    return await asyncio.to_thread(
        lambda: [name for name in names if name != under and matches(name)]
    )


# -- folders ---------------------------------------------------------------------------------


class FolderListing(NamedTuple):
    """The entries of a folder, a line each, and how many more there are."""

    text: str
    left_out: int


async def list_folder(
    workspace: Workspace, name: str, *, max_entries: int, timeout_s: float
) -> FolderListing:
    """List the direct entries of a folder. Raises ToolFailed, PathLookupTimeout."""
    listing = asyncio.to_thread(_build_listing, workspace, name, max_entries)
    return await _with_timeout(timeout_s, name, listing)


def _build_listing(workspace: Workspace, name: str, max_entries: int) -> FolderListing:
    ignored = IgnoreRules(partial(read_ignore_file, workspace), os.path.lexists)
    entries = _read_folder(workspace.strict, name)

    def visible(names: Iterable[str], *, is_folder: bool = False) -> list[str]:
        paths = {name: str(workspace.root / name) for name in names}
        found = [e for e, path in paths.items() if not ignored.ignores(path, is_folder=is_folder)]
        return sorted(found)

    folders, files = visible(entries.folders, is_folder=True), visible(entries.files)
    links = visible(_find_links(workspace, name))
    counts = [_count_text(folders, "folder"), _count_text(files, "file")]
    counts += [_count_text(links, "link")] if links else []
    counts_text = f"{', '.join(counts[:-1])} and {counts[-1]}"
    lines = [folder_heading(printable_name(name), counts_text)]
    remaining = max(0, max_entries - len(folders))
    lines += [f"{printable_name(_base_name(folder))}/" for folder in folders[:max_entries]]
    lines += [
        printable_name(_base_name(file)) + _size_note(workspace, file) for file in files[:remaining]
    ]
    remaining = max(0, remaining - len(files))
    lines += [f"{printable_name(_base_name(link))} (link)" for link in links[:remaining]]
    left_out = max(0, len(folders) + len(files) + len(links) - max_entries)
    if left_out:
        lines.append(f"[... {left_out:,} more ...]")
    return FolderListing("\n".join(lines) + "\n", left_out)


def parse_listing(listing: FolderListing) -> dict[str, str]:
    """Return the lines of a listing that are about something, by its name as it is printed."""
    lines = listing.text.splitlines()[1 : -1 if listing.left_out else None]
    return {_ENTRY_SUFFIX.sub("", line).removesuffix("/"): line for line in lines}


class _FolderEntries(NamedTuple):
    folders: list[str]
    files: list[str]


def _read_folder(workspace: Workspace, folder: str) -> _FolderEntries:
    """Return what is in a folder, as the workspace spells it. Raises ToolFailed."""
    folders: list[str] = []

    def enters(below: str) -> bool:
        folders.append(below)
        return False

    files = [file for file in workspace.files(folder, should_enter=enters) if file != folder]
    return _FolderEntries(folders, files)


def _find_links(workspace: Workspace, folder: str) -> list[str]:
    """Return the links in a folder; their targets are not resolved.

    Raises ToolFailed if the folder itself is reached through a link by now.
    """
    real = workspace.root / folder
    tops = frozenset(root.parts[1:] for root in workspace.roots)
    with explain_os_errors(folder), open_path(str(real), (), tops) as resolved:
        if resolved.rest or resolved.names != real.parts[1:]:
            raise path_error(
                folder, "has changed since it was allowed; try again", code="changed_since_allowed"
            )
        with os.scandir(resolved.folder) as entries:
            names = [
                entry.name for entry in entries if entry.is_symlink() and is_utf8_text(entry.name)
            ]
    return [name if folder == "." else posixpath.join(folder, name) for name in names]


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _count_text(names: list[str], what: str) -> str:
    return f"{len(names):,} {what}{'' if len(names) == 1 else 's'}"


def _size_note(workspace: Workspace, name: str) -> str:
    try:
        with workspace.strict.open_file(name) as file:
            return f" ({os.fstat(file.fileno()).st_size:,} bytes)"
    except ToolFailed:
        return ""  # it may not be read, or has gone since


# -- suggestions ------------------------------------------------------------------------------


async def suggest_path(workspace: Workspace, engine: SearchEngine, name: str) -> str | None:
    """Return the path that may be meant by one that does not exist.

    That is the only file of this name further down, or else one with a similar name.
    """
    try:
        files = await _with_timeout(_SUGGEST_TIMEOUT_S, name, engine.files(".", hidden=False))
    except ToolFailed:
        files = []
    deeper = [file for file in files if file.endswith(f"/{name}")]
    return (
        deeper[0] if len(deeper) == 1 else await asyncio.to_thread(_nearest_path, workspace, name)
    )


def _nearest_path(workspace: Workspace, name: str) -> str | None:
    """Return a name like one that is not there: step by step, as far as there is one."""
    folder, steps = name, list[str]()
    nearest = None
    try:
        while not workspace.exists(folder or "."):
            folder, step = posixpath.split(folder)
            steps.insert(0, step)
        for step in steps:
            entries = _read_folder(workspace, folder or ".")
            known = [
                _base_name(path)
                for path in (*entries.folders, *entries.files)[:_MAX_COMPARED_NAMES]
            ]
            found = step if step in known else closest_name(step, known)
            if found is None:
                break
            nearest = folder = posixpath.join(folder, found)
    except ToolFailed:
        pass
    return nearest
