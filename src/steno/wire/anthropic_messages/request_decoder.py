"""Decode requests of the Messages API.

One message of this protocol may become several messages in steno, because user messages contain the
tool results. If the encoder would write a value in another form, its extras have a note on the
recorded form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from steno.errors import InvalidValue
from steno.messages.call import AnyToolCall, InvalidToolCall, build_call
from steno.messages.content import Image, ImageData, ImageUrl, Opaque, Text, Thinking
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.values import FORM_KEY, Sendable
from steno.wire import request_decoder as base
from steno.wire.anthropic_messages import payload
from steno.wire.anthropic_messages.payload import LEGAL_ID, LEGAL_NAME, NAME, PROVIDER, is_blank
from steno.wire.extras import Members
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import RequestTarget
from steno.wire.tolerant import raw_text

S = TypeVar("S", bound=Sendable)
B = TypeVar("B")
_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "any": "required"}
"""The names in steno for the modes of `tool_choice`."""


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a recorded request; unknown members are kept in extras and opaque blocks.

    Seals (signatures of thinking) are bound to `provider` and the model of the request. Raises
    InvalidRequest if `data` is not a request of this protocol.
    """
    body = ObjectMembers(data, "request")
    messages = base.take_messages(body)
    system = _read_system(body)
    tools = base.take_tools(body, _read_tool)
    settings = _read_settings(body, tools)
    target = RequestTarget(provider, NAME, settings["model"])
    return Request(
        messages=(*system, *_read_messages(messages, target)),
        tools=tools,
        **settings,
        extras=body.extras(NAME),
    )


def _read_system(body: ObjectMembers) -> tuple[SystemMessage, ...]:
    """Take the system prompt; a prompt that is blank or not only text becomes an extra."""
    text = body.peek("system", str)
    try:
        if text is not None:
            message = SystemMessage.system(text)
        else:
            texts: Any = tuple(map(_read_system_block, body.peek("system", list[Raw]) or ()))
            message = SystemMessage(texts, extras={NAME: {FORM_KEY: {"content": "parts"}}})
    except InvalidValue:
        return ()
    body.take("system", Raw)
    return (message,)


def _read_settings(body: ObjectMembers, tools: tuple[ToolDefinition, ...]) -> Members:
    if "max_tokens" not in body:
        body.note_form("max_tokens", "absent")
    found = {"model": base.take_model(body)} | base.take_settings(
        body, limit="max_tokens", stop="stop_sequences", highest_temperature=payload.MAX_TEMPERATURE
    )
    return found | _read_tool_choice(body, tools)


def _read_tool_choice(body: ObjectMembers, tools: tuple[ToolDefinition, ...]) -> dict[str, str]:
    """Take the tool choice; an ambiguous or unknown choice becomes an extra."""
    found = dict(body.peek("tool_choice", Members) or {})
    kind = found.pop("type", None)
    names = {tool.original_name or tool.name: tool.name for tool in tools}
    if kind == "tool":
        name = found.pop("name", None)
        choice = names.get(name) if isinstance(name, str) else None
    else:
        choice = _TOOL_CHOICES.get(kind) if isinstance(kind, str) else None
        choice = None if choice in names.values() else choice
    if choice is None:
        return {}
    body.take("tool_choice", Members)
    if found:
        body.note_form("tool_choice", found)
    return {"tool_choice": choice}


def _read_tool(members: ObjectMembers) -> ToolDefinition | None:
    """Read a tool; None for a server tool, or if the definition is invalid."""
    if "type" in members and members.peek("type", str) != "custom":
        return None
    name = members.take("name", str) or ""
    description = members.take("description", str)
    schema = members.take("input_schema", Members)
    strict = members.take("strict", bool)
    if not schema:
        return None
    if description is None:
        members.note_form("description", "absent")
    elif is_blank(description):
        members.put_back("description", description)
        description = None
    if strict is False or (strict and not base.is_closed_schema(schema)):
        members.put_back("strict", strict)
        strict = False  # a strict tool would close the schema
    if not LEGAL_NAME.fullmatch(name):
        members.note_form("name", name)
    extras = members.extras(NAME)
    return base.build_tool(name, description, schema, strict=bool(strict), extras=extras)


# -- messages ---------------------------------------------------------------------------------


def _read_messages(raws: list[Raw], target: RequestTarget) -> list[Message]:
    """Read messages; one that cannot be read becomes a user message with an opaque block."""
    found: list[Message] = []
    for raw in raws:
        try:
            messages = _read_message(ObjectMembers(raw, "message"), target)
        except InvalidValue:
            messages = None
        messages = messages or [base.build_opaque_message(raw_text(raw), NAME)]
        found += messages
        _note_placement(found, len(messages))
    if found and isinstance(found[-1], AssistantMessage):
        found[-1] = _note_trailing_blanks(found[-1])
    return _note_repeated_ids(found)


