"""Let a branch go on from an earlier entry, and keep what a person has settled since.

Words and answers are left behind. What was set meanwhile is not among them: the mode, grants that
were taken back, and what commands of the person have printed.
"""

from __future__ import annotations

from itertools import takewhile

from steno.agent.permission import is_revocation
from steno.conversation import Conversation
from steno.entry import Entry
from steno.views import SHELL


def go_back(conversation: Conversation, to: str) -> list[Entry]:
    """Rewind the active branch, and record again what stays; return what was written."""
    mode = conversation.mode
    behind = takewhile(lambda entry: entry.id != to, reversed(conversation.past()))
    staying = [entry for entry in behind if _stays(entry)]
    written = [conversation.rewind(to)]
    if conversation.mode is not mode:
        written.append(conversation.change_mode(mode))
    for entry in reversed(staying):
        again = conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        written.append(again)
    return written


def is_by_the_way(entry: Entry) -> bool:
    """Tell whether an entry is nothing that anybody said to the model."""
    return entry.message is None or SHELL in (entry.audit or {})


def _stays(entry: Entry) -> bool:
    return is_revocation(entry) or SHELL in (entry.audit or {})
