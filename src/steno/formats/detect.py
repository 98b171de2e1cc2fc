"""Tell by its content what format a file is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from steno.codec.scan import check_syntax, clean_input, split_array, split_object
from steno.errors import InvalidDocument

_BY_VERSION: Final = {b"0": "chat", b"1": "session"}
OURS: Final = "steno"


def detect(data: bytes) -> str:
    """Return the name of the format: one of `FORMATS`, or one of our own.

    Those are `steno` for what `decode_document` reads, also of a newer version, and `jsonl` for
    the lines of a JSONL store. Only as much is looked at as it takes: `decode` may still find that it is none. Raises
    InvalidDocument if it looks like nothing that is known.
    """
    raw, _ = clean_input(data)
    for members in _objects(raw.strip()):
        if "crc" in members:
            return "jsonl"
        if "kind" in members:
            return "rows"
        if "role" in members:
            return "chat"
        if "version" in members:
            return _of_version(members["version"])
        if "entries" in members:
            return "audit"
        if "messages" in members:
            return "chat"
    raise InvalidDocument("file: is in no format that is known; name the one that it is in")


def _of_version(raw: bytes) -> str:
    if raw in _BY_VERSION:
        return _BY_VERSION[raw]
    if raw.isdigit():
        return OURS
    raise InvalidDocument("file: its version is no number; name the format that it is in")


def _objects(raw: bytes) -> Iterator[dict[str, bytes]]:
    """Return what may tell: the first line, the whole, or what is in a list."""
    if raw.startswith(b"["):
        check_syntax(raw)
        for part in split_array(raw) or ():
            if part.startswith(b"{"):
                yield _members(part)
        return
    first = raw.split(b"\n", 1)[0].strip()
    try:
        check_syntax(first)
    except InvalidDocument:
        check_syntax(raw)
        first = raw
    if first.startswith(b"{"):
        yield _members(first)


def _members(raw: bytes) -> dict[str, bytes]:
    return {name: value for name, _, value in split_object(raw) or ()}
