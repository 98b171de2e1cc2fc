"""What a model is told of a server's tool: the server's words, made harmless.

Words are cleaned. What has to be exact, such as the name of an argument, cannot be: a tool with
something hidden in there is refused, and so is one whose schema makes no sense. Nothing here asks
a server anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from unicodedata import category

from steno.errors import InvalidTool, InvalidValue
from steno.inputs.mcp.names import name_for_models, name_of_tool
from steno.inputs.mcp.said import ListedTool
from steno.json_object import encode_json, parse_object
from steno.schema.shapes import resolve
from steno.tool import MAX_DESCRIPTION_LENGTH, ToolDefinition
from steno.value import replace_lone_surrogates

_LARGEST_SCHEMA: Final = 64 * 1024
_DEEPEST_SCHEMA: Final = 40
_LONGEST_READ: Final = 20_000
"""Of a text of any length, so much is looked at."""

_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, and where the cursor goes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs of which nothing is seen."""
_SEEN: Final = frozenset("\t\n\r\u200c\u200d")
"""Breaks, and what joins the letters of some scripts and the parts of an emoji."""


def define(server: str, tool: ListedTool) -> ToolDefinition:
    """Return what a model is told of a tool. Raises InvalidValue for what it cannot be told."""
    if not tool.name.strip():
        raise InvalidTool("it has no name")
    return ToolDefinition(
        name=name_of_tool(server, tool.name),
        original_name=name_for_models(server, tool.name),
        description=_description(server, tool),
        parameters=_parameters(tool.schema),
        strict=False,  # it is theirs: what they do not close stays open
    )


def cleaned(text: str, longest: int) -> str:
    """Return somebody's words without anything that is not seen, or acts on a terminal."""
    text = replace_lone_surrogates(text[:_LONGEST_READ])
    text = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join([one for one in text if not _is_hidden(one)]).strip()
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _is_hidden(character: str) -> bool:
    return (
        category(character) in _HIDDEN
        or character in _FILLERS
        # Selectors of variants that no font has, one after the other, spell out bytes.
        or "\ufe00" <= character <= "\ufe0d"
        or "\U000e0100" <= character <= "\U000e01ef"
    ) and character not in _SEEN


def _description(server: str, tool: ListedTool) -> str:
    whose = f"[MCP server {cleaned(server, 64)}]"
    words = tool.description or tool.title or tool.name
    return f"{whose} {cleaned(words, MAX_DESCRIPTION_LENGTH - len(whose) - 1)}".rstrip()


# -- schemas -------------------------------------------------------------------------------------

_WORDS: Final = frozenset({"description", "title"})
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "example"})
_LEFT_OUT: Final = frozenset({"$comment", "pattern", "patternProperties"})
"""A stranger's expression may take us for ever to match: that is left to the server."""
_NOT_AT_THE_TOP: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "enum", "const", "if"})
_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_WORDS: Final = 2_000
_MOST_REFERENCES: Final = 20
"""One that leads to the next, and so on."""


def _parameters(schema: object) -> dict[str, Any]:
    """Return a schema that providers can be sent and arguments be checked against."""
    if not isinstance(schema, Mapping):
        raise InvalidTool("its schema is no object")
    data = encode_json(schema)
    if len(data) > _LARGEST_SCHEMA:
        raise InvalidTool(f"its schema has more than {_LARGEST_SCHEMA // 1024} KB")
    found = parse_object(data)
    told = {"type": "object", "properties": {}, **_told(found, 0)}
    _check_references(told, told)
    _flatten(told)
    return told


def _told(schema: Any, depth: int) -> Any:
    """Return a schema with its words cleaned. Raises InvalidTool."""
    if depth > _DEEPEST_SCHEMA:
        raise InvalidTool(f"its schema is nested more than {_DEEPEST_SCHEMA} levels deep")
    if isinstance(schema, list):
        return [_told(part, depth + 1) for part in schema]
    if not isinstance(schema, dict):
        _check_seen(schema)
        return schema
    told: dict[str, Any] = {}
    for keyword, part in schema.items():
        _check_seen(keyword)
        if keyword in _WORDS and isinstance(part, str):
            told[keyword] = cleaned(part, _LONGEST_WORDS)
        elif keyword in _NAMED and isinstance(part, dict):
            _check_seen(list(part))
            told[keyword] = {name: _told(inner, depth + 1) for name, inner in part.items()}
        elif keyword in _VALUES:
            _check_seen(part)
            told[keyword] = part
        elif keyword not in _LEFT_OUT:
            told[keyword] = _told(part, depth + 1)
    return _with_patterns_in_words(told, schema)


def _with_patterns_in_words(told: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        words = f"{told.get('description', '')} (pattern: {cleaned(pattern, 200)})".strip()
        told["description"] = words
    if "patternProperties" in schema:  # without them, this would forbid what they allow
        told.pop("additionalProperties", None)
    return told


def _check_seen(value: Any) -> None:
    """Refuse names and values with something in them that nobody sees: no model needs those."""
    if isinstance(value, str):
        if any(map(_is_hidden, value)):
            raise InvalidTool("its schema holds characters that nobody can see")
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check_seen(name)
            _check_seen(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_seen(inner)


def _check_references(schema: Any, root: dict[str, Any]) -> None:
    """Refuse references that lead elsewhere, nowhere, or from one to the next without an end."""
    target: Any = schema
    for _ in range(_MOST_REFERENCES):
        if not (isinstance(target, dict) and isinstance(ref := target.get("$ref"), str)):
            break
        target = resolve(root, ref)
        if target is True:
            raise InvalidTool("its schema holds a reference that leads nowhere")
    else:
        raise InvalidTool("its schema holds references in a circle")
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, (dict, list)):
            _check_references(part, root)


def _flatten(schema: dict[str, Any]) -> None:
    """Make one plain object of a schema, in place, as providers want it at the top.

    Which members go together is for the server to say then.
    """
    properties = schema["properties"]
    for keyword in [one for one in schema if one in _NOT_AT_THE_TOP]:
        parts = schema.pop(keyword)
        for part in parts if isinstance(parts, list) else ():
            more = part.get("properties") if isinstance(part, dict) else None
            if isinstance(properties, dict) and isinstance(more, dict):
                schema["properties"] = properties = {**properties, **more, **properties}
    if isinstance(properties, dict) and not all(map(_ARGUMENT.fullmatch, properties)):
        raise InvalidTool("its arguments have names that some providers refuse")


def why_not(exc: InvalidValue) -> str:
    """Return why a tool cannot be told of, as one line of a note."""
    return cleaned(" ".join(str(exc).split()), 200)
