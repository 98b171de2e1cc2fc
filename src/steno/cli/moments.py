"""Times, as people read and write them on a command line."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from steno import printable
from steno.identity import utc_now

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"([0-9]{1,6})([smhdw])")


def shown(time: datetime | None) -> str:
    """Return a time to the second, in UTC; a dash where none is known."""
    return printable.moment(time) or "-"


def moment(text: str) -> datetime:
    """Read a time of the command line: ISO 8601, or how long ago (`90m`, `2h`, `3d`, `1w`)."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return utc_now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        time = datetime.fromisoformat(text)
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            "a time is written as 2024-05-17, 2024-05-17T06:30:00Z or 2h, 3d (ago)"
        ) from None
