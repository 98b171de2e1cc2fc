"""A call as lines to read before one decides: what it would do, what it is about, its arguments.

Everything that a model or a file has a hand in is made printable here, and is told apart from our
own words by its tone: whoever draws it marks what is quoted, so that nobody takes a line of a
model for one of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from steno.call import ToolCall
from steno.errors import InvalidArguments
from steno.printable import on_one_line, printable
from steno.tui.desk import Pending


class Tone(StrEnum):
    """What kind of line it is."""

    OURS = "ours"
    """A heading; everything else is quoted."""
    PLAIN = "plain"
    FILE = "file"
    """Which file a diff is about."""
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"


class Line(NamedTuple):
    """One line, however long; printable."""

    text: str
    tone: Tone = Tone.PLAIN


_TONES: Final = {"@": Tone.HUNK, "+": Tone.ADDED, "-": Tone.REMOVED}
_HUNK: Final = "@@ "
_LONGEST_INLINE: Final = 60
"""A longer text stands below its name."""
_DEEPEST: Final = 6
"""What is nested deeper is shown as JSON."""


def lines_of(pending: Pending, preview: str) -> list[Line]:
    """Return everything there is to know about a call, what it would do first."""
    lines = quoted(preview) if preview else []
    question = pending.question
    if question is not None and question.subjects:
        lines.append(Line("about", Tone.OURS))
        lines += [Line(on_one_line(subject)) for subject in question.subjects]
    lines.append(Line("arguments", Tone.OURS))
    return lines + argument_lines(pending.call)


def lines_of_all(listed: tuple[Pending, ...]) -> list[Line]:
    """Return what several calls would do, one below the other."""
    lines: list[Line] = []
    for number, pending in enumerate(listed, 1):
        question = pending.question
        capability = "" if question is None else f" · {question.capability}"
        heading = f"{number} of {len(listed)}: {pending.call.name}{capability}"
        lines.append(Line(heading, Tone.OURS))
        preview = "" if question is None else question.preview
        lines += quoted(preview) if preview else argument_lines(pending.call)
    return lines


def quoted(text: str) -> list[Line]:
    """Return the words of somebody else; a diff by what each line does."""
    lines = printable(text).rstrip("\n").split("\n")
    if not any(line.startswith(_HUNK) for line in lines):
        return [Line(line) for line in lines]
    return list(_diff(lines))


def _diff(lines: list[str]) -> Iterator[Line]:
    has_begun = False
    for line in lines:
        has_begun = has_begun or line.startswith(_HUNK)
        tone = _TONES.get(line[:1], Tone.PLAIN)
        # Above the first hunk `---` and `+++` name the file, below it they are lines like others.
        yield Line(line, tone if has_begun or tone is Tone.PLAIN else Tone.FILE)


# -- arguments -------------------------------------------------------------------------------


def argument_lines(call: ToolCall) -> list[Line]:
    """Return the arguments, each below its name; texts as they are rather than as JSON has them."""
    try:
        arguments: Mapping[str, Any] = call.parsed
    except InvalidArguments:  # JSON that Python has no value for
        return quoted(call.arguments)
    if not arguments:
        return [Line("none")]
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
