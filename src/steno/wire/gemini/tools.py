"""Tools: declarations of functions, among tools of the server's own.

Functions are declared in groups, and beside them stand searches and the like. A recorded layout
is kept as a template, in which the name of a tool stands for its declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.json_object import expose, freeze_mapping
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.extras import extras_of, form_of, take_form
from steno.wire.gemini.shapes import LEGAL_NAME, NAME
from steno.wire.gemini.spelling import Fields, snake_case, spell
from steno.wire.open import NOT_AS_EXPECTED, explain, read_as
from steno.wire.reading import tool_of
from steno.wire.report import Losses
from steno.wire.writing import wire_name

Schema = dict[str, Any]
_Change: TypeAlias = Callable[[str | int], str | int]

LAYOUT: Final = "layout"
"""The note on how tools of ours were laid out."""
_GROUP: Final = "functionDeclarations"
_GROUPS: Final = (_GROUP, snake_case(_GROUP))
_ANY_SCHEMA: Final = "parametersJsonSchema"
"""Takes any JSON Schema."""
_NARROW_SCHEMA: Final = "parameters"
"""Takes what OpenAPI has, with types in capitals or not."""


# -- reading ---------------------------------------------------------------------------------


def read_tools(body: Fields) -> tuple[ToolDefinition, ...]:
    """Take the tools; how they were laid out is noted unless it is as we would do it."""
    entries = body.peek("tools", list[dict[str, Raw]])
    if entries is None or not all(map(_is_group_of_objects, entries)):
        return ()
    body.take("tools", Raw)
    tools: dict[str, ToolDefinition] = {}
    template = [
        {name: _read_member(name, raw, tools) for name, raw in entry.items()} for entry in entries
    ]
    if not tools or template != [{_GROUP: list(tools)}]:
        body.form[LAYOUT if _is_layout(template) else "tools"] = template
    return tuple(tools.values())


def _is_layout(template: list[dict[str, Any]]) -> bool:
    """Tell whether there are only tools of ours in it, so that others miss nothing."""
    return all(
        name in _GROUPS and isinstance(value, list) and all(isinstance(each, str) for each in value)
        for entry in template
        for name, value in entry.items()
    )


def _is_group_of_objects(entry: dict[str, Raw]) -> bool:
    groups = [read_as(raw, list[Any]) for name, raw in entry.items() if name in _GROUPS]
    return all(isinstance(each, dict) for group in groups for each in group or ())


def _read_member(name: str, raw: Raw, tools: dict[str, ToolDefinition]) -> Any:
    """Return the member of a tool, with names for the declarations that we can say."""
    try:
        value = msgspec.json.decode(raw)
    except NOT_AS_EXPECTED as exc:
        raise InvalidRequest(f"tools: {explain(exc)}") from None
    if name not in _GROUPS or not isinstance(value, list):
        return value
    for position, declaration in enumerate(msgspec.json.decode(raw, type=list[Raw])):
        try:
            tool = _read_tool(Fields(declaration, "tool"))
        except InvalidRequest:
            tool = None
        if tool is not None and tool.name not in tools:
            tools[tool.name] = tool
            value[position] = tool.name
    return value


def _read_tool(declaration: Fields) -> ToolDefinition | None:
    name = declaration.take("name", str) or ""
    if not LEGAL_NAME.fullmatch(name):
        declaration.form["name"] = name
    description = declaration.take("description", str)
    if not (description or "").strip():
        declaration.form["description"] = description
        description = None
    field = _ANY_SCHEMA if _ANY_SCHEMA in declaration else _NARROW_SCHEMA
    found = declaration.take(field, dict[str, Any])
    if field != _ANY_SCHEMA or found is None:
        declaration.form["schema"] = None if found is None else field
    schema = None if found is None else _read_schema(found, declaration.form)
    if found is not None and _written_schema(schema or {}, declaration.form) != found:
        return None
    return tool_of(
        name=name,
        description=description,
        parameters=schema,
        strict=False,
        extras=declaration.extras(),
    )


def _read_schema(found: Schema, form: dict[str, Any]) -> Schema:
    """Return a schema as JSON Schema has it: types in small letters, an object at the top."""
    counted = _with_counts(found, _count)
    if counted != found:
        form["counts"] = "text"
    schema: Schema = _with_types(counted, _small)
    for name, change in _TYPES.items():
        if schema != counted and _with_types(schema, change) == counted:
            form["types"] = name
    if "type" not in schema:
        form["type"] = "absent"
        return {"type": "object", **schema}
    return schema


# -- writing ---------------------------------------------------------------------------------


def write_tools(request: Request, template: Any, losses: Losses) -> list[Any] | None:
    """Return the tools, laid out as the template says; None where there are none."""
    written = {
        tool.name: _write_tool(tool, losses, f".tools[{number}]")
        for number, tool in enumerate(request.tools)
    }
    if template is None:
        return [{_GROUP: list(written.values())}] if written else None
    entries: list[Any] = []
    group: list[Any] | None = None
    for entry in template:
        members = {}
        for name, value in entry.items():
            members[name] = value
            if name in _GROUPS and isinstance(value, list):
                members[name] = _fill(value, written)
                group = members[name] if group is None else group
        entries.append(members)
    if written and group is None:
        entries.append({_GROUP: list(written.values())})
    elif group is not None:
        group += written.values()
    return entries


def _fill(declarations: list[Any], written: dict[str, Any]) -> list[Any]:
    """Put in the declarations that the names stand for, and take them out of `written`."""
    filled = [written.pop(d, None) if isinstance(d, str) else d for d in declarations]
    return [declaration for declaration in filled if declaration is not None]


def declared_name(tool: ToolDefinition, losses: Losses, at: str = "") -> str:
    """Return the name under which a tool is declared."""
    form = form_of(tool, NAME)
    return form["name"] if "name" in form else wire_name(tool, LEGAL_NAME, losses, at=at)


def _write_tool(tool: ToolDefinition, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form = take_form(extras)
    name = declared_name(tool, losses, at)
    members: dict[str, Any] = {"name": name, "description": tool.description}
    if "description" in form:
        members["description"] = form["description"]
    if members["description"] is None:
        del members["description"]
    field = form.get("schema", _ANY_SCHEMA)
    if field is not None:
        members[field] = _written_schema(expose(freeze_mapping(tool.parameters)), form)
    return spell(members, form) | extras


def _written_schema(schema: Schema, form: dict[str, Any]) -> Schema:
    if form.get("type") == "absent":
        schema = {name: value for name, value in schema.items() if name != "type"}
    if "counts" in form:
        schema = _with_counts(schema, str)
    return _with_types(schema, _TYPES[form["types"]]) if "types" in form else schema


# -- schemas ---------------------------------------------------------------------------------

_INNER: Final = frozenset({"items", "additionalProperties", "not"})
_LISTS: Final = frozenset({"anyOf", "any_of", "oneOf", "allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "defs", "definitions", "patternProperties"})
_TYPE: Final = frozenset({"type"})
_COUNTS: Final = frozenset(
    f"{bound}{what}" for bound in ("min", "max") for what in ("Items", "Length", "Properties")
)
"""Numbers of 64 bits, which Google's JSON has as text."""
_is_count: Final = re.compile("0|[1-9][0-9]{0,17}").fullmatch

