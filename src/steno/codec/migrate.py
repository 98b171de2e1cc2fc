"""Read older formats: a chain of pure functions, each from one version to the next.

Version 0 is the flat chat list that providers made common: role, content, tool_calls. Version 1
is a session file with tagged messages and their times. Version 2 is ours. A step works on the
text of the members, so what it has no name for arrives unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from steno.call import build_call
from steno.codec.scan import split_array, split_object
from steno.entry import FORMAT_VERSION
from steno.errors import InvalidDocument, UnsupportedVersion
from steno.usage import StopReason

_ZERO_TIME: Final = b'"0001-01-01T00:00:00Z"'
"""How version 1 writes a time that was never set."""

_STOP_REASONS: Final = {msgspec.json.encode(reason) for reason in StopReason}

Object = dict[str, bytes]


def migrate(raw: bytes) -> bytes:
    """Bring a document of any known version to the current one.

    Raises InvalidDocument if it has no version that we know, UnsupportedVersion if it is newer.
    """
    version = _version(raw)
    for step in _STEPS[version:]:
        raw = step(raw)
    return raw


def _version(raw: bytes) -> int:
    header = _object(raw)
    if header is None:
        if split_array(raw) is None:
            raise InvalidDocument("not a conversation: neither an object nor an array")
        return 0
    if "version" not in header:
        if "messages" not in header:
            raise InvalidDocument("not a conversation: an object without version and messages")
        return 0
    try:
        version = msgspec.json.decode(header["version"], type=int)
    except msgspec.DecodeError:
        raise InvalidDocument("not a conversation: version is not a whole number") from None
    if version > FORMAT_VERSION:
        raise UnsupportedVersion(
            f"written in format {version}; this steno reads up to {FORMAT_VERSION}: upgrade it"
        )
    if version < 0:
        raise InvalidDocument("not a conversation: version is negative")
    return version


# -- 0 to 1: from a flat list to a session ---------------------------------------------------


def _from_flat_list(raw: bytes) -> bytes:
    header = _object(raw) or {}
    parts = split_array(header.pop("messages", raw))
    if parts is None:
        raise InvalidDocument("not a conversation: messages is not an array")
    header.pop("version", None)
    if parts and not any(_is_chat_message(part) for part in parts):
        raise InvalidDocument("not a conversation: no message in the list has a role")
    messages = [_session_message(part) for part in parts]
    return _write({"version": b"1", **header, "messages": _array(messages)})


_TYPE_OF_ROLE: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
}


def _is_chat_message(raw: bytes) -> bool:
    return "role" in (_object(raw) or {})


def _session_message(raw: bytes) -> bytes:
    flat = _object(raw)
    if flat is None or not flat.get("role", b"").startswith(b'"'):
        return raw  # kept as it is, and not understood later
    if flat.get("type") == b'"message"':
        del flat["type"]  # says no more than that it is one
    role = _string(flat.pop("role")).lower()
    content = _session_content(flat.pop("content", b"null"))
    calls = split_array(flat.get("tool_calls", b"[]"))
    if calls is not None:
        flat.pop("tool_calls", None)
        content += [_session_call(call) for call in calls]
    elif flat["tool_calls"] == b"null":
        del flat["tool_calls"]
    tag = msgspec.json.encode(_TYPE_OF_ROLE.get(role, role))
    return _write({"type": tag, "content": _array(content), **flat})


def _session_content(raw: bytes) -> list[bytes]:
    parts = split_array(raw)
    if parts is not None:
        return parts
    return [] if raw == b"null" else [_write({"type": b'"text"', "text": raw})]


def _session_call(raw: bytes) -> bytes:
    """Read a call as we write it in a flat list, or with OpenAI's `function` inside."""
    call = _object(raw)
    if call is None:
        return raw
    function = _object(call.get("function", b"null"))
    if function is not None and not (call.keys() & function.keys()):
        del call["function"]
        call |= function
        if call.get("type") == b'"function"':
            del call["type"]
    return raw if "type" in call else _write({"type": b'"tool_call"', **call})


# -- 1 to 2: from a session to entries -------------------------------------------------------


