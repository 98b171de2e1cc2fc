"""Let a branch go on from an earlier entry, and keep what a person has settled since.

Words and answers are left behind. What was set meanwhile is not among them: the mode, and what
commands of the person have printed. Grants that were taken back need nothing here: that counts
wherever it stands.
"""

from __future__ import annotations

from itertools import takewhile

from steno.conversation import Conversation
from steno.entry import Entry, Mode
from steno.errors import LogError, Unavailable
from steno.message import UserMessage
from steno.views import SHELL


def go_back(conversation: Conversation, to: str) -> list[Entry]:
    """Rewind the active branch, and record again what stays; return what was written.

    Raises LogError if it cannot be recorded; where it went back and the mode did not stay, that
    says so.
    """
    mode = conversation.mode
    behind = takewhile(lambda entry: entry.id != to, reversed(conversation.entries_view()))
    staying = [entry for entry in behind if _is_command(entry)]
    written = [conversation.rewind(to)]
    if conversation.mode is not mode:
        written.append(_keep_mode(conversation, mode))
    for entry in reversed(staying):
        again = conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        written.append(again)
    return written


def is_by_the_way(entry: Entry) -> bool:
    """Tell whether an entry is nothing that anybody said to the model."""
    return entry.message is None or _is_command(entry)


def _is_command(entry: Entry) -> bool:
    """Tell whether an entry is a command of the person, with what it printed."""
    return isinstance(entry.payload, UserMessage) and SHELL in (entry.audit or {})


def _keep_mode(conversation: Conversation, mode: Mode) -> Entry:
    try:
        return conversation.change_mode(mode)
    except LogError as exc:
        # Not as what it was: who goes on after a conflict would do so in a mode that nobody set.
        raise Unavailable(
            f"mode: {mode} could not be recorded again, and it is {conversation.mode} here; "
            f"set it before you go on ({exc})"
        ) from exc
