"""Read requests: anybody's recorded history becomes values of ours."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from steno.errors import InvalidRequest
from steno.message import SystemMessage
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.anthropic_messages.blocks import read_texts
from steno.wire.anthropic_messages.messages import read_messages
from steno.wire.anthropic_messages.shapes import (
    ABSENT,
    HIGHEST_TEMPERATURE,
    LEGAL_NAME,
    NAME,
    PARTS,
    PROVIDER,
    is_blank,
)
from steno.wire.extras import FORM
from steno.wire.functions import members_of, take_model, take_settings
from steno.wire.reading import Members, is_closed, take_tools, tool_of
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
    system = _system(body)
    tools = take_tools(body, _tool)
    settings = _settings(body, tools)
    target = Target(provider, NAME, settings["model"])
    return Request(
        messages=(*system, *read_messages(messages, target)),
        tools=tools,
        **settings,
        extras=body.extras(NAME),
    )


def _system(body: Members) -> tuple[SystemMessage, ...]:
    """Read the system prompt; one without a word in it stays where it is."""
    text = body.peek("system", str)
    blocks = () if text is not None else read_texts(body.peek("system", list[Raw]) or [])
    if text is None and blocks and not all(is_blank(block.text) for block in blocks):
        body.take_list("system")
        return (SystemMessage(blocks, extras={NAME: {FORM: {"content": PARTS}}}),)
    if text is None or is_blank(text):
        return ()
    body.take("system", str)
    return (SystemMessage.system(text),)


# -- settings --------------------------------------------------------------------------------


def _settings(body: Members, tools: tuple[ToolDefinition, ...]) -> dict[str, Any]:
    if "max_tokens" not in body:
        body.note_form("max_tokens", ABSENT)
    found = {"model": take_model(body)} | take_settings(
        body,
        limit="max_tokens",
        stop="stop_sequences",
        highest_temperature=HIGHEST_TEMPERATURE,
    )
    choice = _tool_choice(body, tools)
    return found if choice is None else {**found, "tool_choice": choice}


def _tool_choice(body: Members, tools: tuple[ToolDefinition, ...]) -> str | None:
    """Read which tool to call; what could be taken for another choice stays as it is."""
    found = dict(body.peek("tool_choice", dict[str, Any]) or {})
    kind = found.pop("type", None)
    names = {tool.original_name or tool.name: tool.name for tool in tools}
    if kind == "tool":
        name = found.pop("name", None)
        choice = names.get(name) if isinstance(name, str) else None
    else:
        choice = _CHOICES.get(kind) if isinstance(kind, str) else None
        if choice in names.values():
            return None
    if choice is not None:
        body.take("tool_choice", dict[str, Any])
        if found:
            body.note_form("tool_choice", found)
    return choice


_CHOICES: Final = {"auto": "auto", "none": "none", "any": "required"}


# -- tools -----------------------------------------------------------------------------------


def _tool(raw: Raw) -> ToolDefinition | None:
    """Read a tool of ours; those that run at the provider are none."""
    members = members_of(raw)
    if members is None:
        return None
    if "type" in members and members.peek("type", str) != "custom":
        return None
    name = members.take("name", str) or ""
    description = members.take("description", str)
    schema = members.take("input_schema", dict[str, Any])
    strict = members.take("strict", bool)
    if not schema:
        return None
    if description is None:
        members.note_form("description", ABSENT)
    elif is_blank(description):
        members.put_back("description", description)
    if strict is False or (strict and not is_closed(schema)):
        members.put_back("strict", strict)
        strict = False  # closing it would change it
    if not LEGAL_NAME.fullmatch(name):
        members.note_form("name", name)
    return tool_of(
        name=name,
        description=None if description is None or is_blank(description) else description,
        parameters=schema,
        strict=bool(strict),
        extras=members.extras(NAME),
    )
