"""Enums and literals: a closed set of values, in source order and with its JSON type."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from steno.errors import InvalidTool
from steno.schema.docstrings import read_docstring

_TYPE_NAMES = {str: "string", int: "integer", bool: "boolean"}


def schema_of_enum(enum: type[Enum], at: str) -> dict[str, Any]:
    """Return the schema of an enum's values; like msgspec, all str or all int."""
    values = [member.value for member in enum]
    kinds: set[type] = {str if isinstance(value, str) else type(value) for value in values}
    if kinds not in ({str}, {int}):
        raise InvalidTool(f"{at}: the values of {enum.__name__} must be all str or all int")
    schema = {"type": _TYPE_NAMES[kinds.pop()], "enum": values}
    if text := read_docstring(enum.__doc__).text:
        schema["description"] = text
    return schema


def schema_of_literal(literal: Any, at: str) -> dict[str, Any]:
    """Return the schema of a `Literal`; `None` in it means what it means in `Optional`."""
    values = list(_flat(get_args(literal)))
    kinds: set[type] = {type(value) for value in values}
    if not kinds <= {str, int, bool, NoneType}:
        raise InvalidTool(f"{at}: a Literal may hold str, int, bool, None and enum members")
    choices = [value for value in values if value is not None]
    kinds.discard(NoneType)
    schema: dict[str, Any] = {"enum": choices}
    if len(kinds) == 1:
        schema = {"type": _TYPE_NAMES[kinds.pop()], "enum": choices}
    if len(choices) == len(values):
        return schema
    return {"anyOf": [schema, {"type": "null"}]} if choices else {"type": "null"}


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    """Yield plain values: typing flattens `Literal`, but not through a `type X = Literal[…]`."""
    for value in values:
        inner = getattr(value, "__value__", value)
        if get_origin(inner) is Literal:
            yield from _flat(get_args(inner))
        else:
            yield inner.value if isinstance(inner, Enum) else inner
