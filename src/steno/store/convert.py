"""Copy sessions from one store to another, digests and all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from steno.content import Image, ImageBlob
from steno.errors import Damaged
from steno.record import Record
from steno.store.store import Store


def convert_store(
    source: Store,
    target: Store,
    sessions: Iterable[str] | None = None,
    *,
    tell: Callable[[str], None] = lambda session: None,
) -> int:
    """Copy sessions, all of them unless some are named, and the blobs that they refer to.

    `tell` is called with each session that has arrived. Returns how many did. Every one is there
    as a whole or not at all. Raises Conflict at one that the target has already, Damaged at one
    whose chain is broken.
    """
    names = [header.id for header in source.headers()] if sessions is None else list(sessions)
    for name in names:
        problem = source.verify(name).bad
        if problem is not None:
            raise Damaged(f"session {name}: {problem}")
        records = list(source.records(name))
        for digest in _blobs_of(records):
            target.put_blob(source.blob(digest))
        target.add_session(source.header(name), records)
        tell(name)
    return len(names)


def _blobs_of(records: Iterable[Record]) -> Iterator[str]:
    """Return the digests of the blobs that records refer to."""
    for record in records:
        if record.entry is not None:
            for block in getattr(record.entry.payload, "content", ()):
                if isinstance(block, Image) and isinstance(block.source, ImageBlob):
                    yield block.source.sha256
