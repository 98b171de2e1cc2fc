"""Read the blocks of a recorded message; what has no name here is kept at its place."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from steno.call import InvalidToolCall, build_call
from steno.content import Image, ImageData, ImageUrl, Opaque, Text, Thinking
from steno.errors import InvalidValue
from steno.message import AssistantBlock, UserBlock
from steno.value import Sendable
from steno.wire.anthropic_messages.shapes import (
    ABSENT,
    AS_IT_WAS,
    IMAGE_TYPES,
    LEGAL_ID,
    LEGAL_NAME,
    NAME,
    UNSIGNED,
    is_blank,
)
from steno.wire.extras import FORM
from steno.wire.open import text_of
from steno.wire.reading import Members, bytes_of
from steno.wire.writing import Target

S = TypeVar("S", bound=Sendable)


def noted(value: S, name: str, entry: object) -> S:
    """Return the same with a note on how it was written."""
    mine: dict[str, Any] = dict((value.extras or {}).get(NAME) or {})
    mine[FORM] = {**mine.get(FORM, {}), name: entry}
    return msgspec.structs.replace(value, extras={NAME: mine})


def read_texts(raws: list[Raw]) -> tuple[Text, ...]:
    """Read blocks of text; nothing if there is any other among them."""
    try:
        texts = [text_block(raw) for raw in raws]
    except InvalidValue:
        return ()
    return () if None in texts else tuple([text for text in texts if text is not None])


def user_block(raw: Raw) -> UserBlock:
    """Read what a user or a tool says."""
    kind = kind_of(raw)
    block = text_block(raw) if kind == "text" else _image(raw) if kind == "image" else None
    return block or opaque_block(raw)


def assistant_block(raw: Raw, target: Target) -> AssistantBlock:
    """Read what a model says; seals in it are the target's."""
    members = Members(raw, "block")
    kind = members.take("type", str)
    block: AssistantBlock | None = None
    match kind:
        case "text":
            block = _text(members)
        case "thinking":
            block = _thinking(members, target)
        case "redacted_thinking" if data := members.take("data", str):
            seal = target.seal(data)
            block = Thinking("", seal=seal, redacted=True, extras=members.extras(NAME))
        case "tool_use":
            block = _call(members)
        case _:
            pass
    return block or opaque_block(raw)


def plain_text(text: str) -> Text:
    """Make text of a string that stands for all of the content."""
    return noted(Text(text), AS_IT_WAS, True) if is_blank(text) else Text(text)


def text_block(raw: Raw) -> Text | None:
    """Read a block of text; None if it is another."""
    members = Members(raw, "block")
    return _text(members) if members.take("type", str) == "text" else None


def _text(members: Members) -> Text | None:
    text = members.take("text", str)
    if text is None:
        return None
    if is_blank(text):
        members.note_form(AS_IT_WAS, True)
    return Text(text, extras=members.extras(NAME))


def _thinking(members: Members, target: Target) -> Thinking | None:
    text = members.take("thinking", str)
    if text is None:
        return None
    signature = members.take("signature", str) if members.peek("signature", str) else None
    if signature is None:
        members.note_form(UNSIGNED, [target.provider, target.model])
        return Thinking(text, extras=members.extras(NAME))
    return Thinking(text, seal=target.seal(signature), extras=members.extras(NAME))


def _call(members: Members) -> AssistantBlock | None:
    id, name = members.take("id", str), members.take("name", str)
    if not id or name is None:
        return None
    if not LEGAL_ID.fullmatch(id):
        members.note_form("id", id)
    if not LEGAL_NAME.fullmatch(name):
        members.note_form("name", name)
    found = members.take("input", Raw)
    if found is None:
        members.note_form("input", ABSENT)
    call = build_call(
        id, name, "" if found is None else text_of(found), extras=members.extras(NAME)
    )
    if found is not None and isinstance(call, InvalidToolCall):
        return noted(call, "input", AS_IT_WAS)
    return call


def _image(raw: Raw) -> Image | None:
    members = Members(raw, "block")
    members.take("type", str)
    source = members.take("source", dict[str, Any]) or {}
    try:
        match source:
            case {"type": "base64", "media_type": str(kind), "data": str(text), **rest}:
                data = bytes_of(text)
                if rest or data is None or kind not in IMAGE_TYPES:
                    return None
                extras = members.extras(NAME)
                return Image(source=ImageData(data), mime_type=kind, extras=extras)
            case {"type": "url", "url": str(url), **rest} if not rest:
                return Image(source=ImageUrl(url), extras=members.extras(NAME))
            case _:
                return None
    except InvalidValue:
        return None


def opaque_block(raw: Raw) -> Opaque:
    """Keep a block as it is."""
    return Opaque(kind=kind_of(raw), raw=text_of(raw), origin=NAME)


def kind_of(raw: Raw) -> str:
    """Return what a block says it is. Raises InvalidRequest for what is no block."""
    return Members(raw, "block").take("type", str) or ""