_NUMBERS: Final = ("", "string", "number", "integer", "boolean", "array", "object", "null")
"""What Google's clients may send numbers for."""


def _small(name: str | int) -> str:
    if isinstance(name, int):
        return _NUMBERS[name] if 0 < name < len(_NUMBERS) else str(name)
    return name.lower()


def _number(name: str | int) -> str | int:
    return _NUMBERS.index(name) if name in _NUMBERS else name


def _upper(name: str | int) -> str | int:
    return name.upper() if isinstance(name, str) else name


_TYPES: Final = {"upper": _upper, "number": _number}
"""The other ways to write the types of a schema."""


def _count(value: str | int) -> str | int:
    return int(value) if isinstance(value, str) and _is_count(value) else value


def _with_types(schema: Any, change: _Change) -> Any:
    """Return a schema with every type written in another way."""
    return _rewritten(schema, _TYPE, change)


def _with_counts(schema: Any, change: _Change) -> Any:
    """Return a schema with every count written in another way."""
    return _rewritten(schema, _COUNTS, change)


def _rewritten(schema: Any, keywords: frozenset[str], change: _Change) -> Any:
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for name, value in schema.items():
        if name in keywords and isinstance(value, (str, int)):
            found[name] = change(value)
        elif name in _INNER:
            found[name] = _rewritten(value, keywords, change)
        elif name in _LISTS and isinstance(value, list):
            found[name] = [_rewritten(each, keywords, change) for each in value]
        elif name in _MAPS and isinstance(value, dict):
            found[name] = {key: _rewritten(each, keywords, change) for key, each in value.items()}
        else:
            found[name] = value
    return found
