"""A call as lines to read before a decision: its preview, then the arguments that are not in it.

Text of a model or a file is made printable here. The tone of a line separates this text from
headings of steno: the caller marks quoted lines, so that no line of a model looks like one of
steno.

Only what is visible already is left out: the tool names the arguments that its preview shows, and a
subject counts as visible if the preview contains it as a separate word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from steno.messages.call import AnyToolCall, ToolCall
from steno.ports import (
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
)
from steno.render.describe import call_arguments, unstated_capability
from steno.render.terminal_text import terminal_line, terminal_text


class LineTone(StrEnum):
    """The kind of a line."""

    HEADING = "heading"
    """A heading of steno; lines of all other tones are quoted."""
    PLAIN = "plain"
    NOTE = "note"
    """A note of the tool about the call."""
    FILE = "file"
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"


class CallLine(NamedTuple):
    """One printable line of any length."""

    text: str
    tone: LineTone = LineTone.PLAIN
    added: int = 0
    """The number of added lines, if this line names a file of a diff."""
    removed: int = 0

    @property
    def counts(self) -> list[CallLine]:
        """The counts of added and removed lines, as texts to show after this line."""
        added = [CallLine(f"  +{self.added}", LineTone.ADDED)] if self.added else []
        removed = [CallLine(f"  -{self.removed}", LineTone.REMOVED)] if self.removed else []
        return added + removed


_ACTIONS: Final = {
    Capability.READ: "read",
    Capability.WRITE: "write",
    Capability.EXECUTE: "execute",
    Capability.NETWORK: "use the network",
}
_MAX_INLINE: Final = 60
"""The length of a text beside its name; a longer one is below it."""
_MAX_DEPTH: Final = 6
"""The nesting depth of values; deeper ones are shown as JSON."""
_QUOTED: Final = re.compile(r'["\\\n\t]')
"""Characters that would need an escape between quotes."""


def describe_question(call: ToolCall, request: ApprovalRequest | None) -> str:
    """Return the approval request of a call as a sentence; `request` is None before it is made."""
    name = terminal_line(call.name)
    if request is None:
        return f"{name} is queued; you can decide now"
    return f"{name} asks for permission to {_ACTIONS[request.capability]}"


def describe_purpose(call: ToolCall, request: ApprovalRequest | None) -> str:
    """Return the name of a tool, and the capability it asks for unless the name states it."""
    original_name = call.original_name
    name = call.name if original_name is None else f"{call.name} ({terminal_line(original_name)})"
    if request is None:
        return f"{name} · queued"
    capability = unstated_capability(request)
    return name if capability is None else f"{name} wants to {_ACTIONS[capability]}"


def describe_call_status(request: ApprovalRequest | None, decision: ApprovalDecision | None) -> str:
    """Return the state of a call that awaits a decision."""
    if decision is not None:
        return "allowed" if decision.allowed else "denied"
    return "queued" if request is None else "waiting"


def describe_call(
    call: ToolCall, preview: CallPreview, *, request: ApprovalRequest | None
) -> list[CallLine]:
    """Return all lines about a call, its preview first; `request` is None before it is made."""
    lines = [line for part in preview.parts for line in _part_lines(part)]
    subjects = () if request is None else request.subjects
    shown = terminal_line(preview.text)
    not_shown = [name for name in map(terminal_line, subjects) if _find_separate(shown, name) < 0]
    if not_shown:
        lines += [CallLine("applies to", LineTone.HEADING), *map(CallLine, not_shown)]
    if arguments := _arguments_not_shown(call, preview):
        lines += [CallLine("arguments", LineTone.HEADING), *arguments]
    return lines


def describe_calls(calls: Sequence[tuple[ToolCall, ApprovalRequest | None]]) -> list[CallLine]:
    """Return the lines about several calls, one call below the other."""
    lines: list[CallLine] = []
    for number, (call, request) in enumerate(calls, 1):
        capability = None if request is None else unstated_capability(request)
        purpose = "" if capability is None else f" · {capability}"
        heading = f"{number} of {len(calls)}: {call.name}{purpose}"
        lines.append(CallLine(heading, LineTone.HEADING))
        preview = CallPreview() if request is None else request.preview
        lines += describe_call(call, preview, request=request)
    return lines


def _part_lines(part: PreviewPart) -> list[CallLine]:
    match part.kind:
        case PreviewKind.ARGUMENTS:  # `describe_call` lists them in a form that is easier to read
            return []
        case PreviewKind.DIFF:
            return diff_lines(part.text)
        case PreviewKind.NOTE:
            lines = quote_text(part.text)
            return [line._replace(tone=LineTone.NOTE) for line in lines if line.text]
        case PreviewKind.TEXT | PreviewKind.CODE:
            return quote_text(part.text)


def _arguments_not_shown(call: ToolCall, preview: CallPreview) -> list[CallLine]:
    arguments = call_arguments(call)
    kinds = {part.kind for part in preview.parts}
    if not kinds or PreviewKind.ARGUMENTS in kinds or arguments is None:
        return describe_arguments(call)
    shown = preview.shown_arguments
    return _describe_mapping({name: arguments[name] for name in arguments if name not in shown})


def quote_text(text: str) -> list[CallLine]:
    """Return untrusted text as lines."""
    return [CallLine(line) for line in terminal_text(text).rstrip("\n").split("\n")]


# -- diffs -----------------------------------------------------------------------------------

_HUNK_HEADER: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_DIFF_TONES: Final = {"+": LineTone.ADDED, "-": LineTone.REMOVED, "\\": LineTone.NOTE}
_OLD_FILE: Final = "--- "
_NEW_FILE: Final = "+++ "
_DEV_NULL: Final = "/dev/null"


def diff_lines(text: str) -> list[CallLine]:
    """Return the lines of an untrusted diff with their tones; files have their counts of lines."""
    return _add_line_counts(list(_call_diff_lines(terminal_text(text).rstrip("\n").split("\n"))))


def _call_diff_lines(lines: Sequence[str]) -> Iterator[CallLine]:
    """Yield the lines of a diff.

    The hunk header states its length; the content of a line does not matter.
    """
    old = new = 0  # remaining lines of the hunk
    is_new_file = False
    numbered = enumerate(lines)
    for number, line in numbered:
        sign = line[:1]
        next_line = lines[number + 1] if number + 1 < len(lines) else ""
        if old > 0 or new > 0:
            old -= sign not in ("+", "\\")
            new -= sign not in ("-", "\\")
            yield CallLine(line, _DIFF_TONES.get(sign, LineTone.PLAIN))
        elif header := _HUNK_HEADER.match(line):
            old, new = [1 if count is None else int(count) for count in header.groups()]
            if old or not is_new_file:
                yield CallLine(line, LineTone.HUNK)
        elif line.startswith(_OLD_FILE) and next_line.startswith(_NEW_FILE):
            next(numbered)
            before, after = line.removeprefix(_OLD_FILE), next_line.removeprefix(_NEW_FILE)
            is_new_file = before == _DEV_NULL
            heading = after if before == after else f"{before} → {after}"
            if is_new_file:
                heading = f"{after} · new file"
            elif after == _DEV_NULL:
                heading = f"{before} · removed"
            yield CallLine(heading, LineTone.FILE)
        else:
            yield CallLine(line, LineTone.NOTE if sign == "\\" else LineTone.PLAIN)


def _add_line_counts(lines: list[CallLine]) -> list[CallLine]:
    counts: Counter[LineTone] = Counter()
    for number, line in reversed(list(enumerate(lines))):
        counts[line.tone] += 1
        if line.tone is LineTone.FILE:
            added, removed = counts[LineTone.ADDED], counts[LineTone.REMOVED]
            lines[number] = line._replace(added=added, removed=removed)
            counts.clear()
    return lines


# -- arguments -------------------------------------------------------------------------------


def describe_arguments(call: AnyToolCall) -> list[CallLine]:
    """Return the arguments, each below its name; texts are shown without JSON escapes."""
    arguments = call_arguments(call)
    if arguments is None:
        return quote_text(call.arguments)
    return _describe_mapping(arguments) or [CallLine("none")]


def _describe_mapping(arguments: Mapping[str, Any]) -> list[CallLine]:
    return [
        CallLine(text)
        for name, value in arguments.items()
        for text in _describe_value(terminal_line(name), value, depth=0)
    ]


def _describe_value(name: str, value: Any, *, depth: int) -> Iterator[str]:
    """Yield the lines of a value; text is quoted or follows a bar, unlike everything else."""
    indent = "  " * depth
    if isinstance(value, str):
        is_plain = not _QUOTED.search(value) and terminal_text(value) == value
        if is_plain and len(value) <= _MAX_INLINE:
            yield f'{indent}{name}: "{value}"'
        else:
            yield f"{indent}{name}:"
            yield from [f"{indent}  │ {line}" for line in terminal_text(value).split("\n")]
    elif isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
        yield f"{indent}{name}:"
        for inner, member in value.items():
            yield from _describe_value(terminal_line(inner), member, depth=depth + 1)
    elif isinstance(value, tuple) and value and depth < _MAX_DEPTH:
        yield f"{indent}{name}:"
        for number, member in enumerate(value, 1):
            yield from _describe_value(f"{number}.", member, depth=depth + 1)
    else:
        # A mapping is the one kind of value that is not JSON already.
        json = msgspec.json.encode(value, enc_hook=dict).decode()
        yield f"{indent}{name}: {terminal_text(json)}"


# -- subjects that the preview shows ----------------------------------------------------------

_WORD_CHARACTERS: Final = frozenset("_/.-~\\@*$")
_MAX_MATCHES: Final = 100


def _find_separate(text: str, part: str) -> int:
    """Return the position of a part that is not inside a longer word; else -1."""
    position = -1
    for _ in range(_MAX_MATCHES):
        position = text.find(part, position + 1)
        end = position + len(part)
        neighbors = text[max(position - 1, 0) : position] + text[end : end + 1]
        is_inside = any(sign.isalnum() or sign in _WORD_CHARACTERS for sign in neighbors)
        if position < 0 or not is_inside:
            return position
    return -1
