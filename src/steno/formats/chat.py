r"""Import and export flat chat lists with role, content, tool_calls and tool_call_id.

    [{"role": "user", "content": "Is it broken?"},
     {"role": "assistant", "content": null, "tool_calls": [
       {"id": "c1", "type": "function",
        "function": {"name": "run_tests", "arguments": "{\"path\": \"tests\"}"}}]},
     {"role": "tool", "tool_call_id": "c1", "content": "3 passed"}]

The codec reads the list. It also accepts calls without `function`, arguments that are objects, an
object with the list in `messages` and any version, and a single message. A failed result has
`"is_error": true`. If a message has several texts, `content` is a list of parts.

An imported file is exported unchanged: the header stores the form of the file, and an entry the
members that steno would write differently. New calls have the form of the first call of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

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
)
from steno.log.queries import as_version_2
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.content import OWN_FORMAT, Opaque, Text
from steno.messages.message import (
    AssistantMessage,
    ChatMessage,
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

_MESSAGE_WITH_ROLE: Final = b'{"role":"user","content":"-"}'
"""A message that is added to a list to read it, because a list needs a message with a role."""
_PROMPT: Final = "system_prompt"
"""The member, beside `messages`, that is imported as the first message."""


class _CallForm(NamedTuple):
    """The form of tool calls; the default is OpenAI's."""

    function: bool = True
    """Whether name and arguments are in a `function` object."""
    text: bool = True
    """Whether the arguments are text, not an object."""


class _FileForm(NamedTuple):
    """The form of an imported file; the default is a list."""

    calls: _CallForm = _CallForm()
    is_single: bool = False
    """Whether the file is one message, without a list."""
    members: JsonMembers | None = None
    """The members of the object around the list, except `messages`; None if there is no object."""
    has_prompt: bool = False
    """Whether the first message is the member `system_prompt` of that object."""


# -- reading ---------------------------------------------------------------------------------


def decode(data: bytes) -> ImportedSession:
    """Read a flat chat list, an object that contains one, or a single message.

    Raises InvalidDocument if the file is none of these.
    """
    file = read_json_file(data)
    raw = file.raw
    members = None if raw.lstrip().startswith(b"[") else parse_object(raw, "chat")
    is_single = members is not None and "role" in members and "messages" not in members
    if is_single:
        members, raw = None, write_array([raw.strip()])
    parts = parse_array(raw if members is None else members.pop("messages", b"null"), "messages")
    if members is not None:
        version = members.get("version", b"0")
        if version != b"0" and not any("role" in _members_of(part) for part in parts):
            raise InvalidDocument(
                "no message has a role, and the version of a flat chat list must be 0 or absent; "
                "choose another format",
                code="invalid_version",
                place="chat",
            )
        raw = write_object(members | {"version": b"0", "messages": write_array(parts)})
    place = "$[{}]" if members is None else "$.messages[{}]"
    document = decode_messages_of_file(file, raw, "$" if is_single else place)
    leading = len(document.entries) - len(parts)
    # A system prompt that is not text is not an entry; `members` preserves it.
    entries = [e for e in document.entries[:leading] if isinstance(e.payload, SystemMessage)]
    if members is not None and entries:
        del members[_PROMPT]
    form = _FileForm(_find_call_form(parts), is_single, members, has_prompt=bool(entries))
    for entry, part in zip(document.entries[leading:], parts, strict=True):
        entries.append(_with_original_members(entry, part, form.calls))
    header = Header(
        id=document.id or derive_session_id(NAME, data),
        created_at=document.created_at,
        about=_store_form(form),
    )
    return ImportedSession(header, link_entries(entries))


def _find_call_form(parts: Sequence[bytes]) -> _CallForm:
    """Return the form of the first tool call."""
    for part in parts:
        calls = split_array(_members_of(part).get("tool_calls", b"null"))
        if calls:
            call = _members_of(calls[0])
            function = _members_of(call.get("function", b"null"))
            arguments = (function or call).get("arguments", b'"')
            return _CallForm(function=bool(function), text=arguments.startswith(b'"'))
    return _CallForm()


def _members_of(raw: bytes) -> JsonMembers:
    return {name: value for name, _, value in split_object(raw) or ()}


def _with_original_members(entry: Entry, raw: bytes, calls: _CallForm) -> Entry:
    """Add to the audit data the members of a message that steno would write differently."""
    message = entry.message
    if message is None:
        return opaque_entry(entry, raw, NAME)
    unknown = unknown_names(message.unknown)
    original = {name: value for name, value in _members_of(raw).items() if name not in unknown}
    changed = changed_members(original, _message_members(message, calls))
    return replace(entry, audit={NAME: changed}) if changed else entry


# -- the form of a file ----------------------------------------------------------------------


def _store_form(form: _FileForm) -> dict[str, Any] | None:
    """Return the form of a file for the header of a session; None for the default form."""
    if form == _FileForm():
        return None
    stored: dict[str, Any] = {"calls": form.calls._asdict()}
    for name in ("is_single", "has_prompt"):
        if getattr(form, name):
            stored[name] = True
    if form.members is not None:
        stored["members"] = {name: value.decode() for name, value in form.members.items()}
    return {NAME: stored}


