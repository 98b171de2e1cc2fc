"""Record, sign and revoke the decisions and grants of a session, and find those that apply.

A grant is read from the log, so it survives a restart. A revocation applies to the whole session:
after a rewind, an edit of an earlier message or a fork, the active branch may no longer contain the
revocation, but the grant must not apply again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from hmac import compare_digest
from typing import Any, Final, NamedTuple, TypeAlias, final

from steno.agent.permissions.rules import PermissionRule
from steno.errors import InvalidValue, Missing
from steno.log.conversation import BuildAudit, Conversation, arguments_digest
from steno.log.queries import revoked_grant_of
from steno.messages.call import AnyToolCall, ToolCall
from steno.messages.message import AssistantMessage
from steno.ports import AccessKind, ApprovalDecision, ApprovalRequest, GrantScope, SandboxAccess
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    GrantRevoked,
    Redacted,
    Redaction,
    Rewind,
)

REVOKED: Final = "revoked"
"""The `decision` of an entry that revokes a grant."""
_SIGNATURE_KEY: Final = "seal"
_ACCESS_KEY: Final = "access"
_TOOL_KEY: Final = "tool"
_SIGNATURE_FORMAT: Final = 2
"""The format of the signed text; the first one covered neither the id nor the time of the entry."""
_SIGNED_KEYS: Final = frozenset({"scope", "grant", "deferred", _ACCESS_KEY, _TOOL_KEY})
"""The members of an audit that determine the effect of a decision; the signature covers them."""
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)

SignText: TypeAlias = Callable[[str], str]
"""A function that returns a signature for a text, such as a keyed digest."""


# -- records ---------------------------------------------------------------------------------------


def find_granted_rule(
    decision: ApprovalDecision, request: ApprovalRequest
) -> PermissionRule | None:
    """Return the rule that a decision grants for later calls; None if it grants no rule.

    Raises InvalidValue if the rule is invalid.
    """
    if not decision.allowed or decision.scope is GrantScope.ONCE:
        return None
    text = request.rule if decision.rule is None else decision.rule
    return PermissionRule.parse(text) if text else None


def build_grant_audit(rule: PermissionRule, scope: GrantScope) -> dict[str, str]:
    """Return the audit of an approval that grants a rule."""
    return {"scope": str(scope), "grant": str(rule)}


def last_decision(entries: Sequence[Entry], call: AnyToolCall) -> Entry | None:
    """Return the last decision about a call of the last turn; None if there is none.

    A decision about other arguments does not count.
    """
    for entry in reversed(entries):
        payload = entry.payload
        if isinstance(payload, AssistantMessage):
            return None
        if isinstance(payload, Approval) and payload.call_id == call.id:
            return entry if is_about_call(payload, call) else None
    return None


def is_about_call(approval: Approval, call: AnyToolCall) -> bool:
    """Return whether a decision is about this call with exactly these arguments."""
    return approval.call_id == call.id and approval.arguments_sha256 == arguments_digest(call)


def is_deferred(entry: Entry) -> bool:
    """Return whether a decision was made between runs, before the call could begin."""
    return entry.audit is not None and entry.audit.get("deferred") is True


def build_access_audit(access: Iterable[SandboxAccess]) -> dict[str, Any]:
    """Return the audit of a decision about more access for a call that has run."""
    return {_ACCESS_KEY: [{"kind": str(each.kind), "target": each.target} for each in access]}


def decided_access(entry: Entry) -> tuple[SandboxAccess, ...] | None:
    """Return the access that a decision is about; None if it is about a call as such."""
    rows = None if entry.audit is None else entry.audit.get(_ACCESS_KEY)
    if not isinstance(entry.payload, Approval) or not isinstance(rows, Sequence):
        return None
    return tuple(
        [
            SandboxAccess(AccessKind(row["kind"]), row["target"])
            for row in rows
            if isinstance(row, Mapping)
            and row.get("kind") in list(AccessKind)
            and isinstance(row.get("target"), str)
        ]
    )


# -- signatures ------------------------------------------------------------------------------------


class SignatureState(StrEnum):
    """Whether a decision was signed on this machine."""

    VALID = "valid"
    INVALID = "invalid"
    """The decision was changed, copied or moved, or it was signed with another key."""
    MISSING = "missing"
    NOT_REQUIRED = "none required"
    """The decision allows nothing: it is pending, or a rule denied the call."""


@final
class GrantSigner(NamedTuple):
    """Signs the decisions of approvers, and verifies that they were signed on this machine.

    A session may come from another person, with every call already approved. Without `sign_text`,
    a recorded decision is accepted only if this process recorded it (`own_texts`), or if
    `trusts_record` is set, which is safe only if no other program can write the logs.
    """

    session: str = ""
    sign_text: SignText | None = None
    trusts_record: bool = False
    own_texts: set[str] | None = None
    """The texts of the decisions that this process has recorded without a `sign_text`."""

    def sign_audit(self, audit: Mapping[str, Any], *, tool: str) -> BuildAudit:
        """Return a function that adds a signature to the audit of a new decision.

        The signature covers the id, the time and the place of the entry, so it is valid only there,
        and the name of the tool, because the arguments of a call do not contain it.
        """
        return partial(self._sign_entry, audit, tool)

    def _sign_entry(
        self, audit: Mapping[str, Any], tool: str, entry: Entry
    ) -> Mapping[str, Any] | None:
        if self.sign_text is not None:
            audit = {**audit, _TOOL_KEY: tool}
            return {**audit, _SIGNATURE_KEY: self.sign_text(self._signed_text(entry, audit))}
        if audit and self.own_texts is not None:
            self.own_texts.add(self._signed_text(entry, audit))
        return audit or None

    def has_valid_signature(self, entry: Entry) -> bool:
        """Return whether a decision may be acted on: it was signed here, or the record is trusted."""
        if self.trusts_record:
            return True
        if self.sign_text is not None:
            return self.signature_state(entry) is SignatureState.VALID
        if not isinstance(entry.payload, Approval):
            return False
        return self._signed_text(entry, entry.audit or {}) in (self.own_texts or ())

    def signature_state(self, entry: Entry) -> SignatureState:
        """Return the state of the signature of a decision, which needs a `sign_text` to be valid."""
        approval, audit = entry.payload, entry.audit or {}
        if not isinstance(approval, Approval) or approval.status is ApprovalStatus.PENDING:
            return SignatureState.NOT_REQUIRED
        is_denied = approval.status is ApprovalStatus.DENIED
        if is_denied and approval.actor is None and _SIGNED_KEYS.isdisjoint(audit):
            return SignatureState.NOT_REQUIRED
        if _SIGNATURE_KEY not in audit:
            return SignatureState.MISSING
        is_valid = self._is_signature(audit[_SIGNATURE_KEY], self._signed_text(entry, audit))
        return SignatureState.VALID if is_valid else SignatureState.INVALID

    def has_outdated_signature(self, entry: Entry) -> bool:
        """Return whether an older version of steno signed a decision on this machine.

        Such a signature covers neither the id nor the time of the entry, so it is not valid.
        """
        approval, audit = entry.payload, entry.audit or {}
        if not isinstance(approval, Approval):
            return False
        subjects = (approval.call_id, approval.arguments_sha256, approval.status)
        members = [audit.get(name) for name in ("scope", "grant", "deferred")]
        text = json.dumps([self.session, *subjects, *members], default=repr)
        return self._is_signature(audit.get(_SIGNATURE_KEY), text)

    def _is_signature(self, found: object, text: str) -> bool:
        if self.sign_text is None or not isinstance(found, str):
            return False
        return compare_digest(found.encode(errors="replace"), self.sign_text(text).encode())

    def _signed_text(self, entry: Entry, audit: Mapping[str, Any]) -> str:
        approval = entry.payload
        assert isinstance(approval, Approval)
        time = None if entry.time is None else entry.time.astimezone(UTC).isoformat()
        place = (self.session, entry.id, entry.parent, time, entry.decision)
        subject = (approval.call_id, approval.arguments_sha256, approval.status)
        source = (approval.actor, approval.rule, approval.reason)
        members = [audit.get(name) for name in sorted(_SIGNED_KEYS)]
        parts = [_SIGNATURE_FORMAT, *place, *subject, *source, *members]
        return json.dumps(parts, sort_keys=True, default=_as_plain_json)


def _as_plain_json(value: object) -> object:
    """Return an object of a stored audit as `json` expects it."""
    return dict(value) if isinstance(value, Mapping) else repr(value)


# -- revocations -----------------------------------------------------------------------------------


@final
class Revocations:
    """The entries of a session whose grants were revoked, on any branch.

    A revocation needs no signature, because a forged one only causes more approval requests.
    """

    def __init__(self) -> None:
        self._read_ids: set[str] = set()
        """The ids of the entries that were read."""
        self._targets: set[str] = set()
        self._distrusted_until: datetime | None = None
        """Grants up to this time may have been revoked by an entry that is no longer readable."""

    def read(self, conversation: Conversation) -> list[Entry]:
        """Read the entries of every branch, including entries that were rewound.

        Return the entries that were not read before, in no particular order. If an entry cannot be
        read, raises LogError and changes nothing.
        """
        found = self._find_unread(conversation)
        self._read_ids |= found.keys()
        for entry in found.values():
            self.add(entry)
            if isinstance(entry.payload, Rewind) and entry.payload.left not in self._read_ids:
                self._distrust_before(entry)
        return list(found.values())

    def add(self, entry: Entry) -> None:
        """Add the revocation in an entry, if the entry contains one."""
        match revoked_grant_of(entry) or entry.payload:
            case GrantRevoked(target=target):
                self._targets.add(target)
            case Redaction(target=target):  # a redacted entry no longer grants anything
                self._targets.add(target)
            case Redacted(kind=kind) if kind == "rewind" or entry.decision == REVOKED:
                self._distrust_before(entry)
            case _:
                pass

    def covers(self, granted: Entry) -> bool:
        """Return whether the grant in an entry was revoked or may have been revoked."""
        if granted.id in self._targets:
            return True
        until = self._distrusted_until
        return until is not None and (granted.time is None or granted.time <= until)

    def _distrust_before(self, entry: Entry) -> None:
        """Distrust every grant made before an entry that may have revoked it."""
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
                with suppress(Missing):  # a copied session may lack rewound entries
                    waiting.append(conversation.entry(entry.payload.left))
        return found


# -- grants in force -------------------------------------------------------------------------------


@final
class SessionGrants:
    """The rules that were granted in a session, read from the entries of its active branch.

    Grants that were rewound or are on another branch do not apply. Revoked grants apply on no
    branch, so `revocations` may include those of other branches. `signer` verifies that a grant was
    signed on this machine.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        signer: GrantSigner | None = None,
        revocations: Revocations | None = None,
    ) -> None:
        self.signer: Final = signer or GrantSigner()
        self.revocations: Final = revocations or Revocations()
        self._granted: list[tuple[PermissionRule, Entry]] = []
        """Every grant with its entry, including revoked grants."""
        self._rejected: list[tuple[PermissionRule, Entry]] = []
        """Every grant that does not apply for lack of a valid signature."""
        self._decisions: dict[str, Entry] = {}
        """The last decision about each call of the last turn."""
        for entry in entries:
            self.add(entry)

    @property
    def has_grants(self) -> bool:
        """Whether the entries contain a grant, even if it was revoked or does not apply."""
        return bool(self._granted or self._rejected)

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """The granted rules that are not revoked, in the order in which they were granted."""
        return tuple(dict.fromkeys([rule for rule, _ in self._in_force()]))

    def granting_entries(self, rule: PermissionRule) -> tuple[str, ...]:
        """Return the ids of the entries that grant a rule, except revoked grants."""
        return tuple([entry.id for granted, entry in self._in_force() if granted == rule])

    def add(self, entry: Entry) -> None:
        """Add the grant, decision or revocation in an entry, if the entry contains one."""
        self.revocations.add(entry)
        approval, audit = entry.payload, entry.audit
        if isinstance(approval, AssistantMessage):
            self._decisions.clear()
        elif isinstance(approval, Approval):
            self._decisions[approval.call_id] = entry
        if audit is None or audit.get("scope") != GrantScope.SESSION:
            return
        is_decided = (
            isinstance(approval, Approval)
            and approval.status is ApprovalStatus.APPROVED
            and approval.actor is not None
        )
        rule = _parse_grant(audit.get("grant")) if is_decided else None
        if rule is not None:
            is_valid = self.signer.has_valid_signature(entry)
            (self._granted if is_valid else self._rejected).append((rule, entry))

    @property
    def rejected(self) -> tuple[tuple[PermissionRule, Entry], ...]:
        """The rules, with their entries, whose grants lack a valid signature; not revoked ones."""
        return tuple([one for one in self._rejected if not self.revocations.covers(one[1])])

    def earlier_decision(self, call: ToolCall) -> Entry | None:
        """Return the entry with the recorded decision to repeat for a call; None if there is none.

        Only a denial, or a deferred approval with a valid signature, is repeated.
        """
        entry = self._decisions.get(call.id)
        if entry is None or not isinstance(entry.payload, Approval):
            return None
        audit = entry.audit or {}
        if not is_about_call(entry.payload, call) or audit.get(_TOOL_KEY, call.name) != call.name:
            return None
        is_denied = entry.payload.status is ApprovalStatus.DENIED
        is_approved = is_deferred(entry) and self.signer.has_valid_signature(entry)
        return entry if is_denied or is_approved else None

    def _in_force(self) -> list[tuple[PermissionRule, Entry]]:
        return [grant for grant in self._granted if not self.revocations.covers(grant[1])]


def _parse_grant(text: object) -> PermissionRule | None:
    """Parse a recorded rule; return None if the value is not a valid rule."""
    with suppress(InvalidValue):
        return PermissionRule.parse(text) if isinstance(text, str) else None
    return None
