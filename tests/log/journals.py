"""Journals for tests: kept in a list, and stopped or broken at will."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from steno.errors import Unavailable
from steno.log.blobs import restore_blobs
from steno.log.conversation import Conversation
from steno.records.entry import Entry, Payload, PayloadT
from steno.store import MemoryStore


def do_nothing() -> None:
    """Do nothing where something could be done."""


class Journal:
    """The journal of one session in a store in memory, with a hook for each step."""

    def __init__(self, store: MemoryStore | None = None, session: str | None = None) -> None:
        self.store = store or MemoryStore()
        self.session = self.store.new().id if session is None else session
        self.before_append: Callable[[], None] = do_nothing
        self.before_read: Callable[[], None] = do_nothing
        self.between_heads: Callable[[], None] = do_nothing
        self.is_full = False

    def again(self) -> Journal:
        """Return another journal for the same session."""
        return Journal(self.store, self.session)

    def open(self) -> Conversation:
        return Conversation(id=self.session, journal=self)

    def extract_blobs(self, payload: Payload) -> Payload:
        return self.store.extract_blobs(payload)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return restore_blobs(payload, self.store.blob)

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self.before_append()
        if self.is_full:
            raise Unavailable("journal: the disk is full")
        self.store.append(self.session, entry, branch=branch, digest=digest, expected=expected)

    def begin_branch(self, name: str, at: str | None) -> None:
        if self.is_full:
            raise Unavailable("journal: the disk is full")
        self.store.begin_branch(self.session, name, at)

    def heads(self) -> Mapping[str, str | None]:
        return _Heads(self.store.heads(self.session), self)

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        found = list(self.store.read_back(self.session, entry_id))
        self.before_read()
        return iter(found)


class _Heads(dict[str, str | None]):
    """Heads that take their time."""

    def __init__(self, heads: Mapping[str, str | None], journal: Journal) -> None:
        super().__init__(heads)
        self.journal = journal

    def items(self) -> Iterator[tuple[str, str | None]]:  # type: ignore[override] # one at a time
        for name, head in super().items():
            self.journal.between_heads()
            yield name, head
        self.journal.between_heads()
