"""Who may do what: a mode, a role, rules and grants decide about a call, or leave it to be asked.

What nothing allows is asked about, and where nobody can be asked it is denied. Nothing here asks,
runs or records anything; the record of a decision is read here, so that its form stands in one
place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from hmac import compare_digest
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, final

from steno.agent.revoking import Revocations
from steno.agent.rules import Rule, covering, is_unsure
from steno.call import AnyToolCall, ToolCall
from steno.entry import Approval, ApprovalStatus, Entry, Mode
from steno.errors import InvalidValue
from steno.ports import Capability, Question, Scope, Tool, Verdict
from steno.recording import arguments_digest
from steno.value import Quiet

DENIED: Final = "permission denied"
"""How every text begins that tells a model so."""


class Role(StrEnum):
    """What an agent is there for: to find out and plan, or also to act."""

    PLANNER = "planner"
    ACTOR = "actor"


_READING: Final = frozenset({Capability.READ})
_EVERYTHING: Final = frozenset(Capability)
MODES: Final[Mapping[Mode, frozenset[Capability]]] = {
    Mode.PLAN: _READING,
    Mode.ACT: _EVERYTHING,
}
ROLES: Final[Mapping[Role, frozenset[Capability]]] = {
    Role.PLANNER: _READING,
    Role.ACTOR: _EVERYTHING,
}
"""What can be allowed at all: a call has to pass both tables, and nothing reaches beyond them."""
_UNASKED: Final = (Rule(tool="bash_kill"),)
"""What ends no more than an allowed call has begun."""
_IN_WORDS: Final = {
    Capability.READ: "reading",
    Capability.WRITE: "writing",
    Capability.EXECUTE: "running things",
    Capability.NETWORK: "using the network",
}


class DecisionKind(StrEnum):
    """What is to happen with a call."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@final
class Decision(Quiet, frozen=True, kw_only=True):
    """What was decided without asking anybody, and by what."""

    shown: ClassVar[frozenset[str]] = frozenset({"rule"})

    kind: DecisionKind
    rule: str = ""
    """What decided, for the record: `mode plan`, `deny bash(rm *)`; empty if nothing did."""
    reason: str = ""
    """What the model is told where it is denied."""
    subjects: tuple[str, ...] = ()
    """What the call is about; empty where nobody had to look."""


