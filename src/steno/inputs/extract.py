"""What a model sees of a file that a person points at: its lines, with their numbers.

All lines that were asked for, or none: half an extract would be taken for the whole. This file
opens nothing; it gets the bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from steno.content import FileReference
from steno.errors import ToolFailed
from steno.tools.descent import quoted
from steno.tools.globs import printable
from steno.tools.text_file import TextFile, image_type, kind_of, numbered, read_text
from steno.tools.workspace import Fingerprint


class TooLong(ToolFailed):
    """More would be shown than there is room for."""


class Extract(NamedTuple):
    """What is shown of a file, and what the record says about it."""

    text: str
    details: dict[str, Any]


def extract(name: str, data: bytes, reference: FileReference, *, most_bytes: int) -> Extract:
    """Return the lines of a file that a reference is about, under the name it was opened by.

    Raises ToolFailed for what is no text and for lines that there are not, TooLong if they take
    more than `most_bytes`.
    """
    file = _text_of(name, data)
    lines = file.lines
    first = reference.start_line or 1
    last = reference.end_line or reference.start_line or len(lines)
    size, sha256 = Fingerprint.of(data)
    details: dict[str, Any] = {
        "kind": "file",
        "path": name,
        "sha256": sha256,
        "bytes": size,
        "encoding": file.label,
        "lines": len(lines),
    }
    if not lines and reference.start_line is None:
        return Extract(f"[{printable(name)} is empty]", details)
    if last > len(lines):
        there_are = "1 line" if len(lines) == 1 else f"{len(lines):,} lines"
        missing = max(first, len(lines) + 1)
        raise ToolFailed(f"{quoted(name)}: has no line {missing}, only {there_are}")
    details |= {"first_line": first, "last_line": last}
    which = f"line {first}" if first == last else f"lines {first} to {last}"
    heading = f"{printable(name)}, {which} of {len(lines)}:\n"
    shown = _numbered(name, lines, first, last, most_bytes=most_bytes - len(heading.encode()))
    return Extract(heading + shown, details)


def _text_of(name: str, data: bytes) -> TextFile:
    image = image_type(data)
    file = read_text(data) if image is None else None
    if file is None:
        kind = kind_of(data) if image is None else f"an image ({image})"
        raise ToolFailed(f"{quoted(name)}: is not text but {kind} of {len(data):,} bytes")
    return file


def _numbered(name: str, lines: list[str], first: int, last: int, *, most_bytes: int) -> str:
    shown: list[str] = []
    room = most_bytes
    for number in range(first, last + 1):
        line = numbered(number, lines[number - 1])
        room -= len(line.encode())
        if room < 0:
            raise TooLong(_too_long(name, first, number - 1))
        shown.append(line)
    return "".join(shown)


def _too_long(name: str, first: int, last: int) -> str:
    if last < first:
        return (
            f"{quoted(name)}: line {first} alone is too long to be shown; ask about it instead,"
            " and the model can search it"
        )
    return (
        f"{quoted(name)}: is too long to be shown at once; name lines behind the path, such as"
        f" :{first}-{last}"
    )
