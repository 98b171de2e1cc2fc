"""Read and write tools: function declarations, and server tools such as search.

Functions are declared in groups, next to server tools. A recorded layout is kept as a template in
which the name of a tool replaces its declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire.extras import Members
from steno.wire.gemini.parts import EitherCaseMembers, restore_case, to_snake_case
from steno.wire.gemini.payload import LEGAL_NAME
from steno.wire.request_decoder import build_tool
from steno.wire.request_encoder import ValueWriter, drop_none, write_schema
from steno.wire.tolerant import DECODE_ERRORS, explain_decode_error, read_as

_RewriteValue: TypeAlias = Callable[[str | int], str | int]

LAYOUT_NOTE: Final = "layout"
"""The note with the layout of the tools, if all of them are functions."""
_DECLARATIONS: Final = "functionDeclarations"
_DECLARATIONS_NAMES: Final = (_DECLARATIONS, to_snake_case(_DECLARATIONS))
_JSON_SCHEMA_FIELD: Final = "parametersJsonSchema"
"""The member for parameters in JSON Schema."""
_OPENAPI_SCHEMA_FIELD: Final = "parameters"
"""The member for parameters in an OpenAPI schema, with types in upper or lower case."""

_SUBSCHEMA_KEYWORDS: Final = frozenset({"items", "additionalProperties", "not"})
_SUBSCHEMA_LIST_KEYWORDS: Final = frozenset({"anyOf", "any_of", "oneOf", "allOf", "prefixItems"})
_SUBSCHEMA_MAP_KEYWORDS: Final = frozenset(
    {"properties", "$defs", "defs", "definitions", "patternProperties"}
)
_TYPE_KEYWORDS: Final = frozenset({"type"})
_COUNT_KEYWORDS: Final = frozenset(
    f"{bound}{what}" for bound in ("min", "max") for what in ("Items", "Length", "Properties")
)
"""Keywords with 64-bit integers, which the JSON encoding of protobuf writes as strings."""
_is_count: Final = re.compile("0|[1-9][0-9]{0,17}").fullmatch

_TYPES_BY_NUMBER: Final = ("", "string", "number", "integer", "boolean", "array", "object", "null")
"""The types by their enum numbers, which clients of Google may send."""


# -- reading ---------------------------------------------------------------------------------


def read_tools(body: EitherCaseMembers) -> tuple[ToolDefinition, ...]:
    """Take the tools. If the encoder would choose another layout, record their layout in a note.

    If a tool or declaration is not an object, nothing is taken, and the tools become an extra.
    """
    entries = body.peek("tools", list[dict[str, Raw]])
    if entries is None or not all(map(_has_object_declarations, entries)):
        return ()
    body.take("tools", Raw)
    tools: dict[str, ToolDefinition] = {}
    template: list[Members] = [
        {name: _read_member(name, raw, tools) for name, raw in entry.items()} for entry in entries
    ]
    if not tools or template != [{_DECLARATIONS: list(tools)}]:
        # A template of functions only is not a loss if the request is sent to another wire.
        is_ours = all(
            name in _DECLARATIONS_NAMES
            and isinstance(value, list)
            and all(isinstance(each, str) for each in value)
            for entry in template
            for name, value in entry.items()
        )
        body.form[LAYOUT_NOTE if is_ours else "tools"] = template
    return tuple(tools.values())


def _has_object_declarations(entry: dict[str, Raw]) -> bool:
    groups = [read_as(raw, list[Any]) for name, raw in entry.items() if name in _DECLARATIONS_NAMES]
    return all(isinstance(each, dict) for group in groups for each in group or ())


def _read_member(name: str, raw: Raw, tools: dict[str, ToolDefinition]) -> Any:
    """Return a member of a tool entry, with each readable declaration replaced by its name."""
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS as exc:
        code, message = explain_decode_error(exc)
        raise InvalidRequest(message, code=code, place="tools") from None
    if name not in _DECLARATIONS_NAMES or not isinstance(value, list):
        return value
    for position, declaration in enumerate(msgspec.json.decode(raw, type=list[Raw])):
        try:
            tool = _read_tool(EitherCaseMembers(declaration, "tool"))
        except InvalidRequest:
            tool = None
        if tool is not None and tool.name not in tools:
            tools[tool.name] = tool
            value[position] = tool.name
    return value


def _read_tool(declaration: EitherCaseMembers) -> ToolDefinition | None:
    name = declaration.take("name", str) or ""
    if not LEGAL_NAME.fullmatch(name):
        declaration.form["name"] = name
    description = declaration.take("description", str)
    if not (description or "").strip():
        declaration.form["description"] = description
        description = None
    field = _JSON_SCHEMA_FIELD if _JSON_SCHEMA_FIELD in declaration else _OPENAPI_SCHEMA_FIELD
    found = declaration.take(field, Members)
    if field != _JSON_SCHEMA_FIELD or found is None:
        declaration.form["schema"] = None if found is None else field
    schema = None if found is None else _read_schema(found, declaration.form)
    if found is not None and _write_schema(schema or {}, declaration.form) != found:
        return None
    return build_tool(name, description, schema, extras=declaration.extras())


def _read_schema(found: Members, form: Members) -> Members:
    """Convert a schema to JSON Schema, with types in lower case and an object at the top."""
    counted = _rewrite_keywords(found, _COUNT_KEYWORDS, _parse_count)
    if counted != found:
        form["counts"] = "text"
    schema: Members = _rewrite_keywords(counted, _TYPE_KEYWORDS, _to_lower_type)
    for name, change in _TYPE_STYLES.items():
        if schema != counted and _rewrite_keywords(schema, _TYPE_KEYWORDS, change) == counted:
            form["types"] = name
    if "type" not in schema:
        form["type"] = "absent"
        return {"type": "object", **schema}
    return schema


# -- writing ---------------------------------------------------------------------------------


def write_tools(request: Request, template: Any, values: ValueWriter) -> list[Any] | None:
    """Return the tools in the layout of the template, or in one group if there is no template.

    Return None if there is neither a tool nor a template.
    """
    written = {
        tool.name: _write_tool(tool, values, f".tools[{number}]")
        for number, tool in enumerate(request.tools)
    }
    if template is None:
        return [{_DECLARATIONS: list(written.values())}] if written else None
    entries: list[Any] = []
    group: list[Any] | None = None
    for entry in template:
        members = {}
        for name, value in entry.items():
            members[name] = value
            if name in _DECLARATIONS_NAMES and isinstance(value, list):
                # A name is replaced by its declaration, which is taken out of `written`.
                filled = [written.pop(d, None) if isinstance(d, str) else d for d in value]
                members[name] = [found for found in filled if found is not None]
                group = members[name] if group is None else group
        entries.append(members)
    if written and group is None:
        entries.append({_DECLARATIONS: list(written.values())})
    elif group is not None:
        group += written.values()
    return entries


def _write_tool(tool: ToolDefinition, values: ValueWriter, at: str) -> Members:
    extras, form = values.read_extras(tool, at)
    members = drop_none(
        name=values.tool_name(tool, LEGAL_NAME, at),
        description=form.get("description", tool.description),
    )
    field = form.get("schema", _JSON_SCHEMA_FIELD)
    if field is not None:
        members[field] = _write_schema(write_schema(tool), form)
    return restore_case(members, form) | extras


def _write_schema(schema: Members, form: Members) -> Members:
    if form.get("type") == "absent":
        schema = {name: value for name, value in schema.items() if name != "type"}
    if "counts" in form:
        schema = _rewrite_keywords(schema, _COUNT_KEYWORDS, str)
    if "types" in form:
        schema = _rewrite_keywords(schema, _TYPE_KEYWORDS, _TYPE_STYLES[form["types"]])
    return schema


# -- schemas ---------------------------------------------------------------------------------


def _to_lower_type(name: str | int) -> str:
    if isinstance(name, int):
        return _TYPES_BY_NUMBER[name] if 0 < name < len(_TYPES_BY_NUMBER) else str(name)
    return name.lower()


def _to_type_number(name: str | int) -> str | int:
    return _TYPES_BY_NUMBER.index(name) if name in _TYPES_BY_NUMBER else name


def _to_upper_type(name: str | int) -> str | int:
    return name.upper() if isinstance(name, str) else name


_TYPE_STYLES: Final = {"upper": _to_upper_type, "number": _to_type_number}
"""Functions that convert lower-case type names to other recorded spellings."""


def _parse_count(value: str | int) -> str | int:
    return int(value) if isinstance(value, str) and _is_count(value) else value


def _rewrite_keywords(schema: Any, keywords: frozenset[str], change: _RewriteValue) -> Any:
    """Return a schema with `change` applied to the values of the keywords, at all depths."""
    if not isinstance(schema, dict):
        return schema
    found: Members = {}
    for name, value in schema.items():
        if name in keywords and isinstance(value, (str, int)):
            found[name] = change(value)
        elif name in _SUBSCHEMA_KEYWORDS:
            found[name] = _rewrite_keywords(value, keywords, change)
        elif name in _SUBSCHEMA_LIST_KEYWORDS and isinstance(value, list):
            found[name] = [_rewrite_keywords(each, keywords, change) for each in value]
        elif name in _SUBSCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            found[name] = {
                key: _rewrite_keywords(each, keywords, change) for key, each in value.items()
            }
        else:
            found[name] = value
    return found
