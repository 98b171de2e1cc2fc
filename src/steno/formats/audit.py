"""Import and export the audit log as JSON: messages, tool calls, results and decisions.

    {"entries": [
      {"id": "…", "timestamp": "2026-02-10T15:30:06Z",
       "message": {"type": "assistant_action", "tool_name": "fs.read",
                   "tool_args": {"path": "README.md"}, "tool_id": "c1"},
       "decision": "tool_call_approved",
       "audit": {"tool": "fs.read", "actor": "ada"}}]}

The type of a message is `user`, `assistant_text`, `system_context` (each with `content`),
`assistant_action`, `tool_result` or `tool_error`. A turn with several texts and calls is written
as one element for each, with the ids `ID`, `ID#1` and so on. An entry that is not a message is
written as a `system_context` whose decision names the type of the entry. The decision of an action
is the approval of the call, unless the entry has a decision of its own.

Reading an export returns equal entries. If these members cannot express a payload completely, the
payload is added to `audit` under `steno`, in the stored format. If they cannot express an entry
completely, the entry is added under `steno_entry`. `decode` then uses only the stored payload or
entry; the other members are a human-readable form of it.
Members of other programs are stored in the extras of the message, and messages of unknown types as
`Opaque`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, final

import msgspec

from steno.codec import decode_entry, encode_entry, encode_payload
from steno.errors import InvalidDocument, InvalidValue
from steno.formats.format import ExportedFile, ExportLossCollector, ImportedSession, link_entries
from steno.formats.json_text import (
    JsonMembers,
    arguments_object,
    build_json_object,
    foreign_json,
    parse_array,
    parse_object,
    parse_payload,
    parse_string,
    parse_time,
    read_json_input,
    report_invalid_at,
    require_string,
    restore_members,
    write_array,
    write_json,
    write_object,
    write_time,
)
from steno.ids import new_id
from steno.json_object import JsonObject, as_json_object, is_json_text, raw_members
from steno.log.queries import EntryKind, as_version_2, searchable_text
from steno.messages.call import AnyToolCall, build_call, original_tool_name
from steno.messages.content import Opaque, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.outcome import Failure, Outcome
from steno.records.entry import Approval, ApprovalStatus, Entry, Payload
from steno.records.stored_record import Header
from steno.values import Sendable

NAME: Final = "audit"

_SINGLE: Final = "single"
"""The fact, in the header, that the file is a single element."""
_PAYLOAD_KEY: Final = "steno"
_ENTRY_KEY: Final = "steno_entry"
_SURROUNDING_KEY: Final = "$entry"
"""The key, in the extras of a message, for members that other programs add beside `message`."""
_EMPTY_OBJECT: Final = write_json({})
_DECISION_BY_STATUS: Final = {
    ApprovalStatus.APPROVED: "tool_call_approved",
    ApprovalStatus.DENIED: "tool_call_denied",
}
_ASSISTANT_KINDS: Final = frozenset({EntryKind.ASSISTANT_TEXT, EntryKind.ASSISTANT_ACTION})
_KNOWN_FIELDS: Final[dict[str, frozenset[str]]] = {
    EntryKind.USER: frozenset({"content"}),
    EntryKind.SYSTEM_CONTEXT: frozenset({"content"}),
    EntryKind.ASSISTANT_TEXT: frozenset({"content"}),
    EntryKind.ASSISTANT_ACTION: frozenset({"tool_name", "tool_args", "tool_id"}),
    EntryKind.TOOL_RESULT: frozenset({"tool_id", "tool_name", "success", "result", "executed_at"}),
    EntryKind.TOOL_ERROR: frozenset({"tool_id", "tool_name", "success", "error", "executed_at"}),
}


class _Row(NamedTuple):
    """One element of `entries` in the file."""

    place: str
    id: str
    time: datetime | None
    kind: str
    message: JsonMembers
    raw: bytes
    """The JSON of the message in the file."""
    decision: str
    audit: JsonObject
    stored: Payload | Entry | None
    """The payload or entry in the stored format, from the audit data; None if there is none."""
    rest: JsonMembers
    """The members that other programs add beside `message`."""


_Decision: TypeAlias = tuple[str, JsonObject]
"""The decision and the audit data that are written beside a message."""


@final
class _Context:
    """The approvals and tool calls of other entries that are needed to read or write an entry."""

    def __init__(self, payloads: Iterable[Payload]) -> None:
        self._approvals = {
            payload.call_id: payload for payload in payloads if isinstance(payload, Approval)
        }
        self._calls: dict[str, AnyToolCall] = {}
        self._outstanding: dict[str, AnyToolCall] = {}

    def add(self, payload: Payload) -> None:
        """Record the calls of an entry, or record that the entry answers a call.

        Entries must be added in order.
        """
        if isinstance(payload, AssistantMessage):
            for call in payload.tool_calls:
                self._calls[call.id] = self._outstanding[call.id] = call
        elif isinstance(payload, ToolResultMessage):
            self._outstanding.pop(payload.tool_call_id, None)

    def decision_for(self, call_id: str, tool_name: str) -> _Decision | None:
        """Return the decision and audit data of a call; None if it has no approval or denial."""
        approval = self._approvals.get(call_id)
        decision = None if approval is None else _DECISION_BY_STATUS.get(approval.status)
        if approval is None or decision is None:
            return None
        about = {"actor": approval.actor, "rule": approval.rule, "reason": approval.reason}
        known = {name: text for name, text in about.items() if text is not None}
        return decision, JsonObject({"tool": tool_name, **known})

    def displayed_tool_name(self, result: ToolResultMessage) -> str:
        """Return the tool name of a result, as written in the audit log for its call."""
        call = self._calls.get(result.tool_call_id)
        is_ours = call is not None and call.name == result.tool_name
        return original_tool_name(call) if call is not None and is_ours else result.tool_name

    def own_tool_name(self, call_id: str, shown: str) -> str:
        """Return the tool name that steno uses for a result with the name `shown` in the log."""
        call = self._calls.get(call_id)
        return call.name if call is not None and original_tool_name(call) == shown else shown

    def find_unanswered(self, tool_name: str) -> str | None:
        """Return the id of the first unanswered call of a tool; None if there is no such call.

        An empty name matches any tool. The id is used for a tool result that has no call id.
        """
        for id, call in self._outstanding.items():
            if not tool_name or original_tool_name(call) == tool_name:
                return id
        return None


def _default_decision(payload: Payload) -> str:
    is_foreign = isinstance(payload, Opaque) and payload.origin == NAME
    if is_foreign or isinstance(payload, Message):
        return ""
    return str(payload.__struct_config__.tag)


# -- reading -------------------------------------------------------------------------------


def decode(data: bytes) -> ImportedSession:
    """Read an audit log of steno or another program, or a single element of its `entries`.

    Raises InvalidDocument if it is invalid.
    """
    raw = read_json_input(data)
    members = parse_object(raw, "audit log")
    is_single = "message" in members and "entries" not in members
    if is_single:
        members = {"entries": write_array([raw.strip()])}
    if "entries" not in members:
        raise InvalidDocument(
            'the member "entries" is missing', code="entries_missing", place="audit log"
        )
    parts = parse_array(members.pop("entries"), "entries")
    rows = [_read_row(part, f"entries[{number}]") for number, part in enumerate(parts)]
    stored = [row.stored for row in rows if row.stored is not None]
    context = _Context(found.payload if isinstance(found, Entry) else found for found in stored)
    entries: list[Entry] = []
    for group in _group_rows(rows, context):
        entries.append(_build_entry(group, context))
        context.add(entries[-1].payload)
    extra_members = {name: value.decode() for name, value in members.items()}
    about = _SINGLE if is_single else extra_members
    header = Header(id=new_id(), about={NAME: about} if about else None)
    return ImportedSession(header, link_entries(entries))


def _read_row(raw: bytes, place: str) -> _Row:
    """Read one element of `entries`. Raises InvalidDocument if it is invalid."""
    members = parse_object(raw, place)
    message_raw = members.pop("message", b"null")
    message = parse_object(message_raw, f"{place}.message")
    kind = parse_string(message.pop("type", None), f"{place}.message.type")
    if not kind:
        raise InvalidDocument(
            "the type of the message is missing", code="type_missing", place=f"{place}.message.type"
        )
    audit_raw = members.pop("audit", b"null")
    audit = {} if audit_raw == b"null" else parse_object(audit_raw, f"{place}.audit")
    payload, entry = audit.pop(_PAYLOAD_KEY, None), audit.pop(_ENTRY_KEY, None)
    stored: Payload | Entry | None = None
    if entry is not None:
        parse_object(entry, f"{place}.audit.{_ENTRY_KEY}")
        stored = decode_entry(entry)
    elif payload is not None:
        stored = parse_payload(payload, f"{place}.audit.{_PAYLOAD_KEY}")
    return _Row(
        place=place,
        id=parse_string(members.pop("id", None), f"{place}.id") or new_id(),
        time=parse_time(members.pop("timestamp", None), f"{place}.timestamp"),
        kind=kind,
        message=message,
        raw=message_raw,
        decision=parse_string(members.pop("decision", None), f"{place}.decision") or "",
        audit=build_json_object(audit, f"{place}.audit"),
        stored=stored,
        rest=members,
    )


def _group_rows(rows: Iterable[_Row], context: _Context) -> Iterator[list[_Row]]:
    """Yield the elements in groups: the elements of one turn, or a single other element."""
    group: list[_Row] = []
    for row in rows:
        if group and not _continues_turn(row, group, context):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _continues_turn(row: _Row, group: Sequence[_Row], context: _Context) -> bool:
    """Return whether an element continues the turn of `group` and has no data of its own.

    Such data is a stored payload or entry, an unknown member, a different time, or a decision that
    does not merely repeat the approval or denial of the call.
    """
    first = group[0]
    return (
        row.id == f"{first.id}#{len(group)}"
        and first.kind in _ASSISTANT_KINDS
        and row.kind in _ASSISTANT_KINDS
        and row.time == first.time
        and row.stored is None
        and not row.rest
        and row.message.keys() <= _KNOWN_FIELDS[row.kind]
        and ((not row.decision and not row.audit) or _repeats_decision(row, context))
    )


def _repeats_decision(row: _Row, context: _Context) -> bool:
    """Return whether the decision and audit data only repeat the approval of another entry."""
    if row.kind != EntryKind.ASSISTANT_ACTION:
        return False
    name = parse_string(row.message.get("tool_name"), f"{row.place}.message.tool_name")
    return context.decision_for(_read_call_id(row), name or "") == (row.decision, row.audit)


def _build_entry(group: Sequence[_Row], context: _Context) -> Entry:
    row = group[0]
    if isinstance(row.stored, Entry):
        return row.stored
    payload = row.stored
    if payload is None:
        payload = _build_payload(group, context)
    decision: str | None = row.decision
    audit: JsonObject | None = row.audit
    if _repeats_decision(row, context):
        decision = audit = None
    elif row.decision == _default_decision(payload):
        decision = None
    with report_invalid_at(row.place):
        return Entry(
            id=row.id, time=row.time, payload=payload, decision=decision, audit=audit or None
        )


def _build_payload(group: Sequence[_Row], context: _Context) -> Payload:
    row = group[0]
    extras = _read_extras(row)
    with report_invalid_at(f"{row.place}.message"):
        match row.kind:
            case EntryKind.USER:
                return UserMessage((Text(_read_content(row)),), extras=extras)
            case EntryKind.SYSTEM_CONTEXT:
                return SystemMessage((Text(_read_content(row)),), extras=extras)
            case EntryKind.ASSISTANT_TEXT | EntryKind.ASSISTANT_ACTION:
                return AssistantMessage(content=tuple(map(_build_block, group)), extras=extras)
            case EntryKind.TOOL_RESULT | EntryKind.TOOL_ERROR:
                return _build_result(row, context, extras)
            case _:
                return Opaque(kind=row.kind, raw=row.raw.decode(), origin=NAME, extras=extras)


def _read_extras(row: _Row) -> dict[str, Any] | None:
    """Return the members that steno does not know, as extras; None if there are none."""
    # A message of an unknown type is stored as a whole, so it has no unknown members.
    known = _KNOWN_FIELDS.get(row.kind, row.message.keys())
    rest = {name: value for name, value in row.message.items() if name not in known}
    extras = build_json_object(rest, f"{row.place}.message").to_dict()
    if row.rest:
        extras[_SURROUNDING_KEY] = build_json_object(row.rest, row.place).to_dict()
    return {NAME: extras} if extras else None


def _read_content(row: _Row) -> str:
    return require_string(row.message.get("content"), f"{row.place}.message.content")


def _build_block(row: _Row) -> Text | AnyToolCall:
    if row.kind == EntryKind.ASSISTANT_TEXT:
        return Text(_read_content(row))
    place = f"{row.place}.message"
    name = parse_string(row.message.get("tool_name"), f"{place}.tool_name")
    if not name:
        raise InvalidDocument(
            "the name of the tool is missing", code="tool_name_missing", place=f"{place}.tool_name"
        )
    arguments = row.message.get("tool_args", b"null")
    if arguments == b"null":
        arguments = b"{}"
    parse_object(arguments, f"{place}.tool_args")
    return build_call(_read_call_id(row), name, arguments.decode())


def _read_call_id(row: _Row) -> str:
    """Return the call id of an action, or the id of the element if the call id is missing."""
    return parse_string(row.message.get("tool_id"), f"{row.place}.message.tool_id") or row.id


def _build_result(row: _Row, context: _Context, extras: dict[str, Any] | None) -> ToolResultMessage:
    place, message = f"{row.place}.message", row.message
    has_failed = row.kind == EntryKind.TOOL_ERROR
    if message.get("success", b"null") not in (b"null", b"false" if has_failed else b"true"):
        raise InvalidDocument(
            "must be true in a tool_result, and false in a tool_error",
            code="success_mismatch",
            place=f"{place}.success",
        )
    shown = parse_string(message.get("tool_name"), f"{place}.tool_name") or ""
    named_id = parse_string(message.get("tool_id"), f"{place}.tool_id")
    call_id = named_id or context.find_unanswered(shown)
    if call_id is None:
        raise InvalidDocument(
            "the id of the call is missing", code="call_id_missing", place=f"{place}.tool_id"
        )
    content: tuple[Text, ...]
    details: dict[str, Any] | None = None
    failure: Failure | None = None
    if has_failed:
        text = parse_string(message.get("error"), f"{place}.error") or ""
        content, failure = (Text(text),), Failure(message=text)
    else:
        raw = message.get("result", b"null")
        if raw == b"null":
            content = ()
        elif raw.startswith(b'"'):
            content = (Text(msgspec.json.decode(raw, type=str)),)
        else:  # other JSON is used both as the text for the model and as the details
            content, details = (Text(raw.decode()),), _parse_details(raw)
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name=context.own_tool_name(call_id, shown),
        content=content,
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        details=details,
        failure=failure,
        started_at=parse_time(message.get("executed_at"), f"{place}.executed_at"),
        extras=extras,
    )


def _parse_details(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON of a result as details; None if the JSON is invalid.

    JSON that is not an object becomes the member `result` of an object.
    """
    try:
        found = raw if raw.startswith(b"{") else b'{"result":' + raw + b"}"
        return JsonObject.parse(found).to_dict()
    except InvalidValue:
        return None


