"""Migrate documents of older versions, with one pure function for each version step.

Version 0 is the flat chat list that many providers use, with role, content and tool_calls. Version
1 is a session file with tagged messages and their times. Version 2 is the current document. The
functions work on the JSON text of the members, so unknown members stay unchanged. Single messages
and calls are migrated by the same functions.

A single message has no version number, so its members show its version. No existing member of
version 2 is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, get_args

import msgspec

from steno.codec.json_scanner import split_array, split_object
from steno.errors import InvalidDocument, UnsupportedVersion
from steno.messages.call import ToolCall, build_call
from steno.messages.content import Block, Image, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.usage import StopReason
from steno.records.entry import BASE_VERSION

_ZERO_TIME: Final = b'"0001-01-01T00:00:00Z"'
"""The value in version 1 of a time that was never set."""

_STOP_REASONS: Final = {msgspec.json.encode(reason) for reason in StopReason}
MESSAGE_TAGS: Final = frozenset({b'"system"', b'"user"', b'"assistant"', b'"tool_result"'})
"""The JSON of the types of messages in version 1 and later."""
_SHARED_MEMBERS: Final[dict[type, frozenset[str]]] = {
    SystemMessage: frozenset({"content"}),
    UserMessage: frozenset({"content"}),
    AssistantMessage: frozenset({"content", "stop_reason", "raw_stop_reason", "usage"}),
    ToolResultMessage: frozenset({"tool_call_id", "tool_name", "content"}),
    Text: frozenset({"text"}),
    Image: frozenset({"mime_type"}),
    ToolCall: frozenset({"id", "name", "arguments"}),
}
"""The members of messages and blocks that versions 1 and 2 have."""
_NEW_MEMBERS: Final = {
    msgspec.json.encode(cls.__struct_config__.tag): frozenset(cls.__struct_fields__)
    - _SHARED_MEMBERS.get(cls, frozenset())
    - {"unknown"}
    for cls in (*get_args(Message), *get_args(Block))
}
"""The members that only version 2 has, by the JSON of the type of the message or block."""
_MEMBERS_WITHOUT_FIELD: Final = frozenset({"timestamp", "is_error"})
"""The members of a message of version 1 that may have no field in a message of version 2."""

RawObject = dict[str, bytes]


class MigratedMessage(NamedTuple):
    """A message of version 0 or 1, converted to version 2."""

    raw: bytes
    """The message with all its members."""
    known: bytes
    """The message without `unknown`."""
    unknown: bytes
    """The members of version 1 for which a message of version 2 has no field."""


def migrate_document(raw: bytes) -> bytes:
    """Convert a document of any known version to the current version.

    Raises InvalidDocument if `raw` is not a conversation, and UnsupportedVersion if it has a newer
    version.
    """
    version = _read_version(raw)
    for step in _MIGRATIONS[version:]:
        raw = step(raw)
    return raw


def migrate_message(raw: bytes) -> MigratedMessage | None:
    """Convert one message of version 0 or 1; return None if `raw` is not such a message.

    The time of a message stays an unknown member, because version 2 stores times in entries, and
    so does an `is_error` that no outcome replaces.
    """
    message = _split_members(raw)
    if message is None:
        return None
    if _is_flat_message(message):
        message = _split_members(_to_session_message(raw)) or {}
    elif not is_session_message(message):
        return None
    _migrate_message(message)
    known = {name: value for name, value in message.items() if name not in _MEMBERS_WITHOUT_FIELD}
    unknown = {name: value for name, value in message.items() if name not in known}
    return MigratedMessage(
        _join_members(message), _join_members(known), _join_members(unknown)[1:-1]
    )


def migrate_call(raw: bytes) -> bytes:
    """Convert one tool call of any version. A call without an id is returned without one."""
    flat = _to_session_call(raw)
    id = (_split_members(flat) or {}).get("id", b'""')
    return _migrate_block(flat, 0) if _decode_string(id) else flat


def _is_flat_message(message: RawObject) -> bool:
    content = message.get("content", b"" if "tool_calls" in message else b"[")
    is_tagged = message.get("type") in MESSAGE_TAGS and content.startswith(b"[")
    return message.get("role", b"").startswith(b'"') and not is_tagged


def is_session_message(message: RawObject) -> bool:
    """Return whether a message has members of version 1, and none that only version 2 has."""
    parts = split_array(message.get("content", b"null")) or ()
    blocks = [_split_members(part) or {} for part in parts]
    if any(map(_has_new_members, (message, *blocks))):
        return False
    return (
        message.get("timestamp", b"").startswith(b'"')
        or message.get("is_error") == b"true"
        or message.get("stop_reason") == b'""'
        or any(_RENAMED_MEMBERS.get(block.get("type", b"")) in block for block in blocks)
    )


def _has_new_members(value: RawObject) -> bool:
    return not _NEW_MEMBERS.get(value.get("type", b""), frozenset()).isdisjoint(value)


def _read_version(raw: bytes) -> int:
    header = _split_members(raw)
    if header is None:
        if split_array(raw) is None:
            rule = "not a conversation: neither an object nor an array"
            raise InvalidDocument(rule, code="not_a_conversation")
        return 0
    if "version" not in header:
        if "messages" not in header:
            rule = "not a conversation: the object has neither version nor messages"
            raise InvalidDocument(rule, code="no_version")
        return 0
    try:
        version = msgspec.json.decode(header["version"], type=int)
    except msgspec.DecodeError:
        rule = "not a conversation: version is not an integer"
        raise InvalidDocument(rule, code="invalid_version") from None
    if version > BASE_VERSION:
        raise UnsupportedVersion(
            f"the document has version {version}, but this version of steno supports "
            f"versions up to {BASE_VERSION}; upgrade steno"
        )
    if version < 0:
        rule = "not a conversation: version is negative"
        raise InvalidDocument(rule, code="negative_version")
    return version


# -- 0 to 1: from a flat list to a session ---------------------------------------------------


def _migrate_flat_list(raw: bytes) -> bytes:
    header = _split_members(raw) or {}
    parts = split_array(header.pop("messages", raw))
    if parts is None:
        rule = "not a conversation: messages is not an array"
        raise InvalidDocument(rule, code="messages_not_an_array")
    header.pop("version", None)
    if parts and not any("role" in (_split_members(part) or {}) for part in parts):
        rule = "not a conversation: no message in the list has a role"
        raise InvalidDocument(rule, code="no_roles")
    messages = [_to_session_message(part) for part in parts]
    return _join_members({"version": b"1", **header, "messages": _join_elements(messages)})


_TYPE_OF_ROLE: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
}


def _to_session_message(raw: bytes) -> bytes:
    flat = _split_members(raw)
    if flat is None or not flat.get("role", b"").startswith(b'"'):
        return raw  # kept unchanged, as unknown data
    if flat.get("type") == b'"message"':
        del flat["type"]  # redundant
    role = _decode_string(flat.pop("role")).lower()
    content = _to_session_content(flat.pop("content", b"null"))
    calls = split_array(flat.get("tool_calls", b"[]"))
    if calls is not None:
        flat.pop("tool_calls", None)
        content += [_to_session_call(call) for call in calls]
    elif flat["tool_calls"] == b"null":
        del flat["tool_calls"]
    tag = msgspec.json.encode(_TYPE_OF_ROLE.get(role, role))
    return _join_members({"type": tag, "content": _join_elements(content), **flat})


def _to_session_content(raw: bytes) -> list[bytes]:
    parts = split_array(raw)
    if parts is not None:
        return parts
    return [] if raw == b"null" else [_join_members({"type": b'"text"', "text": raw})]


def _to_session_call(raw: bytes) -> bytes:
    """Convert a tool call of a flat list, in steno's format or with OpenAI's `function` member."""
    call = _split_members(raw)
    if call is None:
        return raw
    function = _split_members(call.get("function", b"null"))
    if function is not None and not (call.keys() & function.keys()):
        del call["function"]
        call |= function
        if call.get("type") == b'"function"':
            del call["type"]
    return raw if "type" in call else _join_members({"type": b'"tool_call"', **call})


# -- 1 to 2: from a session to entries -------------------------------------------------------


def _migrate_session(raw: bytes) -> bytes:
    header = _split_members(raw) or {}
    parts = split_array(header.pop("messages", b"[]"))
    if parts is None:
        rule = "not a conversation: messages is not an array"
        raise InvalidDocument(rule, code="messages_not_an_array")
    prompt = header.pop("system_prompt", b'""')
    if prompt not in (b'""', b"null"):
        text = _join_members({"type": b'"text"', "text": prompt})
        parts.insert(0, _join_members({"type": b'"system"', "content": _join_elements([text])}))
    entries = [_migrate_entry(part, number) for number, part in enumerate(parts, start=1)]
    times = {
        name: moment
        for name in ("created_at", "updated_at")
        if (moment := header.pop(name, b"null")) not in (b"null", _ZERO_TIME)
    }
    header.pop("version", None)
    return _join_members({"version": b"2", **header, **times, "entries": _join_elements(entries)})


def _migrate_entry(raw: bytes, number: int) -> bytes:
    message = _split_members(raw)
    entry: RawObject = {"v": b"2", "id": b'"m%d"' % number}
    if number > 1:
        entry["parent"] = b'"m%d"' % (number - 1)
    if message is None:
        return _join_members({**entry, "payload": raw})
    moment = message.get("timestamp", b"null")
    if moment in (b"null", _ZERO_TIME):
        message.pop("timestamp", None)
    elif _is_json_time(moment):
        entry["time"] = message.pop("timestamp")
    _migrate_message(message)
    if message.get("is_error") == b"false" and _is_plain_result(message):
        del message["is_error"]
    return _join_members({**entry, "payload": _join_members(message)})


def _migrate_message(message: RawObject) -> None:
    blocks = split_array(message.get("content", b"null"))
    if blocks is not None:
        message["content"] = _join_elements(
            [_migrate_block(block, n) for n, block in enumerate(blocks)]
        )
    if message.get("is_error") == b"true" and _is_plain_result(message):
        del message["is_error"]
        message["outcome"] = b'"error"'
    if message.get("type") == b'"assistant"':
        _migrate_stop_reason(message)


def _is_plain_result(message: RawObject) -> bool:
    """Return whether a message is a result without an outcome."""
    return message.get("type") == b'"tool_result"' and "outcome" not in message


def _migrate_stop_reason(message: RawObject) -> None:
    if message.get("raw_stop_reason") == b'""':  # in version 1: there is none
        del message["raw_stop_reason"]
    stop_reason = message.pop("stop_reason", b'""')
    if stop_reason not in (b'""', b"null"):
        is_known = stop_reason in _STOP_REASONS
        message["stop_reason"] = stop_reason if is_known else b'"unknown"'
        if not is_known:
            message.setdefault("raw_stop_reason", stop_reason)


def _migrate_block(raw: bytes, number: int) -> bytes:
    block = _split_members(raw)
    if block is None:
        return raw
    migrate, new_member = _BLOCK_MIGRATIONS.get(block.get("type", b""), (None, ""))
    odd = any(not block.get(name, b'"').startswith(b'"') for name in ("id", "name"))
    return raw if migrate is None or new_member in block or odd else migrate(block, number)


def _migrate_call(block: RawObject, number: int) -> bytes:
    arguments = block.pop("arguments", b"null")
    arguments = b"{}" if arguments == b"null" else arguments
    text = _decode_string(arguments) if arguments.startswith(b'"') else arguments.decode()
    id, name = _decode_string(block.pop("id", b'""')), _decode_string(block.pop("name", b'""'))
    call = build_call(id or f"call_{number}", name, text)
    return _join_members(
        {**(_split_members(msgspec.json.encode(call)) or {}), **_without_type(block)}
    )


def _migrate_thinking(block: RawObject, _number: int) -> bytes:
    return _join_members(
        {"type": b'"thinking"', "text": block.pop("thinking", b'""'), **_without_type(block)}
    )


def _migrate_image(block: RawObject, _number: int) -> bytes:
    source = _join_members({"type": b'"data"', "data": block.pop("data", b'""')})
    return _join_members({"type": b'"image"', "source": source, **_without_type(block)})


def _without_type(block: RawObject) -> RawObject:
    return {name: content for name, content in block.items() if name != "type"}


_BLOCK_MIGRATIONS: Final[dict[bytes, tuple[Callable[[RawObject, int], bytes], str]]] = {
    b'"tool_call"': (_migrate_call, "original_name"),
    b'"thinking"': (_migrate_thinking, "text"),
    b'"image"': (_migrate_image, "source"),
}
"""The migration of each type of block, and the member of version 2 that it adds."""

_RENAMED_MEMBERS: Final = {b'"thinking"': "thinking", b'"image"': "data"}
"""The member of a block that version 2 replaces, by the type of the block."""

_MIGRATIONS: Final[tuple[Callable[[bytes], bytes], ...]] = (_migrate_flat_list, _migrate_session)


# -- text of members -------------------------------------------------------------------------


def _split_members(raw: bytes) -> RawObject | None:
    members = split_object(raw)
    return None if members is None else {name: value for name, _, value in members}


def _join_members(members: RawObject) -> bytes:
    parts = [msgspec.json.encode(name) + b":" + value for name, value in members.items()]
    return b"{" + b",".join(parts) + b"}"


def _join_elements(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _is_json_time(raw: bytes) -> bool:
    try:
        return msgspec.json.decode(raw, type=datetime).tzinfo is not None
    except msgspec.DecodeError:
        return False


def _decode_string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return ""
