"""A view of the file system of its own for this process, without the help of another program.

Everything is read-only except for the writable paths, hidden paths are covered, and terminals and
shared memory are private. The process needs a user namespace for this unless it belongs to root.
https://man7.org/linux/man-pages/man7/mount_namespaces.7.html
"""

from __future__ import annotations

import os
import stat
import struct

from .kernel import mount, syscall, unshare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from .specification import Mount

_NEW_MOUNTS: Final = 0x00020000
_NEW_IPC: Final = 0x08000000
_NEW_USER: Final = 0x10000000

# These system calls work with open files, so that no symbolic link is followed.
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
_CURRENT_FOLDER: Final = -100
_NO_FOLLOW: Final = 0x100
_EMPTY_PATH: Final = 0x1000
_RECURSIVE: Final = 0x8000
_CLONE_TREE: Final = 1
_MOVE_FROM_FILE: Final = 4
_READ_ONLY: Final = 1
_NO_DEVICES: Final = 4

_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MS_REC: Final = 1 << 14
_MS_PRIVATE: Final = 1 << 18
_TMPFS_FLAGS: Final = _MS_NOSUID | _MS_NODEV
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - replaced by a private one
_COVERING: Final = frozenset({"hidden_folder", "empty_folder"})


def enter_namespaces() -> None:
    """Give this process its own mounts and its own shared memory. Raises OSError if that fails."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        if uid != 0:
            raise PermissionError
        # In a user namespace, the files of other users would be out of reach for root.
        unshare(_NEW_MOUNTS | _NEW_IPC)
    except PermissionError:
        unshare(_NEW_USER | _NEW_MOUNTS | _NEW_IPC)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            _write(f"/proc/self/{name}", text)
    mount("none", "/", "none", _MS_REC | _MS_PRIVATE, "")


def apply_mounts(mounts: Sequence[Mount], folder: str) -> None:
    """Mount the view of the command, and enter its working directory.

    Outer paths must come first. Raises OSError if a path cannot be mounted.
    """
    is_root_writable = any(each["path"] == "/" and each["kind"] == "writable" for each in mounts)
    mounts = [each for each in mounts if each["path"] != "/"]
    trees = [_clone_source(each) for each in mounts]
    if not is_root_writable:
        _restrict(_CURRENT_FOLDER, "/", _READ_ONLY, _RECURSIVE)
    _mount_private_devices()
    for each, tree in zip(mounts, trees, strict=True):
        path = each["path"]
        if each["kind"] == "hidden_socket":
            cover_file(path)
        elif each["kind"] in _COVERING:
            mount("tmpfs", path, "tmpfs", _TMPFS_FLAGS, "mode=0755")
        elif tree is not None:
            _make_mount_point(path, tree)
            _move(tree, path)
    for each in mounts:
        if each["kind"] == "hidden_folder":
            _restrict(_CURRENT_FOLDER, each["path"], _READ_ONLY, 0)
    os.chdir(folder)


def cover_file(path: str) -> None:
    """Make a file impossible to open; do nothing if it does not exist."""
    try:
        _move(_clone_closed_file(), path)
    except FileNotFoundError:
        pass


def _clone_source(each: Mount) -> int | None:
    """Return an open copy of the tree to mount; None if nothing has to be copied."""
    kind = each["kind"]
    if kind in _COVERING or kind == "hidden_socket":
        return None
    if kind == "hidden_file":
        return _clone_closed_file()
    source = each["source"]
    flags = _CLONE_TREE | os.O_CLOEXEC | _RECURSIVE | _NO_FOLLOW
    try:
        tree = syscall(_OPEN_TREE, _CURRENT_FOLDER, os.fsencode(source), flags)
    except FileNotFoundError:
        if kind in (
            "placeholder",
            "new_file",
        ):  # it could not be created, so the command cannot either
            return None
        raise
    if kind not in ("writable", "new_file"):
        _restrict(tree, "", _READ_ONLY, _EMPTY_PATH | _RECURSIVE)
    return tree


def _clone_closed_file() -> int:
    """Return an open copy of a file that cannot be opened by its path, not even by root."""
    tree = syscall(_OPEN_TREE, _CURRENT_FOLDER, b"/dev/null", _CLONE_TREE | os.O_CLOEXEC)
    # Such a mount forbids the use of devices.
    _restrict(tree, "", _READ_ONLY | _NO_DEVICES, _EMPTY_PATH)
    return tree


def _mount_private_devices() -> None:
    """Replace the terminals and the shared memory of the user by private ones."""
    if os.path.isdir(_SHARED_MEMORY):
        mount("tmpfs", _SHARED_MEMORY, "tmpfs", _TMPFS_FLAGS, "mode=1777")
    options = "newinstance,ptmxmode=0666,mode=620"
    mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, options)
    flags = _CLONE_TREE | os.O_CLOEXEC
    _move(syscall(_OPEN_TREE, _CURRENT_FOLDER, b"/dev/pts/ptmx", flags), "/dev/ptmx")


def _make_mount_point(path: str, tree: int) -> None:
    """Create the file or folder to mount on, inside of a private folder that covers the real one."""
    if os.path.lexists(path):
        return
    is_folder = stat.S_ISDIR(os.fstat(tree).st_mode)
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _move(tree: int, path: str) -> None:
    try:
        syscall(_MOVE_MOUNT, tree, b"", _CURRENT_FOLDER, os.fsencode(path), _MOVE_FROM_FILE)
    finally:
        os.close(tree)


def _restrict(file: int, path: str, attributes: int, flags: int) -> None:
    packed = struct.pack("=QQQQ", attributes, 0, 0, 0)
    syscall(_MOUNT_SETATTR, file, os.fsencode(path), flags, packed, len(packed))


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
