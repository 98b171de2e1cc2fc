"""Decode requests: flat lists of messages."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.messages.call import AnyToolCall, InvalidToolCall, build_call
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
from steno.wire.chat.payload import NAME, PROVIDER
from steno.wire.request_decoder import (
    CallIdGenerator,
    ObjectMembers,
    build_tool,
    read_elements,
    read_messages,
    read_tool_members,
    strip_bom,
    take_arguments,
    take_messages,
    take_model,
    take_settings,
    take_tools,
)
from steno.wire.tolerant import raw_text


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a request, or a bare list of messages; unknown members stay in extras.

    Every wire has `provider`; this protocol seals nothing. Raises InvalidRequest if there are no
    messages.
    """
    data = strip_bom(data, "request")
    if data.lstrip()[:1] in ("[", b"["):
        messages = read_elements(data, "request")
        body = ObjectMembers(b"{}", "request")
        body.note_form("body", "list")
    else:
        body = ObjectMembers(data, "request")
        messages = take_messages(body)
    settings = take_settings(body, limit="max_tokens", stop="stop")
    if body.peek("tool_choice", str):
        settings["tool_choice"] = body.take("tool_choice", str)
    reader = _ChatMessageReader(CallIdGenerator(data, "unnamed_"))
    return Request(
        messages=read_messages(messages, NAME, reader.read),
        model=take_model(body),
        tools=take_tools(body, _read_tool),
        **settings,
        extras=body.extras(NAME),
    )


def _read_tool(raw: Raw) -> ToolDefinition | None:
    members = read_tool_members(raw)
    if members is None:
        return None
    name, description = members.take("name", str), members.take("description", str)
    parameters = members.take("parameters", dict[str, Any])
    strict = members.take("strict", bool)
    if not (name and description and parameters):
        return None
    tool: ToolDefinition | None = None
    for is_strict in (strict is not False, False):
        if tool is None or tool.parameters != parameters:  # closing it would change it
            tool = build_tool(
                name=name,
                description=description,
                parameters=parameters,
                strict=is_strict,
                extras=None,
            )
    if tool is None:
        return None
    if strict is not (None if tool.strict else False):
        members.note_form("strict", "absent" if strict is None else strict)
    return msgspec.structs.replace(tool, extras=members.extras(NAME))


# -- messages --------------------------------------------------------------------------------


@final
class _ChatMessageReader:
    """Reads messages one after the other."""

    def __init__(self, new_ids: CallIdGenerator) -> None:
        self._new_ids = new_ids

    def read(self, members: ObjectMembers) -> Message | None:
        """Read a message; None if it has no equivalent among our values."""
        role = members.take("role", str) or ""
        kind = _ROLES.get(role.lower(), "")
        if role != kind:
            members.put_back("role", role)
        match kind:
            case "system":
                content = _read_content(members)
                texts = tuple([block for block in content if isinstance(block, Text)])
                if len(texts) < len(content):
                    return None
                return SystemMessage(texts, extras=members.extras(NAME))
            case "user":
                return UserMessage(_read_content(members), extras=members.extras(NAME))
            case "assistant":
                return self._read_assistant(members)
            case "tool":
                return _read_result(members)
            case _:
                return None

    def _read_assistant(self, members: ObjectMembers) -> AssistantMessage:
        calls = members.take_list("tool_calls")
        if calls == []:
            members.put_back("tool_calls", [])
        blocks = _read_content(members, is_empty_text=not calls)
        made = [self._read_call(raw) for raw in calls or ()]
        return AssistantMessage(content=(*blocks, *made), extras=members.extras(NAME))

    def _read_call(self, raw: Raw) -> AnyToolCall:
        """Read a call, also one with a `function` inside."""
        members = inner = ObjectMembers(raw, "call")
        if "function" in members and "name" not in members:
            inner = ObjectMembers(members.take("function", Raw) or b"null", "call")
            members.note_form("function", "inside")
        name = inner.take("name", str)
        if name is None:
            raise InvalidRequest("has no name", code="call_name_missing", place="call")
        if not name:
            members.note_form("name", name)
        id = members.take("id", str) if members.peek("id", str) else None
        if id is None:
            members.note_form("id", "absent")  # or null, or empty, which stays among the members
            id = self._new_ids.make()
        arguments, form = take_arguments(inner)
        call = build_call(id, name, arguments)
        if isinstance(call, InvalidToolCall):
            form = form or "raw"
        if form is not None:
            members.note_form("arguments", form)
        kept = None if inner is members else inner.extras(NAME)
        if kept is not None:
            members.put_back("function", kept[NAME])
        return msgspec.structs.replace(call, extras=members.extras(NAME))


_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _read_result(members: ObjectMembers) -> ToolResultMessage:
    has_failed = members.peek("is_error", bool) is True
    if has_failed:
        members.take("is_error", bool)
    return ToolResultMessage(
        tool_call_id=members.take("tool_call_id", str) or "",
        content=_read_content(members),
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        extras=members.extras(NAME),
    )


def _read_content(
    members: ObjectMembers, *, is_empty_text: bool = True
) -> tuple[Text | Opaque, ...]:
    """Read text, null or parts; note the form where there are two ways to write the same."""
    text = members.take("content", str)
    if text is not None:
        if text or is_empty_text:
            return (Text(text),)
        members.note_form("content", "empty")
        return ()
    parts = members.take_list("content")
    if parts is not None:
        members.note_form("content", "parts")
        return tuple(map(_read_part, parts))
    if "content" not in members:
        members.note_form("content", "absent")
    elif raw_text(members.take("content", Raw) or b"") == "null":
        members.note_form("content", "null")
    else:
        raise InvalidRequest("content must be text", code="content_not_text", place="message")
    return ()


def _read_part(raw: Raw) -> Text | Opaque:
    members = ObjectMembers(raw, "part")
    kind = members.take("type", str)
    text = members.take("text", str) if kind == "text" else None
    if text is not None:
        return Text(text, extras=members.extras(NAME))
    return Opaque(kind=kind or "", raw=members.raw, origin=NAME)
