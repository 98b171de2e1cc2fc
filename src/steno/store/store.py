"""What every store can do, and what a kind of store has to bring for it.

A store keeps sessions: a header, then records, each of which is durable when it was written and
never changes again, but for what is taken out of it on purpose. Blobs lie beside them, under
their SHA-256. What is abstract here is all that a new kind of store has to write; the
conformance kit in `steno.testing` says whether it did.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Self

from msgspec.structs import replace

from steno.aside import bring_back, digests_of, put_aside
from steno.chain import BadRecord, Verification, digest_of, redacted, verify
from steno.codec import encode_record
from steno.conversation import Conversation
from steno.entry import Entry, P, Payload, Redacted, Redaction, Rewind
from steno.errors import Conflict, Damaged, InvalidDocument, Missing
from steno.identity import new_id, utc_now
from steno.message import ChatMessage, UserMessage
from steno.record import MAIN, Header, Record
from steno.store.words import snippet, words_of
from steno.views import SHELL, text_of

_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""Whatever looks like the name of a blob."""
_MOST_TRIES: Final = 20
_logger: Final = logging.getLogger("steno.store")
_TITLE_LENGTH: Final = 80
NEARBY: Final = 8
"""Within how many records the first question is looked for."""


class Summary(NamedTuple):
    """What a list of sessions shows of one."""

    header: Header
    title: str
    """The title, or else the first question; empty where there is neither."""
    entries: int
    branches: tuple[str, ...]
    updated_at: datetime | None
    """When the last entry was written."""


class Hit(NamedTuple):
    """An entry that holds all the words that were searched for."""

    session: str
    entry: Entry
    snippet: str


class Blob(NamedTuple):
    """Bytes that are kept under their SHA-256."""

    sha256: str
    size: int
    stored_at: datetime