# -- writing -------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    """Write the entries of a branch.

    A payload or entry that the plain members cannot express is also added in the stored format.
    """
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, {})
    losses.add_header(header)
    context = _Context(entry.payload for entry in entries)
    rows: list[bytes] = []
    for entry in entries:
        rows += _encode_entry(entry, context)
        context.add(entry.payload)
    about = (header.about or {}).get(NAME)
    outer_members = restore_members({}, about) or {}
    data = write_object(outer_members | {"entries": write_array(rows)})
    is_single = about == _SINGLE and len(rows) == 1
    return ExportedFile(rows[0] if is_single else data, losses.result())


def _encode_entry(entry: Entry, context: _Context) -> list[bytes]:
    """Write an entry in the simplest form from which `decode` restores an equal entry."""
    rows = _build_rows(entry, context)
    written = list(map(write_object, rows))
    head, tail = rows[0], written[1:]
    # An id such as `ID#1` could be read as the continuation of the turn before it.
    if "#" not in entry.id and _round_trips(written, entry, context):
        return written
    audit = dict(raw_members(as_json_object(entry.audit or {})))
    if _PAYLOAD_KEY not in audit and _ENTRY_KEY not in audit:
        head["audit"] = _add_stored(head["audit"], _PAYLOAD_KEY, encode_payload(entry.payload))
        written = [write_object(head), *tail]
        if _round_trips(written, entry, context):
            return written
    plain = {name: part for name, part in audit.items() if name not in (_PAYLOAD_KEY, _ENTRY_KEY)}
    head["audit"] = _add_stored(write_json(plain), _ENTRY_KEY, encode_entry(entry))
    return [write_object(head), *tail]


def _add_stored(audit: bytes, name: str, stored: bytes) -> bytes:
    comma = b"," if audit != _EMPTY_OBJECT else b""
    return audit[:-1] + comma + write_json(name) + b":" + stored + b"}"


def _round_trips(rows: list[bytes], entry: Entry, context: _Context) -> bool:
    """Return whether reading the rows restores an equal entry."""
    try:
        groups = list(_group_rows([_read_row(row, "row") for row in rows], context))
        read = _build_entry(groups[0], context)
    except InvalidValue:
        return False
    # All fields except the position in the log.
    names = ("id", "time", "payload", "decision", "audit", "unknown")
    return len(groups) == 1 and all(getattr(read, name) == getattr(entry, name) for name in names)


def _build_rows(entry: Entry, context: _Context) -> list[JsonMembers]:
    """Return the elements for an entry; the first one has the decision of the entry."""
    payload = entry.payload
    foreign = (payload.extras or {}).get(NAME) if isinstance(payload, Sendable) else None
    extras = foreign.to_dict() if isinstance(foreign, JsonObject) else {}
    surrounding = extras.pop(_SURROUNDING_KEY, None)
    first, *others = _build_messages(entry, context)
    decision = entry.decision or _default_decision(payload)
    audit = as_json_object(entry.audit or {})
    if entry.decision is None and entry.audit is None:
        decision, audit = _decision_of_action(first, context) or (decision, audit)
    first |= {name: write_json(part) for name, part in extras.items() if name not in first}
    message = foreign_json(payload, NAME) or write_object(first)
    rows = [_build_row(entry, 0, message, (decision, audit))]
    if isinstance(surrounding, dict):
        rows[0] |= {
            name: write_json(part) for name, part in surrounding.items() if name not in rows[0]
        }
    for number, message_members in enumerate(others, start=1):
        action_decision = _decision_of_action(message_members, context) or ("", JsonObject())
        rows.append(_build_row(entry, number, write_object(message_members), action_decision))
    return rows


def _build_row(entry: Entry, number: int, message: bytes, decision: _Decision) -> JsonMembers:
    return {
        "id": write_json(f"{entry.id}#{number}" if number else entry.id),
        "timestamp": write_time(entry.time),
        "message": message,
        "decision": write_json(decision[0]),
        "audit": write_json(raw_members(decision[1])),
    }


def _decision_of_action(message: JsonMembers, context: _Context) -> _Decision | None:
    """Return the decision about the call in a message, with its audit data.

    Return None if the message is not an action, or if there is no decision about its call.
    """
    if message["type"] != write_json(EntryKind.ASSISTANT_ACTION):
        return None
    call_id, name = (
        msgspec.json.decode(message[member], type=str) for member in ("tool_id", "tool_name")
    )
    return context.decision_for(call_id, name)


def _build_messages(entry: Entry, context: _Context) -> list[JsonMembers]:
    message = entry.message
    match message:
        case None:
            return [_text_message(EntryKind.SYSTEM_CONTEXT, searchable_text(entry))]
        case UserMessage():
            return [_text_message(EntryKind.USER, message.text)]
        case SystemMessage():
            return [_text_message(EntryKind.SYSTEM_CONTEXT, message.text)]
        case AssistantMessage():
            parts = [
                _block_message(block)
                for block in message.content
                if isinstance(block, Text | AnyToolCall)
            ]
            return parts or [_text_message(EntryKind.ASSISTANT_TEXT, "")]
        case ToolResultMessage():
            return [_result_message(message, context)]
        case _:
            assert_never(message)


def _text_message(kind: EntryKind, text: str) -> JsonMembers:
    return {"type": write_json(kind), "content": write_json(text)}


def _block_message(block: Text | AnyToolCall) -> JsonMembers:
    if isinstance(block, Text):
        return _text_message(EntryKind.ASSISTANT_TEXT, block.text)
    return {
        "type": write_json(EntryKind.ASSISTANT_ACTION),
        "tool_name": write_json(original_tool_name(block)),
        "tool_args": arguments_object(block.arguments) or _EMPTY_OBJECT,
        "tool_id": write_json(block.id),
    }


def _result_message(message: ToolResultMessage, context: _Context) -> JsonMembers:
    kind = EntryKind.TOOL_ERROR if message.is_error else EntryKind.TOOL_RESULT
    members: JsonMembers = {
        "type": write_json(kind),
        "tool_id": write_json(message.tool_call_id),
        "tool_name": write_json(context.displayed_tool_name(message)),
        "success": write_json(not message.is_error),
    }
    if message.is_error:
        members["error"] = write_json(
            message.text or (message.failure and message.failure.message) or ""
        )
    else:
        members["result"] = _encode_result(message)
    if message.started_at is not None:
        members["executed_at"] = write_time(message.started_at)
    return members


def _encode_result(message: ToolResultMessage) -> bytes:
    """Write a result as JSON if its text is the JSON of its details, and otherwise as a string."""
    if not message.content:
        return b"null"
    text = message.text
    if message.details is not None and is_json_text(text):
        raw = text.strip().encode()
        if _parse_details(raw) == message.details:
            return raw
    return write_json(text)
