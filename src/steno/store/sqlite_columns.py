"""A record as the columns of a row, and back; a database holds many of them, so they are short.

Of a record with an entry the row keeps the JSON of the entry only, as every store has it: the
number is the key, the branch a column, the digest 32 bytes. The checksum is about all of these.
What begins a branch, or came with members that only a newer version knows, is kept as the JSON of
the whole record, and so is everything that versions 1 and 2 of the layout wrote: such a row has no
digest of its own. An id that is a UUID, as ours are, takes 16 bytes; any other stands as text, and
so does every one that these versions wrote (`has_text_ids` of a session).
"""

from __future__ import annotations

import re
from binascii import crc32
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from steno.codec import decode_entry, decode_record, encode_entry, encode_record
from steno.codec.scan import one_line
from steno.entry import Entry
from steno.errors import Damaged, InvalidDocument
from steno.record import Record

Id: TypeAlias = str | bytes
"""The id of an entry, as a row has it."""
Row: TypeAlias = tuple[int | None, int | None, str, Id | None, int, bytes, bytes | None]
"""What a row of `record` holds behind its key."""
Content: TypeAlias = tuple[int, str, int, bytes, bytes | None]
"""What a record is made of again: its number, branch, checksum, data, digest."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def row_of(record: Record, parent: int | None) -> Row:
    """Return the row of a record, without its key."""
    entry = record.entry
    id, time = (None, None) if entry is None else (packed(entry.id), entry.time)
    stamp = None if time is None else microseconds(time)
    return parent, stamp, record.branch, id, *content_of(record)


def content_of(record: Record) -> tuple[int, bytes, bytes | None]:
    """Return the checksum of a record, its data, and its digest if that does not hold it."""
    if record.entry is None or record.digest is None or record.unknown:
        data, digest = encode_record(record), None
    else:
        data, digest = one_line(encode_entry(record.entry)), bytes.fromhex(record.digest)
    return _checksum(record.seq, record.branch, data, digest), data, digest


def record_from(row: Content) -> Record:
    """Return the record of a row. Raises Damaged."""
    seq, branch, _, data, digest = row
    if digest is not None:
        entry, told = entry_from(row)
        return Record(seq=seq, branch=branch, entry=entry, digest=told)
    _check(row)
    try:
        record = decode_record(data)
    except InvalidDocument as exc:
        raise _unreadable(seq) from exc
    if record.seq != seq:
        raise Damaged(f"record {seq}: another one is in its place")
    return record


def entry_from(row: Content) -> tuple[Entry | None, str | None]:
    """Return the entry of a row and its digest; None where a branch begins. Raises Damaged."""
    seq, _, _, data, digest = row
    if digest is None:
        record = record_from(row)
        return record.entry, record.digest
    _check(row)
    try:
        return decode_entry(data), digest.hex()
    except InvalidDocument as exc:
        raise _unreadable(seq) from exc


def _unreadable(seq: int) -> Damaged:
    return Damaged(f"record {seq}: it cannot be read")


def _check(row: Content) -> None:
    """Raise Damaged if a row is not what was written; then its columns may hold anything."""
    seq, branch, checksum, data, digest = row
    is_readable = (
        type(branch) is str and type(data) is bytes and (digest is None or type(digest) is bytes)
    )
    if not is_readable or _checksum(seq, branch, data, digest) != checksum:
        raise Damaged(f"record {seq}: its bytes are not those that were written")


def _checksum(seq: int, branch: str, data: bytes, digest: bytes | None) -> int:
    """Return the CRC-32 of the data, and of what stands beside it instead of in it."""
    if digest is None:
        return crc32(data)
    return crc32(data, crc32(digest, crc32(branch.encode(), seq)))


# -- ids and times ---------------------------------------------------------------------------


def packed(id: str) -> Id:
    """Return an id as it is kept."""
    return bytes.fromhex(id.replace("-", "")) if _UUID.fullmatch(id) else id


def unpacked(id: Id | None) -> str | None:
    """Return an id that was kept in either form; None where there is none."""
    if not isinstance(id, bytes):
        return id
    digits = id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def microseconds(moment: datetime) -> int:
    """Return a time as it is kept."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """Return a time that was kept."""
    return _EPOCH + microseconds * _MICROSECOND
