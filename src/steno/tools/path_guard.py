"""Find and undo changes of protected paths that a command made, whatever its sandbox.

`begin` takes the states of all protected files and folders in the roots, `finish` compares them after the
command. A created file or folder is moved to a quarantine folder, never deleted; a changed or
removed one is restored from a copy. The copies are in memory, because a command without a sandbox
could change them elsewhere. The guard cannot know who made a change: one that a user makes while a
command runs is undone as well, and its content is in the quarantine.

Every change is made through open folders, without following links, so that a process that still
runs cannot redirect it. After the changes, the guard compares again, a few times if necessary.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, final
from weakref import WeakSet

from steno.tools.protected_index import (
    UNSETTLED_NS,
    FolderRecord,
    Identity,
    IndexState,
    ProtectedIndex,
)
from steno.tools.protected_paths import GIT, LOCKED, PathPolicy, Zone, fold_name
from steno.tools.quarantine import (
    EntryKind,
    Quarantine,
    exists_in,
    kind_of,
    move_into,
    name_of,
    parent_of,
    read_file,
    replace_file,
    set_mode,
)
from steno.tools.shell.supervisor.placeholders import is_held, is_placeholder, mark_placeholder

MAX_COPY_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a file that can be restored."""
MAX_COPIES_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all files together that can be restored."""
MAX_DIGEST_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a file that is compared by content; a larger one is compared by its times."""
_MAX_ROUNDS: Final = 6
_PATH_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


class ChangeKind(StrEnum):
    """The kinds of changes of protected paths."""

    CREATED = "created"
    CHANGED = "changed"
    """The content or the mode of a file has changed."""
    REMOVED = "removed"
    REPLACED = "replaced"
    """Something else is in the place, such as a link instead of a folder."""
    MOVED = "moved"
    """The folder around it was moved, and its content is unchanged. This is not undone."""


class ProtectedChange(NamedTuple):
    """A change of a protected path during a command."""

    path: Path
    kind: ChangeKind
    quarantine: Path | None = None
    """The new version, moved out of the way; None if there is none."""
    is_restored: bool = False
    """Whether the path is again as it was before the command."""


class EntryState(NamedTuple):
    """The state of a protected file or folder."""

    kind: EntryKind
    identity: Identity
    parent: Identity | None
    """The folder that contains the entry; None if it is unknown."""
    mode: int
    owner: tuple[int, int]
    links: int
    size: int = 0
    digest: str = ""
    """The SHA-256 of the content, or a description of the file if it cannot be read."""
    target: str = ""
    """The target of a link."""
    is_fixed: bool = False
    """Whether the entry must remain the same folder, such as `.git`."""

    def is_same_as(self, other: EntryState) -> bool:
        """Return whether both have the same kind, mode and content."""
        same = (
            self.kind is other.kind
            and self.digest == other.digest
            and self.target == other.target
            and (self.mode == other.mode or self.kind is EntryKind.LINK)
        )
        return same and (not self.is_fixed or self.identity == other.identity)


@final
class GuardSnapshot:
    """The protected paths before a command."""

    def __init__(
        self,
        items: dict[str, EntryState],
        repositories: dict[str, Identity],
        *,
        state: IndexState,
        folders: Mapping[str, FolderRecord],
        began_ns: int,
        approved: frozenset[str],
    ) -> None:
        self.items: Final = items
        self.repositories: Final = repositories
        """The folders that git takes for repositories because of the names in them."""
        self.state: Final = state
        self.began_ns: Final = began_ns
        self.approved: Final = approved
        """Paths that the command may change, with everything in them."""
        self._mounted: Final = _open_mounted(items)
        weakref.finalize(self, _close_all, list(self._mounted.values()))
        self._folders = {} if state.is_complete else dict(folders)

    @property
    def is_complete(self) -> bool:
        """Whether all folders were examined; else changes in some may go unnoticed."""
        return self.state.is_complete

    def is_still_there(self, path: str) -> bool:
        """Return whether a protected path, a mount for the command, was never removed or replaced.

        The file is open, so that no other one has its inode.
        """
        file = self._mounted.get(path)
        if file is None:
            return False
        try:
            return os.path.samestat(os.lstat(path), os.fstat(file))
        except OSError:
            return False

    def may_have_existed(self, path: str) -> bool:
        """Return whether a path that is not among the items may have existed before the command."""
        if self.is_complete:
            return False
        parent = parent_of(path)
        while parent != path:
            record = self._folders.get(parent)
            if record is not None and record.is_readable:
                # A folder that was listed there, but was not examined itself.
                return any(below == path for below, _ in record.folders)
            path, parent = parent, parent_of(parent)
        return True


