"""Plan the view that a command has of the file system, for bubblewrap and for our own namespaces.

The plan is a list of paths, outer ones first, because a mount covers earlier mounts below it.

A mount protects a path but not the folders above it: a command could rename `.git` and build a new
one with hooks of its own. Therefore the folders between a writable root and a protected path become
mounts as well, from the first one whose name begins with a dot. A mount cannot be renamed or
removed. Other folders stay movable, since moving source files is honest work.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

from steno.tools.shell.supervisor.orders import MARK_S
from steno.tools.shell.supervisor.specification import Mount, MountKind
from steno.values import RedactedRepr

_PRIVATE_TMP: Final = Path("/tmp")  # noqa: S108 - inside the sandbox
_RUN: Final = Path("/run")
_VISIBLE_IN_RUN: Final = (
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
)
"""Programs of NixOS and possible targets of /etc/resolv.conf; the rest of /run is hidden."""
_HIDING: Final = frozenset({"hidden_folder", "hidden_file", "hidden_socket", "empty_folder"})
_SOCKET_TABLE: Final = Path("/proc/net/unix")


@final
class MountPlan(RedactedRepr, frozen=True, kw_only=True):
    """The mounts of a command, and the folders that must exist while it runs."""

    mounts: tuple[Mount, ...]
    placeholders: tuple[str, ...]
    new_files: tuple[str, ...] = ()


def plan_mounts(
    *,
    roots: tuple[Path, ...],
    is_read_only: bool,
    writable: tuple[Path, ...],
    protected: tuple[Path, ...],
    hidden: tuple[Path, ...],
    revealed: tuple[Path, ...] = (),
    scratch: Path,
    sockets: tuple[Path, ...],
) -> MountPlan:
    """Return the mounts for the paths of a scope; `scratch` becomes /tmp."""
    kinds: dict[Path, MountKind] = {}
    existing = tuple(path for path in dict.fromkeys(writable) if not is_new_file(path))
    new_files = find_new_files(writable)
    approved = (*existing, *new_files)
    areas = (*(() if is_read_only else roots), *existing)
    for root in roots:
        kinds[root] = "read_only" if is_read_only else "writable"
    for path in protected:
        # A link itself cannot be covered by a mount, only the file that it leads to.
        target = path.resolve() if path.is_symlink() else path
        area = next((area for area in areas if target.is_relative_to(area)), None)
        if area is None:
            continue
        if _is_missing(target):
            is_approved = any(map(target.is_relative_to, writable))
            # In place of a missing folder, a placeholder would forbid what is approved inside it.
            is_above = not target.exists() and any(each.is_relative_to(target) for each in writable)
            if target.parent.is_dir() and not is_approved and not is_above:
                kinds[target] = "placeholder"
        elif os.path.lexists(target):
            kinds[target] = "read_only"
        else:
            continue
        for folder in _pinned_folders(target, area):
            kinds.setdefault(folder, "writable")
    kinds.update(dict.fromkeys(sockets, "hidden_socket"))
    for path in hidden:
        if path not in roots and (kind := _hiding_kind(path)) is not None:
            kinds[path] = kind
    shown = {*roots, *approved}
    for path in revealed:
        kinds.pop(path, None)
        if any(kinds.get(parent) == "hidden_folder" for parent in path.parents):
            kinds[path] = "read_only"
            shown.add(path)
    kinds = {**_base_kinds(), **kinds}
    for path in sorted(approved, key=lambda path: len(path.parts)):
        # A mount cannot be replaced by renaming, so an approved path is one only if necessary.
        kinds.pop(path, None)
        outer = next((parent for parent in path.parents if parent in kinds), None)
        if outer is None or outer == _PRIVATE_TMP or kinds[outer] != "writable":
            kinds[path] = "new_file" if path in new_files else "writable"
    return MountPlan(
        mounts=tuple(_order(kinds, scratch, shown=shown)),
        placeholders=tuple(str(path) for path, kind in kinds.items() if kind == "placeholder"),
        new_files=tuple(str(path) for path, kind in kinds.items() if kind == "new_file"),
    )


def find_new_files(approved: Iterable[Path]) -> tuple[Path, ...]:
    """Return the missing files among approved paths that can be created, since their folder exists.

    A mount and a right are about a file that exists. The folder is not writable instead: it may be
    the home folder.
    """
    return tuple(
        path for path in dict.fromkeys(approved) if is_new_file(path) and path.parent.is_dir()
    )


def is_new_file(path: Path) -> bool:
    """Return whether a file is missing, or only exists because another command may write it."""
    try:
        found = path.lstat()
    except OSError:
        return True
    is_marked = int(found.st_mtime) == MARK_S and not found.st_size
    return is_marked and stat.S_ISREG(found.st_mode)


def find_reachable_sockets(outside: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the Unix sockets that a command could connect to, except those in some folders.

    A read-only mount does not keep a command from connecting to a socket, such as that of a
    container service, which would run anything. Sockets of other network namespaces are not listed.
    """
    covered = (*outside, _PRIVATE_TMP, _RUN, Path("/dev"), Path("/proc"), Path("/sys"))
    try:
        lines = _SOCKET_TABLE.read_bytes().splitlines()[1:]
    except OSError:
        return ()
    found: dict[Path, None] = {}
    for line in lines:
        # Number, references, protocol, flags, type, state, inode, path; spaces belong to the path.
        fields = line.split(None, 7)
        if len(fields) < 8 or not fields[7].startswith(b"/"):
            continue
        path = Path(os.fsdecode(os.path.realpath(fields[7])))
        if not any(map(path.is_relative_to, covered)) and os.access(path, os.W_OK):
            found[path] = None
    return tuple(found)


