"""Where things are kept: the entries of a conversation, and the bytes that lie beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from steno.entry import Entry, P, Payload


class Journal(Protocol):
    """The place where one conversation is kept. A `Conversation` writes to it and reads from it."""

    def extract_blobs(self, payload: Payload) -> Payload:
        """Return the payload as it is to be recorded: what is large lies elsewhere by then."""
        ...

    def restore_blobs(self, payload: P) -> P:
        """Return a payload with what was put aside in it again. Raises Missing, Damaged."""
        ...

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        """Put an entry at the end of a branch; it is there for good when this returns.

        `expected` is the last entry of the branch as the writer knows it. Raises Conflict if it
        is another, Unavailable if nothing can be written; then nothing was.
        """
        ...

    def begin_branch(self, name: str, at: str | None) -> None:
        """Let a branch begin behind an entry. Raises Conflict if there is one of that name."""
        ...

    def heads(self) -> Mapping[str, str | None]:
        """Return the last entry of every branch, the branch whose entry came last at the end."""
        ...

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an entry and its digest, then its parent and so on, up to the first.

        Raises Missing if there is no such entry, Damaged if what is stored cannot be read.
        """
        ...


class Blobs(Protocol):
    """Bytes under their SHA-256, beside the records that name them. Every store is one."""

    def put_blob(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; they are durable when this returns."""
        ...

    def blob(self, sha256: str) -> bytes:
        """Return the bytes. Raises Missing, and Damaged if they are not those of the name."""
        ...
