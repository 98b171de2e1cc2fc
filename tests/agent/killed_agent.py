"""An agent in a process of its own, that is killed in the middle.

    python tests/agent/killed_agent.py STORE SESSION URL

It prints what it does, a line each: `asked` where an approval is needed,
`begun NAME` where a tool begins, `received TEXT` where the model responds. Approvals and tools called
`hang…` never come to an end.
"""

from __future__ import annotations

import asyncio
import sys

from steno import TextDelta
from steno.agent import (
    Agent,
    ApprovalRequest,
    ApprovalRequested,
    CallbackApprover,
    CallStarted,
    Gate,
    LoopEvent,
)
from steno.messages.call import ToolCall
from steno.ports import Capability, ToolContext
from steno.providers import HttpProvider, Vendor
from steno.store import open_store
from steno.testing import ScriptedTool


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def watch(event: LoopEvent) -> None:
    if isinstance(event, ApprovalRequested):
        report("asked")
    elif isinstance(event, CallStarted):
        report(f"begun {event.call.name}")
    elif isinstance(event, TextDelta):
        report(f"received {event.text}")


async def hang(call: ToolCall, stage: ToolContext) -> str:
    return await asyncio.Future()


async def decide(question: ApprovalRequest) -> bool:
    if question.call.name == "hang_asking":
        await asyncio.Future()
    return True


TOOLS = [
    ScriptedTool("read"),
    ScriptedTool("hang_reading", [hang]),
    ScriptedTool("hang_writing", [hang], capability=Capability.WRITE),
    ScriptedTool("hang_asking", capability=Capability.WRITE),
]


async def main(address: str, session: str, url: str) -> None:
    vendor = Vendor(name="lab", wire="openai_chat", base_url=url, needs_key=False)
    with open_store(address) as store:
        provider = HttpProvider(vendor, model="m")
        gate = Gate(approver=CallbackApprover(decide))
        agent = Agent(provider, store.open(session), tools=TOOLS, gate=gate)
        await agent.run("Go.", on_event=watch)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
