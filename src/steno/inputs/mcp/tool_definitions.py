"""Define a tool of an MCP server for a model: its name, its description, its schema, made harmless.

The name of a tool is `mcp__`, the server's name and the tool's (`mcp__time__convert_time`). The
user names the server, the server its tools. Whatever the server chooses, the name begins with that
of the server and two underscores, and no server name holds two in a row: so no tool can pass for a
built-in one, or for one of another server. A name follows from those two alone, never from what
else is connected or who responds first.

Descriptions are cleaned. What has to be exact, such as the name of an argument, cannot be: a tool
with hidden characters there is refused, and so is one with an invalid schema. Nothing here asks a
server anything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from steno.errors import InvalidTool, InvalidValue
from steno.inputs.mcp.protocol import ListedTool
from steno.inputs.mcp.untrusted_data import clean_text, is_hidden_character
from steno.json_object import encode_json, parse_object
from steno.messages.call import MAX_TOOL_NAME_LENGTH, MCP_TOOL_PREFIX, map_tool_name
from steno.messages.tool import MAX_DESCRIPTION_LENGTH, ToolDefinition
from steno.schema.json_types import resolve_reference


def define_tool(server: str, tool: ListedTool) -> ToolDefinition:
    """Return the definition of a tool for a model. Raises InvalidValue if there is none."""
    if not tool.name.strip():
        raise InvalidTool("it has no name", code="no_name")
    return ToolDefinition(
        name=mcp_tool_name(server, tool.name),
        original_name=mcp_tool_name_for_models(server, tool.name),
        description=f"{_server_mark(server)} {describe_tool(server, tool)}".rstrip(),
        parameters=_build_parameters(tool.schema),
        strict=False,  # the schema is foreign: leave it open
    )


def describe_tool(server: str, tool: ListedTool) -> str:
    """Return the description that the server gives of a tool, made harmless."""
    text = tool.description or tool.title or tool.name
    return clean_text(text, MAX_DESCRIPTION_LENGTH - len(_server_mark(server)) - 1)


def _server_mark(server: str) -> str:
    return f"[MCP server {clean_text(server, 64)}]"


def refusal_notice(exc: InvalidValue) -> str:
    """Return why a tool is left out, in one line."""
    return clean_text(" ".join(str(exc).split()), 200)


# -- names ----------------------------------------------------------------------------------------

_SEPARATOR: Final = "__"
_MAX_SERVER_CHARACTERS: Final = 32
"""Leaves room for something of the tool, and for a hash."""
_HASH_DIGITS: Final = 8
_NOT_ALPHANUMERIC: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_SENDABLE_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_TOOL_NAME_LENGTH}}}")
"""Tool names that every provider accepts."""


def mcp_server_name(server: str) -> str:
    """Return what rules call a server: `mcp__`, and its name with one underscore for all else.

    `web-search` and `web_search` have the same name; a user of both has to rename one.
    """
    part = _NOT_ALPHANUMERIC.sub("_", server).strip("_")[:_MAX_SERVER_CHARACTERS].strip("_")
    return f"{MCP_TOOL_PREFIX}{part or 'server'}"


def mcp_tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool in our vocabulary, which begins with that of the server.

    A name that does not fit gets a hash of the original (`map_tool_name`). Two tools of one
    server can end up with the same only if the server wants that.
    """
    full_name = _full_tool_name(server, tool)
    try:
        return map_tool_name(full_name)
    except InvalidTool:  # characters, or a length, that no other name has
        digest = hashlib.sha256(full_name.encode("utf-8", "surrogatepass")).hexdigest()[
            :_HASH_DIGITS
        ]
        stem = _NOT_IN_NAME.sub("_", full_name)[: MAX_TOOL_NAME_LENGTH - _HASH_DIGITS - 1]
        return f"{stem}_{digest}"


def mcp_tool_name_for_models(server: str, tool: str) -> str | None:
    """Return the tool's own spelling after the name of the server, if models can get it.

    It is mapped to ours when a model uses it. None where there is no other spelling, or it would
    not be taken by every provider.
    """
    full_name = _full_tool_name(server, tool)
    if full_name == mcp_tool_name(server, tool) or _SENDABLE_NAME.fullmatch(full_name) is None:
        return None
    return full_name


def _full_tool_name(server: str, tool: str) -> str:
    return f"{mcp_server_name(server)}{_SEPARATOR}{tool}"


# -- schemas --------------------------------------------------------------------------------------

