"""Lines of a session file: JSON with a checksum in front, the header first, then the records.

    {"crc":"5bd7dd40","session":{...}}
    {"crc":"0c1f2a6e","record":{...}}

The checksum is the CRC-32 of everything behind the comma that follows it, up to the line break.
It says whether a line is whole; whether it is the right one is for the chain to say.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from steno.codec import decode_header, decode_record, encode_header, encode_record
from steno.errors import Damaged, InvalidDocument
from steno.record import Header, Record

MARK_LENGTH: Final = 16
"""How much of a line it takes to see its checksum."""
_START: Final = b'{"crc":"%08x",'
_START_LENGTH: Final = len(_START % 0)
_SESSION: Final = b'"session":'
_RECORD: Final = b'"record":'


class Named(Struct, gc=False):
    """Of an entry, only its name."""

    id: str


class Glance(Struct, gc=False):
    """Of a record, only what it takes to find it again."""

    seq: int
    branch: str
    entry: Named | None = None
    at: str | None = None


_glance: Final = Decoder(Glance).decode


def encode_line(content: Header | Record) -> bytes:
    """Encode the header of a session, or a record of it, as a line of its file."""
    if isinstance(content, Header):
        checked = _SESSION + encode_header(content) + b"}"
    else:
        checked = _RECORD + encode_record(content) + b"}"
    return _START % crc32(checked) + checked + b"\n"


def decode_line(line: bytes) -> Header | Record:
    """Decode a line, with its line break or without.

    Raises Damaged if its checksum does not fit, InvalidDocument if it does and the line holds
    neither a header nor a record, UnsupportedVersion if it holds a newer header.
    """
    checked = _checked(line)
    if _holds(_SESSION, checked):
        return decode_header(checked[len(_SESSION) : -1])
    if _holds(_RECORD, checked):
        return decode_record(checked[len(_RECORD) : -1])
    raise InvalidDocument("line: it holds neither the header of a session nor a record")


def glance_at_line(line: bytes) -> Header | Glance:
    """Read of a line only what it takes to find its record again. Raises as `decode_line` does."""
    checked = _checked(line)
    if _holds(_RECORD, checked):
        try:
            return _glance(checked[len(_RECORD) : -1])
        except (MsgspecError, RecursionError):
            pass  # a record of another version, of which the codec may still make something
    content = decode_line(line)
    if isinstance(content, Header):
        return content
    entry = None if content.entry is None else Named(content.entry.id)
    return Glance(content.seq, content.branch, entry, content.at)


def _checked(line: bytes) -> bytes:
    """Return what the checksum of a line is about. Raises Damaged if it does not fit."""
    checked = line[_START_LENGTH:].removesuffix(b"\n")
    if line[:_START_LENGTH] != _START % crc32(checked):
        raise Damaged("line: its checksum does not fit")
    return checked


def _holds(kind: bytes, checked: bytes) -> bool:
    return checked.startswith(kind) and checked.endswith(b"}")
