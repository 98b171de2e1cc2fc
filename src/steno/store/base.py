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
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Self, final

from msgspec.structs import replace

from steno.codec import encode_record
from steno.errors import Conflict, Damaged, InvalidDocument, Missing
from steno.ids import new_id, utc_now
from steno.log.blobs import blob_digests, extract_blobs, restore_blobs
from steno.log.chain import BadRecord, Verification, entry_digest, redact_entry, verify_records
from steno.log.conversation import Conversation
from steno.log.queries import SHELL_AUDIT_KEY, searchable_text
from steno.messages.message import ChatMessage, UserMessage
from steno.records.entry import Entry, Payload, PayloadT, Redacted, Redaction, Rewind
from steno.records.stored_record import MAIN_BRANCH, Header, Record

# -- words -----------------------------------------------------------------------------------------
#
# Words, as all stores find them: the same in every store, whatever its own idea of a word.


_SNIPPET_CONTEXT: Final = 40


_WORD_PATTERN: Final = re.compile(
    # Scripts without blanks between words: each character is one.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002fa1f]|[^\W_]+"
)


def split_words(text: str) -> list[str]:
    """Return the words of a text without their case, in order. `read_file` is two words."""
    return _WORD_PATTERN.findall(text.casefold())


def build_snippet(text: str, words: Iterable[str]) -> str:
    """Return the part of a text around the first of the words found in it, on one line."""
    folded = text.casefold()
    found = [place for word in words if (place := folded.find(word)) >= 0]
    middle = min(found, default=0)
    start, end = max(middle - _SNIPPET_CONTEXT, 0), middle + 2 * _SNIPPET_CONTEXT
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"


_BLOB_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""Whatever looks like the name of a blob."""


_MAX_APPEND_TRIES: Final = 20


_logger: Final = logging.getLogger("steno.store")


_MAX_TITLE_LENGTH: Final = 80


TITLE_SEARCH_ENTRIES: Final = 8
"""Within how many records the first question is looked for."""


class SessionOverview(NamedTuple):
    """What a list of sessions shows of one."""

    header: Header
    title: str
    """The title, or else the first question; empty where there is neither."""
    entries: int
    branches: tuple[str, ...]
    updated_at: datetime | None
    """When the last entry was written."""


class SearchHit(NamedTuple):
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
        return Conversation(messages, id=header.id, journal=_SessionJournal(self, header.id))

    def open(self, session: str) -> Conversation:
        """Go on with a session, on the branch that was written to last. Raises Missing.

        Entries of other branches are read when they are asked for.
        """
        return Conversation(id=self.header(session).id, journal=_SessionJournal(self, session))

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

    def summary(self, session: str) -> SessionOverview:
        """Return what a list shows of a session."""
        entries = [record.entry for record in self.records(session) if record.entry is not None]
        return SessionOverview(
            header := self.header(session),
            header.title or derive_title(entries[:TITLE_SEARCH_ENTRIES]),
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
                    beside.extend([(record, name) for name in blob_digests(record.entry.payload)])
                yield record

        found = verify_records(watched())
        if found.bad is not None:
            return found
        heads = self.heads(session)
        told = {branch: digests.get(head, "") for branch, head in heads.items()}
        if heads == before and told != found.heads:  # else somebody has written meanwhile
            problem = "the branches that the store knows are not those of its records"
            bad = BadRecord(len(digests) - 1, None, problem, "heads_mismatch")
            return found._replace(bad=bad)
        return found._replace(bad=self._find_bad_blob(beside))

    def _find_bad_blob(self, beside: Iterable[tuple[Record, str]]) -> BadRecord | None:
        """Find the first record that has lost something that lay beside it."""
        for record, digest in beside:
            try:
                self.blob(digest)
            except (Missing, Damaged):
                id = None if record.entry is None else record.entry.id
                problem = "an image or a result beside it is missing or spoilt"
                return BadRecord(record.seq, id, problem, "missing_blob")
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
        without = replace(record, entry=redact_entry(record.entry))
        # In this order: what is announced twice does no harm, what is missing has to be explained.
        self._append_redaction(session, Redaction(target=entry_id, actor=actor, reason=reason))
        self.replace(session, without)
        try:
            self.collect_garbage(only=blob_digests(payload), older_than=timedelta(0))
        except (Damaged, InvalidDocument):
            # Another session cannot be read, and may name the same blobs.
            _logger.warning("redact: what lay beside the entry stays until collect_garbage can run")

    def _append_redaction(self, session: str, payload: Redaction) -> None:
        """Append to the branch that was written to last, however busy others are with it."""
        for tries_left in reversed(range(_MAX_APPEND_TRIES)):
            branch, head = ([(MAIN_BRANCH, None), *self.heads(session).items()])[-1]
            parent = None if head is None else next(self.read_back(session, head))[1]
            entry = Entry(id=new_id(), parent=head, time=utc_now(), payload=payload)
            try:
                digest = entry_digest(entry, parent)
                self.append(session, entry, branch=branch, digest=digest, expected=head)
            except Conflict:
                if not tries_left:
                    raise
            else:
                return

    # -- finding -----------------------------------------------------------------------------

    def search(self, text: str, *, limit: int = 20) -> list[SearchHit]:
        """Find the entries that hold all words of `text`, the newest first."""
        wanted = frozenset(split_words(text))
        found = [
            SearchHit(header.id, record.entry, build_snippet(searchable_text(record.entry), wanted))
            for header in self.headers()
            for record in self.records(header.id)
            if record.entry is not None and wanted
            if wanted.issubset(split_words(searchable_text(record.entry)))
        ]
        found.sort(key=lambda hit: (hit.entry.time is not None, hit.entry.time), reverse=True)
        return found[:limit]

    # -- what lies beside the records --------------------------------------------------------

    def extract_blobs(self, payload: Payload) -> Payload:
        """Return a payload whose images and long results lie in blobs, and put them there."""
        return extract_blobs(payload, self.put_blob)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload with everything that was put aside in it again.

        Raises Missing and Damaged if a blob is not there as it was.
        """
        return restore_blobs(payload, self.blob)

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
            for digest in find_blob_digests(record)
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


