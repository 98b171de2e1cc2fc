"""Read the items of a model's turn, in responses and recorded requests alike.

An item becomes one piece, a message item one for each of its parts. Unknown members stay with the
piece, so that the same item can be written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.json_object import MAX_DEPTH, check_depth
from steno.messages.call import AnyToolCall, build_call
from steno.messages.content import Opaque, Text, Thinking
from steno.messages.message import AssistantBlock
from steno.wire.extras import FORM_KEY, get_extras
from steno.wire.openai_responses.payload import (
    CUSTOM_TOOL_CALL,
    ITEM_EXTRAS,
    ITEM_TYPE_NOTE,
    LEGAL_ID,
    LEGAL_NAME,
    NAME,
    PART_NOTE,
)
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import RequestTarget, drop_none
from steno.wire.tolerant import raw_text

ExtrasByWire: TypeAlias = dict[str, dict[str, Any]]
_EXTRA_LEVELS: Final = 4
_TEXT_PART_TYPES: Final = frozenset({"output_text", "input_text", "text"})


class OutputTextPiece(NamedTuple):
    """A part of a message: text."""

    text: str
    extras: ExtrasByWire | None


class ReasoningPiece(NamedTuple):
    """A reasoning item; `sealed` is its encrypted content."""

    text: str
    sealed: str | None
    extras: ExtrasByWire | None


class CallPiece(NamedTuple):
    """A call of a function or of a custom tool; an absent id or name is empty."""

    id: str
    name: str
    arguments: str
    extras: ExtrasByWire | None


class UnknownPiece(NamedTuple):
    """An item, or a part of a message, of an unknown type."""

    kind: str
    raw: str
    extras: ExtrasByWire | None = None


ItemPiece: TypeAlias = OutputTextPiece | ReasoningPiece | CallPiece | UnknownPiece


def read_item(raw: Raw, place: str) -> list[ItemPiece]:
    """Read an item of the model. Raises InvalidRequest if it is no object, or nested too deeply."""
    item = ObjectMembers(raw, place)
    _check_item_depth(item.raw, place)
    kind = item.peek("type", str)
    if kind in ("message", None) and item.peek("role", str) == "assistant":
        return _read_message(item)
    if kind == "reasoning":
        return [_read_reasoning(item)]
    if kind == "function_call":
        item.take("type", str)
        return [_read_call(item, "arguments")]
    if kind == CUSTOM_TOOL_CALL:
        return [_read_call(item, "input")]
    return [UnknownPiece(kind or "", item.raw)]


def _check_item_depth(text: str, place: str) -> None:
    """Refuse an item too deep to be kept as extras, which are a few levels deeper."""
    if text.count("{") + text.count("[") < MAX_DEPTH - _EXTRA_LEVELS:
        return
    try:
        check_depth({NAME: {ITEM_EXTRAS: {FORM_KEY: msgspec.json.decode(text)}}})
    except RecursionError:
        raise InvalidRequest("nested too deeply", code="nested_too_deeply", place=place) from None


def _read_message(item: ObjectMembers) -> list[ItemPiece]:
    text = item.peek("content", str)
    parts = item.peek("content", list[Raw])
    if text is None and not parts:
        return [UnknownPiece("message", item.raw)]  # empty, but with an id
    item.take("role", str)
    item.take("content", Raw)
    form = drop_none(**{ITEM_TYPE_NOTE: item.take("type", str)})
    members = (item.extras(NAME) or {}).get(NAME, {})
    if text is not None:
        extras = {NAME: {ITEM_EXTRAS: members, FORM_KEY: form | {"content": "string"}}}
        return [OutputTextPiece(text, extras if members or not form else None)]
    first = {ITEM_EXTRAS: members} | ({FORM_KEY: form} if form else {})
    return [
        _read_part(part, {FORM_KEY: {PART_NOTE: True}} if number else first)
        for number, part in enumerate(parts or ())
    ]


def _read_part(raw: Raw, mark: dict[str, Any]) -> OutputTextPiece | UnknownPiece:
    """Read a part, with a mark of its position: first in its item, or after another."""
    part = ObjectMembers(raw, "part")
    kind = part.peek("type", str)
    text = part.peek("text", str)
    if kind not in _TEXT_PART_TYPES or text is None:
        return UnknownPiece(kind or "", part.raw, {NAME: mark})
    part.take("text", str)
    if kind == "output_text":
        part.take("type", str)
    return OutputTextPiece(text, {NAME: (part.extras(NAME) or {}).get(NAME, {}) | mark})


def _read_reasoning(item: ObjectMembers) -> ReasoningPiece:
    item.take("type", str)
    sealed = item.peek("encrypted_content", str) or None
    if sealed is not None:
        item.take("encrypted_content", str)
    summary, content = _join_texts(item, "summary"), _join_texts(item, "content")
    # Some servers send the same text in both.
    text = summary if summary == content else summary + content
    if "summary" not in item:
        item.note_form("summary", "absent")
    elif "content" not in item and item.peek("summary", list[dict[str, Any]]) == build_summary(
        text
    ):
        item.take("summary", Raw)
    # Without a seal, extras distinguish an item from the thinking of any other source.
    return ReasoningPiece(text, sealed, item.extras(NAME) or (None if sealed else {NAME: {}}))


def _join_texts(item: ObjectMembers, name: str) -> str:
    parts = item.peek(name, list[dict[str, Any]]) or ()
    texts = [part.get("text") for part in parts]
    return "".join([text for text in texts if isinstance(text, str)])


def build_summary(text: str) -> list[dict[str, Any]]:
    """Return a summary of one part, or of none: the usual form, which need not be kept."""
    return [{"type": "summary_text", "text": text}] if text else []


def _read_call(item: ObjectMembers, field: str) -> CallPiece:
    absent = [name for name in ("name", field) if name not in item]
    if absent:
        item.note_form("absent", absent)
    id, name = item.take("call_id", str), item.take("name", str)
    if id and not LEGAL_ID.fullmatch(id):
        item.note_form("call_id", id)
    arguments = item.take(field, str)
    if arguments is None and field in item:
        arguments = raw_text(item.take(field, Raw) or b"")
        item.note_form("arguments", "object")
    elif arguments is not None and field == "input" and not arguments.strip():
        item.note_form("blank", arguments)  # an input is text: a blank one is not `{}`
    return CallPiece(id or "", name or "", arguments or "", item.extras(NAME))


# -- blocks -----------------------------------------------------------------------------------


def build_block(piece: ItemPiece, target: RequestTarget) -> AssistantBlock:
    """Build the block of a piece. Raises InvalidMessage if it breaks our rules."""
    match piece:
        case OutputTextPiece():
            return Text(piece.text, extras=piece.extras)
        case ReasoningPiece():
            seal = None if piece.sealed is None else target.seal(piece.sealed)
            return Thinking(piece.text, seal=seal, extras=piece.extras)
        case CallPiece():
            return build_call(
                piece.id, piece.name, piece.arguments, extras=_build_call_extras(piece)
            )
        case UnknownPiece():
            return Opaque(kind=piece.kind, raw=piece.raw, origin=NAME, extras=piece.extras)
        case _:
            assert_never(piece)


def _build_call_extras(call: CallPiece) -> ExtrasByWire | None:
    """Keep a name and blank arguments as recorded, where the encoder would write others."""
    members = (call.extras or {}).get(NAME, {})
    form = members.get(FORM_KEY, {})
    if not call.arguments.strip() and form.keys().isdisjoint({"absent", "blank"}):
        members = members | {"arguments": call.arguments}
    if not LEGAL_NAME.fullmatch(call.name):
        members = members | {FORM_KEY: form | {"name": call.name}}
    return {NAME: members} if members else None


def find_custom_call_ids(blocks: Iterable[AssistantBlock]) -> set[str]:
    """Return the ids of the calls of custom tools, whose results have a type of their own."""
    return {
        block.id for block in blocks if isinstance(block, AnyToolCall) and is_custom_call(block)
    }


def is_custom_call(call: AnyToolCall) -> bool:
    """Return whether a call is of a custom tool."""
    return get_extras(call, NAME).get("type") == CUSTOM_TOOL_CALL
