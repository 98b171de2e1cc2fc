"""Approve or deny tool calls: with rules, or with a function, once or for the whole session.

The log records each decision before the call runs.
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
    """Return a call that the model makes."""
    return ToolCall.create("write", {"path": path, "content": "hello\n"}, id=path)


def decide(request: ApprovalRequest) -> ApprovalDecision:
    """Allow files in `src` for the whole session; a real program asks the user here."""
    paths = [subject.text for subject in request.subjects]
    print("  approval of", *paths, "- offered rule:", request.rule)
    if request.rule == "write(src/**)":
        return ApprovalDecision(
            allowed=True, actor="ada", scope=GrantScope.SESSION, rule=request.rule
        )
    return ApprovalDecision(allowed=False, actor="ada", reason="only files in src")


def show(event: LoopEvent) -> None:
    if isinstance(event, CallEnded):
        print(f"  {event.call.id}: {event.result.outcome}")


async def main(folder: Path) -> None:
    calls = [write("src/a.txt"), write("src/b.txt"), write("c.txt"), write("secret.txt")]
    turn = ChatMessage.assistant(None, calls)
    provider, conversation = ScriptedProvider([turn, "Done.", "I can only read."]), Conversation()
    gate = Gate(Permissions.of(deny=["write(secret*)"]), CallbackApprover(decide))
    async with Toolbox(Workspace([folder])) as toolbox:
        agent = Agent(provider, conversation, tools=toolbox.tools, gate=gate)
        print("act mode")
        await agent.run("Write four files.", on_event=show)
        print("plan mode")
        conversation.change_mode(Mode.PLAN)
        await agent.run("Write one more.", on_event=show)
        offered = [tool.name for tool in provider.requests[-1].tools]
        print("  offers read:", "read" in offered, "- offers write:", "write" in offered)
    print("recorded decisions")
    for entry in conversation.entries():
        payload = entry.payload
        if isinstance(payload, Approval) and payload.status is not ApprovalStatus.PENDING:
            by = payload.actor or f"rule {payload.rule}"
            print(f"  {payload.call_id:10} {payload.status:8} by {by}")


with TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