class Store(ABC):
    """Where sessions and blobs are kept. Any number of threads may use it at once."""

    # -- sessions: what a kind of store brings -----------------------------------------------

    @abstractmethod
    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        """Begin a session, with records that were written elsewhere: all of it, or nothing.

        Raises Conflict if there is a session of this id.
        """

    @abstractmethod
    def headers(self) -> Iterator[Header]:
        """Return the header of every session, in no particular order."""

    @abstractmethod
    def header(self, session: str) -> Header:
        """Return the header of a session. Raises Missing."""

    @abstractmethod
    def rename(self, session: str, title: str | None) -> None:
        """Give a session another title, or none; all else of its header stays. Raises Missing."""

    @abstractmethod
    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        """Put an entry at the end of a branch; it is durable when this returns.

        The main branch need not be begun. Raises Missing if there is no such session or branch,
        Conflict if the last entry of the branch is not `expected` or the id of the entry is
        taken, Unavailable if it cannot be written. In all of these cases nothing was.
        """

    @abstractmethod
    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        """Let a branch begin behind an entry. Raises Missing, and Conflict if the name is taken."""

    @abstractmethod
    def heads(self, session: str) -> Mapping[str, str | None]:
        """Return the last entry of every branch, the branch whose entry came last at the end.

        Those that nothing was written to yet stand first.
        """

    @abstractmethod
    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an entry and its digest, then its parent and so on. Raises Missing, Damaged."""

    @abstractmethod
    def records(self, session: str) -> Iterator[Record]:
        """Return all records of a session in the order they were written. Raises Damaged."""

    @abstractmethod
    def replace(self, session: str, record: Record) -> None:
        """Write a record over the one of the same `seq`, whose content is to be taken out.

        Nothing of the old one stays behind, in an index or in free space that is ours.
        """

    @abstractmethod
    def remove(self, session: str) -> None:
        """Forget a session and all of its records; blobs stay. Raises Missing."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. Calling it twice is fine."""

    # -- blobs: what a kind of store brings --------------------------------------------------

    @abstractmethod
    def put_blob(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; they are durable when this returns."""

    @abstractmethod
    def blob(self, sha256: str) -> bytes:
        """Return the bytes. Raises Missing, and Damaged if they are not those of the name."""

    @abstractmethod
    def blobs(self) -> Iterator[Blob]:
        """Return what is known of every blob."""

    @abstractmethod
    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        """Forget a blob, if it was not put again since a time; it is fine if there is none."""

    # -- conversations -----------------------------------------------------------------------

    def new(
        self,
        messages: Iterable[ChatMessage] = (),
        *,
        id: str | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """Begin a session and return its conversation, which writes here whatever is added to it."""
        header = Header(id=id or new_id(), created_at=utc_now(), title=title, about=about)
        self.add_session(header)
        return Conversation(messages, id=header.id, journal=_Journal(self, header.id))

    def open(self, session: str) -> Conversation:
        """Go on with a session, on the branch that was written to last. Raises Missing.

        Entries of other branches are read when they are asked for.
        """
        return Conversation(id=self.header(session).id, journal=_Journal(self, session))

    def clone(self, session: str, *, title: str | None = None) -> Conversation:
        """Copy a session to one of its own, with the same past, digests included."""
        original = self.header(session)
        header = Header(
            id=new_id(),
            created_at=utc_now(),
            title=title or original.title,
            cloned_from=original.id,
            about=original.about,
        )
        self.add_session(header, self.records(session))
        return self.open(header.id)

    def summary(self, session: str) -> Summary:
        """Return what a list shows of a session."""
        entries = [record.entry for record in self.records(session) if record.entry is not None]
        return Summary(
            header := self.header(session),
            header.title or title_of(entries[:NEARBY]),
            len(entries),
            tuple(self.heads(session)),
            max((entry.time for entry in entries if entry.time is not None), default=None),
        )

    # -- trust -------------------------------------------------------------------------------

    def verify(self, session: str) -> Verification:
        """Check every record of a session against the chain, and what lies beside it.

        Raises Damaged if a record cannot be read.
        """
        beside: list[tuple[Record, str]] = []
        digests: dict[str | None, str | None] = {None: None}
        before = self.heads(session)

        def watched() -> Iterator[Record]:
            for record in self.records(session):
                if record.entry is not None:
                    digests[record.entry.id] = record.digest
                    beside.extend([(record, name) for name in digests_of(record.entry.payload)])
                yield record

        found = verify(watched())
        if found.bad is not None:
            return found
        heads = self.heads(session)
        told = {branch: digests.get(head, "") for branch, head in heads.items()}
        if heads == before and told != found.heads:  # else somebody has written meanwhile
            problem = "the branches that the store knows are not those of its records"
            return found._replace(bad=BadRecord(len(digests) - 1, None, problem))
        return found._replace(bad=self._find_bad_blob(beside))

    def _find_bad_blob(self, beside: Iterable[tuple[Record, str]]) -> BadRecord | None:
        """Find the first record that has lost something that lay beside it."""
        for record, digest in beside:
            try:
                self.blob(digest)
            except (Missing, Damaged):
                id = None if record.entry is None else record.entry.id
                return BadRecord(
                    record.seq, id, "an image or a result beside it is missing or spoilt"
                )
        return None

    def redact(self, session: str, entry_id: str, *, actor: str, reason: str) -> None:
        """Take the content out of an entry for good; the chain stays valid, and says by whom.

        Blobs that only it referred to go as well. What was taken out before is erased once more.
        Raises Missing if there is no such entry, InvalidValue if there is nothing to take out.
        """
        for record in self.records(session):
            if record.entry is not None and record.entry.id == entry_id:
                break
        else:
            raise Missing("redact: there is no entry of this id")
        assert record.entry is not None
        payload = record.entry.payload
        if isinstance(payload, Redacted):  # it was cut short, or is to be sure of
            self.replace(session, record)
            return
        without = replace(record, entry=redacted(record.entry))
        # In this order: what is announced twice does no harm, what is missing has to be explained.
        self._append_redaction(session, Redaction(target=entry_id, actor=actor, reason=reason))
        self.replace(session, without)
        try:
            self.collect_garbage(only=digests_of(payload), older_than=timedelta(0))
        except (Damaged, InvalidDocument):
            # Another session cannot be read, and may name the same blobs.
            _logger.warning("redact: what lay beside the entry stays until collect_garbage can run")

    def _append_redaction(self, session: str, payload: Redaction) -> None:
        """Append to the branch that was written to last, however busy others are with it."""
        for tries_left in reversed(range(_MOST_TRIES)):
            branch, head = ([(MAIN, None), *self.heads(session).items()])[-1]
            parent = None if head is None else next(self.read_back(session, head))[1]
            entry = Entry(id=new_id(), parent=head, time=utc_now(), payload=payload)
            try:
                digest = digest_of(entry, parent)
                self.append(session, entry, branch=branch, digest=digest, expected=head)
            except Conflict:
                if not tries_left:
                    raise
            else:
                return

    # -- finding -----------------------------------------------------------------------------

    def search(self, text: str, *, limit: int = 20) -> list[Hit]:
        """Find the entries that hold all words of `text`, the newest first."""
        wanted = frozenset(words_of(text))
        found = [
            Hit(header.id, record.entry, snippet(text_of(record.entry), wanted))
            for header in self.headers()
            for record in self.records(header.id)
            if record.entry is not None and wanted
            if wanted.issubset(words_of(text_of(record.entry)))
        ]
        found.sort(key=lambda hit: (hit.entry.time is not None, hit.entry.time), reverse=True)
        return found[:limit]

    # -- what lies beside the records --------------------------------------------------------

    def extract_blobs(self, payload: Payload) -> Payload:
        """Return a payload whose images and long results lie in blobs, and put them there."""
        return put_aside(payload, self.put_blob)

    def restore_blobs(self, payload: P) -> P:
        """Return a payload with everything that was put aside in it again.

        Raises Missing and Damaged if a blob is not there as it was.
        """
        return bring_back(payload, self.blob)

    def collect_garbage(
        self,
        *,
        only: Iterable[str] | None = None,
        older_than: timedelta = timedelta(hours=1),
    ) -> int:
        """Remove the blobs that no record names; return how many bytes that were.

        `only` narrows it to some digests. Those of the last hour stay: somebody may be about to
        name them. Raises Damaged if a session cannot be read: it may name any of them.
        """
        latest, wanted = utc_now() - older_than, None if only is None else frozenset(only)
        old = [
            blob
            for blob in (self.blobs() if wanted is None or wanted else ())
            if blob.stored_at <= latest and (wanted is None or blob.sha256 in wanted)
        ]
        named = {
            digest
            for header in (self.headers() if old else ())
            for record in self.records(header.id)
            for digest in named_in(record)
        }
        garbage = [blob for blob in old if blob.sha256 not in named]
        for blob in garbage:
            self.remove_blob(blob.sha256, put_before=latest)
        return sum(blob.size for blob in garbage)

    # -- use as a context --------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Journal:
    """The place of one session in a store (`steno.ports.Journal`)."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session

    def extract_blobs(self, payload: Payload) -> Payload:
        return self._store.extract_blobs(payload)

    def restore_blobs(self, payload: P) -> P:
        return bring_back(payload, self._store.blob)

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._store.append(self._session, entry, branch=branch, digest=digest, expected=expected)

    def begin_branch(self, name: str, at: str | None) -> None:
        self._store.begin_branch(self._session, name, at)

    def heads(self) -> Mapping[str, str | None]:
        return self._store.heads(self._session)

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self._store.read_back(self._session, entry_id)


def named_in(record: Record) -> set[str]:
    """Return whatever in a record may name a blob, also where only a newer steno knows."""
    return {digest.decode() for digest in _DIGEST.findall(encode_record(record))}


def title_of(entries: Iterable[Entry]) -> str:
    """Return the first line of the first question among `entries`; empty where there is none.

    One that was taken back counts only if there is no other. What a command of the person has
    printed is no question.
    """
    places: dict[str | None, int] = {}
    asked: list[str] = []
    standing: list[tuple[int, str]] = []
    for number, entry in enumerate(entries):
        places[entry.id] = number
        if isinstance(entry.payload, UserMessage) and SHELL not in (entry.audit or {}):
            line = " ".join(entry.payload.text.split())
            asked.append(line)
            standing.append((number, line))
        elif isinstance(entry.payload, Rewind):
            back = places.get(entry.parent, -1)
            standing = [(place, line) for place, line in standing if place <= back]
    line = next((line for _, line in standing), asked[0] if asked else "")
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"
