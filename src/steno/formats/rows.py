r"""Import and export database rows (kind, content, data_json), as an array or one row per line.

    {"id": 7, "kind": "tool_call", "content": null,
     "data_json": "{\"tool_call_id\":\"c1\",\"name\":\"read\",\"arguments\":\"{}\"}"}

`user` and `assistant` rows are messages, a `tool_call` row is a call and a `tool_result` row
(formerly `tool`) is a result. All `system` rows are merged into the system message, which is the
first entry. Each other row becomes an entry, except in two cases. While results are missing,
further calls and texts of the assistant belong to the same turn, because a new turn may not begin
before the results. Rows that were written for one turn (`ID`, `ID#1`, ...) become one turn again.
A `clear` row clears the context. Rows of any other kind are preserved unchanged, never sent to a
model, and exported at their original position.

The columns that steno would write differently are stored in the audit data of the entry, so that
imported rows are exported unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, assert_never, cast, final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from steno.codec import encode_payload
from steno.errors import InvalidDocument
from steno.formats.format import (
    ExportedFile,
    ExportLossCollector,
    ImportedSession,
    SupportedFields,
    derive_session_id,
    link_entries,
    type_name,
)
from steno.formats.json_text import (
    JsonMembers,
    changed_members,
    foreign_json,
    parse_array,
    parse_object,
    parse_payload,
    parse_string,
    read_json_input,
    report_invalid_at,
    require_string,
    restore_members,
    try_parse_time,
    write_array,
    write_json,
    write_object,
)
from steno.ids import new_id
from steno.json_object import as_json_object, is_json_text, raw_members
from steno.log.queries import (
    as_version_2,
    calls_by_entry,
    result_tool_name,
    searchable_text,
)
from steno.messages.call import (
    AnyToolCall,
    InvalidToolCall,
    ToolCall,
    build_call,
    original_tool_name,
)
from steno.messages.content import Block, Opaque, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.records.entry import Clear, Entry, Payload
from steno.records.stored_record import Header

NAME: Final = "rows"

_MESSAGE_KINDS: Final = frozenset(
    {"system", "user", "assistant", "tool_call", "tool_result", "tool"}
)
_SUPPORTED_FIELDS: Final[SupportedFields] = {
    SystemMessage: frozenset({"content"}),
    UserMessage: frozenset({"content"}),
    AssistantMessage: frozenset({"content"}),
    ToolResultMessage: frozenset({"tool_call_id", "tool_name", "content", "outcome"}),
    Text: frozenset({"text"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason"}),
}


class _RowDifference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The difference between an imported row and the row that steno would write."""

    columns: Mapping[str, str | None] = {}
    """The original JSON of columns that steno would write differently.

    The value is None for a column that the imported row does not have.
    """
    at: Annotated[int, Meta(ge=0)] | None = None
    """The position of the row in the file; None if it is the position where steno writes it."""


class _RowAudit(Struct):
    rows: list[_RowDifference]


# -- reading -------------------------------------------------------------------------------


def message_of_row(row: Mapping[str, Any]) -> Message | None:
    """Return the message of one row; None for a row that is not a message by itself.

    None is returned for system rows, which are merged into the system message, for blank user
    rows, and for rows of unknown kinds. `data_json` may be JSON text or a parsed value.
    Raises InvalidDocument if the row is invalid.
    """
    try:
        raw = {str(name): write_json(value) for name, value in row.items()}
    except (TypeError, UnicodeError, RecursionError):
        raise InvalidDocument(
            "the columns must be JSON values", code="not_json", place="row"
        ) from None
    return _DatabaseRow("row", raw).message()


def decode(data: bytes) -> ImportedSession:
    """Read rows from an array or from lines, or a single row.

    Raises InvalidDocument, with the place of the row, if a row is invalid.
    """
    rows = [
        _DatabaseRow(place := f"rows[{number}]", parse_object(raw, place), raw, number)
        for number, raw in enumerate(_split_rows(data))
    ]
    reader = _RowReader()
    for row in rows:
        reader.read(row)
    return ImportedSession(Header(id=derive_session_id(NAME, data)), reader.entries())


def _split_rows(data: bytes) -> list[bytes]:
    raw = read_json_input(data).strip()
    return parse_array(raw, "rows") if raw.startswith(b"[") else [raw]


