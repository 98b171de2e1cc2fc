"""Functions that format counts, costs and times as human-readable text."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

_AGE_UNITS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (2_592_000, 86_400, "d"))


def format_count(number: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}"


def format_dollars(cost: Decimal) -> str:
    """Return an amount in dollars, with more digits for small amounts."""
    if cost == 0:
        return "$0"
    if cost < Decimal("0.0001"):
        return "<$0.0001"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def format_time(time: datetime | None) -> str:
    """Return a time in UTC, to the second; empty if `time` is None."""
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def format_age(time: datetime | None, now: datetime) -> str:
    """Return the age of a time, or its date if it is at least 30 days old or in the future.

    A time less than a minute in the future is returned as `now`, and None as `-`.
    """
    if time is None:
        return "-"
    seconds = int((now - time).total_seconds())
    if -60 < seconds < 1:
        return "now"
    for limit, size, unit in _AGE_UNITS:
        if 0 < seconds < limit:
            return f"{seconds // size} {unit} ago"
    return f"{time.astimezone(UTC):%Y-%m-%d}"
