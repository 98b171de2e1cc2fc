"""Read rows, and put those together that belong to one turn."""

from __future__ import annotations

from typing import final

from msgspec.structs import replace

from steno.content import Text
from steno.entry import Entry, Payload
from steno.errors import InvalidDocument
from steno.formats.format import Imported, in_line
from steno.formats.rows.row import NAME, Row
from steno.formats.rows.write import Kept, rows_of
from steno.formats.text import (
    array_at,
    clean,
    differences,
    moment_of,
    object_at,
    read_input,
)
from steno.identity import new_id
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.record import Header


def decode(data: bytes) -> Imported:
    """Read rows, in an array or one a line. Raises InvalidDocument, which names the row."""
    rows = [
        Row(place := f"rows[{number}]", object_at(raw, place), raw, number)
        for number, raw in enumerate(_split(data))
    ]
    reader = _Reader()
    for row in rows:
        reader.read(row)
    return Imported(Header(id=new_id()), reader.entries())


def _split(data: bytes) -> list[bytes]:
    raw = clean(data).strip()
    if raw.startswith(b"["):
        return array_at(read_input(raw), "rows")
    return [
        _line(line.strip(), number)
        for number, line in enumerate(raw.split(b"\n"), start=1)
        if line.strip()
    ]


def _line(raw: bytes, number: int) -> bytes:
    try:
        return read_input(raw)
    except InvalidDocument as exc:
        raise InvalidDocument(f"line {number}: {exc}") from None


@final
class _Draft:
    """An entry to be, and the rows that it is made of."""

    def __init__(self, row: Row, payload: Payload) -> None:
        self.rows = [row]
        self.payload = payload

    def add(self, row: Row, message: AssistantMessage | SystemMessage) -> None:
        """Let another row be part of the same message."""
        assert isinstance(self.payload, type(message))
        self.rows.append(row)
        self.payload = replace(message, content=(*self.payload.content, *message.content))

    def entry(self) -> Entry:
        """Make the entry."""
        first = self.rows[0]
        time = moment_of(first.columns.get("created_at", b"null"))
        return Entry(id=first.id() or new_id(), time=time, payload=self.payload)


@final
class _Reader:
    """Puts rows together to entries."""

    def __init__(self) -> None:
        self._prompt: _Draft | None = None
        self._drafts: list[_Draft] = []
        self._turn: _Draft | None = None
        """The latest turn of the assistant, until somebody else speaks."""
        self._outstanding: set[str] = set()

    def read(self, row: Row) -> None:
        """Take one more row."""
        message = row.message()
        match message:
            case None:
                self._read_other(row)
            case AssistantMessage():
                self._read_turn(row, message)
            case ToolResultMessage():
                self._outstanding.discard(message.tool_call_id)
                self._drafts.append(_Draft(row, message))
            case SystemMessage() | UserMessage():
                self._turn = None
                self._outstanding.clear()
                self._drafts.append(_Draft(row, message))

    def _read_other(self, row: Row) -> None:
        if row.kind != "system" or not row.text().strip():
            self._drafts.append(_Draft(row, row.to_other_payload()))
            return
        message = SystemMessage((Text(row.text()),))
        if self._prompt is None:
            self._prompt = _Draft(row, message)
        else:
            self._prompt.add(row, message)

    def _read_turn(self, row: Row, message: AssistantMessage) -> None:
        calls = {call.id for call in message.tool_calls}
        if self._turn is not None and self._belongs(row, calls, self._turn):
            self._turn.add(row, message)
        else:
            self._turn = _Draft(row, message)
            self._drafts.append(self._turn)
            self._outstanding.clear()
        self._outstanding |= calls

    def _belongs(self, row: Row, calls: set[str], turn: _Draft) -> bool:
        """Tell whether a row is more of a turn that has begun."""
        assert isinstance(turn.payload, AssistantMessage)
        if calls & {call.id for call in turn.payload.tool_calls}:
            return False
        is_part = self._drafts[-1] is turn and row.id() == f"{turn.rows[0].id()}#{len(turn.rows)}"
        return bool(self._outstanding) or is_part

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries, each with what would be written otherwise than it was."""
        drafts = [*([self._prompt] if self._prompt is not None else []), *self._drafts]
        placed = in_line(draft.entry() for draft in drafts)
        found: list[Entry] = []
        expected = 0
        moved: set[int] = set()
        for entry, draft in zip(placed, drafts, strict=True):
            kept: list[Kept] = []
            for row, plain in zip(draft.rows, rows_of(entry), strict=True):
                is_moved = row.number != expected
                at = row.number if is_moved else None
                kept.append(Kept(columns=differences(row.columns, plain), at=at))
                moved |= {row.number} if is_moved else {expected}
                while expected in moved:
                    expected += 1
            is_usual = not any(note.columns or note.at is not None for note in kept)
            found.append(entry if is_usual else replace(entry, audit={NAME: kept}))
        return tuple(found)
