"""What the two formats share that the codec reads: sessions of version 1, and flat chat lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from steno.content import Opaque
from steno.entry import Entry, Payload
from steno.formats.losses import Losses


def theirs(entry: Entry, raw: bytes, origin: str) -> Entry:
    """Return the entry of a message that only others understand, as they wrote it."""
    payload = entry.payload
    kind = payload.kind if isinstance(payload, Opaque) else ""
    return Entry(
        id=entry.id,
        parent=entry.parent,
        time=entry.time,
        payload=Opaque(kind=kind, raw=raw.decode(), origin=origin),
    )


class Written(NamedTuple):
    """An entry that was written, and whether something of it was left out."""

    place: str
    payload: Payload
    has_loss: bool


def note_differences(written: Sequence[Written], read: Sequence[Entry], losses: Losses) -> None:
    """Note what is read otherwise than it is, and of which nothing was noted."""
    for one, other in zip(written, read, strict=False):
        if not one.has_loss and one.payload != other.payload:
            losses.add(one.place, "left out: how exactly it was put")
