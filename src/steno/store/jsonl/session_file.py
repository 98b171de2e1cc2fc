"""The format of a session file: lines of JSON with a checksum, first the header, then the records.

    {"crc":"5bd7dd40","session":{...}}
    {"crc":"0c1f2a6e","record":{...}}

The checksum is the CRC-32 of everything after the comma that follows it, up to the line break. It
detects incomplete and damaged lines; the hash chain detects records that were replaced or moved.

An incomplete line is either a torn tail or damage. A torn tail is at the end of the file and lacks
its line break or contains a gap of NULs: a crash or a full disk left it, and the append of its
record never returned. Readers ignore it, and the next writer truncates it. Any other incomplete
line is damage. This module neither locks nor writes files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from threading import RLock
from typing import Annotated, BinaryIO, Final, NamedTuple, TypeAlias, final
from zlib import crc32

from msgspec import Meta, MsgspecError, Struct
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
"""The length of the prefix of a line, up to and including its checksum."""
_LINE_START: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","')
_OWN_LINE_START: Final = re.compile(rb'\{"crc":"|[0-9a-f]{8}","(?:session|record)":\{')
"""Matches either half of the prefix of a line; one damaged byte cannot hide both halves."""
_MAX_LINE_STARTS: Final = 8
"""The maximum number of positions in a broken line at which a complete line is searched."""
_CHUNK_BYTES: Final = 1 << 16
_SECTOR_BYTES: Final = 512
"""The smallest unit that a disk writes."""

LineSpan: TypeAlias = tuple[int, int]
"""The offset and length of the line of an entry.

This is a plain tuple, because an index contains very many of them.
"""


class _EntryIdOnly(Struct, gc=False):
    """An entry of which only the id is decoded."""

    id: Annotated[str, Meta(min_length=1)]


class _RecordOutline(Struct, gc=False):
    """The fields of a record that the index of a session file needs."""

    seq: int
    branch: str
    entry: _EntryIdOnly | None = None
    at: str | None = None


_decode_outline: Final = Decoder(_RecordOutline).decode


def encode_line(content: Header | Record) -> bytes:
    """Encode the header or a record of a session as a line of its file."""
    if isinstance(content, Header):
        checked = _SESSION_KEY + encode_header(content) + b"}"
    else:
        checked = _RECORD_KEY + encode_record(content) + b"}"
    return _LINE_PREFIX % crc32(checked) + checked + b"\n"


def decode_line(line: bytes) -> Header | Record:
    """Decode a line, with its line break or without.

    Raises Damaged if the checksum does not match, InvalidDocument if the checksum matches but the
    line is neither a header nor a record, and UnsupportedVersion if a header has another version.
    """
    checked = line[_LINE_PREFIX_LENGTH : -1 if line.endswith(b"\n") else None]
    if not line.startswith(_LINE_PREFIX % crc32(checked)):
        raise Damaged("the checksum does not match", code="checksum_mismatch", place="line")
    if checked.endswith(b"}"):
        if checked.startswith(_RECORD_KEY):
            return decode_record(checked[len(_RECORD_KEY) : -1])
        if checked.startswith(_SESSION_KEY):
            return decode_header(checked[len(_SESSION_KEY) : -1])
    message = "the line is neither a session header nor a record"
    raise InvalidDocument(message, code="not_a_session_line", place="line")


def scan_record_lines(lines: Iterable[bytes]) -> Iterator[tuple[bytes, _RecordOutline]]:
    """Yield each line with the outline of its record, up to the first line without an outline.

    A line has an outline if it is complete and its record has the current format. The caller
    decodes the first line without an outline in full. All lines of a file are scanned before the
    first record is read, so the scan has to be much faster than decoding.
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
    """A complete line of a session file: its offset, its bytes and its decoded content."""

    offset: int
    raw: bytes
    content: Header | Record