_MAX_OPEN_PATHS: Final = 64
"""The maximum number of open files of one snapshot."""


def _open_mounted(items: Mapping[str, EntryState]) -> dict[str, int]:
    """Open the outermost protected paths for comparison; changes in others are the command's.

    A link cannot be a mount, and the data of a `.git` folder is writable.
    """
    opened: dict[str, int] = {}
    for path in sorted(items, key=lambda path: path.split("/")):
        item = items[path]
        if item.kind not in {EntryKind.FILE, EntryKind.FOLDER} or item.is_fixed:
            continue
        if any(above in opened for above in _folders_above(path)):
            continue
        if len(opened) == _MAX_OPEN_PATHS:
            break
        with suppress(OSError):
            opened[path] = os.open(path, _PATH_FLAGS)
    return opened


def _close_all(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


class _Difference(NamedTuple):
    path: str
    kind: ChangeKind
    before: EntryState | None = None
    after: EntryState | None = None


@final
class PathGuard:
    """Finds and undoes changes of the protected paths of one policy.

    Methods block, and may be called from any thread.
    """

    def __init__(
        self,
        policy: PathPolicy,
        storage: Path,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        max_folders: int | None = None,
    ) -> None:
        """Create a guard. `storage` is a folder for the quarantine, outside of the roots.

        The guard creates the folder when it needs it.
        """
        limit = {} if max_folders is None else {"max_folders": max_folders}
        self._policy = policy
        folder = Path(os.path.realpath(storage)) / "quarantine"
        self._quarantine = Quarantine(folder, policy.roots, now_ns=now_ns)
        self._now_ns = now_ns
        skipped = (str(folder.parent), *policy.own)
        self._index = ProtectedIndex(policy, skipped=skipped, now_ns=now_ns, **limit)
        self._copies = _Copies()
        self._states: dict[str, tuple[tuple[object, ...], EntryState]] = {}
        self._open_snapshots: WeakSet[GuardSnapshot] = WeakSet()
        self._lock = Lock()
        self._accepted: list[str] = []
        """The paths that approved calls are changing."""
        self._list_lock = Lock()
        """For the lists of snapshots and paths, since the other lock may be held for long."""

    def begin(
        self,
        *,
        approved: Iterable[str | Path] = (),
        should_stop: Callable[[], bool] = lambda: False,
    ) -> GuardSnapshot:
        """Return the state of all protected paths, and tell it to the policy.

        `approved` contains real paths that the command may change, with everything in them. What it
        has changed there becomes the state to keep for other commands when it ends.
        `should_stop` is called from time to time; the snapshot is incomplete if it returns true.
        """
        with self._lock:
            return self._begin(frozenset(map(str, approved)), should_stop)

    def _begin(self, approved: frozenset[str], should_stop: Callable[[], bool]) -> GuardSnapshot:
        self._policy.refresh()
        state = self._index.refresh(should_stop)
        pins = self._find_pins()
        if self._index.pin(pins):
            state = self._index.refresh(should_stop)
        self._policy.add_found(self._index.found_paths())
        items, repositories = self._take_states(keeps_copies=True)
        snapshot = GuardSnapshot(
            items,
            repositories,
            state=state,
            folders=self._index.folders,
            began_ns=self._now_ns(),
            approved=approved,
        )
        with self._list_lock:
            self._open_snapshots.add(snapshot)
        self._drop_unused_copies()
        return snapshot

    def _drop_unused_copies(self) -> None:
        """Forget the content that no open snapshot needs."""
        needed = [item.digest for each in self._list_open() for item in each.items.values()]
        self._copies.keep_only(set(needed))

    def _list_open(self) -> list[GuardSnapshot]:
        with self._list_lock:
            return list(self._open_snapshots)

    @contextmanager
    def accept(self, path: str | Path) -> Generator[None, None, None]:
        """Exempt a path during the block, in which an approved call changes it.

        The result is the state to keep for the commands that are running.
        """
        place = str(path)
        with self._list_lock:
            self._accepted.append(place)
        try:
            yield
        finally:
            try:
                with self._lock:
                    self._keep_changes({place})
            finally:
                with self._list_lock:
                    self._accepted.remove(place)

    def end(self, snapshot: GuardSnapshot) -> None:
        """Forget a snapshot that will not be compared."""
        with self._lock:
            self._end(snapshot)

    def _end(self, snapshot: GuardSnapshot) -> None:
        if snapshot.approved:
            self._keep_changes(snapshot.approved)
        with self._list_lock:
            self._open_snapshots.discard(snapshot)

    def _keep_changes(self, approved: Set[str]) -> None:
        """Make the present states of some paths those of all open snapshots."""
        snapshots = self._list_open()
        if not snapshots:
            return
        self._index.refresh()
        items, repositories = self._take_states(keeps_copies=True)
        for snapshot in snapshots:
            for path in [path for path in snapshot.items if _is_below(path, approved)]:
                del snapshot.items[path]
            for path, item in items.items():
                # The call may have created the folder around the path.
                is_new_above = path not in snapshot.items and any(
                    each.startswith(f"{path}/") for each in approved
                )
                if is_new_above or _is_below(path, approved):
                    snapshot.items[path] = item
            for path, identity in repositories.items():
                if _is_below(path, approved):
                    snapshot.repositories[path] = identity

    def _approved_paths(self) -> set[str]:
        """Return the paths that calls in progress may change."""
        with self._list_lock:
            snapshots = list(self._open_snapshots)
            return {*self._accepted, *[path for each in snapshots for path in each.approved]}

    def finish(
        self,
        snapshot: GuardSnapshot,
        *,
        allowed: Sequence[str | Path] = (),
        enforced: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[ProtectedChange, ...]:
        """Undo the changes since a snapshot, and return them.

        `allowed` contains real paths that the command may change, with everything in them.
        `enforced` says that a sandbox made the existing protected paths read-only for the command,
        so that somebody else has made changes of these.
        """
        with self._lock:
            try:
                return self._finish(snapshot, allowed, enforced=enforced, should_stop=should_stop)
            finally:
                self._end(snapshot)

    def restore_from_quarantine(self, change: ProtectedChange) -> bool:
        """Put the new version of a path back in its place, after the user has approved it.

        Return whether this was possible: another entry may be there, unless it is the old version.
        """
        if change.quarantine is None:
            return False
        path = str(change.path)
        try:
            with self._quarantine.open_parent(path) as folder:
                name = name_of(path)
                if change.kind is not ChangeKind.CHANGED and exists_in(folder, name):
                    if change.kind is ChangeKind.CREATED:
                        return False
                    self._quarantine.move_away(path)
                move_into(change.quarantine, name, folder)
        except OSError:
            return False
        return True

    def _finish(
        self,
        snapshot: GuardSnapshot,
        allowed: Iterable[str | Path],
        *,
        enforced: bool,
        should_stop: Callable[[], bool],
    ) -> tuple[ProtectedChange, ...]:
        changes: dict[str, ProtectedChange] = {}
        for _ in range(_MAX_ROUNDS):
            self._index.refresh(should_stop)
            found = self._differences(snapshot)
            # After the comparison, since a call that was approved before may write at any time.
            allowed_paths = {*map(str, allowed), *self._approved_paths()}
            differences = [
                each
                for each in found
                if not _is_below(each.path, allowed_paths)
                and not (enforced and _is_by_others(each, snapshot))
                and changes.get(each.path, _NO_CHANGE).kind is not ChangeKind.MOVED
            ]
            if not differences:
                break
            # A repetition means that another process is still writing, or that undoing has failed.
            for each in differences:
                if should_stop():
                    break
                change = self._undo(each, snapshot)
                if change is None:
                    continue
                earlier = changes.get(each.path)
                if earlier is not None and earlier.quarantine is not None:
                    change = change._replace(
                        kind=earlier.kind, quarantine=change.quarantine or earlier.quarantine
                    )
                changes[each.path] = change
        else:
            self._index.refresh(should_stop)
            for each in self._differences(snapshot):
                if each.path in changes:
                    changes[each.path] = changes[each.path]._replace(is_restored=False)
        return tuple(changes.values())

    # -- states ------------------------------------------------------------------------------

    def _take_states(
        self, *, keeps_copies: bool
    ) -> tuple[dict[str, EntryState], dict[str, Identity]]:
        """Return the states of all protected entries, and the bare repositories."""
        items: dict[str, EntryState] = {}
        repositories: dict[str, Identity] = {}
        for path, record in self._index.held_records():
            if record.is_bare_repository:
                repositories[path] = record.identity
            # The placeholder of a running command comes and goes; what is put into it is new.
            if record.is_held and not (
                record.is_readable
                and not record.entries
                and not record.folders
                and is_placeholder(path)
            ):
                is_fixed = record.given_zone is GIT
                found = self._state_of(path, keeps_copies=keeps_copies, is_fixed=is_fixed)
                if found is not None:
                    items[path] = found
            for name in record.entries:
                below = f"{path.rstrip('/')}/{name}"
                found = self._state_of(below, keeps_copies=keeps_copies)
                if found is not None:
                    items[below] = found
        self._states = {path: kept for path, kept in self._states.items() if path in items}
        return items, repositories

    def _state_of(
        self, path: str, *, keeps_copies: bool, is_fixed: bool = False
    ) -> EntryState | None:
        try:
            found = os.lstat(path)
        except OSError:
            return None
        above = self._index.folders.get(parent_of(path))
        parent = None if above is None else above.identity
        stamp = (
            *(found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size),
            *(found.st_mode, is_fixed, parent),
        )
        kept = self._states.get(path)
        is_current = kept is not None and kept[0] == stamp
        if kept is not None and is_current and (not keeps_copies or self._copies.has(kept[1])):
            return kept[1]
        read_ns = self._now_ns()
        state = EntryState(
            kind=kind_of(found.st_mode),
            identity=(found.st_dev, found.st_ino),
            parent=parent,
            mode=stat.S_IMODE(found.st_mode),
            owner=(found.st_uid, found.st_gid),
            links=found.st_nlink,
            size=found.st_size,
            is_fixed=is_fixed,
        )
        state = self._read_content(path, state, found, keeps_copies=keeps_copies)
        if read_ns - found.st_ctime_ns > UNSETTLED_NS:
            self._states[path] = (stamp, state)
        else:
            self._states.pop(path, None)
        return state

    def _read_content(
        self, path: str, state: EntryState, found: os.stat_result, *, keeps_copies: bool
    ) -> EntryState:
        """Return a state with the digest of the file or the target of the link."""
        match state.kind:
            case EntryKind.LINK:
                with suppress(OSError):
                    return state._replace(target=str(Path(path).readlink()))
            case EntryKind.FILE:
                data = read_file(path, MAX_DIGEST_BYTES)
                if data is None:
                    times = f"{found.st_ino}:{found.st_size}:{found.st_ctime_ns}"
                    return state._replace(digest=f"unread:{times}")
                digest = hashlib.sha256(data).hexdigest()
                if keeps_copies:
                    self._copies.add(digest, data)
                return state._replace(digest=digest)
            case _:
                pass
        return state

    # -- paths that names do not tell --------------------------------------------------------

    def _find_pins(self) -> dict[str, Zone]:
        """Return the zones of known locations, of targets of links, and of paths in git settings.

        A protected link makes its target run, and a `.git` file or link names a git folder. git
        takes hooks and settings also from paths that its settings name.
        """
        pins = {path: LOCKED for path in self._policy.locked_locations if self._is_inside(path)}
        for path, record in self._index.held_records():
            for name in record.entries:
                below = f"{path.rstrip('/')}/{name}"
                folded = fold_name(name)
                for target in _pointed_paths(below, path, folded, record):
                    if self._is_inside(target) and target not in pins:
                        pins[target] = GIT if folded == ".git" else LOCKED
        own = self._policy.own
        return {
            path: zone
            for path, zone in pins.items()
            if not any(path == each or each.startswith(f"{path}/") for each in own)
        }

    def _is_inside(self, path: str) -> bool:
        """Return whether a path is in a root, and contains no root."""
        roots = self._policy.roots
        if any(root == path or root.startswith(f"{path}/") for root in roots):
            return False
        return any(path.startswith(f"{root.rstrip('/')}/") for root in roots)

    # -- differences -------------------------------------------------------------------------

    def _differences(self, snapshot: GuardSnapshot) -> list[_Difference]:
        """Return the differences to a snapshot, without those inside of other ones."""
        before = snapshot.items
        after, repositories = self._take_states(keeps_copies=False)
        moved = _find_moved(before, after)
        found: list[_Difference] = []
        for path in sorted(after.keys() | before.keys(), key=lambda path: path.split("/")):
            old, new = before.get(path), after.get(path)
            if found and path.startswith(f"{found[-1].path}/"):
                continue
            if old is not None and new is not None:
                if not old.is_same_as(new):
                    is_other = old.kind is not new.kind or (
                        old.is_fixed and old.identity != new.identity
                    )
                    kind = ChangeKind.REPLACED if is_other else ChangeKind.CHANGED
                    found.append(_Difference(path, kind, old, new))
            elif new is not None:
                if path in moved:
                    found.append(_Difference(path, ChangeKind.MOVED, None, new))
                elif not snapshot.may_have_existed(path):
                    found.append(_Difference(path, ChangeKind.CREATED, None, new))
            elif path not in moved.values():
                assert old is not None
                if os.path.lexists(parent_of(path)):
                    found.append(_Difference(path, ChangeKind.REMOVED, old, None))
        known = {*snapshot.repositories.values()}
        # A `.git` folder that was moved away is moved back, not taken apart.
        known |= {item.identity for item in before.values() if item.is_fixed}
        for path, identity in repositories.items():
            if identity in known or snapshot.may_have_existed(f"{path}/HEAD"):
                continue
            if any(path == each.path or path.startswith(f"{each.path}/") for each in found):
                continue
            # Its other names are examined again without HEAD: they may be an honest `config` or
            # `hooks` folder.
            found = [each for each in found if not each.path.startswith(f"{path}/")]
            parts = _repository_parts(path, since_ns=snapshot.began_ns - UNSETTLED_NS)
            found += [_Difference(part, ChangeKind.CREATED) for part in parts]
        # A moved `.git` folder returns before its contents are examined in the other place.
        return sorted(found, key=lambda each: each.before is None or not each.before.is_fixed)

    # -- undoing -----------------------------------------------------------------------------

    def _undo(self, each: _Difference, snapshot: GuardSnapshot) -> ProtectedChange | None:
        """Undo a difference; None if the entry is gone by now."""
        path, before, after = each.path, each.before, each.after
        quarantine: Path | None = None
        is_restored = False
        try:
            match each.kind:
                case ChangeKind.MOVED:
                    pass
                case ChangeKind.CREATED:
                    if not os.path.lexists(path):  # moved back with its folder
                        return None
                    if is_held(path):
                        quarantine = self._empty_placeholder(path)
                        is_restored = is_placeholder(path)
                    else:
                        quarantine = self._quarantine.move_away(path)
                        is_restored = not os.path.lexists(path)
                case ChangeKind.CHANGED if before is not None and after is not None:
                    if before.digest == after.digest and before.target == after.target:
                        is_restored = self._restore_mode(path, before)
                    else:
                        # A copy first, so that the old content replaces the new one in one step.
                        quarantine = self._quarantine.copy_away(path)
                        is_restored = self._restore(path, snapshot)
                        if not is_restored:
                            quarantine = self._quarantine.move_away(path) or quarantine
                case _:
                    if each.kind is ChangeKind.REPLACED:
                        quarantine = self._quarantine.move_away(path)
                    is_restored = self._restore(path, snapshot)
        except OSError:
            is_restored = False
        return ProtectedChange(Path(path), each.kind, quarantine, is_restored)

    def _empty_placeholder(self, path: str) -> Path | None:
        """Move the content of a folder away, and leave the folder itself.

        Moving it would take the mount away that protects the path from another running command.
        """
        quarantine = self._quarantine.copy_away(path)
        for name in os.listdir(path):  # noqa: PTH208 - a str
            moved = self._quarantine.move_away(f"{path}/{name}")
            quarantine = quarantine or moved
        mark_placeholder(path)
        return quarantine

    def _restore(self, path: str, snapshot: GuardSnapshot) -> bool:
        """Restore an entry with everything protected in it. Return whether all is restored."""
        before = snapshot.items[path]
        if before.kind is EntryKind.FOLDER and self._move_back(path, before.identity):
            return True
        inner = [below for below in snapshot.items if below.startswith(f"{path}/")]
        restored = [
            self._restore_entry(each, snapshot.items[each])
            for each in (path, *sorted(inner, key=lambda below: below.split("/")))
        ]
        if before.is_fixed:  # its data is lost, and the new folder takes its place
            found = os.lstat(path)
            snapshot.items[path] = before._replace(identity=(found.st_dev, found.st_ino))
        return all(restored)

    def _move_back(self, path: str, identity: Identity) -> bool:
        """Move a folder back that was moved to another place in the roots."""
        place = self._index.find_folder(identity)
        if place is None or place == path or path.startswith(f"{place}/"):
            return False
        try:
            with (
                self._quarantine.open_parent(place) as source,
                self._quarantine.open_parent(path) as folder,
            ):
                name = name_of(place)
                found = os.stat(name, dir_fd=source, follow_symlinks=False)
                if (found.st_dev, found.st_ino) != identity:
                    return False
                target = name_of(path)
                if exists_in(folder, target):
                    return False
                os.rename(name, target, src_dir_fd=source, dst_dir_fd=folder)
        except OSError:
            return False
        return True

    def _restore_entry(self, path: str, before: EntryState) -> bool:
        name = name_of(path)
        data = self._copies.get(before.digest)
        with self._quarantine.open_parent(path) as folder:
            match before.kind:
                case EntryKind.FOLDER:
                    os.mkdir(name, 0o700, dir_fd=folder)
                    set_mode(folder, name, before.mode, before.owner)
                    return True
                case EntryKind.LINK:
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
                    os.symlink(before.target, name, dir_fd=folder)
                    return True
                case EntryKind.FILE if data is not None:
                    replace_file(folder, name, data, before.mode, before.owner)
                    return True
                case _:  # a file without a copy, or another kind of entry
                    return False

    def _restore_mode(self, path: str, before: EntryState) -> bool:
        name = name_of(path)
        with self._quarantine.open_parent(path) as folder:
            try:
                set_mode(folder, name, before.mode, before.owner)
            except PermissionError:  # the new mode forbids opening it
                data = self._copies.get(before.digest)
                if data is None or before.kind is not EntryKind.FILE:
                    # chmod() follows links, but the entry is in an open folder and was no link.
                    os.chmod(name, before.mode, dir_fd=folder)
                else:
                    replace_file(folder, name, data, before.mode, before.owner)
        return True


_NO_CHANGE: Final = ProtectedChange(Path(), ChangeKind.CREATED)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _is_by_others(each: _Difference, snapshot: GuardSnapshot) -> bool:
    """Return whether a command cannot have made a change, because the path was read-only for it.

    The mount of a path goes away when somebody removes the path or replaces it by renaming. The
    path of a mount that is still there is the file or folder from before the command. The command
    could replace a folder above a mount, and write through a second name of a file.
    """
    if any(
        item is not None and item.kind is EntryKind.FILE and item.links > 1
        for item in (each.before, each.after)
    ):
        return False
    return any(snapshot.is_still_there(path) for path in (each.path, *_folders_above(each.path)))


def _find_moved(
    before: Mapping[str, EntryState], after: Mapping[str, EntryState]
) -> dict[str, str]:
    """Return the old paths of entries whose enclosing folder was moved, by their new paths.

    The entry keeps its name and its folder, and everything protected in it is unchanged. A relative
    link or `.git` file is not among them, since it leads elsewhere from another place.
    """
    missing = {
        item.identity: path
        for path, item in before.items()
        if path not in after and not any(above in before for above in _folders_above(path))
    }
    moved: dict[str, str] = {}
    for path, item in after.items():
        old = missing.get(item.identity)
        if old is None or path in before:
            continue
        name = path.rpartition("/")[2]
        was = before[old]
        if (
            old.rpartition("/")[2] == name
            and was.parent is not None
            and was.parent == item.parent
            and was.is_same_as(item)
            and not (item.kind is EntryKind.LINK and not item.target.startswith("/"))
            and not (item.kind is EntryKind.FILE and fold_name(name) in {".git", "commondir"})
            and _are_same_below(before, old, after, path)
        ):
            moved[path] = old
    return moved


def _are_same_below(
    before: Mapping[str, EntryState], old: str, after: Mapping[str, EntryState], new: str
) -> bool:
    olds = {path[len(old) :]: item for path, item in before.items() if path.startswith(f"{old}/")}
    news = {path[len(new) :]: item for path, item in after.items() if path.startswith(f"{new}/")}
    return olds.keys() == news.keys() and all(
        item.is_same_as(news[path]) for path, item in olds.items()
    )


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _repository_parts(folder: str, *, since_ns: int) -> list[str]:
    """Return the files that make a folder a repository: HEAD, and settings that are new."""
    parts: list[str] = []
    for name in os.listdir(folder):  # noqa: PTH208 - a str
        folded, path = fold_name(name), f"{folder}/{name}"
        if folded == "head":
            parts.append(path)
        elif folded in {"config", "config.worktree", "commondir"}:
            with suppress(OSError):
                found = os.lstat(path)
                if not stat.S_ISDIR(found.st_mode) and found.st_ctime_ns >= since_ns:
                    parts.append(path)
    return parts


# -- paths that other paths name ------------------------------------------------------------------

_MAX_SETTINGS_BYTES: Final = 1024 * 1024
_GIT_FILE: Final = re.compile(rb"gitdir: ([^\n]+)")
_SECTION: Final = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)")
_PATH_SETTING: Final = re.compile(r"(?:\[[^]]*\])?\s*(hookspath|path)\s*=\s*(.*)", re.IGNORECASE)


def _pointed_paths(path: str, folder: str, folded: str, record: FolderRecord) -> Iterator[str]:
    """Yield the real paths that a protected entry of a folder points to."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        yield os.path.realpath(path)
        return
    if folded not in {".git", "config", "config.worktree", ".gitconfig"}:
        return
    data = read_file(path, _MAX_SETTINGS_BYTES)
    if data is None:
        return
    if folded == ".git":
        if found := _GIT_FILE.match(data):
            yield os.path.realpath(os.path.join(folder, os.fsdecode(found[1])))  # noqa: PTH118 - a str
        return
    is_git_folder = record.zone is GIT
    above = parent_of(folder) if is_git_folder else folder
    for setting, value in _path_settings(data.decode(errors="replace")):
        base = above if setting == "hookspath" else folder
        place = os.path.join(base, os.path.expanduser(value))  # noqa: PTH111, PTH118 - a str
        if "\0" not in place:
            yield os.path.realpath(place)


def _path_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of git that name hooks or further settings, with their values."""
    section = ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section = found[1].lower()
        if found := _PATH_SETTING.match(line):
            name, value = found[1].lower(), found[2].strip().strip('"')
            wanted = "hookspath" if section == "core" else "path"
            if value and name == wanted and section in {"core", "include", "includeif"}:
                yield name, value


# -- files ----------------------------------------------------------------------------------------


class _Copies:
    """The content of protected files, by digest."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}
        self._size = 0

    def add(self, digest: str, data: bytes) -> None:
        """Keep a content, unless it is too large."""
        if digest in self._data or len(data) > MAX_COPY_BYTES:
            return
        if self._size + len(data) <= MAX_COPIES_BYTES:
            self._data[digest] = data
            self._size += len(data)

    def has(self, item: EntryState) -> bool:
        """Return whether nothing more can be kept of an entry."""
        return (
            item.kind is not EntryKind.FILE
            or item.digest in self._data
            or (item.size > MAX_COPY_BYTES or self._size + item.size > MAX_COPIES_BYTES)
        )

    def get(self, digest: str) -> bytes | None:
        return self._data.get(digest)

    def keep_only(self, digests: set[str]) -> None:
        self._data = {digest: data for digest, data in self._data.items() if digest in digests}
        self._size = sum(map(len, self._data.values()))
