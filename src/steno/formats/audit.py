"""Import and export the audit log as JSON: messages, tool calls, results and decisions.

    {"entries": [
      {"id": "…", "timestamp": "2026-02-10T15:30:06Z",
       "message": {"type": "assistant_action", "tool_name": "fs.read",
                   "tool_args": {"path": "README.md"}, "tool_id": "c1"},
       "decision": "tool_call_approved",
       "audit": {"tool": "fs.read", "actor": "ada", "steno_derived": ["decision", "tool", "actor"]}}]}

The type of a message is `user`, `assistant_text`, `system_context` (each with `content`),
`assistant_action`, `tool_result` or `tool_error`. A turn with several texts and calls is written
as one element for each, with the ids `ID`, `ID#1` and so on. An entry that is not a message is
written as a `system_context`.

Every element has a decision. If the entry has none, the decision is derived: from the approval of
the call, the outcome of the result, or the type of the entry. The execution time and the size of a
result are derived, too. `audit.steno_derived` names the derived values. `steno audit --json` adds
the member `signature` to the element of each decision; an import ignores it.

Reading an export returns equal entries, without the derived values. If these members cannot express
a payload completely, the payload is added to `audit` under `steno`, in the stored format. If they
cannot express an entry completely, the entry is added under `steno_entry`. `decode` uses the stored
payload or entry if the other members are its human-readable form. The text of a known payload that
is not a message may have another form, because other versions of steno may describe it in other
words. A `system_context` with a payload or entry that steno cannot use, such as one of a newer
version, is stored as `Opaque` with its audit data, so it is never sent to a model. In all other
cases, these keys and `steno_derived` are audit data of another program, which is preserved.
Members of other programs that steno would write differently are stored in the extras of the
message, so that an imported file is exported unchanged. Messages of unknown types are stored as
`Opaque`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import compress
from types import MappingProxyType
from typing import Any, Final, NamedTuple, assert_never, final

import msgspec
from msgspec.structs import replace

from steno.codec import encode_entry, encode_payload
from steno.codec.canonical_json import decode_entry_silently, log_warning
from steno.codec.json_scanner import split_array
from steno.errors import InvalidDocument, InvalidValue
from steno.formats.format import (
    ExportedFile,
    ExportLossCollector,
    ImportedSession,
    derive_session_id,
    link_entries,
)
from steno.formats.json_text import (
    JsonInput,
    JsonMembers,
    arguments_object,
    build_json_object,
    changed_members,
    foreign_json,
    parse_array,
    parse_object,
    parse_payload,
    parse_string,
    parse_time,
    read_json_file,
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
from steno.log.queries import (
    EntryKind,
    EntryPart,
    approvals_by_call,
    as_version_2,
    calls_by_entry,
    entry_decisions,
    entry_parts,
    is_agent_result,
    result_tool_name,
    searchable_text,
)
from steno.messages.call import AnyToolCall, build_call, original_tool_name
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    Opaque,
    Resource,
    Text,
)
from steno.messages.message import (
    AssistantMessage,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.outcome import Failure, Outcome
from steno.records.entry import Approval, Entry, Payload
from steno.records.stored_record import Header
from steno.values import FORM_KEY, Sendable

NAME: Final = "audit"

_SINGLE: Final = "single"
_LIST: Final = "list"
"""The forms, in the header, of a file that is a single element or an array of elements."""
_PAYLOAD_KEY: Final = "steno"
_ENTRY_KEY: Final = "steno_entry"
_DERIVED_KEY: Final = "steno_derived"
"""The key, in the audit data, for the names of the values that are not in the entry."""
_DERIVABLE_MEMBERS: Final = ("decision", "timestamp")
"""The members of an element whose values may be derived; other derived values are audit data."""
_STORED_KEYS: Final = frozenset({_PAYLOAD_KEY, _ENTRY_KEY})
_OWN_KEYS: Final = _STORED_KEYS | {_DERIVED_KEY}
_DERIVED_AUDIT: Final = frozenset(
    {"execution_time_ms", "result_size_bytes", "tool", "actor", "rule", "reason"}
)
"""The names of the audit data that may be derived."""
_ROWS_KEY: Final = "rows"
"""The key, in the form notes of a message, for members that steno would write differently."""
_MAX_TYPE_LENGTH: Final = 80
_INTEGER_LIMIT: Final = 2**53
"""The limit of the integers that every JSON reader reads exactly."""
_ASSISTANT_KINDS: Final = frozenset({EntryKind.ASSISTANT_TEXT, EntryKind.ASSISTANT_ACTION})
_SIGNATURE_MEMBER: Final = "signature"
"""The member of an element with the state of the signature of a decision, which is derived."""
_ROW_MEMBERS: Final = ("id", "timestamp", "message", "decision", "audit")
_MESSAGE_MEMBERS: Final[dict[str, frozenset[str]]] = {
    EntryKind.USER: frozenset({"type", "content"}),
    EntryKind.SYSTEM_CONTEXT: frozenset({"type", "content"}),
    EntryKind.ASSISTANT_TEXT: frozenset({"type", "content"}),
    EntryKind.ASSISTANT_ACTION: frozenset({"type", "tool_name", "tool_args", "tool_id"}),
}


class _Row(NamedTuple):
    """One element of `entries` in the file."""

    place: str
    members: JsonMembers
    """The members of the element, as in the file."""
    message: JsonMembers
    """The members of its message, as in the file."""
    kind: str
    id: str
    time: datetime | None
    decision: str | None
    """The decision; None if it is missing or derived."""
    audit: JsonObject
    """The audit data, without derived values and the stored payload or entry."""
    stored: Payload | Entry | None
    """The payload or entry in the stored format, from the audit data; None if there is none."""
    audit_members: JsonMembers
    """The audit data with the stored payload or entry, as in the file."""
    preserved_kind: str | None = None
    """The type of a stored payload that is audit data because steno cannot use it.

    It is None for an element without such a payload.
    """


@final
class _Calls:
    """The tool calls before an entry that is read."""

    def __init__(self) -> None:
        self._calls: dict[str, AnyToolCall] = {}
        # Not `dict`: the first key of a dict is found by a scan over all deleted keys before it.
        self._outstanding: OrderedDict[str, AnyToolCall] = OrderedDict()
        self._outstanding_by_tool: dict[str, OrderedDict[str, AnyToolCall]] = {}
        """The calls of `_outstanding` by tool name, so that a result finds its call directly."""

    def add(self, payload: Payload) -> None:
        """Record the calls of an entry, or record that the entry answers a call.

        Entries must be added in order.
        """
        if isinstance(payload, AssistantMessage):
            for call in payload.tool_calls:
                self._remove_outstanding(call.id)
                self._calls[call.id] = self._outstanding[call.id] = call
                of_tool = self._outstanding_by_tool.setdefault(
                    original_tool_name(call), OrderedDict()
                )
                of_tool[call.id] = call
        elif isinstance(payload, ToolResultMessage):
            self._remove_outstanding(payload.tool_call_id)

    def _remove_outstanding(self, call_id: str) -> None:
        call = self._outstanding.pop(call_id, None)
        if call is not None:
            del self._outstanding_by_tool[original_tool_name(call)][call_id]

    def own_tool_name(self, call_id: str, shown: str) -> str:
        """Return the tool name that steno uses for a result with the name `shown` in the file."""
        call = self._calls.get(call_id)
        return call.name if call is not None and original_tool_name(call) == shown else shown

    def find_unanswered(self, tool_name: str) -> str | None:
        """Return the id of the first unanswered call of a tool; None if there is no such call.

        An empty name matches any tool. The id is used for a tool result that has no call id.
        """
        calls = self._outstanding_by_tool.get(tool_name, ()) if tool_name else self._outstanding
        return next(iter(calls), None)


# -- reading -------------------------------------------------------------------------------


def decode(data: bytes) -> ImportedSession:
    """Read an audit log of steno or another program, an array of entries, or a single entry.

    Raises InvalidDocument if it is invalid.
    """
    file = read_json_file(data)
    try:
        return _decode_file(file, derive_session_id(NAME, data))
    except InvalidDocument as exc:
        if not file.lines:
            raise
        place = file.find_place(exc.place)
        raise InvalidDocument(exc.message, code=exc.code, place=place) from None


def _decode_file(file: JsonInput, session: str) -> ImportedSession:
    raw = file.raw.strip()
    about: object = None
    if split_array(raw):
        about, members = _LIST, {"entries": raw}
    else:
        members = parse_object(raw, "audit log")
        if "message" in members and "entries" not in members:
            about, members = _SINGLE, {"entries": write_array([raw])}
    if "entries" not in members:
        raise InvalidDocument(
            'the member "entries" is missing', code="entries_missing", place="audit log"
        )
    parts = parse_array(members.pop("entries"), "entries")
    outer = "" if about == _LIST else "entries"
    rows = [_read_row(part, f"{outer}[{number}]") for number, part in enumerate(parts)]
    groups = [_without_foreign_payload(group) for group in _group_rows(rows)]
    calls = _Calls()
    entries: list[Entry] = []
    for group in groups:
        entries.append(_build_entry(group, calls))
        calls.add(entries[-1].payload)
        if isinstance(entries[-1].payload, Opaque):
            place = group[0].place if about != _SINGLE else ""
            _warn_about_message(group[0], entries[-1].payload.kind, file, place)
    placed = link_entries(entries)
    builder = _RowBuilder(placed)
    found = [
        _with_original_members(entry, group, builder)
        for entry, group in zip(placed, groups, strict=True)
    ]
    about = about or {name: value.decode() for name, value in members.items()}
    header = Header(id=session, about={NAME: about} if about else None)
    return ImportedSession(header, tuple(found))


def _warn_about_message(row: _Row, kind: str, file: JsonInput, place: str) -> None:
    """Log a warning about a message that becomes unknown content."""
    is_stored = row.stored is not None or row.preserved_kind is not None
    part = f"audit.{min(_STORED_KEYS & row.audit_members.keys())}" if is_stored else "message"
    names = [place, part]
    text = f"preserved a message of the type {kind[:_MAX_TYPE_LENGTH]!r} that cannot be read"
    path = ".".join(filter(None, names))
    separator = "" if path.startswith("[") else "."
    log_warning(file.find_place(f"${separator}{path}"), "unknown_part", text, tag=kind)


def _read_row(raw: bytes, place: str, missing_id: str | None = None) -> _Row:
    """Read one element of `entries`. Raises InvalidDocument if it is invalid.

    `missing_id` is the id of an element without an id; by default it is new.
    """
    members = parse_object(raw, place)
    message = parse_object(members.get("message", b"null"), f"{place}.message")
    kind = parse_string(message.get("type"), f"{place}.message.type")
    if not kind:
        raise InvalidDocument(
            "the type of the message is missing", code="type_missing", place=f"{place}.message.type"
        )
    audit_raw = members.get("audit", b"null")
    audit = {} if audit_raw == b"null" else parse_object(audit_raw, f"{place}.audit")
    recorded = dict(members)
    for name in _take_derived_names(audit):
        (recorded if name in _DERIVABLE_MEMBERS else audit).pop(name, None)
    stored = _decode_stored(audit)
    if isinstance(stored.payload if isinstance(stored, Entry) else stored, Approval):
        members.pop(_SIGNATURE_MEMBER, None)
    ignored = frozenset[str]() if stored is None else _STORED_KEYS
    plain_audit = {name: value for name, value in audit.items() if name not in ignored}
    return _Row(
        place=place,
        members=members,
        message=message,
        kind=kind,
        id=parse_string(members.get("id"), f"{place}.id") or missing_id or new_id(),
        time=parse_time(recorded.get("timestamp"), f"{place}.timestamp"),
        decision=parse_string(recorded.get("decision"), f"{place}.decision"),
        audit=build_json_object(plain_audit, f"{place}.audit"),
        stored=stored,
        audit_members=audit,
    )


def _decode_stored(audit: JsonMembers) -> Payload | Entry | None:
    """Return the payload or entry in the audit data; None if there is none.

    The value of another program may be decoded, too; `_without_foreign_payload` ignores it.
    """
    keys = _STORED_KEYS & audit.keys()
    if len(keys) != 1:
        return None
    (key,) = keys
    if not audit[key].startswith(b"{"):
        return None
    value = audit[key]
    return decode_entry_silently(value) if key == _ENTRY_KEY else parse_payload(value)


def _take_derived_names(audit: JsonMembers) -> Sequence[str]:
    """Remove the names of derived values from the audit data, and return them.

    A value of another program under the same key is not removed.
    """
    try:
        names = msgspec.json.decode(audit.get(_DERIVED_KEY, b"[]"), type=list[str])
    except (msgspec.MsgspecError, RecursionError):
        return ()
    known = {*_DERIVABLE_MEMBERS, *(_DERIVED_AUDIT & audit.keys())}
    if not names or not known.issuperset(names):
        return ()
    del audit[_DERIVED_KEY]
    return names


def _group_rows(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    """Yield the elements in groups: the elements of one turn, or a single other element."""
    group: list[_Row] = []
    for row in rows:
        if group and not _continues_turn(row, group):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _continues_turn(row: _Row, group: Sequence[_Row]) -> bool:
    """Return whether an element continues the turn of `group` and has no data of its own.

    Such data is a stored payload or entry, an unknown member, a different time, a decision or audit
    data.
    """
    first = group[0]
    return (
        row.id == f"{first.id}#{len(group)}"
        and first.kind in _ASSISTANT_KINDS
        and row.kind in _ASSISTANT_KINDS
        and row.time == first.time
        and row.stored is None
        and not row.decision
        and not row.audit
        and row.members.keys() <= set(_ROW_MEMBERS)
        and row.message.keys() <= _MESSAGE_MEMBERS[row.kind]
    )


def _without_foreign_payload(group: list[_Row]) -> list[_Row]:
    """Return a group in which a stored value that is not used is audit data."""
    row = group[0]
    if row.stored is None or _has_plain_form(group, row.stored):
        return group
    audit = build_json_object(row.audit_members, f"{row.place}.audit")
    is_context = row.kind == EntryKind.SYSTEM_CONTEXT
    kind = _kind_of_other_payload(row.stored) if is_context else None
    return [row._replace(audit=audit, stored=None, preserved_kind=kind), *group[1:]]


def _has_plain_form(group: Sequence[_Row], stored: Payload | Entry) -> bool:
    """Return whether the members of the elements are those that steno writes for a stored value.

    Members that another program has added would be lost.
    """
    row = group[0]
    if not all(one.members.keys() <= set(_ROW_MEMBERS) for one in group):
        return False
    if isinstance(stored, Entry):
        entry = stored
        audit = _without_own_keys(entry).audit or {}
        time = parse_time(write_time(entry.time), row.place)
        if (entry.id, time, entry.decision, audit) != (row.id, row.time, row.decision, row.audit):
            return False
    else:
        entry = Entry(id=row.id, payload=stored)
    if entry.message is None and not isinstance(entry.payload, Opaque):
        return row.kind == EntryKind.SYSTEM_CONTEXT
    rows = _RowBuilder([entry]).rows(entry)
    return len(rows) == len(group) and all(
        _has_plain_message(one, plain, entry.payload)
        for one, plain in zip(group, rows, strict=True)
    )


def _has_plain_message(row: _Row, plain: _WrittenRow, payload: Payload) -> bool:
    name = row.message.get("tool_name")
    if isinstance(payload, ToolResultMessage) and name is not None:
        # The name in the file is the one in the call, which may be in another file.
        plain = plain._replace(message=plain.message | {"tool_name": name})
    return not changed_members({"message": row.members["message"]}, {"message": plain.message_json})


def _kind_of_other_payload(stored: Payload | Entry) -> str | None:
    """Return the type of a stored payload that is not a message; None for any other value.

    The type of an entry of a newer version may be empty.
    """
    entry = stored if isinstance(stored, Entry) else Entry(id="payload", payload=stored)
    payload = entry.payload
    if not isinstance(payload, Opaque):
        return None if entry.message is not None else str(payload.__struct_config__.tag)
    # Every stored payload has a type, and every stored entry a version.
    is_versioned = not entry.is_understood and "v" in parse_object(payload.raw.encode(), "entry")
    return payload.kind if payload.kind or is_versioned else None


def _without_own_keys(entry: Entry) -> Entry:
    """Return an entry without the audit data whose keys have a meaning for steno."""
    audit = entry.audit
    if audit is None or _OWN_KEYS.isdisjoint(audit):
        return entry
    return replace(entry, audit={name: audit[name] for name in audit if name not in _OWN_KEYS})


def _build_entry(group: Sequence[_Row], calls: _Calls) -> Entry:
    row = group[0]
    if isinstance(row.stored, Entry):
        return row.stored
    payload = _build_payload(group, calls) if row.stored is None else row.stored
    with report_invalid_at(row.place):
        return Entry(
            id=row.id,
            time=row.time,
            payload=payload,
            decision=row.decision,
            audit=row.audit or None,
        )


def _build_payload(group: Sequence[_Row], calls: _Calls) -> Payload:
    row = group[0]
    if row.preserved_kind is not None:
        return _preserve_message(row, row.preserved_kind)
    with report_invalid_at(f"{row.place}.message"):
        match row.kind:
            case EntryKind.USER:
                return UserMessage((Text(_read_content(row)),))
            case EntryKind.SYSTEM_CONTEXT:
                return SystemMessage((Text(_read_content(row)),))
            case EntryKind.ASSISTANT_TEXT | EntryKind.ASSISTANT_ACTION:
                return AssistantMessage(content=tuple(map(_build_block, group)))
            case EntryKind.TOOL_RESULT | EntryKind.TOOL_ERROR:
                return _build_result(row, calls)
            case _:
                return _preserve_message(row, row.kind)


def _preserve_message(row: _Row, kind: str) -> Opaque:
    return Opaque(kind=kind, raw=row.members["message"].decode(), origin=NAME)


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
    # A call without an id gets the id of the element.
    id = parse_string(row.message.get("tool_id"), f"{place}.tool_id") or row.id
    return build_call(id, name, arguments.decode())


def _build_result(row: _Row, calls: _Calls) -> ToolResultMessage:
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
    call_id = named_id or calls.find_unanswered(shown)
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
        tool_name=calls.own_tool_name(call_id, shown),
        content=content,
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        details=details,
        failure=failure,
        started_at=parse_time(message.get("executed_at"), f"{place}.executed_at"),
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


# -- members that would be written differently ---------------------------------------------


def _with_original_members(entry: Entry, group: Sequence[_Row], builder: _RowBuilder) -> Entry:
    """Add to the extras of a message the members that steno would write differently."""
    payload = entry.payload
    if group[0].stored is not None or not isinstance(payload, Sendable):
        return entry  # steno wrote the elements
    differences: list[dict[str, Any]] = []
    for row, plain in zip(group, builder.rows(entry), strict=True):
        # A message of an unknown type is stored as a whole.
        message = {} if plain.raw is not None else changed_members(row.message, plain.message)
        original = row.members | {"message": plain.message_json}
        members = changed_members(original, plain.members())
        changed = {"members": members, "message": message}
        differences.append({name: part for name, part in changed.items() if part})
    if not any(differences):
        return entry
    return replace(
        entry, payload=replace(payload, extras={NAME: {FORM_KEY: {_ROWS_KEY: differences}}})
    )


def _restore_original(entry: Entry, rows: Sequence[_WrittenRow]) -> list[bytes] | None:
    """Write an imported entry as it was in the file; None if it is new or was changed."""
    payload = entry.payload
    extras = (payload.extras or {}).get(NAME) if isinstance(payload, Sendable) else None
    form = extras.get(FORM_KEY) if isinstance(extras, Mapping) else None
    differences = form.get(_ROWS_KEY) if isinstance(form, Mapping) else None
    if not isinstance(differences, Sequence) or len(differences) != len(rows):
        return None
    written: list[bytes] = []
    for row, changed in zip(rows, differences, strict=True):
        if not isinstance(changed, Mapping):
            return None
        members = restore_members(row.members(), changed.get("members", {}))
        message = restore_members(row.message, changed.get("message", {}))
        if members is None or message is None:
            return None
        if "message" in changed:
            members["message"] = write_object(message)
        written.append(write_object(members))
    return written


# -- writing -------------------------------------------------------------------------------


def encode(
    header: Header,
    entries: Sequence[Entry],
    *,
    log_entries: Sequence[Entry] | None = None,
    signatures: Mapping[str, str] = MappingProxyType({}),
) -> ExportedFile:
    """Write the entries of a branch, or a selection of the entries `log_entries`.

    A selection is always an object with `entries`, also if the imported file was not. `signatures`
    are the states of the signatures of decisions, by the id of their entry.
    A payload or entry that the plain members cannot express is also added in the stored format.
    """
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, {})
    losses.add_header(header)
    reader = _WrittenRowReader(entries)
    builder = reader.builder if log_entries is None else _RowBuilder(log_entries)
    rows: list[bytes] = []
    for entry in entries:
        written = _encode_entry(entry, builder, reader)
        reader.add(entry, written)
        if (signature := signatures.get(entry.id)) is not None:
            written = [_with_signature(row, signature) for row in written]
        rows += written
    about = (header.about or {}).get(NAME)
    outer_members = restore_members({}, about) or {}
    data = write_object(outer_members | {"entries": write_array(rows)})
    if log_entries is not None:
        return ExportedFile(data, losses.result())
    if about == _SINGLE and len(rows) == 1:
        data = rows[0]
    elif about == _LIST:
        data = write_array(rows)
    return ExportedFile(data, losses.result())


def _encode_entry(entry: Entry, builder: _RowBuilder, reader: _WrittenRowReader) -> list[bytes]:
    """Write an entry in the simplest form from which `decode` restores an equal entry."""
    rows = builder.rows(entry)
    for written in (_restore_original(entry, rows), [row.encode() for row in rows]):
        if written is not None and reader.restores(entry, written):
            return written
    head, tail = rows[0], [row.encode() for row in rows[1:]]
    plain = _without_own_keys(entry)
    if plain is entry:
        written = [head.encode({_PAYLOAD_KEY: encode_payload(entry.payload)}), *tail]
        if reader.restores(entry, written):
            return written
    else:
        head = builder.rows(plain)[0]
    return [head.encode({_ENTRY_KEY: encode_entry(entry)}), *tail]


def _with_signature(row: bytes, signature: str) -> bytes:
    """Add the state of a signature to an element.

    It is a member of the element, because the audit data in the log may have the same name.
    """
    return write_object(parse_object(row, "row") | {_SIGNATURE_MEMBER: write_json(signature)})


@final
class _WrittenRowReader:
    """Reads written elements, to check that `decode` restores equal entries."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Take all entries that are written."""
        self.builder: Final = _RowBuilder(entries)
        self._calls = _Calls()
        self._group: list[_Row] = []
        """The elements of the entry that was written last."""
        self._candidate: tuple[Sequence[bytes], list[_Row]] = ((), [])
        """The elements that were read last, as written and as read."""

    def restores(self, entry: Entry, written: Sequence[bytes]) -> bool:
        """Return whether reading the elements of the next entry restores an equal entry."""
        try:
            group = self._read_group(entry, written)
            read = _build_entry(group, self._calls)
        except InvalidValue:
            return False
        if list(_group_rows([*self._group, *group])) != [*filter(None, [self._group]), group]:
            return False
        if group[0].stored is None:  # `link_entries` gives an entry with a duplicate id a new one
            read = _with_original_members(replace(read, id=entry.id), group, self.builder)
        # All fields except the position in the log.
        names = ("id", "time", "payload", "decision", "audit", "unknown")
        return all(getattr(read, name) == getattr(entry, name) for name in names)

    def add(self, entry: Entry, written: Sequence[bytes]) -> None:
        """Add an entry that was written with these elements."""
        self._group = self._read_group(entry, written)
        self._calls.add(entry.payload)

    def _read_group(self, entry: Entry, written: Sequence[bytes]) -> list[_Row]:
        if self._candidate[0] is not written:
            group = [_read_row(row, "row", entry.id) for row in written]
            self._candidate = (written, _without_foreign_payload(group))
        return self._candidate[1]


