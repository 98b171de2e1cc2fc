"""A call as lines to read before one decides: what it would do, then whatever that does not show.

Everything that a model or a file has a hand in is made printable here, and is told apart from our
own words by its tone: whoever draws it marks what is quoted, so that nobody takes a line of a
model for one of ours.

Nothing is left out but what is there to read already: an argument counts as shown only where it
stands in the preview by itself, outside of anything longer that was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from steno.call import ToolCall
from steno.errors import InvalidArguments
from steno.printable import on_one_line, printable
from steno.tui.desk import Pending


class Tone(StrEnum):
    """What kind of line it is."""

    HEADING = "ours"
    """A heading; everything else is quoted."""
    PLAIN = "plain"
    NOTE = "note"
    """What a tool says about the call, below what the call says itself."""
    FILE = "file"
    """Which file a diff is about."""
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"


class Line(NamedTuple):
    """One line, however long; printable."""

    text: str
    tone: Tone = Tone.PLAIN


_LONGEST_INLINE: Final = 60
"""A longer text stands below its name."""
_LONGEST_NOTE: Final = 500
_DEEPEST: Final = 6
"""What is nested deeper is shown as JSON."""


def lines_of(pending: Pending, preview: str) -> list[Line]:
    """Return all there is to know about a call, what it would do first."""
    arguments = _arguments(pending.call)
    lines, rest = _previewed(pending.call, arguments, preview)
    question = pending.request
    subjects = () if question is None else question.subjects
    shown = on_one_line(preview)
    unseen = [one for one in map(on_one_line, subjects) if _place(shown, one) < 0]
    if unseen:
        lines += [Line("about", Tone.HEADING), *map(Line, unseen)]
    return lines + rest


def lines_of_all(listed: tuple[Pending, ...]) -> list[Line]:
    """Return what several calls would do, one below the other."""
    lines: list[Line] = []
    for number, pending in enumerate(listed, 1):
        question = pending.request
        name = pending.call.name
        is_said = question is None or question.capability == name
        capability = "" if question is None or is_said else f" · {question.capability}"
        heading = f"{number} of {len(listed)}: {name}{capability}"
        lines.append(Line(heading, Tone.HEADING))
        lines += lines_of(pending, "" if question is None else question.preview)
    return lines


def _previewed(
    call: ToolCall, arguments: Mapping[str, Any] | None, preview: str
) -> tuple[list[Line], list[Line]]:
    """Return what a call would do, and the arguments that this does not show."""
    if not preview or arguments is None:
        return quoted(preview) if preview else [], _below("arguments", argument_lines(call))
    before, found, behind = preview.partition(msgspec.json.format(call.arguments, indent=2))
    if found:  # as JSON has them; they are easier to read one by one
        told = [text for text in (before.strip(), behind.strip()) if text not in ("", call.name)]
        return quoted("\n".join(told)) if told else [], _below("arguments", argument_lines(call))
    given = _given(arguments, preview)
    lines = _with_note(given, preview) if given else quoted(preview)
    unseen = _unseen(arguments, [preview] if given else _views(preview))
    return lines, _below("arguments", _argument_lines(unseen))


def _below(heading: str, lines: list[Line]) -> list[Line]:
    return [Line(heading, Tone.HEADING), *lines] if lines else []


def _given(arguments: Mapping[str, Any], preview: str) -> str:
    """Return the argument that a preview begins with, if a few words at most stand below it."""
    texts = [one for one in arguments.values() if isinstance(one, str) and one.strip()]
    given = max([one for one in texts if preview.startswith(f"{one}\n")], key=len, default="")
    return given if len(preview) - len(given) <= _LONGEST_NOTE else ""


def _with_note(given: str, preview: str) -> list[Line]:
    note = printable(preview[len(given) :]).split("\n")
    lines = printable(given).rstrip("\n").split("\n")
    return [*map(Line, lines), *[Line(line, Tone.NOTE) for line in note if line]]


def quoted(text: str) -> list[Line]:
    """Return the words of somebody else; a diff by what each line does."""
    lines = printable(text).rstrip("\n").split("\n")
    return _with_counts(list(_diff(lines))) if _is_diff(lines) else [Line(line) for line in lines]


# -- diffs -----------------------------------------------------------------------------------

_RANGES: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_TONES: Final = {"+": Tone.ADDED, "-": Tone.REMOVED, "\\": Tone.NOTE}
_OLD: Final = "--- "
_NEW: Final = "+++ "
_NOWHERE: Final = "/dev/null"


def _is_diff(lines: Sequence[str]) -> bool:
    """Tell whether a text is one, rather than something that holds one, as a command may."""
    return lines[0].startswith((_OLD, "diff ", "@@ ")) and any(map(_RANGES.match, lines))


def _diff(lines: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of a diff. The head of a hunk says how long it is, whatever stands in it."""
    old = new = 0  # how many lines the hunk still has
    is_new_file = False
    numbered = enumerate(lines)
    for number, line in numbered:
        sign = line[:1]
        if old > 0 or new > 0:
            old -= sign not in ("+", "\\")
            new -= sign not in ("-", "\\")
            yield Line(line, _TONES.get(sign, Tone.PLAIN))
        elif found := _RANGES.match(line):
            old, new = [1 if count is None else int(count) for count in found.groups()]
            if old or not is_new_file:
                yield Line(line, Tone.HUNK)
        elif line.startswith(_OLD) and "".join(lines[number + 1 : number + 2]).startswith(_NEW):
            before, (_, after) = line.removeprefix(_OLD), next(numbered)
            is_new_file = before == _NOWHERE
            yield Line(_named(before, after.removeprefix(_NEW)), Tone.FILE)
        else:
            yield Line(line, Tone.NOTE if sign == "\\" else Tone.PLAIN)


