"""Protect the memory of this process, which contains API keys."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def harden_process() -> None:
    """Keep other programs of the user from reading the memory and the environment of this process.

    A command without a sandbox could otherwise read them from /proc or as a debugger. It also
    prevents core dumps. The setting ends when a process starts another program. It has no effect on
    programs of root, and is available on Linux only.
    """
    if sys.platform == "linux":
        # Fails only if the option is unknown, which no supported kernel is too old for.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
