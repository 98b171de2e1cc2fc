"""The orders that steno writes to the standard input of the supervisor."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

TERMINATE: Final = b"t"
"""Ask all processes to end, and kill those that still run after the grace period."""
KILL: Final = b"k"
"""Kill all processes now."""
