"""`steno inputs`: what the messages of a session point at, what came of it, and what has changed."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from steno.agent.references import ReferenceTracker, TrackedReference
from steno.app.session_log import SessionLog
from steno.app.sessions import LAST_SESSION, find_session, session_folder
from steno.app.settings_loader import load_settings_leniently
from steno.cli.arguments import Subparsers, add_store_option
from steno.cli.store_options import open_existing_store
from steno.errors import InvalidValue, ToolFailed
from steno.ids import utc_now
from steno.inputs.changed_files import RecordedFile, read_recorded_image, read_recorded_paths
from steno.inputs.path_lookup import is_glob
from steno.inputs.references import InputResolver
from steno.json_object import as_json_object, raw_members
from steno.messages.content import FileReference, Image, ImageFile, Resource
from steno.messages.message import AssistantMessage
from steno.ports import Capability, ResolveContext
from steno.records.entry import Compaction, Entry, ResolutionStatus
from steno.render.describe import reference_name
from steno.render.message_text import ResolutionFacts, resolution_facts
from steno.render.quantities import format_age
from steno.render.table_output import Column, StdoutPrinter, print_json_object, print_notice
from steno.render.terminal_text import terminal_line
from steno.tools import Workspace

_INPUT_COLUMNS: Final = (
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
_NO_VALUE, _UNKNOWN = "-", "?"


class _InputRow(NamedTuple):
    """Something that is pointed at, and what has become of it."""

    reference: TrackedReference
    facts: ResolutionFacts
    since: str
    """same, changed, gone; fresh, stale; `-` if nothing was shown that could change; `?`."""
    changes: tuple[str, ...] = ()


def add_commands(commands: Subparsers) -> None:
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
        default=LAST_SESSION,
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
    inputs.set_defaults(run=_run_inputs)


def _run_inputs(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        log = SessionLog.read(store, find_session(store, options.session))
    every = _find_references(log.entries.values())
    shown = every if options.all else _find_references(log.path(options.branch))
    rows = asyncio.run(_compare_all(shown, _session_workspace(session_folder(log.header))))
    if options.json:
        for row in rows:
            print_json_object(msgspec.json.encode(_row_as_json(row, log)))
    elif rows:
        errors = {number: _error_of(row.reference) for number, row in enumerate(rows)}
        StdoutPrinter().table(
            _INPUT_COLUMNS, [_table_cells(row, log) for row in rows], below=errors
        )
    left = len(every) - len(shown)
    if left == 1:
        print_notice("1 was not sent or is not on this branch; --all shows it")
    elif left:
        print_notice(f"{left:,} were not sent or are not on this branch; --all shows them")
    elif not rows:
        print_notice("nothing is pointed at")
    return 0


def _find_references(entries: Iterable[Entry]) -> tuple[TrackedReference, ...]:
    """Return all that messages point at; here nothing counts as answered, or as summed up."""
    pointers = ReferenceTracker()
    put_away = AssistantMessage | Compaction
    pointers.read([entry for entry in entries if not isinstance(entry.payload, put_away)])
    return pointers.unanswered()


# -- what has changed ------------------------------------------------------------------------


def _session_workspace(folder: str | None) -> Workspace | None:
    """Return where the session worked; None if that is not known, or not there."""
    more = [path for path in load_settings_leniently().settings.add_dirs if path.is_dir()]
    try:
        return None if folder is None else Workspace([Path(folder), *more])
    except InvalidValue:
        return None


async def _compare_all(
    found: Iterable[TrackedReference], workspace: Workspace | None
) -> list[_InputRow]:
    inputs = InputResolver(workspace)
    return [await _compare(one, inputs, workspace) for one in found]


async def _compare(
    one: TrackedReference, inputs: InputResolver, workspace: Workspace | None
) -> _InputRow:
    details = None if one.resolution is None else one.resolution.details
    facts, path = resolution_facts(details), _path_of(one)
    if not one.is_resolved or one.resolution is None:
        return _InputRow(one, facts, _NO_VALUE)
    if isinstance(one.reference, Resource):
        is_fresh = inputs.is_current(one.reference, one.resolution, ResolveContext(_refuse_to_open))
        return _InputRow(one, facts, "fresh" if is_fresh else "stale")
    if path is None:
        return _InputRow(one, facts, _NO_VALUE)
    if workspace is not None and (file := _file_elsewhere(details, workspace)) is not None:
        workspace = await asyncio.to_thread(_with_folder_of, file, workspace)
        inputs = InputResolver(workspace)
    if workspace is None:
        return _InputRow(one, facts, _UNKNOWN)
    changes = await inputs.changes(one.reference, one.resolution)
    if not changes:
        return _InputRow(one, facts, "same")
    if _kind_of(one) == "pattern":  # it is not the name of anything
        return _InputRow(one, facts, "changed", changes)
    return _InputRow(
        one, facts, await asyncio.to_thread(_describe_change, workspace, path), changes
    )


def _path_of(one: TrackedReference) -> str | None:
    """Return where something lies in the workspace; None for what does not lie there."""
    match one.reference:
        case FileReference(path=path) | Image(source=ImageFile(path)):
            return path
        case _:
            return None


def _file_elsewhere(details: Mapping[str, Any] | None, workspace: Workspace) -> Path | None:
    """Return a file on record that lies in none of the folders: its own was added for a run."""
    seen = read_recorded_paths(details) or read_recorded_image(details)
    file = Path(seen.path) if isinstance(seen, RecordedFile) else Path()
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


def _describe_change(workspace: Workspace, path: str) -> str:
    """Tell what has become of something that is not what it was."""
    try:
        return "changed" if workspace.exists(path) else "gone"
    except ToolFailed:
        return _UNKNOWN


async def _refuse_to_open(
    tool: str, capability: Capability, subject: str, *, preview: str = ""
) -> str:
    raise ToolFailed(f"{tool} {subject}: nothing is opened to look at a record")


# -- for people ------------------------------------------------------------------------------


def _table_cells(row: _InputRow, log: SessionLog) -> list[str]:
    one, facts = row.reference, row.facts
    return [
        log.number(one.entry.id),
        _kind_of(one),
        reference_name(one.reference, is_sized=False),
        format_age(one.entry.time, utc_now()),
        _status_of(one),
        facts.how or _NO_VALUE,
        _NO_VALUE if facts.size is None else f"{facts.size:,}",
        facts.short_hash or _NO_VALUE,
        row.since,
    ]


def _kind_of(one: TrackedReference) -> str:
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
            return "pattern" if is_glob(one.reference.path) else "file"


def _status_of(one: TrackedReference) -> str:
    status = ResolutionStatus.PENDING if one.resolution is None else one.resolution.status
    return str(status)


def _error_of(one: TrackedReference) -> str:
    return "" if one.resolution is None else terminal_line(one.resolution.error or "")


# -- for programs ----------------------------------------------------------------------------


def _row_as_json(row: _InputRow, log: SessionLog) -> dict[str, Any]:
    one, facts = row.reference, row.facts
    resolution = one.resolution
    details = None if resolution is None else resolution.details
    return {
        "number": log.numbers[one.entry.id],
        "entry": one.entry.id,
        "block": one.block,
        "kind": _kind_of(one),
        "name": reference_name(one.reference, is_sized=False),
        "time": one.entry.time,
        "status": _status_of(one),
        "how": facts.how or None,
        "bytes": facts.size,
        "sha256": facts.sha256 or None,
        "since": None if row.since == _NO_VALUE else row.since,
        "changes": row.changes,
        "error": None if resolution is None else resolution.error,
        "details": None if details is None else raw_members(as_json_object(details)),
    }
