"""Ids and times: the two things that no value makes for itself."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from typing import Final

_lock: Final = threading.Lock()
_UUID_VARIANT_DIGITS: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The two bits that say which kind of UUID it is."""
_last: int = 0


def new_id() -> str:
    """Return a UUID of version 7: ids sort in the order in which this process made them.

    The twelve bits behind the milliseconds count fractions of one, so that this holds for ids
    made in the same millisecond.
    """
    global _last  # noqa: PLW0603 - the one thing to remember between two ids
    now = time.time_ns()
    stamp = (now // 1_000_000 << 12) | (now % 1_000_000 << 12) // 1_000_000
    with _lock:
        _last = stamp = max(stamp, _last + 1)
    low = os.urandom(8).hex()
    return (
        f"{stamp >> 28:08x}-{stamp >> 12 & 0xFFFF:04x}-7{stamp & 0xFFF:03x}-"
        f"{_UUID_VARIANT_DIGITS[low[0]]}{low[1:4]}-{low[4:]}"
    )


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)
