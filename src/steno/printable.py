r"""Make the words of models, tools and files harmless for a terminal.

Colours are dropped. Every other character that a terminal acts on, or that nobody can see, is
shown as an escape (`\x1b`, `\u202e`): what is hidden from a reader may be what matters.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

_COLOUR: Final = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_BEYOND_ASCII: Final = (
    "\x7f-\x9f"  # DEL, and the controls of ISO 6429 in one character
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # which way the text runs
    "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # nothing to see
)
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[{_BEYOND_ASCII}]")


def printable(text: str) -> str:
    """Return a text as it may be printed; line breaks and tabs stay."""
    if text.isprintable():
        return _UNSAFE.sub(_escape, text)
    return _UNSAFE.sub(_escape, _COLOUR.sub("", text).replace("\r\n", "\n"))


def on_one_line(text: str) -> str:
    """Return a text as it may be printed, with a blank for any number of blanks and breaks."""
    return " ".join(printable(text).split())


def printable_json(data: bytes) -> bytes:
    """Return JSON of the same meaning that may be printed."""
    return _UNSAFE_IN_JSON.sub(_escape_in_json, data.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _escape_in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join([f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)])


def counted(number: int, one: str, many: str) -> str:
    """Return a number and what it counts."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}"


def dollars(cost: Decimal) -> str:
    """Return an amount of money, as exact as it is interesting."""
    if cost == 0:
        return "$0"
    if cost < Decimal("0.0001"):
        return "<$0.0001"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


_STEPS: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (2_592_000, 86_400, "d"))


def moment(time: datetime | None) -> str:
    """Return a time to the second, in UTC; empty where none is known."""
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


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


# -- room on a line --------------------------------------------------------------------------


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_width_of_character, text))


def _width_of_character(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Return as much of a text as fits into so many columns."""
    if width_of(text) <= width:
        return text
    taken = 0
    for position, character in enumerate(text):
        taken += _width_of_character(character)
        if taken >= width:
            return f"{text[:position]}…"
    return text
