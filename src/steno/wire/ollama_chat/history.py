"""Read requests: anybody's recorded history becomes values of ours."""

from __future__ import annotations

from typing import Any, final

import msgspec
from msgspec import Raw

from steno.call import AnyToolCall, InvalidToolCall, build_call, map_tool_name, outside_name
from steno.content import Image, Opaque, Text, Thinking
from steno.errors import InvalidRequest, InvalidTool
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.request import Request
from steno.wire.functions import take_model, take_settings
from steno.wire.ollama_chat.shapes import NAME, PROVIDER, image_of
from steno.wire.ollama_chat.tools import read_tool
from steno.wire.open import text_of
from steno.wire.reading import Members, NewIds, read_or_keep, take_arguments, take_tools


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Read a recorded request; what we have no name for stays in extras and opaque blocks.

    Calls without an id get one, and so do their results: by the name of the tool, in order.
    `provider` is there as in every wire; this protocol seals nothing. Raises InvalidRequest if
    it is not a request of this protocol.
    """
    body = Members(data, "request")
    messages = body.take_list("messages")
    if messages is None:
        raise InvalidRequest("request: messages must be a list")
    history = _History(NewIds(body.raw, "unnamed_"))
    return Request(
        messages=tuple([history.read(raw, f"messages[{n}]") for n, raw in enumerate(messages)]),
        tools=take_tools(body, read_tool),
        **_settings(body),
        extras=body.extras(NAME),
    )


def _settings(body: Members) -> dict[str, Any]:
    found: dict[str, Any] = {"model": take_model(body)}
    if body.peek("options", dict[str, Any]) is not None:
        options = Members(body.take("options", Raw) or b"{}", "options")
        taken = take_settings(options, limit="num_predict", stop="stop")
        left = options.extras(NAME)
        if left is not None or not taken:
            body.put_back("options", left[NAME] if left else {})
        found |= taken
    return found


@final
class _History:
    """Reads messages one after the other, and finds the call that a result answers."""

    def __init__(self, new_ids: NewIds) -> None:
        self._new_ids = new_ids
        self._pending: list[tuple[str, str]] = []
        """Id and name of the calls of the last turn that have no result yet."""

    def read(self, raw: Raw, place: str) -> Message:
        """Read a message; one that our vocabulary cannot say is kept whole."""
        return read_or_keep(raw, place, NAME, self._read_message)

    def _read_message(self, members: Members) -> Message | None:
        role = members.take("role", str) or ""
        if role != role.lower():  # the server takes User and USER as well
            members.put_back("role", role)
        match role.lower():
            case "system":
                texts = _text(members, may_be_empty=True)
                return SystemMessage(texts, extras=members.extras(NAME))
            case "user":
                return UserMessage(_blocks(members), extras=members.extras(NAME))
            case "assistant":
                return self._read_assistant(members)
            case "tool":
                return self._read_result(members)
            case _:
                return None

    def _read_assistant(self, members: Members) -> AssistantMessage:
        blocks: list[AssistantBlock] = []
        if members.peek("thinking", str):
            blocks.append(Thinking(members.take("thinking", str) or ""))
        calls = members.take_list("tool_calls")
        if calls == []:
            members.put_back("tool_calls", [])
        blocks += _blocks(members, may_be_empty=not (blocks or calls))
        made = [self._read_call(raw) for raw in calls or ()]
        message = AssistantMessage(content=(*blocks, *made), extras=members.extras(NAME))
        if made:
            self._pending = [(call.id, outside_name(call)) for call in made]
        return message

    def _read_call(self, raw: Raw) -> AnyToolCall:
        members = Members(raw, "call")
        function = Members(members.take("function", Raw) or b"null", "call")
        name = function.take("name", str)
        if name is None:
            raise InvalidRequest("call: has no name")
        if not name:
            members.note_form("name", name)
        id = members.take("id", str) if members.peek("id", str) else None
        if id is None:
            members.note_form("id", "absent")  # or null, or empty, which stays among the members
        for holder, field, hint in ((members, "type", str), (function, "index", int)):
            if (value := holder.take(field, hint)) is not None:
                members.note_form(field, value)
        arguments, form = take_arguments(function)
        call = build_call(id or self._new_ids.make(), name, arguments)
        if isinstance(call, InvalidToolCall):
            form = form or "raw"
        if form is not None:
            members.note_form("arguments", form)
        kept = function.extras(NAME)
        if kept is not None:
            members.put_back("function", kept[NAME])
        return msgspec.structs.replace(call, extras=members.extras(NAME))

    def _read_result(self, members: Members) -> ToolResultMessage:
        id = members.take("tool_call_id", str) if members.peek("tool_call_id", str) else None
        if id is None:
            members.note_form("tool_call_id", "absent")
        name = members.peek("tool_name", str)
        ours = ""
        if name:
            try:
                ours = map_tool_name(name)
            except InvalidTool:
                pass  # no name at all; it stays among the members
            else:
                members.take("tool_name", str)
        if ours != name:
            members.note_form("tool_name", name if ours else "absent")
        return ToolResultMessage(
            tool_call_id=self._find_call_id(id, name),
            tool_name=ours,
            content=_blocks(members, may_be_empty=True),
            extras=members.extras(NAME),
        )

    def _find_call_id(self, id: str | None, name: str | None) -> str:
        """Find the call of that id, else the next of that name, else (without a name) the next."""
        for position, (open_id, open_name) in enumerate(self._pending):
            if open_id == id or (id is None and (not name or open_name == name)):
                del self._pending[position]
                return open_id
        return id or self._new_ids.make()


# -- content ---------------------------------------------------------------------------------


def _blocks(members: Members, *, may_be_empty: bool = False) -> tuple[Image | Opaque | Text, ...]:
    """Read images and text, in the order in which the server puts them before the model."""
    images = [image_of(raw) for raw in members.peek("images", list[Raw]) or ()]
    if images:
        members.take("images", list[Raw])
    return (*images, *_text(members, may_be_empty=may_be_empty and not images))


def _text(members: Members, *, may_be_empty: bool) -> tuple[Text, ...]:
    text = members.take("content", str)
    if text is not None:
        return (Text(text),) if text or may_be_empty else ()
    if "content" not in members:
        members.note_form("content", "absent")
    elif text_of(members.take("content", Raw) or b"") == "null":
        members.note_form("content", "null")
    else:
        raise InvalidRequest("message: content must be text")
    return ()
