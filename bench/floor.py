"""Bare msgspec: structs with the fields and tags of steno's types, without any check.

They are generated from steno's types, so that they stay up to date. They are the lower bound of the
cost. A second set calls an empty Python function for each value: the lower bound of a check.
"""

from __future__ import annotations

import operator
import types
from functools import reduce
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

import steno

_made: dict[tuple[type, bool], type] = {}


def bare(hint: Any, *, calls_hook: bool = False) -> Any:
    """Return a type like `hint` in which every struct of steno is a bare one."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _made.get((hint, calls_hook)) or _strip(hint, calls_hook)
    parts = [bare(part, calls_hook=calls_hook) for part in get_args(hint)]
    if get_origin(hint) in (Union, types.UnionType):
        return reduce(operator.or_, parts)
    if get_origin(hint) is tuple:
        return tuple[tuple(parts)]  # type: ignore[misc] # made at run time
    return hint


def _strip(cls: type[msgspec.Struct], calls_hook: bool) -> type:
    hints, config = get_type_hints(cls), cls.__struct_config__
    fields: list[Any] = []
    for info in msgspec.structs.fields(cls):
        hint = bare(hints[info.name], calls_hook=calls_hook)
        fields.append((info.name, hint) if info.required else (info.name, hint, info.default))
    made = msgspec.defstruct(
        cls.__name__,
        fields,
        namespace={"__post_init__": _do_nothing} if calls_hook else {},
        frozen=True,
        kw_only=True,
        omit_defaults=config.omit_defaults,
        forbid_unknown_fields=config.forbid_unknown_fields,
        tag_field=config.tag_field,
        tag=config.tag,
        gc=False,
    )
    _made[cls, calls_hook] = made
    return made


def _do_nothing(value: object) -> None:
    pass


BareMessage: Final = bare(steno.Message)
HookedMessage: Final = bare(steno.Message, calls_hook=True)
BareText: Final = bare(steno.Text)
BareToolCall: Final = bare(steno.ToolCall)
BareUserMessage: Final = bare(steno.UserMessage)
BareAssistantMessage: Final = bare(steno.AssistantMessage)
