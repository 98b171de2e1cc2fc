"""Decide which changes a person is shown, by their codes.

Most of what a server ignores needs no attention: such changes are counted and reported in one
line. Changes that a person should know are shown: omitted images, shortened results,
calls that had to be repaired.
"""

from __future__ import annotations

from typing import Final, final

from steno.messages.change import Change, ChangeCode
from steno.render.changes import describe_change
from steno.render.quantities import format_count

_IGNORED_BY_SERVER: Final = frozenset(
    {
        ChangeCode.SEAL,
        ChangeCode.THINKING,
        ChangeCode.CALL_ID,
        ChangeCode.TOOL_NAME,
        ChangeCode.EXTRAS,
        ChangeCode.OUTCOME,
        ChangeCode.SYSTEM,
        ChangeCode.ORDER,
        ChangeCode.BLANK,
        ChangeCode.TOOL,
        ChangeCode.SETTING,
    }
)

_REQUESTED: Final = frozenset({ChangeCode.MODE, ChangeCode.COMPACTED, ChangeCode.TOOLS_LEFT_OUT})
"""Changes that the user requested, or saw when the model was chosen."""


def notice_text(change: Change) -> str | None:
    """Return the sentence of a change for a person at a terminal; None for requested changes."""
    return None if change.code in _REQUESTED else describe_change(change)


@final
class IgnoredFieldCounter:
    """Counts the fields that the server ignores, for one line per run.

    The first request contains all of them.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._members: dict[str, None] = {}
        self._is_reported = False

    def count(self, change: Change) -> bool:
        """Count a change; return whether it needs no line of its own."""
        if change.code is ChangeCode.TOOLS_LEFT_OUT:
            return True  # shown when the run began
        if change.code not in _IGNORED_BY_SERVER:
            return False
        self._count += 1
        self._members[change.place_parts.member] = None
        return True

    def summary(self) -> str:
        """Return the line about what was counted; empty if there is none, or it was returned."""
        if not self._count or self._is_reported:
            return ""
        self._is_reported = True
        count = format_count(self._count, "thing", "things")
        return f"{count} the server does not look at ({', '.join(self._members)}); --verbose shows them"
