"""Files, folders and patterns that a person points at, and what a model sees in their place.

A path is decided about by the name that the workspace has for it, and then just that is opened:
whatever is swapped in between leads nowhere. What was shown counts as read, so the model may
change it. All of what a reference is about is shown, or nothing is.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from typing import Final, assert_never, final

from steno.content import FileReference, Text
from steno.entry import Resolution, ResolutionStatus
from steno.errors import ToolFailed
from steno.inputs.extract import Extract, NotText, TooLong, extract
from steno.inputs.listing import (
    Listing,
    TookTooLong,
    entries_of,
    is_pattern,
    list_folder,
    matching,
    meant,
    spelled,
)
from steno.inputs.permitting import permitted
from steno.inputs.seen import (
    SeenFile,
    SeenFiles,
    SeenFolder,
    came,
    changed,
    changes_of,
    gone,
    read_seen,
    unclear,
    unreadable,
)
from steno.ports import Capability, Finding, Viewer
from steno.tools.descent import quoted
from steno.tools.globs import printable
from steno.tools.ripgrep import engine_for as search_engine_for
from steno.tools.search import Engine
from steno.tools.searching import TIME_LIMIT_S
from steno.tools.workspace import Fingerprint, Workspace
from steno.value import Quiet


@final
class FileLimits(Quiet, frozen=True, kw_only=True):
    """How much a reference may bring into a conversation."""

    most_bytes: int = 256 * 1024
    """Of what is shown, with the numbers of lines."""
    most_files: int = 20
    """That a pattern may name."""
    most_listed: int = 500
    """Of what is in a folder; the rest is counted."""
    most_s: float = TIME_LIMIT_S
    """That looking through folders may take."""


DEFAULT_LIMITS: Final = FileLimits()


@final
class Files:
    """Opens what people point at in a workspace, with the rights of the tool `read`."""

    def __init__(
        self,
        workspace: Workspace | None,
        *,
        limits: FileLimits = DEFAULT_LIMITS,
        engine: Engine | None = None,
    ) -> None:
        """Take the best engine to find files that there is, unless one is given."""
        self._workspace: Final = workspace
        self._limits: Final = limits
        self._given_engine: Final = engine

    async def resolve(self, reference: FileReference, viewer: Viewer) -> Finding:
        """Open a file, a folder or what a pattern names. What fails is a finding with an error."""
        try:
            return await self._resolve(reference, viewer)
        except ToolFailed as exc:
            return Finding(error=str(exc))

    def is_current(self, reference: FileReference, resolution: Resolution, viewer: Viewer) -> bool:
        """Tell whether it was resolved: a file that was shown is not shown anew by itself."""
        return resolution.status is ResolutionStatus.RESOLVED

    async def changes(
        self,
        reference: FileReference,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return which of the files are not what they were when they were shown. Never raises.

        Files that are `known` by now are not looked at, and in folders their lines do not count.
        """
        workspace, seen = self._workspace, read_seen(resolution.details)
        if workspace is None or seen is None:
            return ()
        match seen:
            case SeenFile():
                return await asyncio.to_thread(changes_of, workspace, (seen,), known)
            case SeenFolder():
                return await self._changes_of_folder(workspace, seen, resolution, known)
            case SeenFiles():
                return await self._changes_of_files(workspace, reference.path, seen, known)
            case _:
                assert_never(seen)

    # -- opening -----------------------------------------------------------------------------

    async def _resolve(self, reference: FileReference, viewer: Viewer) -> Finding:
        workspace = self._workspace
        if workspace is None:
            raise ToolFailed(
                f"{quoted(reference.path)}: there is no workspace, so no file can be opened;"
                " name a folder to work in"
            )
        name = await asyncio.to_thread(spelled, workspace, reference.path)
        if not await asyncio.to_thread(workspace.strict.exists, name):
            if is_pattern(reference.path):
                return await self._show_matching(workspace, reference, viewer)
            near = await meant(workspace, self._engine(workspace), name)
            hint = "" if near is None else f"; do you mean {quoted(near)}?"
            raise ToolFailed(f"{quoted(name)}: there is no such file or folder{hint}")
        rule = await _permitted(viewer, name, reference)
        if await asyncio.to_thread(_is_folder, workspace, name):
            return await self._show_folder(workspace, reference, name, rule=rule)
        return await asyncio.to_thread(self._show_file, workspace, reference, name, rule)

    def _show_file(
        self, workspace: Workspace, reference: FileReference, name: str, rule: str
    ) -> Finding:
        data = workspace.strict.read_file(name)
        text, details = extract(name, data, reference, most_bytes=self._limits.most_bytes)
        workspace.strict.mark_as_read(name, data)
        return Finding(content=(Text(text),), details={**details, "allowed_by": rule})

    async def _show_folder(
        self, workspace: Workspace, reference: FileReference, name: str, *, rule: str
    ) -> Finding:
        _check_without_lines(reference, "a folder")
        text, left_out = await self._list_folder(workspace, name)
        details = {
            "kind": "folder",
            "path": name,
            "sha256": _sha256(text),
            "left_out": left_out,
            "allowed_by": rule,
        }
        note = f"{printable(name)}: holds {left_out:,} more names than are shown"
        return Finding(content=(Text(text),), details=details, note=note if left_out else "")

    async def _show_matching(
        self, workspace: Workspace, reference: FileReference, viewer: Viewer
    ) -> Finding:
        _check_without_lines(reference, "a pattern")
        names = await self._find_matching_files(workspace, reference.path)
        if not names:
            raise ToolFailed(
                f"{quoted(reference.path)}: no file fits; what is hidden or ignored is left out"
            )
        if len(names) > self._limits.most_files:
            raise ToolFailed(
                f"{quoted(reference.path)}: {len(names):,} files fit, and no more than"
                f" {self._limits.most_files} can be shown; narrow the pattern"
            )
        rules = [await _permitted(viewer, name, reference) for name in names]
        extracts = await asyncio.to_thread(self._extract_files, workspace, reference, names)
        return Finding(
            content=tuple([Text(text) for text, _ in extracts]),
            details={
                "kind": "pattern",
                "files": [
                    {**details, "allowed_by": rule}
                    for (_, details), rule in zip(extracts, rules, strict=True)
                ],
            },
        )

    def _extract_files(
        self, workspace: Workspace, reference: FileReference, names: Sequence[str]
    ) -> list[Extract]:
        most = room = self._limits.most_bytes
        extracts: list[Extract] = []
        contents: dict[str, bytes] = {}
        for name in names:
            data = workspace.strict.read_file(name)
            try:
                extracts.append(extract(name, data, reference, most_bytes=room))
            except NotText as exc:
                raise _misfit(reference, name, f"is not text but {exc.kind}") from None
            except TooLong:
                if len(data) > most:
                    too_long = f"has {len(data):,} bytes, and no more than {most:,} can be shown"
                    raise _misfit(reference, name, too_long) from None
                raise ToolFailed(
                    f"{quoted(reference.path)}: {len(names)} files fit, which are together too long"
                    f" to be shown, with more than {most:,} bytes; narrow the pattern"
                ) from None
            room -= len(extracts[-1].text.encode())
            contents[name] = data
        for name, data in contents.items():
            workspace.strict.mark_as_read(name, data)
        return extracts

    # -- looking again -----------------------------------------------------------------------

    async def _changes_of_folder(
        self,
        workspace: Workspace,
        seen: SeenFolder,
        resolution: Resolution,
        known: frozenset[str],
    ) -> tuple[str, ...]:
        inside = {_step_in(path, seen.path) for path in known} - {""}
        try:
            if not await asyncio.to_thread(workspace.strict.exists, seen.path):
                return (gone(seen.path),)
            # With room for what came: nothing that was shown is left out because of it.
            now = await self._list_folder(workspace, seen.path, more=len(inside))
        except TookTooLong:
            return (unclear(seen.path),)
        except ToolFailed:
            return (unreadable(seen.path),)
        before = _shown(resolution)
        if before is None or not inside:
            is_same = _sha256(now.text) == seen.sha256
        else:
            is_same = _is_alike(before, now, frozenset(map(printable, inside)))
        return () if is_same else (changed(seen.path),)

    async def _changes_of_files(
        self, workspace: Workspace, pattern: str, seen: SeenFiles, known: frozenset[str]
    ) -> tuple[str, ...]:
        changes = await asyncio.to_thread(changes_of, workspace, seen.files, known)
        if not is_pattern(pattern):
            return changes
        try:
            names = await self._find_matching_files(workspace, pattern)
        except TookTooLong:
            return (*changes, unclear(pattern))
        except ToolFailed:
            return changes  # the folder is gone, and all of its files with it
        known |= {file.path for file in seen.files}
        return (*changes, *came([name for name in names if name not in known]))

    async def _find_matching_files(self, workspace: Workspace, pattern: str) -> list[str]:
        engine, limit_s = self._engine(workspace), self._limits.most_s
        return await matching(workspace, engine, pattern, limit_s=limit_s)

    async def _list_folder(self, workspace: Workspace, name: str, *, more: int = 0) -> Listing:
        most, limit_s = self._limits.most_listed + more, self._limits.most_s
        return await list_folder(workspace, name, most=most, limit_s=limit_s)

    def _engine(self, workspace: Workspace) -> Engine:
        return search_engine_for(workspace) if self._given_engine is None else self._given_engine


