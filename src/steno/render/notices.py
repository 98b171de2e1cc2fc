"""Decide which changes a person is shown, by their codes.

Most of what a server ignores needs no attention: such changes are counted and reported in one
line. Changes that a person should know are shown: omitted images, shortened results,
calls that had to be repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from steno.agent.events import ContextChanged, EntryRecorded, Notice, NoticeKind
from steno.messages.change import Change, ChangeCode
from steno.records.entry import ModelChange
from steno.render.changes import describe_change, format_change
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


@final
class ChangeSummarizer:
    """A listener for another listener: changes become notices, and ignored fields one line."""

    def __init__(self, listener: Callable[[Any], None], *, is_verbose: bool) -> None:
        """Take the listener; with `is_verbose` it gets a notice on each change."""
        self._listener = listener
        self._is_verbose = is_verbose
        self._ignored_fields = IgnoredFieldCounter()

    def __call__(self, event: object) -> None:
        """Pass on an event, or a notice in its place."""
        change = event.change if isinstance(event, ContextChanged) else None
        if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, ModelChange):
            self._ignored_fields = IgnoredFieldCounter()  # another server ignores other fields
        if not self._is_verbose:
            if change is not None and self._ignored_fields.count(change):
                return
            if summary := self._ignored_fields.summary():
                self._listener(Notice(NoticeKind.CONTEXT, summary, "fields_ignored"))
        if change is None:
            self._listener(event)
        elif text := format_change(change) if self._is_verbose else notice_text(change):
            self._listener(Notice(NoticeKind.CONTEXT, text, change.code))
