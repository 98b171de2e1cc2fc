"""How long ago something was, as people say it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_STEPS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (2_592_000, 86_400, "d"))


def age(time: datetime | None, now: datetime) -> str:
    """Return how long ago a time is; the day where that is more than a month, or not yet."""
    if time is None:
        return "-"
    seconds = int((now - time).total_seconds())
    if -60 < seconds < 1:
        return "now"
    for limit, size, unit in _STEPS:
        if 0 < seconds < limit:
            return f"{seconds // size} {unit} ago"
    return f"{time.astimezone(UTC):%Y-%m-%d}"
