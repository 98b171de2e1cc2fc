"""The lines of a session file: JSON with a checksum in front, the header first, then the records.

    {"crc":"5bd7dd40","session":{...}}
    {"crc":"0c1f2a6e","record":{...}}

The checksum is the CRC-32 of everything after the comma that follows it, up to the line break. It
shows whether a line is complete; whether it is the right one is a matter of the hash chain.

An incomplete line is one of two things. At the end of the file, without its line break or with a
gap of NULs in it, it is what a crash or a full disk left of a record whose append never returned:
a torn tail, which readers ignore and the next writer cuts off. Anything else is damage. Nothing
here locks or writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from threading import RLock
from typing import BinaryIO, Final, NamedTuple, TypeAlias, final
from zlib import crc32

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from steno.codec import decode_header, decode_record, encode_header, encode_record
from steno.errors import Damaged, InvalidDocument, InvalidValue, UnsupportedVersion
from steno.records.entry import Entry
from steno.records.stored_record import Header, Record
from steno.store.base import BranchHeads

_LINE_PREFIX: Final = b'{"crc":"%08x",'
_LINE_PREFIX_LENGTH: Final = len(_LINE_PREFIX % 0)
_SESSION_KEY: Final = b'"session":'
_RECORD_KEY: Final = b'"record":'
_MARK_LENGTH: Final = 16
"""How many bytes of a line show its checksum."""
_LINE_START: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","')
_OWN_LINE_START: Final = re.compile(rb'\{"crc":"|[0-9a-f]{8}","(?:session|record)":\{')
"""Either half of the start of a line: one damaged byte does not hide both."""
_MAX_LINE_STARTS: Final = 8
"""At how many positions of a broken line another line is searched for."""
_CHUNK_BYTES: Final = 1 << 16
_SECTOR_BYTES: Final = 512
"""No disk writes less at once."""

LineSpan: TypeAlias = tuple[int, int]
"""The offset and the length of the line of an entry; there are too many for a class."""


class _EntryIdOnly(Struct, gc=False):
    """The id of an entry, without the rest of it."""

    id: str


class _RecordOutline(Struct, gc=False):
    """The part of a record that an index needs."""

    seq: int
    branch: str
    entry: _EntryIdOnly | None = None
    at: str | None = None


_decode_outline: Final = Decoder(_RecordOutline).decode


def encode_line(content: Header | Record) -> bytes:
    """Encode the header of a session, or a record of it, as a line of its file."""
    if isinstance(content, Header):
        checked = _SESSION_KEY + encode_header(content) + b"}"
    else:
        checked = _RECORD_KEY + encode_record(content) + b"}"
    return _LINE_PREFIX % crc32(checked) + checked + b"\n"


def decode_line(line: bytes) -> Header | Record:
    """Decode a line, with its line break or without.

    Raises Damaged if its checksum does not match, InvalidDocument if it does and the line holds
    neither a header nor a record, UnsupportedVersion if it holds a newer header.
    """
    checked = line[_LINE_PREFIX_LENGTH : -1 if line.endswith(b"\n") else None]
    if not line.startswith(_LINE_PREFIX % crc32(checked)):
        raise Damaged("its checksum does not fit", code="checksum_mismatch", place="line")
    if checked.endswith(b"}"):
        if checked.startswith(_RECORD_KEY):
            return decode_record(checked[len(_RECORD_KEY) : -1])
        if checked.startswith(_SESSION_KEY):
            return decode_header(checked[len(_SESSION_KEY) : -1])
    message = "it holds neither the header of a session nor a record"
    raise InvalidDocument(message, code="not_a_session_line", place="line")


def scan_record_lines(lines: Iterable[bytes]) -> Iterator[tuple[bytes, _RecordOutline]]:
    """Yield the outline of each record, up to the first line that is not a plain, complete record.

    That one has to be decoded in full. All lines of a file are scanned before the first record is
    read, so this is much faster than decoding.
    """
    for line in lines:
        checked = line[_LINE_PREFIX_LENGTH:-1]
        is_plain = line.endswith(b"}}\n") and checked.startswith(_RECORD_KEY)
        if not is_plain or not line.startswith(_LINE_PREFIX % crc32(checked)):
            return
        try:
            outline = _decode_outline(checked[len(_RECORD_KEY) : -1])
        except (MsgspecError, RecursionError):
            return  # a record of another version, which the codec may still read
        yield line, outline


class SessionLine(NamedTuple):
    """A complete line: its offset, its bytes and its content."""

    offset: int
    raw: bytes
    content: Header | Record


def read_lines(
    file: int, name: str, *, size: int, offset: int = 0, number: int = 1
) -> Iterator[SessionLine]:
    """Read the complete lines up to `size`, from line `number`, which begins at `offset`.

    Ignores a torn tail. Raises Damaged, naming the line; UnsupportedVersion for a newer header.
    """
    with open(file, "rb", buffering=_CHUNK_BYTES, closefd=False) as stream:
        stream.seek(offset)
        while raw := stream.readline(max(size - offset, 0)):
            if not (content := _decode_whole_line(raw, name, number)):
                if (
                    not _may_be_torn(raw, offset)
                    or _has_more_content(stream, size)
                    or _contains_whole_line(raw)
                ):
                    raise _damaged_line(
                        f"{name}, line {number}", "its checksum does not fit", "checksum_mismatch"
                    )
                return
            if isinstance(content, Header) != (number == 1):
                raise _damaged_line(
                    f"{name}, line {number}",
                    "the header stands in line 1, alone",
                    "header_misplaced",
                )
            yield SessionLine(offset, raw, content)
            offset += len(raw)
            number += 1


class ForeignFile(Damaged):
    """A file of another program at the path of a session."""

    code = "foreign_file"


def read_header(file: int, name: str) -> Header | None:
    """Return the header in the first line; None if that is torn: then there is no session yet.

    Raises Damaged; ForeignFile if the file does not begin like a session file.
    """
    try:
        for line in read_lines(file, name, size=os.fstat(file).st_size):
            assert isinstance(line.content, Header)
            return line.content
    except Damaged as exc:
        if _OWN_LINE_START.search(os.pread(file, _CHUNK_BYTES, 0)) is not None:
            raise
        raise ForeignFile(
            "it is no session of ours; keep it in another folder", place=name
        ) from exc
    return None


@final
class BackwardReader:
    """Reads entries from the last to the first, many at once where they are adjacent."""

    def __init__(self, file: int) -> None:
        """Read from a file whose indexed part does not change."""
        self._file = file
        self._begin = self._end = self._last = 0
        self._chunk = b""

    def read(self, entry_id: str, span: LineSpan) -> tuple[Entry, str] | None:
        """Return the entry in a line and its digest; None if it is damaged or another entry."""
        offset, length = span
        end = offset + length
        if offset < self._begin or end > self._end:
            # If an entry is adjacent to the last one, most of those before it are, too.
            begin = min(offset, max(end - _CHUNK_BYTES, 0)) if end == self._last else offset
            self._begin, self._end = begin, end
            self._chunk = os.pread(self._file, end - begin, begin)
        self._last = offset
        try:
            content = decode_line(self._chunk[offset - self._begin : end - self._begin])
        except (Damaged, InvalidValue):
            return None
        if isinstance(content, Header) or content.entry is None or content.digest is None:
            return None
        return (content.entry, content.digest) if content.entry.id == entry_id else None


def _decode_whole_line(raw: bytes, name: str, number: int) -> Header | Record | None:
    """Decode a line; None if it is incomplete. Raises Damaged if it is complete and not ours."""
    if not raw.endswith(b"\n"):
        return None
    try:
        return decode_line(raw)
    except Damaged:
        return None
    except UnsupportedVersion:
        raise
    except InvalidValue as exc:
        raise _damaged_line(
            f"{name}, line {number}", "it is no record of a session", "record_unreadable"
        ) from exc


def _may_be_torn(raw: bytes, offset: int) -> bool:
    """Return whether a crash can have left this of the line that was written last.

    Then its end is missing, or sectors of it: zeros are in their place.
    """
    if not raw.endswith(b"\n"):
        return True
    begin, end = raw.find(b"\0"), raw.rfind(b"\0") + 1
    is_aligned = (offset + end) % _SECTOR_BYTES == 0 and (
        begin == 0 or (offset + begin) % _SECTOR_BYTES == 0
    )
    return begin >= 0 and is_aligned


def _has_more_content(stream: BinaryIO, size: int) -> bool:
    """Return whether content follows; NULs, which file systems add after a crash, do not count."""
    left = size - stream.tell()
    while piece := stream.read(max(min(left, _CHUNK_BYTES), 0)):
        if piece.strip(b"\0"):
            return True
        left -= len(piece)
    return False


def _contains_whole_line(raw: bytes) -> bool:
    """Return whether a line ends in a complete one: then a line break is missing before it."""
    starts = islice(_LINE_START.finditer(raw, 1), _MAX_LINE_STARTS)
    return any(_decode_whole_line(raw[start.start() :], "line", 1) for start in starts)


def _damaged_line(place: str, rule: str, code: str) -> Damaged:
    return Damaged(
        f"{rule}; restore the file from a copy, or cut it before this line to keep what comes first",
        code=code,
        place=place,
    )


@final
class SessionFileIndex:
    """The index of one session file. The caller of a method holds `lock`."""

    def __init__(self, name: str) -> None:
        self.lock: Final = RLock()
        self.reported_tail: tuple[int, int] | None = None
        """The begin and end of the torn tail that was last logged."""
        self._name = name
        self.reset()

    def reset(self) -> None:
        """Empty the index. `spans` becomes a new object: snapshots keep the old one."""
        self.header: Header | None = None
        self.heads: BranchHeads = BranchHeads()
        self.spans: dict[str, LineSpan] = {}
        self.last_seq: int = 0
        self.end: int = 0
        """The offset of the next line."""
        self._lines = 0
        self._inode = 0
        self._mark = 0, b""
        """The offset and the first bytes of the last line, by which the file is recognised."""

    def catch_up(self, file: int) -> int:
        """Add the lines that were written since the last call; return the size of the torn tail.

        Raises Damaged, and UnsupportedVersion for a newer header.
        """
        status = os.fstat(file)
        if (
            status.st_ino != self._inode
            or status.st_size < self.end
            or not self._is_same_file(file)
        ):
            self.reset()
            self._inode = status.st_ino
        size = status.st_size
        if size > self.end:
            if self.header is None:
                self._add_checked_lines(file, size, max_lines=1)
            self._add_plain_lines(file, size)
        if size > self.end:
            self._add_checked_lines(file, size)
        return size - self.end

    def _add_plain_lines(self, file: int, size: int) -> None:
        """Add the lines whose outline is enough; most often these are all."""
        with open(file, "rb", buffering=_CHUNK_BYTES, closefd=False) as stream:
            stream.seek(self.end)
            last = b""
            try:
                for raw, outline in scan_record_lines(stream):
                    if self.end + len(raw) > size:
                        break
                    self._add_record(len(raw), outline)
                    last = raw
            finally:
                if last:
                    self._mark = self.end - len(last), last[:_MARK_LENGTH]

    def _add_checked_lines(self, file: int, size: int, max_lines: int | None = None) -> None:
        """Decode and add the lines that are left. Raises Damaged."""
        number = self._lines + 1
        left = read_lines(file, self._name, size=size, offset=self.end, number=number)
        for line in islice(left, max_lines):
            self.add_line(line.raw, line.content)

    def _is_same_file(self, file: int) -> bool:
        """Return whether the last line is where it was: another file may have the same inode."""
        offset, mark = self._mark
        return os.pread(file, len(mark), offset) == mark

    def add_line(self, raw: bytes, content: Header | Record) -> None:
        """Add the line at the end of the file."""
        self._mark = self.end, raw[:_MARK_LENGTH]
        if isinstance(content, Header):
            self.header = content
            self.end += len(raw)
            self._lines += 1
        else:
            self._add_record(len(raw), content)

    def _add_record(self, length: int, record: Record | _RecordOutline) -> None:
        entry, offset = record.entry, self.end
        if entry is None:
            self.heads.begin(record.branch, record.at)
        else:
            self.spans[entry.id] = offset, length
            self.heads.write(record.branch, entry.id)
        self.last_seq = record.seq
        self.end = offset + length
        self._lines += 1
