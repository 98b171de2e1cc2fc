"""Bare msgspec: structs with the fields and tags of ours, and no check at all.

Made from ours, so that they cannot fall behind. No library could do the same work with less.
"""

from __future__ import annotations

import operator
import types
from functools import reduce
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

import steno

_made: dict[type, type] = {}


def bare(hint: Any) -> Any:
    """Return a type like `hint` in which every value of ours is a bare struct."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _made.get(hint) or _strip(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return reduce(operator.or_, map(bare, get_args(hint)))
    if get_origin(hint) is tuple:
        return tuple[tuple(bare(part) for part in get_args(hint))]  # type: ignore[misc] # made at run time
    return hint


def _strip(cls: type[msgspec.Struct]) -> type:
    hints, config = get_type_hints(cls), cls.__struct_config__
    fields: list[Any] = []
    for info in msgspec.structs.fields(cls):
        hint = bare(hints[info.name])
        fields.append((info.name, hint) if info.required else (info.name, hint, info.default))
    _made[cls] = msgspec.defstruct(
        cls.__name__,
        fields,
        frozen=True,
        kw_only=True,
        omit_defaults=config.omit_defaults,
        forbid_unknown_fields=config.forbid_unknown_fields,
        tag_field=config.tag_field,
        tag=config.tag,
    )
    return _made[cls]


BareMessage: Final = bare(steno.Message)
BareText: Final = bare(steno.Text)
BareToolCall: Final = bare(steno.ToolCall)
BareUserMessage: Final = bare(steno.UserMessage)
BareAssistantMessage: Final = bare(steno.AssistantMessage)
