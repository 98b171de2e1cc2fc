"""Fold notices about what a server does not look at into one line: nobody can do much about them.

What a person should know is left alone: images that were left out, results that were shortened,
calls that had to be mended.
"""

from __future__ import annotations

import re
from typing import Final, final

from steno.agent import Notice, NoticeCode
from steno.context import ChangeCode
from steno.printable import counted
from steno.wire import LossCode

_UNIMPORTANT: Final = frozenset(LossCode) - {
    LossCode.IMAGE,
    LossCode.REFERENCE,
    LossCode.OPAQUE,
    LossCode.INVALID_CALL,
}
_LOSS: Final = re.compile(r"(?:request\.)?(?P<root>[a-z_]+)\S*: .*\((?P<code>[a-z_]+)\)", re.DOTALL)
"""How a loss reads: where in the request, what was done about it, and its kind."""
_SAID: Final = f"({ChangeCode.TOOLS_LEFT_OUT})"
"""What was told when the run began."""


@final
class Folding:
    """Counts such notices, and tells of them once in a run, when the first request has them all."""

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._roots: dict[str, None] = {}
        self._is_reported = False

    def absorb(self, notice: Notice) -> bool:
        """Tell whether a notice is one of those that need not be shown by themselves."""
        if notice.text.endswith(_SAID):
            return True
        found = _LOSS.fullmatch(notice.text) if notice.code is NoticeCode.CONTEXT else None
        if found is None or found["code"] not in _UNIMPORTANT:
            return False
        self._count += 1
        self._roots[found["root"]] = None
        return True

    def summary(self) -> str:
        """Return what to say of those that were taken; empty if that was said before."""
        if not self._count or self._is_reported:
            return ""
        self._is_reported = True
        things = counted(self._count, "thing", "things")
        return (
            f"{things} the server does not look at ({', '.join(self._roots)}); --verbose shows them"
        )
