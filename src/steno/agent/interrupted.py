"""Answer the calls that an earlier run left behind, because it was killed or lost its power.

What was not decided about is decided about now, and what was decided meanwhile holds. What had
been approved when it was left may have been run, in part or to its end, and nobody knows: only
what reads is run again.
"""

from __future__ import annotations

from typing import Final

from steno.agent.dispatch import Dispatcher
from steno.agent.gate import is_deferred, last_decision
from steno.agent.notebook import Notebook
from steno.agent.permission import Seal, Signet
from steno.call import AnyToolCall
from steno.conversation import Conversation
from steno.entry import Approval, ApprovalStatus, Entry, Redacted
from steno.errors import Missing
from steno.message import AssistantMessage, ToolResult
from steno.outcome import Outcome
from steno.views import decision_of

TAKEN_OUT: Final = "A result of this turn was taken out of the record; it is not there any more."
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
    seal: Seal | None = None,
) -> Entry:
    """Decide about a call that waits for it; the next run acts on the decision.

    `seal` is that of the gate which is to act on it, if it has one. Raises Missing if no call of
    the active branch awaits a decision under this id.
    """
    if call_id not in conversation.outstanding:
        raise Missing("approval: no call of this id awaits a decision")
    call = conversation.outstanding_call(call_id)
    decided = last_decision(conversation.entries_view(), call)
    if decided is not None and decision_of(decided) != ApprovalStatus.PENDING:
        raise Missing("approval: it is decided about, and what was allowed may have run")
    status = ApprovalStatus.APPROVED if allowed else ApprovalStatus.DENIED
    audit = Signet(conversation.id, seal).sign_audit(_DEFERRED, call, status)
    return conversation.decide(call_id, status, actor=actor, reason=reason, audit=audit)


async def settle(dispatcher: Dispatcher, notebook: Notebook) -> None:
    """Answer every call of the active branch that awaits its result."""
    conversation = notebook.conversation
    for call_id in conversation.outstanding:
        call = conversation.outstanding_call(call_id)
        if _lost_a_result(conversation):
            result = ToolResult.error(call.id, TAKEN_OUT, outcome=Outcome.CANCELLED)
            notebook.record(result, decision="cancelled")
        elif _may_have_run(conversation, call) and not dispatcher.is_read_only(call):
            result = ToolResult.error(call.id, UNKNOWN, outcome=Outcome.CANCELLED)
            notebook.record(result, decision="cancelled")
        else:
            await dispatcher.answer_calls([call], notebook)


def _lost_a_result(conversation: Conversation) -> bool:
    """Tell whether a result of the last turn was taken out of the record.

    Which call it answered is not known any more. To run any of them again could bring back what
    somebody wanted to be gone.
    """
    for entry in reversed(conversation.entries_view()):
        if isinstance(entry.payload, AssistantMessage):
            return False
        if isinstance(entry.payload, Redacted) and entry.payload.kind == "tool_result":
            return True
    return False


def _may_have_run(conversation: Conversation, call: AnyToolCall) -> bool:
    entry = last_decision(conversation.entries_view(), call)
    if entry is None or not isinstance(entry.payload, Approval):
        return False
    return entry.payload.status is ApprovalStatus.APPROVED and not is_deferred(entry)
