"""Decide whether a call may run, and record the decision before the call runs.

Rules and grants decide first; an approver decides about the remaining calls. A call is recorded as
pending before the approver is asked, so that the request survives a crash. A decision is bound to
the exact arguments: a call is immutable, and the log contains the digest of its arguments.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, final

from steno.agent.events import ApprovalRequested, Notice, NoticeKind
from steno.agent.permissions.access import (
    access_subject,
    find_network_access,
    may_ask_for,
    suggest_access_rule,
)
from steno.agent.permissions.grants import (
    REVOKED,
    GrantSigner,
    Revocations,
    SessionGrants,
    SignatureState,
    SignText,
    build_access_audit,
    build_grant_audit,
    find_granted_rule,
    last_decision,
)
from steno.agent.permissions.rules import (
    DENIED_PREFIX,
    AgentRole,
    DecisionKind,
    PermissionRule,
    Permissions,
    PolicyDecision,
    build_denial_text,
    mode_denial_rule,
    role_denial_rule,
    suggest_rule,
)
from steno.agent.recorder import RunRecorder
from steno.agent.results import ResultCode
from steno.bounded_text import truncate_middle
from steno.errors import (
    InvalidTool,
    InvalidValue,
    Missing,
    ProtocolError,
    ProviderError,
    StenoError,
    ToolFailed,
)
from steno.log.conversation import Conversation
from steno.log.queries import entry_decision
from steno.messages.call import AnyToolCall, ToolCall
from steno.ports import (
    AccessKind,
    ApprovalDecision,
    ApprovalRequest,
    Approver,
    CallPreview,
    Capability,
    GrantScope,
    GrantStore,
    PreviewPart,
    SandboxAccess,
    Subject,
    Tool,
    default_headline,
)
from steno.records.entry import Approval, ApprovalStatus, Entry, GrantRevoked, Mode

NO_APPROVER_RULE: Final = "no approver"
"""The rule to record for a call denied for lack of an approver. Never change the stored text."""
_OLD_NO_APPROVER_RULE: Final = "nobody can be asked"
"""The text of `NO_APPROVER_RULE` in sessions of older versions. Never change it."""
_CODE_BY_STORED_RULE: Final[Mapping[str, ResultCode]] = {
    NO_APPROVER_RULE: ResultCode.NO_APPROVER,
    _OLD_NO_APPROVER_RULE: ResultCode.NO_APPROVER,
    **{mode_denial_rule(mode): ResultCode.DENIED_BY_MODE for mode in Mode},
    **{role_denial_rule(role): ResultCode.DENIED_BY_ROLE for role in AgentRole},
}
"""The code of a recorded denial, by its `rule` field; any other rule is a deny rule."""
_NO_APPROVER_TEXT: Final = f"{DENIED_PREFIX}: the call needs approval, and there is no approver"
_DEFAULT_DENIAL: Final = (
    "the call needs approval, and no one can approve it now; "
    "do without it, or ask the user to allow it with a rule"
)
_OUTDATED_GRANTS: Final = (
    "grants of this session were dropped, because an older version of steno signed them without "
    "their time and place; allow them again when you are asked"
)
_UNSIGNED_GRANTS: Final = (
    "grants in this session do not count, because you did not sign them on this machine; allow "
    "them again when you are asked"
)
_MAX_LISTED: Final = 600
"""The maximum number of characters of the rules in a notice; a log may contain any number."""
_OWN_ACTOR: Final = "steno"
"""The actor of the revocations that steno itself records."""
_EVERYTHING: Final = SandboxAccess(AccessKind.EVERYTHING)
_LASTING_SCOPES: Final = (GrantScope.PROJECT, GrantScope.USER)
_DEFERRED_AUDIT: Final = {"deferred": True}
"""The audit of a decision that was made between runs, before the call could begin."""


class GateDecision(NamedTuple):
    """A decision whether a call may run, with the reason and the code of a denial."""

    allowed: bool
    reason: str = ""
    subjects: tuple[Subject, ...] | None = None
    """The subjects that the decision is based on; None if the gate did not check them."""
    code: ResultCode = ResultCode.DENIED
    """The code of the denial; meaningless if the call is allowed."""
    access: tuple[SandboxAccess, ...] = ()
    """The access beyond the sandbox that rules give to every call of the tool."""


class PermissionGate(Protocol):
    """Decides whether a tool call may run."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Return whether to offer a tool to the model in a mode."""
        ...

    def denies(self, tool: Tool, subject: str) -> bool:
        """Return whether a rule denies a subject that a running tool finds.

        Tools may call this method from any thread.
        """
        ...

    async def decide(self, tool: Tool, call: ToolCall, recorder: RunRecorder) -> GateDecision:
        """Decide about a call, record the decision and return it.

        Raises ToolFailed if the tool rejects the call, ToolFault if it raises another exception.
        """
        ...

    async def decide_access(
        self,
        tool: Tool,
        call: ToolCall,
        blocked: tuple[SandboxAccess, ...],
        recorder: RunRecorder,
    ) -> tuple[SandboxAccess, ...]:
        """Decide about access that a sandbox blocked while a call ran, and record the decision.

        Return the access to run the call again with; empty if it must not run again.
        """
        ...

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        """Decide about a reference of the user, as if a tool opened its target.

        Even if the reference is allowed, the reason names the rule or the approver. Only the
        resolution of the reference is recorded, not the decision.
        """
        ...


