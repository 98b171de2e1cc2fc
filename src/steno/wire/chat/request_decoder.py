"""Decode requests in the flat chat JSON of steno."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from steno.messages.call import AnyToolCall
from steno.messages.content import Opaque, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire import request_decoder as base
from steno.wire.chat.payload import NAME, PROVIDER
from steno.wire.extras import Members
from steno.wire.request_decoder import ObjectMembers


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a request, or a bare list of messages; unknown members are kept in extras.

    `provider` is ignored, because this protocol has no seals (signatures or encrypted reasoning).
    Raises InvalidRequest if `data` is not a request of this protocol.
    """
    data = base.strip_bom(data, "request")
    if data.lstrip()[:1] in ("[", b"["):
        messages = base.read_elements(data, "request")
        body = ObjectMembers(b"{}", "request")
        body.note_form("body", "list")
    else:
        body = ObjectMembers(data, "request")
        messages = base.take_messages(body)
    settings = base.take_settings(body, limit="max_tokens", stop="stop")
    if choice := body.take_nonempty("tool_choice", str):
        settings["tool_choice"] = choice
    read = partial(_read_message, new_ids=base.CallIdGenerator(data, "unnamed_"))
    return Request(
        messages=base.read_messages(messages, NAME, read),
        model=base.take_model(body),
        tools=base.take_tools(body, _read_tool),
        **settings,
        extras=body.extras(NAME),
    )


def _read_tool(members: ObjectMembers) -> ToolDefinition | None:
    name, description = members.take("name", str), members.take("description", str)
    parameters = members.take("parameters", Members)
    strict = members.take("strict", bool)
    if not (name and description and parameters):
        return None
    tool: ToolDefinition | None = None
    for is_strict in (strict is not False, False):
        if tool is None or tool.parameters != parameters:  # a strict tool has a closed schema
            tool = base.build_tool(name, description, parameters, strict=is_strict)
    if tool is None:
        return None
    if strict is not (None if tool.strict else False):
        members.note_form("strict", "absent" if strict is None else strict)
    return msgspec.structs.replace(tool, extras=members.extras(NAME))


# -- messages --------------------------------------------------------------------------------


_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _read_message(members: ObjectMembers, new_ids: base.CallIdGenerator) -> Message | None:
    """Read a message; None if steno has no type for it."""
    role = members.take("role", str) or ""
    kind = _ROLES.get(role.lower(), "")
    if role != kind:
        members.put_back("role", role)
    match kind:
        case "system":
            content = _read_content(members, is_prompt=True)
            return SystemMessage(content, extras=members.extras(NAME))
        case "user":
            return UserMessage(_read_content(members, is_prompt=True), extras=members.extras(NAME))
        case "assistant":
            calls = members.take_nonempty("tool_calls", list[Raw])
            blocks = _read_content(members, is_empty_text=not calls)
            made = [_read_call(raw, new_ids) for raw in calls or ()]
            return AssistantMessage(content=(*blocks, *made), extras=members.extras(NAME))
        case "tool":
            return _read_result(members)
        case _:
            return None


def _read_call(raw: Raw, new_ids: base.CallIdGenerator) -> AnyToolCall:
    """Read a call, with or without a nested `function`."""
    members = function = ObjectMembers(raw, "call")
    if "function" in members and "name" not in members:
        function = ObjectMembers(members.take("function", Raw) or b"null", "call")
        members.note_form("function", "inside")
    return base.read_call(members, function, new_ids, NAME)


def _read_result(members: ObjectMembers) -> ToolResultMessage:
    has_failed = members.take_nonempty("is_error", bool)  # false becomes an extra
    return ToolResultMessage(
        tool_call_id=members.take("tool_call_id", str) or "",
        content=_read_content(members),
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        extras=members.extras(NAME),
    )


def _read_content(
    members: ObjectMembers, *, is_empty_text: bool = True, is_prompt: bool = False
) -> tuple[Text | Opaque, ...]:
    """Read the content. If the encoder would write it in another form, record its form.

    In a prompt, an empty text becomes an opaque block.
    """
    if members.peek("content", str) == "" and not is_empty_text:
        members.take("content", str)
        members.note_form("content", "empty")
        return ()
    read = _read_prompt_part if is_prompt else _read_part
    content = base.take_content(members, read)
    if content is None:
        base.take_empty_content(members)
    return content or ()


def _read_part(raw: Raw) -> Text | Opaque:
    members = ObjectMembers(raw, "part")
    kind = members.take("type", str)
    text = members.take("text", str) if kind == "text" else None
    if text is not None:
        return Text(text, extras=members.extras(NAME))
    return Opaque(kind=kind or "", raw=members.raw, origin=NAME)


_read_prompt_part: Final = base.preserve_empty_text(_read_part, NAME)
