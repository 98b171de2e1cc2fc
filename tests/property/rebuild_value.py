"""Make a value anew, through its constructor, from all the way down."""

from __future__ import annotations

from typing import Any

import msgspec

from steno.json_object import JsonObject


def rebuild(value: Any, *, sparse: bool = False) -> Any:
    """Make an equal value anew, with all fields given or with only those that need it."""
    if isinstance(value, tuple):
        return tuple(rebuild(part, sparse=sparse) for part in value)
    if type(value) is str:
        return "".join(list(value))
    if isinstance(value, JsonObject):
        return value.to_dict()
    if not isinstance(value, msgspec.Struct):
        return value
    fields = {
        field.name: rebuild(getattr(value, field.name), sparse=sparse)
        for field in msgspec.structs.fields(value)
        if not (sparse and getattr(value, field.name) == field.default)
    }
    return type(value)(**fields)