class ToolFault(StenoError):
    """An unexpected exception that a tool raised while the gate decided about its call."""

    code = "tool_fault"

    def __init__(self, fault: Exception) -> None:
        super().__init__("the tool raised an unexpected exception", place="tool")
        self.fault = fault


# -- the gate --------------------------------------------------------------------------------------


@final
class Gate:
    """Decides whether calls may run, by rules, grants and an approver.

    Without an approver, calls that need approval are denied. `grants` stores the rules that are
    granted for longer than a session.

    A log may come from other people. So a grant or a deferred approval in the log counts only if it
    has a valid signature of `sign_text`, or if this gate itself has recorded it. `trust_record`
    accepts all of them; use it only if no other program can write the logs.
    """

    def __init__(
        self,
        permissions: Permissions | None = None,
        approver: Approver | None = None,
        *,
        grants: GrantStore | None = None,
        sign_text: SignText | None = None,
        trust_record: bool = False,
    ) -> None:
        _check_arguments(permissions, approver, grants=grants, sign_text=sign_text)
        self._permissions = permissions or Permissions()
        self._approver = approver
        self._grants = grants
        self._sign_text = sign_text
        self._trust_record = trust_record
        self._own_texts: set[str] = set()
        """See `GrantSigner.own_texts`."""
        self._reported_grants: set[str] = set()
        """The ids of the entries whose grants were reported as not valid."""
        self._reported_errors: set[str] = set()
        """The error texts of the grant store that were already reported."""
        self._input_grants: dict[str, list[PermissionRule]] = {}
        """Rules granted for references, by conversation id; they last as long as this gate."""
        self._session_grants = SessionGrants()
        self._read_position: tuple[int, Entry | None] = (0, None)
        """The number of entries that `_session_grants` has read, and the last of them."""

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Return whether the mode and the role permit calls of a tool."""
        return self._permissions.find_mode_denial(tool, mode) is None

    def denies(self, tool: Tool, subject: str) -> bool:
        """Return whether a deny rule covers a subject that a running tool finds."""
        return self._permissions.denies(tool, subject)

    async def decide(self, tool: Tool, call: ToolCall, recorder: RunRecorder) -> GateDecision:
        """Decide by rules, grants and recorded decisions, or else ask the approver.

        Raises ToolFailed if the tool rejects the call, ToolFault if it raises another exception.
        """
        # A model may request many calls in one turn; an interrupt must take effect between them.
        await asyncio.sleep(0)
        conversation = recorder.conversation
        granted = self._read_grants(conversation)
        self._report_rejected(granted, recorder)
        rules = {"session_rules": granted.rules, "lasting_rules": self._lasting_rules(recorder)}
        with _as_tool_fault():
            policy = self._permissions.decide(tool, call, mode=conversation.mode, **rules)
        if policy.kind is DecisionKind.DENY:
            return _record_denial(call, recorder, policy.code, policy.rule, policy.reason)
        decision = await self._decide_by_record_or_approver(tool, call, policy, granted, recorder)
        if not decision.allowed or tool.capability is not Capability.EXECUTE:
            return decision
        allow = (*self._permissions.allow, *rules["session_rules"], *rules["lasting_rules"])
        access = find_network_access(allow, self._permissions.deny)
        return decision._replace(access=access)

    async def _decide_by_record_or_approver(
        self,
        tool: Tool,
        call: ToolCall,
        policy: PolicyDecision,
        granted: SessionGrants,
        recorder: RunRecorder,
    ) -> GateDecision:
        if (earlier := granted.earlier_decision(call)) is not None:
            return _repeat_decision(tool, earlier, policy.subjects, recorder, granted.signer)
        if policy.kind is DecisionKind.ALLOW:
            audit = granted.signer.sign_audit({}, tool=call.name)
            recorder.record_decision(
                call.id, ApprovalStatus.APPROVED, rule=policy.rule, audit=audit
            )
            return GateDecision(True, subjects=policy.subjects)
        if self._approver is None:
            return _record_denial(
                call, recorder, ResultCode.NO_APPROVER, NO_APPROVER_RULE, _NO_APPROVER_TEXT
            )
        with _as_tool_fault():
            request = await _build_approval_request(tool, call, policy)
        return await self._ask(tool, request, recorder, self._approver)

    async def decide_access(
        self,
        tool: Tool,
        call: ToolCall,
        blocked: tuple[SandboxAccess, ...],
        recorder: RunRecorder,
    ) -> tuple[SandboxAccess, ...]:
        """Ask the approver about access that a sandbox blocked, and record the decision.

        Without an approver, nothing is recorded and no access is given. The approver is not asked
        about an access that the mode, the role or a rule denies, and cannot give such an access:
        the mode may change while the question is open. No pending decision is recorded, because
        the call has run already.
        """
        is_possible = partial(self._may_give, tool, recorder.conversation)
        blocked = tuple(filter(is_possible, blocked))
        if self._approver is None or not blocked:
            return ()
        with _as_tool_fault():
            preview = await preview_call(tool, call)
        request = ApprovalRequest(
            call=call,
            capability=tool.capability,
            subjects=tuple([access_subject(each) for each in blocked]),
            headline=tool_headline(tool, call),
            preview=preview,
            rule=suggest_access_rule(blocked),
            access=blocked,
            may_run_unconfined=is_possible(_EVERYTHING),
        )
        recorder.emit(ApprovalRequested(request))
        signer = self._signer(recorder.conversation)
        decision = await _ask_approver(
            self._approver, request, recorder, signer, audit=build_access_audit(blocked)
        )
        named = decision.access if decision.allowed else ()
        granted = tuple(
            [each for each in named if each in (*blocked, _EVERYTHING) and is_possible(each)]
        )
        audit = build_access_audit(granted or blocked)
        status = ApprovalStatus.APPROVED if granted else ApprovalStatus.DENIED
        grant, scope = None, GrantScope.ONCE
        if granted and all(each.kind is AccessKind.NETWORK for each in granted):
            grant, scope = self._granted_rule(decision, request, recorder)
            if grant is not None:
                audit |= build_grant_audit(grant, scope)
        recorder.record_decision(
            call.id,
            status,
            actor=decision.actor,
            reason=decision.reason,
            audit=signer.sign_audit(audit, tool=call.name),
        )
        if grant is not None:
            self._store_grant(grant, scope, recorder)
        return granted

    def _may_give(self, tool: Tool, conversation: Conversation, access: SandboxAccess) -> bool:
        """Return whether an approver may give an access now."""
        folder: str | None = getattr(tool, "folder", None)
        return may_ask_for(access, self._permissions, conversation.mode, folder=folder)

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        """Decide about a reference by rules and grants, or else ask the approver.

        The reason in the returned decision is a text for the user.
        """
        conversation = recorder.conversation
        policy = self._permissions.decide(
            tool,
            call,
            mode=conversation.mode,
            session_rules=self.session_rules(conversation),
            lasting_rules=self._lasting_rules(recorder),
        )
        if policy.kind is DecisionKind.ALLOW:
            return GateDecision(True, policy.rule)
        if policy.kind is DecisionKind.DENY:
            return GateDecision(False, f"{DENIED_PREFIX} ({policy.rule})", code=policy.code)
        request = await _build_approval_request(tool, call, policy)
        if self._approver is None:
            hint = f"; the rule {request.rule} would allow it" if request.rule else ""
            return GateDecision(False, f"{_NO_APPROVER_TEXT}{hint}", code=ResultCode.NO_APPROVER)
        recorder.emit(ApprovalRequested(request))
        decision = await self._approver.ask(request)
        if not decision.allowed:
            reason = f": {decision.reason}" if decision.reason else ""
            text = f"{DENIED_PREFIX} by {decision.actor}{reason}"
            return GateDecision(False, text, code=ResultCode.DENIED_BY_APPROVER)
        grant, scope = self._granted_rule(decision, request, recorder)
        if grant is not None:
            if scope is GrantScope.SESSION:  # wider grants are in the grant store
                self._input_grants.setdefault(conversation.id, []).append(grant)
            self._store_grant(grant, scope, recorder)
        return GateDecision(True, decision.actor)

    def session_rules(self, conversation: Conversation) -> tuple[PermissionRule, ...]:
        """Return the rules granted for a session: those in its log, and those for references."""
        input_rules = self._input_grants.get(conversation.id, ())
        return tuple(dict.fromkeys((*self._read_grants(conversation).rules, *input_rules)))

    def revoke(
        self, rule: PermissionRule, conversation: Conversation, *, actor: str
    ) -> list[Entry]:
        """Revoke a rule on all branches of a session, so that its calls need approval again.

        Return the new entries, one for each grant of the rule. A grant for references has no entry
        and is only removed from memory. Raises LogError if an entry cannot be recorded.
        """
        input_rules = self._input_grants.get(conversation.id, [])
        input_rules[:] = [granted for granted in input_rules if granted != rule]
        revocations, signer = Revocations(), self._signer(conversation)
        all_grants = SessionGrants(
            revocations.read(conversation), signer=signer, revocations=revocations
        )
        return [
            conversation.append(
                GrantRevoked(grant=str(rule), target=granted_in),
                decision=REVOKED,
                audit={"actor": actor, "scope": str(GrantScope.SESSION)},
            )
            for granted_in in all_grants.granting_entries(rule)
        ]

    async def _ask(
        self, tool: Tool, request: ApprovalRequest, recorder: RunRecorder, approver: Approver
    ) -> GateDecision:
        call = request.call
        recorder.record_decision(call.id, ApprovalStatus.PENDING)
        recorder.emit(ApprovalRequested(request))
        signer = self._signer(recorder.conversation)
        decision = await _ask_approver(approver, request, recorder, signer)
        if not decision.allowed:
            recorder.record_decision(
                call.id,
                ApprovalStatus.DENIED,
                actor=decision.actor,
                reason=decision.reason,
                audit=signer.sign_audit({}, tool=call.name),
            )
            text = build_denial_text(decision)
            return GateDecision(False, text, code=ResultCode.DENIED_BY_APPROVER)
        # The user may have changed to a mode that forbids the tool while the approver was asked.
        mode = recorder.conversation.mode
        denial = self._permissions.find_mode_denial(tool, mode, request.subjects)
        if denial is not None:
            return _record_denial(call, recorder, denial.code, denial.rule, denial.reason)
        grant, scope = self._granted_rule(decision, request, recorder)
        recorder.record_decision(
            call.id,
            ApprovalStatus.APPROVED,
            actor=decision.actor,
            reason=decision.reason,
            audit=signer.sign_audit(
                {} if grant is None else build_grant_audit(grant, scope), tool=call.name
            ),
        )
        if grant is not None:
            self._store_grant(grant, scope, recorder)
        return GateDecision(True, subjects=request.subjects)

    def _granted_rule(
        self, decision: ApprovalDecision, request: ApprovalRequest, recorder: RunRecorder
    ) -> tuple[PermissionRule | None, GrantScope]:
        """Return the rule that a decision grants for later calls, and the scope of the grant.

        The rule is None if the decision grants no valid rule. Without a grant store, a grant for
        the project or the user applies to the session only.
        """
        scope = decision.scope
        if scope in _LASTING_SCOPES and self._grants is None:
            scope = GrantScope.SESSION  # there is no store for grants that last longer
        try:
            grant = find_granted_rule(decision, request)
        except InvalidValue as exc:
            recorder.emit(
                Notice(
                    NoticeKind.PERMISSION,
                    f"allowed once, because the rule is invalid: {exc.text_unless_at('rule')}",
                    "rule_invalid",
                )
            )
            return None, GrantScope.ONCE
        if grant is None and scope is not GrantScope.ONCE:
            text = "allowed once, because no safe rule matches this call"
            recorder.emit(Notice(NoticeKind.PERMISSION, text, "no_rule_fits"))
        return grant, scope

    def _store_grant(self, grant: PermissionRule, scope: GrantScope, recorder: RunRecorder) -> None:
        """Store a grant if it lasts longer than a session."""
        if self._grants is None or scope not in _LASTING_SCOPES:
            return
        try:
            self._grants.add(str(grant), scope)
        except StenoError as exc:
            text = f"{grant}: allowed once, because the grant could not be stored: {exc}"
            recorder.emit(Notice(NoticeKind.PERMISSION, text, "grant_not_kept"))

    def _lasting_rules(self, recorder: RunRecorder) -> tuple[PermissionRule, ...]:
        """Return the rules granted for longer than a session; empty if they cannot be read."""
        if self._grants is None:
            return ()
        try:
            return tuple(map(PermissionRule.parse, self._grants.rules()))
        except StenoError as exc:
            if str(exc) not in self._reported_errors:
                self._reported_errors.add(str(exc))
                text = f"stored grants are ignored, because they cannot be read: {exc}"
                recorder.emit(Notice(NoticeKind.PERMISSION, text, "grants_unreadable"))
            return ()

    def _read_grants(self, conversation: Conversation) -> SessionGrants:
        """Return the grants and decisions in the log of a session; only new entries are read.

        After a rewind, or on another branch, the whole branch is read again. Decisions on other
        branches do not apply, but revocations do. Raises LogError if revocations cannot be read.
        """
        entries, signer = conversation.entries_view(), self._signer(conversation)
        count, last = self._read_position
        granted = self._session_grants
        if granted.signer != signer:
            granted, count = SessionGrants(signer=signer), 0
        elif count > len(entries) or (count and entries[count - 1] is not last):
            granted, count = SessionGrants(signer=signer, revocations=granted.revocations), 0
        for entry in entries[count:]:
            granted.add(entry)
        self._session_grants = granted
        self._read_position = (len(entries), entries[-1] if entries else None)
        if granted.has_grants:  # without grants, there is nothing to revoke
            granted.revocations.read(conversation)
        return granted

    def _signer(self, conversation: Conversation) -> GrantSigner:
        return GrantSigner(conversation.id, self._sign_text, self._trust_record, self._own_texts)

    def _report_rejected(self, granted: SessionGrants, recorder: RunRecorder) -> None:
        """Report the grants of the session that do not count, once.

        Grants that an older version of steno signed are also revoked, so that no later run reports
        them again. Other grants may count on another machine.
        """
        rejected = [one for one in granted.rejected if one[1].id not in self._reported_grants]
        if not rejected:
            return
        outdated = [one for one in rejected if granted.signer.has_outdated_signature(one[1])]
        self._reported_grants |= {entry.id for _, entry in rejected}
        for code, reason, grants in (
            ("grants_outdated", _OUTDATED_GRANTS, outdated),
            ("grants_unsigned", _UNSIGNED_GRANTS, [one for one in rejected if one not in outdated]),
        ):
            rules = {str(rule) for rule, _ in grants if rule not in granted.rules}
            if rules:
                listed = truncate_middle(
                    ", ".join(sorted(rules)), max_head=_MAX_LISTED, max_tail=0, note=" …"
                )
                recorder.emit(Notice(NoticeKind.PERMISSION, f"{reason}: {listed}", code))
        for rule, entry in outdated:
            recorder.record(
                GrantRevoked(grant=str(rule), target=entry.id),
                decision=REVOKED,
                audit={"actor": _OWN_ACTOR, "scope": str(GrantScope.SESSION)},
            )


def _check_arguments(
    permissions: object, approver: object, *, grants: object, sign_text: object
) -> None:
    """Raise InvalidValue for an argument of the wrong type, which would fail during a call."""
    if permissions is not None and not isinstance(permissions, Permissions):
        raise _wrong_type("permissions", 'Permissions, such as Permissions.of(allow=["write"])')
    for name, value, methods in (
        ("approver", approver, ("ask",)),
        ("grants", grants, ("rules", "add")),
    ):
        is_object = not isinstance(value, type)
        if value is not None and not (
            is_object and all(callable(getattr(value, method, None)) for method in methods)
        ):
            raise _wrong_type(name, f"an object with the methods {' and '.join(methods)}")
    if sign_text is not None and not callable(sign_text):
        raise _wrong_type("sign_text", "a function")


def _wrong_type(place: str, expected: str) -> InvalidValue:
    return InvalidValue(f"must be {expected}", place=f"gate.{place}", code="wrong_type")


@contextmanager
def _as_tool_fault() -> Generator[None]:
    try:
        yield
    except (ToolFailed, ToolFault):
        raise
    except Exception as exc:
        raise ToolFault(exc) from exc


def _record_denial(
    call: ToolCall, recorder: RunRecorder, code: ResultCode, rule: str, reason: str
) -> GateDecision:
    recorder.record_decision(call.id, ApprovalStatus.DENIED, rule=rule, reason=reason)
    return GateDecision(False, reason, code=code)


def _repeat_decision(
    tool: Tool,
    entry: Entry,
    subjects: tuple[Subject, ...],
    recorder: RunRecorder,
    signer: GrantSigner,
) -> GateDecision:
    """Record an earlier decision again when the agent acts on it.

    After a crash, the second entry shows that an approved call may have run. It is signed only if
    the earlier decision was signed here.
    """
    earlier = entry.payload
    assert isinstance(earlier, Approval)
    actor, rule, reason = earlier.actor, earlier.rule, earlier.reason
    is_signed = signer.signature_state(entry) is SignatureState.VALID
    recorder.record_decision(
        earlier.call_id,
        earlier.status,
        actor=actor,
        rule=rule,
        reason=reason,
        audit=signer.sign_audit({}, tool=tool.definition.name) if is_signed else None,
    )
    if earlier.status is ApprovalStatus.APPROVED:
        return GateDecision(True, subjects=subjects)
    if rule is not None and reason is not None:  # the reason of a rule is the text for the model
        code = _CODE_BY_STORED_RULE.get(rule, ResultCode.DENIED_BY_RULE)
        return GateDecision(False, reason, code=code)
    reason = reason or f"{actor or 'the approver'} denied the call"
    return GateDecision(False, f"{DENIED_PREFIX}: {reason}", code=ResultCode.DENIED_BY_APPROVER)


def tool_headline(tool: Tool, call: AnyToolCall) -> str:
    """Return the headline of a call; the default headline if the tool has no `headline` method."""
    headline: Callable[[AnyToolCall], str] = getattr(tool, "headline", default_headline)
    return headline(call)


def tool_content(tool: Tool, call: ToolCall) -> PreviewPart | None:
    """Return the text that a call writes; None if the call writes no text."""
    content: Callable[[ToolCall], PreviewPart | None] = getattr(tool, "content", lambda _: None)
    return content(call)


async def preview_call(tool: Tool, call: ToolCall) -> CallPreview:
    """Return the preview of a call.

    Raises ToolFailed if the tool rejects the call, ToolFault if it raises another exception.
    """
    with _as_tool_fault():
        preview = await tool.preview(call)
        if not isinstance(preview, CallPreview):
            kind = type(preview).__name__
            message = f"preview must return a CallPreview, not {kind}; use CallPreview.of(…)"
            raise InvalidTool(message, code="preview_type", place=call.name)
    return preview


async def _build_approval_request(
    tool: Tool, call: ToolCall, policy: PolicyDecision
) -> ApprovalRequest:
    return ApprovalRequest(
        call=call,
        capability=tool.capability,
        subjects=policy.subjects,
        uncovered=policy.uncovered,
        headline=tool_headline(tool, call),
        preview=await preview_call(tool, call),
        rule=suggest_rule(tool.definition.name, policy.uncovered),
    )


async def _ask_approver(
    approver: Approver,
    request: ApprovalRequest,
    recorder: RunRecorder,
    signer: GrantSigner,
    *,
    audit: Mapping[str, Any] | None = None,
) -> ApprovalDecision:
    """Ask the approver, and record a denial, with this audit, if the approver raises an exception.

    The exception propagates. ToolFailed, ProviderError and ProtocolError are replaced with a
    StenoError, because the loop would handle them as errors of a tool or a provider.
    """
    try:
        return await approver.ask(request)
    except Exception as exc:
        reason = f"the approver failed: {type(exc).__name__}"
        recorder.record_decision(
            request.call.id,
            ApprovalStatus.DENIED,
            actor="approver",
            reason=reason,
            audit=signer.sign_audit(audit or {}, tool=request.call.name),
        )
        if isinstance(exc, ToolFailed | ProviderError | ProtocolError):
            raise StenoError(str(exc), place="approver", code="approver_failed") from exc
        raise


# -- recorded decisions ----------------------------------------------------------------------------


def decide_later(
    conversation: Conversation,
    call_id: str,
    *,
    allowed: bool,
    actor: str,
    reason: str | None = None,
    sign_text: SignText | None = None,
) -> Entry:
    """Record a decision about a call that awaits approval; the next run acts on the decision.

    Pass the `sign_text` of the gate that will act on the decision; without it, only a gate with
    `trust_record` acts on an approval. Raises Missing if no call with this id on the active branch
    awaits a decision.
    """
    if call_id not in conversation.outstanding:
        raise Missing(
            "no call with this id awaits a decision", place="approval", code="call_not_pending"
        )
    call = conversation.outstanding_call(call_id)
    decided = last_decision(conversation.entries_view(), call)
    if decided is not None and entry_decision(decided) != ApprovalStatus.PENDING:
        message = "the call is already decided, and may have run"
        raise Missing(message, place="approval", code="already_decided")
    status = ApprovalStatus.APPROVED if allowed else ApprovalStatus.DENIED
    signer = GrantSigner(conversation.id, sign_text)
    audit = signer.sign_audit(_DEFERRED_AUDIT, tool=call.name)
    return conversation.decide(call_id, status, actor=actor, reason=reason, audit=audit)


# -- approvers without a terminal ------------------------------------------------------------------

ApprovalAnswer: TypeAlias = ApprovalDecision | bool


@final
class CallbackApprover:
    """An approver that asks a function, which may be plain or async.

    The function returns an ApprovalDecision, or True to allow and False to deny only this call. A
    plain function blocks the event loop while it runs; a function that waits should be async.
    """

    def __init__(
        self,
        function: Callable[[ApprovalRequest], ApprovalAnswer | Awaitable[ApprovalAnswer]],
        *,
        actor: str = "callback",
    ) -> None:
        """Set the function, and the actor to record with its decisions."""
        self._function = function
        self._actor = actor

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Return the decision of the function.

        Raises InvalidValue if the function returns neither an ApprovalDecision nor a bool.
        """
        decision = self._function(request)
        if inspect.isawaitable(decision):
            decision = await decision
        if isinstance(decision, ApprovalDecision):
            return decision
        if isinstance(decision, bool):
            return ApprovalDecision(allowed=decision, actor=self._actor)
        # Any other value that is true in Python must not count as an approval.
        kind = type(decision).__name__
        message = f"the function must return an ApprovalDecision or a bool, not {kind}"
        raise InvalidValue(message, place="approver", code="invalid_approval")


@final
class DenyingApprover:
    """Denies every call that needs approval."""

    def __init__(self, reason: str = _DEFAULT_DENIAL, *, actor: str = "headless") -> None:
        """Set the reason that the model reads, and the actor to record with each denial."""
        self._decision = ApprovalDecision(allowed=False, actor=actor, reason=reason)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Deny the call."""
        return self._decision


@final
class AllowingApprover:
    """Allows every call that needs approval, one call at a time and without granting a rule.

    It gives a call no access that the sandbox blocked. The gate never asks about calls that the
    mode, the role or a deny rule forbids.
    """

    def __init__(self, *, actor: str = "--yes") -> None:
        """Set the actor to record with each approval."""
        self._decision = ApprovalDecision(allowed=True, actor=actor)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Allow the call once."""
        return self._decision
