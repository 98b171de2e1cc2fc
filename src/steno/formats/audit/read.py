"""Read an audit log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from steno.call import AnyToolCall, build_call
from steno.codec import decode_entry
from steno.content import Opaque, Text
from steno.entry import Entry, Payload
from steno.errors import InvalidDocument, InvalidValue
from steno.formats.audit.shape import (
    AROUND,
    ENTRY,
    NAME,
    PAYLOAD,
    Context,
    usual_decision,
)
from steno.formats.format import Imported, in_line
from steno.formats.text import (
    Object,
    array_at,
    json_at,
    object_at,
    payload_at,
    read_input,
    reading,
    string_at,
    time_at,
)
from steno.identity import new_id
from steno.json_object import JsonObject
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.outcome import Failure, Outcome
from steno.record import Header
from steno.views import Kind

_ACTS: Final = frozenset({Kind.ASSISTANT_TEXT, Kind.ASSISTANT_ACTION})


def decode(data: bytes) -> Imported:
    """Read an audit log, ours or one that others wrote in its shape. Raises InvalidDocument."""
    members = object_at(read_input(data), "audit log")
    if "entries" not in members:
        raise InvalidDocument("audit log: has no entries")
    parts = array_at(members.pop("entries"), "entries")
    rows = [read_row(part, f"entries[{number}]") for number, part in enumerate(parts)]
    stored = [row.stored for row in rows if row.stored is not None]
    context = Context(found.payload if isinstance(found, Entry) else found for found in stored)
    entries: list[Entry] = []
    for group in grouped(rows, context):
        entries.append(entry_of(group, context))
        context.add(entries[-1].payload)
    kept = {name: value.decode() for name, value in members.items()}
    header = Header(id=new_id(), about={NAME: kept} if kept else None)
    return Imported(header, in_line(entries))


# -- one line --------------------------------------------------------------------------------


class Row(NamedTuple):
    """One element of the log."""

    place: str
    id: str
    time: datetime | None
    kind: str
    message: Object
    raw: bytes
    """The message as it stood there."""
    decision: str
    audit: JsonObject
    stored: Payload | Entry | None
    """What stands in the audit data for us."""
    rest: Object
    """What others put beside it."""


def read_row(raw: bytes, place: str) -> Row:
    """Read one element as far as it can be understood without the others."""
    members = object_at(raw, place)
    message_raw = members.pop("message", b"null")
    message = object_at(message_raw, f"{place}.message")
    kind = string_at(message.pop("type", None), f"{place}.message.type")
    if not kind:
        raise InvalidDocument(f"{place}.message.type: must name the type of the message")
    audit_raw = members.pop("audit", b"null")
    audit = {} if audit_raw == b"null" else object_at(audit_raw, f"{place}.audit")
    stored = _stored(audit, f"{place}.audit")
    return Row(
        place=place,
        id=string_at(members.pop("id", None), f"{place}.id") or new_id(),
        time=time_at(members.pop("timestamp", None), f"{place}.timestamp"),
        kind=kind,
        message=message,
        raw=message_raw,
        decision=string_at(members.pop("decision", None), f"{place}.decision") or "",
        audit=json_at(audit, f"{place}.audit"),
        stored=stored,
        rest=members,
    )


def _stored(audit: Object, place: str) -> Payload | Entry | None:
    payload, entry = audit.pop(PAYLOAD, None), audit.pop(ENTRY, None)
    if entry is not None:
        object_at(entry, f"{place}.{ENTRY}")
        return decode_entry(entry)
    return None if payload is None else payload_at(payload, f"{place}.{PAYLOAD}")


# -- which belong together -------------------------------------------------------------------


def grouped(rows: Iterable[Row], context: Context) -> Iterator[list[Row]]:
    """Put the elements that were made of one turn together again."""
    group: list[Row] = []
    for row in rows:
        if group and not _continues(row, group, context):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _continues(row: Row, group: Sequence[Row], context: Context) -> bool:
    """Tell whether an element is the next part of a turn, and says nothing of its own."""
    first = group[0]
    return (
        row.id == f"{first.id}#{len(group)}"
        and first.kind in _ACTS
        and row.kind in _ACTS
        and row.time == first.time
        and row.stored is None
        and not row.rest
        and row.message.keys() <= _WORDS[row.kind]
        and ((not row.decision and not row.audit) or _is_verdict(row, context))
    )


def _is_verdict(row: Row, context: Context) -> bool:
    """Tell whether decision and audit data only repeat what another entry records."""
    if row.kind != Kind.ASSISTANT_ACTION:
        return False
    name = string_at(row.message.get("tool_name"), f"{row.place}.message.tool_name")
    return context.decision_for(_call_id(row), name or "") == (row.decision, row.audit)


# -- entries ---------------------------------------------------------------------------------


def entry_of(group: Sequence[Row], context: Context) -> Entry:
    """Make one entry of the elements that belong together."""
    row = group[0]
    if isinstance(row.stored, Entry):
        return row.stored
    payload = row.stored
    if payload is None:
        payload = _payload(group, context)
    decision: str | None = row.decision
    audit: JsonObject | None = row.audit
    if _is_verdict(row, context):
        decision = audit = None
    elif row.decision == usual_decision(payload):
        decision = None
    with reading(row.place):
        return Entry(
            id=row.id, time=row.time, payload=payload, decision=decision, audit=audit or None
        )


def _payload(group: Sequence[Row], context: Context) -> Payload:
    row = group[0]
    extras = _extras(row)
    with reading(f"{row.place}.message"):
        match row.kind:
            case Kind.USER:
                return UserMessage((Text(_content(row)),), extras=extras)
            case Kind.SYSTEM_CONTEXT:
                return SystemMessage((Text(_content(row)),), extras=extras)
            case Kind.ASSISTANT_TEXT | Kind.ASSISTANT_ACTION:
                return AssistantMessage(content=tuple(map(_block, group)), extras=extras)
            case Kind.TOOL_RESULT | Kind.TOOL_ERROR:
                return _result(row, context, extras)
            case _:
                return Opaque(kind=row.kind, raw=row.raw.decode(), origin=NAME, extras=extras)


def _extras(row: Row) -> dict[str, Any] | None:
    """Return what others say beyond our names."""
    words = _WORDS.get(row.kind, row.message.keys())  # of another type, all is kept as it is
    rest = {name: value for name, value in row.message.items() if name not in words}
    kept = json_at(rest, f"{row.place}.message").to_dict()
    if row.rest:
        kept[AROUND] = json_at(row.rest, row.place).to_dict()
    return {NAME: kept} if kept else None


_WORDS: Final[dict[str, frozenset[str]]] = {
    Kind.USER: frozenset({"content"}),
    Kind.SYSTEM_CONTEXT: frozenset({"content"}),
    Kind.ASSISTANT_TEXT: frozenset({"content"}),
    Kind.ASSISTANT_ACTION: frozenset({"tool_name", "tool_args", "tool_id"}),
    Kind.TOOL_RESULT: frozenset({"tool_id", "tool_name", "success", "result", "executed_at"}),
    Kind.TOOL_ERROR: frozenset({"tool_id", "tool_name", "success", "error", "executed_at"}),
}


def _content(row: Row) -> str:
    content = string_at(row.message.get("content"), f"{row.place}.message.content")
    if content is None:
        raise InvalidDocument(f"{row.place}.message.content: must be a string")
    return content


def _block(row: Row) -> Text | AnyToolCall:
    if row.kind == Kind.ASSISTANT_TEXT:
        return Text(_content(row))
    place = f"{row.place}.message"
    name = string_at(row.message.get("tool_name"), f"{place}.tool_name")
    if not name:
        raise InvalidDocument(f"{place}.tool_name: an action must name its tool")
    arguments = row.message.get("tool_args", b"null")
    if arguments != b"null":
        object_at(arguments, f"{place}.tool_args")
    return build_call(_call_id(row), name, "{}" if arguments == b"null" else arguments.decode())


def _call_id(row: Row) -> str:
    """Return the id of an action; one without goes by that of its entry."""
    return string_at(row.message.get("tool_id"), f"{row.place}.message.tool_id") or row.id


# -- results ---------------------------------------------------------------------------------


def _result(row: Row, context: Context, extras: dict[str, Any] | None) -> ToolResultMessage:
    place, message = f"{row.place}.message", row.message
    has_failed = row.kind == Kind.TOOL_ERROR
    if message.get("success", b"null") not in (b"null", b"false" if has_failed else b"true"):
        raise InvalidDocument(f"{place}.success: must be true in a tool_result, else false")
    shown = string_at(message.get("tool_name"), f"{place}.tool_name") or ""
    call_id = string_at(message.get("tool_id"), f"{place}.tool_id") or context.find_unanswered(shown)
    if call_id is None:
        raise InvalidDocument(f"{place}.tool_id: must name the call that is answered")
    content: tuple[Text, ...]
    details: dict[str, Any] | None = None
    failure: Failure | None = None
    if has_failed:
        text = string_at(message.get("error"), f"{place}.error") or ""
        content, failure = (Text(text),), Failure(message=text)
    else:
        content, details = _said(message.get("result", b"null"))
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name=context.own_tool_name(call_id, shown),
        content=content,
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        details=details,
        failure=failure,
        started_at=time_at(message.get("executed_at"), f"{place}.executed_at"),
        extras=extras,
    )


def _said(raw: bytes) -> tuple[tuple[Text, ...], dict[str, Any] | None]:
    """Read a result: a model reads JSON as its text, and people read it as it is."""
    if raw == b"null":
        return (), None
    if raw.startswith(b'"'):
        return (Text(msgspec.json.decode(raw, type=str)),), None
    return (Text(raw.decode()),), details_of(raw)


def details_of(raw: bytes) -> dict[str, Any] | None:
    """Return a result that is JSON as details; None if it cannot be read."""
    try:
        found = raw if raw.startswith(b"{") else b'{"result":' + raw + b"}"
        return JsonObject.parse(found).to_dict()
    except InvalidValue:
        return None
