"""Decode requests of the Responses API.

Consecutive items of the model become one assistant message.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest, InvalidValue
from steno.messages.content import Opaque, Text
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.values import FORM_KEY
from steno.wire import request_decoder as base
from steno.wire.extras import Members
from steno.wire.openai_responses import payload
from steno.wire.openai_responses.items import build_block, find_custom_call_ids, read_item
from steno.wire.openai_responses.payload import LEGAL_ID, LEGAL_NAME, NAME, PROVIDER
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import RequestTarget

_MODEL_ITEM_TYPES: Final = frozenset(
    [
        *("reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request"),
        *("program", "program_output", "tool_search_output"),
    ]
)
"""Item types of the model that do not end in `_call`."""


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a recorded request; unknown members are kept in extras and opaque blocks.

    Seals (encrypted reasoning) are bound to `provider` and the model of the request. Raises
    InvalidRequest if `data` is not a request of this protocol.
    """
    body = ObjectMembers(data, "request")
    if "input" not in body and "instructions" not in body:
        raise InvalidRequest(
            "input or instructions is required", code="messages_missing", place="request"
        )
    tools = base.take_tools(body, _read_tool)
    settings = base.take_settings(body, limit="max_output_tokens")
    settings |= base.take_tool_choice(body, tools, lambda name: {"type": "function", "name": name})
    model = base.take_model(body)
    messages: list[Message] = []
    text = body.peek("instructions", str)
    if text is not None and text.strip():
        body.take("instructions", str)
        note = {NAME: {FORM_KEY: {"place": "instructions"}}}
        messages.append(SystemMessage((Text(text),), extras=note))
    messages += _read_input(body, RequestTarget(provider, NAME, model))
    return Request(
        messages=tuple(messages), model=model, tools=tools, **settings, extras=body.extras(NAME)
    )


def _read_tool(members: ObjectMembers) -> ToolDefinition | None:
    if members.take("type", str) != "function":
        return None
    name = members.take("name", str)
    description = members.peek("description", str)
    parameters = members.peek("parameters", Members)
    strict = members.take("strict", bool)
    absent = [field for field in ("description", "parameters") if field not in members]
    if strict is None and "strict" not in members:
        absent.append("strict")
    if absent:
        members.note_form("absent", absent)
    if name and not LEGAL_NAME.fullmatch(name):
        members.note_form("name", name)
    # An empty description, or a schema without a type, stays: ToolDefinition rejects it.
    if description and description.strip():
        members.take("description", str)
    else:
        description = None
    if parameters:
        if parameters.get("type") == "object":
            members.take("parameters", Raw)
        parameters = {"type": "object", **parameters}
        if strict and not base.is_closed_schema(parameters):
            members.put_back("strict", strict)
            strict = False  # a strict tool would close the schema
    extras = members.extras(NAME)
    return base.build_tool(name or "", description, parameters, strict=bool(strict), extras=extras)


# -- messages --------------------------------------------------------------------------------


def _read_input(body: ObjectMembers, target: RequestTarget) -> list[Message]:
    text = body.peek("input", str)
    items = body.take_list("input")
    if text is not None and text.strip():
        body.take("input", str)
        body.note_form("input", "string")
        return [UserMessage((Text(text),))]
    if not items:
        body.note_form("input", "absent" if items is None else "empty")
        return []
    return _read_messages(items, target)


def _read_messages(items: list[Raw], target: RequestTarget) -> list[Message]:
    found: list[Message] = []
    turn: list[AssistantBlock] = []
    custom: set[str] = set()
    for number, raw in enumerate(items):
        item = ObjectMembers(raw, f"input[{number}]")
        if _is_model_item(item):
            try:
                turn += [build_block(piece, target) for piece in read_item(raw, "item")]
            except InvalidValue:
                kind = item.peek("type", str) or "message"
                turn.append(Opaque(kind=kind, raw=item.raw, origin=NAME))
            continue
        if turn:
            custom |= find_custom_call_ids(turn)
            found.append(_build_turn(turn, target))
            turn = []
        try:
            message = _read_message(item, custom)
        except InvalidValue:
            message = None
        found.append(message or base.build_opaque_message(item.raw, NAME))
    return [*found, _build_turn(turn, target)] if turn else found


def _is_model_item(item: ObjectMembers) -> bool:
    kind, role = item.peek("type", str), item.peek("role", str)
    if kind in ("message", None):
        return role == "assistant"
    return kind in _MODEL_ITEM_TYPES or kind.endswith("_call")


def _build_turn(blocks: list[AssistantBlock], target: RequestTarget) -> AssistantMessage:
    is_usual = target.provider == PROVIDER
    extras = None if is_usual else {NAME: {FORM_KEY: {payload.PROVIDER_NOTE: target.provider}}}
    return AssistantMessage(content=tuple(blocks), extras=extras)


def _read_message(item: ObjectMembers, custom: set[str]) -> Message | None:
    """Read an item that the model did not write; None if steno has no type for it.

    `custom` contains the ids of custom tool calls.
    """
    kind, role = item.peek("type", str), item.peek("role", str)
    if kind in (payload.FUNCTION_CALL_OUTPUT, payload.CUSTOM_TOOL_CALL_OUTPUT):
        return _read_result(item, custom)
    if kind not in ("message", None):
        return None
    if item.take("type", str):
        item.note_form("type", kind)  # the type of a message is optional
    if role == "user":
        item.take("role", str)
        return UserMessage(_read_content(item, "content", is_prompt=True), extras=item.extras(NAME))
    if role not in ("system", "developer"):
        return None
    if role == "system":
        item.take("role", str)
    content: Any = _read_content(item, "content", is_prompt=True)  # SystemMessage rejects images
    return SystemMessage(content, extras=item.extras(NAME) or {NAME: {}})


def _read_result(item: ObjectMembers, custom: set[str]) -> ToolResultMessage:
    call_id = item.take("call_id", str) or ""
    if not LEGAL_ID.fullmatch(call_id):
        item.note_form("call_id", call_id)
    if item.peek("type", str) == (
        payload.CUSTOM_TOOL_CALL_OUTPUT if call_id in custom else payload.FUNCTION_CALL_OUTPUT
    ):
        item.take("type", str)  # the type that the encoder writes
    content: tuple[ResultBlock, ...] = _read_content(item, "output")
    return ToolResultMessage(tool_call_id=call_id, content=content, extras=item.extras(NAME))


# -- content ---------------------------------------------------------------------------------


def _read_content(
    item: ObjectMembers, name: str, *, is_prompt: bool = False
) -> tuple[UserBlock, ...]:
    """Read the content. If the encoder would write it in another form, record its form.

    In a prompt, an empty text becomes an opaque block. Raises InvalidRequest if the content is not
    a string or a list of parts.
    """
    read = _read_prompt_part if is_prompt else _read_part
    content = base.take_content(item, read, name)
    if content is None:
        raise InvalidRequest(
            f"{name} must be a string or a list of parts", code="content_not_text", place="item"
        )
    return content


def _read_part(raw: Raw) -> UserBlock:
    part = ObjectMembers(raw, "part")
    kind = part.take("type", str)
    if kind == "input_text":
        text = part.take("text", str)
        if text is not None:
            return Text(text, extras=part.extras(NAME))
    if kind == "input_image":
        image = base.read_image_url(part.take("image_url", str) or "")
        if image is not None:
            if "detail" not in part:
                part.note_form("detail", "absent")
            return msgspec.structs.replace(image, extras=part.extras(NAME))
    return Opaque(kind=kind or "", raw=part.raw, origin=NAME)


_read_prompt_part: Final = base.preserve_empty_text(_read_part, NAME)