def _note_placement(messages: list[Message], count: int) -> None:
    """Record which of the last `count` messages were joined to the previous message.

    These messages were one message in the request. By default, the encoder joins a message to the
    previous one if that is a tool result; only a difference from this default is recorded.
    """
    for at in range(len(messages) - count, len(messages)):
        message, joins = messages[at], at > len(messages) - count
        would_join = at > 0 and isinstance(messages[at - 1], ToolResultMessage)
        if joins != would_join and isinstance(message, (UserMessage, ToolResultMessage)):
            messages[at] = _with_form_note(message, payload.JOINS_PREVIOUS, joins)


def _read_message(members: ObjectMembers, target: RequestTarget) -> list[Message] | None:
    match members.take("role", str):
        case "user":
            return _read_user(members)
        case "assistant":
            blocks = _read_content(members, lambda raw: _read_assistant_block(raw, target))
            if blocks is None:
                return None
            return [AssistantMessage(content=blocks, extras=members.extras(NAME))]
        case "system":
            texts: Any = _read_content(members, _read_system_block) or ()
            members.note_form(payload.IN_MESSAGES, True)
            # `texts` has None for a block that is not text, which SystemMessage rejects.
            return [SystemMessage(texts, extras=members.extras(NAME))]
        case _:
            return None


def _read_content(members: ObjectMembers, read: Callable[[Raw], B]) -> tuple[B | Text, ...] | None:
    """Read the content. If it is a list, record that form.

    Otherwise, the encoder would write a single text as a string.
    """
    text = members.take("content", str)
    return base.take_content(members, read) if text is None else (_build_text(text),)


def _note_trailing_blanks(message: AssistantMessage) -> AssistantMessage:
    """Add a note if the last text ends in whitespace, which the encoder would strip."""
    last = message.content[-1]
    if not isinstance(last, Text) or last.text == last.text.rstrip():
        return message
    kept = (*message.content[:-1], _with_form_note(last, payload.VERBATIM, True))
    return msgspec.structs.replace(message, content=kept)


def _note_repeated_ids(messages: list[Message]) -> list[Message]:
    """Add a note to calls that share an id, since the encoder would make their ids unique."""
    ids = [
        call.id
        for turn in messages
        if isinstance(turn, AssistantMessage)
        for call in turn.tool_calls
    ]
    if len(set(ids)) == len(ids):
        return messages
    repeated = {id for id, count in Counter(ids).items() if count > 1}
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            blocks = [
                _with_form_note(block, "id", block.id)
                if isinstance(block, AnyToolCall) and block.id in repeated
                else block
                for block in message.content
            ]
            messages[position] = msgspec.structs.replace(message, content=tuple(blocks))
    return messages


def _with_form_note(value: S, name: str, entry: object) -> S:
    """Return the value with a note on its recorded form."""
    mine: Members = dict((value.extras or {}).get(NAME) or {})
    mine[FORM_KEY] = {**mine.get(FORM_KEY, {}), name: entry}
    return msgspec.structs.replace(value, extras={NAME: mine})


# -- user messages and tool results -----------------------------------------------------------


def _read_user(members: ObjectMembers) -> list[Message] | None:
    text = members.take("content", str)
    if text is not None:
        return [UserMessage((_build_text(text),), extras=members.extras(NAME))]
    messages: list[Message] = []
    blocks: list[Raw] = []
    for raw in members.take_list("content") or []:
        result = _read_result(raw) if _read_block_type(raw) == "tool_result" else None
        if result is None:
            blocks.append(raw)
            continue
        messages += _build_user_messages(blocks)
        messages.append(result)
        blocks = []
    messages += _build_user_messages(blocks)
    if not messages:
        return None
    if len(messages) == 1 and isinstance(messages[0], UserMessage):
        members.note_form("content", "parts")
    extras = members.extras(NAME)
    if isinstance(messages[0], UserMessage):
        messages[0] = msgspec.structs.replace(messages[0], extras=extras)
    elif extras is not None:
        messages[0] = _with_form_note(messages[0], "message", extras[NAME])
    return messages


def _build_user_messages(raws: list[Raw]) -> list[Message]:
    if not raws:
        return []
    try:
        return [UserMessage(tuple(map(_read_prompt_block, raws)))]
    except InvalidValue:  # UserMessage rejects content that is only blank text
        return [UserMessage(tuple(map(_read_opaque_block, raws)))]


