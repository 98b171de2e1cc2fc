"""Settings and tools as most protocols have them: read within our bounds, and written again.

A tool is a function to OpenAI and Ollama: a name, a description and parameters, at once or inside
of `{"type", "function"}`. What is noted about how one was written is for each wire to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from msgspec import Raw

from steno.errors import InvalidRequest
from steno.json_object import expose, freeze_mapping
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.extras import form_of
from steno.wire.reading import Members
from steno.wire.report import LossCode, Losses
from steno.wire.writing import wire_name

T = TypeVar("T")

_KIND: Final = "function"
_CHOICES: Final = ("auto", "none", "required")


# -- reading settings ------------------------------------------------------------------------


class Taken(Protocol):
    """An object that members are taken out of, one by one."""

    def peek(self, name: str, hint: type[T]) -> T | None:
        """Return a member if it is there and of that type; it stays."""
        ...

    def take(self, name: str, hint: type[T]) -> T | None:
        """Take a member out if it is of that type."""
        ...


def take_model(body: Taken) -> str:
    """Take the name of the model; an empty one stays."""
    return (body.take("model", str) or "") if body.peek("model", str) else ""


def take_count(body: Taken, name: str) -> int | None:
    """Take a number of tokens; one that is not above 0 stays, and means something to its server."""
    return body.take(name, int) if (body.peek(name, int) or 0) > 0 else None


def take_sampling(
    body: Taken, *, top_p: str = "top_p", highest_temperature: float = 2
) -> dict[str, float]:
    """Take how freely to choose words; what is beyond our bounds stays."""
    found: dict[str, float] = {}
    rows = (("temperature", "temperature", highest_temperature), ("top_p", top_p, 1))
    for field, name, highest in rows:
        value = body.peek(name, float)
        if value is not None and 0 <= value <= highest:
            body.take(name, float)
            found[field] = value
    return found


def take_stop(body: Taken, name: str) -> tuple[str, ...]:
    """Take the texts to stop at; an empty list stays."""
    words = body.peek(name, list[str])
    return tuple(body.take(name, list[str]) or ()) if words else ()


def take_settings(
    body: Taken,
    *,
    limit: str,
    stop: str | None = None,
    top_p: str = "top_p",
    highest_temperature: float = 2,
) -> dict[str, Any]:
    """Take the settings that every provider has, by the names that this one has for them."""
    found: dict[str, Any] = {}
    count = take_count(body, limit)
    if count is not None:
        found["max_tokens"] = count
    found |= take_sampling(body, top_p=top_p, highest_temperature=highest_temperature)
    words = () if stop is None else take_stop(body, stop)
    return found | ({"stop": words} if words else {})


def take_choice(
    body: Members, tools: tuple[ToolDefinition, ...], named: Callable[[str], dict[str, Any]]
) -> dict[str, str]:
    """Take which tool to call, `named` as the wire does; what could mean another choice stays."""
    names = {tool.original_name or tool.name: tool.name for tool in tools}
    word = body.peek("tool_choice", str)
    choice = word if word in _CHOICES and word not in names.values() else None
    found = body.peek("tool_choice", dict[str, Any])
    for theirs, ours in names.items():
        if found == named(theirs):
            choice = ours
    if choice is None:
        return {}
    body.take("tool_choice", Raw)
    return {"tool_choice": choice}


# -- reading tools ---------------------------------------------------------------------------


def members_of(raw: Raw) -> Members | None:
    """Read the members of a tool; None if it has none."""
    try:
        return Members(raw, "tool")
    except InvalidRequest:
        return None


def unwrap(raw: Raw) -> tuple[Members, Members] | None:
    """Read a tool and the function in it; None if it is no function."""
    members = members_of(raw)
    if members is None or members.take("type", str) != _KIND:
        return None
    function = members_of(members.take(_KIND, Raw) or Raw(b"null"))
    return None if function is None else (members, function)


# -- writing ---------------------------------------------------------------------------------


def given(**members: Any) -> dict[str, Any]:
    """Return the members that there are."""
    return {name: value for name, value in members.items() if value is not None}


def write_tools(
    request: Request, extras: dict[str, Any], write: Callable[[ToolDefinition, str], Any]
) -> dict[str, Any]:
    """Write the tools, with those of the extras among them, if there are any."""
    if not request.tools and "tools" not in extras:
        return {}
    tools = [write(tool, f".tools[{number}]") for number, tool in enumerate(request.tools)]
    return {"tools": _add_others(tools, extras.pop("tools", None))}


def _add_others(tools: list[Any], others: object) -> Any:
    """Return the tools with those in between that were read and are none of ours.

    What somebody else put there, without a position, comes last.
    """
    if not isinstance(others, list):
        return tools or others  # no list of tools at all, or nothing
    for other in others:
        match other:
            case [int(position), tool]:
                tools.insert(position, tool)
            case _:
                tools.append(other)
    return tools


def note_not_strict(tool: ToolDefinition, losses: Losses, *, at: str) -> None:
    """Note a strict tool, where the server does not hold the model to a schema."""
    if tool.strict:
        losses.note(LossCode.TOOL, "the model is not held to the schema", at=at)


def write_choice(request: Request, named: Callable[[ToolDefinition], Any]) -> dict[str, Any]:
    """Write which tool to call, if that was said; `named` writes the choice of one of them."""
    choice = request.tool_choice
    for tool in request.tools:
        if tool.name == choice:
            return {"tool_choice": named(tool)}
    return given(tool_choice=choice)


def function_of(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """Write a tool as a function."""
    parameters = expose(freeze_mapping(tool.parameters))
    return {"name": name, "description": tool.description, "parameters": parameters}


def function_name(
    tool: ToolDefinition, wire: str, legal: re.Pattern[str], losses: Losses, *, at: str = ""
) -> str:
    """Return the name that the target sees: as it was recorded there, else one that is legal."""
    recorded: str | None = form_of(tool, wire).get("name")
    return recorded or wire_name(tool, legal, losses, at=at)


def wrap(function: dict[str, Any]) -> dict[str, Any]:
    """Put a function into what a tool is."""
    return {"type": _KIND, _KIND: function}
