"""Say what was missing where rules allow a tool something, and not all that a call is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steno.agent.events import CallEnded, Notice, NoticeCode
from steno.agent.gate import NOBODY
from steno.agent.rules import Rule, covering
from steno.call import ToolCall
from steno.outcome import Outcome
from steno.ports import Tool


def uncovered(event: CallEnded, tools: Mapping[str, Tool], allow: Sequence[Rule]) -> Notice | None:
    """Return what to tell of a call that nobody could be asked about; None if there is nothing."""
    call, result = event.call, event.result
    tool = tools.get(call.name)
    is_unasked = result.outcome is Outcome.DENIED and NOBODY in result.text
    if tool is None or not isinstance(call, ToolCall) or not is_unasked:
        return None
    about = [rule for rule in allow if rule.names_tool(call.name)]
    left = [
        subject.strip()
        for subject in tool.subjects(call)
        if covering(about, call.name, capability=tool.capability, subjects=(subject,)) is None
    ]
    if not about or not left:
        return None
    return Notice(
        NoticeCode.CONTEXT, f"{call.name}: what the rules allow does not cover: {', '.join(left)}"
    )