def _read_form(header: Header) -> _FileForm:
    """Return the form that the header stores; the default form if it stores none."""
    about = (header.about or {}).get(NAME)
    if not isinstance(about, Mapping):
        return _FileForm()
    calls = about.get("calls")
    if not isinstance(calls, Mapping):
        return _FileForm(members=restore_members({}, about))  # an import of an older version
    function, text = (calls.get(name) is not False for name in _CallForm._fields)
    members = about.get("members")
    return _FileForm(
        _CallForm(function=function, text=text),
        is_single=about.get("is_single") is True,
        members=None if members is None else restore_members({}, members),
        has_prompt=about.get("has_prompt") is True,
    )


# -- writing ---------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    """Write a flat chat list, or the form that the imported file had."""
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, _SUPPORTED_FIELDS)
    losses.add_header(header)
    if entries:
        losses.add("ids_and_times", "entries")
    form = _read_form(header)
    prompt = _find_prompt(form, entries)
    names: dict[str, str] = {}
    written: list[WrittenEntry] = []
    parts: list[bytes] = []
    for number, entry in enumerate(entries):
        place = f"entries[{number}]"
        if entry is prompt:
            losses.add_omitted(place, entry, losses.omitted_of_envelope(entry))
            continue
        omitted = _omitted_fields(entry, names, losses)
        payload = entry.payload
        part = _restore_original(entry, form.calls)
        if part is not None:
            omitted = losses.omitted_of_envelope(entry)
        else:
            part = _encode_entry(entry, form.calls)
            if isinstance(payload, ToolResultMessage):
                payload = replace(payload, tool_name="")
        if part is None:
            losses.add_omitted(place, entry, [type_name(entry.payload)])
            continue
        parts.append(part)
        has_loss = losses.add_omitted(place, entry, omitted)
        written.append(WrittenEntry(place, entry, payload, has_loss))
    read = decode(write_array([*parts, _MESSAGE_WITH_ROLE])).entries
    add_differences(written, read, losses)
    return ExportedFile(_join_parts(parts, form, prompt), losses.result())


def _find_prompt(form: _FileForm, entries: Sequence[Entry]) -> Entry | None:
    """Return the first entry if it is written as `system_prompt`, else None."""
    payload = entries[0].payload if form.has_prompt and entries else None
    if isinstance(payload, SystemMessage) and payload == ChatMessage.system(payload.text):
        return entries[0]
    return None


def _join_parts(parts: Sequence[bytes], form: _FileForm, prompt: Entry | None) -> bytes:
    """Return a file of the given form with these messages."""
    if form.is_single and len(parts) == 1:
        return parts[0]
    data = write_array(parts)
    if form.members is None:
        return data
    message = None if prompt is None else prompt.message
    head = {} if message is None else {_PROMPT: write_json(message.text)}
    return write_object(head | form.members | {"messages": data})


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


# -- messages --------------------------------------------------------------------------------


def _restore_original(entry: Entry, calls: _CallForm) -> bytes | None:
    """Write an imported message as it was in the file; None if it is new or was changed."""
    changed = (entry.audit or {}).get(NAME)
    message = entry.message
    if message is None or changed is None:
        return None
    restored = restore_members(_message_members(message, calls), changed)
    if restored is None:
        return None
    raw = write_object(restored, message.unknown)
    read = decode_document(write_array([raw, _MESSAGE_WITH_ROLE])).entries[0]
    return raw if (read.payload, read.time) == (entry.payload, entry.time) else None


def _encode_entry(entry: Entry, calls: _CallForm) -> bytes | None:
    """Write an entry; return None if a flat chat list cannot express it."""
    message = entry.message
    if message is None:
        return foreign_json(entry.payload, NAME)
    members = _message_members(message, calls)
    return write_object(members, message.unknown) if members else None


def _message_members(message: Message, calls: _CallForm) -> JsonMembers:
    """Return the members of a message; empty if a flat chat list cannot express the message."""
    content = _encode_content(message)
    members: JsonMembers = {"role": write_json(message.role), "content": content or b'""'}
    match message:
        case SystemMessage() | UserMessage():
            if content is None:
                return {}
        case AssistantMessage():
            found = [_encode_call(call, calls) for call in message.tool_calls]
            if found:
                members |= {"content": content or b"null", "tool_calls": write_array(found)}
        case ToolResultMessage():
            members["tool_call_id"] = write_json(message.tool_call_id)
            if message.is_error:
                members["is_error"] = b"true"
        case _:
            assert_never(message)
    return members


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


def _encode_call(call: AnyToolCall, form: _CallForm) -> bytes:
    arguments = None if form.text else arguments_object(call.arguments)
    function = {
        "name": write_json(original_tool_name(call)),
        "arguments": write_json(call.arguments) if arguments is None else arguments,
    }
    members = {"id": write_json(call.id)}
    if form.function:
        members |= {"type": b'"function"', "function": write_object(function)}
    else:
        members |= function
    return write_object(members, call.unknown)
