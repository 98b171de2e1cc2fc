"""Ids and times: the two things that no value makes for itself."""

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
"""For how many ids random bytes are read at once: reading them for each is half of its cost."""
_VARIANT: Final = bytes([byte & 0x3F | 0x80 for byte in range(256)])
"""Sets the two bits that say which kind of UUID it is."""
_last: int = 0
_pool: str = ""
_left: int = 0
"""How many random digits of the pool are unused."""


def new_id() -> str:
    """Return a UUID of version 7: ids sort in the order in which this process made them.

    The twelve bits behind the milliseconds count fractions of one, so that this holds for ids
    made in the same millisecond.
    """
    global _last, _left  # noqa: PLW0603 - what is remembered between two ids
    stamp = (time_ns() << 12) // 1_000_000
    with _lock:
        if stamp <= _last:
            stamp = _last + 1
        _last = stamp
        if not _left:
            _fill_pool()
        _left -= 16
        low = _pool[_left : _left + 16]
    high = f"{stamp:015x}"
    return f"{high[:8]}-{high[8:12]}-7{high[12:]}-{low[:4]}-{low[4:]}"


def _fill_pool() -> None:
    global _left, _pool
    drawn = bytearray(os.urandom(8 * _POOL_IDS))
    drawn[::8] = drawn[::8].translate(_VARIANT)
    _pool, _left = drawn.hex(), 16 * _POOL_IDS


def _empty_pool() -> None:
    """Forget the random digits: a forked process must not use those of its parent."""
    global _left  # noqa: PLW0603 - it belongs to the process
    _left = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_empty_pool)


utc_now: Final[Callable[[], datetime]] = partial(datetime.now, UTC)
"""Return the time, in UTC."""
