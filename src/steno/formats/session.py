"""Session files of version 1: a system prompt, messages with their times, tool calls as blocks.

Reading is the codec's business. Of what it reads, this file keeps what version 1 could write in
another way (times in a zone or to the nanosecond, members that are missing, reasons to stop that
we have no name for), and so writes a file that was read as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, assert_never

from msgspec.structs import replace

from steno.call import AnyToolCall, InvalidToolCall, ToolCall, outside_name
from steno.codec import decode_document
from steno.content import (
    OWN_FORMAT,
    Block,
    FileReference,
    Image,
    ImageData,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.entry import Entry
from steno.errors import InvalidDocument
from steno.formats.documents import Written, note_differences, theirs
from steno.formats.format import Exported, Imported, in_line
from steno.formats.losses import Losses, Words
from steno.formats.text import (
    Object,
    array_at,
    differences,
    object_at,
    object_text,
    put_back,
    read_input,
    unknown_names,
    words_of_others,
    write,
    write_array,
    write_object,
    write_time,
)
from steno.identity import new_id
from steno.message import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from steno.outcome import Outcome
from steno.record import Header
from steno.usage import Usage

NAME: Final = "session"

_WORDS: Final[Words] = {
    SystemMessage: frozenset({"content", "unknown"}),
    UserMessage: frozenset({"content", "unknown"}),
    AssistantMessage: frozenset({"content", "stop_reason", "raw_stop_reason", "usage", "unknown"}),
    ToolResultMessage: frozenset({"tool_call_id", "tool_name", "content", "outcome", "unknown"}),
    Usage: frozenset({"input_tokens", "output_tokens", "unknown"}),
    Text: frozenset({"text", "unknown"}),
    Thinking: frozenset({"text", "unknown"}),
    Image: frozenset({"source", "mime_type", "unknown"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments", "unknown"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason", "unknown"}),
    Opaque: frozenset(Opaque.__struct_fields__),
}


# -- reading ---------------------------------------------------------------------------------


def decode(data: bytes) -> Imported:
    """Read a session file of version 1. Raises InvalidDocument if it is anything else."""
    raw = read_input(data)
    original = object_at(raw, "session file")
    if original.get("version") != b"1":
        raise InvalidDocument("session file: version must be 1")
    parts = array_at(original.pop("messages", b"[]"), "messages")
    document = decode_document(raw)
    before = document.entries[: len(document.entries) - len(parts)]
    # A prompt that says nothing stays in the header, as it was.
    entries = [entry for entry in before if isinstance(entry.payload, SystemMessage)]
    entries += map(_kept_entry, document.entries[len(before) :], parts)
    found = in_line(entries)
    header = Header(id=document.id or new_id(), created_at=document.created_at)
    kept = differences(original, _head(header, found))
    about = {NAME: {"members": kept, "entries": len(found)}}
    return Imported(replace(header, about=about) if kept else header, found)


def _kept_entry(entry: Entry, raw: bytes) -> Entry:
    """Keep what would be written in another way than it was."""
    message = entry.message
    if message is None:
        return theirs(entry, raw, NAME)
    unknown = unknown_names(message.unknown)
    original = {
        name: value for name, value in object_at(raw, "message").items() if name not in unknown
    }
    kept = differences(original, _message(message, entry.time))
    return replace(entry, audit={NAME: kept}) if kept else entry


# -- writing ---------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> Exported:
    """Write a session file of version 1."""
    losses = Losses(NAME, _WORDS)
    losses.add_header(header, frozenset({"id", "created_at"}))
    if any(entry.id != f"m{number}" for number, entry in enumerate(entries, start=1)):
        losses.add("entries", "left out: their ids, and the time of the system prompt")
    prompt = _prompt(entries)
    written: list[Written] = []
    parts: list[bytes] = []
    for number, entry in enumerate(entries):
        place = f"entries[{number}]"
        if entry is not prompt:
            part = _part(entry)
            if part is None:
                losses.add_omitted(place, [str(entry.payload.__struct_config__.tag)])
                continue
            parts.append(part)
        has_loss = losses.add_omitted(place, _unsaid(entry, losses))
        written.append(Written(place, entry.payload, has_loss))
    head = _as_it_was(_head(header, entries), header, entries)
    data = write_object(head | {"messages": write_array(parts)})
    note_differences(written, decode(data).entries, losses)
    return Exported(data, losses.result())


def _unsaid(entry: Entry, losses: Losses) -> list[str]:
    """Return what of an entry has no words in version 1."""
    names = losses.omitted_of_entry(entry)
    message = entry.message
    if message is not None:
        names += losses.omitted_of_message(message)
    if isinstance(message, ToolResultMessage) and message.outcome not in _OUTCOMES:
        names.append(f"outcome ({message.outcome}, told as an error)")
    return names


_OUTCOMES: Final = (Outcome.OK, Outcome.ERROR)


def _prompt(entries: Sequence[Entry]) -> Entry | None:
    """Return the entry that is the system prompt, unless it was a message in the file."""
    first = entries[0] if entries else None
    if first is None or not isinstance(first.payload, SystemMessage):
        return None
    return None if NAME in (first.audit or {}) else first


def _head(header: Header, entries: Sequence[Entry]) -> Object:
    prompt = _prompt(entries)
    message = None if prompt is None else prompt.message
    return {
        "version": b"1",
        "id": write(header.id),
        "system_prompt": write("" if message is None else message.text),
        "created_at": write_time(header.created_at),
        "updated_at": write_time(_latest(entries) or header.created_at),
    }


def _latest(entries: Iterable[Entry]) -> datetime | None:
    return max((entry.time for entry in entries if entry.time is not None), default=None)


def _as_it_was(head: Object, header: Header, entries: Sequence[Entry]) -> Object:
    """Put back what the file said, but for what later entries have overtaken."""
    about = (header.about or {}).get(NAME)
    kept = about.get("members") if isinstance(about, Mapping) else None
    if not isinstance(about, Mapping) or not isinstance(kept, Mapping):
        return head
    overtaken = {"version", "messages"}
    if about.get("entries") != len(entries):
        overtaken.add("updated_at")
    if _prompt(entries) is not None:
        overtaken.add("system_prompt")
    still = {name: text for name, text in kept.items() if name not in overtaken}
    return put_back(head, still) or head


# -- messages --------------------------------------------------------------------------------


def _part(entry: Entry) -> bytes | None:
    """Write one message; None for what version 1 has no words for."""
    message = entry.message
    if message is None:
        return words_of_others(entry.payload, NAME)
    plain = _message(message, entry.time)
    restored = put_back(plain, (entry.audit or {}).get(NAME))
    if restored is not None:
        raw = write_object(restored, message.unknown)
        if _is_meant(raw, entry):
            return raw
    return write_object(plain, message.unknown) if plain else None


def _is_meant(raw: bytes, entry: Entry) -> bool:
    """Tell whether a message still says what the entry says."""
    found = decode_document(b'{"version":1,"messages":[' + raw + b"]}").entries[0]
    return (found.payload, found.time) == (entry.payload, entry.time)


def _message(message: Message, time: datetime | None) -> Object:
    """Return the members of a message; none where there is nothing that can be said."""
    blocks = [block for block in map(_block, message.content) if block is not None]
    content = write_array(blocks)
    timestamp = write_time(time)
    match message:
        case SystemMessage():
            return {}
        case UserMessage():
            if not blocks:
                return {}
            return {"type": b'"user"', "content": content, "timestamp": timestamp}
        case AssistantMessage():
            usage = message.usage
            return {
                "type": b'"assistant"',
                "content": content,
                "stop_reason": write(message.stop_reason or ""),
                "raw_stop_reason": write(message.raw_stop_reason or ""),
                **({} if usage is None else {"usage": _usage(usage)}),
                "timestamp": timestamp,
            }
        case ToolResultMessage():
            return {
                "type": b'"tool_result"',
                "tool_call_id": write(message.tool_call_id),
                "tool_name": write(message.tool_name),
                "content": content,
                "is_error": write(message.is_error),
                "timestamp": timestamp,
            }
        case _:
            assert_never(message)


def _usage(usage: Usage) -> bytes:
    """Write the counts that were reported."""
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    known = {name: write(count) for name, count in counts.items() if count is not None}
    return write_object(known, usage.unknown)


def _block(block: Block) -> bytes | None:
    match block:
        case Text():
            members = {"type": b'"text"', "text": write(block.text)}
        case Thinking():
            members = {"type": b'"thinking"', "thinking": write(block.text)}
        case Image():
            if not isinstance(block.source, ImageData):
                return None
            members = {
                "type": b'"image"',
                "data": write(block.source.data),
                "mime_type": write(block.mime_type),
            }
        case ToolCall() | InvalidToolCall():
            members = _call(block)
        case Opaque():
            return block.raw.encode() if block.origin == OWN_FORMAT else None
        case FileReference() | Resource():
            return None
        case _:
            assert_never(block)
    return write_object(members, block.unknown)


def _call(call: AnyToolCall) -> Object:
    arguments = object_text(call.arguments)
    return {
        "type": b'"tool_call"',
        "id": write(call.id),
        "name": write(outside_name(call)),
        "arguments": write(call.arguments) if arguments is None else arguments,
    }
