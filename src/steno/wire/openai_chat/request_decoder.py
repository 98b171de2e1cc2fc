"""Decode requests of the Chat Completions API."""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.messages.call import AnyToolCall, ToolCall, build_call
from steno.messages.content import Image, Opaque, Text, Thinking
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
from steno.wire import request_decoder as base
from steno.wire.extras import Members
from steno.wire.openai_chat import dialect
from steno.wire.openai_chat.dialect import FUNCTION_EXTRAS, LEGACY_CALL, MAX_TOKENS_FIELDS
from steno.wire.openai_chat.payload import LEGAL_NAME, NAME, PROVIDER
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import RequestTarget, wrap_function
from steno.wire.tolerant import raw_text


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Decode a recorded request; unknown members are kept in extras and opaque blocks.

    Seals (reasoning details) are bound to `provider` and the model of the request. Raises
    InvalidRequest if `data` is not a request of this protocol.
    """
    body = ObjectMembers(data, "request")
    messages = base.take_messages(body)
    tools = base.take_tools(body, _read_tool)
    model, settings = base.take_model(body), _read_settings(body, tools)
    reader = _CompletionMessageReader(
        RequestTarget(provider, NAME, model), base.CallIdGenerator(body.raw, "unnamed_")
    )
    return Request(
        messages=base.read_messages(messages, NAME, reader.read),
        model=model,
        tools=tools,
        **settings,
        extras=body.extras(NAME),
    )


def _read_settings(body: ObjectMembers, tools: tuple[ToolDefinition, ...]) -> Members:
    limit = next((name for name in MAX_TOKENS_FIELDS if base.has_token_limit(body, name)), None)
    if limit is not None:
        body.note_form("max_tokens", limit)
    if body.peek("stream_options", Members) == dialect.USAGE_STREAM_OPTIONS:
        body.take("stream_options", Raw)
        body.note_form("stream_options", "usage")  # no loss: other protocols always send usage
    found = base.take_settings(body, limit=limit, stop="stop")
    if (stop := body.take("stop", str)) is not None:
        body.note_form("stop", "string")
        found["stop"] = (stop,)
    return found | base.take_tool_choice(body, tools, lambda name: wrap_function({"name": name}))


def _read_tool(members: ObjectMembers) -> ToolDefinition | None:
    function = base.unwrap_function(members)
    if function is None:
        return None
    name = function.take("name", str)
    description = function.take("description", str)
    parameters = function.take("parameters", Members)
    strict = function.take("strict", bool)
    absent = [
        field
        for field, value in (("description", description), ("parameters", parameters))
        if not value
    ]
    if absent:
        members.note_form("absent", absent)
    kept = function.remaining()
    if strict is False:
        kept["strict"] = False
    if description is not None and not description.strip():
        kept["description"], description = description, None  # ToolDefinition rejects a blank one
    if parameters is not None and parameters.get("type") != "object":
        kept["parameters"] = parameters  # recorded without the type, which is added below
    if name and LEGAL_NAME.fullmatch(name) is None:
        members.note_form("name", name)
    schema = {"type": "object", **(parameters or {})}
    if strict and not base.is_closed_schema(schema):
        kept["strict"], strict = True, False  # a strict tool would close the schema
    if kept:
        members.note_form("function", kept)
    extras = members.extras(NAME)
    return base.build_tool(name or "", description, schema, strict=bool(strict), extras=extras)


# -- messages --------------------------------------------------------------------------------


@final
class _CompletionMessageReader:
    """Reads messages in order, and matches legacy results with their calls."""

    def __init__(self, target: RequestTarget, new_ids: base.CallIdGenerator) -> None:
        self._target = target
        self._new_ids = new_ids
        self._pending_legacy_call: tuple[str, str] | None = None
        """The id and tool name of the latest legacy call, until its result is read."""

    def read(self, members: ObjectMembers) -> Message | None:
        """Read a message; None if steno has no type for it."""
        role = members.take("role", str)
        match role:
            case "system" | "developer":
                if role == "developer":
                    members.put_back("role", role)
                return SystemMessage(
                    _read_content(members, is_prompt=True), extras=members.extras(NAME)
                )
            case "user":
                return UserMessage(
                    _read_content(members, is_prompt=True), extras=members.extras(NAME)
                )
            case "assistant":
                return self._read_assistant(members)
            case "tool":
                call_id = members.take("tool_call_id", str)
                _note_unusual_id(members, call_id)
                return ToolResultMessage(
                    tool_call_id=call_id or "",
                    content=_read_result_content(members),
                    extras=members.extras(NAME),
                )
            case "function":
                return self._read_legacy_result(members)
            case _:
                return None

    def _read_assistant(self, members: ObjectMembers) -> AssistantMessage:
        blocks: list[AssistantBlock] = []
        thinking = ""
        for field in ("reasoning_content", "reasoning"):
            if not thinking and (found := members.take_nonempty(field, str)):
                thinking = found
                members.note_form("thinking", field)
        details = members.take("reasoning_details", Raw)
        seal = None if details is None else self._target.seal(raw_text(details))
        if thinking or seal is not None:
            blocks.append(Thinking(thinking, seal=seal))
        blocks += _read_content(members)
        blocks += map(_read_call, members.take_nonempty("tool_calls", list[Raw]) or ())
        legacy = self._read_legacy_call(members)
        blocks += [] if legacy is None else [legacy]
        message = AssistantMessage(content=tuple(blocks), extras=members.extras(NAME))
        if legacy is not None:
            name = legacy.original_name if isinstance(legacy, ToolCall) else None
            self._pending_legacy_call = (legacy.id, name or legacy.name)
        return message

    # -- legacy calls ------------------------------------------------------------------------

    def _read_legacy_call(self, members: ObjectMembers) -> AnyToolCall | None:
        """Read the legacy call of a turn; None if there is none.

        The call gets a generated id, which is never sent.
        """
        if not (members.peek(LEGACY_CALL, Members) or {}).get("name"):
            return None  # some servers send the member empty
        function = ObjectMembers(members.take(LEGACY_CALL, Raw) or b"{}", "call")
        call = ObjectMembers(b"{}", "call")
        call.note_form(LEGACY_CALL, True)
        return _read_function_call(self._new_ids.make(), call, function, "arguments")

    def _read_legacy_result(self, members: ObjectMembers) -> ToolResultMessage:
        """Read the result of a legacy call, which refers to the call by its tool name."""
        name = members.take("name", str)
        members.note_form(LEGACY_CALL, name)
        id, called = self._pending_legacy_call or ("", "")
        if not id or (name is not None and name != called):
            id = self._new_ids.make()
        message = ToolResultMessage(
            tool_call_id=id,
            tool_name=base.map_tool_name_or_empty(name),
            content=_read_result_content(members),
            extras=members.extras(NAME),
        )
        self._pending_legacy_call = None
        return message


def _read_call(raw: Raw) -> AnyToolCall:
    members = ObjectMembers(raw, "call")
    id = members.take("id", str)
    is_custom = members.peek("type", str) == "custom"
    if not is_custom and (kind := members.take("type", str)) != "function":
        members.note_form("type", "absent" if kind is None else kind)
    if ("custom" if is_custom else "function") not in members:
        members.note_form("function", "absent")
    inner = ObjectMembers(members.take("custom" if is_custom else "function", Raw) or b"{}", "call")
    _note_unusual_id(members, id)
    return _read_function_call(id or "", members, inner, "input" if is_custom else "arguments")


def _read_function_call(
    id: str, call: ObjectMembers, function: ObjectMembers, field: str
) -> AnyToolCall:
    """Read the name and arguments of a call; record their form in a note if it is unusual."""
    absent = [member for member in ("name", field) if member not in function]
    if absent:
        call.note_form("absent", absent)
    name = function.take("name", str)
    arguments = function.take(field, str)
    if arguments is None and "arguments" in function:
        arguments = raw_text(function.take("arguments", Raw) or b"{}")
        call.note_form("arguments_are", "object")
    elif arguments is not None and not arguments.strip():
        call.note_form("arguments", arguments)  # the encoder would write `{}`
    if name is not None and LEGAL_NAME.fullmatch(name) is None:
        call.note_form("name", name)  # not every server enforces OpenAI's rule
    if left := function.remaining():
        call.note_form(FUNCTION_EXTRAS, left)
    return build_call(id, name or "", arguments or "", extras=call.extras(NAME))


def _note_unusual_id(members: ObjectMembers, id: str | None) -> None:
    if id and dialect.DEFAULT_CALL_ID.fullmatch(id) is None:
        members.note_form("id", "odd")


# -- content ---------------------------------------------------------------------------------


def _read_content(members: ObjectMembers, *, is_prompt: bool = False) -> tuple[Any, ...]:
    """Read the content. If the encoder would write it in another form, record its form.

    In a prompt, an empty text becomes an opaque block. Raises InvalidRequest if the content is not
    a string, a list of parts or null.
    """
    read = _read_prompt_part if is_prompt else _read_part
    content = base.take_content(members, read)
    if content is None and "content" not in members:
        members.note_form("content", "absent")
    elif content is None and raw_text(members.take("content", Raw) or b"null") != "null":
        raise InvalidRequest(
            "must be a string, a list of parts or null", code="content_not_text", place="content"
        )
    return content or ()


def _read_result_content(members: ObjectMembers) -> tuple[ResultBlock, ...]:
    raw = members.peek("content", Raw)
    if raw is not None and raw_text(raw) == "null":
        members.note_form("content", "null")
    content: tuple[ResultBlock, ...] = _read_content(members)
    if any(isinstance(block, Image) for block in content):
        members.note_form("images", "inside")  # OpenAI allows only text here
    return content


def _read_part(raw: Raw) -> UserBlock:
    members = ObjectMembers(raw, "part")
    kind = members.take("type", str)
    if kind == "text":
        text = members.take("text", str)
        if text is not None:
            return Text(text, extras=members.extras(NAME))
    if kind == "image_url":
        inner = ObjectMembers(members.take("image_url", Raw) or b"{}", "part")
        image = base.read_image_url(inner.take("url", str) or "")
        if image is not None:
            members.keep_rest("image_url", inner)
            return msgspec.structs.replace(image, extras=members.extras(NAME))
    return Opaque(kind=kind or "", raw=members.raw, origin=NAME)


_read_prompt_part: Final = base.preserve_empty_text(_read_part, NAME)
