"""The six types of JSON value as Python types, and references inside a document.

Read-only mappings and tuples count as objects and arrays: steno's own values are such.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, TypeGuard

JSON_TYPES: dict[type, str] = {
    dict: "object",
    MappingProxyType: "object",
    list: "array",
    tuple: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a JSON object, read-only or not."""
    return isinstance(value, (dict, Mapping))


def is_array(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether a value is a JSON array, read-only or not."""
    return isinstance(value, (list, tuple))


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def json_type_of(value: object) -> str:
    """Return the JSON type of a value; the empty string if JSON has none for it."""
    for cls in type(value).__mro__:
        if kind := JSON_TYPES.get(cls):
            return kind
    return "object" if isinstance(value, Mapping) else ""


def resolve_reference(root: Any, ref: Any) -> Any:
    """Return the target of a local reference; True, which allows all, if it is not here."""
    if not isinstance(ref, str) or (ref != "#" and not ref.startswith("#/")):
        return True
    if "%" in ref:
        # Imported here: slow to load and hardly ever needed.
        from urllib.parse import unquote  # noqa: PLC0415

        ref = unquote(ref)
    target = root
    for token in ref.split("/")[1:]:
        step = token.replace("~1", "/").replace("~0", "~")
        if is_mapping(target) and step in target:
            target = target[step]
        elif is_array(target) and step in map(str, range(len(target))):
            target = target[int(step)]
        else:
            return True
    return target
