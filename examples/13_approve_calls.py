"""Decide about calls: by rules, by a function that is asked, for once or for the whole session.

What is decided, and by whom, is on record before anything runs.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from steno import ChatMessage, Conversation, ToolCall
from steno.agent import Agent, CallbackApprover, CallEnded, Gate, LoopEvent, Permissions
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.records import Approval, ApprovalStatus, Mode
from steno.testing import ScriptedProvider
from steno.tools import Toolbox, Workspace


def write(path: str) -> ToolCall:
    """Return a call as a model would make it."""
    return ToolCall.create("write", {"path": path, "content": "hello\n"}, id=path)


def decide(question: ApprovalRequest) -> ApprovalDecision:
    """Say yes to files of `src`, for the whole session; a person could be asked here."""
    print("  asked about", *question.subjects, "- such as", question.rule)
    if question.rule == "write(src/**)":
        return ApprovalDecision(
            allowed=True, actor="ada", scope=GrantScope.SESSION, rule=question.rule
        )
    return ApprovalDecision(allowed=False, actor="ada", reason="only files of src, please")


def show(event: LoopEvent) -> None:
    if isinstance(event, CallEnded):
        print(f"  {event.call.id}: {event.result.outcome}")


async def main(folder: Path) -> None:
    calls = [write("src/a.txt"), write("src/b.txt"), write("c.txt"), write("secret.txt")]
    act = ChatMessage.assistant(None, calls)
    provider, conversation = ScriptedProvider([act, "Done.", "I only look."]), Conversation()
    permissions = Permissions.of(deny=["write(secret*)"])
    gate = Gate(permissions, CallbackApprover(decide))
    async with Toolbox(Workspace([folder])) as toolbox:
        agent = Agent(provider, conversation, tools=toolbox.tools, gate=gate)
        print("act mode")
        await agent.run("Write four files.", on_event=show)
        print("plan mode")
        conversation.change_mode(Mode.PLAN)
        await agent.run("One more.", on_event=show)
        print("  the model is told of", [tool.name for tool in provider.requests[-1].tools])
    print("on record")
    for entry in conversation.entries():
        payload = entry.payload
        if isinstance(payload, Approval) and payload.status is not ApprovalStatus.PENDING:
            by = payload.actor or f"rule {payload.rule}"
            print(f"  {payload.call_id:10} {payload.status:8} by {by}")


with TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
