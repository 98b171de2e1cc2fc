"""Run a program that cannot create namespaces or mounts, as in many containers.

    python deny_namespaces.py COMMAND...

A seccomp filter refuses the system calls, like the default profiles of container runtimes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

_NUMBERS: Final = {
    # machine: audit architecture, unshare, setns, mount, clone, clone3
    "x86_64": (0xC000003E, 272, 308, 165, 56, 435),
    "aarch64": (0xC00000B7, 97, 268, 40, 220, 435),
}
_NEW_NAMESPACES: Final = 0x7E020080
"""All flags of clone and unshare that create a namespace."""
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _EQUALS, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06


def deny_namespaces() -> None:
    """Install the filter in this process. Raises OSError if the kernel refuses it."""
    audit, unshare, setns, mount, clone, clone3 = _NUMBERS[platform.machine()]
    rows = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUALS, 0, 9, audit),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_EQUALS, 7, 0, setns),
        (_EQUALS, 6, 0, mount),
        (_EQUALS, 6, 0, clone3),
        (_EQUALS, 1, 0, unshare),
        (_EQUALS, 0, 2, clone),
        (_LOAD, 0, 0, 16),  # the flags
        (_ANY_BIT, 1, 0, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ENOSYS),
    ]
    code = b"".join([struct.pack("=HBBI", *row) for row in rows])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(rows), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    deny_namespaces()
    os.execvp(sys.argv[1], sys.argv[1:])
