"""`/audit`: the decisions of this session, and the integrity of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from steno.app.reports.audit import describe_verification, verify_session
from steno.app.session_state import CommandContext
from steno.errors import LogError, Missing
from steno.ids import utc_now
from steno.messages.call import AnyToolCall
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Approval, Entry
from steno.render.describe import describe_decider
from steno.render.markdown_escape import escape_markdown, inline_code, markdown_table
from steno.render.quantities import format_age, format_count
from steno.render.session_events import CommandReply
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line, truncate_to_width

_DECISION_COLUMNS: Final = (
    Column("when"),
    Column("call"),
    Column("decision"),
    Column("by"),
    Column("outcome"),
)
_MAX_DECISION_ROWS: Final = 50
_MAX_CALL_WIDTH: Final = 60
_MAX_ACTOR_WIDTH: Final = 40


class CallDecision(NamedTuple):
    """The last decision about a call, and its result."""

    approval: Entry
    call: AnyToolCall | None
    outcome: Outcome | None = None


async def run_audit(context: CommandContext, argument: str) -> CommandReply:
    """Report the decisions, and verify the log."""
    return CommandReply(await asyncio.to_thread(_audit_text, context), "Audit")


def _audit_text(context: CommandContext) -> str:
    session = context.conversation.id
    try:
        entries = [r.entry for r in context.store.records(session) if r.entry is not None]
    except Missing:
        return "Nothing is on record yet."
    except LogError as exc:
        return f"**The record cannot be read:** {escape_markdown(str(exc))}"
    rows = [_decision_row(decision, utc_now()) for decision in collect_decisions(entries)]
    parts = [_integrity_text(context), "Nothing had to be decided yet."]
    if rows:
        parts[1:] = [
            markdown_table(_DECISION_COLUMNS, rows[-_MAX_DECISION_ROWS:]),
            _decision_count_text(len(rows)),
        ]
    if context.is_persistent:
        parts.append(f"{inline_code(f'steno audit {session}')} tells of every entry.")
    return "\n\n".join(parts)


def _integrity_text(context: CommandContext) -> str:
    verification = verify_session(context.store, context.conversation.id)
    if verification.problem is not None:
        return f"**The record is not as it was written:** {escape_markdown(verification.problem)}"
    assert verification.chain is not None
    memory_note = (
        "" if context.is_persistent else " It is kept in memory alone, and gone in the end."
    )
    head = verification.chain.heads.get(context.conversation.branch)
    digest = f" The digest of this branch is {inline_code(head)}." if head else ""
    return f"The record is **whole**: {describe_verification(verification.chain)}.{digest}{memory_note}"


def _decision_count_text(number: int) -> str:
    decided = format_count(number, "call was", "calls were")
    last = f"; these are the last {_MAX_DECISION_ROWS}" if number > _MAX_DECISION_ROWS else ""
    return f"{decided} decided about in all branches{last}."


def collect_decisions(entries: Iterable[Entry]) -> list[CallDecision]:
    """Return the last decision about each call in the order of the calls.

    A provider may reuse an id: a later decision is then about another call.
    """
    found: list[CallDecision] = []
    calls: dict[str, AnyToolCall] = {}
    places: dict[str, int] = {}
    for entry in entries:
        payload = entry.payload
        match payload:
            case AssistantMessage():
                for call in payload.tool_calls:
                    calls[call.id] = call
                    places.pop(call.id, None)
            case Approval():
                decision = CallDecision(entry, calls.get(payload.call_id))
                index = places.setdefault(payload.call_id, len(found))
                found[index : index + 1] = [decision]
            case ToolResultMessage() if payload.tool_call_id in places:
                index = places[payload.tool_call_id]
                found[index] = found[index]._replace(outcome=payload.outcome)
            case _:
                pass
    return found


def _decision_row(decision: CallDecision, now: datetime) -> list[str]:
    approval = decision.approval.payload
    assert isinstance(approval, Approval)
    by = truncate_to_width(describe_decider(approval), _MAX_ACTOR_WIDTH)
    return [
        format_age(decision.approval.time, now),
        inline_code(_call_label(decision.call, approval.call_id)),
        str(approval.status),
        escape_markdown(by),
        str(decision.outcome or ""),
    ]


def _call_label(call: AnyToolCall | None, call_id: str) -> str:
    label = call_id if call is None else f"{call.name} {call.arguments}"
    return truncate_to_width(terminal_line(label), _MAX_CALL_WIDTH)
