"""The command `steno inputs`, which lists the references of a session and their changes."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from steno.agent.resolve_references import ReferenceTracker, TrackedReference
from steno.app.commands.arguments import BRANCH, SESSION_NAMES, argument, flag
from steno.app.commands.report import Report, Table
from steno.app.session_log import SessionLog
from steno.app.session_lookup import LAST_SESSION, session_folder
from steno.app.settings import load_settings_leniently
from steno.cli.arguments import STORE, Subparsers, add_command
from steno.cli.report_command import print_report
from steno.cli.store_options import open_existing_store, read_named_log
from steno.errors import InvalidValue, ToolFailed
from steno.ids import utc_now
from steno.inputs.file_references import (
    RecordedFile,
    is_glob,
    read_recorded_image,
    read_recorded_paths,
)
from steno.inputs.references import InputResolver
from steno.json_object import as_json_object, raw_members
from steno.log import VisionAnalysis, vision_analyses
from steno.messages.content import FileReference, Image, ImageBlob, ImageData, ImageFile, Resource
from steno.messages.message import AssistantMessage
from steno.records.entry import Compaction, Entry, Redacted, ResolutionStatus
from steno.render.describe import reference_name
from steno.render.message_text import ResolutionFacts, resolution_facts
from steno.render.quantities import format_age
from steno.render.table_output import Column, print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
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
_EMBEDDED: Final = "embedded"
"""The status of content that is in the message itself and was never resolved, as after an import."""
_MAX_ANSWER_WIDTH: Final = 160


class _InputRow(NamedTuple):
    """A reference, and the changes to its target since it was resolved."""

    reference: TrackedReference
    facts: ResolutionFacts
    change_status: str
    """`same`, `changed`, `gone`, `fresh` or `stale`; `-` if no content was sent, `?` if unknown."""
    changes: tuple[str, ...]
    analysis: VisionAnalysis | None = None
    """The answer of the model to an image that it received."""

    @property
    def place(self) -> tuple[str, int]:
        """The entry id of the message, and the number of the block."""
        return self.reference.entry.id, self.reference.block

    @property
    def status(self) -> str:
        resolution = self.reference.resolution
        if resolution is not None:
            return str(resolution.status)
        return str(ResolutionStatus.PENDING) if self.facts.size is None else _EMBEDDED

    @property
    def error(self) -> str | None:
        return None if self.reference.resolution is None else self.reference.resolution.error


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "inputs",
        _run_inputs,
        "list the files, images and resources that a session refers to",
        "List the references in the messages of a branch (files, folders, patterns, images, MCP "
        "resources), how each was sent to the model, whether it has changed since, and what the "
        "model answered about an image. No request is sent to a model or a server.",
        arguments=(
            argument(
                "session",
                metavar="ID",
                nargs="?",
                default=LAST_SESSION,
                help=f"{SESSION_NAMES}; default: last",
            ),
            BRANCH,
            flag(
                "--all",
                help="include references of all branches and of prompts that could not be sent",
            ),
            flag("--json", help="print one JSON object per reference"),
            STORE,
        ),
        epilog="example:\n  steno inputs last --json | jq 'select(.since == \"changed\").name'",
    )


def _run_inputs(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
    all_references = _find_references(log.entries.values())
    entries = [*log.entries.values()] if options.all else log.path(options.branch)
    listed = _find_references(entries)
    analyses = vision_analyses(entries, log_entries=log.entries.values())
    compared = asyncio.run(_compare_all(listed, _session_workspace(session_folder(log.header))))
    rows = [row._replace(analysis=analyses.get(row.place)) for row in compared]
    hidden, notice = len(all_references) - len(listed), ""
    if hidden == 1:
        notice = "1 reference was not sent or is on another branch; use --all to list it"
    elif hidden:
        notice = (
            f"{hidden:,} references were not sent or are on other branches; use --all to list them"
        )
    elif not rows:
        notice = "no references found"
    below = {number: _text_below(row, log) for number, row in enumerate(rows)}
    table = Table(_INPUT_COLUMNS, [_table_cells(row, log) for row in rows], below=below)
    report = Report(
        [table] if rows else [],
        notices=(notice,) if notice else (),
        data=[_row_as_json(row, log) for row in rows],
    )
    return print_report(report, as_json=options.json)


def _find_references(entries: Iterable[Entry]) -> tuple[TrackedReference, ...]:
    """Return all references, including those in answered, summarised or cleared messages."""
    tracker = ReferenceTracker()
    ignored = AssistantMessage | Compaction
    tracker.read(
        [
            entry
            for entry in entries
            if not isinstance(entry.payload, ignored) and not entry.clears_context
        ]
    )
    return tracker.unanswered()


# -- changes ---------------------------------------------------------------------------------


def _session_workspace(folder: str | None) -> Workspace | None:
    """Return the workspace of the session; None if its folder is unknown or no longer exists."""
    more = load_settings_leniently(print_notice).settings.add_dirs
    try:
        return None if folder is None else Workspace([Path(folder), *filter(Path.is_dir, more)])
    except InvalidValue:
        return None


async def _compare_all(
    references: Iterable[TrackedReference], workspace: Workspace | None
) -> list[_InputRow]:
    inputs, rows = InputResolver(workspace), list[_InputRow]()
    for reference in references:
        status, changes = await _compare(reference, inputs, workspace)
        rows.append(_InputRow(reference, _reference_facts(reference), status, changes))
    return rows


def _reference_facts(tracked: TrackedReference) -> ResolutionFacts:
    """Return the properties of a resolution, or else those of the content in the message."""
    if tracked.resolution is not None:
        return resolution_facts(tracked.resolution.details)
    match tracked.reference:
        case Image(source=ImageBlob(sha256=digest, size=size)):
            return ResolutionFacts(size=size, sha256=digest)
        case Image(source=ImageData(data)):
            pass
        case Resource(text=str(text)):
            data = text.encode()
        case Resource(data=bytes(data)):
            pass
        case _:
            return ResolutionFacts()
    return ResolutionFacts(size=len(data), sha256=sha256(data).hexdigest())


async def _compare(
    tracked: TrackedReference, inputs: InputResolver, workspace: Workspace | None
) -> tuple[str, tuple[str, ...]]:
    """Return the change status of a reference, and the changes to its target."""
    reference, resolution = tracked.reference, tracked.resolution
    if not tracked.is_resolved or resolution is None:
        return _NO_VALUE, ()
    match reference:
        case Resource():
            return "fresh" if inputs.is_fresh(resolution) else "stale", ()
        case FileReference(path=path) | Image(source=ImageFile(path)):
            pass
        case _:  # a reference without a path
            return _NO_VALUE, ()
    file = None if workspace is None else _file_elsewhere(resolution.details, workspace)
    if workspace is not None and file is not None:
        workspace = await asyncio.to_thread(_with_folder_of, file, workspace)
        inputs = InputResolver(workspace)
    if workspace is None:
        return _UNKNOWN, ()
    changes = await inputs.changes(reference, resolution)
    if not changes:
        return "same", ()
    if _kind_of(tracked) == "pattern":  # no single file that could be gone
        return "changed", changes
    try:
        exists = await asyncio.to_thread(workspace.exists, path)
    except ToolFailed:
        return _UNKNOWN, changes
    return "changed" if exists else "gone", changes


def _file_elsewhere(details: Mapping[str, Any] | None, workspace: Workspace) -> Path | None:
    """Return the recorded file if it is outside the workspace, else None.

    The folder of such a file was added to the workspace of one run only.
    """
    recorded = read_recorded_paths(details) or read_recorded_image(details)
    file = Path(recorded.path) if isinstance(recorded, RecordedFile) else Path()
    is_elsewhere = not any(file.is_relative_to(root) for root in workspace.roots)
    return file if file.is_absolute() and is_elsewhere else None


def _with_folder_of(file: Path, workspace: Workspace) -> Workspace | None:
    """Return the workspace extended by the folder of a file.

    Return None if the file exists but is not readable, or if the folder does not exist.
    """
    try:
        if os.path.lexists(file) and not os.access(file, os.R_OK):
            return None
        return Workspace([*workspace.roots, file.parent])
    except (InvalidValue, ValueError):  # the folder does not exist, or the path is invalid
        return None


# -- text output -----------------------------------------------------------------------------


def _table_cells(row: _InputRow, log: SessionLog) -> list[str]:
    tracked, facts = row.reference, row.facts
    return [
        log.number(tracked.entry.id),
        _kind_of(tracked),
        reference_name(tracked.reference, with_size=False),
        format_age(tracked.entry.time, utc_now()),
        row.status,
        facts.method or _NO_VALUE,
        _NO_VALUE if facts.size is None else f"{facts.size:,}",
        facts.short_hash or _NO_VALUE,
        row.change_status,
    ]


def _text_below(row: _InputRow, log: SessionLog) -> str:
    """Return the error of a reference, or the beginning of the answer to an image."""
    analysis = row.analysis
    if row.error is not None or analysis is None:
        return terminal_line(row.error or "")
    answer = " ".join([text for text in (analysis.description, analysis.text) if text])
    found = log.entries.get(analysis.answer)
    if found is not None and isinstance(found.payload, Redacted):
        answer = "(redacted)"
    line = f"answer {log.number(analysis.answer)}: {terminal_line(answer)}"
    return truncate_to_width(line.removesuffix(": "), _MAX_ANSWER_WIDTH)


def _kind_of(tracked: TrackedReference) -> str:
    match tracked.reference:
        case Image():
            return "image"
        case Resource():
            return "resource"
        case FileReference():
            details = None if tracked.resolution is None else tracked.resolution.details
            kind = (details or {}).get("kind")
            if kind in ("file", "folder", "pattern"):
                return str(kind)
            return "pattern" if is_glob(tracked.reference.path) else "file"


# -- JSON output -----------------------------------------------------------------------------


def _row_as_json(row: _InputRow, log: SessionLog) -> dict[str, Any]:
    tracked, facts = row.reference, row.facts
    details = None if tracked.resolution is None else tracked.resolution.details
    return {
        "number": log.numbers[tracked.entry.id],
        "entry": tracked.entry.id,
        "block": tracked.block,
        "kind": _kind_of(tracked),
        "name": reference_name(tracked.reference, with_size=False),
        "time": tracked.entry.time,
        "status": row.status,
        "how": facts.method or None,
        "bytes": facts.size,
        "sha256": facts.sha256 or None,
        "since": None if row.change_status == _NO_VALUE else row.change_status,
        "changes": row.changes,
        "error": row.error,
        "vision_analysis": None if row.analysis is None else row.analysis._asdict(),
        "details": None if details is None else raw_members(as_json_object(details)),
    }
