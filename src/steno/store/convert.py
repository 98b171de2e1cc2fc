"""Copy sessions from one store to another, digests and all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steno.chain import verify
from steno.errors import Conflict, Damaged
from steno.store.store import Store, named_in


def convert_store(
    source: Store,
    target: Store,
    sessions: Iterable[str] | None = None,
    *,
    skip_existing: bool = False,
    tell: Callable[[str], None] = lambda session: None,
) -> int:
    """Copy sessions, all of them unless some are named, and the blobs that they refer to.

    `tell` is called with each session that has arrived. Returns how many did. Every one is there
    as a whole or not at all. Raises Conflict at one that the target has already, unless those
    are to be skipped, and Damaged at one whose chain is broken.
    """
    wanted = [header.id for header in source.headers()] if sessions is None else list(sessions)
    there = {header.id for header in target.headers()}
    names = [name for name in wanted if name not in there]
    if len(names) < len(wanted) and not skip_existing:
        taken = next(name for name in wanted if name in there)
        raise Conflict(f"session {taken}: the target has one of this id")
    kept = {blob.sha256 for blob in source.blobs()}
    for name in names:
        records = list(source.records(name))
        problem = verify(records).bad
        if problem is not None:
            raise Damaged(f"session {name}: {problem}")
        for digest in {digest for record in records for digest in named_in(record)} & kept:
            target.put_blob(source.blob(digest))
        target.add_session(source.header(name), records)
        tell(name)
    return len(names)
