"""Write a tool as a function and let an agent call it.

steno checks the arguments; the tool reports progress, returns JSON, or fails with a message.
"""

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
    """A note on a topic."""

    topic: str
    text: str


@tool(capability=Capability.WRITE, subjects=lambda note: [note.topic])
def remember(context: ToolContext, note: Note) -> dict[str, int]:
    """Store a note."""
    if not note.text.strip():
        raise ToolFailed("remember: the note is empty; pass the text to remember")
    notes.append(f"{note.topic}: {note.text}")
    context.report_output(f"stored under {note.topic}")
    return {"notes": len(notes)}


# The model makes three calls: a valid one, one with an empty note, and one without a text.
sent = ({"topic": "tea", "text": "no sugar"}, {"topic": "tea", "text": " "}, {"topic": "tea"})
calls = [ToolCall.create("remember", {"note": note}, id=f"c{n}") for n, note in enumerate(sent, 1)]
provider = ScriptedProvider([ChatMessage.assistant(None, calls), "I stored one note."])
gate = Gate(Permissions.of(allow=["remember"]))  # a tool that only reads needs no rule
agent = Agent(provider, Conversation(), tools=[remember], gate=gate)


def show(event: LoopEvent) -> None:
    if isinstance(event, CallOutput):
        print("output:", event.text)
    elif isinstance(event, CallEnded):
        print(f"{event.call.id}: {event.result.outcome}: {event.result.text}")


print("parameters:", *remember.definition.parameters["properties"])
print(asyncio.run(agent.run("Remember how I like my tea.", on_event=show)).text)
print("notes:", notes)
