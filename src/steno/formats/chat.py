r"""Import and export flat chat lists with role, content, tool_calls and tool_call_id.

    [{"role": "user", "content": "Is it broken?"},
     {"role": "assistant", "content": null, "tool_calls": [
       {"id": "c1", "type": "function",
        "function": {"name": "run_tests", "arguments": "{\"path\": \"tests\"}"}}]},
     {"role": "tool", "tool_call_id": "c1", "content": "3 passed"}]

The codec reads the list. It also accepts calls without `function`, arguments that are objects, and
an object with the list in `messages`. A failed result has `"is_error": true`. If a message has
several texts, `content` is a list of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from steno.codec import decode_document
from steno.errors import InvalidDocument
from steno.formats.format import (
    ExportedFile,
    ExportLossCollector,
    ImportedSession,
    SupportedFields,
    WrittenEntry,
    add_differences,
    link_entries,
)
from steno.formats.json_text import (
    JsonMembers,
    foreign_json,
    opaque_entry,
    parse_array,
    parse_object,
    read_json_input,
    restore_members,
    write_array,
    write_json,
    write_object,
)
from steno.ids import new_id
from steno.log.queries import as_version_2
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.content import OWN_FORMAT, Opaque, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.records.entry import Entry
from steno.records.stored_record import Header

NAME: Final = "chat"

_SUPPORTED_FIELDS: Final[SupportedFields] = {
    SystemMessage: frozenset({"content", "unknown"}),
    UserMessage: frozenset({"content", "unknown"}),
    AssistantMessage: frozenset({"content", "unknown"}),
    # The name of the tool is read from the call that the result answers.
    ToolResultMessage: frozenset({"tool_call_id", "tool_name", "content", "outcome", "unknown"}),
    Text: frozenset({"text", "unknown"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments", "unknown"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason", "unknown"}),
    Opaque: frozenset(Opaque.__struct_fields__),
}


# -- reading ---------------------------------------------------------------------------------


def decode(data: bytes) -> ImportedSession:
    """Read a flat chat list, or an object that contains one. Raises InvalidDocument otherwise."""
    raw = read_json_input(data)
    outer_members: JsonMembers = {} if raw.lstrip().startswith(b"[") else parse_object(raw, "chat")
    if outer_members.get("version", b"0") != b"0":
        raise InvalidDocument(
            "the version of a flat chat list must be 0 or absent; choose another format",
            code="invalid_version",
            place="chat",
        )
    messages = outer_members.pop("messages", b"null") if outer_members else raw
    parts = parse_array(messages, "messages")
    document = decode_document(raw)
    leading = len(document.entries) - len(parts)
    entries = [*document.entries[:leading]]
    for entry, part in zip(document.entries[leading:], parts, strict=True):
        entries.append(entry if entry.message is not None else opaque_entry(entry, part, NAME))
    if leading:
        del outer_members["system_prompt"]  # imported as an entry
    extra_members = {name: value.decode() for name, value in outer_members.items()}
    about = {NAME: extra_members} if extra_members else None
    header = Header(id=document.id or new_id(), created_at=document.created_at, about=about)
    return ImportedSession(header, link_entries(entries))


# -- writing ---------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    """Write a flat chat list, wrapped in an object if the imported file had other members."""
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, _SUPPORTED_FIELDS)
    losses.add_header(header)
    if entries:
        losses.add("ids_and_times", "entries")
    names: dict[str, str] = {}
    written: list[WrittenEntry] = []
    parts: list[bytes] = []
    for number, entry in enumerate(entries):
        place = f"entries[{number}]"
        message = entry.message
        part = foreign_json(entry.payload, NAME) if message is None else _encode_message(message)
        if part is None:
            losses.add_omitted(place, entry, [str(entry.payload.__struct_config__.tag)])
            continue
        parts.append(part)
        has_loss = losses.add_omitted(place, entry, _omitted_fields(entry, names, losses))
        payload = entry.payload
        if isinstance(payload, ToolResultMessage):
            payload = replace(payload, tool_name="")
        written.append(WrittenEntry(place, entry, payload, has_loss))
    data = write_array(parts)
    outer_members = restore_members({}, (header.about or {}).get(NAME))
    if outer_members:
        data = write_object(outer_members | {"messages": data})
    add_differences(written, decode(write_array(parts)).entries, losses)
    return ExportedFile(data, losses.result())


def _omitted_fields(entry: Entry, names: dict[str, str], losses: ExportLossCollector) -> list[str]:
    """Return the fields of an entry that the export omits.

    `names` maps the id of each earlier call to its tool; the calls of this entry are added.
    """
    found = losses.omitted_of_entry(entry)
    message = entry.message
    if message is not None:
        names |= {call.id: call.name for call in message.tool_calls}
    if isinstance(message, ToolResultMessage):
        is_known = message.tool_name in ("", names.get(message.tool_call_id))
        found += [] if is_known else ["tool_name"]
    return found


def _encode_message(message: Message) -> bytes | None:
    """Write a message; return None if a flat chat list cannot express it."""
    content = _encode_content(message)
    members: JsonMembers = {"role": write_json(message.role), "content": content or b'""'}
    match message:
        case SystemMessage() | UserMessage():
            if content is None:
                return None
        case AssistantMessage():
            calls = [_encode_call(call) for call in message.tool_calls]
            if calls:
                members |= {"content": content or b"null", "tool_calls": write_array(calls)}
        case ToolResultMessage():
            members["tool_call_id"] = write_json(message.tool_call_id)
            if message.is_error:
                members["is_error"] = b"true"
        case _:
            assert_never(message)
    return write_object(members, message.unknown)


def _encode_content(message: Message) -> bytes | None:
    """Write a single plain text as a string, and any other content as a list of parts.

    Return None if there is no block that a flat chat list can express.
    """
    parts: list[bytes] = []
    is_plain = True
    for block in message.content:
        if isinstance(block, Text):
            is_plain = is_plain and not block.unknown
            members = {"type": b'"text"', "text": write_json(block.text)}
            parts.append(write_object(members, block.unknown))
        elif isinstance(block, Opaque) and block.origin == OWN_FORMAT:
            is_plain = False
            parts.append(block.raw.encode())
    if len(parts) == 1 and is_plain:
        return write_json(message.text)
    return write_array(parts) if parts else None


def _encode_call(call: AnyToolCall) -> bytes:
    function = write_object(
        {"name": write_json(original_tool_name(call)), "arguments": write_json(call.arguments)}
    )
    members = {"id": write_json(call.id), "type": b'"function"', "function": function}
    return write_object(members, call.unknown)
