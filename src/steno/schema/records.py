"""Classes with named fields, all read into one shape: `Record`.

A class is recognised by the attribute its maker leaves on it, so neither attrs nor
dataclasses has to be imported to find out. What counts as an input, what it is called
and how it is written follows `msgspec.convert`, which will read the arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from math import isfinite
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from steno.errors import InvalidTool
from steno.schema.annotated import peel
from steno.schema.hints import UNRESOLVED, class_hints, unresolved_field

# Calling anybody else's factory would make a schema depend on clocks and random numbers.
_EMPTY: dict[Any, Any] = {list: [], tuple: [], set: [], frozenset: [], dict: {}}


class Field(Struct, frozen=True):
    """One input: its name in JSON, its type, and what stands in for it when it is left out."""

    name: str
    type: Any
    required: bool = True
    default: Any = UNSET
    """A JSON value, or UNSET where there is none or JSON cannot carry it."""
    attribute: str = ""
    """Its name in Python, where that is another one."""


class Record(Struct, frozen=True):
    """The inputs of a class, in source order."""

    fields: list[Field]
    is_closed: bool = False
    is_positional: bool = False


_Reader: TypeAlias = Callable[[Any, type, tuple[Any, ...], str], Record]


def read_record(hint: Any, cls: type, arguments: tuple[Any, ...], at: str) -> Record | None:
    """Return the fields of a class with named fields, None for any other class.

    `hint` is the class or, for a generic one, its alias `cls[arguments]`.
    Raises InvalidTool for a class that cannot be given by name, or not be resolved.
    """
    for marker, read in _READERS.items():
        if hasattr(cls, marker):
            return read(hint, cls, arguments, at)
    return None


def json_default(default: Any) -> Any:
    """Return a default as a JSON value, or UNSET if JSON cannot carry it."""
    if default is UNSET:
        return UNSET
    try:
        plain = msgspec.to_builtins(
            default, str_keys=True, order="deterministic", enc_hook=os.fspath
        )
        return msgspec.json.decode(msgspec.json.encode(plain)) if _is_finite(plain) else UNSET
    except (TypeError, ValueError, RecursionError):
        return UNSET


def _is_finite(plain: Any) -> bool:
    match plain:
        case float():
            return isfinite(plain)
        case list() | tuple():
            return all(map(_is_finite, cast("list[Any]", plain)))
        case dict():
            return all(map(_is_finite, cast("dict[str, Any]", plain).values()))
        case _:
            return True


def _made_by(factory: Any) -> Any:
    """Return the default that a factory makes, if that is the same every time."""
    return _EMPTY.get(factory, UNSET) if isinstance(factory, type) else UNSET


# -- one reader per kind of class ----


def _read_struct(hint: Any, cls: Any, _arguments: tuple[Any, ...], at: str) -> Record:
    config = cls.__struct_config__
    if config.array_like:
        raise InvalidTool(f"{at}: {cls.__name__} is array_like; arguments come by name")
    try:
        found = msgspec.structs.fields(hint)
    except UNRESOLVED as exc:
        raise unresolved_field(cls, exc, at) from exc
    fields = [
        Field(
            f.encode_name,
            f.type,
            f.required,
            _made_by(f.default_factory) if f.default is NODEFAULT else json_default(f.default),
            attribute=f.name,
        )
        for f in found
    ]
    if config.tag is not None:
        fields.insert(0, Field(config.tag_field, Literal[config.tag]))
    return Record(fields, is_closed=config.forbid_unknown_fields)


def _read_dataclass(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> Record:
    # Imported here: only a program that has dataclasses pays for them.
    from dataclasses import MISSING, InitVar, fields  # noqa: PLC0415

    hints = class_hints(cls, arguments, at)
    for name, found in hints.items():
        if isinstance(found, InitVar):
            raise InvalidTool(f"{at}.{name}: an InitVar cannot be read from JSON; make it a field")
    return Record(
        [
            Field(
                f.name,
                hints[f.name],
                f.default is MISSING and f.default_factory is MISSING,
                _made_by(f.default_factory) if f.default is MISSING else json_default(f.default),
            )
            for f in fields(cls)
            if f.init
        ]
    )


def _read_attrs(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> Record:
    nothing = sys.modules["attr"].NOTHING  # there, or the class would not be
    hints = class_hints(cls, arguments, at)
    found: list[Field] = []
    for f in cls.__attrs_attrs__:
        hint = hints.get(f.name, f.type or Any)
        if f.default is nothing and f.init:
            found.append(Field(f.name, hint))
        elif f.init:
            factory = getattr(f.default, "factory", None)
            default = _made_by(factory) if factory else json_default(f.default)
            found.append(Field(f.name, hint, False, default))
    return Record(found)


def _read_typed_dict(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> Record:
    fields: list[Field] = []
    for name, found in class_hints(cls, arguments, at).items():
        _, _, qualifiers = peel(found)
        # `__required_keys__` cannot see into annotations that were strings (PEP 563).
        required = "Required" in qualifiers or (
            name in cls.__required_keys__ and "NotRequired" not in qualifiers
        )
        fields.append(Field(name, found, required))
    return Record(fields)


def _read_named_tuple(_hint: Any, cls: Any, arguments: tuple[Any, ...], at: str) -> Record:
    hints = class_hints(cls, arguments, at)
    defaults = cls._field_defaults
    fields = [
        Field(
            name,
            hints.get(name, Any),
            name not in defaults,
            json_default(defaults.get(name, UNSET)),
        )
        for name in cls._fields
    ]
    return Record(fields, is_positional=True)


_READERS: dict[str, _Reader] = {
    "__struct_config__": _read_struct,
    "__dataclass_fields__": _read_dataclass,
    "__attrs_attrs__": _read_attrs,
    "__required_keys__": _read_typed_dict,
    "_field_defaults": _read_named_tuple,
}
