"""Let a model work: ask it, check and run what it calls for, record everything, and go on.

    from steno.agent import Agent, Gate, Permissions

    agent = Agent(provider, conversation, tools=tools, gate=Gate(Permissions.of(allow=["write"])))
    result = await agent.run("Mend the test.")

Nothing here knows a provider, a store or a tool: those are ports (`steno.ports`).
"""

from steno.agent.agent import Agent
from steno.agent.approvers import AllowingApprover, CallbackApprover, DenyingApprover
from steno.agent.events import (
    Asked,
    CallEnded,
    CallOutput,
    CallStarted,
    LoopEvent,
    Notice,
    NoticeCode,
    Recorded,
    RunEnded,
    TurnStarted,
)
from steno.agent.gate import Gate
from steno.agent.interrupted import decide_later
from steno.agent.limits import Ending, Limits, RunResult
from steno.agent.permission import Permissions, Role
from steno.agent.rules import Rule
from steno.agent.runner import Runner
from steno.agent.steering import Steering
from steno.context import Target
from steno.ports import Approver, Capability, Question, Scope, Tool, ToolOutput, Verdict

__all__ = [
    "Agent",
    "AllowingApprover",
    "Approver",
    "Asked",
    "CallEnded",
    "CallOutput",
    "CallStarted",
    "CallbackApprover",
    "Capability",
    "DenyingApprover",
    "Ending",
    "Gate",
    "Limits",
    "LoopEvent",
    "Notice",
    "NoticeCode",
    "Permissions",
    "Question",
    "Recorded",
    "Role",
    "Rule",
    "RunEnded",
    "RunResult",
    "Runner",
    "Scope",
    "Steering",
    "Target",
    "Tool",
    "ToolOutput",
    "TurnStarted",
    "Verdict",
    "decide_later",
]
