"""Decide about one call, and put the decision on record before anything happens.

What rules do not decide is asked; while the answer is awaited the call is on record as pending,
so that a program that dies here finds the question again. A decision is bound to the exact
arguments: a call is immutable, and the record holds their digest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, final

from steno.agent.events import Asked, Notice, NoticeCode
from steno.agent.notebook import Notebook
from steno.agent.permission import (
    DENIED,
    DecisionKind,
    Permissions,
    Seal,
    SessionGrants,
    Signet,
    audit_of,
    granted_by,
    is_bound,
    refusal_of,
)
from steno.agent.revoking import REVOKED, Revocations, audit_of_revocation, revocation_of
from steno.agent.rules import Rule, suggest
from steno.call import AnyToolCall, ToolCall
from steno.conversation import Conversation
from steno.entry import Approval, ApprovalStatus, Entry, Mode
from steno.errors import InvalidValue, ProtocolError, ProviderError, StenoError, ToolFailed
from steno.message import AssistantMessage
from steno.ports import Approver, Grants, Question, Scope, Tool, Verdict
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

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a rule forbids something that a tool came across. From any thread."""
        ...

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Return a ruling that is on record.

        Raises ToolFailed if the call cannot succeed, ToolFault if the tool stumbles over it.
        """
        ...

    async def admit(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Decide about something that a person points at, as if a tool opened it.

        The reason says what allows it, too. Nothing is on record: what comes of it will be.
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
    for longer than a session. With a `seal`, what the record of a session says was allowed counts
    only if it bears it: give one wherever sessions may come from somebody else.
    """

    def __init__(
        self,
        permissions: Permissions | None = None,
        approver: Approver | None = None,
        *,
        grants: Grants | None = None,
        seal: Seal | None = None,
    ) -> None:
        """Take rules, and whom to ask."""
        self._permissions = permissions or Permissions()
        self._approver = approver
        self._grants = grants
        self._sign_text = seal
        self._reported_errors: set[str] = set()
        """What was told about grants that cannot be read."""
        self._input_grants: dict[str, list[Rule]] = {}
        """What was allowed for what people point at, by conversation; it lasts as this gate does."""
        self._decisions = _Memory(Signet(), Revocations())
        self._read_position: tuple[int, Entry | None] = (0, None)
        """How many entries were read into the memory, and the last of them."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Tell whether the tool could be allowed at all."""
        return self._permissions.find_mode_denial(tool, mode) is None

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a deny rule covers what a tool came across."""
        return self._permissions.denies(tool, subject)

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Decide, and ask if need be. Raises ToolFailed, ToolFault."""
        # However many calls a model writes in one turn, who wants to stop it is heard.
        await asyncio.sleep(0)
        conversation = notebook.conversation
        memory = self._read_decisions(conversation)
        session, standing = memory.grants.rules, self._lasting_rules(notebook)
        with _blamed_on_tool():
            decision = self._permissions.decide(
                tool, call, mode=conversation.mode, session=session, standing=standing
            )
        if decision.kind is DecisionKind.DENY:
            return _denied(call, notebook, rule=decision.rule, reason=decision.reason)
        if (approval := memory.earlier_decision(call)) is not None:
            return _repeat(approval, decision.subjects, notebook)
        if decision.kind is DecisionKind.ALLOW:
            notebook.record_decision(call.id, ApprovalStatus.APPROVED, rule=decision.rule)
            return Ruling(True, subjects=decision.subjects)
        if self._approver is None:
            reason = f"{DENIED}: this has to be approved, and {NOBODY}"
            return _denied(call, notebook, rule=NOBODY, reason=reason)
        with _blamed_on_tool():
            question = await _question(tool, call, decision.subjects)
        return await self._ask(tool, question, notebook, self._approver)

    async def admit(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        """Decide about what a person points at: by rules, or by asking."""
        conversation = notebook.conversation
        decision = self._permissions.decide(
            tool,
            call,
            mode=conversation.mode,
            session=self.session_rules(conversation),
            standing=self._lasting_rules(notebook),
        )
        if decision.kind is DecisionKind.ALLOW:
            return Ruling(True, decision.rule)
        if decision.kind is DecisionKind.DENY:
            return Ruling(False, f"{DENIED} ({decision.rule})")  # a person reads this, and no model
        question = await _question(tool, call, decision.subjects)
        if self._approver is None:
            how = f"; the rule {question.rule} would allow it" if question.rule else ""
            return Ruling(False, f"{DENIED}: this has to be approved, and {NOBODY}{how}")
        notebook.emit(Asked(question))
        verdict = await self._approver.ask(question)
        if not verdict.allowed:
            why = f": {verdict.reason}" if verdict.reason else ""
            return Ruling(False, f"{DENIED} by {verdict.actor}{why}")
        grant, scope = self._granted_rule(verdict, question, notebook)
        if grant is not None:
            if scope is Scope.SESSION:  # what reaches further stands where it can be taken back
                self._input_grants.setdefault(conversation.id, []).append(grant)
            self._store_grant(grant, scope, notebook)
        return Ruling(True, verdict.actor)

    def session_rules(self, conversation: Conversation) -> tuple[Rule, ...]:
        """Return what is allowed for a session: by its record, and for what people point at."""
        admitted = self._input_grants.get(conversation.id, ())
        return tuple(dict.fromkeys((*self._read_decisions(conversation).grants.rules, *admitted)))

    def revoke(self, rule: Rule, conversation: Conversation, *, actor: str) -> list[Entry]:
        """Allow a rule no longer for a session, on none of its branches: it is asked about again.

        Return what is on record of that, one entry for every grant of the rule. There is none of
        what was allowed for what people point at: that is forgotten. Raises LogError if it cannot
        be recorded.
        """
        admitted = self._input_grants.get(conversation.id, [])
        admitted[:] = [one for one in admitted if one != rule]
        revocations, signet = Revocations(), Signet(conversation.id, self._sign_text)
        everywhere = SessionGrants(
            revocations.read(conversation), signet=signet, revocations=revocations
        )
        return [
            conversation.append(
                revocation_of(rule, granted_in),
                decision=REVOKED,
                audit=audit_of_revocation(rule, actor),
            )
            for granted_in in everywhere.granting_entries(rule)
        ]

    async def _ask(
        self, tool: Tool, question: Question, notebook: Notebook, approver: Approver
    ) -> Ruling:
        call = question.call
        notebook.record_decision(call.id, ApprovalStatus.PENDING)
        notebook.emit(Asked(question))
        verdict = await _verdict(approver, question, notebook)
        if not verdict.allowed:
            notebook.record_decision(
                call.id, ApprovalStatus.DENIED, actor=verdict.actor, reason=verdict.reason
            )
            return Ruling(False, refusal_of(verdict))
        # While somebody thought about it, the mode may have become one that allows nothing of it.
        limit = self._permissions.find_mode_denial(tool, notebook.conversation.mode)
        if limit is not None:
            return _denied(call, notebook, rule=limit.rule, reason=limit.reason)
        grant, scope = self._granted_rule(verdict, question, notebook)
        audit, status = None, ApprovalStatus.APPROVED
        if grant is not None:
            signet = Signet(notebook.conversation.id, self._sign_text)
            audit = signet.sign_audit(audit_of(grant, scope), call, status)
        notebook.record_decision(call.id, status, actor=verdict.actor, reason=verdict.reason, audit=audit)
        if grant is not None:
            self._store_grant(grant, scope, notebook)
        return Ruling(True, subjects=question.subjects)

    def _store_grant(self, grant: Rule, scope: Scope, notebook: Notebook) -> None:
        """Keep what is allowed for longer than a session."""
        if self._grants is None or scope not in _STANDING:
            return
        try:
            self._grants.add(str(grant), scope)
        except StenoError as exc:
            notebook.emit(_notice(f"{grant}: allowed now, but not kept: {exc}"))

    def _granted_rule(
        self, verdict: Verdict, question: Question, notebook: Notebook
    ) -> tuple[Rule | None, Scope]:
        """Return what a verdict allows beyond this call, and how far that reaches here."""
        scope = verdict.scope
        if scope in _STANDING and self._grants is None:
            scope = Scope.SESSION  # there is no place for what lasts longer
        try:
            grant = granted_by(verdict, question)
        except InvalidValue as exc:
            notebook.emit(_notice(f"allowed once: {exc}"))
            return None, Scope.ONCE
        if grant is None and scope is not Scope.ONCE:
            notebook.emit(_notice("allowed once: no rule would cover only calls like this one"))
        return grant, scope

    def _lasting_rules(self, notebook: Notebook) -> tuple[Rule, ...]:
        """Return what is allowed for longer than a session; what cannot be read allows nothing."""
        if self._grants is None:
            return ()
        try:
            return tuple(map(Rule.parse, self._grants.rules()))
        except StenoError as exc:
            if str(exc) not in self._reported_errors:
                self._reported_errors.add(str(exc))
                notebook.emit(_notice(f"nothing is allowed for good: {exc}"))
            return ()

    def _read_decisions(self, conversation: Conversation) -> _Memory:
        """Return what the log of a session says; what is new in it is read, and no more.

        After a rewind, or in another branch, it is read anew: what is not there does not count,
        but for what was taken back. Raises LogError if that cannot be read.
        """
        entries, signet = conversation.entries_view(), Signet(conversation.id, self._sign_text)
        count, last = self._read_position
        memory = self._decisions
        if memory.grants.signer != signet:
            memory, count = _Memory(signet, Revocations()), 0
        elif count > len(entries) or (count and entries[count - 1] is not last):
            memory, count = _Memory(signet, memory.grants.revocations), 0
        for entry in entries[count:]:
            memory.add(entry)
        self._decisions, self._read_position = memory, (len(entries), entries[-1] if entries else None)
        if memory.grants.has_grants:  # else the other branches need not be read
            memory.grants.revocations.read(conversation)
        return memory


@final
class _Memory:
    """What a log says was decided: rules for the session, and about the calls of the last turn."""

    def __init__(self, signet: Signet, revocations: Revocations) -> None:
        self.grants: Final = SessionGrants(signet=signet, revocations=revocations)
        self._decisions: dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Take note of an entry."""
        self.grants.add(entry)
        if isinstance(entry.payload, AssistantMessage):
            self._decisions.clear()
        elif isinstance(entry.payload, Approval):
            self._decisions[entry.payload.call_id] = entry

    def earlier_decision(self, call: ToolCall) -> Approval | None:
        """Return what was decided about a call and holds: a no, or a yes of ours for later."""
        entry = self._decisions.get(call.id)
        if entry is None or not isinstance(entry.payload, Approval):
            return None
        if not is_bound(entry.payload, call):
            return None
        is_no = entry.payload.status is ApprovalStatus.DENIED
        is_yes = is_deferred(entry) and self.grants.signer.has_valid_signature(entry)
        return entry.payload if is_no or is_yes else None


async def _question(tool: Tool, call: ToolCall, subjects: tuple[str, ...]) -> Question:
    return Question(
        call=call,
        capability=tool.capability,
        subjects=subjects,
        preview=replace_lone_surrogates(await tool.preview(call)),
        rule=suggest(tool.definition.name, tool.capability, subjects),
    )


async def _verdict(approver: Approver, question: Question, notebook: Notebook) -> Verdict:
    """Ask. An approver that fails has not allowed anything, and that is on record.

    Raises what it raised, unless that would be taken for the word of a tool or a provider.
    """
    try:
        return await approver.ask(question)
    except Exception as exc:
        reason = f"the approver failed: {type(exc).__name__}"
        notebook.record_decision(question.call.id, ApprovalStatus.DENIED, actor="approver", reason=reason)
        if isinstance(exc, ToolFailed | ProviderError | ProtocolError):
            raise StenoError(f"approver: {exc}") from exc
        raise


def _notice(text: str) -> Notice:
    return Notice(NoticeCode.PERMISSION, text)


@contextmanager
def _blamed_on_tool() -> Generator[None]:
    try:
        yield
    except ToolFailed:
        raise
    except Exception as exc:
        raise ToolFault(exc) from exc


def _denied(call: ToolCall, notebook: Notebook, *, rule: str, reason: str) -> Ruling:
    notebook.record_decision(call.id, ApprovalStatus.DENIED, rule=rule, reason=reason)
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


def _repeat(approval: Approval, subjects: tuple[str, ...], notebook: Notebook) -> Ruling:
    """Record a decision once more, now that it is acted on: who dies behind this may have run it."""
    actor, rule, reason = approval.actor, approval.rule, approval.reason
    notebook.record_decision(approval.call_id, approval.status, actor=actor, rule=rule, reason=reason)
    if approval.status is ApprovalStatus.APPROVED:
        return Ruling(True, subjects=subjects)
    told = reason or f"{actor or 'somebody'} said no"
    return Ruling(False, told if told.startswith(DENIED) else f"{DENIED}: {told}")