@final
class Permissions(Quiet, frozen=True, kw_only=True):
    """What was settled before anybody is asked."""

    role: Role = Role.ACTOR
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    default_allow: frozenset[Capability] = _READING
    """What takes neither a rule nor a question."""
    default_rules: tuple[Rule, ...] = _UNASKED
    """Likewise, tool by tool."""

    @classmethod
    def of(
        cls, *, role: Role = Role.ACTOR, allow: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Permissions:
        """Make them of rules as people write them. Raises InvalidValue."""
        return cls(
            role=role,
            allow=tuple([Rule.parse(text) for text in allow]),
            deny=tuple([Rule.parse(text) for text in deny]),
        )

    def find_mode_denial(self, tool: Tool, mode: Mode) -> Decision | None:
        """Return the denial of every call of a tool, by mode or role; None if it can be allowed."""
        if tool.capability not in MODES[mode]:
            return _denied(
                f"mode {mode}",
                f"{mode} mode allows {_listed(MODES[mode])} only; "
                "tell the user what you would do, or ask for another mode",
            )
        if tool.capability not in ROLES[self.role]:
            return _denied(
                f"role {self.role}",
                f"the role {self.role} allows {_listed(ROLES[self.role])} only; "
                "say what is to be done, and leave it to others",
            )
        return None

    def decide(
        self,
        tool: Tool,
        call: ToolCall,
        *,
        mode: Mode,
        session: Sequence[Rule] = (),
        standing: Sequence[Rule] = (),
    ) -> Decision:
        """Decide about a call: mode and role, deny, allow, grants, what is allowed by default; ask.

        Grants are those of this session, and those that stand for the project and the user.
        Raises ToolFailed if the tool can make no sense of the arguments.
        """
        limit = self.find_mode_denial(tool, mode)
        if limit is not None:
            return limit
        subjects = tool.subjects(call)
        against = self._find_denial(tool, subjects)
        if against is not None:
            return against
        sources = {
            "allow": self.allow,
            "session grant": session,
            "standing grant": standing,
            "default": self.default_rules,
        }
        rules = _allowing(sources, tool, subjects)
        if rules is None and tool.capability in self.default_allow:
            rules = f"default {tool.capability}"
        if rules is None:
            return Decision(kind=DecisionKind.ASK, subjects=subjects)
        return Decision(kind=DecisionKind.ALLOW, rule=rules, subjects=subjects)

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a deny rule covers something that a call of the tool came across."""
        return self._find_deny_rule(tool, (subject,)) is not None

    def _find_denial(self, tool: Tool, subjects: tuple[str, ...]) -> Decision | None:
        """Return what the deny rules say, if anything.

        What may turn out to be anything may turn out to be what is denied, and what says nothing
        of itself can be held against no pattern: no other rule settles that then, and somebody
        has to look.
        """
        rule = self._find_deny_rule(tool, subjects)
        if rule is not None:
            why = f"the rule {rule} forbids this; find another way, or ask the user"
            return _denied(f"deny {rule}", why, subjects)
        if not subjects or any(is_unsure(subject, tool.capability) for subject in subjects):
            # Without a subject only its own name is looked at: what others are about is no part of it.
            names = _names(tool) if subjects else _names(tool)[:1]
            for rule in self.deny:
                if any(map(rule.names_tool, names)):
                    return Decision(kind=DecisionKind.ASK, rule=f"deny {rule}", subjects=subjects)
        return None

    def _find_deny_rule(self, tool: Tool, subjects: tuple[str, ...]) -> Rule | None:
        """Return the first deny rule that covers any of this for a tool."""
        for rule in self.deny:
            if any(rule.covers_any(name, tool.capability, subjects) for name in _names(tool)):
                return rule
        return None


def _names(tool: Tool) -> tuple[str, ...]:
    """Return the names by which deny rules may mean a tool."""
    return (tool.definition.name, *tool.ruled_as)


def _allowing(
    sources: Mapping[str, Sequence[Rule]], tool: Tool, subjects: tuple[str, ...]
) -> str | None:
    """Name the rules that together allow a call, and where they come from, if they do."""
    origins: dict[Rule, str] = {}
    for source, rules in sources.items():
        for rule in rules:
            origins.setdefault(rule, source)
    found = covering(origins, tool.definition.name, capability=tool.capability, subjects=subjects)
    return None if found is None else ", ".join([f"{origins[rule]} {rule}" for rule in found])


def _denied(rule: str, why: str, subjects: tuple[str, ...] = ()) -> Decision:
    return Decision(kind=DecisionKind.DENY, rule=rule, reason=f"{DENIED}: {why}", subjects=subjects)


def _listed(capabilities: frozenset[Capability]) -> str:
    return " and ".join([word for one, word in _IN_WORDS.items() if one in capabilities])


# -- what somebody decided -------------------------------------------------------------------------


def refusal_of(verdict: Verdict) -> str:
    """Return what the model is told of a verdict against its call."""
    return f"{DENIED}: {verdict.reason or 'this was not approved; do not try it again unasked'}"


def granted_by(verdict: Verdict, question: Question) -> Rule | None:
    """Return what a verdict allows beyond the one call. Raises InvalidValue if that is no rule."""
    if not verdict.allowed or verdict.scope is Scope.ONCE:
        return None
    text = question.rule if verdict.rule is None else verdict.rule
    return Rule.parse(text) if text else None


def audit_of(rule: Rule, scope: Scope) -> dict[str, str]:
    """Return what is recorded beside the approval that a grant came with."""
    return {"scope": str(scope), "grant": str(rule)}


Seal: TypeAlias = Callable[[str], str]
"""Returns for a text what nobody else could return: a keyed digest, say."""
_SEAL: Final = "seal"
_SEALED: Final = ("scope", "grant", "deferred")
"""What else stands beside a decision and makes it count for more than the moment."""


@final
class Signet(NamedTuple):
    """Tells decisions that were taken here from those that merely stand in a record.

    Records come from anywhere: somebody may send a session in which everything was approved.
    Without a seal all of a record counts, for programs whose records nobody else can write.
    """

    session: str = ""
    sign_text: Seal | None = None

    def sign_audit(
        self, audit: Mapping[str, Any], call: AnyToolCall, status: ApprovalStatus
    ) -> dict[str, Any]:
        """Return what is to be recorded beside a decision about a call, with its seal."""
        if self.sign_text is None:
            return dict(audit)
        text = self._signed_text(audit, call.id, arguments_digest(call), status)
        return {**audit, _SEAL: self.sign_text(text)}

    def has_valid_signature(self, entry: Entry) -> bool:
        """Tell whether a decision was taken here, in this session and about just this call."""
        if self.sign_text is None:
            return True
        approval, audit = entry.payload, entry.audit
        if not isinstance(approval, Approval) or audit is None:
            return False
        found = audit.get(_SEAL)
        if not isinstance(found, str):
            return False
        text = self._signed_text(audit, approval.call_id, approval.arguments_sha256, approval.status)
        return compare_digest(found.encode(errors="replace"), self.sign_text(text).encode())

    def _signed_text(self, audit: Mapping[str, Any], *about: str | None) -> str:
        said = [audit.get(name) for name in _SEALED]
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
        signet: Signet | None = None,
        revocations: Revocations | None = None,
    ) -> None:
        """Read what there is so far."""
        self.signer: Final = signet or Signet()
        self.revocations: Final = revocations or Revocations()
        self._granted: list[tuple[Rule, Entry]] = []
        """Whatever was granted, and in which entry; what was taken back is among it."""
        for entry in entries:
            self.add(entry)

    @property
    def has_grants(self) -> bool:
        """Whether anything was ever granted, so that it could be taken back."""
        return bool(self._granted)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order they were granted."""
        return tuple(dict.fromkeys([rule for rule, _ in self._in_force()]))

    def granting_entries(self, rule: Rule) -> tuple[str, ...]:
        """Return the ids of the entries that a rule was granted in, where that holds."""
        return tuple([entry.id for granted, entry in self._in_force() if granted == rule])

    def add(self, entry: Entry) -> None:
        """Take note of an entry; most grant nothing."""
        self.revocations.add(entry)
        approval, audit = entry.payload, entry.audit
        if audit is None or audit.get("scope") != Scope.SESSION:
            return
        is_decided = (
            isinstance(approval, Approval)
            and approval.status is ApprovalStatus.APPROVED
            and approval.actor is not None
        )
        rule = _rule_in(audit, "grant") if is_decided else None
        if rule is not None and self.signer.has_valid_signature(entry):
            self._granted.append((rule, entry))

    def _in_force(self) -> list[tuple[Rule, Entry]]:
        return [one for one in self._granted if not self.revocations.covers(one[1])]


def _rule_in(audit: Mapping[str, Any], name: str) -> Rule | None:
    """Return a rule that was noted; what is none grants nothing."""
    text = audit.get(name)
    with suppress(InvalidValue):
        return Rule.parse(text) if isinstance(text, str) else None
    return None


def is_bound(approval: Approval, call: AnyToolCall) -> bool:
    """Tell whether a decision is about this call with exactly these arguments."""
    return approval.call_id == call.id and approval.arguments_sha256 == arguments_digest(call)
