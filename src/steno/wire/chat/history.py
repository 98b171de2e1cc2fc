"""Read requests: flat lists of messages become values of ours."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.call import AnyToolCall, InvalidToolCall, build_call
from steno.content import Opaque, Text
from steno.errors import InvalidRequest
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.outcome import Outcome
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.chat.shapes import NAME, PROVIDER
from steno.wire.functions import members_of, take_model, take_settings
from steno.wire.open import text_of
from steno.wire.reading import (
    Members,
    NewIds,
    elements,
    read_or_keep,
    recorded,
    take_arguments,
    take_tools,
    tool_of,
)


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Read a request, or a bare list of messages; what we have no name for is kept.

    `provider` is there as in every wire; this protocol seals nothing. Raises InvalidRequest if
    there are no messages in it.
    """
    data = recorded(data, "request")
    if data.lstrip()[:1] in ("[", b"["):
        messages: list[Raw] | None = elements(data, "request")
        body = Members(b"{}", "request")
        body.note_form("body", "list")
    else:
        body = Members(data, "request")
        messages = body.take_list("messages")
    if messages is None:
        raise InvalidRequest("request: messages must be a list")
    history = _History(NewIds(data, "unnamed_"))
    return Request(
        messages=tuple([history.read(raw, f"messages[{n}]") for n, raw in enumerate(messages)]),
        tools=take_tools(body, _tool),
        **_settings(body),
        extras=body.extras(NAME),
    )


def _settings(body: Members) -> dict[str, Any]:
    found = {"model": take_model(body)} | take_settings(body, limit="max_tokens", stop="stop")
    if body.peek("tool_choice", str):
        found["tool_choice"] = body.take("tool_choice", str)
    return found


def _tool(raw: Raw) -> ToolDefinition | None:
    members = members_of(raw)
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
            tool = tool_of(
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
class _History:
    """Reads messages one after the other."""

    def __init__(self, new_ids: NewIds) -> None:
        self._new_ids = new_ids

    def read(self, raw: Raw, place: str) -> Message:
        """Read a message; one that our vocabulary cannot say is kept whole."""
        return read_or_keep(raw, place, NAME, self._read_message)

    def _read_message(self, members: Members) -> Message | None:
        role = members.take("role", str) or ""
        kind = _ROLES.get(role.lower(), "")
        if role != kind:
            members.put_back("role", role)
        match kind:
            case "system":
                content = _content(members)
                texts = tuple([block for block in content if isinstance(block, Text)])
                if len(texts) < len(content):
                    return None
                return SystemMessage(texts, extras=members.extras(NAME))
            case "user":
                return UserMessage(_content(members), extras=members.extras(NAME))
            case "assistant":
                return self._read_assistant(members)
            case "tool":
                return _result(members)
            case _:
                return None

    def _read_assistant(self, members: Members) -> AssistantMessage:
        calls = members.take_list("tool_calls")
        if calls == []:
            members.put_back("tool_calls", [])
        blocks = _content(members, is_empty_text=not calls)
        made = [self._read_call(raw) for raw in calls or ()]
        return AssistantMessage(content=(*blocks, *made), extras=members.extras(NAME))

    def _read_call(self, raw: Raw) -> AnyToolCall:
        """Read a call, also one with a `function` inside."""
        members = inner = Members(raw, "call")
        if "function" in members and "name" not in members:
            inner = Members(members.take("function", Raw) or b"null", "call")
            members.note_form("function", "inside")
        name = inner.take("name", str)
        if name is None:
            raise InvalidRequest("call: has no name")
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


def _result(members: Members) -> ToolResultMessage:
    has_failed = members.peek("is_error", bool) is True
    if has_failed:
        members.take("is_error", bool)
    return ToolResultMessage(
        tool_call_id=members.take("tool_call_id", str) or "",
        content=_content(members),
        outcome=Outcome.ERROR if has_failed else Outcome.OK,
        extras=members.extras(NAME),
    )


def _content(members: Members, *, is_empty_text: bool = True) -> tuple[Text | Opaque, ...]:
    """Read text, null or parts; how it was written is noted where there is another way."""
    text = members.take("content", str)
    if text is not None:
        if text or is_empty_text:
            return (Text(text),)
        members.note_form("content", "empty")
        return ()
    parts = members.take_list("content")
    if parts is not None:
        members.note_form("content", "parts")
        return tuple(map(_part, parts))
    if "content" not in members:
        members.note_form("content", "absent")
    elif text_of(members.take("content", Raw) or b"") == "null":
        members.note_form("content", "null")
    else:
        raise InvalidRequest("message: content must be text")
    return ()


def _part(raw: Raw) -> Text | Opaque:
    members = Members(raw, "part")
    kind = members.take("type", str)
    text = members.take("text", str) if kind == "text" else None
    if text is not None:
        return Text(text, extras=members.extras(NAME))
    return Opaque(kind=kind or "", raw=members.raw, origin=NAME)
