"""Decode requests of Ollama's `/api/chat`."""

from __future__ import annotations

from typing import final

from msgspec import Raw

from steno.messages.call import AnyToolCall, original_tool_name
from steno.messages.content import Image, Opaque, Text, Thinking
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire import request_decoder as base
from steno.wire.extras import Members
from steno.wire.ollama_chat.payload import NAME, PROVIDER, read_image
from steno.wire.request_decoder import ObjectMembers


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a recorded request; unknown members are kept in extras and opaque blocks.

    A call without an id gets a generated id, and so does its result, which is matched by tool name
    and order. `provider` is ignored, because this protocol has no seals (signatures or encrypted
    reasoning). Raises InvalidRequest if `data` is not a request of this protocol.
    """
    body = ObjectMembers(data, "request")
    messages = base.take_messages(body)
    settings: Members = {}
    if body.peek("options", Members) is not None:
        options = ObjectMembers(body.take("options", Raw) or b"{}", "options")
        settings = base.take_settings(options, limit="num_predict", stop="stop")
        body.keep_rest("options", options, is_empty_kept=not settings)
    reader = _OllamaMessageReader(base.CallIdGenerator(body.raw, "unnamed_"))
    return Request(
        messages=base.read_messages(messages, NAME, reader.read),
        model=base.take_model(body),
        tools=base.take_tools(body, _read_tool),
        **settings,
        extras=body.extras(NAME),
    )


def _read_tool(members: ObjectMembers) -> ToolDefinition | None:
    function = base.unwrap_function(members)
    if function is None:
        return None
    description = (function.peek("description", str) or "").strip()
    parameters = function.peek("parameters", Members) or {}
    if description:
        description = function.take("description", str) or ""
    else:
        # A null or blank description stays among the members.
        members.note_form("description", "absent")
    if parameters.get("type") == "object":
        function.take("parameters", Raw)
    else:
        members.note_form("parameters", "absent")  # any other value stays among the members
    name = function.take("name", str) or ""
    members.keep_rest("function", function)
    schema = parameters and {"type": "object", **parameters}
    return base.build_tool(name, description, schema, extras=members.extras(NAME))


@final
class _OllamaMessageReader:
    """Reads messages in order, and matches each result with its call."""

    def __init__(self, new_ids: base.CallIdGenerator) -> None:
        self._new_ids = new_ids
        self._pending: list[tuple[str, str]] = []
        """The id and tool name of each call of the last turn that has no result yet."""

    def read(self, members: ObjectMembers) -> Message | None:
        """Read a message; None if steno has no type for it."""
        role = members.take("role", str) or ""
        if role != role.lower():  # the server converts roles to lower case
            members.put_back("role", role)
        match role.lower():
            case "system":
                texts = _read_text(members, may_be_empty=True)
                return SystemMessage(texts, extras=members.extras(NAME))
            case "user":
                return UserMessage(_read_blocks(members), extras=members.extras(NAME))
            case "assistant":
                return self._read_assistant(members)
            case "tool":
                return self._read_result(members)
            case _:
                return None

    def _read_assistant(self, members: ObjectMembers) -> AssistantMessage:
        blocks: list[AssistantBlock] = []
        if thinking := members.take_nonempty("thinking", str):
            blocks.append(Thinking(thinking))
        calls = members.take_nonempty("tool_calls", list[Raw])
        blocks += _read_blocks(members, may_be_empty=not (blocks or calls))
        made = [self._read_call(raw) for raw in calls or ()]
        message = AssistantMessage(content=(*blocks, *made), extras=members.extras(NAME))
        if made:
            self._pending = [(call.id, original_tool_name(call)) for call in made]
        return message

    def _read_call(self, raw: Raw) -> AnyToolCall:
        members = ObjectMembers(raw, "call")
        function = ObjectMembers(members.take("function", Raw) or b"null", "call")
        for holder, field, hint in ((members, "type", str), (function, "index", int)):
            if (value := holder.take(field, hint)) is not None:
                members.note_form(field, value)
        return base.read_call(members, function, self._new_ids, NAME)

    def _read_result(self, members: ObjectMembers) -> ToolResultMessage:
        id = members.take_nonempty("tool_call_id", str)
        if id is None:
            members.note_form("tool_call_id", "absent")
        name = members.peek("tool_name", str)
        ours = base.map_tool_name_or_empty(name)  # an invalid name stays among the members
        if ours:
            members.take("tool_name", str)
        if ours != name:
            members.note_form("tool_name", name if ours else "absent")
        return ToolResultMessage(
            tool_call_id=self._find_call_id(id, name),
            tool_name=ours,
            content=_read_blocks(members, may_be_empty=True),
            extras=members.extras(NAME),
        )

    def _find_call_id(self, id: str | None, name: str | None) -> str:
        """Return the id of the call that a result belongs to.

        A result without an id belongs to the first unanswered call of the same tool. If it has no
        tool name either, it belongs to the first unanswered call. If no call matches, the result
        keeps its id or gets a new one.
        """
        for position, (open_id, open_name) in enumerate(self._pending):
            if open_id == id or (id is None and (not name or open_name == name)):
                del self._pending[position]
                return open_id
        return id or self._new_ids.make()


# -- content ----------------------------------------------------------------------------------


def _read_blocks(
    members: ObjectMembers, *, may_be_empty: bool = False
) -> tuple[Image | Opaque | Text, ...]:
    """Read images and text, in the order in which the server passes them to the model."""
    images = [read_image(raw) for raw in members.take_nonempty("images", list[Raw]) or ()]
    return (*images, *_read_text(members, may_be_empty=may_be_empty and not images))


def _read_text(members: ObjectMembers, *, may_be_empty: bool) -> tuple[Text, ...]:
    text = members.take("content", str)
    if text is not None:
        return (Text(text),) if text or may_be_empty else ()
    base.take_empty_content(members)
    return ()
