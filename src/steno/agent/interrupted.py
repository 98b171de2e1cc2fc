"""Answer the calls that an earlier run left behind, because it was killed or lost its power.

What was not decided about is decided about now, and what was decided meanwhile holds. What had
been approved when it was left may have been run, in part or to its end, and nobody knows: only
what reads is run again.
"""

from __future__ import annotations

from typing import Final, final

from steno.agent.dispatch import Dispatcher
from steno.agent.gate import Ruling
from steno.agent.notebook import Notebook
from steno.agent.permission import DENIED, is_bound
from steno.call import AnyToolCall, ToolCall
from steno.conversation import Conversation
from steno.entry import Approval, ApprovalStatus, Entry, Mode
from steno.errors import Missing
from steno.message import AssistantMessage, ToolResult
from steno.outcome import Outcome
from steno.ports import Tool

UNKNOWN: Final = (
    "The program ended while this call ran. It may have taken effect, in part or as a whole; "
    "look before you repeat it."
)
_DEFERRED: Final = {"deferred": True}
"""Beside a decision that was taken while nothing ran: what it allows has not begun."""


def decide_later(
    conversation: Conversation,
    call_id: str,
    *,
    allowed: bool,
    actor: str,
    reason: str | None = None,
) -> Entry:
    """Decide about a call that waits for it; the next run acts on the decision.

    Raises Missing if no call of the active branch awaits a decision under this id.
    """
    if call_id not in conversation.outstanding:
        raise Missing("approval: no call of this id awaits a decision")
    return conversation.decide(
        call_id,
        ApprovalStatus.APPROVED if allowed else ApprovalStatus.DENIED,
        actor=actor,
        reason=reason,
        audit=_DEFERRED,
    )


async def settle(dispatcher: Dispatcher, notebook: Notebook) -> None:
    """Answer every call of the active branch that awaits its result."""
    if not notebook.conversation.outstanding:
        return
    calls, decisions = _left_behind(notebook.conversation)
    offered = {definition.name for definition in dispatcher.offered(notebook.conversation.mode)}
    for call in calls:
        entry = decisions.get(call.id)
        approval = None if entry is None else entry.payload
        if (
            entry is None
            or not isinstance(approval, Approval)
            or not is_bound(approval, call)
            or call.name not in offered
        ):
            await dispatcher.answer([call], notebook)
        elif entry.audit is not None and entry.audit.get("deferred") is True:
            await dispatcher.answer([call], notebook, gate=_AsDecided(approval))
        elif approval.status is ApprovalStatus.APPROVED and not dispatcher.only_reads(call):
            result = ToolResult.error(call.id, UNKNOWN, outcome=Outcome.CANCELLED)
            notebook.record(result, decision="cancelled")
        else:
            await dispatcher.answer([call], notebook)


def _left_behind(conversation: Conversation) -> tuple[list[AnyToolCall], dict[str, Entry]]:
    """Return the calls of the last turn that await a result, and the last decision about each."""
    waiting = conversation.outstanding
    decisions: dict[str, Entry] = {}
    for entry in reversed(conversation.entries()):
        payload = entry.payload
        if isinstance(payload, AssistantMessage):
            return [call for call in payload.tool_calls if call.id in waiting], decisions
        if isinstance(payload, Approval):
            decisions.setdefault(payload.call_id, entry)
    return [], {}


@final
class _AsDecided:
    """Repeats a decision that was taken while nothing ran (`steno.agent.gate.Decides`).

    It is recorded once more, now that it is acted on: who dies behind this may have run it.
    """

    def __init__(self, approval: Approval) -> None:
        self._approval = approval

    def offers(self, tool: Tool, mode: Mode) -> bool:
        return True

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        approval = self._approval
        notebook.decide(
            call.id,
            approval.status,
            actor=approval.actor,
            rule=approval.rule,
            reason=approval.reason,
        )
        if approval.status is ApprovalStatus.APPROVED:
            return Ruling(True)
        return Ruling(False, f"{DENIED}: {approval.reason or f'{approval.actor} said no'}")
