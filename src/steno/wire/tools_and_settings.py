"""Read and write settings and tools as most protocols have them.

OpenAI and Ollama call a tool a function: a name, a description and parameters, with or without
`{"type", "function"}` around them. Each wire notes by itself how a tool was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from msgspec import Raw

from steno.errors import InvalidRequest, InvalidValue
from steno.json_object import as_json_object, raw_members
from steno.messages.call import map_tool_name
from steno.messages.change import ChangeCode
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.schema import close_objects
from steno.wire.extras import get_form
from steno.wire.report import ChangeCollector
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import wire_name
from steno.wire.tolerant import NULL

T = TypeVar("T")

_FUNCTION: Final = "function"
_TOOL_CHOICES: Final = ("auto", "none", "required")


# -- reading settings ------------------------------------------------------------------------


class MemberSource(Protocol):
    """An object whose members are taken one by one."""

    def peek(self, name: str, hint: type[T]) -> T | None:
        """Return a member if it is present and of that type, without taking it."""
        ...

    def take(self, name: str, hint: type[T]) -> T | None:
        """Take a member if it is of that type."""
        ...


def take_settings(
    body: MemberSource,
    *,
    limit: str,
    stop: str | None = None,
    top_p: str = "top_p",
    highest_temperature: float = 2,
) -> dict[str, Any]:
    """Take the settings that every provider has, under the names of this one."""
    found: dict[str, Any] = {}
    count = take_token_limit(body, limit)
    if count is not None:
        found["max_tokens"] = count
    found |= take_sampling(body, top_p=top_p, highest_temperature=highest_temperature)
    sequences = () if stop is None else take_stop_sequences(body, stop)
    return found | ({"stop": sequences} if sequences else {})


def take_model(body: MemberSource) -> str:
    """Take the name of the model; an empty one stays."""
    return (body.take("model", str) or "") if body.peek("model", str) else ""


def take_token_limit(body: MemberSource, name: str) -> int | None:
    """Take a number of tokens; one that is not above 0 has a meaning to its server, and stays."""
    return body.take(name, int) if (body.peek(name, int) or 0) > 0 else None


def take_sampling(
    body: MemberSource, *, top_p: str = "top_p", highest_temperature: float = 2
) -> dict[str, float]:
    """Take temperature and top_p; a value beyond our bounds stays."""
    found: dict[str, float] = {}
    rows = (("temperature", "temperature", highest_temperature), ("top_p", top_p, 1))
    for field, name, highest in rows:
        value = body.peek(name, float)
        if value is not None and 0 <= value <= highest:
            body.take(name, float)
            found[field] = value
    return found


def take_stop_sequences(body: MemberSource, name: str) -> tuple[str, ...]:
    """Take the stop sequences; an empty list stays."""
    sequences = body.peek(name, list[str])
    return tuple(body.take(name, list[str]) or ()) if sequences else ()


def take_tool_choice(
    body: ObjectMembers, tools: tuple[ToolDefinition, ...], named: Callable[[str], dict[str, Any]]
) -> dict[str, str]:
    """Take the choice of a tool, which the wire writes as `named`; an ambiguous one stays."""
    names = {tool.original_name or tool.name: tool.name for tool in tools}
    mode = body.peek("tool_choice", str)
    choice = mode if mode in _TOOL_CHOICES and mode not in names.values() else None
    found = body.peek("tool_choice", dict[str, Any])
    for theirs, ours in names.items():
        if found == named(theirs):
            choice = ours
    if choice is None:
        return {}
    body.take("tool_choice", Raw)
    return {"tool_choice": choice}


# -- reading tools ---------------------------------------------------------------------------


def take_tools(
    body: ObjectMembers, read: Callable[[Raw], ToolDefinition | None]
) -> tuple[ToolDefinition, ...]:
    """Take the tools of a request; those that `read` refuses stay, each with its position."""
    raws = body.take_list("tools")
    if raws is None:
        return ()
    tools: dict[str, ToolDefinition] = {}
    others: list[tuple[int, Raw]] = []
    for position, raw in enumerate(raws):
        tool = read(raw)
        if tool is None or tool.name in tools:
            others.append((position, raw))
        else:
            tools[tool.name] = tool
    if others or not raws:
        body.put_back("tools", others)
    return tuple(tools.values())


def read_tool_members(raw: Raw) -> ObjectMembers | None:
    """Read the members of a tool; None if it is no object."""
    try:
        return ObjectMembers(raw, "tool")
    except InvalidRequest:
        return None


def unwrap_function(raw: Raw) -> tuple[ObjectMembers, ObjectMembers] | None:
    """Read a tool and the function in it; None if it is no function."""
    members = read_tool_members(raw)
    if members is None or members.take("type", str) != _FUNCTION:
        return None
    function = read_tool_members(members.take(_FUNCTION, Raw) or NULL)
    return None if function is None else (members, function)


def build_tool(
    *,
    name: str,
    description: str | None,
    parameters: Mapping[str, Any] | None,
    strict: bool,
    extras: Mapping[str, Any] | None,
) -> ToolDefinition | None:
    """Build the definition of a recorded tool; None if it breaks our rules."""
    try:
        ours = map_tool_name(name)
        return ToolDefinition(
            name=ours,
            description=description or name,
            parameters=parameters or {"type": "object", "properties": {}},
            strict=strict,
            original_name=None if ours == name else name,
            extras=extras,
        )
    except InvalidValue:
        return None


def is_closed_schema(schema: dict[str, Any]) -> bool:
    """Return whether a strict tool may have a schema: closing its objects does not change it."""
    try:
        return close_objects(schema) == schema
    except InvalidValue:  # nested too deeply
        return False


# -- writing ---------------------------------------------------------------------------------


def drop_none(**members: Any) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def write_tools(
    request: Request, extras: dict[str, Any], write: Callable[[ToolDefinition, str], Any]
) -> dict[str, Any]:
    """Write the tools, with those of the extras in their positions."""
    if not request.tools and "tools" not in extras:
        return {}
    tools = [write(tool, f".tools[{number}]") for number, tool in enumerate(request.tools)]
    return {"tools": _insert_unknown_tools(tools, extras.pop("tools", None))}


def _insert_unknown_tools(tools: list[Any], others: object) -> Any:
    """Return the tools with the recorded ones that we do not know, each at its position.

    Those of a caller's extras have no position, and come last.
    """
    if not isinstance(others, list):
        return tools or others
    for other in others:
        match other:
            case [int(position), tool]:
                tools.insert(position, tool)
            case _:
                tools.append(other)
    return tools


def note_unenforced_schema(tool: ToolDefinition, losses: ChangeCollector, *, at: str) -> None:
    """Note a strict tool, where the server does not hold the model to a schema."""
    if tool.strict:
        losses.note(ChangeCode.TOOL, "schema_not_enforced", at=at)


def write_tool_choice(request: Request, named: Callable[[ToolDefinition], Any]) -> dict[str, Any]:
    """Write the choice of a tool, if there is one; `named` writes the choice of a single tool."""
    choice = request.tool_choice
    for tool in request.tools:
        if tool.name == choice:
            return {"tool_choice": named(tool)}
    return drop_none(tool_choice=choice)


def write_function(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """Write a tool as a function."""
    parameters = raw_members(as_json_object(tool.parameters))
    return {"name": name, "description": tool.description, "parameters": parameters}


def function_name(
    tool: ToolDefinition,
    wire: str,
    legal: re.Pattern[str],
    losses: ChangeCollector,
    *,
    at: str = "",
) -> str:
    """Return the name to send: as it was recorded for this wire, else one that is legal."""
    recorded: str | None = get_form(tool, wire).get("name")
    return recorded or wire_name(tool, legal, losses, at=at)


def wrap_function(function: dict[str, Any]) -> dict[str, Any]:
    """Write a tool around a function."""
    return {"type": _FUNCTION, _FUNCTION: function}