@final
class _EntryDraft:
    """The rows of an entry that is not built yet, and the payload built from the first row."""

    def __init__(self, row: _DatabaseRow, payload: Payload) -> None:
        self.rows = [row]
        self._payload = payload
        self._added: list[Block] = []
        """The content of the other rows."""
        self.call_ids = {call.id for call in _calls_in(payload)}

    def add(self, row: _DatabaseRow, message: AssistantMessage | SystemMessage) -> None:
        """Append the content of another row to the message."""
        assert isinstance(self._payload, type(message))
        self.rows.append(row)
        self._added += message.content
        self.call_ids |= {call.id for call in _calls_in(message)}

    def entry(self) -> Entry:
        """Build the entry, with the id and time of the first row."""
        first = self.rows[0]
        time = try_parse_time(first.columns.get("created_at", b"null"))
        payload = self._payload
        if self._added:
            struct: Any = payload  # a message of the same type as those that were added
            payload = cast("Payload", replace(struct, content=(*struct.content, *self._added)))
        return Entry(id=first.id() or new_id(), time=time, payload=payload)


def _calls_in(payload: Payload) -> Sequence[AnyToolCall]:
    return payload.tool_calls if isinstance(payload, AssistantMessage) else ()


@final
class _RowReader:
    def __init__(self) -> None:
        self._prompt: _EntryDraft | None = None
        self._drafts: list[_EntryDraft] = []
        self._turn: _EntryDraft | None = None
        """The latest turn of the assistant; None before the first turn and after a user message."""
        self._outstanding: set[str] = set()

    def read(self, row: _DatabaseRow) -> None:
        """Read the next row.

        The row is added to the current turn or to the system message, or becomes a new entry.
        """
        message = row.message()
        match message:
            case None:
                self._read_other(row)
            case AssistantMessage():
                self._read_turn(row, message)
            case ToolResultMessage():
                self._outstanding.discard(message.tool_call_id)
                self._drafts.append(_EntryDraft(row, message))
            case SystemMessage() | UserMessage():
                self._turn = None
                self._outstanding.clear()
                self._drafts.append(_EntryDraft(row, message))

    def _read_other(self, row: _DatabaseRow) -> None:
        if row.kind != "system" or not row.text().strip():
            payload = row.to_other_payload()
            if isinstance(payload, Clear):
                self._turn = None
                self._outstanding.clear()
            self._drafts.append(_EntryDraft(row, payload))
            return
        message = SystemMessage((Text(row.text()),))
        if self._prompt is None:
            self._prompt = _EntryDraft(row, message)
        else:
            self._prompt.add(row, message)

    def _read_turn(self, row: _DatabaseRow, message: AssistantMessage) -> None:
        calls = {call.id for call in message.tool_calls}
        if self._turn is not None and self._belongs(row, calls, self._turn):
            self._turn.add(row, message)
        else:
            self._turn = _EntryDraft(row, message)
            self._drafts.append(self._turn)
            self._outstanding.clear()
        self._outstanding |= calls

    def _belongs(self, row: _DatabaseRow, calls: set[str], turn: _EntryDraft) -> bool:
        """Return whether a row with these calls continues the turn."""
        if calls & turn.call_ids:
            return False
        is_part = self._drafts[-1] is turn and row.id() == f"{turn.rows[0].id()}#{len(turn.rows)}"
        return bool(self._outstanding) or is_part

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries, each with the differences of its rows in the audit data."""
        drafts = [*([] if self._prompt is None else [self._prompt]), *self._drafts]
        placed = link_entries(draft.entry() for draft in drafts)
        found: list[Entry] = []
        calls = calls_by_entry(placed)
        expected = 0
        taken: set[int] = set()
        for entry, draft in zip(placed, drafts, strict=True):
            differences: list[_RowDifference] = []
            for row, plain in zip(draft.rows, _build_rows(entry, calls), strict=True):
                at = None if row.number == expected else row.number
                columns = changed_members(row.columns, plain)
                differences.append(_RowDifference(columns=columns, at=at))
                taken.add(row.number)
                while expected in taken:
                    expected += 1
            is_usual = all(difference == _RowDifference() for difference in differences)
            found.append(entry if is_usual else replace(entry, audit={NAME: differences}))
        return tuple(found)


@final
class _DatabaseRow:
    def __init__(self, place: str, columns: JsonMembers, raw: bytes = b"", number: int = 0) -> None:
        self.place = place
        self.columns = columns
        self.raw = raw
        self.number = number
        self.kind = require_string(columns.get("kind"), f"{place}.kind")

    def id(self) -> str | None:
        """Return the id of the row as text; None if it is missing or not a string or integer."""
        raw = self.columns.get("id", b"null")
        try:
            found = msgspec.json.decode(raw, type=str | int | None)
        except msgspec.MsgspecError:
            return None
        return None if found in (None, "") else str(found)

    def text(self) -> str:
        """Return the content of the row; empty if it is null or missing."""
        return parse_string(self.columns.get("content"), f"{self.place}.content") or ""

    def message(self) -> Message | None:
        """Return the message of this row; None if it is not a message by itself.

        Raises InvalidDocument if the row is invalid.
        """
        if self.kind not in _MESSAGE_KINDS:
            return None
        data = self._data()
        with report_invalid_at(self.place):
            match self.kind:
                case "user":
                    text = self.text()
                    return UserMessage((Text(text),)) if text.strip() else None
                case "assistant":
                    return AssistantMessage(content=(Text(self.text()),))
                case "tool_call":
                    return self._call(data)
                case "tool_result" | "tool":
                    return self._result(data)
                case _:
                    return None

    def _data(self) -> bytes:
        """Return the JSON in data_json; null if it is empty or missing.

        Raises InvalidDocument if it is not JSON.
        """
        raw = self.columns.get("data_json", b"null")
        if not raw.startswith(b'"'):
            return raw
        text = parse_string(raw, f"{self.place}.data_json") or "null"
        if not is_json_text(text):
            raise InvalidDocument("must be JSON", code="not_json", place=f"{self.place}.data_json")
        return text.strip().encode()

    def _members(self, data: bytes) -> tuple[JsonMembers, str]:
        """Return the members of a call or result, and the id of the call.

        Raises InvalidDocument if the id is missing.
        """
        place = f"{self.place}.data_json"
        members = parse_object(data, place)
        id = parse_string(members.get("tool_call_id"), f"{place}.tool_call_id")
        if not id:
            raise InvalidDocument(
                "must be a non-empty string",
                code="call_id_missing",
                place=f"{place}.tool_call_id",
            )
        return members, id

    def _call(self, data: bytes) -> AssistantMessage:
        members, id = self._members(data)
        name = require_string(members.get("name"), f"{self.place}.data_json.name")
        arguments = _json_as_text(members.get("arguments", b"null"))
        return AssistantMessage(content=(build_call(id, name, arguments),))

    def _result(self, data: bytes) -> ToolResultMessage:
        members, id = self._members(data)
        place = f"{self.place}.data_json"
        for required in ("output", "success"):
            if required not in members:
                raise InvalidDocument(
                    "is missing", code="field_missing", place=f"{place}.{required}"
                )
        success = members["success"]
        if success not in (b"true", b"false"):
            raise InvalidDocument(
                "must be true or false", code="not_a_boolean", place=f"{place}.success"
            )
        name = parse_string(members.get("name"), f"{place}.name")
        return ToolResultMessage(
            tool_call_id=id,
            content=(Text(_json_as_text(members["output"])),),
            outcome=Outcome.OK if success == b"true" else Outcome.ERROR,
            tool_name=name or "",
        )

    def to_other_payload(self) -> Payload:
        """Return the payload of a row that is not a message.

        A `clear` row clears the context; any other row is opaque unless steno wrote it.
        """
        foreign: Payload = Opaque(kind=self.kind, raw=self.raw.decode(), origin=NAME)
        if self.kind == Clear.__struct_config__.tag:
            foreign = Clear()
        try:
            data = self._data()
            if b'"type":' + msgspec.json.encode(self.kind) not in data:
                return foreign  # a row that steno wrote contains its type
        except InvalidDocument:
            return foreign
        payload = parse_payload(data)
        if payload is None or isinstance(payload, Message):
            return foreign
        return payload if payload.__struct_config__.tag == self.kind else foreign


def _json_as_text(raw: bytes) -> str:
    """Return the value of a JSON string, an empty string for null, or any other JSON as text."""
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    return "" if raw == b"null" else raw.decode()


# -- writing -------------------------------------------------------------------------------


def encode(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    """Write an array of rows; imported rows are written unchanged."""
    entries = [as_version_2(entry) for entry in entries]
    losses = ExportLossCollector(NAME, _SUPPORTED_FIELDS)
    losses.add_header(header)
    rows: list[bytes] = []
    moved: list[tuple[int, bytes]] = []
    calls = calls_by_entry(entries)
    for number, entry in enumerate(entries):
        plain = _build_rows(entry, calls)
        differences = _read_differences(entry, len(plain))
        omitted = _omitted_fields(entry, plain, losses)
        if number and isinstance(entry.payload, SystemMessage):
            omitted.append("system_position")
        losses.add_omitted(f"entries[{number}]", entry, omitted)
        for columns, difference in zip(plain, differences, strict=True):
            row = write_object(restore_members(columns, difference.columns) or columns)
            if difference.at is None:
                rows.append(row)
            else:
                moved.append((difference.at, row))
    for at, row in sorted(moved):
        rows.insert(at, row)
    return ExportedFile(write_array(rows), losses.result())


def _read_differences(entry: Entry, count: int) -> list[_RowDifference]:
    """Return the differences of the rows of an entry, which are stored in its audit data.

    If the audit data is missing or invalid, all differences are empty.
    """
    nothing = [_RowDifference()] * count
    if NAME not in (entry.audit or {}):
        return nothing
    audit = write_json(raw_members(as_json_object(entry.audit or {})))
    try:
        found = msgspec.json.decode(audit, type=_RowAudit).rows
    except msgspec.MsgspecError:
        return nothing
    is_ours = all(restore_members({}, each.columns) is not None for each in found)
    return found if is_ours and len(found) == count else nothing


def _omitted_fields(
    entry: Entry, rows: list[JsonMembers], losses: ExportLossCollector
) -> list[str]:
    if not rows:
        return [type_name(entry.payload)]
    names = losses.omitted_of_entry(entry)
    message = entry.message
    if isinstance(message, (UserMessage, ToolResultMessage)):
        texts = [block for block in message.content if isinstance(block, Text)]
        names += ["text_boundaries"] if len(texts) > 1 else []
    return names


def _build_rows(entry: Entry, calls: Mapping[str, AnyToolCall]) -> list[JsonMembers]:
    """Return the rows of an entry; an empty list if rows cannot express the entry."""
    foreign = foreign_json(entry.payload, NAME)
    if foreign is not None and foreign.startswith(b"{"):
        return [parse_object(foreign, "row")]
    return [
        {
            "id": write_json(f"{entry.id}#{number}" if number else entry.id),
            "kind": write_json(row.kind),
            "content": write_json(row.content),
            "data_json": b"null" if row.data is None else write_json(row.data.decode()),
            **({} if entry.time is None else {"created_at": write_json(entry.time)}),
        }
        for number, row in enumerate(_row_values(entry, calls))
    ]


class _RowValues(NamedTuple):
    kind: str
    content: str | None
    data: bytes | None = None


def _row_values(entry: Entry, calls: Mapping[str, AnyToolCall]) -> Iterator[_RowValues]:
    message = entry.message
    match message:
        case None:
            if not isinstance(entry.payload, Opaque):
                text = searchable_text(entry) or None
                tag = str(entry.payload.__struct_config__.tag)
                yield _RowValues(tag, text, encode_payload(entry.payload))
        case SystemMessage():
            texts = [block.text for block in message.content if isinstance(block, Text)]
            yield from (_RowValues("system", text) for text in texts)
        case UserMessage():
            if message.text.strip():
                yield _RowValues("user", message.text)
        case AssistantMessage():
            for block in message.content:
                if isinstance(block, Text):
                    yield _RowValues("assistant", block.text)
                elif isinstance(block, AnyToolCall):
                    name = original_tool_name(block)
                    call = {"tool_call_id": block.id, "name": name, "arguments": block.arguments}
                    yield _RowValues("tool_call", None, write_json(call))
        case ToolResultMessage():
            result: dict[str, object] = {"tool_call_id": message.tool_call_id}
            name = result_tool_name(message, calls.get(entry.id))
            result |= {"name": name} if name else {}
            result |= {"output": message.text, "success": not message.is_error}
            yield _RowValues("tool_result", None, write_json(result))
        case _:
            assert_never(message)
