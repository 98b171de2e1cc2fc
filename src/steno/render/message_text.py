"""Messages and resolved references as human-readable text.

The details of a resolution are read from a log and may have any type; details of a wrong type are
ignored. All returned text is printable. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from steno.inputs.ocr.engine import format_confidence
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.message import AssistantMessage, Message, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Entry, Resolution, ResolutionStatus
from steno.render.describe import (
    describe_decider,
    describe_opaque,
    describe_origin,
    describe_reference,
    describe_unusual_stop,
    entry_type,
    payload_type,
    reference_name,
    referenced_block,
    thinking_text,
    tool_label,
)
from steno.render.quantities import format_count, format_time
from steno.render.table_output import StyledText
from steno.render.terminal_text import terminal_line, terminal_text

ROLE_STYLES: Final = {
    "system": "magenta",
    "user": "bold blue",
    "assistant": "bold green",
    "tool_result": "bold cyan",
}
"""The style of the heading of each kind of message."""
_HASH_LENGTH: Final = 8
_NO_DETAILS: Final[Mapping[str, Any]] = {}


# -- messages ---------------------------------------------------------------------------------


def entry_heading(entry: Entry, *, number: str, tools: Sequence[str]) -> list[StyledText]:
    """Return the heading of an entry with its number, type, outcome, time and origin.

    `tools` contains the names of the tools whose calls the entry concerns.
    """
    message = entry.message
    style = "dim" if message is None else ROLE_STYLES[payload_type(message)]
    pieces: list[StyledText] = [(f"{number} ", "dim"), (entry_type(entry), style)]
    if isinstance(message, ToolResultMessage):
        tool = terminal_line(", ".join(tools))
        duration = "" if message.duration_s is None else f" {message.duration_s:.2f} s"
        style = "green" if message.outcome is Outcome.OK else "red"
        pieces.append(f" {f'{tool} ({terminal_line(message.tool_call_id)})'.lstrip()} ")
        pieces.append((f"{message.outcome}{duration}", style))
    pieces.append((f"  {format_time(entry.time) or '-'}", "dim"))
    facts = " ".join(filter(None, [terminal_line(entry.decision or ""), *describe_origin(entry)]))
    if facts and not describe_decider(entry.payload):  # else the description names the decider
        pieces.append((f"  [{facts}]", "dim"))
    return pieces


class StyledParagraph(NamedTuple):
    """A part of an entry as text in one style."""

    text: str
    style: str = ""
    is_detail: bool = False
    """Whether the paragraph is a detail, which is truncated to fewer lines."""
    is_secondary: bool = False
    """Whether a summary omits the paragraph, such as thinking or a traceback."""


def message_paragraphs(message: Message) -> Iterator[StyledParagraph]:
    """Yield one paragraph per block of a message, then its failure or unusual stop reason.

    Empty blocks are omitted.
    """
    for block in message.content:
        paragraph = block_paragraph(block)
        if isinstance(message, ToolResultMessage):
            paragraph = paragraph._replace(is_detail=True)
        if paragraph.text:
            yield paragraph
    if isinstance(message, ToolResultMessage) and message.failure is not None:
        failure = message.failure
        if failure.message != message.text:
            yield StyledParagraph(terminal_text(failure.message), "red")
        if failure.traceback:
            yield StyledParagraph(
                terminal_text(failure.traceback), "dim", is_detail=True, is_secondary=True
            )
    if isinstance(message, AssistantMessage) and (stopped := describe_unusual_stop(message)):
        yield StyledParagraph(f"[{stopped}]", "yellow")


def block_paragraph(block: Block) -> StyledParagraph:
    """Return a block of a message as a paragraph."""
    match block:
        case Text():
            return StyledParagraph(terminal_text(block.text))
        case Thinking():
            return StyledParagraph(thinking_text(block), "dim", is_detail=True, is_secondary=True)
        case ToolCall() | InvalidToolCall():
            return _call_paragraph(block)
        case Image(source=ImageBlob(sha256=sha256)):
            return StyledParagraph(f"[{describe_reference(block)}, sha256 {sha256}]", "cyan")
        case Image() | FileReference():
            return StyledParagraph(f"[{describe_reference(block)}]", "cyan")
        case Resource():
            text = f"\n{terminal_text(block.text)}" if block.text else ""
            return StyledParagraph(f"[{describe_reference(block)}]{text}", "cyan", is_detail=True)
        case Opaque():
            return StyledParagraph(f"[{describe_opaque(block)}]", "dim", is_secondary=True)
        case _:
            assert_never(block)


def _call_paragraph(call: ToolCall | InvalidToolCall) -> StyledParagraph:
    name = f"→ {tool_label(call)} ({terminal_line(call.id)})"
    shown = f"{name} {terminal_text(call.arguments)}"
    if isinstance(call, ToolCall):
        return StyledParagraph(shown, "green", is_detail=True)
    reason = terminal_line(call.reason)
    return StyledParagraph(f"{shown} [invalid: {reason}]", "red", is_detail=True)


# -- resolutions ------------------------------------------------------------------------------


class ResolutionFacts(NamedTuple):
    """The recorded properties of a resolved reference."""

    method: str = ""
    """How the content was obtained, such as `lines 1-2 of 40, utf-16-le`, `vision`, `cache` or
    `ocr rapidocr 3.10.0 0.97 de`.
    """
    size: int | None = None
    sha256: str = ""

    @property
    def short_hash(self) -> str:
        """The first digits of the SHA-256."""
        return self.sha256[:_HASH_LENGTH]


def resolution_facts(details: Mapping[str, Any] | None) -> ResolutionFacts:
    """Return the properties of a resolved reference, as far as the details contain them."""
    details = details or _NO_DETAILS
    size, sha256 = _int_detail(details, "bytes"), _text_detail(details, "sha256")
    match details.get("kind"):
        case "file":
            encoding = _text_detail(details, "encoding")
            suffix = "" if encoding in ("", "utf-8") else f", {encoding}"
            return ResolutionFacts(_describe_lines(details) + suffix, size, sha256)
        case "folder":
            omitted = _int_detail(details, "left_out")
            names = format_count(omitted or 0, "more name", "more names")
            omission = f", {names} left out" if omitted else ""
            return ResolutionFacts(f"listing{omission}", None, sha256)
        case "pattern":
            listed: Any = details.get("files")
            listed = listed if isinstance(listed, list | tuple) else ()
            files = [file for file in listed if isinstance(file, Mapping)]
            size = sum([_int_detail(file, "bytes") or 0 for file in files])
            return ResolutionFacts(format_count(len(files), "file", "files"), size)
        case "image":
            used, engine = _text_detail(details, "used"), _text_detail(details, "engine")
            language = _text_detail(details, "language")
            facts = [used, engine, _format_confidence(details), language]
            return ResolutionFacts(" ".join(filter(None, facts)), size, sha256)
        case "resource":
            shortened = ", shortened" if details.get("shortened") else ""
            method = "cache" if details.get("from_cache") is True else "read"
            return ResolutionFacts(method + shortened, size, sha256)
        case _:
            return ResolutionFacts("", size, sha256)


def describe_resolution(message: object, resolution: Resolution) -> str:
    """Describe how a block of a message was resolved.

    If the block was not resolved, return its status and the error.
    """
    name = f"block {resolution.block}"
    block = referenced_block(message, resolution)
    if block is not None:
        name += f": {reference_name(block, with_size=False)}"
    if resolution.status is not ResolutionStatus.RESOLVED:
        error = "" if resolution.error is None else f": {terminal_text(resolution.error)}"
        return f"{name}: {resolution.status}{error}"
    facts = ", ".join(_describe_details(resolution.details or _NO_DETAILS))
    return f"{name}: {facts or resolution.status}"


def _describe_details(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield the properties of a resolved reference as texts, in more detail than for a table."""
    facts = resolution_facts(details)
    if details.get("used") == "ocr":
        yield f"text recognised by {_text_detail(details, 'engine') or 'OCR'}"
        if confidence := _format_confidence(details):
            yield f"confidence {confidence}"
        if language := _text_detail(details, "language"):
            yield language
    elif facts.method:
        yield facts.method
    if facts.size is not None:
        yield format_count(facts.size, "byte", "bytes")
    if facts.sha256:
        yield f"sha256 {facts.short_hash}…"
    if fallback := _text_detail(details, "fallback"):
        yield f"because {fallback}"


def _describe_lines(details: Mapping[str, Any]) -> str:
    first, last = _int_detail(details, "first_line"), _int_detail(details, "last_line")
    count = _int_detail(details, "lines")
    if count is None:
        return ""
    if first is None or last is None:
        return "empty"
    if (first, last) == (1, count):
        return format_count(count, "line", "lines")
    line_range = f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"
    return f"{line_range} of {count:,}"


def _format_confidence(details: Mapping[str, Any]) -> str:
    value = details.get("confidence")
    # A confidence is between 0 and 1; a forged, huge integer could not be formatted.
    return format_confidence(value) if isinstance(value, float | int) and 0 <= value <= 1 else ""


def _text_detail(details: Mapping[str, Any], name: str) -> str:
    value = details.get(name)
    return terminal_line(value) if isinstance(value, str) else ""


def _int_detail(details: Mapping[str, Any], name: str) -> int | None:
    value = details.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
