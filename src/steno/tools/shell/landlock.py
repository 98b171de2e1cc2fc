"""Restrict a process and its children with Landlock, which limits access to files and the network.

This file is also a small program, which needs only Python. It restricts itself, and then executes
the command in its place:

    python -I -S landlock.py POLICY COMMAND...   (POLICY is JSON: see `LandlockPolicy`)

Landlock can only grant rights to a folder with everything below it. To hide a path, this module
grants rights to the siblings of the path and of each folder above it, but not to the folders that
contain it. File names can still be listed everywhere.
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypedDict, cast

# The numbers of these system calls are the same on all architectures except alpha.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38

_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_CHANGE_FOLDER: Final = 0b1_1111_1111 << 4
"""The rights to remove and create entries of all kinds, bits 4 to 12."""
_MAKE_DEVICE: Final = 1 << 6 | 1 << 11
"""The rights to create devices, never granted: root could create a device file for the disk."""
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_FILE_RIGHTS: Final = _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP_RIGHTS: Final = 0b11
"""The rights to bind and to connect TCP sockets."""
_SCOPES: Final = 0b11
"""Abstract sockets and signals, neither of which may reach processes outside of the sandbox."""

WRITABLE_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
"""Devices that a command may write to; none of them is a disk."""

ROOT_CAPABILITIES: Final = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
}
"""The capabilities that root retains in a sandbox, for files and processes of other users."""


class LandlockPolicy(TypedDict):
    """The paths and the network that a command may use."""

    writable: list[str]
    hidden: list[str]
    """Real paths that must not be read, unless they are inside a writable path."""
    network: bool


def abi_version() -> int:
    """Return the Landlock version of the kernel; 0 if Landlock is missing or disabled."""
    if sys.platform != "linux":
        return 0
    return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def confine(policy: LandlockPolicy) -> None:
    """Restrict this process permanently. Raises OSError if the kernel does not allow it."""
    abi = abi_version()
    if not abi:
        raise OSError(errno.ENOSYS, "the kernel does not support Landlock")
    writing = _WRITE_FILE | _CHANGE_FOLDER
    writing |= (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    # A kernel rejects unknown fields unless they are zero, and fills in missing ones.
    attributes = struct.pack(
        "=QQQ",
        writing | _READ_FILE,
        _TCP_RIGHTS if abi >= 4 and not policy["network"] else 0,
        _SCOPES if abi >= 6 else 0,
    )
    rules = _check_result(
        _syscall(_CREATE_RULESET, attributes, 24 if abi >= 6 else 16 if abi >= 4 else 8, 0)
    )
    for path in [*policy["writable"], *[f"/dev/{device}" for device in WRITABLE_DEVICES]]:
        _grant(rules, path, (writing & ~_MAKE_DEVICE) | _READ_FILE)
    for path in _paths_beside("/", frozenset(policy["hidden"])):
        _grant(rules, path, _READ_FILE, follow=False)
    prctl = ctypes.CDLL(None).prctl
    for capability in set(range(64)) - {*ROOT_CAPABILITIES.values()}:
        prctl(
            _PR_CAPBSET_DROP, capability, 0, 0, 0
        )  # fails for users other than root, who have none
    _check_result(prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check_result(_syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _paths_beside(folder: str, hidden: frozenset[str]) -> Iterator[str]:
    """Yield the paths that together cover a folder, except for the hidden paths."""
    beginning = folder.rstrip("/") + "/"
    if not any(path.startswith(beginning) for path in hidden):
        yield folder
        return
    with contextlib.suppress(OSError):
        for entry in Path(folder).iterdir():
            if str(entry) not in hidden and not entry.is_symlink():
                yield from _paths_beside(str(entry), hidden)


def _grant(rules: int, path: str, rights: int, *, follow: bool = True) -> None:
    """Grant rights to a file, or to a folder and everything in it; skip a missing path."""
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISDIR(mode):
            rights &= _FILE_RIGHTS
        _check_result(
            _syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, file), 0)
        )
    finally:
        os.close(file)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call for which the C library has no function."""
    values = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *values))


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    confine(cast("LandlockPolicy", json.loads(sys.argv[1])))
    # Python ignores these two signals, and the command would inherit this setting.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the purpose of this program
