"""Restrict this process and its children with Landlock, which limits access to files and TCP.

Landlock can only grant rights to a folder with everything below it. To hide a path, this module
grants rights to the siblings of the path and of each folder above it, but not to the folders that
contain it. File names can still be listed everywhere.
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys

from .kernel import syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

# The numbers of these system calls are the same on all architectures except alpha.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1

_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_CHANGE_FOLDER: Final = 0b1_1111_1111 << 4
"""The rights to remove and create entries of all kinds, bits 4 to 12."""
_MAKE_DEVICE: Final = 1 << 6 | 1 << 11
"""The rights to create devices, never granted: root could create a device file for the disk."""
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_USE_DEVICE: Final = 1 << 15
"""The right to requests (ioctl) to a device."""
_FILE_RIGHTS: Final = _WRITE_FILE | _READ_FILE | _TRUNCATE | _USE_DEVICE
_TCP_RIGHTS: Final = 0b11
"""The rights to bind and to connect TCP sockets."""
_SCOPE_SOCKETS: Final = 0b01
_SCOPE_SIGNALS: Final = 0b10
"""The scopes: abstract sockets and signals do not reach processes outside of the sandbox."""

COMMON_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "shm")
"""Devices that a command may use; none of them is a disk or a terminal."""
TERMINAL_DEVICES: Final = ("tty", "ptmx", "pts")
"""Devices that a command may use only if it cannot see the terminals of the user."""


def abi_version() -> int:
    """Return the Landlock version of the kernel; 0 if Landlock is missing or disabled."""
    if sys.platform != "linux":
        return 0
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def confine(
    writable: Iterable[str],
    hidden: Iterable[str],
    revealed: Iterable[str],
    *,
    allows_network: bool,
    has_own_terminals: bool,
) -> None:
    """Restrict this process for good. Raises OSError if the kernel does not allow it.

    The process must have dropped its privileges. `hidden` are real paths that must not be read,
    unless they are inside a writable path or among those in `revealed`. `has_own_terminals` states that the terminals of the
    user are not visible.
    """
    abi = abi_version()
    if not abi:
        raise OSError(errno.ENOSYS, "the kernel does not support Landlock")
    writing = _WRITE_FILE | _CHANGE_FOLDER
    writing |= (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    device = _USE_DEVICE if abi >= 5 else 0
    # A kernel rejects unknown fields unless they are zero, and fills in missing ones.
    attributes = struct.pack(
        "=QQQ",
        writing | _READ_FILE | device,
        _TCP_RIGHTS if abi >= 4 and not allows_network else 0,
        _SCOPE_SOCKETS | _SCOPE_SIGNALS if abi >= 6 else 0,
    )
    rules = syscall(_CREATE_RULESET, attributes, 24 if abi >= 6 else 16 if abi >= 4 else 8, 0)
    devices = COMMON_DEVICES + (TERMINAL_DEVICES if has_own_terminals else ())
    rights = (writing & ~_MAKE_DEVICE) | _READ_FILE
    for path in writable:
        _grant(rules, path, rights)
    for name in devices:
        _grant(rules, f"/dev/{name}", rights | device)
    # The other devices are hidden as well: reading the terminal of the user takes away the input.
    for path in _paths_beside("/", frozenset((*hidden, "/dev"))):
        _grant(rules, path, _READ_FILE, follow=False)
    for path in revealed:
        _grant(rules, path, _READ_FILE, follow=False)
    syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def scope_abstract_sockets() -> None:
    """Keep this process from abstract Unix sockets of other programs, if the kernel can do so.

    This restricts no files, so that the process can still mount. Raises OSError if it fails.
    """
    if abi_version() >= 6:
        rules = syscall(_CREATE_RULESET, struct.pack("=QQQ", 0, 0, _SCOPE_SOCKETS), 24, 0)
        syscall(_RESTRICT_SELF, rules, 0)
        os.close(rules)


def _paths_beside(folder: str, hidden: frozenset[str]) -> Iterator[str]:
    """Yield the paths that together cover a folder, except for the hidden paths."""
    beginning = folder.rstrip("/") + "/"
    if not any(path.startswith(beginning) for path in hidden):
        yield folder
        return
    try:
        with os.scandir(folder) as found:
            entries = [entry.path for entry in found if not entry.is_symlink()]
    except OSError:
        return
    for path in entries:
        if path not in hidden:
            yield from _paths_beside(path, hidden)


def _grant(rules: int, path: str, rights: int, *, follow: bool = True) -> None:
    """Grant rights to a file, or to a folder and everything in it; skip a missing path."""
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(file).st_mode):
            rights &= _FILE_RIGHTS
        syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, file), 0)
    finally:
        os.close(file)
