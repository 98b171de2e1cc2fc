"""Fold notices about what a server does not look at into one line: nobody can do much about them.

What a person should know is left alone: images that were left out, results that were shortened,
calls that had to be mended.
"""

from __future__ import annotations

import re
from typing import Final, final

from steno.agent import Notice, NoticeCode
from steno.context import ChangeCode
from steno.render.quantities import format_count
from steno.wire import LossCode

# -- plainly ---------------------------------------------------------------------------------------
#
# What a model sees otherwise than it is on record, for people at a terminal.
#
# Notices are written for logs as well: where in a request something stands, and a code for its kind.
# People are told neither; and what every run of its kind does is not told at all.


_KNOWN_CODES: Final = frozenset(map(str, (*ChangeCode, *LossCode)))


_ROUTINE_CODES: Final = frozenset(
    {ChangeCode.MODE, ChangeCode.COMPACTED, ChangeCode.TOOLS_LEFT_OUT}
)
"""What somebody asked for, or was told when the model was chosen."""


_CODED_TEXT: Final = re.compile(
    r"(?P<place>(?:request\.)?[a-z_]+(?:\[\d+\]|\.)\S*: )?(?P<words>.*) \((?P<code>[a-z_]+)\)",
    re.DOTALL,
)


def simplify_notice(notice: Notice) -> Notice | None:
    """Return a notice in words for a person; None where they need not know."""
    found = _CODED_TEXT.fullmatch(notice.text) if notice.code is NoticeCode.CONTEXT else None
    if found is None or found["code"] not in _KNOWN_CODES:
        return notice
    if found["code"] in _ROUTINE_CODES:
        return None
    return Notice(notice.code, found["words"])


_IGNORED_LOSSES: Final = frozenset(LossCode) - {
    LossCode.IMAGE,
    LossCode.REFERENCE,
    LossCode.OPAQUE,
    LossCode.INVALID_CALL,
}


_LOSS_TEXT: Final = re.compile(
    r"(?:request\.)?(?P<root>[a-z_]+)\S*: .*\((?P<code>[a-z_]+)\)", re.DOTALL
)
"""How a loss reads: where in the request, what was done about it, and its kind."""


_ALREADY_REPORTED: Final = f"({ChangeCode.TOOLS_LEFT_OUT})"
"""What was told when the run began."""


@final
class IgnoredFieldCounter:
    """Counts such notices, and tells of them once in a run, when the first request has them all."""

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._roots: dict[str, None] = {}
        self._is_reported = False

    def absorb(self, notice: Notice) -> bool:
        """Tell whether a notice is one of those that need not be shown by themselves."""
        if notice.text.endswith(_ALREADY_REPORTED):
            return True
        found = _LOSS_TEXT.fullmatch(notice.text) if notice.code is NoticeCode.CONTEXT else None
        if found is None or found["code"] not in _IGNORED_LOSSES:
            return False
        self._count += 1
        self._roots[found["root"]] = None
        return True

    def summary(self) -> str:
        """Return what to say of those that were taken; empty if that was said before."""
        if not self._count or self._is_reported:
            return ""
        self._is_reported = True
        things = format_count(self._count, "thing", "things")
        return (
            f"{things} the server does not look at ({', '.join(self._roots)}); --verbose shows them"
        )
