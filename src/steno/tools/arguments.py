"""Read the arguments of a call, and the path that was approved for it."""

from __future__ import annotations

from typing import TypeVar

from steno.errors import InvalidArguments, ToolFailed
from steno.messages.call import ToolCall
from steno.ports import Tool, ToolContext

T = TypeVar("T")


def parse_arguments(call: ToolCall, type: type[T]) -> T:
    """Return the arguments of a call. Raises ToolFailed if they do not fit."""
    try:
        return call.arguments_as(type)
    except InvalidArguments as exc:
        raise ToolFailed(f"{exc}", code="invalid_arguments", place=call.name) from None


def approved_path(tool: Tool, call: ToolCall, context: ToolContext) -> str:
    """Return the one path that was approved, as `Workspace.relative` spells it.

    The arguments may lead to another file by now. Raises ToolFailed.
    """
    (path,) = tool.subjects(call) if context.subjects is None else context.subjects
    return path
