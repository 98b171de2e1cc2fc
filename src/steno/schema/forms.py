"""Types that are described by themselves: plain types, containers, unions, `Annotated`.

Nothing here has a name or a memory. A form describes the types inside it by calling
`build`, which it is handed, so this file does not know how classes are described.

`Optional[X]` is `anyOf` of X and null, not a list of types: it is the one form that also
holds for an X that is a reference, an enum or an object, and that OpenAI's strict mode,
Ollama and Gemini all accept.
"""

from __future__ import annotations

from collections import OrderedDict, abc, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, LiteralString, TypeAlias, Union, get_args
from uuid import UUID

from msgspec import Raw, UnsetType

from steno.errors import InvalidTool
from steno.schema.annotated import beside, peel, read_notes
from steno.schema.choices import schema_of_literal

Schema: TypeAlias = dict[str, Any]
Build: TypeAlias = Callable[[Any, str], Schema]

# What `msgspec.convert` reads from JSON for each of them.
_PLAIN: dict[Any, Schema] = {
    Any: {},
    object: {},
    Raw: {},
    Final: {},
    str: {"type": "string"},
    LiteralString: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    NoneType: {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
}


def schema_of_form(hint: Any, origin: Any, build: Build, at: str) -> Schema | None:
    """Return the schema of a type that needs no definition, None for any other.

    `origin` is what the type is an instance of: `list` for `list[int]`, else the type itself.
    """
    if (plain := _PLAIN.get(origin)) is not None:
        return dict(plain)
    form = _FORMS.get(origin)
    return form(hint, build, at) if form else None


def any_of(members: Iterable[Any], build: Build, at: str) -> Schema:
    """Return the schema of "one of these types", flat and without repetition."""
    branches: list[Schema] = []
    for member in members:
        if member is UnsetType:  # msgspec's way to say that the field may be left out
            continue
        schema = build(member, at)
        for branch in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            if branch not in branches:
                branches.append(branch)
    if {} in branches:
        return {}
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def tuple_of(items: list[Schema], least: int) -> Schema:
    """Return the schema of an array with these items, of which the first `least` must be there."""
    return {"type": "array", "prefixItems": items, "minItems": least, "maxItems": len(items)}


def _union(hint: Any, build: Build, at: str) -> Schema:
    return any_of(get_args(hint), build, at)


def _literal(hint: Any, _build: Build, at: str) -> Schema:
    return schema_of_literal(hint, at)


def _decimal(_hint: Any, _build: Build, _at: str) -> Schema:
    return {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "number"}]}


def _annotated(hint: Any, build: Build, at: str) -> Schema:
    base, metadata, _ = peel(hint)
    return beside(build(base, at), read_notes(metadata))


def _array(hint: Any, build: Build, at: str) -> Schema:
    arguments = get_args(hint)
    # `items` even where anything goes: OpenAI refuses an array without it.
    return {"type": "array", "items": build(arguments[0], f"{at}[]") if arguments else {}}


def _tuple(hint: Any, build: Build, at: str) -> Schema:
    arguments = get_args(hint)
    if arguments[1:] == (...,) or (not arguments and hint != tuple[()]):
        return _array(hint, build, at)
    items = [build(argument, f"{at}[{i}]") for i, argument in enumerate(arguments)]
    return tuple_of(items, len(items)) if items else {"type": "array", "items": {}, "maxItems": 0}


def _mapping(hint: Any, build: Build, at: str) -> Schema:
    key, value = get_args(hint) or (Any, Any)
    schema: Schema = {"type": "object"}
    if names := _property_names(build(key, f"{at}{{key}}"), at):
        schema["propertyNames"] = names
    # Said aloud even where anything goes: `close_objects` tells a mapping by it.
    schema["additionalProperties"] = build(value, f"{at}{{}}") or True
    return schema


def _property_names(key: Schema, at: str) -> Schema | None:
    """Return what the names of a mapping have to be, in JSON always strings."""
    match key:
        case {"type": "integer", "enum": numbers}:
            return {"enum": [str(number) for number in numbers]}
        case {"type": "integer"}:
            return {"pattern": "^-?[0-9]+$"}
        case {"type": "string"}:
            return key if len(key) > 1 else None
        case {} if not key:
            return None
        case _:
            raise InvalidTool(f"{at}: the keys of a mapping must be str, int or an enum of those")


_FORMS: dict[Any, Callable[[Any, Build, str], Schema]] = {
    Union: _union,
    UnionType: _union,
    Literal: _literal,
    Annotated: _annotated,
    Decimal: _decimal,
    tuple: _tuple,
    **dict.fromkeys((list, set, frozenset, deque, abc.Sequence, abc.MutableSequence), _array),
    **dict.fromkeys((abc.Collection, abc.Iterable, abc.Set, abc.MutableSet), _array),
    **dict.fromkeys((dict, OrderedDict, defaultdict, abc.Mapping, abc.MutableMapping), _mapping),
}
