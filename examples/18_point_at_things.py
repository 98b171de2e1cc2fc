"""Attach files and images to a prompt, and read what the log records about them.

A model without vision receives the text of an image, which is recognised on this machine.
Needs an OCR engine: pip install 'steno-agent[ocr]'.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

from PIL import Image as Drawing
from PIL import ImageDraw, ImageFont

from steno import Conversation
from steno.agent import Agent, LoopEvent, ModelTarget, Notice
from steno.inputs import InputResolver
from steno.records import Resolution
from steno.testing import ScriptedProvider
from steno.tools import Workspace


def draw(path: Path, text: str) -> None:
    """Create an image that contains text, like a screenshot."""
    image = Drawing.new("RGB", (640, 100), "white")
    ImageDraw.Draw(image).text((20, 25), text, fill="black", font=ImageFont.load_default(40))
    image.save(path)


def show(event: LoopEvent) -> None:
    if isinstance(event, Notice):
        print("  notice:", event.text.partition(", by ")[0])


async def main(folder: Path) -> None:
    (folder / "prices.csv").write_text("tea,3\ncake,5\nwater,0\n", encoding="utf-8")
    draw(folder / "receipt.png", "Total 42 EUR")
    inputs = InputResolver(Workspace(folder))
    provider, conversation = (
        ScriptedProvider(["No, the sum is 8.", "The price of tea changed."]),
        Conversation(),
    )
    agent = Agent(provider, conversation, resolver=inputs, target=ModelTarget(vision=False))

    print("a prompt with two attachments")
    prompt = inputs.prompt("Does @prices.csv:1-2 explain @receipt.png?")
    await agent.run(prompt.message, on_event=show)
    print("the model receives")
    for block in provider.requests[0].messages[-1].content:
        print(indent(getattr(block, "text", "").strip(), "  "))

    print("the log records")
    for entry in conversation.entries():
        if isinstance(entry.payload, Resolution):
            details = dict(entry.payload.details or {})
            print("  ", entry.payload.status, details["kind"], details.get("used", ""))

    print("a missing file")
    result = await agent.run(inputs.prompt("And @missing.csv?").message, on_event=show)
    print("  ", result.end_reason, "-", result.reason)
    print("   requests so far:", len(provider.requests))

    print("a changed file")
    (folder / "prices.csv").write_text("tea,4\n", encoding="utf-8")
    await agent.run("Check the sum again.", on_event=show)


with TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
