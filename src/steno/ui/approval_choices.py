"""The choices of an approval, the rules that they store, and the decisions that they make.

Both interfaces use it. This module imports no widget.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from steno.agent.permissions.rules import PermissionRule
from steno.app.session import AgentSession
from steno.app.session_events import PendingCall
from steno.errors import InvalidValue, StenoError
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.render.terminal_text import terminal_line, terminal_text

_WAITING_REASON: Final = "it waits behind another call, and a rule may yet decide about it"
NO_RULE_REASON: Final = "no rule would cover only calls like this one"
_UNPRINTABLE_RULE: Final = "a rule for it would hold what cannot be shown"


# -- choices ----------------------------------------------------------------------------------


class ApprovalChoice(StrEnum):
    """A decision about one call, or about several."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"
    DENY = "deny"
    EXPLAIN = "explain"
    """Deny, with a reason for the model."""
    ALL = "all"
    """List all pending calls, to allow them together."""
    THESE = "these"
    """Allow the listed calls."""
    BACK = "back"


SCOPE_BY_CHOICE: Final = {
    ApprovalChoice.SESSION: GrantScope.SESSION,
    ApprovalChoice.PROJECT: GrantScope.PROJECT,
    ApprovalChoice.USER: GrantScope.USER,
}
"""The choices that allow more than this call, by a rule."""


class ApprovalOffer(NamedTuple):
    """A choice as it is offered."""

    choice: ApprovalChoice
    letter: str
    label: str
    meaning: str
    """The effect of Enter."""
    obstacle: str = ""
    """The reason why it cannot be chosen; empty if it can."""


_ALLOW_ONCE: Final = ApprovalOffer(
    ApprovalChoice.ONCE, "o", "once", "this call runs, with exactly these arguments"
)
_RULE_LIFETIMES: Final = {
    ApprovalChoice.SESSION: "in this session",
    ApprovalChoice.PROJECT: "for this folder until revoked",
    ApprovalChoice.USER: "for all folders until revoked",
}
"""The lifetime of the rule of each wider permission."""
_DENIALS: Final = (
    ApprovalOffer(
        ApprovalChoice.DENY, "d", "deny", "it does not run; the model is told so, and goes on"
    ),
    ApprovalOffer(ApprovalChoice.EXPLAIN, "r", "deny with reason", "asks what to tell the model"),
)


def offers_for_call(pending: PendingCall, undecided: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for one call; `undecided` is the number of calls without a decision."""
    obstacle = rule_obstacle(pending.request)
    rule = "" if obstacle or pending.request is None else _rule_text(pending.request)
    rule_offers = [
        ApprovalOffer(
            choice,
            choice[0],
            f"for {choice}",
            f"stores the rule {rule} · kept {lifetime}",
            obstacle,
        )
        for choice, lifetime in _RULE_LIFETIMES.items()
    ]
    all_offer = (
        ApprovalOffer(
            ApprovalChoice.ALL,
            "a",
            f"all {undecided} once",
            f"lists all {undecided} before any runs",
        ),
    )
    return (_ALLOW_ONCE, *rule_offers, *_DENIALS, *(all_offer if undecided > 1 else ()))


def _rule_text(request: ApprovalRequest) -> str:
    """Return the rule of a request as it would be stored, with its effect if it is wide."""
    preview = preview_rule(request.rule, request)
    return f"{request.rule}{'' if preview.is_narrow else f' ({preview.description})'}"


def offers_for_calls(count: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for a list of calls."""
    return (
        ApprovalOffer(
            ApprovalChoice.THESE,
            "y",
            f"allow these {count} once",
            f"these {count} calls run, once each",
        ),
        ApprovalOffer(ApprovalChoice.BACK, "n", "go back", "nothing is decided"),
    )


def rule_obstacle(request: ApprovalRequest | None) -> str:
    """Return why nothing wider than the call can be allowed; empty where it can."""
    if request is None:
        return _WAITING_REASON
    if not request.rule:
        return NO_RULE_REASON
    return "" if terminal_text(request.rule) == request.rule else _UNPRINTABLE_RULE


# -- rules -----------------------------------------------------------------------------------


class RulePreview(NamedTuple):
    """The effect of a rule that the user types."""

    rule: str | None
    """The stored form; None if the text is not a rule."""
    description: str
    is_narrow: bool = False
    """Whether it covers this call and similar ones, and no more."""


def preview_rule(text: str, request: ApprovalRequest) -> RulePreview:
    """Return the calls that a rule would cover, or the reason why the text is not a rule."""
    if not text.strip():
        return RulePreview(None, "rule: write which calls to allow, as in bash(git log *)")
    try:
        rule = PermissionRule.parse(text)
    except InvalidValue as exc:
        return RulePreview(None, terminal_line(str(exc)))
    is_narrow = False
    if not rule.covers_all(request.call.name, request.capability, request.subjects):
        description = "does not cover this call, which runs this once all the same"
    elif rule.covers_everything:
        description = f"covers every call of {rule.tool}, whatever it is about"
    else:
        description, is_narrow = "covers this call and its like", True
    return RulePreview(str(rule), description, is_narrow)


def stored_rule_notice(decision: ApprovalDecision) -> str:
    """Return the notice about a rule that outlasts the session; empty if there is none."""
    if decision.scope not in (GrantScope.PROJECT, GrantScope.USER):
        return ""
    lifetime = _RULE_LIFETIMES[ApprovalChoice(decision.scope)]
    return f"{decision.rule} is allowed {lifetime}; /permissions shows it"


def decision_from_text(
    choice: ApprovalChoice, text: str, request: ApprovalRequest | None, *, actor: str
) -> ApprovalDecision | None:
    """Return the decision of a typed rule or reason; None if the text makes none."""
    if choice is ApprovalChoice.EXPLAIN:
        reason = text.strip()
        return ApprovalDecision(allowed=False, actor=actor, reason=reason) if reason else None
    rule = None if request is None else preview_rule(text, request).rule
    if rule is None or choice not in SCOPE_BY_CHOICE:
        return None
    return ApprovalDecision(allowed=True, actor=actor, scope=SCOPE_BY_CHOICE[choice], rule=rule)


def decision_from_offer(
    choice: ApprovalChoice, request: ApprovalRequest | None, *, actor: str
) -> ApprovalDecision | None:
    """Return the decision that stores the rule of a request; None if a text must be typed first."""
    if request is None or choice not in SCOPE_BY_CHOICE:
        return None
    return decision_from_text(choice, request.rule, request, actor=actor)


def decide_calls(
    session: AgentSession, calls: Sequence[PendingCall], decision: ApprovalDecision
) -> list[str]:
    """Apply one decision to several calls; return the errors as text."""
    errors: list[str] = []
    # Waiting calls first: the run continues with the last answered request.
    for pending in sorted(calls, key=lambda pending: pending.request is not None):
        try:
            session.decide(pending.call.id, decision)
        except StenoError as exc:
            errors.append(terminal_line(str(exc)))
    return errors