def _base_kinds() -> dict[Path, MountKind]:
    """Return the paths that are the same for every command."""
    kinds: dict[Path, MountKind] = {_PRIVATE_TMP: "writable"}
    if _RUN.is_dir():
        kinds[_RUN] = "empty_folder"
        for name in _VISIBLE_IN_RUN:
            if os.path.lexists(name):
                kinds[Path(name)] = "read_only"
    return kinds


def _order(kinds: dict[Path, MountKind], scratch: Path, *, shown: set[Path]) -> Iterator[Mount]:
    """Yield the mounts, outer paths first, without those that an outer mount covers anyway.

    Folders that hide their content and the private /tmp show nothing but the paths `shown`.
    """
    visible = {*shown, *map(Path, _VISIBLE_IN_RUN)}
    covering = {path for path, kind in kinds.items() if kind in _HIDING}
    if _PRIVATE_TMP not in shown:
        covering.add(_PRIVATE_TMP)
    for path in sorted(kinds, key=lambda path: len(path.parts)):
        outer = next((parent for parent in path.parents if parent in kinds), None)
        if outer not in covering or path in visible:
            source = scratch if path == _PRIVATE_TMP and path not in shown else path
            yield {"kind": kinds[path], "path": str(path), "source": str(source)}


def _pinned_folders(path: Path, area: Path) -> Iterator[Path]:
    """Yield the folders above a protected path that must not be renamed, outer ones first."""
    is_pinned = False
    folder = area
    for name in path.relative_to(area).parts[:-1]:
        folder /= name
        is_pinned = is_pinned or name.startswith(".")
        if is_pinned:
            yield folder


def _hiding_kind(path: Path) -> MountKind | None:
    """Return how to hide a path; None if it is missing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    return "hidden_folder" if stat.S_ISDIR(mode) else "hidden_file"


def _is_missing(path: Path) -> bool:
    """Return whether there is nothing at a path, or only an empty folder.

    Such a folder may belong to another command that is running, which then removes it.
    """
    if path.is_symlink():
        return False
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False
