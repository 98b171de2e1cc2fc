"""Who may do what: a mode, a role, rules and grants decide about a call, or leave it to be asked.

What nothing allows is asked about, and where nobody can be asked it is denied. Nothing here asks,
runs or records anything; the record of a decision is read here, so that its form stands in one
place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, final

from steno.agent.permissions.rules import PermissionRule, find_covering_rules, is_unknown_subject
from steno.messages.call import ToolCall
from steno.ports import ApprovalDecision, Capability, Tool
from steno.records.entry import Mode
from steno.values import RedactedRepr

DENIED_PREFIX: Final = "permission denied"
"""How every text begins that tells a model so."""


class AgentRole(StrEnum):
    """What an agent is there for: to find out and plan, or also to act."""

    PLANNER = "planner"
    ACTOR = "actor"


_READ_ONLY: Final = frozenset({Capability.READ})


_ALL_CAPABILITIES: Final = frozenset(Capability)


MODE_CAPABILITIES: Final[Mapping[Mode, frozenset[Capability]]] = {
    Mode.PLAN: _READ_ONLY,
    Mode.ACT: _ALL_CAPABILITIES,
}


ROLE_CAPABILITIES: Final[Mapping[AgentRole, frozenset[Capability]]] = {
    AgentRole.PLANNER: _READ_ONLY,
    AgentRole.ACTOR: _ALL_CAPABILITIES,
}
"""What can be allowed at all: a call has to pass both tables, and nothing reaches beyond them."""


_DEFAULT_RULES: Final = (PermissionRule(tool="bash_kill"),)
"""What ends no more than an allowed call has begun."""


_CAPABILITY_NAMES: Final = {
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
class PolicyDecision(RedactedRepr, frozen=True, kw_only=True):
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
class Permissions(RedactedRepr, frozen=True, kw_only=True):
    """What was settled before anybody is asked."""

    role: AgentRole = AgentRole.ACTOR
    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    default_allow: frozenset[Capability] = _READ_ONLY
    """What takes neither a rule nor a question."""
    default_rules: tuple[PermissionRule, ...] = _DEFAULT_RULES
    """Likewise, tool by tool."""

    @classmethod
    def of(
        cls,
        *,
        role: AgentRole = AgentRole.ACTOR,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
    ) -> Permissions:
        """Make them of rules as people write them. Raises InvalidValue."""
        return cls(
            role=role,
            allow=tuple([PermissionRule.parse(text) for text in allow]),
            deny=tuple([PermissionRule.parse(text) for text in deny]),
        )

    def find_mode_denial(self, tool: Tool, mode: Mode) -> PolicyDecision | None:
        """Return the denial of every call of a tool, by mode or role; None if it can be allowed."""
        if tool.capability not in MODE_CAPABILITIES[mode]:
            return _build_denial(
                f"mode {mode}",
                f"{mode} mode allows {_join_capabilities(MODE_CAPABILITIES[mode])} only; "
                "tell the user what you would do, or ask for another mode",
            )
        if tool.capability not in ROLE_CAPABILITIES[self.role]:
            return _build_denial(
                f"role {self.role}",
                f"the role {self.role} allows {_join_capabilities(ROLE_CAPABILITIES[self.role])} only; "
                "say what is to be done, and leave it to others",
            )
        return None

    def decide(
        self,
        tool: Tool,
        call: ToolCall,
        *,
        mode: Mode,
        session: Sequence[PermissionRule] = (),
        standing: Sequence[PermissionRule] = (),
    ) -> PolicyDecision:
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
        rules = _describe_allowing_rules(sources, tool, subjects)
        if rules is None and tool.capability in self.default_allow:
            rules = f"default {tool.capability}"
        if rules is None:
            return PolicyDecision(kind=DecisionKind.ASK, subjects=subjects)
        return PolicyDecision(kind=DecisionKind.ALLOW, rule=rules, subjects=subjects)

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a deny rule covers something that a call of the tool came across."""
        return self._find_deny_rule(tool, (subject,)) is not None

    def _find_denial(self, tool: Tool, subjects: tuple[str, ...]) -> PolicyDecision | None:
        """Return what the deny rules say, if anything.

        What may turn out to be anything may turn out to be what is denied, and what says nothing
        of itself can be held against no pattern: no other rule settles that then, and somebody
        has to look.
        """
        rule = self._find_deny_rule(tool, subjects)
        if rule is not None:
            why = f"the rule {rule} forbids this; find another way, or ask the user"
            return _build_denial(f"deny {rule}", why, subjects)
        if not subjects or any(
            is_unknown_subject(subject, tool.capability) for subject in subjects
        ):
            # Without a subject only its own name is looked at: what others are about is no part of it.
            names = _rule_names(tool) if subjects else _rule_names(tool)[:1]
            for rule in self.deny:
                if any(map(rule.names_tool, names)):
                    return PolicyDecision(
                        kind=DecisionKind.ASK, rule=f"deny {rule}", subjects=subjects
                    )
        return None

    def _find_deny_rule(self, tool: Tool, subjects: tuple[str, ...]) -> PermissionRule | None:
        """Return the first deny rule that covers any of this for a tool."""
        for rule in self.deny:
            if any(rule.covers_any(name, tool.capability, subjects) for name in _rule_names(tool)):
                return rule
        return None


def _rule_names(tool: Tool) -> tuple[str, ...]:
    """Return the names by which deny rules may mean a tool."""
    return (tool.definition.name, *tool.ruled_as)


def _describe_allowing_rules(
    sources: Mapping[str, Sequence[PermissionRule]], tool: Tool, subjects: tuple[str, ...]
) -> str | None:
    """Name the rules that together allow a call, and where they come from, if they do."""
    origins: dict[PermissionRule, str] = {}
    for source, rules in sources.items():
        for rule in rules:
            origins.setdefault(rule, source)
    found = find_covering_rules(
        origins, tool.definition.name, capability=tool.capability, subjects=subjects
    )
    return None if found is None else ", ".join([f"{origins[rule]} {rule}" for rule in found])


def _build_denial(rule: str, why: str, subjects: tuple[str, ...] = ()) -> PolicyDecision:
    return PolicyDecision(
        kind=DecisionKind.DENY, rule=rule, reason=f"{DENIED_PREFIX}: {why}", subjects=subjects
    )


def _join_capabilities(capabilities: frozenset[Capability]) -> str:
    return " and ".join([word for one, word in _CAPABILITY_NAMES.items() if one in capabilities])


# -- what somebody decided -------------------------------------------------------------------------


def build_denial_text(verdict: ApprovalDecision) -> str:
    """Return what the model is told of a verdict against its call."""
    return (
        f"{DENIED_PREFIX}: {verdict.reason or 'this was not approved; do not try it again unasked'}"
    )
