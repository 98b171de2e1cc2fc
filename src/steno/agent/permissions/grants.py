"""Grants of a session that are taken back: how that is recorded, and which of them it is about.

It counts for the whole session. Whoever goes back, edits an earlier message or forks from before
it leaves the entry behind that says so, and must not get back what was taken from them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any, Final, NamedTuple, TypeAlias, final

from steno.agent.permissions.rules import PermissionRule
from steno.errors import InvalidValue, Missing
from steno.log.conversation import Conversation, arguments_digest
from steno.messages.call import AnyToolCall
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.records.entry import Approval, ApprovalStatus, Entry, Redacted, Redaction, Repair, Rewind

GRANT_REVOKED: Final = "grant_revoked"
"""The code of what is recorded where a grant is taken back."""


REVOKED: Final = "revoked"
"""What was decided there, and what beside that names the rule."""


_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


def build_revocation(rule: PermissionRule, granted_in: str) -> Repair:
    """Return what is recorded where a grant of the session is taken back; it was in that entry."""
    told = f"{rule} is no longer allowed for this session"
    return Repair(code=GRANT_REVOKED, explanation=told, target=granted_in)


def build_revocation_audit(rule: PermissionRule, actor: str) -> dict[str, str]:
    """Return what is recorded beside that."""
    return {"actor": actor, "scope": str(GrantScope.SESSION), REVOKED: str(rule)}


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
        until = entry.time or _END_OF_TIME
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


# -- permission ------------------------------------------------------------------------------------
#
# Who may do what: a mode, a role, rules and grants decide about a call, or leave it to be asked.
#
# What nothing allows is asked about, and where nobody can be asked it is denied. Nothing here asks,
# runs or records anything; the record of a decision is read here, so that its form stands in one
# place.


def find_granted_rule(
    verdict: ApprovalDecision, question: ApprovalRequest
) -> PermissionRule | None:
    """Return what a verdict allows beyond the one call. Raises InvalidValue if that is no rule."""
    if not verdict.allowed or verdict.scope is GrantScope.ONCE:
        return None
    text = question.rule if verdict.rule is None else verdict.rule
    return PermissionRule.parse(text) if text else None


def build_grant_audit(rule: PermissionRule, scope: GrantScope) -> dict[str, str]:
    """Return what is recorded beside the approval that a grant came with."""
    return {"scope": str(scope), "grant": str(rule)}


SignText: TypeAlias = Callable[[str], str]
"""Returns for a text what nobody else could return: a keyed digest, say."""


_SIGNATURE_KEY: Final = "seal"


_SIGNED_KEYS: Final = ("scope", "grant", "deferred")
"""What else stands beside a decision and makes it count for more than the moment."""


@final
class GrantSigner(NamedTuple):
    """Tells decisions that were taken here from those that merely stand in a record.

    Records come from anywhere: somebody may send a session in which everything was approved.
    Without a seal all of a record counts, for programs whose records nobody else can write.
    """

    session: str = ""
    sign_text: SignText | None = None

    def sign_audit(
        self, audit: Mapping[str, Any], call: AnyToolCall, status: ApprovalStatus
    ) -> dict[str, Any]:
        """Return what is to be recorded beside a decision about a call, with its seal."""
        if self.sign_text is None:
            return dict(audit)
        text = self._signed_text(audit, call.id, arguments_digest(call), status)
        return {**audit, _SIGNATURE_KEY: self.sign_text(text)}

    def has_valid_signature(self, entry: Entry) -> bool:
        """Tell whether a decision was taken here, in this session and about just this call."""
        if self.sign_text is None:
            return True
        approval, audit = entry.payload, entry.audit
        if not isinstance(approval, Approval) or audit is None:
            return False
        found = audit.get(_SIGNATURE_KEY)
        if not isinstance(found, str):
            return False
        text = self._signed_text(
            audit, approval.call_id, approval.arguments_sha256, approval.status
        )
        return compare_digest(found.encode(errors="replace"), self.sign_text(text).encode())

    def _signed_text(self, audit: Mapping[str, Any], *about: str | None) -> str:
        said = [audit.get(name) for name in _SIGNED_KEYS]
        return json.dumps([self.session, *about, *said], default=repr)


@final
class SessionGrants:
    """The rules that were granted in a session, from the entries of its active branch.

    They are read from the record as it grows: what is on record holds after a restart, and what
    was rewound or is in another branch does not. What was taken back holds nowhere: `revocations`
    may know of that from other branches. A signet tells which of them are ours.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        signet: GrantSigner | None = None,
        revocations: Revocations | None = None,
    ) -> None:
        """Read what there is so far."""
        self.signer: Final = signet or GrantSigner()
        self.revocations: Final = revocations or Revocations()
        self._granted: list[tuple[PermissionRule, Entry]] = []
        """Whatever was granted, and in which entry; what was taken back is among it."""
        for entry in entries:
            self.add(entry)

    @property
    def has_grants(self) -> bool:
        """Whether anything was ever granted, so that it could be taken back."""
        return bool(self._granted)

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """The rules, in the order they were granted."""
        return tuple(dict.fromkeys([rule for rule, _ in self._in_force()]))

    def granting_entries(self, rule: PermissionRule) -> tuple[str, ...]:
        """Return the ids of the entries that a rule was granted in, where that holds."""
        return tuple([entry.id for granted, entry in self._in_force() if granted == rule])

    def add(self, entry: Entry) -> None:
        """Take note of an entry; most grant nothing."""
        self.revocations.add(entry)
        approval, audit = entry.payload, entry.audit
        if audit is None or audit.get("scope") != GrantScope.SESSION:
            return
        is_decided = (
            isinstance(approval, Approval)
            and approval.status is ApprovalStatus.APPROVED
            and approval.actor is not None
        )
        rule = _read_rule(audit, "grant") if is_decided else None
        if rule is not None and self.signer.has_valid_signature(entry):
            self._granted.append((rule, entry))

    def _in_force(self) -> list[tuple[PermissionRule, Entry]]:
        return [one for one in self._granted if not self.revocations.covers(one[1])]


def _read_rule(audit: Mapping[str, Any], name: str) -> PermissionRule | None:
    """Return a rule that was noted; what is none grants nothing."""
    text = audit.get(name)
    with suppress(InvalidValue):
        return PermissionRule.parse(text) if isinstance(text, str) else None
    return None
