"""What writing and reading an audit log agree on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, final

from steno.call import AnyToolCall, outside_name
from steno.content import Opaque
from steno.entry import Approval, ApprovalStatus, Payload
from steno.json_object import JsonObject
from steno.message import AssistantMessage, Message, ToolResultMessage

NAME: Final = "audit"
PAYLOAD: Final = "steno"
ENTRY: Final = "steno_entry"
AROUND: Final = "$entry"
"""Among the extras of a message: what others put beside the message, in its entry."""

_DECISIONS: Final = {
    ApprovalStatus.APPROVED: "tool_call_approved",
    ApprovalStatus.DENIED: "tool_call_denied",
}


class Verdict(NamedTuple):
    """What is shown beside an action that was decided about."""

    decision: str
    audit: JsonObject


@final
class Context:
    """What the entries around one say about it."""

    def __init__(self, payloads: Iterable[Payload]) -> None:
        self._approvals = {
            payload.call_id: payload for payload in payloads if isinstance(payload, Approval)
        }
        self._calls: dict[str, AnyToolCall] = {}
        self._outstanding: dict[str, AnyToolCall] = {}

    def add(self, payload: Payload) -> None:
        """Go on to the next entry."""
        if isinstance(payload, AssistantMessage):
            for call in payload.tool_calls:
                self._calls[call.id] = self._outstanding[call.id] = call
        elif isinstance(payload, ToolResultMessage):
            self._outstanding.pop(payload.tool_call_id, None)

    def decision_for(self, call_id: str, tool_name: str) -> Verdict | None:
        """Return what is shown beside an action, if somebody decided about it."""
        approval = self._approvals.get(call_id)
        decision = None if approval is None else _DECISIONS.get(approval.status)
        if approval is None or decision is None:
            return None
        about = {"actor": approval.actor, "rule": approval.rule, "reason": approval.reason}
        said = {name: text for name, text in about.items() if text is not None}
        return Verdict(decision, JsonObject({"tool": tool_name, **said}))

    def displayed_tool_name(self, result: ToolResultMessage) -> str:
        """Return the tool of a result, by the name that its call shows."""
        call = self._calls.get(result.tool_call_id)
        is_ours = call is not None and call.name == result.tool_name
        return outside_name(call) if call is not None and is_ours else result.tool_name

    def own_tool_name(self, call_id: str, shown: str) -> str:
        """Return our name for the tool of a result."""
        call = self._calls.get(call_id)
        return call.name if call is not None and outside_name(call) == shown else shown

    def find_unanswered(self, tool_name: str) -> str | None:
        """Find the call that a result without an id answers: the first of its tool."""
        for id, call in self._outstanding.items():
            if not tool_name or outside_name(call) == tool_name:
                return id
        return None


def usual_decision(payload: Payload) -> str:
    """Return what the decision of an entry says if nothing was decided."""
    is_theirs = isinstance(payload, Opaque) and payload.origin == NAME
    if is_theirs or isinstance(payload, Message):
        return ""
    return str(payload.__struct_config__.tag)
