"""Description of a tool call for its approver: the preview, then the remaining arguments.

Text of a model or a file is made printable here. The tone of a line distinguishes this text from
the headings of steno: the caller marks quoted lines, so that no line written by a model looks like
a line of steno.

Arguments and subjects are omitted only if the preview shows them. The tool names the arguments that
its preview shows; a subject counts as shown if the preview contains it as a separate word.
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
    AccessKind,
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
    SandboxAccess,
)
from steno.render.describe import call_arguments, tool_label, unstated_capability
from steno.render.terminal_text import exact_line, exact_text


class LineTone(StrEnum):
    """The role of a line, which decides its style."""

    HEADING = "heading"
    """A heading written by steno; lines of all other tones are quoted."""
    PLAIN = "plain"
    NOTE = "note"
    """A note of the tool about the call."""
    FILE = "file"
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"


class CallLine(NamedTuple):
    """One printable line, of any length, that describes a call."""

    text: str
    tone: LineTone = LineTone.PLAIN
    added: int = 0
    """The number of added lines, if this line names a file in a diff."""
    removed: int = 0

    @property
    def counts(self) -> list[CallLine]:
        """The numbers of added and removed lines, as texts to print after this line."""
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
"""The maximum length of a text on the same line as its name; longer text starts on a new line."""
_MAX_DEPTH: Final = 6
"""The depth up to which nested values are expanded; deeper values are written as JSON."""
_QUOTED: Final = re.compile(r'["\\\n\t]')
"""Characters that would have to be escaped between quotation marks."""


def describe_question(call: ToolCall, request: ApprovalRequest | None) -> str:
    """Return the approval request for a call as a sentence; `request` is None for a queued call."""
    name = tool_label(call)
    if request is None:
        return f"{name} is queued; you can decide now"
    if request.access:
        return f"the sandbox blocked {name}; run it again with more access?"
    return f"{name} asks for permission to {_ACTIONS[request.capability]}"


def describe_purpose(call: ToolCall, request: ApprovalRequest | None) -> str:
    """Return the name of the tool, and the requested capability unless the name states it.

    `request` is None for a queued call, for which no capability is known.
    """
    name = tool_label(call)
    if call.original_name is not None:
        name = f"{name} ({call.name})"  # the name in rules
    if request is None:
        return f"{name} · queued"
    if request.access:
        return f"{name} · blocked by the sandbox"
    capability = unstated_capability(request)
    return name if capability is None else f"{name} wants to {_ACTIONS[capability]}"


def describe_call_status(request: ApprovalRequest | None, decision: ApprovalDecision | None) -> str:
    """Return the approval state of a call: allowed, denied, queued or waiting."""
    if decision is not None:
        return "allowed" if decision.allowed else "denied"
    return "queued" if request is None else "waiting"


def describe_call(
    call: ToolCall, preview: CallPreview, *, request: ApprovalRequest | None
) -> list[CallLine]:
    """Return the lines that describe a call, preview first; `request` is None for a queued call."""
    lines = [line for part in preview.parts for line in _part_lines(part)]
    if request is not None and request.access:
        blocked = [CallLine(describe_access(access)) for access in request.access]
        return [*lines, CallLine("the sandbox blocked", LineTone.HEADING), *blocked]
    subjects = () if request is None else [subject.text for subject in request.subjects]
    shown = exact_line(preview.text)
    not_shown = [name for name in map(exact_line, subjects) if _find_separate(shown, name) < 0]
    if not_shown:
        lines += [CallLine("applies to", LineTone.HEADING), *map(CallLine, not_shown)]
    if arguments := _arguments_not_shown(call, preview):
        lines += [CallLine("arguments", LineTone.HEADING), *arguments]
    return lines


def describe_access(access: SandboxAccess) -> str:
    """Return an access beyond the sandbox as a phrase."""
    target = exact_line(access.target)
    match access.kind:
        case AccessKind.NETWORK:
            return "all network access" if target == "*" else f"network access to {target}"
        case AccessKind.WRITE:
            return f"writing to {target}"
        case AccessKind.READ:
            return f"reading {target}, which may contain secrets"
        case AccessKind.EVERYTHING:
            return "an action that no sandbox allows"


def describe_calls(calls: Sequence[tuple[ToolCall, ApprovalRequest | None]]) -> list[CallLine]:
    """Return the lines that describe several calls, each below a numbered heading."""
    lines: list[CallLine] = []
    for number, (call, request) in enumerate(calls, 1):
        capability = None if request is None else unstated_capability(request)
        purpose = "" if capability is None else f" · {capability}"
        name = tool_label(call)
        heading = f"{number} of {len(calls)}: {name}{purpose}"
        lines.append(CallLine(heading, LineTone.HEADING))
        preview = CallPreview() if request is None else request.preview
        lines += describe_call(call, preview, request=request)
    return lines


def _part_lines(part: PreviewPart) -> list[CallLine]:
    match part.kind:
        case PreviewKind.ARGUMENTS:  # `describe_call` lists the arguments in a more readable form
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
    """Return untrusted text as printable lines."""
    return [CallLine(line) for line in exact_text(text).rstrip("\n").split("\n")]


# -- diffs -----------------------------------------------------------------------------------

_HUNK_HEADER: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_DIFF_TONES: Final = {"+": LineTone.ADDED, "-": LineTone.REMOVED, "\\": LineTone.NOTE}
_OLD_FILE: Final = "--- "
_NEW_FILE: Final = "+++ "
_DEV_NULL: Final = "/dev/null"


def diff_lines(text: str) -> list[CallLine]:
    """Return the lines of an untrusted diff with their tones, and line counts for each file."""
    return _add_line_counts(list(_call_diff_lines(exact_text(text).rstrip("\n").split("\n"))))


def _call_diff_lines(lines: Sequence[str]) -> Iterator[CallLine]:
    """Yield the lines of a diff with their tones.

    A hunk ends after as many lines as its header states, whatever the lines contain.
    """
    old = new = 0  # remaining old and new lines of the hunk
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
    """Return the lines that list the arguments of a call; strings have no JSON escapes.

    Arguments that cannot be parsed are returned as raw text.
    """
    arguments = call_arguments(call)
    if arguments is None:
        return quote_text(call.arguments)
    return _describe_mapping(arguments) or [CallLine("none")]


def _describe_mapping(arguments: Mapping[str, Any]) -> list[CallLine]:
    return [
        CallLine(text)
        for name, value in arguments.items()
        for text in _describe_value(exact_line(name), value, depth=0)
    ]


def _describe_value(name: str, value: Any, *, depth: int) -> Iterator[str]:
    """Yield the lines for a value, indented by its depth.

    A short string is between quotation marks; each line of any other string follows a bar. Values
    of other types have neither.
    """
    indent = "  " * depth
    if isinstance(value, str):
        is_plain = not _QUOTED.search(value) and exact_text(value) == value
        if is_plain and len(value) <= _MAX_INLINE:
            yield f'{indent}{name}: "{value}"'
        else:
            yield f"{indent}{name}:"
            yield from [f"{indent}  │ {line}" for line in exact_text(value).split("\n")]
    elif isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
        yield f"{indent}{name}:"
        for inner, member in value.items():
            yield from _describe_value(exact_line(inner), member, depth=depth + 1)
    elif isinstance(value, tuple) and value and depth < _MAX_DEPTH:
        yield f"{indent}{name}:"
        for number, member in enumerate(value, 1):
            yield from _describe_value(f"{number}.", member, depth=depth + 1)
    else:
        # Mappings are the only values that msgspec cannot encode itself.
        json = msgspec.json.encode(value, enc_hook=dict).decode()
        yield f"{indent}{name}: {exact_text(json)}"


# -- subjects in the preview -------------------------------------------------------------------

_WORD_CHARACTERS: Final = frozenset("_/.-~\\@*$")
_MAX_MATCHES: Final = 100
"""The maximum number of occurrences to check; later occurrences are ignored."""


def _find_separate(text: str, part: str) -> int:
    """Return the first position of `part` that is not inside a longer word; -1 if there is none."""
    position = -1
    for _ in range(_MAX_MATCHES):
        position = text.find(part, position + 1)
        end = position + len(part)
        neighbors = text[max(position - 1, 0) : position] + text[end : end + 1]
        is_inside = any(sign.isalnum() or sign in _WORD_CHARACTERS for sign in neighbors)
        if position < 0 or not is_inside:
            return position
    return -1
