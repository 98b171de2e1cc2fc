"""Make a tool of a function, and call it as a model would: with JSON, and an eye on what may fail."""

import asyncio
from dataclasses import dataclass

from steno import Text, ToolCall
from steno.errors import ToolFailed
from steno.tools import Capability, Stage, tool

notes: list[str] = []


@dataclass
class Note:
    """What is worth knowing later."""

    topic: str
    text: str


@tool(capability=Capability.WRITE, subjects=lambda note: [note.topic])
def remember(stage: Stage, note: Note) -> dict[str, int]:
    """Write down a note for later."""
    if not note.text.strip():
        raise ToolFailed("remember: the note is empty; say what should be remembered")
    notes.append(f"{note.topic}: {note.text}")
    stage.say(f"noted under {note.topic}")
    return {"notes": len(notes)}


class Console:
    """What a tool has around it while it runs; an agent brings its own."""

    def say(self, text: str) -> None:
        """Show what happens meanwhile."""
        print("  ...", text)

    def keep(self, data: bytes) -> str:
        """Keep the whole of a long output; there is none here."""
        raise NotImplementedError

    def recall(self, sha256: str) -> bytes:
        """Return what was kept."""
        raise NotImplementedError


print("parameters:", *remember.definition.parameters["properties"])
for note in ({"topic": "tea", "text": "no sugar"}, {"topic": "tea", "text": " "}, {"topic": "tea"}):
    call = ToolCall.create("remember", {"note": note})
    if problems := remember.definition.check(call):
        print("refused:", *problems)
        continue
    print(f"{remember.capability} about {remember.subjects(call)}")
    try:
        output = asyncio.run(remember.run(call, Console()))
        print("  result:", *[block.text for block in output.content if isinstance(block, Text)])
    except ToolFailed as failure:
        print("  failed:", failure)
