"""Functions that return a new id and the current time.

Value classes never call these functions; their callers pass ids and times in.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from typing import Final

_lock: Final = threading.Lock()
_POOL_IDS: Final = 128
"""The number of ids per read of random bytes; one read per id would double the cost of an id."""
_VARIANT: Final = bytes([byte & 0x3F | 0x80 for byte in range(256)])
"""A translation table that sets the two variant bits of a UUID (RFC 9562)."""
_HEX_DIGITS: Final = "0123456789abcdef"
_HEX_BYTES: Final = tuple([f"{byte:02x}" for byte in range(256)])
_last: int = 0
_last_millisecond: int = -1
_prefix: str = ""
"""The common prefix of all ids created in `_last_millisecond`."""
_fourth_groups: list[str] = []
_fifth_groups: list[str] = []
"""Unused random digits; `_fourth_groups` and `_fifth_groups` hold one string per future id."""


def new_id() -> str:
    """Return a version 7 UUID; the ids of one process sort in the order of their creation.

    The twelve bits after the milliseconds hold a fraction of a millisecond, so that ids created
    within the same millisecond are ordered, too.
    """
    global _last, _last_millisecond, _prefix  # noqa: PLW0603 - state shared by successive calls
    stamp = (time_ns() << 12) // 1_000_000
    with _lock:
        if stamp <= _last:
            stamp = _last + 1
        _last = stamp
        if stamp >> 12 != _last_millisecond:
            _last_millisecond = stamp >> 12
            digits = f"{_last_millisecond:012x}"
            _prefix = f"{digits[:8]}-{digits[8:]}-7"
        if not _fifth_groups:
            _draw_groups()
        # Lookup tables are faster than formatting, and the id is a large part of an append's cost.
        digit, digits = _HEX_DIGITS[stamp >> 8 & 15], _HEX_BYTES[stamp & 255]
        return f"{_prefix}{digit}{digits}-{_fourth_groups.pop()}-{_fifth_groups.pop()}"


def _draw_groups() -> None:
    fourth = bytearray(os.urandom(2 * _POOL_IDS))
    fourth[::2] = fourth[::2].translate(_VARIANT)
    _fourth_groups[:] = fourth.hex("-", 2).split("-")
    _fifth_groups[:] = os.urandom(6 * _POOL_IDS).hex("-", 6).split("-")


if hasattr(os, "register_at_fork"):
    # A forked process must not use the random digits of its parent.
    os.register_at_fork(after_in_child=_fifth_groups.clear)


utc_now: Final[Callable[[], datetime]] = partial(datetime.now, UTC)
"""Return the current time in UTC."""
