"""Write an audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from steno.call import AnyToolCall, outside_name
from steno.codec import encode_entry, encode_payload
from steno.content import Text
from steno.entry import Entry
from steno.errors import InvalidValue
from steno.formats.audit.read import details_of, entry_of, grouped, read_row
from steno.formats.audit.shape import (
    AROUND,
    ENTRY,
    NAME,
    PAYLOAD,
    Context,
    Verdict,
    usual_decision,
)
from steno.formats.format import Exported
from steno.formats.losses import Losses
from steno.formats.text import (
    Object,
    as_object,
    object_text,
    put_back,
    words_of_others,
    write,
    write_array,
    write_object,
    write_time,
)
from steno.json_object import JsonObject, expose, is_json_text
from steno.message import (
    AssistantMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.record import Header
from steno.value import Sendable
from steno.views import Kind, text_of

_NOTHING: Final = write({})


def encode(header: Header, entries: Sequence[Entry]) -> Exported:
    """Write the entries of a branch; what the plain shape does not say stands beside it."""
    losses = Losses(NAME, {})
    losses.add_header(header)
    context = Context(entry.payload for entry in entries)
    rows: list[bytes] = []
    for entry in entries:
        rows += _written(entry, context)
        context.add(entry.payload)
    around = put_back({}, (header.about or {}).get(NAME)) or {}
    return Exported(write_object(around | {"entries": write_array(rows)}), losses.result())


def _written(entry: Entry, context: Context) -> list[bytes]:
    """Write an entry as plainly as it can be read again."""
    rows = _rows(entry, context)
    shown = list(map(write_object, rows))
    head, tail = rows[0], shown[1:]
    if "#" not in entry.id and _is_restored(shown, entry, context):
        return shown
    audit = dict(expose(as_object(entry.audit))) if entry.audit else {}
    if PAYLOAD not in audit and ENTRY not in audit:
        head["audit"] = _beside(head["audit"], PAYLOAD, encode_payload(entry.payload))
        shown = [write_object(head), *tail]
        if _is_restored(shown, entry, context):
            return shown
    plain = {name: part for name, part in audit.items() if name not in (PAYLOAD, ENTRY)}
    head["audit"] = _beside(write(plain), ENTRY, encode_entry(entry))
    return [write_object(head), *tail]


def _beside(audit: bytes, name: str, stored: bytes) -> bytes:
    return audit[:-1] + (b"," if audit != _NOTHING else b"") + write(name) + b":" + stored + b"}"


def _is_restored(rows: list[bytes], entry: Entry, context: Context) -> bool:
    """Ask the reader what it makes of it."""
    try:
        groups = list(grouped([read_row(row, "row") for row in rows], context))
        return len(groups) == 1 and _key(entry_of(groups[0], context)) == _key(entry)
    except InvalidValue:
        return False


def _key(entry: Entry) -> tuple[object, ...]:
    """Return all that an entry is but its place in the log."""
    return (entry.id, entry.time, entry.payload, entry.decision, entry.audit, entry.unknown)


# -- what is shown ---------------------------------------------------------------------------


def _rows(entry: Entry, context: Context) -> list[Object]:
    """Return the elements that show an entry; the first one says what was decided."""
    extras = _extras(entry)
    around = extras.pop(AROUND, None)
    first, *others = _messages(entry, context)
    decision, audit = entry.decision or usual_decision(entry.payload), as_object(entry.audit)
    if entry.decision is None and entry.audit is None:
        decision, audit = _verdict(first, context) or (decision, audit)
    message = words_of_others(entry.payload, NAME) or _with_others(first, extras)
    rows = [_row(entry, 0, message, Verdict(decision, audit))]
    if isinstance(around, dict):
        rows[0] |= {name: write(part) for name, part in around.items() if name not in rows[0]}
    for number, other in enumerate(others, start=1):
        verdict = _verdict(other, context) or Verdict("", JsonObject())
        rows.append(_row(entry, number, write_object(other), verdict))
    return rows


def _row(entry: Entry, number: int, message: bytes, verdict: Verdict) -> Object:
    return {
        "id": write(f"{entry.id}#{number}" if number else entry.id),
        "timestamp": write_time(entry.time),
        "message": message,
        "decision": write(verdict.decision),
        "audit": write(expose(verdict.audit)),
    }


def _verdict(message: Object, context: Context) -> Verdict | None:
    """Return what was decided about an action."""
    if message["type"] != write(Kind.ASSISTANT_ACTION):
        return None
    return context.decision_for(_text(message["tool_id"]), _text(message["tool_name"]))


def _extras(entry: Entry) -> dict[str, Any]:
    """Return what others said beyond our names."""
    payload = entry.payload
    found = (payload.extras or {}).get(NAME) if isinstance(payload, Sendable) else None
    return found.to_dict() if isinstance(found, JsonObject) else {}


def _with_others(message: Object, extras: dict[str, Any]) -> bytes:
    return write_object(
        message | {name: write(part) for name, part in extras.items() if name not in message}
    )


def _text(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=str)


def _messages(entry: Entry, context: Context) -> list[Object]:
    message = entry.message
    match message:
        case None:
            return [_words(Kind.SYSTEM_CONTEXT, text_of(entry))]
        case UserMessage():
            return [_words(Kind.USER, message.text)]
        case SystemMessage():
            return [_words(Kind.SYSTEM_CONTEXT, message.text)]
        case AssistantMessage():
            parts = [
                _part(block) for block in message.content if isinstance(block, Text | AnyToolCall)
            ]
            return parts or [_words(Kind.ASSISTANT_TEXT, "")]
        case ToolResultMessage():
            return [_result(message, context)]
        case _:
            assert_never(message)


def _words(kind: Kind, text: str) -> Object:
    return {"type": write(kind), "content": write(text)}


def _part(block: Text | AnyToolCall) -> Object:
    if isinstance(block, Text):
        return _words(Kind.ASSISTANT_TEXT, block.text)
    return {
        "type": write(Kind.ASSISTANT_ACTION),
        "tool_name": write(outside_name(block)),
        "tool_args": object_text(block.arguments) or _NOTHING,
        "tool_id": write(block.id),
    }


def _result(message: ToolResultMessage, context: Context) -> Object:
    kind = Kind.TOOL_ERROR if message.is_error else Kind.TOOL_RESULT
    members: Object = {
        "type": write(kind),
        "tool_id": write(message.tool_call_id),
        "tool_name": write(context.displayed_tool_name(message)),
        "success": write(not message.is_error),
    }
    if message.is_error:
        members["error"] = write(
            message.text or (message.failure and message.failure.message) or ""
        )
    else:
        members["result"] = _said(message)
    if message.started_at is not None:
        members["executed_at"] = write_time(message.started_at)
    return members


def _said(message: ToolResultMessage) -> bytes:
    """Write a result as the JSON that it is, if its details are the same, else as text."""
    if not message.content:
        return b"null"
    text = message.text
    if message.details is not None and is_json_text(text):
        raw = text.strip().encode()
        if details_of(raw) == message.details:
            return raw
    return write(text)
