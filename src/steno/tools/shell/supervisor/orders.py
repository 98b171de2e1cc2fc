"""The orders that steno writes to the standard input of the supervisor, and the port of the proxy."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

TERMINATE: Final = b"t"
"""Ask all processes to end, and kill those that still run after the grace period."""
KILL: Final = b"k"
"""Kill all processes now."""
LENGTH_BYTES: Final = 8
"""The size of the number before the specification."""
LISTENER_PORT: Final = 3128
"""The port of the listener on 127.0.0.1 inside the sandbox, where nothing else runs yet."""
MARK_S: Final = 318_391_506
"""A time of last change that no other program sets; even, since some file systems need that.

It marks the empty files and folders that exist only while a command runs.
"""