def read_lines(
    file: int, name: str, *, size: int, offset: int = 0, number: int = 1
) -> Iterator[SessionLine]:
    """Yield the complete lines of a file up to `size`, from line `number` at `offset` on.

    A torn tail is ignored. Raises Damaged, with the number of the line, if a line is damaged, and
    UnsupportedVersion if the header has another version.
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
                        f"{name}, line {number}", "the checksum does not match", "checksum_mismatch"
                    )
                return
            if isinstance(content, Header) != (number == 1):
                raise _damaged_line(
                    f"{name}, line {number}",
                    "line 1, and only line 1, must be the session header",
                    "header_misplaced",
                )
            yield SessionLine(offset, raw, content)
            offset += len(raw)
            number += 1


class ForeignFile(Damaged):
    """A file of another program at the path of a session."""

    code = "foreign_file"


def read_header(file: int, name: str) -> Header | None:
    """Return the header in the first line; None if that line is missing or torn.

    Raises Damaged if the line is damaged, and ForeignFile if the file does not begin like a session
    file.
    """
    try:
        for line in read_lines(file, name, size=os.fstat(file).st_size):
            assert isinstance(line.content, Header)
            return line.content
    except Damaged as exc:
        if _OWN_LINE_START.search(os.pread(file, _CHUNK_BYTES, 0)) is not None:
            raise
        raise ForeignFile(
            "not a session file of steno; move it to another folder", place=name
        ) from exc
    return None


@final
class BackwardReader:
    """Reads entries from the last to the first; adjacent entries share one read of the file."""

    def __init__(self, file: int) -> None:
        """Create a reader for a file descriptor; the indexed part of the file must not change."""
        self._file = file
        self._begin = self._end = self._last = 0
        self._chunk = b""

    def read(self, entry_id: str, span: LineSpan) -> tuple[Entry, str] | None:
        """Return the entry in the line at `span`, and its digest.

        Return None if the line is damaged or does not contain the entry with the given id.
        """
        offset, length = span
        end = offset + length
        if offset < self._begin or end > self._end:
            # If an entry is adjacent to the one read before, most of its ancestors are, too.
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
    """Decode a line; None if it has no line break or its checksum does not match.

    Raises Damaged if the checksum matches but the line is neither a header nor a record, and
    UnsupportedVersion if a header has another version.
    """
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
            f"{name}, line {number}", "the line is not a session record", "record_unreadable"
        ) from exc


def _may_be_torn(raw: bytes, offset: int) -> bool:
    """Return whether a crash during the last write could have left this incomplete line.

    Such a line lacks its line break, or whole sectors of the line are filled with NULs.
    """
    if not raw.endswith(b"\n"):
        return True
    begin, end = raw.find(b"\0"), raw.rfind(b"\0") + 1
    is_aligned = (offset + end) % _SECTOR_BYTES == 0 and (
        begin == 0 or (offset + begin) % _SECTOR_BYTES == 0
    )
    return begin >= 0 and is_aligned


def _has_more_content(stream: BinaryIO, size: int) -> bool:
    """Return whether content other than NULs follows; file systems add NULs after a crash."""
    left = size - stream.tell()
    while piece := stream.read(max(min(left, _CHUNK_BYTES), 0)):
        if piece.strip(b"\0"):
            return True
        left -= len(piece)
    return False


def _contains_whole_line(raw: bytes) -> bool:
    """Return whether a line ends with a complete line, whose preceding line break was lost."""
    starts = islice(_LINE_START.finditer(raw, 1), _MAX_LINE_STARTS)
    return any(_decode_whole_line(raw[start.start() :], "line", 1) for start in starts)


def _damaged_line(place: str, rule: str, code: str) -> Damaged:
    return Damaged(
        f"{rule}; restore the file from a backup, or delete this line and all lines after it",
        code=code,
        place=place,
    )


@final
class SessionFileIndex:
    """The header, branches and line positions of a session file. Callers of methods hold `lock`."""

    def __init__(self, name: str) -> None:
        self.lock: Final = RLock()
        self.reported_tail: tuple[int, int] | None = None
        """The start and end of the torn tail that was last logged."""
        self._name = name
        self.reset()

    def reset(self) -> None:
        """Empty the index. `spans` becomes a new dict, since snapshots refer to the old dict."""
        self.header: Header | None = None
        self.heads: BranchHeads = BranchHeads()
        self.spans: dict[str, LineSpan] = {}
        self.last_seq: int = 0
        self.end: int = 0
        """The offset of the next line."""
        self._lines = 0
        self._inode = 0
        self._mark = 0, b""
        """The offset and first bytes of the last line, which show whether the file was replaced."""

    def catch_up(self, file: int) -> int:
        """Add the lines that were written since the last call; return the size of the torn tail.

        Raises Damaged if a line is damaged, and UnsupportedVersion if the header has another
        version.
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
        """Add lines by their outline, up to the first line that must be decoded in full."""
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
        """Decode and add the remaining lines, or at most `max_lines` of them.

        Raises Damaged if one of these lines is damaged.
        """
        number = self._lines + 1
        left = read_lines(file, self._name, size=size, offset=self.end, number=number)
        for line in islice(left, max_lines):
            self.add_line(line.raw, line.content)

    def _is_same_file(self, file: int) -> bool:
        """Return whether the file still has the last line that was indexed.

        The inode alone does not identify the file, since a new file may reuse it.
        """
        offset, mark = self._mark
        return os.pread(file, len(mark), offset) == mark

    def add_line(self, raw: bytes, content: Header | Record) -> None:
        """Add a line that begins at `end`."""
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
