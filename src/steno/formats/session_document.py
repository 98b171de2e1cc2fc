"""Import and export session files of version 1.

A file has a system prompt and messages with times; tool calls are content blocks. It may also be
the array of the messages or a single message. The codec reads the file. This module preserves
members that steno would write differently (times with a UTC offset or nanoseconds, missing members,
unknown stop reasons), so that an imported file is exported unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from msgspec.structs import replace

from steno.codec import decode_document
from steno.codec.json_scanner import split_array, split_object
from steno.errors import InvalidDocument
from steno.formats.format import (
    ExportedFile,
    ExportLossCollector,
    ImportedSession,
    SupportedFields,
    WrittenEntry,
    add_differences,
    derive_session_id,
    link_entries,
    type_name,
)
from steno.formats.json_text import (
    JsonMembers,
    arguments_object,
    changed_members,
    decode_messages_of_file,
    foreign_json,
    opaque_entry,
    parse_array,
    parse_object,
    read_json_file,
    restore_members,
    unknown_names,
    write_array,
    write_json,
    write_object,
    write_time,
)
from steno.log.queries import as_version_2, calls_by_entry, result_tool_name
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.content import (
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
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.usage import Usage
from steno.records.entry import Entry
from steno.records.stored_record import Header

NAME: Final = "session"

_FORM_KEY: Final = "form"
"""The key, in the header, for the form of a file that is not an object with messages."""
_LIST: Final = "list"
_SINGLE: Final = "single"
_MESSAGE_PLACES: Final = {None: "$.messages[{}]", _LIST: "$[{}]", _SINGLE: "$"}
"""The place of a message in a file of each form, with `{}` for its number."""

_SUPPORTED_FIELDS: Final[SupportedFields] = {
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


def decode(data: bytes) -> ImportedSession:
    """Read a session file of version 1, an array of its messages, or a single message.

    Raises InvalidDocument if the file is none of these.
    """
    file = read_json_file(data)
    form, raw = _wrap_messages(file.raw.strip())
    original = parse_object(raw, "session file")
    if original.get("version") != b"1":
        raise InvalidDocument("version must be 1", code="invalid_version", place="session file")
    parts = parse_array(original.pop("messages", b"[]"), "messages")
    document = decode_messages_of_file(file, raw, _MESSAGE_PLACES[form])
    leading = len(document.entries) - len(parts)
    # An empty system prompt is not an entry; `about` in the header preserves it.
    entries = [e for e in document.entries[:leading] if isinstance(e.payload, SystemMessage)]
    calls = calls_by_entry(document.entries)
    entries += map(partial(_with_original_members, calls), document.entries[leading:], parts)
    found = link_entries(entries)
    session = document.id or derive_session_id(NAME, data)
    header = Header(id=session, created_at=document.created_at)
    if form is not None:
        return ImportedSession(replace(header, about={NAME: {_FORM_KEY: form}}), found)
    changed = changed_members(original, _session_members(header, found))
    about = {NAME: {"members": changed, "entries": len(found)}}
    return ImportedSession(replace(header, about=about) if changed else header, found)


def _wrap_messages(raw: bytes) -> tuple[str | None, bytes]:
    """Return the form of a file, and the file as a session file.

    The form is None if the file is not an array of messages or a single message.
    """
    parts = split_array(raw)
    messages = [raw] if parts is None else parts
    names = [{member.name for member in split_object(message) or ()} for message in messages]
    is_document = parts is None and not names[0].isdisjoint({"version", "messages"})
    if is_document or not any("type" in members for members in names):
        return None, raw
    form = _SINGLE if parts is None else _LIST
    return form, write_object({"version": b"1", "messages": write_array(messages)})


def _with_original_members(calls: Mapping[str, AnyToolCall], entry: Entry, raw: bytes) -> Entry:
    """Add to the audit data the members of a message that steno would write differently."""
    message = entry.message
    if message is None:
        return opaque_entry(entry, raw, NAME)
    unknown = unknown_names(message.unknown)
    original = {
        name: value for name, value in parse_object(raw, "message").items() if name not in unknown
    }
    changed = changed_members(original, _message_members(entry, message, calls.get(entry.id)))
    return replace(entry, audit={NAME: changed}) if changed else entry


# -- writing ---------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    """Write a session file of version 1, with a loss for each part that it cannot express."""
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, _SUPPORTED_FIELDS)
    if any(entry.id != f"m{number}" for number, entry in enumerate(entries, start=1)):
        losses.add("ids_and_prompt_time", "entries")
    prompt = _find_system_prompt(entries)
    calls = calls_by_entry(entries)
    written: list[WrittenEntry] = []
    parts: list[bytes] = []
    for number, entry in enumerate(entries):
        place, payload, call = f"entries[{number}]", entry.payload, calls.get(entry.id)
        if entry is not prompt:
            part = _restore_original(entry, call)
            if part is None:
                part = _encode_entry(entry, call)
                if isinstance(payload, ToolResultMessage):
                    payload = replace(payload, tool_name=result_tool_name(payload, call))
            if part is None:
                losses.add_omitted(place, entry, [type_name(entry.payload)])
                continue
            parts.append(part)
        has_loss = losses.add_omitted(place, entry, losses.omitted_of_entry(entry))
        written.append(WrittenEntry(place, entry, payload, has_loss))
    form = _find_form(header, entries)
    data = parts[0] if form == _SINGLE and len(parts) == 1 else write_array(parts)
    # A list is not a session file if no message is left, as after a redaction.
    is_document = form is None or _wrap_messages(data)[0] is None
    if is_document:
        head = _restore_head(_session_members(header, entries), header, entries)
        data = write_object(head | {"messages": write_array(parts)})
    losses.add_header(header, frozenset({"id", "created_at"} if is_document else ()))
    add_differences(written, decode(data).entries, losses)
    return ExportedFile(data, losses.result())


def _find_form(header: Header, entries: Sequence[Entry]) -> str | None:
    """Return the form of the imported file; None if the export is an object with messages."""
    about = (header.about or {}).get(NAME)
    form = about.get(_FORM_KEY) if isinstance(about, Mapping) else None
    has_prompt = _find_system_prompt(entries) is not None
    return form if form in (_LIST, _SINGLE) and not has_prompt else None


def _find_system_prompt(entries: Sequence[Entry]) -> Entry | None:
    """Return the first entry if it is the system prompt, else None.

    A system message that was in `messages` of the imported file is not the system prompt.
    """
    first = entries[0] if entries else None
    if first is None or not isinstance(first.payload, SystemMessage):
        return None
    return None if NAME in (first.audit or {}) else first


def _session_members(header: Header, entries: Sequence[Entry]) -> JsonMembers:
    prompt = _find_system_prompt(entries)
    message = None if prompt is None else prompt.message
    latest = max((entry.time for entry in entries if entry.time is not None), default=None)
    return {
        "version": b"1",
        "id": write_json(header.id),
        "system_prompt": write_json("" if message is None else message.text),
        "created_at": write_time(header.created_at),
        "updated_at": write_time(latest or header.created_at),
    }


def _restore_head(head: JsonMembers, header: Header, entries: Sequence[Entry]) -> JsonMembers:
    """Return `head` with the members of the imported file restored.

    Members that later entries make outdated are not restored.
    """
    about = (header.about or {}).get(NAME)
    changed = about.get("members") if isinstance(about, Mapping) else None
    if not isinstance(about, Mapping) or not isinstance(changed, Mapping):
        return head
    outdated = {"version", "messages"}
    if about.get("entries") != len(entries):
        outdated.add("updated_at")
    if _find_system_prompt(entries) is not None:
        outdated.add("system_prompt")
    current = {name: text for name, text in changed.items() if name not in outdated}
    return restore_members(head, current) or head


# -- messages --------------------------------------------------------------------------------


def _restore_original(entry: Entry, call: AnyToolCall | None) -> bytes | None:
    """Write an imported message as it was in the file; None if it is new or was changed.

    `call` is the call that a result answers, if it is known.
    """
    message = entry.message
    if message is None:
        return None
    plain = _message_members(entry, message, call)
    restored = restore_members(plain, (entry.audit or {}).get(NAME))
    if restored is None:
        return None
    raw = write_object(restored, message.unknown)
    read = decode_document(b'{"version":1,"messages":[' + raw + b"]}").entries[0]
    return raw if (read.payload, read.time) == (entry.payload, entry.time) else None


def _encode_entry(entry: Entry, call: AnyToolCall | None) -> bytes | None:
    """Write the message of an entry; return None if version 1 cannot express it."""
    message = entry.message
    if message is None:
        return foreign_json(entry.payload, NAME)
    plain = _message_members(entry, message, call)
    return write_object(plain, message.unknown) if plain else None


def _message_members(entry: Entry, message: Message, call: AnyToolCall | None) -> JsonMembers:
    """Return the members of a message; empty if version 1 cannot express the message."""
    blocks = [block for block in map(_encode_block, message.content) if block is not None]
    content = write_array(blocks)
    timestamp = write_time(entry.time)
    match message:
        case SystemMessage():
            return {}
        case UserMessage():
            if not blocks:
                return {}
            return {"type": b'"user"', "content": content, "timestamp": timestamp}
        case AssistantMessage():
            members = {
                "type": b'"assistant"',
                "content": content,
                "stop_reason": write_json(message.stop_reason or ""),
                "raw_stop_reason": write_json(message.raw_stop_reason or ""),
            }
            if (usage := message.usage) is not None:
                counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
                known = {name: write_json(n) for name, n in counts.items() if n is not None}
                members["usage"] = write_object(known, usage.unknown)
            return members | {"timestamp": timestamp}
        case ToolResultMessage():
            return {
                "type": b'"tool_result"',
                "tool_call_id": write_json(message.tool_call_id),
                "tool_name": write_json(result_tool_name(message, call)),
                "content": content,
                "is_error": write_json(message.is_error),
                "timestamp": timestamp,
            }
        case _:
            assert_never(message)


def _encode_block(block: Block) -> bytes | None:
    match block:
        case Text():
            members = {"type": b'"text"', "text": write_json(block.text)}
        case Thinking():
            members = {"type": b'"thinking"', "thinking": write_json(block.text)}
        case Image():
            if not isinstance(block.source, ImageData):
                return None
            members = {
                "type": b'"image"',
                "data": write_json(block.source.data),
                "mime_type": write_json(block.mime_type),
            }
        case ToolCall() | InvalidToolCall():
            arguments = arguments_object(block.arguments)
            members = {
                "type": b'"tool_call"',
                "id": write_json(block.id),
                "name": write_json(original_tool_name(block)),
                "arguments": write_json(block.arguments) if arguments is None else arguments,
            }
        case Opaque():
            return block.raw.encode() if block.origin == OWN_FORMAT else None
        case FileReference() | Resource():
            return None
        case _:
            assert_never(block)
    return write_object(members, block.unknown)
