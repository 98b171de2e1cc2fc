"""The calls of tools: their arguments and approved path, and their headline and content.

A headline and a content follow from the call alone: a transcript shows calls of sessions that ended
long ago. The table has a row for each built-in tool; calls of other tools have the default headline
and no content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple, TypeVar

from steno.errors import InvalidArguments, ToolFailed
from steno.messages.call import AnyToolCall, ToolCall
from steno.ports import PreviewKind, PreviewPart, Tool, ToolContext, default_headline

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


def call_headline(call: AnyToolCall) -> str:
    """Return the headline of a call, without the name of the tool (`steno.ports.Tool.headline`)."""
    return default_headline(call, _SUMMARIES.get(call.name, _DEFAULT).headline_arguments)


def call_content(call: ToolCall) -> PreviewPart | None:
    """Return the text that a call would write; None if it writes none."""
    try:
        return _SUMMARIES.get(call.name, _DEFAULT).content(call.parsed)
    except InvalidArguments:  # JSON that Python has no value for
        return None


def _no_content(_: Mapping[str, Any]) -> None:
    return None


def _written_file(arguments: Mapping[str, Any]) -> PreviewPart | None:
    if not isinstance(content := arguments.get("content"), str):
        return None
    language = PurePath(str(arguments.get("path", ""))).suffix.removeprefix(".")
    return PreviewPart(PreviewKind.CODE, content, language)


def _replacement(arguments: Mapping[str, Any]) -> PreviewPart | None:
    if not {"old", "new"} <= arguments.keys():
        return None
    removed = [f"-{line}" for line in str(arguments["old"]).splitlines()]
    added = [f"+{line}" for line in str(arguments["new"]).splitlines()]
    return PreviewPart(PreviewKind.DIFF, "\n".join(removed + added))


class _CallSummary(NamedTuple):
    headline_arguments: tuple[str, ...] = ()
    """The arguments that may be the headline; the first that is present counts."""
    content: Callable[[Mapping[str, Any]], PreviewPart | None] = _no_content


_DEFAULT: Final = _CallSummary()
_SUMMARIES: Final = {
    "read": _CallSummary(("path",)),
    "write": _CallSummary(("path",), _written_file),
    "edit": _CallSummary(("path",), _replacement),
    "glob": _CallSummary(("path", "pattern")),
    "grep": _CallSummary(("path", "pattern")),
    "bash": _CallSummary(("command",)),
    "bash_output": _CallSummary(("job",)),
    "bash_kill": _CallSummary(("job",)),
}
