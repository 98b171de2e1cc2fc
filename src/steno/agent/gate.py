"""Decide about one call, and put the decision on record before anything happens.

What rules do not decide is asked; while the answer is awaited the call is on record as pending,
so that a program that dies here finds the question again. A decision is bound to the exact
arguments: a call is immutable, and the record holds their digest.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, final

from steno.agent.events import Asked
from steno.agent.notebook import Notebook
from steno.agent.permission import (
    DENIED,
    DecisionKind,
    Permissions,
    SessionGrants,
    audit_of,
    granted_by,
    is_bound,
    refusal_of,
)
from steno.agent.rules import Rule, suggest
from steno.call import AnyToolCall, ToolCall
from steno.entry import Approval, ApprovalStatus, Entry, Mode
from steno.errors import StenoError, ToolFailed
from steno.message import AssistantMessage
from steno.ports import Approver, Grants, Question, Scope, Tool
from steno.value import replace_lone_surrogates

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
        """Return a ruling that is on record.

        Raises ToolFailed if the call cannot succeed, ToolFault if the tool stumbles over it.
        """
        ...


class ToolFault(StenoError):
    """A tool stumbled over a call before anybody could decide about it."""

    def __init__(self, fault: Exception) -> None:
        """Take what it raised."""
        super().__init__("tool: it has a fault")
        self.fault = fault


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
        """Decide, and ask if need be. Raises ToolFailed, ToolFault."""
        conversation = notebook.conversation
        entries = conversation.entries()
        session, standing = self._session_rules(entries), self._standing_rules()
        with _blamed_on_tool():
            decision = self._permissions.decide(
                tool, call, mode=conversation.mode, session=session, standing=standing
            )
        if decision.kind is DecisionKind.DENY:
            return _denied(call, notebook, rule=decision.rule, reason=decision.reason)
        if (approval := _decided_before(entries, call)) is not None:
            return _repeat(approval, decision.subjects, notebook)
        if decision.kind is DecisionKind.ALLOW:
            notebook.decide(call.id, ApprovalStatus.APPROVED, rule=decision.rule)
            return Ruling(True, subjects=decision.subjects)
        if self._approver is None:
            reason = f"{DENIED}: this has to be approved, and {NOBODY}"
            return _denied(call, notebook, rule=NOBODY, reason=reason)
        with _blamed_on_tool():
            question = await _question(tool, call, decision.subjects)
        return await self._ask(question, notebook, self._approver)

    async def _ask(self, question: Question, notebook: Notebook, approver: Approver) -> Ruling:
        call = question.call
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
        return Ruling(True, subjects=question.subjects)

    def _standing_rules(self) -> tuple[Rule, ...]:
        return () if self._grants is None else tuple(map(Rule.parse, self._grants.rules()))

    def _session_rules(self, entries: Sequence[Entry]) -> tuple[Rule, ...]:
        """Return what was granted in this session; what is new in the log is read, and no more.

        After a rewind, or in another branch, it is read anew: what is not there does not count.
        """
        count, last = self._read
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._session, count = SessionGrants(), 0
        for entry in entries[count:]:
            self._session.add(entry)
        self._read = (len(entries), entries[-1] if entries else None)
        return self._session.rules


async def _question(tool: Tool, call: ToolCall, subjects: tuple[str, ...]) -> Question:
    return Question(
        call=call,
        capability=tool.capability,
        subjects=subjects,
        preview=replace_lone_surrogates(await tool.preview(call)),
        rule=suggest(tool.definition.name, tool.capability, subjects),
    )


@contextmanager
def _blamed_on_tool() -> Generator[None]:
    try:
        yield
    except ToolFailed:
        raise
    except Exception as exc:
        raise ToolFault(exc) from exc


def _denied(call: ToolCall, notebook: Notebook, *, rule: str, reason: str) -> Ruling:
    notebook.decide(call.id, ApprovalStatus.DENIED, rule=rule, reason=reason)
    return Ruling(False, reason)


# -- what was decided before -----------------------------------------------------------------------


def last_decision(entries: Sequence[Entry], call: AnyToolCall) -> Entry | None:
    """Return the last decision about a call of the last turn, with exactly these arguments."""
    for entry in reversed(entries):
        payload = entry.payload
        if isinstance(payload, AssistantMessage):
            return None
        if isinstance(payload, Approval) and payload.call_id == call.id:
            return entry if is_bound(payload, call) else None
    return None


def is_deferred(entry: Entry) -> bool:
    """Tell whether a decision was taken while nothing ran: what it allows has not begun."""
    return entry.audit is not None and entry.audit.get("deferred") is True


def _decided_before(entries: Sequence[Entry], call: ToolCall) -> Approval | None:
    """Return what was decided about a call and holds: a no, or a yes that waits to be acted on."""
    entry = last_decision(entries, call)
    if entry is None or not isinstance(entry.payload, Approval):
        return None
    is_no = entry.payload.status is ApprovalStatus.DENIED
    return entry.payload if is_no or is_deferred(entry) else None


def _repeat(approval: Approval, subjects: tuple[str, ...], notebook: Notebook) -> Ruling:
    """Record a decision once more, now that it is acted on: who dies behind this may have run it."""
    actor, rule, reason = approval.actor, approval.rule, approval.reason
    notebook.decide(approval.call_id, approval.status, actor=actor, rule=rule, reason=reason)
    if approval.status is ApprovalStatus.APPROVED:
        return Ruling(True, subjects=subjects)
    told = reason or f"{actor or 'somebody'} said no"
    return Ruling(False, told if told.startswith(DENIED) else f"{DENIED}: {told}")
