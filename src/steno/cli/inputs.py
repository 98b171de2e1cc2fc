"""`steno inputs`: what the messages of a session point at, what came of it, and what has changed."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from steno.agent.pointing import Pointed, Pointers
from steno.captions import name_of
from steno.cli.commands import Commands, add_store_option
from steno.cli.findings import Facts, facts_of
from steno.cli.log import Log
from steno.cli.looking import load_settings_to_look
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import LAST, existing_store, find_session
from steno.cli.session import folder_of
from steno.content import FileReference, Image, ImageFile, Resource
from steno.entry import Compaction, Entry, ResolutionStatus
from steno.errors import InvalidValue, ToolFailed
from steno.identity import utc_now
from steno.inputs.inputs import Inputs
from steno.inputs.listing import is_pattern
from steno.inputs.seen import SeenFile, image_file, read_seen
from steno.json_object import expose, freeze_mapping
from steno.message import AssistantMessage
from steno.ports import Capability, Viewer
from steno.printable import age, on_one_line
from steno.tools import Workspace

_COLUMNS: Final = (
    Column("entry", "cyan", is_number=True),
    Column("kind"),
    Column("name", may_shrink=True),
    Column("when", "dim"),
    Column("status", "bold"),
    Column("how", may_shrink=True),
    Column("bytes", is_number=True),
    Column("sha256", "dim"),
    Column("since"),
)
_NOTHING_TO_TELL, _UNKNOWN = "-", "?"


class _Row(NamedTuple):
    """Something that is pointed at, and what has become of it."""

    reference: Pointed
    facts: Facts
    since: str
    """same, changed, gone; fresh, stale; `-` if nothing was shown that could change; `?`."""
    changes: tuple[str, ...] = ()


def add_commands(commands: Commands) -> None:
    """Add the command to the command line."""
    inputs = commands.add_parser(
        "inputs",
        help="show which files, images and resources a session points at",
        description="Show everything that the messages of a branch point at: files, folders, "
        "patterns, images and resources of MCP servers; how the model was shown it, and whether it "
        "has changed since. Nothing is sent, and no server is asked.",
        epilog="example: steno inputs last --json | jq 'select(.since == \"changed\").name'",
    )
    inputs.add_argument(
        "session",
        metavar="ID",
        nargs="?",
        default=LAST,
        help="an id, the beginning of one, or last (default)",
    )
    inputs.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    inputs.add_argument(
        "--all",
        action="store_true",
        help="of all branches, and of prompts that could not be sent",
    )
    inputs.add_argument("--json", action="store_true", help="print JSON, one object a line")
    add_store_option(inputs)
    inputs.set_defaults(run=_inputs)


def _inputs(options: argparse.Namespace) -> int:
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
    every = _pointed(log.entries.values())
    shown = every if options.all else _pointed(log.path(options.branch))
    rows = asyncio.run(_looked_at(shown, _workspace(folder_of(log.header))))
    if options.json:
        for row in rows:
            print_object(msgspec.json.encode(_described(row, log)))
    elif rows:
        errors = {number: _error_of(row.reference) for number, row in enumerate(rows)}
        Paper().table(_COLUMNS, [_cells(row, log) for row in rows], below=errors)
    left = len(every) - len(shown)
    if left == 1:
        note("1 was not sent or is not on this branch; --all shows it")
    elif left:
        note(f"{left:,} were not sent or are not on this branch; --all shows them")
    elif not rows:
        note("nothing is pointed at")
    return 0


def _pointed(entries: Iterable[Entry]) -> tuple[Pointed, ...]:
    """Return all that messages point at; here nothing counts as answered, or as summed up."""
    pointers = Pointers()
    put_away = AssistantMessage | Compaction
    pointers.read([entry for entry in entries if not isinstance(entry.payload, put_away)])
    return pointers.unanswered()


# -- what has changed ------------------------------------------------------------------------


def _workspace(folder: str | None) -> Workspace | None:
    """Return where the session worked; None if that is not known, or not there."""
    more = [path for path in load_settings_to_look().settings.add_dirs if path.is_dir()]
    try:
        return None if folder is None else Workspace([Path(folder), *more])
    except InvalidValue:
        return None


async def _looked_at(found: Iterable[Pointed], workspace: Workspace | None) -> list[_Row]:
    inputs = Inputs(workspace)
    return [await _row(one, inputs, workspace) for one in found]


async def _row(one: Pointed, inputs: Inputs, workspace: Workspace | None) -> _Row:
    details = None if one.resolution is None else one.resolution.details
    facts, path = facts_of(details), _path_of(one)
    if not one.is_resolved or one.resolution is None:
        return _Row(one, facts, _NOTHING_TO_TELL)
    if isinstance(one.reference, Resource):
        is_fresh = inputs.is_current(one.reference, one.resolution, Viewer(_never))
        return _Row(one, facts, "fresh" if is_fresh else "stale")
    if path is None:
        return _Row(one, facts, _NOTHING_TO_TELL)
    if workspace is not None and (file := _file_elsewhere(details, workspace)) is not None:
        workspace = await asyncio.to_thread(_with_folder_of, file, workspace)
        inputs = Inputs(workspace)
    if workspace is None:
        return _Row(one, facts, _UNKNOWN)
    changes = await inputs.changes(one.reference, one.resolution)
    if not changes:
        return _Row(one, facts, "same")
    if _kind_of(one) == "pattern":  # it is not the name of anything
        return _Row(one, facts, "changed", changes)
    return _Row(one, facts, await asyncio.to_thread(_fate, workspace, path), changes)


def _path_of(one: Pointed) -> str | None:
    """Return where something lies in the workspace; None for what does not lie there."""
    match one.reference:
        case FileReference(path=path) | Image(source=ImageFile(path)):
            return path
        case _:
            return None


def _file_elsewhere(details: Mapping[str, Any] | None, workspace: Workspace) -> Path | None:
    """Return a file on record that lies in none of the folders: its own was added for a run."""
    seen = read_seen(details) or image_file(details)
    file = Path(seen.path) if isinstance(seen, SeenFile) else Path()
    is_elsewhere = not any(file.is_relative_to(root) for root in workspace.roots)
    return file if file.is_absolute() and is_elsewhere else None


def _with_folder_of(file: Path, workspace: Workspace) -> Workspace | None:
    """Return a workspace in which a file can be compared, under just its name on record.

    None if whoever runs this may not read it: then nobody can tell.
    """
    try:
        if os.path.lexists(file) and not os.access(file, os.R_OK):
            return None
        return Workspace([*workspace.roots, file.parent])
    except (InvalidValue, ValueError):  # the folder is not there, or no name at all
        return None


def _fate(workspace: Workspace, path: str) -> str:
    """Tell what has become of something that is not what it was."""
    try:
        return "changed" if workspace.exists(path) else "gone"
    except ToolFailed:
        return _UNKNOWN


async def _never(tool: str, capability: Capability, subject: str, *, preview: str = "") -> str:
    raise ToolFailed(f"{tool} {subject}: nothing is opened to look at a record")


# -- for people ------------------------------------------------------------------------------


def _cells(row: _Row, log: Log) -> list[str]:
    one, facts = row.reference, row.facts
    return [
        log.number(one.entry.id),
        _kind_of(one),
        name_of(one.reference, is_sized=False),
        age(one.entry.time, utc_now()),
        _status_of(one),
        facts.how or _NOTHING_TO_TELL,
        _NOTHING_TO_TELL if facts.size is None else f"{facts.size:,}",
        facts.short_hash or _NOTHING_TO_TELL,
        row.since,
    ]


def _kind_of(one: Pointed) -> str:
    match one.reference:
        case Image():
            return "image"
        case Resource():
            return "resource"
        case FileReference():
            details = None if one.resolution is None else one.resolution.details
            found = (details or {}).get("kind")
            if found in ("file", "folder", "pattern"):
                return str(found)
            return "pattern" if is_pattern(one.reference.path) else "file"


def _status_of(one: Pointed) -> str:
    status = ResolutionStatus.PENDING if one.resolution is None else one.resolution.status
    return str(status)


def _error_of(one: Pointed) -> str:
    return "" if one.resolution is None else on_one_line(one.resolution.error or "")


# -- for programs ----------------------------------------------------------------------------


def _described(row: _Row, log: Log) -> dict[str, Any]:
    one, facts = row.reference, row.facts
    resolution = one.resolution
    details = None if resolution is None else resolution.details
    return {
        "number": log.numbers[one.entry.id],
        "entry": one.entry.id,
        "block": one.block,
        "kind": _kind_of(one),
        "name": name_of(one.reference, is_sized=False),
        "time": one.entry.time,
        "status": _status_of(one),
        "how": facts.how or None,
        "bytes": facts.size,
        "sha256": facts.sha256 or None,
        "since": None if row.since == _NOTHING_TO_TELL else row.since,
        "changes": row.changes,
        "error": None if resolution is None else resolution.error,
        "details": None if details is None else expose(freeze_mapping(details)),
    }
