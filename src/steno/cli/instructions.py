"""`AGENTS.md`: what people have written down for whoever works on a project.

The file of a folder is its `AGENTS.md`, or else its `CLAUDE.md`. Files are read from the working
folder up to the root of the project, then the user's own; the nearest comes first, and gets its
share of the room first. They come with a project: what is not plain text in the project is left
out and named in the notes, and nothing in them can break the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from steno.cli.project import read_plain_file
from steno.errors import InvalidValue

NAMES: Final = ("AGENTS.md", "CLAUDE.md")
"""What a file of instructions is called; the first that is there counts."""
MOST_BYTES: Final = 65_536
"""How much is read, of all files together."""


class Instruction(NamedTuple):
    """What one file says."""

    path: Path
    text: str


class Instructions(NamedTuple):
    """What all files say, the nearest first."""

    files: tuple[Instruction, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out, and why; to be told once."""


def read_instructions(
    folder: Path, project: Path, own: Path | None = None, *, most_bytes: int = MOST_BYTES
) -> Instructions:
    """Return what applies to work in a folder of a project; `own` is the user's folder of settings."""
    files: list[Instruction] = []
    notes: list[str] = []
    room = most_bytes
    for place, inside in _places(folder, project, own):
        try:
            found = _find(place, inside, room)
        except InvalidValue as exc:
            notes.append(f"{exc}; it is left out")
            continue
        if found is None:
            continue
        path, data = found
        text, is_whole = _text(data, room)
        room -= min(len(data), room)
        if not is_whole:
            cut = f"cut: all instructions together may have {most_bytes:,} bytes"
            notes.append(f"{path}: {cut}")
            text += f"\n[{cut}]"
        if text.strip():
            files.append(Instruction(path, text.strip()))
    return Instructions(tuple(files), tuple(notes))


def _places(folder: Path, project: Path, own: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Return the folders to look into, and what their files may not lead out of."""
    folder, project = folder.resolve(), project.resolve()
    for place in (folder, *folder.parents):
        if not place.is_relative_to(project):
            break
        yield place, project
    if own is not None:
        yield own, None  # how users arrange their own files is up to them


def _find(place: Path, inside: Path | None, room: int) -> tuple[Path, bytes] | None:
    for name in NAMES:
        path = place / name
        data = read_plain_file(path, inside=inside, most_bytes=room)
        if data is None:
            continue
        if b"\0" in data:
            raise InvalidValue(f"{path}: is not UTF-8 text")
        return path, data
    return None


def _text(data: bytes, room: int) -> tuple[str, bool]:
    """Return a text that fits, and whether that is all of it.

    Bytes that are not UTF-8 are replaced: the rest still tells what is meant. A character that is
    cut in two is none.
    """
    if len(data) <= room:
        return data.decode("utf-8-sig", "replace"), True
    end = room
    while end and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end].decode("utf-8-sig", "replace"), False
