"""Protect the memory and the initial environment of this process, which contain API keys."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_ENV_START: Final = 47
_ENV_END: Final = 48
"""The places of env_start and env_end among the fields of /proc/self/stat after the name."""


def erase_initial_variables(names: Collection[str]) -> None:
    """Overwrite variables in the block that /proc/PID/environ shows.

    Deleting a variable from `os.environ` leaves this block as it was when the process started. The
    variables must be deleted already, since nothing may refer to them. Call this before
    `harden_process`, which also takes the access to /proc/self/mem. It has an effect on Linux only.
    """
    if sys.platform != "linux" or not names:
        return
    encoded = {os.fsencode(name) for name in names}
    # Writing through /proc fails where writing to a wrong address would end the process.
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            block = os.pread(memory.fileno(), end - start, start)
            offset = 0
            for entry in block.split(b"\0"):
                if entry.partition(b"=")[0] in encoded:
                    os.pwrite(memory.fileno(), bytes(len(entry)), start + offset)
                offset += len(entry) + 1


def harden_process() -> None:
    """Keep other programs of the user from reading the memory and the environment of this process.

    A command without a sandbox could otherwise read them from /proc or as a debugger. It also
    prevents core dumps. The setting ends when a process starts another program. It has no effect on
    programs of root, and is available on Linux only.
    """
    if sys.platform == "linux":
        # Fails only if the option is unknown, which no supported kernel is too old for.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
