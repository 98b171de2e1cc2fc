"""Run a model with tools: send requests, check and run its calls, and record everything.

    from steno.agent import Agent, Gate, Permissions

    agent = Agent(provider, conversation, tools=tools, gate=Gate(Permissions.of(allow=["write"])))
    result = await agent.run("Fix the test.")

Providers, stores and tools are protocols (`steno.ports`); this package imports none of their
implementations.
"""

from steno.agent.agent import Agent
from steno.agent.dispatch import Runner
from steno.agent.events import (
    ApprovalRequested,
    CallEnded,
    CallOutput,
    CallStarted,
    ContextChanged,
    EndReason,
    EntryRecorded,
    LoopEvent,
    Notice,
    NoticeKind,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.agent.permissions.gate import (
    AllowingApprover,
    CallbackApprover,
    DenyingApprover,
    Gate,
    decide_later,
)
from steno.agent.permissions.rules import AgentRole, AutoRun, PermissionRule, Permissions
from steno.agent.results import ResultCode
from steno.agent.run_config import Limits
from steno.agent.steering import PromptInput, SteeringPolicy
from steno.context import ModelTarget
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    Approver,
    Capability,
    GrantScope,
    Tool,
    ToolOutput,
)

__all__ = [
    "Agent",
    "AgentRole",
    "AllowingApprover",
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalRequested",
    "Approver",
    "AutoRun",
    "CallEnded",
    "CallOutput",
    "CallStarted",
    "CallbackApprover",
    "Capability",
    "ContextChanged",
    "DenyingApprover",
    "EndReason",
    "EntryRecorded",
    "Gate",
    "GrantScope",
    "Limits",
    "LoopEvent",
    "ModelTarget",
    "Notice",
    "NoticeKind",
    "PermissionRule",
    "Permissions",
    "PromptInput",
    "ResultCode",
    "RunEnded",
    "RunResult",
    "Runner",
    "SteeringPolicy",
    "Tool",
    "ToolOutput",
    "TurnStarted",
    "decide_later",
]
