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

from steno.agent.events import ApprovalRequested, Notice, NoticeCode
from steno.agent.permissions.grants import (
    REVOKED,
    GrantSigner,
    Revocations,
    SessionGrants,
    SignText,
    build_grant_audit,
    build_revocation,
    build_revocation_audit,
    find_granted_rule,
)
from steno.agent.permissions.policy import (
    DENIED_PREFIX,
    DecisionKind,
    Permissions,
    build_denial_text,
)
from steno.agent.permissions.rules import PermissionRule, suggest_rule
from steno.agent.recorder import RunRecorder
from steno.errors import InvalidValue, Missing, ProtocolError, ProviderError, StenoError, ToolFailed
from steno.log.conversation import Conversation, arguments_digest
from steno.log.queries import entry_decision
from steno.messages.call import AnyToolCall, ToolCall
from steno.messages.message import AssistantMessage
from steno.ports import ApprovalDecision, ApprovalRequest, Approver, GrantScope, GrantStore, Tool
from steno.records.entry import Approval, ApprovalStatus, Entry, Mode
from steno.values import replace_lone_surrogates

# -- permission ------------------------------------------------------------------------------------
#
# Who may do what: a mode, a role, rules and grants decide about a call, or leave it to be asked.
#
# What nothing allows is asked about, and where nobody can be asked it is denied. Nothing here asks,
# runs or records anything; the record of a decision is read here, so that its form stands in one
# place.


def is_about_call(approval: Approval, call: AnyToolCall) -> bool:
    """Tell whether a decision is about this call with exactly these arguments."""
    return approval.call_id == call.id and approval.arguments_sha256 == arguments_digest(call)


NO_APPROVER: Final = "nobody can be asked"


_LASTING_SCOPES: Final = (GrantScope.PROJECT, GrantScope.USER)


class GateDecision(NamedTuple):
    """Whether a call may run; else what the model is told."""

    allowed: bool
    reason: str = ""
    subjects: tuple[str, ...] | None = None
    """What was decided about, where that was looked at."""


