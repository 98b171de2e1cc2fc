"""Entries in words: who said it, what was said, called, returned, decided.

Everything here is printable; nothing here prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from steno.call import InvalidToolCall, ToolCall, outside_name
from steno.captions import Told, called, not_understood, thoughts_of, told_of, unusual_stop
from steno.cli.findings import finding_in_words
from steno.cli.log import Log
from steno.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.entry import Entry, Resolution
from steno.message import AssistantMessage, Message, ToolResultMessage
from steno.printable import on_one_line, printable
from steno.tui.call_head import head_of_call

SPEAKERS: Final = {
    "system": "magenta",
    "user": "bold blue",
    "assistant": "bold green",
    "tool_result": "bold cyan",
}
"""How it looks who speaks."""


class Passage(NamedTuple):
    """Some lines of an entry that look alike."""

    text: str
    style: str = ""
    is_detail: bool = False
    """Whether it is there to be looked up, rather than to be read."""


def gist_of(entry: Entry, log: Log) -> str:
    """Return what an entry says, on one line."""
    if isinstance(entry.payload, Message):
        passages = map(_passage_of_block, entry.payload.content)
        words = [on_one_line(passage.text) for passage in passages if passage.style != "dim"]
        return " ".join(filter(None, words))
    return on_one_line(remark_of(entry, log))


# -- messages --------------------------------------------------------------------------------


def passages_of(message: Message) -> Iterator[Passage]:
    """Return what a message says, part by part."""
    for block in message.content:
        passage = _passage_of_block(block)
        if isinstance(message, ToolResultMessage):
            passage = passage._replace(is_detail=True)
        if passage.text:
            yield passage
    if isinstance(message, ToolResultMessage) and message.failure is not None:
        failure = message.failure
        if failure.message != message.text:
            yield Passage(printable(failure.message), "red")
        if failure.traceback:
            yield Passage(printable(failure.traceback), "dim", is_detail=True)
    if isinstance(message, AssistantMessage) and (stopped := unusual_stop(message)):
        yield Passage(f"[{stopped}]", "yellow")


def _passage_of_block(block: Block) -> Passage:
    match block:
        case Text():
            return Passage(printable(block.text))
        case Thinking():
            return Passage(thoughts_of(block), "dim", is_detail=True)
        case ToolCall() | InvalidToolCall():
            return _passage_of_call(block)
        case Image(source=ImageBlob(sha256=sha256)):
            return Passage(f"[{called(block)}, sha256 {sha256}]", "cyan")
        case Image() | FileReference():
            return Passage(f"[{called(block)}]", "cyan")
        case Resource():
            text = f"\n{printable(block.text)}" if block.text else ""
            return Passage(f"[{called(block)}]{text}", "cyan", is_detail=True)
        case Opaque():
            return Passage(f"[{not_understood(block)}]", "dim")
        case _:
            assert_never(block)


def _passage_of_call(call: ToolCall | InvalidToolCall) -> Passage:
    shown = (
        f"→ {on_one_line(outside_name(call))} ({on_one_line(call.id)}) {printable(call.arguments)}"
    )
    if isinstance(call, ToolCall):
        return Passage(shown, "green", is_detail=True)
    return Passage(f"{shown} [invalid: {on_one_line(call.reason)}]", "red", is_detail=True)


# -- everything else -------------------------------------------------------------------------


def remark_of(entry: Entry, log: Log) -> str:
    """Return what an entry says that is no message."""

    def call(call_id: str) -> str:
        known = log.calls.get(call_id)
        return on_one_line(call_id) if known is None else head_of_call(known)

    def found(resolution: Resolution) -> Told:
        target = log.entries.get(resolution.target)
        told = finding_in_words(None if target is None else target.payload, resolution)
        return Told(f"{log.number(resolution.target)}, {told}")

    return ": ".join(filter(None, told_of(entry, number=log.number, call=call, found=found)))
