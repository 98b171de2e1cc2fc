"""An index of the protected paths and the secrets below the root folders of a workspace.

The index keeps one record for each folder, and scans a folder again only if its inode or its change
time differs: no program can set the change time. A refresh therefore costs one `lstat` for each
known folder. Folders are visited from the top down, so that a limit cuts off the deepest ones.
Links are not followed. Folders that git fills with data are not entered.

This module changes no files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, final

from steno.tools.protected_paths import (
    BARE_REPOSITORY,
    GIT,
    GIT_DATA,
    INSTALLED,
    LOCKED,
    PLAIN,
    REPOSITORY_NAMES,
    FoundPaths,
    PathPolicy,
    Protection,
    Zone,
    fold_name,
    is_env_file_name,
    is_repository,
    is_secret_name,
    is_secret_pair,
)

MAX_FOLDERS: Final = 200_000
MAX_DEPTH: Final = 200
MAX_PROTECTED: Final = 20_000
"""The maximum number of protected files and folders in the index."""
UNSETTLED_NS: Final = 20_000_000
"""The age below which a change time proves nothing.

A kernel may round the time down to its last tick, so that a second change has the same time.
"""
_SYSTEM_FOLDERS: Final = frozenset({"/proc", "/sys", "/dev", "/run"})
_CHECK_INTERVAL: Final = 256
"""The number of folders between two checks whether to stop."""

Identity: TypeAlias = tuple[int, int]
"""The device and the inode of a file or folder."""


@final
class FolderRecord:
    """The known content of one folder."""

    __slots__ = (
        *("device", "entries", "folders", "given_zone", "held", "inode", "is_readable"),
        *("secrets", "settled_ns", "visit", "zone"),
    )

    def __init__(self, found: os.stat_result, zone: Zone) -> None:
        self.device: Final = found.st_dev
        self.inode: Final = found.st_ino
        self.given_zone: Final = zone
        """The zone that the name of the folder has."""
        self.zone = zone
        """The zone in view of the names in the folder."""
        self.settled_ns = 0
        """The change time, if an equal one proves that no name in the folder has changed; else 0."""
        self.is_readable = False
        self.held = 1
        """The number of protected entries, with the folder itself; positive if it is unreadable."""
        self.visit = 0
        """The number of the refresh that visited this folder last."""
        self.folders: tuple[tuple[str, Zone], ...] = ()
        """The paths of the folders to visit in this one, with their zones."""
        self.entries: tuple[str, ...] = ()
        """The names of protected files, links and other entries that are not folders."""
        self.secrets: tuple[str, ...] = ()
        """The names of files and folders that may contain secrets."""

    @property
    def identity(self) -> Identity:
        """The device and the inode of the folder."""
        return (self.device, self.inode)

    @property
    def is_held(self) -> bool:
        """Whether the folder itself must not be removed or replaced."""
        return self.zone.level is Protection.READ_ONLY

    @property
    def is_bare_repository(self) -> bool:
        """Whether git takes the folder for a repository because of the names in it."""
        return self.zone is BARE_REPOSITORY


class IndexState(NamedTuple):
    """The result of a refresh."""

    is_complete: bool
    reason: str = ""
    """The code of the limit that was reached: `folders`, `depth`, `protected` or `stopped`."""
    unreadable: int = 0
    """The number of folders that could not be read."""


@final
class ProtectedIndex:
    """The folders below the roots of a policy, and the protected names in them.

    Methods block; one thread at a time may call them.
    """

    def __init__(
        self,
        policy: PathPolicy,
        *,
        skipped: tuple[str, ...] = (),
        max_folders: int = MAX_FOLDERS,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Create an empty index. `skipped` contains further folders not to enter."""
        self._policy = policy
        self._skipped = frozenset((*skipped, *_SYSTEM_FOLDERS))
        self._max_folders = max_folders
        self._now_ns = now_ns
        self._tops = tuple(root for root in policy.roots if not _has_parent_in(root, policy.roots))
        self._visit = 0
        self._pinned: dict[str, Zone] = {}
        self._pinned_folders: frozenset[str] = frozenset()
        self.folders: dict[str, FolderRecord] = {}
        """The records by the path of the folder."""
        self._holders: set[str] = set()
        """The paths of folders that are protected or contain protected entries or secrets."""

    def pin(self, zones: Mapping[str, Zone]) -> bool:
        """Set the zones of certain paths, which their names do not tell.

        Return whether they have changed, so that the index must be refreshed.
        """
        pinned = self._pinned
        changed = [path for path in {*pinned, *zones} if pinned.get(path) is not zones.get(path)]
        if not changed:
            return False
        for path in changed:
            self.folders.pop(path, None)
            self.folders.pop(os.path.dirname(path), None)  # noqa: PTH120 - a str
        self._pinned = dict(zones)
        self._pinned_folders = frozenset(map(os.path.dirname, zones))
        return True

    def refresh(self, should_stop: Callable[[], bool] = lambda: False) -> IndexState:
        """Scan new and changed folders, and forget removed ones."""
        self._visit = visit = self._visit + 1
        folders = self.folders
        queue: deque[tuple[str, Zone]] = deque((top, self._top_zone(top)) for top in self._tops)
        lstat, get, pop, extend = os.lstat, folders.get, queue.popleft, queue.extend
        count = unreadable = held = 0
        reason = ""
        while queue:
            path, zone = pop()
            try:
                found = lstat(path)
            except OSError:
                continue
            record = get(path)
            if (
                record is None
                or record.settled_ns != found.st_ctime_ns
                or record.inode != found.st_ino
                or record.device != found.st_dev
                or record.given_zone is not zone
            ):
                if not stat.S_ISDIR(found.st_mode):
                    continue
                if count >= self._max_folders:
                    reason = "folders"
                    break
                if path.count("/") > MAX_DEPTH:
                    reason = reason or "depth"
                    continue
                record = self._scan(path, found, zone)
            record.visit = visit
            count += 1
            if record.held:
                unreadable += not record.is_readable
                held += record.held
                if held > MAX_PROTECTED:
                    reason = "protected"
                    break
            if record.folders:
                extend(record.folders)
            if not count % _CHECK_INTERVAL and should_stop():
                reason = "stopped"
                break
        if count != len(folders) and reason != "stopped":
            self._forget_unvisited()
        return IndexState(not reason and not unreadable, reason, unreadable)

    def held_records(self) -> Iterator[tuple[str, FolderRecord]]:
        """Yield the folders that are protected or contain protected entries, with their paths."""
        for path in self._holders:
            record = self.folders.get(path)
            if record is not None and record.visit == self._visit:
                yield path, record

    def find_folder(self, identity: Identity) -> str | None:
        """Return the path of a folder of the index by its device and inode."""
        for path, record in self.folders.items():
            if (
                record.inode == identity[1]
                and record.identity == identity
                and record.visit == self._visit
            ):
                return path
        return None

    def found_paths(self) -> FoundPaths:
        """Return the protected paths and the secrets in the index."""
        protected: list[str] = []
        git_folders: list[str] = []
        secrets: list[str] = []
        for path, record in sorted(self.held_records()):
            is_inner = record.zone is LOCKED and record.given_zone is LOCKED
            if is_inner and not (protected and path.startswith(f"{protected[-1]}/")):
                protected.append(path)
            if record.zone is GIT or record.is_bare_repository:
                git_folders.append(path)
            if not is_inner:
                protected += [f"{path}/{name}" for name in record.entries]
            secrets += [f"{path}/{name}" for name in record.secrets]
        return FoundPaths(
            protected=tuple(protected),
            extra=tuple(self._pinned),
            git_folders=tuple(git_folders),
            secrets=tuple(secrets),
        )

    def _scan(self, path: str, found: os.stat_result, zone: Zone) -> FolderRecord:
        """Return a new record of a folder, and remember whether it holds protected names."""
        record = FolderRecord(found, zone)
        started_ns = self._now_ns()
        try:
            with os.scandir(path) as listed:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listed]
        except OSError:
            entries = []
        else:
            record.is_readable = True
            if started_ns - found.st_ctime_ns > UNSETTLED_NS:
                record.settled_ns = found.st_ctime_ns
        names = [(name, fold_name(name), is_folder) for name, is_folder in entries]
        if zone.is_plain or zone is INSTALLED:
            marks = {folded for _, folded, _ in names if folded in REPOSITORY_NAMES}
            if is_repository(marks):
                record.zone = BARE_REPOSITORY
        self._add_names(path, record, names)
        record.held = len(record.entries) + record.is_held + (not record.is_readable)
        self.folders[path] = record
        if record.is_held or record.entries or record.secrets or record.is_bare_repository:
            self._holders.add(path)
        else:
            self._holders.discard(path)
        return record

    def _add_names(
        self, path: str, record: FolderRecord, names: list[tuple[str, str, bool]]
    ) -> None:
        zone = record.zone
        has_pinned = path in self._pinned_folders
        prefix = path.rstrip("/")
        above = fold_name(path.rpartition("/")[2])
        folders: list[tuple[str, Zone]] = []
        protected: list[str] = []
        secrets: list[str] = []
        for name, folded, is_folder in names:
            child = zone.child(folded)
            below = ""
            if is_folder or has_pinned:
                below = f"{prefix}/{name}"
                if below in self._policy.roots:
                    child = self._top_zone(below)
                elif has_pinned:
                    child = self._pinned.get(below, child)
            if (
                is_secret_name(folded)
                or is_secret_pair(above, folded)
                or (not is_folder and is_env_file_name(folded))
            ):
                secrets.append(name)
            if is_folder:
                if child is not GIT_DATA and below not in self._skipped:
                    folders.append((below, child))
            elif child.level is Protection.READ_ONLY and f"{prefix}/{name}" not in self._skipped:
                protected.append(name)
        record.folders, record.entries, record.secrets = (
            tuple(folders),
            tuple(protected),
            tuple(secrets),
        )

    def _top_zone(self, top: str) -> Zone:
        return PLAIN.child(fold_name(top.rpartition("/")[2]))

    def _forget_unvisited(self) -> None:
        stale = [path for path, record in self.folders.items() if record.visit != self._visit]
        for path in stale:
            del self.folders[path]
            self._holders.discard(path)


def _has_parent_in(root: str, roots: tuple[str, ...]) -> bool:
    return any(root.startswith(f"{other.rstrip('/')}/") for other in roots if other != root)
