"""What the lines of a session file amount to, and where each of them stands.

A line that is not whole is one of two things. At the end of the file, and without its line break
or with a gap of NULs in it, it is what a crash or a full disk left of a record that nobody was told
is stored: a torn tail, which readers leave out and the next writer cuts off. Anything else is
damage. Nothing here locks or writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from threading import RLock
from typing import BinaryIO, Final, NamedTuple, TypeAlias, final

from steno.errors import Damaged, InvalidValue, UnsupportedVersion
from steno.record import Header, Record
from steno.store.heads import Heads
from steno.store.lines import MARK_LENGTH, Glance, decode_line, glance_at_line

_LINE_START: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","')
_MOST_STARTS: Final = 8
"""In how many places of a broken line another one is looked for."""
_PIECE: Final = 1 << 16
_SECTOR: Final = 512
"""No disk writes less at once."""
_OURS: Final = re.compile(rb'\{"crc":"|[0-9a-f]{8}","(?:session|record)":\{')
"""Either half of how a line begins: one damaged byte does not hide both."""

Content: TypeAlias = Header | Record | Glance


class Line(NamedTuple):
    """A whole line: where it begins, its bytes, and what it says."""

    offset: int
    raw: bytes
    content: Content


class Place(NamedTuple):
    """Where the line of an entry stands."""

    offset: int
    length: int


def read_lines(
    file: int,
    name: str,
    *,
    size: int,
    offset: int = 0,
    number: int = 1,
    read: Callable[[bytes], Content] = decode_line,
) -> Iterator[Line]:
    """Read the whole lines up to `size`, from line `number`, which begins at `offset`.

    Leaves out a torn tail. Raises Damaged, naming the line; UnsupportedVersion at a newer header.
    """
    with open(file, "rb", buffering=_PIECE, closefd=False) as stream:
        stream.seek(offset)
        while raw := stream.readline(max(size - offset, 0)):
            if not (content := _whole(raw, f"{name}, line {number}", read)):
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


def read_at(file: int, place: Place) -> Record | None:
    """Read one record; None if there is none at this place."""
    try:
        content = decode_line(os.pread(file, place.length, place.offset))
    except (Damaged, InvalidValue):
        return None
    return content if isinstance(content, Record) else None


def _whole(
    raw: bytes, place: str, read: Callable[[bytes], Content] = decode_line
) -> Content | None:
    """Decode a line; None if it is not whole. Raises Damaged if it is, and is not one of ours."""
    if not raw.endswith(b"\n"):
        return None
    try:
        return read(raw)
    except Damaged:
        return None
    except UnsupportedVersion:
        raise
    except InvalidValue as exc:
        raise _damaged(place, "it is no record of a session") from exc


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
    return any(_whole(raw[start.start() :], "line") for start in starts)


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
        self.told: tuple[int, int] | None = None
        """Where the torn tail begins and ends that somebody was last told about."""
        self._name = name
        self.forget()

    def forget(self) -> None:
        """Know nothing again. Whoever still holds `places` keeps them as they were."""
        self.header: Header | None = None
        self.heads = Heads()
        self.places: dict[str, Place] = {}
        self.last_seq = 0
        self.end = 0
        """Where the next line begins."""
        self._lines = 0
        self._inode = 0
        self._mark = Place(0, 0), b""
        """The beginning of the last line, by which we know the file again."""

    def catch_up(self, file: int) -> int:
        """Read what was written since the last look; return how long the torn tail is.

        Raises Damaged, and UnsupportedVersion at a newer header.
        """
        status = os.fstat(file)
        if status.st_ino != self._inode or status.st_size < self.end or not self._recognizes(file):
            self.forget()
            self._inode = status.st_ino
        if status.st_size > self.end:
            for line in read_lines(
                file,
                self._name,
                size=status.st_size,
                offset=self.end,
                number=self._lines + 1,
                read=glance_at_line,
            ):
                self.take(line)
        return status.st_size - self.end

    def _recognizes(self, file: int) -> bool:
        """Tell whether the last line is where it was: a file may have got the inode of another."""
        place, mark = self._mark
        return os.pread(file, place.length, place.offset) == mark

    def take(self, line: Line) -> None:
        """Take one more line, which stands at the end."""
        offset, raw, content = line
        if isinstance(content, Header):
            self.header = content
        else:
            entry = content.entry
            if entry is None:
                self.heads.begin(content.branch, content.at)
            else:
                self.places[entry.id] = Place(offset, len(raw))
                self.heads.write(content.branch, entry.id)
            self.last_seq = content.seq
        self.end = offset + len(raw)
        self._lines += 1
        self._mark = Place(offset, MARK_LENGTH), raw[:MARK_LENGTH]