def _from_session(raw: bytes) -> bytes:
    header = _object(raw) or {}
    parts = split_array(header.pop("messages", b"[]"))
    if parts is None:
        raise InvalidDocument("not a conversation: messages is not an array")
    prompt = header.pop("system_prompt", b'""')
    if prompt not in (b'""', b"null"):
        text = _write({"type": b'"text"', "text": prompt})
        parts.insert(0, _write({"type": b'"system"', "content": _array([text])}))
    entries = [_entry(part, number) for number, part in enumerate(parts, start=1)]
    times = {
        name: moment
        for name in ("created_at", "updated_at")
        if (moment := header.pop(name, b"null")) not in (b"null", _ZERO_TIME)
    }
    header.pop("version", None)
    return _write({"version": b"2", **header, **times, "entries": _array(entries)})


def _entry(raw: bytes, number: int) -> bytes:
    message = _object(raw)
    entry: Object = {"v": b"2", "id": b'"m%d"' % number}
    if number > 1:
        entry["parent"] = b'"m%d"' % (number - 1)
    if message is None:
        return _write({**entry, "payload": raw})
    moment = message.get("timestamp", b"null")
    if moment in (b"null", _ZERO_TIME) or _is_time(moment):
        message.pop("timestamp", None)
        if moment not in (b"null", _ZERO_TIME):
            entry["time"] = moment
    return _write({**entry, "payload": _message(message)})


def _message(message: Object) -> bytes:
    blocks = split_array(message.get("content", b"null"))
    if blocks is not None:
        message["content"] = _array([_block(block, n) for n, block in enumerate(blocks)])
    if message.get("is_error") in (b"true", b"false") and message.pop("is_error") == b"true":
        message["outcome"] = b'"error"'
    if message.get("raw_stop_reason") == b'""':
        del message["raw_stop_reason"]
    stop_reason = message.pop("stop_reason", b'""')
    if stop_reason not in (b'""', b"null"):
        is_known = stop_reason in _STOP_REASONS
        message["stop_reason"] = stop_reason if is_known else b'"unknown"'
        if not is_known:
            message.setdefault("raw_stop_reason", stop_reason)
    return _write(message)


def _block(raw: bytes, number: int) -> bytes:
    block = _object(raw)
    if block is None:
        return raw
    rename = _BLOCKS.get(block.get("type", b""))
    odd = any(not block.get(name, b'"').startswith(b'"') for name in ("id", "name"))
    return raw if rename is None or odd else rename(block, number)


def _call_block(block: Object, number: int) -> bytes:
    arguments = block.pop("arguments", b"null")
    arguments = b"{}" if arguments == b"null" else arguments
    text = _string(arguments) if arguments.startswith(b'"') else arguments.decode()
    id, name = _string(block.pop("id", b'""')), _string(block.pop("name", b'""'))
    call = build_call(id or f"call_{number}", name, text)
    return _write({**(_object(msgspec.json.encode(call)) or {}), **_rest(block)})


def _thinking_block(block: Object, _number: int) -> bytes:
    return _write({"type": b'"thinking"', "text": block.pop("thinking", b'""'), **_rest(block)})


def _image_block(block: Object, _number: int) -> bytes:
    source = _write({"type": b'"data"', "data": block.pop("data", b'""')})
    return _write({"type": b'"image"', "source": source, **_rest(block)})


def _rest(block: Object) -> Object:
    return {name: content for name, content in block.items() if name != "type"}


_BLOCKS: Final[dict[bytes, Callable[[Object, int], bytes]]] = {
    b'"tool_call"': _call_block,
    b'"thinking"': _thinking_block,
    b'"image"': _image_block,
}

_STEPS: Final[tuple[Callable[[bytes], bytes], ...]] = (_from_flat_list, _from_session)


# -- text of members -------------------------------------------------------------------------


def _object(raw: bytes) -> Object | None:
    members = split_object(raw)
    return None if members is None else {name: value for name, _, value in members}


def _write(members: Object) -> bytes:
    parts = [msgspec.json.encode(name) + b":" + value for name, value in members.items()]
    return b"{" + b",".join(parts) + b"}"


def _array(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _is_time(raw: bytes) -> bool:
    try:
        return msgspec.json.decode(raw, type=datetime).tzinfo is not None
    except msgspec.DecodeError:
        return False


def _string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return ""