def _named(before: str, after: str) -> str:
    if before == _NOWHERE:
        return f"{after} · new file"
    if after == _NOWHERE:
        return f"{before} · removed"
    return after if before == after else f"{before} → {after}"


def _with_counts(lines: list[Line]) -> list[Line]:
    """Say behind the name of each file how many lines come and go."""
    counts: dict[Tone, int] = {}
    for number, line in reversed(list(enumerate(lines))):
        counts[line.tone] = counts.get(line.tone, 0) + 1
        if line.tone is Tone.FILE:
            added, removed = counts.get(Tone.ADDED, 0), counts.get(Tone.REMOVED, 0)
            told = [f"+{added}" if added else "", f"-{removed}" if removed else ""]
            lines[number] = Line("  ".join([line.text, *filter(None, told)]), Tone.FILE)
            counts.clear()
    return lines


# -- arguments -------------------------------------------------------------------------------


def argument_lines(call: ToolCall) -> list[Line]:
    """Return the arguments, each below its name; texts as they are rather than as JSON has them."""
    arguments = _arguments(call)
    if arguments is None:
        return quoted(call.arguments)
    return _argument_lines(arguments) or [Line("none")]


def _arguments(call: ToolCall) -> Mapping[str, Any] | None:
    try:
        return call.parsed
    except InvalidArguments:  # JSON that Python has no value for
        return None


def _argument_lines(arguments: Mapping[str, Any]) -> list[Line]:
    return [
        Line(text)
        for name, value in arguments.items()
        for text in _told(on_one_line(name), value, depth=0)
    ]


def _told(name: str, value: Any, *, depth: int) -> Iterator[str]:
    """Yield a value; what is text is in quotes or behind a bar, and so nothing else looks like it."""
    pad = "  " * depth
    if isinstance(value, str):
        if _is_inline(value):
            yield f'{pad}{name}: "{value}"'
        else:
            yield f"{pad}{name}:"
            yield from [f"{pad}  │ {line}" for line in printable(value).split("\n")]
    elif isinstance(value, Mapping) and value and depth < _DEEPEST:
        yield f"{pad}{name}:"
        for inner, member in value.items():
            yield from _told(on_one_line(inner), member, depth=depth + 1)
    elif isinstance(value, tuple) and value and depth < _DEEPEST:
        yield f"{pad}{name}:"
        for number, member in enumerate(value, 1):
            yield from _told(f"{number}.", member, depth=depth + 1)
    else:
        yield f"{pad}{name}: {printable(_json(value))}"


def _is_inline(text: str) -> bool:
    is_short = len(text) <= _LONGEST_INLINE
    return is_short and not any(sign in text for sign in '"\\\n\t') and printable(text) == text


def _json(value: Any) -> str:
    def plain(part: Any) -> Any:
        return dict(part)  # the one kind of value that is not JSON already

    return msgspec.json.encode(value, enc_hook=plain).decode()


# -- what a preview shows already ------------------------------------------------------------

_TAKEN: Final = "\0"
_JOINTS: Final = frozenset("_/.-~\\@*$")
_MOST_TRIED: Final = 100


def _unseen(arguments: Mapping[str, Any], views: list[str]) -> dict[str, Any]:
    """Return the arguments that none of these texts shows.

    Each takes a place of its own, the longest first: what stands inside of another argument does
    not show this one.
    """
    seen: set[str] = set()
    texts = {name: text for name, value in arguments.items() if (text := _as_shown(value))}
    for name in sorted(texts, key=lambda one: len(texts[one]), reverse=True):
        for number, view in enumerate(views):
            at = _place(view, texts[name])
            if at >= 0:
                views[number] = view[:at] + _TAKEN + view[at + len(texts[name]) :]
                seen.add(name)
                break
    return {name: value for name, value in arguments.items() if name not in seen}


def _as_shown(value: Any) -> str:
    """Return how a preview would have a value; nothing for what it would not have as it is."""
    if isinstance(value, str):
        return value.strip("\n") if value.strip() else ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _views(preview: str) -> list[str]:
    """Return the texts that a preview holds; those of a diff are before and after."""
    lines = preview.split("\n")
    if not _is_diff(lines):
        return [preview]
    start = next(at for at, line in enumerate(lines) if _RANGES.match(line))
    body = lines[start:]
    old = [line[1:] for line in body if line[:1] in ("-", " ")]
    new = [line[1:] for line in body if line[:1] in ("+", " ")]
    return ["\n".join(part) for part in (lines[:start], new, old)]


def _place(text: str, part: str) -> int:
    """Return where something stands by itself, not as a piece of a longer word; else -1."""
    at = -1
    for _ in range(_MOST_TRIED):
        at = text.find(part, at + 1)
        around = text[max(at - 1, 0) : at] + text[at + len(part) : at + len(part) + 1]
        if at < 0 or not any(sign.isalnum() or sign in _JOINTS for sign in around):
            return at
    return -1
