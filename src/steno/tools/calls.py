"""Functions for tool calls: their arguments, their approved path, their headline and content.

The headline and the content depend only on the call, because a transcript also shows calls from old
sessions, for which no tool object exists. Only calls of the built-in tools have their own headline
and content; calls of other tools have the default headline and no content.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, TypeVar

from steno.errors import InvalidArguments, ToolFailed
from steno.messages.call import AnyToolCall, ToolCall
from steno.ports import (
    PreviewKind,
    PreviewPart,
    Subject,
    Tool,
    ToolContext,
    default_headline,
)

T = TypeVar("T")


def parse_arguments(call: ToolCall, type: type[T]) -> T:
    """Return the arguments of a call. Raises ToolFailed if they are invalid."""
    try:
        return call.arguments_as(type)
    except InvalidArguments as exc:
        raise ToolFailed(f"{exc}", code="invalid_arguments", place=call.name) from None


def approved_subject(tool: Tool, call: ToolCall, context: ToolContext) -> Subject:
    """Return the subject that was approved for a call.

    Tools use this path instead of the one in the arguments, which may now resolve to another file.
    Raises ToolFailed if the arguments are invalid.
    """
    (found,) = tool.subjects(call) if context.subjects is None else context.subjects
    if isinstance(found, Subject):
        return found
    return Subject(text=found, capability=tool.capability)


def call_headline(call: AnyToolCall) -> str:
    """Return the headline of a call, without the name of the tool (`steno.ports.Tool.headline`)."""
    return default_headline(call, _HEADLINE_ARGUMENTS.get(call.name, ()))


def call_content(call: ToolCall) -> PreviewPart | None:
    """Return the new content of a `write` call, or the changed lines of an `edit` call.

    Return None for calls of other tools, and for calls with missing or unreadable arguments.
    """
    try:
        arguments = call.parsed
    except InvalidArguments:  # JSON that Python cannot represent
        return None
    match call.name, dict(arguments):
        case "write", {"content": str(content)}:
            language = PurePath(str(arguments.get("path", ""))).suffix.removeprefix(".")
            return PreviewPart(PreviewKind.CODE, content, language)
        case "edit", {"old": old, "new": new}:
            removed = [f"-{line}" for line in str(old).splitlines()]
            added = [f"+{line}" for line in str(new).splitlines()]
            return PreviewPart(PreviewKind.DIFF, "\n".join(removed + added))
        case _:
            return None


_HEADLINE_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("path",),
    "write": ("path",),
    "edit": ("path",),
    "glob": ("path", "pattern"),
    "grep": ("path", "pattern"),
    "bash": ("command",),
    "bash_output": ("job",),
    "bash_kill": ("job",),
}
"""The arguments that can be the headline of a call, by tool name, in order of preference."""
