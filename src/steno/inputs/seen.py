"""What the record says of files that were shown, and what has become of them since.

Files are hashed again inside the workspace, and nothing of them is shown: nobody has to be asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

from msgspec import Struct

from steno.convert import convert
from steno.errors import InvalidArguments, ToolFailed
from steno.tools.globs import printable
from steno.tools.workspace import Fingerprint, Workspace

_MOST_NAMED: Final = 20
"""Of files that came; the rest is counted."""


@final
class SeenFile(Struct, frozen=True, tag_field="kind", tag="file"):
    """A file as it was; of what is recorded, only what it is known by."""

    path: str
    sha256: str
    bytes: int


@final
class SeenFolder(Struct, frozen=True, tag_field="kind", tag="folder"):
    """A folder, and the hash of what was listed of it."""

    path: str
    sha256: str


@final
class SeenFiles(Struct, frozen=True, tag_field="kind", tag="pattern"):
    """The files that a pattern named."""

    files: tuple[SeenFile, ...]


Seen: TypeAlias = SeenFile | SeenFolder | SeenFiles


def read_seen(details: Mapping[str, Any] | None) -> Seen | None:
    """Return what the details of a resolution say; None for those that are not of a file."""
    try:
        return cast("Seen", convert(details, Seen))
    except InvalidArguments:
        return None


def image_file(details: Mapping[str, Any] | None) -> SeenFile | None:
    """Return the file that an image was read from; None if it came from elsewhere."""
    seen = read_seen({**(details or {}), "kind": "file"})
    return seen if isinstance(seen, SeenFile) else None


def changes_of(
    workspace: Workspace, files: Iterable[SeenFile], known: frozenset[str]
) -> tuple[str, ...]:
    """Return which files are not what they were, a line each, but for known ones. Never raises."""
    unknown = [file for file in files if file.path not in known]
    changes = [_change_of(workspace, file) for file in unknown]
    return tuple([change for change in changes if change is not None])


def _change_of(workspace: Workspace, seen: SeenFile) -> str | None:
    try:
        if not workspace.strict.exists(seen.path):
            return gone(seen.path)
        with workspace.strict.open_file(seen.path) as file:
            has_size = os.fstat(file.fileno()).st_size == seen.bytes
            is_same = has_size and Fingerprint.of(file.read(seen.bytes)).sha256 == seen.sha256
    except (ToolFailed, OSError):
        return unreadable(seen.path)
    return None if is_same else changed(seen.path)


# -- words -----------------------------------------------------------------------------------


def changed(name: str) -> str:
    """Say that something is not what was shown."""
    return f"{printable(name)} has changed since it was shown"


def gone(name: str) -> str:
    """Say that something is not there any more."""
    return f"{printable(name)} is gone"


def unreadable(name: str) -> str:
    """Say that nobody can tell: it is something else by now, or may not be read."""
    return f"{printable(name)} cannot be read any more"


def unclear(name: str) -> str:
    """Say that it would take too long to look."""
    return f"{printable(name)} could not be looked through in time, so it may have changed"


def came(names: Sequence[str]) -> tuple[str, ...]:
    """Say which files a pattern names that it did not."""
    lines = [f"{printable(name)} is new" for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        lines.append(f"{len(names) - _MOST_NAMED:,} more files are new")
    return tuple(lines)
