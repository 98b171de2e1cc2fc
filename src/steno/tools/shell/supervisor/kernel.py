"""System calls for which Python has no function."""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False  # the module `typing` would take longer to load than the whole program
if TYPE_CHECKING:
    from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_SET_CHILD_SUBREAPER: Final = 36
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

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

# Windows has no C library under this name; steno imports this module there, but does not use it.
_libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else ctypes.CDLL("msvcrt")


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number. Raises OSError if it fails."""
    values = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return check_result(_libc.syscall(ctypes.c_long(number), *values))


def prctl(option: int, value: int | bytes = 0, third: bytes | None = None) -> None:
    """Change a property of this process on Linux; do nothing on other systems.

    Raises OSError if the kernel refuses.
    """
    if sys.platform == "linux":
        first = ctypes.c_ulong(value) if isinstance(value, int) else value
        check_result(_libc.prctl(option, first, third, None, None))


def unshare(flags: int) -> None:
    """Give this process namespaces of its own. Raises OSError if the kernel refuses."""
    check_result(_libc.unshare(flags))


def setns(file: int, kind: int) -> None:
    """Enter a namespace by its open file. Raises OSError if the kernel refuses."""
    check_result(_libc.setns(file, kind))


def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    """Mount a file system. Raises OSError if the kernel refuses."""
    texts = [os.fsencode(text) for text in (source, target, kind)]
    check_result(_libc.mount(*texts, ctypes.c_ulong(flags), os.fsencode(options)))


def drop_privileges() -> None:
    """Make sure that neither this process nor a program that it runs gains privileges."""
    for capability in set(range(64)) - {*ROOT_CAPABILITIES.values()}:
        # Fails for users other than root, who have none.
        _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), None, None, None)
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), None, None, None)
    forbid_new_privileges()


def forbid_new_privileges() -> None:
    """Make sure that no program that this process runs has more rights, such as a setuid program."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def check_result(result: int) -> int:
    """Return the result of a system call. Raises OSError if it reports an error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
