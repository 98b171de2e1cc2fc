"""Approval requests that wait for the user.

Approval of a call is requested when the call is about to run. The user may decide earlier, because
all calls of a turn are recorded before the first one runs. A user who allowed a call after reading
its preview has allowed that effect: if the effect has changed when approval is requested, the user
is asked again.

This module makes no decisions, and writes nothing to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, final

from steno.agent.permissions.grants import find_granted_rule
from steno.errors import Missing
from steno.messages.call import ToolCall
from steno.ports import ApprovalDecision, ApprovalRequest, CallPreview


class PendingCall(NamedTuple):
    """A call that waits for approval, or will wait once the calls before it are decided."""

    call: ToolCall
    request: ApprovalRequest | None
    """The approval request; None while the call waits for an earlier call of its turn.

    Without a request, a rule may still allow or deny the call.
    """
    decision: ApprovalDecision | None = None
    """The decision that the user made before approval was requested; None if there is none."""


class _OpenRequest(NamedTuple):
    """An approval request whose decision the gate awaits."""

    request: ApprovalRequest
    future: asyncio.Future[ApprovalDecision]


class _EarlyDecision(NamedTuple):
    """A decision that the user made before approval was requested."""

    call: ToolCall
    decision: ApprovalDecision
    preview: CallPreview | None
    """The preview that the user read; None if they read only the call."""

    def applies_to(self, request: ApprovalRequest) -> bool:
        """Return whether the decision is valid for a request.

        A decision to allow a call is not valid if the preview of the call has changed. No decision
        is valid for a question about more access, which comes up only after the call has run.
        """
        if request.access:
            return False
        is_same_preview = self.preview is None or self.preview == request.preview
        return self.call == request.call and (is_same_preview or not self.decision.allowed)


@final
class ApprovalQueue:
    """An approver (`steno.ports.Approver`) that asks the user of the session."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Take the function to call when the pending calls have changed."""
        self._on_change = on_change
        self._open: dict[str, _OpenRequest] = {}
        self._answered: set[str] = set()
        """The ids of decided calls whose decision the gate has not read yet."""
        self._early: dict[str, _EarlyDecision] = {}
        self._announced: dict[str, asyncio.Future[ApprovalDecision]] = {}
        """Requests that `announce` has opened and `ask` does not await yet, by call id."""
        self._previews: dict[str, tuple[ToolCall, CallPreview]] = {}
        """The calls with the previews that the user read before the request, by call id."""

    def announce(self, request: ApprovalRequest) -> None:
        """Open a request before `ask` is called, so that listeners can decide at once."""
        self._announced[request.call.id] = self._open_request(request)

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for the decision about a request. A cancelled wait withdraws the request."""
        call_id = request.call.id
        future = self._announced.pop(call_id, None)
        if future is None:
            future = self._open_request(request)
        try:
            return await future
        finally:
            self._close_request(call_id)

    def _open_request(self, request: ApprovalRequest) -> asyncio.Future[ApprovalDecision]:
        call_id = request.call.id
        future: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
        self._open[call_id] = _OpenRequest(request, future)
        early = self._early.pop(call_id, None)
        if early is not None and early.applies_to(request):
            self._resolve(call_id, early.decision)
        self._on_change()
        return future

    def _close_request(self, call_id: str) -> None:
        self._answered.discard(call_id)
        if self._open.pop(call_id, None) is not None:
            self._on_change()

    def pending_calls(self, waiting: Iterable[ToolCall]) -> list[PendingCall]:
        """Return the calls with an open request, then those in `waiting` that may need approval."""
        pending = [PendingCall(request.call, request) for request, _ in self._open.values()]
        known = self._open.keys() | self._answered
        decisions = {id: early.decision for id, early in self._early.items()}
        return pending + [
            PendingCall(call, None, decisions.get(call.id))
            for call in waiting
            if call.id not in known and (pending or call.id in decisions)
        ]

    def record_preview(self, call: ToolCall, preview: CallPreview) -> None:
        """Store the preview that the user reads before approval is requested."""
        self._previews[call.id] = (call, preview)

    def decide(
        self, call_id: str, decision: ApprovalDecision, waiting: Mapping[str, ToolCall]
    ) -> None:
        """Decide about a request, or store the decision until approval is requested.

        `waiting` contains the undecided calls of the turn, by ID. A call without a request can be
        decided while another call has an open request, or a decision that the gate has not read
        yet. A stored decision can be replaced until approval is requested.

        Raises Missing if no call with this ID waits for approval, and InvalidValue if the decision
        has an invalid rule.
        """
        open_request = self._open.get(call_id)
        if open_request is None:
            accepts_decisions = bool(self._open or self._answered or call_id in self._early)
            if not accepts_decisions or call_id in self._answered or call_id not in waiting:
                raise Missing(
                    "no call with this ID waits for approval",
                    code="call_not_pending",
                    place="approval",
                )
            call = waiting[call_id]
            previewed_call, preview = self._previews.get(call_id, (call, None))
            self._early[call_id] = _EarlyDecision(
                call, decision, preview if previewed_call == call else None
            )
        else:
            # Refuse an invalid rule now, while the user is present.
            find_granted_rule(decision, open_request.request)
            self._resolve(call_id, decision)
        self._on_change()

    def _resolve(self, call_id: str, decision: ApprovalDecision) -> None:
        future = self._open.pop(call_id).future
        self._answered.add(call_id)
        if not future.done():  # done if the waiting task was cancelled
            future.set_result(decision)

    def forget(self, call_id: str) -> None:
        """Drop the decision and preview of a finished call, because a provider may reuse its ID."""
        self._early.pop(call_id, None)
        self._previews.pop(call_id, None)

    def forget_all(self) -> None:
        """Drop early decisions and previews, and withdraw announced requests, after a run."""
        for call_id in list(self._announced):  # the run was interrupted before it called `ask`
            del self._announced[call_id]
            self._close_request(call_id)
        self._early.clear()
        self._previews.clear()
