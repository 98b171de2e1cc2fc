"""Read requests: anybody's recorded history becomes values of ours."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from steno.errors import InvalidRequest, InvalidValue
from steno.message import Message, SystemMessage
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.functions import take_settings
from steno.wire.gemini.parts import text_of_user
from steno.wire.gemini.shapes import NAME, PROVIDER
from steno.wire.gemini.spelling import Fields
from steno.wire.gemini.tools import read_tools
from steno.wire.gemini.turns import ContentsReader
from steno.wire.reading import NewIds
from steno.wire.writing import Target

_MODES: Final = {"AUTO": "auto", "NONE": "none", "ANY": "required"}


def decode_request(
    data: bytes | str, *, provider: str = PROVIDER, model: str | None = None
) -> Request:
    """Read a recorded request; what we have no name for stays in extras and opaque blocks.

    Seals in it are taken as those of the provider and model it was sent to. The model is part
    of the address, not of the body: `model` tells it. Raises InvalidRequest if it is not a
    request of this protocol.
    """
    body = Fields(data, "request")
    contents = body.take_list("contents")
    if contents is None:
        raise InvalidRequest("request: contents must be a list")
    named = body.take("model", str)
    if named is not None:
        body.form["model"] = "body"
    tools = read_tools(body)
    settings = _config(body) | _tool_choice(body, tools)
    target = Target(provider, NAME, named or model or "")
    reader = ContentsReader(target, NewIds(body.raw, f"{NAME}_call_"))
    messages = _system(body)
    for position, raw in enumerate(contents):
        messages += reader.read(raw, f"contents[{position}]")
    return Request(
        messages=tuple(messages),
        model=target.model,
        tools=tools,
        **settings,
        extras=body.extras(),
    )


def _config(body: Fields) -> dict[str, Any]:
    """Take the settings that every provider has."""
    config = body.take_object("generationConfig")
    if config is None:
        return {}
    found = take_settings(config, limit="maxOutputTokens", stop="stopSequences", top_p="topP")
    body.put_back("generationConfig", config, is_empty_kept=not found)
    return found


def _tool_choice(body: Fields, tools: tuple[ToolDefinition, ...]) -> dict[str, Any]:
    """Take the choice of tools, if it is one that we can say."""
    config = body.take_object("toolConfig")
    if config is None:
        return {}
    calling = config.take_object("functionCallingConfig")
    choice = None
    if calling is not None:
        names = calling.peek("allowedFunctionNames", list[str])
        choice = _MODES.get(calling.peek("mode", str) or "")
        if "allowedFunctionNames" in calling:
            known = {tool.original_name or tool.name: tool.name for tool in tools}
            is_one = choice == "required" and names is not None and len(names) == 1
            choice = known.get(names[0]) if is_one and names else None
            choice = None if choice in _MODES.values() else choice
        if choice is not None:
            calling.take("mode", str)
            calling.take("allowedFunctionNames", list[str])
        config.put_back("functionCallingConfig", calling, is_empty_kept=choice is None)
    body.put_back("toolConfig", config, is_empty_kept=calling is None)
    return {} if choice is None else {"tool_choice": choice}


def _system(body: Fields) -> list[Message]:
    """Take the system instruction; it stays among the extras if it is more than text."""
    raw = body.peek("systemInstruction", Raw)
    if raw is None:
        return []
    try:
        instruction = Fields(raw, "systemInstruction")
        texts = [text_of_user(part) for part in instruction.take_list("parts") or ()]
        blocks = tuple([text for text in texts if text is not None])
        message = SystemMessage(blocks, extras=instruction.extras())
    except InvalidValue:
        return []
    if len(blocks) < len(texts):
        return []
    body.take("systemInstruction", Raw)
    return [message]
