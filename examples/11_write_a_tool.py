"""Make a tool of a function, and let an agent use it: with JSON, and an eye on what may fail."""

import asyncio
from dataclasses import dataclass

from steno import ChatMessage, Conversation, ToolCall
from steno.agent import Agent, CallEnded, CallOutput, Gate, LoopEvent, Permissions
from steno.errors import ToolFailed
from steno.testing import ScriptedProvider
from steno.tools import Capability, ToolContext, tool

notes: list[str] = []


@dataclass
class Note:
    """What is worth knowing later."""

    topic: str
    text: str


@tool(capability=Capability.WRITE, subjects=lambda note: [note.topic])
def remember(context: ToolContext, note: Note) -> dict[str, int]:
    """Write down a note for later."""
    if not note.text.strip():
        raise ToolFailed("remember: the note is empty; say what should be remembered")
    notes.append(f"{note.topic}: {note.text}")
    context.report_output(f"noted under {note.topic}")
    return {"notes": len(notes)}


said = ({"topic": "tea", "text": "no sugar"}, {"topic": "tea", "text": " "}, {"topic": "tea"})
calls = [ToolCall.create("remember", {"note": note}, id=f"c{n}") for n, note in enumerate(said, 1)]
provider = ScriptedProvider([ChatMessage.assistant(None, calls), "Noted."])
gate = Gate(Permissions.of(allow=["remember"]))  # what only reads would need no rule
agent = Agent(provider, Conversation(), tools=[remember], gate=gate)


def watch(event: LoopEvent) -> None:
    if isinstance(event, CallOutput):
        print("  ...", event.text)
    elif isinstance(event, CallEnded):
        print(f"{event.call.id}: {event.result.outcome}: {event.result.text}")


print("parameters:", *remember.definition.parameters["properties"])
print(asyncio.run(agent.run("Remember how I like my tea.", on_event=watch)).text)
print(notes)
