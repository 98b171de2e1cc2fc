"""Entries in words: who said it, what was said, called, returned, decided.

Everything here is printable; nothing here prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from steno.call import InvalidToolCall, ToolCall
from steno.cli.findings import finding_in_words
from steno.cli.log import Log
from steno.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageSource,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.entry import (
    Approval,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    Label,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    Rewind,
)
from steno.message import AssistantMessage, Message, ToolResultMessage
from steno.printable import on_one_line, printable
from steno.tui.call_head import head_of_call
from steno.usage import StopReason

_USUAL_STOPS = (None, StopReason.END_TURN, StopReason.TOOL_USE)


class Passage(NamedTuple):
    """Some lines of an entry that look alike."""

    text: str
    style: str = ""
    may_be_cut: bool = False
    """Whether it is there to be looked up, rather than to be read."""


def type_of(entry: Entry) -> str:
    """Return what an entry is, in one word."""
    payload = entry.payload
    if isinstance(payload, Opaque):
        return on_one_line(payload.kind) or "unknown"
    return str(payload.__struct_config__.tag)


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
            passage = passage._replace(may_be_cut=True)
        if passage.text:
            yield passage
    if isinstance(message, ToolResultMessage) and message.failure is not None:
        failure = message.failure
        if failure.message != message.text:
            yield Passage(printable(failure.message), "red")
        if failure.traceback:
            yield Passage(printable(failure.traceback), "dim", may_be_cut=True)
    if isinstance(message, AssistantMessage) and message.stop_reason not in _USUAL_STOPS:
        yield Passage(f"[stopped: {message.stop_reason}]", "yellow")


def _passage_of_block(block: Block) -> Passage:
    match block:
        case Text():
            return Passage(printable(block.text))
        case Thinking():
            text = "(taken out by the provider)" if block.redacted else printable(block.text)
            return Passage(text, "dim", may_be_cut=True)
        case ToolCall() | InvalidToolCall():
            return _passage_of_call(block)
        case Image():
            kind = on_one_line(block.mime_type or "image")
            return Passage(f"[{kind}: {_source(block.source)}]", "cyan")
        case FileReference():
            return Passage(f"[file: {on_one_line(block.path)}{_lines(block)}]", "cyan")
        case Resource():
            name = f"[resource: {on_one_line(block.server)} {on_one_line(block.uri)}]"
            text = f"{name}\n{printable(block.text)}" if block.text else name
            return Passage(text, "cyan", may_be_cut=True)
        case Opaque():
            return Passage(_not_understood(block), "dim")
        case _:
            assert_never(block)


def _not_understood(opaque: Opaque) -> str:
    kind = on_one_line(opaque.kind)
    return f"[not understood: {kind}]" if kind else "[not understood]"


def _passage_of_call(call: ToolCall | InvalidToolCall) -> Passage:
    if isinstance(call, ToolCall):
        name, problem, style = call.original_name or call.name, "", "green"
    else:
        name, problem, style = call.name, f" [invalid: {on_one_line(call.reason)}]", "red"
    arguments = printable(call.arguments)
    shown = f"→ {on_one_line(name)} ({on_one_line(call.id)}) {arguments}{problem}"
    return Passage(shown, style, may_be_cut=True)


def _source(source: ImageSource) -> str:
    match source:
        case ImageData():
            return f"{len(source.data):,} bytes"
        case ImageBlob():
            return f"{source.size:,} bytes, sha256 {source.sha256}"
        case ImageUrl():
            return on_one_line(source.url)
        case ImageFile():
            return on_one_line(source.path)
        case _:
            assert_never(source)


def _lines(block: FileReference) -> str:
    if block.start_line is None:
        return ""
    if block.end_line is None:
        return f", from line {block.start_line}"
    return f", lines {block.start_line} to {block.end_line}"


# -- everything else -------------------------------------------------------------------------


def remark_of(entry: Entry, log: Log) -> str:
    """Return what an entry says that is no message."""
    payload = entry.payload
    match payload:
        case ModeChange():
            return f"{payload.old} → {payload.new}"
        case BranchSwitch() | ModelChange():
            return f"{on_one_line(payload.old) or '?'} → {on_one_line(payload.new)}"
        case Rewind():
            place = "the beginning" if entry.parent is None else log.number(entry.parent)
            return f"goes on from {place}; {log.number(payload.left)} was the last"
        case Label():
            return f"{log.number(payload.target)} is {on_one_line(payload.text)}"
        case Compaction():
            return f"up to {log.number(payload.through)}: {printable(payload.summary)}"
        case Approval():
            return _approval(payload, log)
        case Resolution():
            about = log.entries.get(payload.target)
            told = finding_in_words(None if about is None else about.payload, payload)
            return f"{log.number(payload.target)}, {told}"
        case Feedback():
            return f"on {log.number(payload.target)}: {printable(payload.text)}"
        case Repair():
            return f"{on_one_line(payload.code)}: {printable(payload.explanation)}"
        case Redacted():
            return f"[taken out: {on_one_line(payload.kind)}]"
        case Redaction():
            target, actor = log.number(payload.target), on_one_line(payload.actor)
            return f"{target} was taken out by {actor}: {printable(payload.reason)}"
        case Opaque():
            return _not_understood(payload)
        case _:
            return printable(payload.text or "")


def _approval(approval: Approval, log: Log) -> str:
    call = log.calls.get(approval.call_id)
    about = on_one_line(approval.call_id) if call is None else head_of_call(call)
    by = "" if (name := decided_by(approval)) is None else f" by {name}"
    reason = "" if approval.reason is None else f": {printable(approval.reason)}"
    return f"{about}: {approval.status}{by}{reason}"


def decided_by(payload: Payload) -> str | None:
    """Return who or which rule decided, where a payload says so."""
    actor, rule = getattr(payload, "actor", None), getattr(payload, "rule", None)
    if actor is not None:
        return on_one_line(str(actor))
    return None if rule is None else f"rule {on_one_line(str(rule))}"
