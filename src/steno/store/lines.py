"""Lines of a session file: JSON with a checksum in front, the header first, then the records.

    {"crc":"5bd7dd40","session":{...}}
    {"crc":"0c1f2a6e","record":{...}}

The checksum is the CRC-32 of everything behind the comma that follows it, up to the line break.
It says whether a line is whole; whether it is the right one is for the chain to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    checked = line[_START_LENGTH : -1 if line.endswith(b"\n") else None]
    if not line.startswith(_START % crc32(checked)):
        raise Damaged("line: its checksum does not fit")
    if checked.endswith(b"}"):
        if checked.startswith(_RECORD):
            return decode_record(checked[len(_RECORD) : -1])
        if checked.startswith(_SESSION):
            return decode_header(checked[len(_SESSION) : -1])
    raise InvalidDocument("line: it holds neither the header of a session nor a record")


def glance_at_lines(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Glance]]:
    """Read of each line only what it takes to find its record again, up to one that is in doubt.

    That is one that is not whole, or holds something else: whoever decodes it will see. A file has
    many of these lines, all of which are looked at before the first record is read.
    """
    for line in lines:
        checked = line[_START_LENGTH:-1]
        is_plain = line.endswith(b"}}\n") and checked.startswith(_RECORD)
        if not is_plain or not line.startswith(_START % crc32(checked)):
            return
        try:
            glance = _glance(checked[len(_RECORD) : -1])
        except (MsgspecError, RecursionError):
            return  # a record of another version, of which the codec may still make something
        yield line, glance
