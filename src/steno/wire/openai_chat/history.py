"""Read requests: anybody's recorded history becomes values of ours."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from steno.call import AnyToolCall, build_call
from steno.content import Image, Opaque, Text, Thinking
from steno.errors import InvalidRequest, InvalidValue
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.request import Request
from steno.schema import close_objects
from steno.tool import ToolDefinition
from steno.wire.open import text_of
from steno.wire.openai_chat.dialect import USUAL_ID
from steno.wire.openai_chat.shapes import LEGAL_NAME, NAME, PROVIDER
from steno.wire.reading import Members, image_of, take_tools, tool_of, whole_message
from steno.wire.writing import Target


def decode_request(data: bytes | str, *, provider: str = PROVIDER) -> Request:
    """Read a recorded request; what we have no name for stays in extras and opaque blocks.

    Seals in it are taken as those of the provider and model it was sent to. Raises
    InvalidRequest if it is not a request of this protocol.
    """
    body = Members(data, "request")
    messages = body.take_list("messages")
    if messages is None:
        raise InvalidRequest("request: messages must be a list")
    tools = take_tools(body, _tool)
    settings = _settings(body, tools)
    target = Target(provider, NAME, settings["model"])
    return Request(
        messages=tuple([_message(raw, f"messages[{n}]", target) for n, raw in enumerate(messages)]),
        tools=tools,
        **settings,
        extras=body.extras(NAME),
    )


def _settings(body: Members, tools: tuple[ToolDefinition, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"model": ""}
    if body.look("model", str):
        found["model"] = body.take("model", str)
    for field in ("max_completion_tokens", "max_tokens"):
        count = body.look(field, int)
        if count is not None and count > 0 and "max_tokens" not in found:
            found["max_tokens"] = body.take(field, int)
            body.note("max_tokens", field)
    for field, highest in (("temperature", 2), ("top_p", 1)):
        value = body.look(field, float)
        if value is not None and 0 <= value <= highest:
            found[field] = body.take(field, float)
    stop = body.look("stop", str)
    if stop is not None:
        body.take("stop", str)
        body.note("stop", "string")
        found["stop"] = (stop,)
    elif body.look("stop", list[str]):
        found["stop"] = tuple(body.take("stop", list[str]) or ())
    choice = body.look("tool_choice", str)
    if choice in ("auto", "none", "required"):
        found["tool_choice"] = body.take("tool_choice", str)
    elif named := body.look("tool_choice", dict[str, Any]):
        names = {tool.original_name or tool.name: tool.name for tool in tools}
        for name, ours in names.items():
            if named == {"type": "function", "function": {"name": name}}:
                body.take("tool_choice", dict[str, Any])
                found["tool_choice"] = ours
    return found


# -- tools -----------------------------------------------------------------------------------


def _tool(raw: Raw) -> ToolDefinition | None:
    members = Members(raw, "tool")
    if members.take("type", str) != "function" or "function" not in members:
        return None
    function = Members(members.take("function", Raw) or b"{}", "tool")
    name = function.take("name", str)
    description = function.take("description", str)
    parameters = function.take("parameters", dict[str, Any])
    strict = function.take("strict", bool)
    absent = [
        field
        for field, value in (("description", description), ("parameters", parameters))
        if not value
    ]
    if absent:
        members.note("absent", absent)
    kept = (function.extras(NAME) or {}).get(NAME, {})
    if strict is False:
        kept["strict"] = False
    if description == "":
        kept["description"] = ""
    if parameters is not None and parameters.get("type") != "object":
        kept["parameters"] = parameters  # not every server wants to be told that it is an object
    if name and LEGAL_NAME.fullmatch(name) is None:
        members.note("name", name)
    schema = {"type": "object", **(parameters or {})}
    try:
        is_open = bool(strict) and close_objects(schema) != schema
    except InvalidValue:
        return None  # nested beyond reason
    if is_open:
        kept["strict"], strict = True, False  # closing it would change it
    if kept:
        members.note("function", kept)
    return tool_of(
        name=name or "",
        description=description,
        parameters=schema,
        strict=bool(strict),
        extras=members.extras(NAME),
    )


# -- messages --------------------------------------------------------------------------------


def _message(raw: Raw, place: str, target: Target) -> Message:
    members = Members(raw, place)
    try:
        message = _read_message(members, target)
    except InvalidValue:
        message = None
    return message or whole_message(members.raw, NAME)


def _read_message(members: Members, target: Target) -> Message | None:
    role = members.take("role", str)
    match role:
        case "system" | "developer":
            if role == "developer":
                members.put_back("role", role)
            return SystemMessage(_content(members), extras=members.extras(NAME))
        case "user":
            return UserMessage(_content(members), extras=members.extras(NAME))
        case "assistant":
            return _assistant(members, target)
        case "tool":
            call_id = members.take("tool_call_id", str)
            _note_odd_id(members, call_id)
            return ToolResultMessage(
                tool_call_id=call_id or "",
                content=_result_content(members),
                extras=members.extras(NAME),
            )
        case _:
            return None


def _assistant(members: Members, target: Target) -> AssistantMessage:
    blocks: list[AssistantBlock] = []
    thinking = ""
    for field in ("reasoning_content", "reasoning"):
        found = members.look(field, str)
        if found and not thinking:
            thinking = members.take(field, str) or ""
            members.note("thinking", field)
    details = members.take("reasoning_details", Raw)
    seal = None if details is None else target.seal(text_of(details))
    if thinking or seal is not None:
        blocks.append(Thinking(thinking, seal=seal))
    content: tuple[Any, ...] = _content(members)
    blocks += content
    calls = members.take_list("tool_calls")
    if calls is not None:
        blocks += [_call(raw) for raw in calls]
        if not calls:
            members.put_back("tool_calls", [])
    return AssistantMessage(content=tuple(blocks), extras=members.extras(NAME))


def _call(raw: Raw) -> AnyToolCall:
    members = Members(raw, "call")
    id = members.take("id", str)
    is_custom = members.look("type", str) == "custom"
    if not is_custom and members.take("type", str) is None:
        members.note("type", "absent")
    inner = Members(members.take("custom" if is_custom else "function", Raw) or b"{}", "call")
    field = "input" if is_custom else "arguments"
    absent = [member for member in ("name", field) if member not in inner]
    if absent:
        members.note("absent", absent)
    name = inner.take("name", str)
    arguments = inner.take(field, str)
    if arguments is None and "arguments" in inner:
        arguments = text_of(inner.take("arguments", Raw) or b"{}")
        members.note("arguments_are", "object")
    elif arguments is not None and not arguments.strip():
        members.note("arguments", arguments)  # no arguments, said in another way than ours
    _note_odd_id(members, id)
    if name is not None and LEGAL_NAME.fullmatch(name) is None:
        members.note("name", name)  # not every server keeps OpenAI's rule
    left = inner.extras(NAME)
    if left is not None:
        members.note("inner", left[NAME])
    return build_call(id or "", name or "", arguments or "", extras=members.extras(NAME))


def _note_odd_id(members: Members, id: str | None) -> None:
    if id and USUAL_ID.fullmatch(id) is None:
        members.note("id", "odd")


# -- content ---------------------------------------------------------------------------------


def _content(members: Members) -> tuple[Any, ...]:
    """Read the content; how it was written is noted where there is another way."""
    text = members.take("content", str)
    if text is not None:
        return (Text(text),)
    parts = members.take_list("content")
    if parts is not None:
        members.note("content", "parts")
        return tuple(map(_part, parts))
    if "content" in members:
        if text_of(members.take("content", Raw) or b"null") != "null":
            raise InvalidRequest("content: neither text nor parts")
    else:
        members.note("content", "absent")
    return ()


def _result_content(members: Members) -> tuple[ResultBlock, ...]:
    raw = members.look("content", Raw)
    if raw is not None and text_of(raw) == "null":
        members.note("content", "null")
    content: tuple[ResultBlock, ...] = _content(members)
    if any(isinstance(block, Image) for block in content):
        members.note("images", "inside")  # not every server refuses that
    return content


def _part(raw: Raw) -> UserBlock:
    members = Members(raw, "part")
    kind = members.take("type", str)
    if kind == "text":
        text = members.take("text", str)
        if text is not None:
            return Text(text, extras=members.extras(NAME))
    if kind == "image_url":
        inner = Members(members.take("image_url", Raw) or b"{}", "part")
        image = image_of(inner.take("url", str) or "")
        if image is not None:
            kept = inner.extras(NAME)
            if kept is not None:
                members.put_back("image_url", kept[NAME])
            return msgspec.structs.replace(image, extras=members.extras(NAME))
    return Opaque(kind=kind or "", raw=members.raw, origin=NAME)
