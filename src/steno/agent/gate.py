"""Decide about one call, and put the decision on record before anything happens.

What rules do not decide is asked; while the answer is awaited the call is on record as pending,
so that a program that dies here finds the question again. A decision is bound to the exact
arguments: a call is immutable, and the record holds their digest.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, final

from steno.agent.events import Asked
from steno.agent.notebook import Notebook
from steno.agent.permission import (
    DENIED,
    Decision,
    DecisionKind,
    Permissions,
    SessionGrants,
    audit_of,
    granted_by,
    refusal_of,
)
from steno.agent.rules import Rule, suggest
from steno.call import ToolCall
from steno.entry import ApprovalStatus, Entry, Mode
from steno.ports import Approver, Grants, Question, Scope, Tool

NOBODY: Final = "nobody can be asked"
_STANDING: Final = (Scope.PROJECT, Scope.USER)


class Ruling(NamedTuple):
    """Whether a call may run; else what the model is told."""

    allowed: bool
    reason: str = ""
    subjects: tuple[str, ...] | None = None
    """What was decided about, where that was looked at."""


class Decides(Protocol):
    """Whoever lets calls pass."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Tell whether a model should know of a tool in a mode."""
        ...

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Return a ruling that is on record. Raises ToolFailed if the call cannot succeed."""
        ...


@final
class Gate:
    """Lets calls pass by rules, grants and verdicts.

    Without an approver, what would have to be asked is denied. `grants` holds what was allowed
    for longer than a session.
    """

    def __init__(
        self,
        permissions: Permissions | None = None,
        approver: Approver | None = None,
        *,
        grants: Grants | None = None,
    ) -> None:
        """Take rules, and whom to ask."""
        self._permissions = permissions or Permissions()
        self._approver = approver
        self._grants = grants
        self._session = SessionGrants()
        self._read: tuple[int, Entry | None] = (0, None)
        """How many entries were read for the grants of the session, and the last of them."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Tell whether the tool could be allowed at all."""
        return self._permissions.limit(tool, mode) is None

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Decide, and ask if need be. Raises ToolFailed if the call cannot succeed."""
        decision = self._permissions.decide(
            tool,
            call,
            mode=notebook.conversation.mode,
            session=self._session_rules(notebook),
            standing=() if self._grants is None else tuple(map(Rule.parse, self._grants.rules())),
        )
        if decision.kind is DecisionKind.ALLOW:
            notebook.decide(call.id, ApprovalStatus.APPROVED, rule=decision.rule)
            return Ruling(True, subjects=decision.subjects)
        if decision.kind is DecisionKind.DENY or self._approver is None:
            return _denied(call, decision, notebook)
        return await self._ask(tool, call, decision, notebook, self._approver)

    async def _ask(
        self,
        tool: Tool,
        call: ToolCall,
        decision: Decision,
        notebook: Notebook,
        approver: Approver,
    ) -> Ruling:
        name = tool.definition.name
        question = Question(
            call=call,
            capability=tool.capability,
            subjects=decision.subjects,
            preview=await tool.preview(call),
            rule=suggest(name, tool.capability, decision.subjects),
        )
        notebook.decide(call.id, ApprovalStatus.PENDING)
        notebook.tell(Asked(question))
        verdict = await approver.ask(question)
        grant = granted_by(verdict, question)
        if not verdict.allowed:
            notebook.decide(
                call.id, ApprovalStatus.DENIED, actor=verdict.actor, reason=verdict.reason
            )
            return Ruling(False, refusal_of(verdict))
        notebook.decide(
            call.id,
            ApprovalStatus.APPROVED,
            actor=verdict.actor,
            reason=verdict.reason,
            audit=None if grant is None else audit_of(grant, verdict.scope),
        )
        if grant is not None and self._grants is not None and verdict.scope in _STANDING:
            self._grants.add(str(grant), verdict.scope)
        return Ruling(True, subjects=decision.subjects)

    def _session_rules(self, notebook: Notebook) -> tuple[Rule, ...]:
        """Return what was granted in this session; what is new in the log is read, and no more.

        After a rewind, or in another branch, it is read anew: what is not there does not count.
        """
        entries = notebook.conversation.entries()
        count, last = self._read
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._session, count = SessionGrants(), 0
        for entry in entries[count:]:
            self._session.add(entry)
        self._read = (len(entries), entries[-1] if entries else None)
        return self._session.rules


def _denied(call: ToolCall, decision: Decision, notebook: Notebook) -> Ruling:
    if decision.kind is DecisionKind.DENY:
        rule, reason = decision.rule, decision.reason
    else:
        rule, reason = NOBODY, f"{DENIED}: this has to be approved, and {NOBODY}"
    notebook.decide(call.id, ApprovalStatus.DENIED, rule=rule, reason=reason)
    return Ruling(False, reason)
