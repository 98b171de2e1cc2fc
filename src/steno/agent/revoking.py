"""Grants of a session that are taken back: how that is recorded, and which of them it is about.

It counts for the whole session. Whoever goes back, edits an earlier message or forks from before
it leaves the entry behind that says so, and must not get back what was taken from them.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, final

from steno.agent.rules import Rule
from steno.conversation import Conversation
from steno.entry import Entry, Redacted, Redaction, Repair, Rewind
from steno.errors import Missing
from steno.ports import Scope

GRANT_REVOKED: Final = "grant_revoked"
"""The code of what is recorded where a grant is taken back."""
REVOKED: Final = "revoked"
"""What was decided there, and what beside that names the rule."""
_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


def revocation_of(rule: Rule, granted_in: str) -> Repair:
    """Return what is recorded where a grant of the session is taken back; it was in that entry."""
    told = f"{rule} is no longer allowed for this session"
    return Repair(code=GRANT_REVOKED, explanation=told, target=granted_in)


def audit_of_revocation(rule: Rule, actor: str) -> dict[str, str]:
    """Return what is recorded beside that."""
    return {"actor": actor, "scope": str(Scope.SESSION), REVOKED: str(rule)}


@final
class Revocations:
    """The grants that were taken back in a session, on whatever branch, by their entries.

    None of this takes a seal: who forges it is only asked more often.
    """

    def __init__(self) -> None:
        """Know of none yet."""
        self._read_ids: set[str] = set()
        """The entries that were looked at: what comes later is looked at, and no more."""
        self._targets: set[str] = set()
        self._distrusted_until: datetime | None = None
        """Until when anything may have been taken back that cannot be read any more."""

    def read(self, conversation: Conversation) -> list[Entry]:
        """Take note of all entries: of every branch, and of what branches went back behind.

        Return those that are new here, in no order. Raises LogError if they cannot be read; then
        nothing was taken note of.
        """
        found = self._find_unread(conversation)
        self._read_ids |= found.keys()
        for entry in found.values():
            self.add(entry)
            if isinstance(entry.payload, Rewind) and entry.payload.left not in self._read_ids:
                self._distrust_before(entry)
        return list(found.values())

    def add(self, entry: Entry) -> None:
        """Take note of an entry; most take nothing back."""
        match entry.payload:
            case Repair(code=code, target=str(target)) if code == GRANT_REVOKED:
                self._targets.add(target)
            case Redaction(target=target):  # what was taken out of the record grants nothing
                self._targets.add(target)
            case Redacted(kind=kind) if kind == "rewind" or entry.decision == REVOKED:
                self._distrust_before(entry)
            case _:
                pass

    def covers(self, granted: Entry) -> bool:
        """Tell whether the grant in an entry was taken back, or may have been."""
        if granted.id in self._targets:
            return True
        until = self._distrusted_until
        return until is not None and (granted.time is None or granted.time <= until)

    def _distrust_before(self, entry: Entry) -> None:
        """Let nothing count that was granted before an entry: nobody can tell what it was about."""
        until = entry.time or _ALWAYS
        self._distrusted_until = max(until, self._distrusted_until or until)

    def _find_unread(self, conversation: Conversation) -> dict[str, Entry]:
        heads = [head for head in conversation.branches.values() if head is not None]
        waiting = [conversation.entry(head) for head in heads if head not in self._read_ids]
        found: dict[str, Entry] = {}
        while waiting:
            entry = waiting.pop()
            if entry.id in self._read_ids or entry.id in found:
                continue
            found[entry.id] = entry
            if entry.parent is not None:
                waiting.append(conversation.entry(entry.parent))
            if isinstance(entry.payload, Rewind):
                with suppress(Missing):  # a copy may hold its branches alone
                    waiting.append(conversation.entry(entry.payload.left))
        return found
