"""Write entries as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, assert_never

import msgspec
from msgspec import Meta, Struct

from steno.call import AnyToolCall, InvalidToolCall, ToolCall, outside_name
from steno.codec import encode_payload
from steno.content import Opaque, Text
from steno.entry import Entry
from steno.formats.format import Exported
from steno.formats.losses import Losses, Words
from steno.formats.rows.row import NAME
from steno.formats.text import (
    Object,
    as_object,
    object_at,
    put_back,
    words_of_others,
    write,
    write_array,
    write_object,
)
from steno.json_object import expose
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.outcome import Outcome
from steno.record import Header
from steno.views import text_of

_WORDS: Final[Words] = {
    SystemMessage: frozenset({"content"}),
    UserMessage: frozenset({"content"}),
    AssistantMessage: frozenset({"content"}),
    ToolResultMessage: frozenset({"tool_call_id", "tool_name", "content", "outcome"}),
    Text: frozenset({"text"}),
    ToolCall: frozenset({"id", "name", "original_name", "arguments"}),
    InvalidToolCall: frozenset({"id", "name", "arguments", "reason"}),
}


class Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of a row that was read."""

    columns: Mapping[str, str | None] = {}
    """The columns that we would write otherwise; None for those that were not there."""
    at: Annotated[int, Meta(ge=0)] | None = None
    """Where the row stood, if not behind the one that is written before it."""


class _Audit(Struct):
    rows: list[Kept]


def encode(header: Header, entries: Sequence[Entry]) -> Exported:
    """Write an array of rows; those that were read are written as they were."""
    losses = Losses(NAME, _WORDS)
    losses.add_header(header)
    rows: list[bytes] = []
    moved: list[tuple[int, bytes]] = []
    for number, entry in enumerate(entries):
        plain = rows_of(entry)
        kept = _kept(entry, len(plain))
        losses.add_omitted(f"entries[{number}]", _unsaid(entry, plain, losses))
        for columns, note in zip(plain, kept, strict=True):
            row = write_object(put_back(columns, note.columns) or columns)
            if note.at is None:
                rows.append(row)
            else:
                moved.append((note.at, row))
    for at, row in sorted(moved):
        rows.insert(at, row)
    return Exported(write_array(rows), losses.result())


def _kept(entry: Entry, count: int) -> list[Kept]:
    """Return what is remembered of each row of an entry; nothing, if it is not as we left it."""
    nothing = [Kept()] * count
    if NAME not in (entry.audit or {}):
        return nothing
    try:
        found = msgspec.json.decode(write(expose(as_object(entry.audit))), type=_Audit).rows
    except msgspec.MsgspecError:
        return nothing
    is_ours = len(found) == count and all(put_back({}, note.columns) is not None for note in found)
    return found if is_ours else nothing


def _unsaid(entry: Entry, rows: list[Object], losses: Losses) -> list[str]:
    """Return what of an entry has no words in a row."""
    if not rows:
        return [str(entry.payload.__struct_config__.tag)]
    names = losses.omitted_of_entry(entry)
    message = entry.message
    if message is None:
        return names
    names += losses.omitted_of_message(message)
    if isinstance(message, ToolResultMessage) and message.outcome not in _OUTCOMES:
        names.append(f"outcome ({message.outcome}, told as an error)")
    is_joined = isinstance(message, (UserMessage, ToolResultMessage))
    if is_joined and sum(isinstance(block, Text) for block in message.content) > 1:
        names.append("where one text ends and the next begins")
    return names


_OUTCOMES: Final = (Outcome.OK, Outcome.ERROR)


# -- the rows of an entry --------------------------------------------------------------------


def rows_of(entry: Entry) -> list[Object]:
    """Return the rows of an entry, none if there are no words for it."""
    theirs = words_of_others(entry.payload, NAME)
    if theirs is not None and theirs.startswith(b"{"):
        return [object_at(theirs, "row")]
    return [
        {
            "id": write(f"{entry.id}#{number}" if number else entry.id),
            "kind": write(row.kind),
            "content": write(row.content),
            "data_json": b"null" if row.data is None else write(row.data.decode()),
            **({} if entry.time is None else {"created_at": write(entry.time)}),
        }
        for number, row in enumerate(_plain(entry))
    ]


class _Plain(NamedTuple):
    """What a row says."""

    kind: str
    content: str | None
    data: bytes | None = None


def _plain(entry: Entry) -> Iterator[_Plain]:
    message = entry.message
    match message:
        case None:
            if not isinstance(entry.payload, Opaque):
                words = text_of(entry) or None
                tag = str(entry.payload.__struct_config__.tag)
                yield _Plain(tag, words, encode_payload(entry.payload))
        case SystemMessage():
            yield from (_Plain("system", block.text) for block in message.content)
        case UserMessage():
            if message.text.strip():
                yield _Plain("user", message.text)
        case AssistantMessage():
            for block in message.content:
                if isinstance(block, Text):
                    yield _Plain("assistant", block.text)
                elif isinstance(block, AnyToolCall):
                    yield _Plain("tool_call", None, _call(block))
        case ToolResultMessage():
            yield _Plain("tool_result", None, _result(message))
        case _:
            assert_never(message)


def _call(call: AnyToolCall) -> bytes:
    return write({"tool_call_id": call.id, "name": outside_name(call), "arguments": call.arguments})


def _result(message: ToolResultMessage) -> bytes:
    name = {"name": message.tool_name} if message.tool_name else {}
    about = {"output": message.text, "success": not message.is_error}
    return write({"tool_call_id": message.tool_call_id, **name, **about})
