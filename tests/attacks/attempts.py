"""Many attempts of a call in one agent, for races."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steno import ChatMessage, Conversation, ToolCall
from steno.agent import Agent, DenyingApprover, Gate, Limits, Permissions
from steno.messages.message import ToolResultMessage
from steno.testing import ScriptedProvider
from steno.tools import Toolbox, Workspace


async def call_many(
    rows: Sequence[dict[str, Any]], sandbox: Any, *, allow: Sequence[str] = ()
) -> None:
    """Run calls one after the other, and print their results."""
    calls = [
        ToolCall.create(
            row["tool"], {name: row[name] for name in row if name != "tool"}, id=f"c{number}"
        )
        for number, row in enumerate(rows)
    ]
    turns = [ChatMessage.assistant(None, [call]) for call in calls]
    conversation = Conversation()
    async with Toolbox(Workspace(Path.cwd()), sandbox=sandbox) as toolbox:
        agent = Agent(
            ScriptedProvider([*turns, "I am done."]),
            conversation,
            tools=toolbox.tools,
            gate=Gate(Permissions.of(allow=allow), DenyingApprover()),
            limits=Limits(turns=len(calls) + 1),
        )
        await agent.run("Do it.")
    for message in conversation.messages():
        if isinstance(message, ToolResultMessage):
            print(message.text)
