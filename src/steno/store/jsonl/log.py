"""What the lines of a session file amount to, and where each of them stands.

A line that is not whole is one of two things. At the end of the file, and without its line break
or with a gap of NULs in it, it is what a crash or a full disk left of a record that nobody was told
is stored: a torn tail, which readers leave out and the next writer cuts off. Anything else is
damage. Nothing here locks or writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from threading import RLock
from typing import BinaryIO, Final, NamedTuple, TypeAlias, final

from steno.entry import Entry
from steno.errors import Damaged, InvalidValue, UnsupportedVersion
from steno.record import Header, Record
from steno.store.heads import Heads
from steno.store.lines import MARK_LENGTH, Glance, decode_line, glance_at_lines

_LINE_START: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","')
_MOST_STARTS: Final = 8
"""In how many places of a broken line another one is looked for."""
_PIECE: Final = 1 << 16
_SECTOR: Final = 512
"""No disk writes less at once."""
_OURS: Final = re.compile(rb'\{"crc":"|[0-9a-f]{8}","(?:session|record)":\{')
"""Either half of how a line begins: one damaged byte does not hide both."""


class Line(NamedTuple):
    """A whole line: where it begins, its bytes, and what it says."""

    offset: int
    raw: bytes
    content: Header | Record


Place: TypeAlias = tuple[int, int]
"""Where the line of an entry begins, and how long it is; there are too many for a class."""


def read_lines(
    file: int, name: str, *, size: int, offset: int = 0, number: int = 1
) -> Iterator[Line]:
    """Read the whole lines up to `size`, from line `number`, which begins at `offset`.

    Leaves out a torn tail. Raises Damaged, naming the line; UnsupportedVersion at a newer header.
    """
    with open(file, "rb", buffering=_PIECE, closefd=False) as stream:
        stream.seek(offset)
        while raw := stream.readline(max(size - offset, 0)):
            if not (content := _whole(raw, name, number)):
                if not _may_be_torn(raw, offset) or _goes_on(stream, size) or _holds_a_line(raw):
                    raise _damaged(f"{name}, line {number}", "its checksum does not fit")
                return
            if isinstance(content, Header) != (number == 1):
                raise _damaged(f"{name}, line {number}", "the header stands in line 1, alone")
            yield Line(offset, raw, content)
            offset += len(raw)
            number += 1


class NotOurs(Damaged):
    """A file of another program, where one of ours would lie."""


def read_header(file: int, name: str) -> Header | None:
    """Return the first line; None if it is torn: then there is no session yet.

    Raises Damaged, which is NotOurs if the file does not even begin like one of ours.
    """
    try:
        for line in read_lines(file, name, size=os.fstat(file).st_size):
            assert isinstance(line.content, Header)
            return line.content
    except Damaged as exc:
        if _OURS.search(os.pread(file, _PIECE, 0)) is not None:
            raise
        raise NotOurs(f"{name}: it is no session of ours; keep it in another folder") from exc
    return None


@final
class BackwardReader:
    """Reads entries from the last to the first; many at once where they lie side by side."""

    def __init__(self, file: int) -> None:
        """Read from a file in which what is known does not change."""
        self._file = file
        self._begin = self._end = self._last = 0
        self._chunk = b""

    def read(self, entry_id: str, place: Place) -> tuple[Entry, str] | None:
        """Read an entry and its digest; None if it is not at this place."""
        offset, length = place
        end = offset + length
        if offset < self._begin or end > self._end:
            # Where one stood right before the last, most of those before it will do so, too.
            begin = min(offset, max(end - _PIECE, 0)) if end == self._last else offset
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


def _whole(raw: bytes, name: str, number: int) -> Header | Record | None:
    """Decode a line; None if it is not whole. Raises Damaged if it is, and is not one of ours."""
    if not raw.endswith(b"\n"):
        return None
    try:
        return decode_line(raw)
    except Damaged:
        return None
    except UnsupportedVersion:
        raise
    except InvalidValue as exc:
        raise _damaged(f"{name}, line {number}", "it is no record of a session") from exc


def _may_be_torn(raw: bytes, offset: int) -> bool:
    """Tell whether a crash can have left this, of a line that was the last to be written.

    Either its end is missing, or what a disk writes at once: zeros are in its place then.
    """
    if not raw.endswith(b"\n"):
        return True
    begin, end = raw.find(b"\0"), raw.rfind(b"\0") + 1
    is_aligned = (offset + end) % _SECTOR == 0 and (begin == 0 or (offset + begin) % _SECTOR == 0)
    return begin >= 0 and is_aligned


def _goes_on(stream: BinaryIO, size: int) -> bool:
    """Tell whether anything follows; what some file systems fill up with after a crash does not."""
    left = size - stream.tell()
    while piece := stream.read(max(min(left, _PIECE), 0)):
        if piece.strip(b"\0"):
            return True
        left -= len(piece)
    return False


def _holds_a_line(raw: bytes) -> bool:
    """Tell whether a line ends in one that is whole: then a line break is missing before it."""
    starts = islice(_LINE_START.finditer(raw, 1), _MOST_STARTS)
    return any(_whole(raw[start.start() :], "line", 1) for start in starts)


def _damaged(place: str, rule: str) -> Damaged:
    return Damaged(
        f"{place}: {rule}; restore the file from a copy, or cut it before this line "
        "to keep what comes first"
    )


@final
class Log:
    """What is known of one session file. Whoever calls a method holds `lock`."""

    def __init__(self, name: str) -> None:
        """Know nothing yet of the file of this name."""
        self.lock: Final = RLock()
        self.reported_tail: tuple[int, int] | None = None
        """Where the torn tail begins and ends that somebody was last told about."""
        self._name = name
        self.reset()

    def reset(self) -> None:
        """Know nothing again. Whoever still holds `places` keeps them as they were."""
        self.header: Header | None = None
        self.heads = Heads()
        self.spans: dict[str, Place] = {}
        self.last_seq = 0
        self.end = 0
        """Where the next line begins."""
        self._lines = 0
        self._inode = 0
        self._mark = 0, b""
        """Where the last line begins and how, by which we know the file again."""

    def catch_up(self, file: int) -> int:
        """Read what was written since the last look; return how long the torn tail is.

        Raises Damaged, and UnsupportedVersion at a newer header.
        """
        status = os.fstat(file)
        if status.st_ino != self._inode or status.st_size < self.end or not self._is_same_file(file):
            self.reset()
            self._inode = status.st_ino
        size = status.st_size
        if size > self.end:
            if self.header is None:
                self._add_checked_lines(file, size, most=1)
            self._add_plain_lines(file, size)
        if size > self.end:
            self._add_checked_lines(file, size)
        return size - self.end

    def _add_plain_lines(self, file: int, size: int) -> None:
        """Take the lines that a glance is enough for; most often these are all."""
        with open(file, "rb", buffering=_PIECE, closefd=False) as stream:
            stream.seek(self.end)
            last = b""
            try:
                for raw, glance in glance_at_lines(stream):
                    if self.end + len(raw) > size:
                        break
                    self._add_record(len(raw), glance)
                    last = raw
            finally:
                if last:
                    self._mark = self.end - len(last), last[:MARK_LENGTH]

    def _add_checked_lines(self, file: int, size: int, most: int | None = None) -> None:
        """Take all lines that are left, or the next ones, whatever they hold. Raises Damaged."""
        number = self._lines + 1
        left = read_lines(file, self._name, size=size, offset=self.end, number=number)
        for line in islice(left, most):
            self.add_line(line.raw, line.content)

    def _is_same_file(self, file: int) -> bool:
        """Tell whether the last line is where it was: a file may have got the inode of another."""
        offset, mark = self._mark
        return os.pread(file, len(mark), offset) == mark

    def add_line(self, raw: bytes, content: Header | Record) -> None:
        """Take one more line, which stands at the end."""
        self._mark = self.end, raw[:MARK_LENGTH]
        if isinstance(content, Header):
            self.header = content
            self.end += len(raw)
            self._lines += 1
        else:
            self._add_record(len(raw), content)

    def _add_record(self, length: int, record: Record | Glance) -> None:
        entry, offset = record.entry, self.end
        if entry is None:
            self.heads.begin(record.branch, record.at)
        else:
            self.spans[entry.id] = offset, length
            self.heads.write(record.branch, entry.id)
        self.last_seq = record.seq
        self.end = offset + length
        self._lines += 1