class PermissionGate(Protocol):
    """Whoever lets calls pass."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Tell whether a model should know of a tool in a mode."""
        ...

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a rule forbids something that a tool came across. From any thread."""
        ...

    async def decide(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
        """Return a ruling that is on record.

        Raises ToolFailed if the call cannot succeed, ToolFault if the tool stumbles over it.
        """
        ...

    async def admit(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
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
        grants: GrantStore | None = None,
        seal: SignText | None = None,
    ) -> None:
        """Take rules, and whom to ask."""
        self._permissions = permissions or Permissions()
        self._approver = approver
        self._grants = grants
        self._sign_text = seal
        self._reported_errors: set[str] = set()
        """What was told about grants that cannot be read."""
        self._input_grants: dict[str, list[PermissionRule]] = {}
        """What was allowed for what people point at, by conversation; it lasts as this gate does."""
        self._decisions = _SessionDecisions(GrantSigner(), Revocations())
        self._read_position: tuple[int, Entry | None] = (0, None)
        """How many entries were read into the memory, and the last of them."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Tell whether the tool could be allowed at all."""
        return self._permissions.find_mode_denial(tool, mode) is None

    def denies(self, tool: Tool, subject: str) -> bool:
        """Tell whether a deny rule covers what a tool came across."""
        return self._permissions.denies(tool, subject)

    async def decide(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
        """Decide, and ask if need be. Raises ToolFailed, ToolFault."""
        # However many calls a model writes in one turn, who wants to stop it is heard.
        await asyncio.sleep(0)
        conversation = notebook.conversation
        memory = self._read_decisions(conversation)
        session, standing = memory.grants.rules, self._lasting_rules(notebook)
        with _as_tool_fault():
            decision = self._permissions.decide(
                tool, call, mode=conversation.mode, session=session, standing=standing
            )
        if decision.kind is DecisionKind.DENY:
            return _record_denial(call, notebook, rule=decision.rule, reason=decision.reason)
        if (approval := memory.earlier_decision(call)) is not None:
            return _repeat_decision(approval, decision.subjects, notebook)
        if decision.kind is DecisionKind.ALLOW:
            notebook.record_decision(call.id, ApprovalStatus.APPROVED, rule=decision.rule)
            return GateDecision(True, subjects=decision.subjects)
        if self._approver is None:
            reason = f"{DENIED_PREFIX}: this has to be approved, and {NO_APPROVER}"
            return _record_denial(call, notebook, rule=NO_APPROVER, reason=reason)
        with _as_tool_fault():
            question = await _build_approval_request(tool, call, decision.subjects)
        return await self._ask(tool, question, notebook, self._approver)

    async def admit(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
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
            return GateDecision(True, decision.rule)
        if decision.kind is DecisionKind.DENY:
            return GateDecision(
                False, f"{DENIED_PREFIX} ({decision.rule})"
            )  # a person reads this, and no model
        question = await _build_approval_request(tool, call, decision.subjects)
        if self._approver is None:
            how = f"; the rule {question.rule} would allow it" if question.rule else ""
            return GateDecision(
                False, f"{DENIED_PREFIX}: this has to be approved, and {NO_APPROVER}{how}"
            )
        notebook.emit(ApprovalRequested(question))
        verdict = await self._approver.ask(question)
        if not verdict.allowed:
            why = f": {verdict.reason}" if verdict.reason else ""
            return GateDecision(False, f"{DENIED_PREFIX} by {verdict.actor}{why}")
        grant, scope = self._granted_rule(verdict, question, notebook)
        if grant is not None:
            if (
                scope is GrantScope.SESSION
            ):  # what reaches further stands where it can be taken back
                self._input_grants.setdefault(conversation.id, []).append(grant)
            self._store_grant(grant, scope, notebook)
        return GateDecision(True, verdict.actor)

    def session_rules(self, conversation: Conversation) -> tuple[PermissionRule, ...]:
        """Return what is allowed for a session: by its record, and for what people point at."""
        admitted = self._input_grants.get(conversation.id, ())
        return tuple(dict.fromkeys((*self._read_decisions(conversation).grants.rules, *admitted)))

    def revoke(
        self, rule: PermissionRule, conversation: Conversation, *, actor: str
    ) -> list[Entry]:
        """Allow a rule no longer for a session, on none of its branches: it is asked about again.

        Return what is on record of that, one entry for every grant of the rule. There is none of
        what was allowed for what people point at: that is forgotten. Raises LogError if it cannot
        be recorded.
        """
        admitted = self._input_grants.get(conversation.id, [])
        admitted[:] = [one for one in admitted if one != rule]
        revocations, signet = Revocations(), GrantSigner(conversation.id, self._sign_text)
        everywhere = SessionGrants(
            revocations.read(conversation), signet=signet, revocations=revocations
        )
        return [
            conversation.append(
                build_revocation(rule, granted_in),
                decision=REVOKED,
                audit=build_revocation_audit(rule, actor),
            )
            for granted_in in everywhere.granting_entries(rule)
        ]

    async def _ask(
        self, tool: Tool, question: ApprovalRequest, notebook: RunRecorder, approver: Approver
    ) -> GateDecision:
        call = question.call
        notebook.record_decision(call.id, ApprovalStatus.PENDING)
        notebook.emit(ApprovalRequested(question))
        verdict = await _ask_approver(approver, question, notebook)
        if not verdict.allowed:
            notebook.record_decision(
                call.id, ApprovalStatus.DENIED, actor=verdict.actor, reason=verdict.reason
            )
            return GateDecision(False, build_denial_text(verdict))
        # While somebody thought about it, the mode may have become one that allows nothing of it.
        limit = self._permissions.find_mode_denial(tool, notebook.conversation.mode)
        if limit is not None:
            return _record_denial(call, notebook, rule=limit.rule, reason=limit.reason)
        grant, scope = self._granted_rule(verdict, question, notebook)
        audit, status = None, ApprovalStatus.APPROVED
        if grant is not None:
            signet = GrantSigner(notebook.conversation.id, self._sign_text)
            audit = signet.sign_audit(build_grant_audit(grant, scope), call, status)
        notebook.record_decision(
            call.id, status, actor=verdict.actor, reason=verdict.reason, audit=audit
        )
        if grant is not None:
            self._store_grant(grant, scope, notebook)
        return GateDecision(True, subjects=question.subjects)

    def _store_grant(self, grant: PermissionRule, scope: GrantScope, notebook: RunRecorder) -> None:
        """Keep what is allowed for longer than a session."""
        if self._grants is None or scope not in _LASTING_SCOPES:
            return
        try:
            self._grants.add(str(grant), scope)
        except StenoError as exc:
            notebook.emit(
                _permission_notice(f"{grant}: allowed now, but not kept: {exc}", "grant_not_kept")
            )

    def _granted_rule(
        self, verdict: ApprovalDecision, question: ApprovalRequest, notebook: RunRecorder
    ) -> tuple[PermissionRule | None, GrantScope]:
        """Return what a verdict allows beyond this call, and how far that reaches here."""
        scope = verdict.scope
        if scope in _LASTING_SCOPES and self._grants is None:
            scope = GrantScope.SESSION  # there is no place for what lasts longer
        try:
            grant = find_granted_rule(verdict, question)
        except InvalidValue as exc:
            notebook.emit(_permission_notice(f"allowed once: {exc}", "rule_invalid"))
            return None, GrantScope.ONCE
        if grant is None and scope is not GrantScope.ONCE:
            notebook.emit(
                _permission_notice(
                    "allowed once: no rule would cover only calls like this one", "no_rule_fits"
                )
            )
        return grant, scope

    def _lasting_rules(self, notebook: RunRecorder) -> tuple[PermissionRule, ...]:
        """Return what is allowed for longer than a session; what cannot be read allows nothing."""
        if self._grants is None:
            return ()
        try:
            return tuple(map(PermissionRule.parse, self._grants.rules()))
        except StenoError as exc:
            if str(exc) not in self._reported_errors:
                self._reported_errors.add(str(exc))
                notebook.emit(
                    _permission_notice(f"nothing is allowed for good: {exc}", "grants_unreadable")
                )
            return ()

    def _read_decisions(self, conversation: Conversation) -> _SessionDecisions:
        """Return what the log of a session says; what is new in it is read, and no more.

        After a rewind, or in another branch, it is read anew: what is not there does not count,
        but for what was taken back. Raises LogError if that cannot be read.
        """
        entries, signet = conversation.entries_view(), GrantSigner(conversation.id, self._sign_text)
        count, last = self._read_position
        memory = self._decisions
        if memory.grants.signer != signet:
            memory, count = _SessionDecisions(signet, Revocations()), 0
        elif count > len(entries) or (count and entries[count - 1] is not last):
            memory, count = _SessionDecisions(signet, memory.grants.revocations), 0
        for entry in entries[count:]:
            memory.add(entry)
        self._decisions, self._read_position = (
            memory,
            (len(entries), entries[-1] if entries else None),
        )
        if memory.grants.has_grants:  # else the other branches need not be read
            memory.grants.revocations.read(conversation)
        return memory


@final
class _SessionDecisions:
    """What a log says was decided: rules for the session, and about the calls of the last turn."""

    def __init__(self, signet: GrantSigner, revocations: Revocations) -> None:
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
        if not is_about_call(entry.payload, call):
            return None
        is_no = entry.payload.status is ApprovalStatus.DENIED
        is_yes = is_deferred(entry) and self.grants.signer.has_valid_signature(entry)
        return entry.payload if is_no or is_yes else None


async def _build_approval_request(
    tool: Tool, call: ToolCall, subjects: tuple[str, ...]
) -> ApprovalRequest:
    return ApprovalRequest(
        call=call,
        capability=tool.capability,
        subjects=subjects,
        preview=replace_lone_surrogates(await tool.preview(call)),
        rule=suggest_rule(tool.definition.name, tool.capability, subjects),
    )


async def _ask_approver(
    approver: Approver, question: ApprovalRequest, notebook: RunRecorder
) -> ApprovalDecision:
    """Ask. An approver that fails has not allowed anything, and that is on record.

    Raises what it raised, unless that would be taken for the word of a tool or a provider.
    """
    try:
        return await approver.ask(question)
    except Exception as exc:
        reason = f"the approver failed: {type(exc).__name__}"
        notebook.record_decision(
            question.call.id, ApprovalStatus.DENIED, actor="approver", reason=reason
        )
        if isinstance(exc, ToolFailed | ProviderError | ProtocolError):
            raise StenoError(f"approver: {exc}") from exc
        raise


def _permission_notice(text: str, reason: str) -> Notice:
    return Notice(NoticeCode.PERMISSION, text, reason)


@contextmanager
def _as_tool_fault() -> Generator[None]:
    try:
        yield
    except ToolFailed:
        raise
    except Exception as exc:
        raise ToolFault(exc) from exc


def _record_denial(
    call: ToolCall, notebook: RunRecorder, *, rule: str, reason: str
) -> GateDecision:
    notebook.record_decision(call.id, ApprovalStatus.DENIED, rule=rule, reason=reason)
    return GateDecision(False, reason)


# -- what was decided before -----------------------------------------------------------------------


def last_decision(entries: Sequence[Entry], call: AnyToolCall) -> Entry | None:
    """Return the last decision about a call of the last turn, with exactly these arguments."""
    for entry in reversed(entries):
        payload = entry.payload
        if isinstance(payload, AssistantMessage):
            return None
        if isinstance(payload, Approval) and payload.call_id == call.id:
            return entry if is_about_call(payload, call) else None
    return None


def is_deferred(entry: Entry) -> bool:
    """Tell whether a decision was taken while nothing ran: what it allows has not begun."""
    return entry.audit is not None and entry.audit.get("deferred") is True


def _repeat_decision(
    approval: Approval, subjects: tuple[str, ...], notebook: RunRecorder
) -> GateDecision:
    """Record a decision once more, now that it is acted on: who dies behind this may have run it."""
    actor, rule, reason = approval.actor, approval.rule, approval.reason
    notebook.record_decision(
        approval.call_id, approval.status, actor=actor, rule=rule, reason=reason
    )
    if approval.status is ApprovalStatus.APPROVED:
        return GateDecision(True, subjects=subjects)
    told = reason or f"{actor or 'somebody'} said no"
    return GateDecision(
        False, told if told.startswith(DENIED_PREFIX) else f"{DENIED_PREFIX}: {told}"
    )


# -- interrupted -----------------------------------------------------------------------------------
#
# Answer the calls that an earlier run left behind, because it was killed or lost its power.
#
# What was not decided about is decided about now, and what was decided meanwhile holds. What had
# been approved when it was left may have been run, in part or to its end, and nobody knows: only
# what reads is run again.


_DEFERRED_AUDIT: Final = {"deferred": True}
"""Beside a decision that was taken while nothing ran: what it allows has not begun."""


def decide_later(
    conversation: Conversation,
    call_id: str,
    *,
    allowed: bool,
    actor: str,
    reason: str | None = None,
    seal: SignText | None = None,
) -> Entry:
    """Decide about a call that waits for it; the next run acts on the decision.

    `seal` is that of the gate which is to act on it, if it has one. Raises Missing if no call of
    the active branch awaits a decision under this id.
    """
    if call_id not in conversation.outstanding:
        raise Missing("approval: no call of this id awaits a decision")
    call = conversation.outstanding_call(call_id)
    decided = last_decision(conversation.entries_view(), call)
    if decided is not None and entry_decision(decided) != ApprovalStatus.PENDING:
        raise Missing("approval: it is decided about, and what was allowed may have run")
    status = ApprovalStatus.APPROVED if allowed else ApprovalStatus.DENIED
    audit = GrantSigner(conversation.id, seal).sign_audit(_DEFERRED_AUDIT, call, status)
    return conversation.decide(call_id, status, actor=actor, reason=reason, audit=audit)
