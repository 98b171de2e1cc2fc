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


class NotText(ToolFailed):
    """The file is something else; `kind` says what."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(f"{quoted(name)}: is not text but {kind}")
        self.kind = kind


class Extract(NamedTuple):
    """What is shown of a file, and what the record says about it."""

    text: str
    details: dict[str, Any]


def extract(name: str, data: bytes, reference: FileReference, *, most_bytes: int) -> Extract:
    """Return the lines of a file that a reference is about, under the name it was opened by.

    Raises NotText, ToolFailed for lines that there are not, TooLong if they take more than
    `most_bytes`.
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
        raise ToolFailed(f"{quoted(name)}: {_no_such_lines(first, last, len(lines))}")
    details |= {"first_line": first, "last_line": last}
    which = f"line {first}" if first == last else f"lines {first} to {last}"
    heading = f"{printable(name)}, {which} of {len(lines)}:\n"
    shown, fitting = _numbered(lines, first, last, room=most_bytes - len(heading.encode()))
    if fitting < last:
        raise TooLong(_too_long(name, size, first, fitting, most_bytes))
    return Extract(heading + shown, details)


def _text_of(name: str, data: bytes) -> TextFile:
    image = image_type(data)
    file = read_text(data) if image is None else None
    if file is None:
        kind = kind_of(data) if image is None else f"an image ({image})"
        raise NotText(name, f"{kind} of {len(data):,} bytes")
    return file


def _numbered(lines: list[str], first: int, last: int, *, room: int) -> tuple[str, int]:
    """Return lines with their numbers, and the last one for which there is room."""
    shown: list[str] = []
    for number in range(first, last + 1):
        line = numbered(number, lines[number - 1])
        room -= len(line.encode())
        if room < 0:
            return "", number - 1
        shown.append(line)
    return "".join(shown), last


# -- words -----------------------------------------------------------------------------------


def _no_such_lines(first: int, last: int, count: int) -> str:
    there_are = {0: "no lines", 1: "only 1 line"}.get(count, f"only {count:,} lines")
    wanted = f"line {first}" if first == last else _range(first, last)
    advice = f"; name {_range(first, count)}" if first <= count else ""
    return f"has {there_are}, so {wanted} is not there{advice}"


def _too_long(name: str, size: int, first: int, fitting: int, most_bytes: int) -> str:
    if fitting < first:
        return (
            f"{quoted(name)}: line {first} alone takes more than {most_bytes:,} bytes, and no more"
            " can be shown; ask about it instead, and the model can search it"
        )
    return (
        f"{quoted(name)}: has {size:,} bytes, and no more than {most_bytes:,} can be shown at once,"
        f" with the numbers of lines; name lines behind the path, such as :{_range(first, fitting)}"
    )


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"