def _read_result(raw: Raw) -> ToolResultMessage | None:
    members = ObjectMembers(raw, "block")
    members.take("type", str)
    call_id = members.take("tool_use_id", str)
    if not call_id:
        return None
    if not LEGAL_ID.fullmatch(call_id):
        members.note_form("id", call_id)
    is_error = members.take("is_error", bool)
    if is_error is False:
        members.note_form("is_error", False)
    if "content" not in members:
        members.note_form("content", "absent")
    content = _read_content(members, _read_user_block)
    return ToolResultMessage(
        tool_call_id=call_id,
        content=content or (),
        outcome=Outcome.ERROR if is_error else Outcome.OK,
        extras=members.extras(NAME),
    )


# -- blocks -----------------------------------------------------------------------------------


def _read_user_block(raw: Raw) -> UserBlock:
    """Read a block of a user message or a tool result."""
    kind = _read_block_type(raw)
    read = {"text": _read_text_block, "image": _read_image}.get(kind, _read_opaque_block)
    return read(raw) or _read_opaque_block(raw)


def _read_assistant_block(raw: Raw, target: RequestTarget) -> AssistantBlock:
    """Read a block of an assistant message; its seal is bound to the target."""
    members = ObjectMembers(raw, "block")
    kind = members.take("type", str)
    block: AssistantBlock | None = None
    match kind:
        case "text":
            block = _read_text(members)
        case "thinking":
            block = _read_thinking(members, target)
        case "redacted_thinking" if data := members.take("data", str):
            seal = target.seal(data)
            block = Thinking("", seal=seal, redacted=True, extras=members.extras(NAME))
        case "tool_use":
            block = _read_call(members)
        case _:
            pass
    return block or _read_opaque_block(raw)


def _read_text_block(raw: Raw) -> Text | None:
    """Read a text block; None for a block of another type."""
    members = ObjectMembers(raw, "block")
    return _read_text(members) if members.take("type", str) == "text" else None


def _read_text(members: ObjectMembers) -> Text | None:
    text = members.take("text", str)
    if text is None:
        return None
    if is_blank(text):
        members.note_form(payload.VERBATIM, True)
    return Text(text, extras=members.extras(NAME))


def _build_text(text: str) -> Text:
    """Build the text block for content that is a string."""
    return _with_form_note(Text(text), payload.VERBATIM, True) if is_blank(text) else Text(text)


def _read_thinking(members: ObjectMembers, target: RequestTarget) -> Thinking | None:
    text = members.take("thinking", str)
    if text is None:
        return None
    signature = members.take_nonempty("signature", str)
    if signature is None:
        members.note_form(payload.UNSIGNED, [target.provider, target.model])
        return Thinking(text, extras=members.extras(NAME))
    return Thinking(text, seal=target.seal(signature), extras=members.extras(NAME))


def _read_call(members: ObjectMembers) -> AssistantBlock | None:
    id, name = members.take("id", str), members.take("name", str)
    if not id or name is None:
        return None
    if not LEGAL_ID.fullmatch(id):
        members.note_form("id", id)
    if not LEGAL_NAME.fullmatch(name):
        members.note_form("name", name)
    found = members.take("input", Raw)
    if found is None:
        members.note_form("input", "absent")
    call = build_call(
        id, name, "" if found is None else raw_text(found), extras=members.extras(NAME)
    )
    if found is not None and isinstance(call, InvalidToolCall):
        return _with_form_note(call, "input", payload.VERBATIM)
    return call


def _read_image(raw: Raw) -> Image | None:
    members = ObjectMembers(raw, "block")
    members.take("type", str)
    source = members.take("source", Members) or {}
    try:
        match source:
            case {"type": "base64", "media_type": str(kind), "data": str(text), **rest}:
                data = base.read_base64(text)
                if rest or data is None or kind not in payload.IMAGE_TYPES:
                    return None
                extras = members.extras(NAME)
                return Image(source=ImageData(data), mime_type=kind, extras=extras)
            case {"type": "url", "url": str(url), **rest} if not rest:
                return Image(source=ImageUrl(url), extras=members.extras(NAME))
            case _:
                return None
    except InvalidValue:
        return None


_read_system_block: Final = base.preserve_empty_text(_read_text_block, NAME)
_read_prompt_block: Final = base.preserve_empty_text(_read_user_block, NAME)


def _read_opaque_block(raw: Raw) -> Opaque:
    return Opaque(kind=_read_block_type(raw), raw=raw_text(raw), origin=NAME)


def _read_block_type(raw: Raw) -> str:
    """Return the type of a block. Raises InvalidRequest if the block is not an object."""
    return ObjectMembers(raw, "block").take("type", str) or ""
