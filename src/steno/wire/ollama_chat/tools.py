"""Tool definitions, there and back.

The server reads a schema into fields of its own and drops the keywords it has none for. They are
sent all the same, since newer servers know more of them, and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Raw

from steno.tool import ToolDefinition
from steno.wire.extras import extras_of, take_form, take_inner
from steno.wire.functions import function_of, unwrap, wrap
from steno.wire.ollama_chat.shapes import NAME
from steno.wire.reading import tool_of
from steno.wire.report import LossCode, Losses
from steno.wire.writing import wire_name

ANY_NAME: Final = re.compile(r".+", re.DOTALL)
"""The server takes every name."""

_NO_RULE: Final = frozenset({"$schema", "$id", "$comment", "title"})
"""Keywords that nobody misses."""
_KNOWN: Final = frozenset({"type", "$defs", "items", "required", "properties"}) | _NO_RULE
_KNOWN_INSIDE: Final = _NO_RULE | frozenset(
    {"anyOf", "type", "items", "description", "enum", "properties", "required"}
)


# -- reading ---------------------------------------------------------------------------------


def read_tool(raw: Raw) -> ToolDefinition | None:
    """Read a definition; None if it is none of ours."""
    unwrapped = unwrap(raw)
    if unwrapped is None:
        return None
    members, function = unwrapped
    description = (function.peek("description", str) or "").strip()
    parameters = function.peek("parameters", dict[str, Any]) or {}
    if description:
        description = function.take("description", str) or ""
    else:
        members.note_form("description", "absent")  # or null, or blank, which stays among the members
    if parameters.get("type") == "object":
        function.take("parameters", Raw)
    else:
        members.note_form("parameters", "absent")  # or null, or empty, or without a type
    name = function.take("name", str) or ""
    kept = function.extras(NAME)
    if kept is not None:
        members.put_back("function", kept[NAME])
    return tool_of(
        name=name,
        description=description,
        parameters=parameters and {"type": "object", **parameters},
        strict=False,
        extras=members.extras(NAME),
    )


# -- writing ---------------------------------------------------------------------------------


def write_tool(tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
    """Write a definition, and note what of it the server will not see."""
    extras = extras_of(tool, NAME, losses, at=at)
    form = take_form(extras)
    function = function_of(tool, wire_name(tool, ANY_NAME, losses, at=at))
    ignored = sorted(set(_ignored(function["parameters"], _KNOWN)))
    function = {name: value for name, value in function.items() if form.get(name) != "absent"}
    if ignored:
        losses.note(LossCode.TOOL, f"the server does not look at {', '.join(ignored)}", at=at)
    return wrap(function | take_inner(extras, "function")) | extras


def _ignored(schema: object, known: frozenset[str]) -> Iterator[str]:
    """Return the keywords without effect; `$defs` and `items` reach the model as they are."""
    if not isinstance(schema, Mapping):
        return
    yield from schema.keys() - known
    properties, choices = schema.get("properties"), schema.get("anyOf")
    for inner in properties.values() if isinstance(properties, Mapping) else ():
        yield from _ignored(inner, _KNOWN_INSIDE)
    for inner in choices if isinstance(choices, list) and "anyOf" in known else ():
        yield from _ignored(inner, _KNOWN_INSIDE)
