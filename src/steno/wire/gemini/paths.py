"""Read paths into the arguments of a call: those of RFC 9535 that lead to a single place."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from steno.errors import ProtocolError
from steno.json_object import MAX_DEPTH
from steno.value import replace_lone_surrogates
from steno.wire.gemini.shapes import NAME

Path: TypeAlias = tuple[str | int, ...]
"""Names in objects and positions in lists, from the outside in; the first is a name."""

_BLANK: Final = r"[ \t\r\n]*"
_ESCAPE: Final = r"""\\(?:["'/\\bfnrt]|u[0-9a-fA-F]{4})"""
_STEP: Final = re.compile(
    rf"""{_BLANK}(?:
        \.(?P<name>[^.\[\]*\s]+)
        | \[{_BLANK}(?:
            (?P<position>[0-9]{{1,4}})
            | '(?P<single>(?:[^'\\]|{_ESCAPE})*)'
            | "(?P<double>(?:[^"\\]|{_ESCAPE})*)"
        ){_BLANK}\]
    )""",
    re.VERBOSE,
)
_escape: Final = re.compile(_ESCAPE)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def read_path(text: str) -> Path:
    """Read a path. Raises ProtocolError for one that leads nowhere, to many places, or too deep."""
    found: list[str | int] = []
    at = 1 if text.startswith("$") else len(text)
    while len(found) < MAX_DEPTH and (match := _STEP.match(text, at)) is not None:
        found.append(_step_of(match))
        at = match.end()
    if at < len(text) or not found or not isinstance(found[0], str):
        raise ProtocolError(f"{NAME}: a fragment of a call is at a path that leads to no argument")
    return tuple(found)


def _step_of(match: re.Match[str]) -> str | int:
    match match.lastgroup, match.group(match.lastgroup or 0):
        case "position", digits:
            return int(digits)
        case "name", name:
            return name
        case _, quoted:
            return replace_lone_surrogates(_escape.sub(_character_of, quoted))


def _character_of(escape: re.Match[str]) -> str:
    mark = escape.group()[1:]
    return chr(int(mark[1:], 16)) if mark[0] == "u" else _CONTROLS.get(mark, mark)
