"""Find out which recorded files have changed since they were shown.

Files are hashed again inside the workspace. Nothing of them is shown, so no permission is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

from msgspec import Struct

from steno.errors import InvalidArguments, ToolFailed
from steno.schema.convert import convert_value
from steno.tools.path_patterns import printable_name
from steno.tools.workspace import Fingerprint, Workspace

_MAX_NAMED_FILES: Final = 20
"""Of new files; the rest is counted."""


@final
class RecordedFile(Struct, frozen=True, tag_field="kind", tag="file"):
    """The identity of a recorded file."""

    path: str
    sha256: str
    bytes: int


@final
class RecordedFolder(Struct, frozen=True, tag_field="kind", tag="folder"):
    """A recorded folder, and the hash of its listing."""

    path: str
    sha256: str


@final
class RecordedFileSet(Struct, frozen=True, tag_field="kind", tag="pattern"):
    """The files that a pattern matched."""

    files: tuple[RecordedFile, ...]


RecordedPaths: TypeAlias = RecordedFile | RecordedFolder | RecordedFileSet


def read_recorded_paths(details: Mapping[str, Any] | None) -> RecordedPaths | None:
    """Return the paths in the details of a resolution; None if it was not of a file."""
    try:
        return cast("RecordedPaths", convert_value(details, RecordedPaths))
    except InvalidArguments:
        return None


def read_recorded_image(details: Mapping[str, Any] | None) -> RecordedFile | None:
    """Return the file that an image was read from; None if it came from elsewhere."""
    recorded = read_recorded_paths({**(details or {}), "kind": "file"})
    return recorded if isinstance(recorded, RecordedFile) else None


def find_changes(
    workspace: Workspace, files: Iterable[RecordedFile], known: frozenset[str]
) -> tuple[str, ...]:
    """Return which files have changed, a line each, without known ones. Never raises."""
    unknown = [file for file in files if file.path not in known]
    changes = [_find_change(workspace, file) for file in unknown]
    return tuple([change for change in changes if change is not None])


def _find_change(workspace: Workspace, recorded: RecordedFile) -> str | None:
    try:
        if not workspace.strict.exists(recorded.path):
            return gone_text(recorded.path)
        with workspace.strict.open_file(recorded.path) as file:
            has_size = os.fstat(file.fileno()).st_size == recorded.bytes
            is_same = (
                has_size and Fingerprint.of(file.read(recorded.bytes)).sha256 == recorded.sha256
            )
    except (ToolFailed, OSError):
        return unreadable_text(recorded.path)
    return None if is_same else changed_text(recorded.path)


# -- text ------------------------------------------------------------------------------------


def changed_text(name: str) -> str:
    """Return that a file is not what was shown."""
    return f"{printable_name(name)} has changed since it was shown"


def gone_text(name: str) -> str:
    """Return that a file is gone."""
    return f"{printable_name(name)} is gone"


def unreadable_text(name: str) -> str:
    """Return that a file cannot be read, so that its state is unknown."""
    return f"{printable_name(name)} cannot be read any more"


def unclear_text(name: str) -> str:
    """Return that a check took too long."""
    return f"{printable_name(name)} could not be looked through in time, so it may have changed"


def new_files_text(names: Sequence[str]) -> tuple[str, ...]:
    """Return which files a pattern matches that it did not match before."""
    lines = [f"{printable_name(name)} is new" for name in names[:_MAX_NAMED_FILES]]
    if len(names) > _MAX_NAMED_FILES:
        lines.append(f"{len(names) - _MAX_NAMED_FILES:,} more files are new")
    return tuple(lines)