class _WrittenRow(NamedTuple):
    """One element of `entries`, as steno writes it."""

    id: str
    time: datetime | None
    message: JsonMembers
    raw: bytes | None
    """The JSON of a message that steno does not know; None for any other message."""
    decision: str
    audit: JsonMembers

    @property
    def message_json(self) -> bytes:
        return write_object(self.message) if self.raw is None else self.raw

    def members(self) -> JsonMembers:
        """Return the members of the element."""
        return {
            "id": write_json(self.id),
            "timestamp": write_time(self.time),
            "message": self.message_json,
            "decision": write_json(self.decision),
            "audit": write_object(self.audit),
        }

    def encode(self, stored: JsonMembers | None = None) -> bytes:
        """Write the element, with `stored` added to the audit data."""
        row = self if stored is None else self._replace(audit=self.audit | stored)
        return write_object(row.members())


@final
class _RowBuilder:
    """Builds the elements for entries, with the calls and approvals of other entries."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._calls = calls_by_entry(entries)
        self._approvals = approvals_by_call(entries)

    def rows(self, entry: Entry) -> list[_WrittenRow]:
        """Return the elements for an entry; the first one has its decision and audit data."""
        decisions = entry_decisions(entry, self._approvals)
        rows = enumerate(zip(entry_parts(entry), decisions, strict=True))
        return [self._build_row(entry, number, *row) for number, row in rows]

    def _build_row(self, entry: Entry, number: int, part: EntryPart, decision: str) -> _WrittenRow:
        recorded = entry.audit if number == 0 and entry.audit is not None else {}
        audit = {
            name: write_json(value) for name, value in raw_members(as_json_object(recorded)).items()
        }
        is_derived = number > 0 or entry.decision is None
        derived: dict[str, Any] = _result_measures(entry.payload)
        if is_derived and isinstance(part, AnyToolCall):
            derived |= self._describe_approval(entry, part)
        added = {name: write_json(value) for name, value in derived.items() if name not in audit}
        missing = (is_derived, entry.time is None)
        names = [*compress(_DERIVABLE_MEMBERS, missing), *added]
        marker = {_DERIVED_KEY: write_json(names)} if names and _DERIVED_KEY not in audit else {}
        foreign = foreign_json(entry.payload, NAME)
        return _WrittenRow(
            id=f"{entry.id}#{number}" if number else entry.id,
            time=entry.time,
            message=self._message_members(entry, part) if foreign is None else {},
            raw=foreign,
            decision=decision,
            audit=audit | added | marker,
        )

    def _describe_approval(self, entry: Entry, call: AnyToolCall) -> dict[str, str]:
        """Return audit data about the approval of a call; empty if there was none."""
        approval = self._approvals.get((entry.id, call.id))
        if approval is None:
            return {}
        about = {
            "tool": original_tool_name(call),
            "actor": approval.actor,
            "rule": approval.rule,
            "reason": approval.reason,
        }
        return {name: text for name, text in about.items() if text is not None}

    # -- messages ----------------------------------------------------------------------------

    def _message_members(self, entry: Entry, part: EntryPart) -> JsonMembers:
        message = entry.message
        match message:
            case None:
                # Frozen: `decode` compares the text of an unknown payload.
                text = "" if isinstance(entry.payload, Opaque) else searchable_text(entry)
                return _text_message(EntryKind.SYSTEM_CONTEXT, text)
            case UserMessage():
                return _text_message(EntryKind.USER, message.text)
            case SystemMessage():
                return _text_message(EntryKind.SYSTEM_CONTEXT, message.text)
            case AssistantMessage():
                if isinstance(part, AnyToolCall):
                    return _action_message(part)
                return _text_message(EntryKind.ASSISTANT_TEXT, "" if part is None else part.text)
            case ToolResultMessage():
                return _result_message(message, self._calls.get(entry.id))
            case _:
                assert_never(message)


def _text_message(kind: EntryKind, text: str) -> JsonMembers:
    return {"type": write_json(kind), "content": write_json(text)}


def _action_message(call: AnyToolCall) -> JsonMembers:
    return {
        "type": write_json(EntryKind.ASSISTANT_ACTION),
        "tool_name": write_json(original_tool_name(call)),
        "tool_args": arguments_object(call.arguments) or b"{}",
        "tool_id": write_json(call.id),
    }


def _result_message(message: ToolResultMessage, call: AnyToolCall | None) -> JsonMembers:
    kind = EntryKind.TOOL_ERROR if message.is_error else EntryKind.TOOL_RESULT
    members: JsonMembers = {
        "type": write_json(kind),
        "tool_id": write_json(message.tool_call_id),
        "tool_name": write_json(result_tool_name(message, call)),
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


# -- time and size of results ----------------------------------------------------------------


def _result_measures(payload: Payload) -> dict[str, Any]:
    """Return the execution time and the size of the result of a tool that ran, if they are known.

    The result is empty for any other payload.
    """
    if not isinstance(payload, ToolResultMessage) or is_agent_result(payload):
        return {}
    measures: dict[str, Any] = {}
    time_ms = math.inf if payload.duration_s is None else payload.duration_s * 1000
    if time_ms < _INTEGER_LIMIT:
        measures["execution_time_ms"] = round(time_ms)
    sizes = [*map(_block_size, payload.content)]
    if None not in sizes:
        measures["result_size_bytes"] = sum(filter(None, sizes))
    return measures


def _block_size(block: ResultBlock) -> int | None:
    """Return the number of bytes in a block; None if the block only refers to its content."""
    match block:
        case Text():
            return len(block.text.encode())
        case Image(source=ImageData(data)):
            return len(data)
        case Image(source=ImageBlob(size=size)):
            return size
        case Resource(text=str(text)):
            return len(text.encode())
        case Resource(data=bytes(data)):
            return len(data)
        case Opaque():
            return len(block.raw.encode())
        case Image() | Resource() | FileReference():
            return None
        case _:
            assert_never(block)