async def _permitted(viewer: Viewer, name: str, reference: FileReference) -> str:
    """Return what allows a file or folder to be read. Raises ToolFailed."""
    first, last = reference.start_line, reference.end_line or reference.start_line
    preview = name if first is None else f"{name}, lines {first} to {last}"
    told = printable(name)
    return await permitted(viewer, "read", Capability.READ, name, name=told, preview=preview)


def _is_folder(workspace: Workspace, name: str) -> bool:
    """Tell how to open something; if that changes before it is opened, opening fails."""
    try:
        return stat.S_ISDIR(os.lstat(workspace.root / name).st_mode)
    except OSError:
        return False


def _check_without_lines(reference: FileReference, what: str) -> None:
    if reference.start_line is not None:
        raise ToolFailed(f"{quoted(reference.path)}: is {what}, which has no lines; name a file")


def _sha256(text: str) -> str:
    return Fingerprint.of(text.encode()).sha256


def _misfit(reference: FileReference, name: str, why: str) -> ToolFailed:
    """Return why a file that a pattern names spoils it; nobody has named that file."""
    return ToolFailed(
        f"{quoted(reference.path)}: fits {printable(name)}, which {why}; narrow the pattern"
    )


# -- folders that were listed ----------------------------------------------------------------


def _shown(resolution: Resolution) -> Listing | None:
    """Return the listing that the model was shown, if the record has it."""
    left_out = (resolution.details or {}).get("left_out")
    match resolution.content:
        case (Text(text),) if isinstance(left_out, int):
            return Listing(text, left_out)
        case _:
            return None


def _step_in(path: str, folder: str) -> str:
    """Return what in a folder a path leads to; nothing if it leads elsewhere."""
    if folder == ".":
        return "" if path.startswith("/") else path.partition("/")[0]
    is_inside = path.startswith(f"{folder}/")
    return path[len(folder) + 1 :].partition("/")[0] if is_inside else ""


def _is_alike(before: Listing, now: Listing, known: frozenset[str]) -> bool:
    """Compare two listings but for what is known; of what was only counted nothing is known."""
    lines = {name: line for name, line in entries_of(before).items() if name not in known}
    others = {name: line for name, line in entries_of(now).items() if name not in known}
    return lines.items() <= others.items() if before.left_out else lines == others
