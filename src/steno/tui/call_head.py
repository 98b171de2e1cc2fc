"""A call on one line: its tool, and what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steno.call import AnyToolCall, ToolCall, outside_name
from steno.errors import InvalidArguments
from steno.printable import cut, on_one_line

_LONGEST: Final = 160
_TELLING: Final = ("command", "path", "pattern", "url", "uri", "query", "job", "name")
"""Arguments that say most about a call, the first that is there counts."""


def head_of_call(call: AnyToolCall) -> str:
    """Return a call on one line: its tool, and what it is about."""
    return cut(on_one_line(f"{outside_name(call)} {_gist(call)}"), _LONGEST)


def arguments_of(call: AnyToolCall) -> Mapping[str, Any]:
    """Return what a call asks with; nothing where that makes no sense."""
    if not isinstance(call, ToolCall):
        return {}
    try:
        return call.parsed
    except InvalidArguments:
        return {}


def _gist(call: AnyToolCall) -> str:
    arguments = arguments_of(call)
    for name in _TELLING:
        if isinstance(value := arguments.get(name), str) and value:
            return value
    return "" if call.arguments == "{}" else call.arguments[: 4 * _LONGEST]