_MAX_SCHEMA_BYTES: Final = 64 * 1024
_MAX_SCHEMA_DEPTH: Final = 40
_MAX_TEXT_CHARACTERS: Final = 2_000
_MAX_REFERENCES: Final = 20
"""The longest chain of references."""
_TEXT_KEYWORDS: Final = frozenset({"description", "title"})
_SCHEMA_MAP_KEYWORDS: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_VALUE_KEYWORDS: Final = frozenset({"enum", "const", "default", "examples", "example"})
_DROPPED_KEYWORDS: Final = frozenset({"$comment", "pattern", "patternProperties"})
"""A foreign regular expression may take exponential time; the server checks it."""
_NESTED_ONLY_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "enum", "const", "if"})
_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _build_parameters(schema: object) -> dict[str, Any]:
    """Return a schema that providers can be sent and arguments be checked against."""
    if not isinstance(schema, Mapping):
        raise InvalidTool("its schema is no object", code="schema_not_an_object")
    data = encode_json(schema)
    if len(data) > _MAX_SCHEMA_BYTES:
        raise InvalidTool(
            f"its schema has more than {_MAX_SCHEMA_BYTES // 1024} KB", code="schema_too_long"
        )
    found = parse_object(data)
    cleaned = {"type": "object", "properties": {}, **_clean_schema(found, 0)}
    _check_references(cleaned, cleaned)
    _flatten_top_level(cleaned)
    return cleaned


def _clean_schema(schema: Any, depth: int) -> Any:
    """Return a schema with clean descriptions. Raises InvalidTool."""
    if depth > _MAX_SCHEMA_DEPTH:
        raise InvalidTool(
            f"its schema is nested more than {_MAX_SCHEMA_DEPTH} levels deep",
            code="schema_too_deep",
        )
    if isinstance(schema, list):
        return [_clean_schema(part, depth + 1) for part in schema]
    if not isinstance(schema, dict):
        _check_visible(schema)
        return schema
    cleaned: dict[str, Any] = {}
    for keyword, part in schema.items():
        _check_visible(keyword)
        if keyword in _TEXT_KEYWORDS and isinstance(part, str):
            cleaned[keyword] = clean_text(part, _MAX_TEXT_CHARACTERS)
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(part, dict):
            _check_visible(list(part))
            cleaned[keyword] = {
                name: _clean_schema(inner, depth + 1) for name, inner in part.items()
            }
        elif keyword in _VALUE_KEYWORDS:
            _check_visible(part)
            cleaned[keyword] = part
        elif keyword not in _DROPPED_KEYWORDS:
            cleaned[keyword] = _clean_schema(part, depth + 1)
    return _describe_patterns(cleaned, schema)


def _describe_patterns(cleaned: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        description = (
            f"{cleaned.get('description', '')} (pattern: {clean_text(pattern, 200)})".strip()
        )
        cleaned["description"] = description
    if "patternProperties" in schema:  # without them, this would forbid what they allow
        cleaned.pop("additionalProperties", None)
    return cleaned


def _check_visible(value: Any) -> None:
    """Raise InvalidTool for names and values with invisible characters."""
    if isinstance(value, str):
        if any(map(is_hidden_character, value)):
            raise InvalidTool(
                "its schema holds characters that nobody can see",
                code="schema_has_hidden_characters",
            )
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check_visible(name)
            _check_visible(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_visible(inner)


def _check_references(schema: Any, root: dict[str, Any]) -> None:
    """Refuse references that lead elsewhere, nowhere, or from one to the next without an end."""
    target: Any = schema
    for _ in range(_MAX_REFERENCES):
        if not (isinstance(target, dict) and isinstance(ref := target.get("$ref"), str)):
            break
        target = resolve_reference(root, ref)
        if target is True:
            raise InvalidTool(
                "its schema holds a reference that leads nowhere", code="reference_not_found"
            )
    else:
        raise InvalidTool("its schema holds references in a circle", code="reference_cycle")
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, (dict, list)):
            _check_references(part, root)


def _flatten_top_level(schema: dict[str, Any]) -> None:
    """Make one plain object of a schema, in place, as providers want it at the top.

    The server then checks which members belong together.
    """
    properties = schema["properties"]
    for keyword in [name for name in schema if name in _NESTED_ONLY_KEYWORDS]:
        parts = schema.pop(keyword)
        for part in parts if isinstance(parts, list) else ():
            added = part.get("properties") if isinstance(part, dict) else None
            if isinstance(properties, dict) and isinstance(added, dict):
                schema["properties"] = properties = {**properties, **added, **properties}
    if isinstance(properties, dict) and not all(map(_ARGUMENT_NAME.fullmatch, properties)):
        raise InvalidTool(
            "its arguments have names that some providers refuse", code="invalid_argument_name"
        )
