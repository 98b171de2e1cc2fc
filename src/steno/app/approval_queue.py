"""Questions about calls that wait for the person at the desk.

A call is asked about when its turn comes; the person may decide about it before, since all calls
of a turn are on record by then. Who allowed a call and saw what it would do has allowed that: if
it would do something else by the time it is asked about, it is asked about all the same.

Nothing here decides anything, and nothing is recorded here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, final

from steno.agent.permissions.grants import find_granted_rule
from steno.app.session import PendingCall
from steno.errors import Missing
from steno.messages.call import ToolCall
from steno.ports import ApprovalDecision, ApprovalRequest


class _OpenRequest(NamedTuple):
    """A question that somebody waits for."""

    request: ApprovalRequest
    answer: asyncio.Future[ApprovalDecision]


class _EarlyDecision(NamedTuple):
    """What was decided before it was asked."""

    call: ToolCall
    decision: ApprovalDecision
    preview: str | None
    """What the call would do, as the person has read it; None where they read only the call."""

    def applies_to(self, request: ApprovalRequest) -> bool:
        """Tell whether it was decided about just this."""
        is_as_seen = self.preview is None or self.preview == request.preview
        return self.call == request.call and (is_as_seen or not self.decision.allowed)


@final
class ApprovalQueue:
    """Asks whoever works at the desk (`steno.ports.Approver`)."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Take whom to tell that something else is pending now."""
        self._on_change = on_change
        self._open: dict[str, _OpenRequest] = {}
        self._answered: set[str] = set()
        """What has an answer that whoever asked has not heard yet."""
        self._early: dict[str, _EarlyDecision] = {}
        self._previews: dict[str, tuple[ToolCall, str]] = {}
        """What the person has read about calls that are not asked about yet."""

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait until somebody has decided. Who is cancelled meanwhile has asked nothing."""
        call = request.call
        answer: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
        self._open[call.id] = _OpenRequest(request, answer)
        ahead = self._early.pop(call.id, None)
        if ahead is not None and ahead.applies_to(request):
            self._resolve(call.id, ahead.decision)
        self._on_change()
        try:
            return await answer
        finally:
            self._answered.discard(call.id)
            if self._open.pop(call.id, None) is not None:
                self._on_change()

    def pending_calls(self, waiting: Iterable[ToolCall]) -> list[PendingCall]:
        """Return what is asked, and behind it the calls that wait for their turn meanwhile."""
        asked = [PendingCall(one.request.call, one.request) for one in self._open.values()]
        known = self._open.keys() | self._answered
        decisions = {id: one.decision for id, one in self._early.items()}
        waiting_calls = [
            PendingCall(call, None, decisions.get(call.id))
            for call in waiting
            if call.id not in known and (asked or call.id in decisions)
        ]
        return [*asked, *waiting_calls]

    def record_preview(self, call: ToolCall, text: str) -> None:
        """Take note of what the person reads about a call that is not asked about yet."""
        self._previews[call.id] = (call, text)

    def decide(
        self, call_id: str, decision: ApprovalDecision, waiting: Mapping[str, ToolCall]
    ) -> None:
        """Answer a question, or keep the answer for when it is asked.

        Several may be decided in one go, in any order: what waits behind a question may be decided
        until whoever asked has heard the answer.

        Raises Missing if no call of this id awaits a decision, InvalidValue for a bad rule.
        """
        one = self._open.get(call_id)
        if one is None:
            is_due = bool(self._open or self._answered or call_id in self._early)
            if not is_due or call_id in self._answered or call_id not in waiting:
                raise Missing(
                    "no call of this id awaits a decision",
                    code="call_not_pending",
                    place="approval",
                )
            call = waiting[call_id]
            about, previewed = self._previews.get(call_id, (call, None))
            self._early[call_id] = _EarlyDecision(
                call, decision, previewed if about == call else None
            )
        else:
            find_granted_rule(decision, one.request)  # is refused here, and not when nobody looks
            self._resolve(call_id, decision)
        self._on_change()

    def _resolve(self, call_id: str, decision: ApprovalDecision) -> None:
        answer = self._open.pop(call_id).answer
        self._answered.add(call_id)
        if not answer.done():  # else whoever asked was stopped, and has not noticed yet
            answer.set_result(decision)

    def forget(self, call_id: str) -> None:
        """Drop what was decided about a call that has its result: its id may come again."""
        self._early.pop(call_id, None)
        self._previews.pop(call_id, None)

    def forget_all(self) -> None:
        """Drop everything that was decided and not asked: the run is over."""
        self._early.clear()
        self._previews.clear()
