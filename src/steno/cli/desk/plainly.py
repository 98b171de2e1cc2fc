"""What a model sees otherwise than it is on record, for people at a terminal.

Notices are written for logs as well: where in a request something stands, and a code for its kind.
People are told neither; and what every run of its kind does is not told at all.
"""

from __future__ import annotations

import re
from typing import Final

from steno.agent import Notice, NoticeCode
from steno.context import ChangeCode
from steno.wire import LossCode

_CODES: Final = frozenset(map(str, (*ChangeCode, *LossCode)))
_ROUTINE: Final = frozenset({ChangeCode.MODE, ChangeCode.COMPACTED, ChangeCode.TOOLS_LEFT_OUT})
"""What somebody asked for, or was told when the model was chosen."""
_CODED: Final = re.compile(
    r"(?P<place>(?:request\.)?[a-z_]+(?:\[\d+\]|\.)\S*: )?(?P<words>.*) \((?P<code>[a-z_]+)\)",
    re.DOTALL,
)


def said_plainly(notice: Notice) -> Notice | None:
    """Return a notice in words for a person; None where they need not know."""
    found = _CODED.fullmatch(notice.text) if notice.code is NoticeCode.CONTEXT else None
    if found is None or found["code"] not in _CODES:
        return notice
    if found["code"] in _ROUTINE:
        return None
    return Notice(notice.code, found["words"])