class _SessionJournal:
    """The place of one session in a store (`steno.ports.Journal`)."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._session = session

    def extract_blobs(self, payload: Payload) -> Payload:
        return self._store.extract_blobs(payload)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return restore_blobs(payload, self._store.blob)

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._store.append(self._session, entry, branch=branch, digest=digest, expected=expected)

    def begin_branch(self, name: str, at: str | None) -> None:
        self._store.begin_branch(self._session, name, at)

    def heads(self) -> Mapping[str, str | None]:
        return self._store.heads(self._session)

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self._store.read_back(self._session, entry_id)


def find_blob_digests(record: Record) -> set[str]:
    """Return whatever in a record may name a blob, also where only a newer steno knows."""
    return {digest.decode() for digest in _BLOB_DIGEST.findall(encode_record(record))}


def derive_title(entries: Iterable[Entry]) -> str:
    """Return the first line of the first question among `entries`; empty where there is none.

    One that was taken back counts only if there is no other. What a command of the person has
    printed is no question.
    """
    places: dict[str | None, int] = {}
    asked: list[str] = []
    standing: list[tuple[int, str]] = []
    for number, entry in enumerate(entries):
        places[entry.id] = number
        if isinstance(entry.payload, UserMessage) and SHELL_AUDIT_KEY not in (entry.audit or {}):
            line = " ".join(entry.payload.text.split())
            asked.append(line)
            standing.append((number, line))
        elif isinstance(entry.payload, Rewind):
            back = places.get(entry.parent, -1)
            standing = [(place, line) for place, line in standing if place <= back]
    line = next((line for _, line in standing), asked[0] if asked else "")
    return line if len(line) <= _MAX_TITLE_LENGTH else line[: _MAX_TITLE_LENGTH - 1] + "…"


# -- convert ---------------------------------------------------------------------------------------
#
# Copy sessions from one store to another, digests and all.


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
        problem = verify_records(records).bad
        if problem is not None:
            raise Damaged(f"session {name}: {problem}")
        for digest in {digest for record in records for digest in find_blob_digests(record)} & kept:
            target.put_blob(source.blob(digest))
        target.add_session(source.header(name), records)
        tell(name)
    return len(names)


# -- heads -----------------------------------------------------------------------------------------
#
# What holds for the records of a session in every store: their order, and where branches end.


def validate_records(records: Iterable[Record]) -> Iterator[Record]:
    """Return the records of a whole session as they come. Raises Damaged if they cannot be one."""
    ids: set[str] = set()
    for expected, record in enumerate(records, 1):
        if record.seq != expected:
            raise Damaged(f"record {expected}: another one is in its place")
        if record.entry is not None:
            if record.entry.id in ids:
                raise Damaged(f"record {expected}: the id of its entry was used before")
            ids.add(record.entry.id)
        yield record


def check_replacement(record: Record, old: Record | None) -> None:
    """Refuse a record that is to take the place of another but in content. Raises Missing."""
    if old is None or _record_identity(record) != _record_identity(old):
        raise Missing("store: there is no record of this number with this entry")


def _record_identity(record: Record) -> tuple[int, str, str | None]:
    return record.seq, record.branch, None if record.entry is None else record.entry.id


@final
class BranchHeads:
    """The ends of all branches, in their order: the one whose entry was written last at the end.

    Branches that nothing was written to yet stand first. So to fork, and to go on where one was,
    does not make the fork the branch that a session opens with.
    """

    __slots__ = ("_begun", "_written")

    def __init__(self) -> None:
        """Start without a branch."""
        self._begun: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}

    def begin(self, branch: str, at: str | None) -> None:
        """Take note of a record without an entry: where there is no such branch, one begins.

        Whatever else it may mean to a newer version, it does not move a branch.
        """
        if branch not in self:
            self._begun[branch] = at

    def write(self, branch: str, entry_id: str) -> None:
        """Take note of an entry that was written to a branch."""
        self._begun.pop(branch, None)
        self._written.pop(branch, None)  # the latest stands last
        self._written[branch] = entry_id

    def of(self, branch: str) -> str | None:
        """Return the last entry of a branch; None if it has none, or there is no such branch."""
        return self._written.get(branch) or self._begun.get(branch)

    def all(self) -> dict[str, str | None]:
        """Return the last entry of every branch."""
        return self._begun | self._written

    def __contains__(self, branch: str) -> bool:
        return branch in self._written or branch in self._begun
