"""New ids and the current time. Values never make them; callers pass them in."""

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
"""The number of ids for which random bytes are read at once: a read for each doubles its cost."""
_VARIANT: Final = bytes([byte & 0x3F | 0x80 for byte in range(256)])
"""A translation table that sets the two variant bits of a UUID (RFC 9562)."""
_HEX_DIGITS: Final = "0123456789abcdef"
_HEX_BYTES: Final = tuple([f"{byte:02x}" for byte in range(256)])
_last: int = 0
_last_millisecond: int = -1
_prefix: str = ""
"""The beginning of all ids of the last millisecond."""
_fourth_groups: list[str] = []
_fifth_groups: list[str] = []
"""Random digits for the last two groups of the next ids."""


def new_id() -> str:
    """Return a UUID of version 7: ids sort in the order in which this process made them.

    The twelve bits after the milliseconds are fractions of a millisecond, so that ids of the same
    millisecond sort as well.
    """
    global _last, _last_millisecond, _prefix  # noqa: PLW0603 - the state between two ids
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
        # Tables are faster than a format, and an id is a large part of the cost of an append.
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
