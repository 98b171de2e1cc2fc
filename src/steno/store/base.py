"""The base class of all stores, and the rules that every kind of store shares.

A store contains sessions, each of which is a header followed by records. A record is durable once
it is written and never changes again, except that its content may be redacted. Blobs are stored
separately from the sessions, under their SHA-256. A new kind of store implements the abstract
methods of `Store`; the conformance kit in `steno.testing` checks the implementation.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Self, final

from msgspec.structs import replace

from steno.codec import decode_header, encode_record
from steno.errors import Conflict, Damaged, InvalidDocument, Missing, UnsupportedVersion
from steno.ids import new_id, utc_now
from steno.log.blobs import blob_digests, extract_blobs, restore_blobs
from steno.log.chain import BadRecord, Verification, entry_digest, redact_entry, verify_records
from steno.log.conversation import Conversation
from steno.log.queries import searchable_text, shell_command_of
from steno.messages.message import ChatMessage, UserMessage
from steno.records.entry import Entry, Payload, PayloadT, Redacted, Redaction, Rewind
from steno.records.stored_record import MAIN_BRANCH, Header, Record

TITLE_SEARCH_ENTRIES: Final = 8
"""The number of entries at the beginning of a session that are searched for the first prompt."""

_MAX_TITLE_LENGTH: Final = 80
_MAX_APPEND_TRIES: Final = 20
_SNIPPET_CONTEXT: Final = 40
_BLOB_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""Matches any text that may be the digest of a blob."""
_WORD_PATTERN: Final = re.compile(
    # Scripts without spaces between words: each character is a word.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002fa1f]|[^\W_]+"
)
_logger: Final = logging.getLogger("steno.store")


class SessionOverview(NamedTuple):
    """The properties of a session that a list of sessions shows."""

    header: Header
    title: str
    """The title, or else the first prompt; empty if there is neither."""
    entries: int
    branches: tuple[str, ...]
    updated_at: datetime | None
    """The latest time of an entry; None if no entry has a time."""
    written_at: datetime | None
    """The time of the entry that was written last; None if there is no such entry or time.

    It is earlier than `updated_at` if an earlier entry has a later time, as after an import.
    """


class SearchHit(NamedTuple):
    """An entry that contains all words of a search."""

    session: str
    entry: Entry
    snippet: str


class Blob(NamedTuple):
    """The digest of a blob, its size, and the time at which it was last stored."""

    sha256: str
    size: int
    stored_at: datetime


class Store(ABC):
    """The base class of stores for sessions and blobs. Any number of threads may use a store."""

    # -- sessions: each kind of store implements these ---------------------------------------

    @abstractmethod
    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        """Add a session, together with its records if it is a copy, as a whole or not at all.

        Raises Conflict if a session with this id exists.
        """

    @abstractmethod
    def headers(self) -> Iterator[Header]:
        """Return the header of every session, in no particular order."""

    @abstractmethod
    def header(self, session: str) -> Header:
        """Return the header of a session. Raises Missing if the session does not exist."""

    @abstractmethod
    def rename(self, session: str, title: str | None) -> None:
        """Change the title of a session; None removes the title.

        Raises Missing if the session does not exist.
        """

    @abstractmethod
    def append(
        self, session: str, entry: Entry, *, branch: str, digest: str, expected: str | None
    ) -> None:
        """Append an entry to a branch; the entry is durable when this method returns.

        The main branch exists from the start. Raises Missing if the session or branch does not
        exist, Conflict if the last entry of the branch is not `expected` or the session already
        has an entry with this id, and Unavailable if the store cannot write. After any of these
        errors except UnconfirmedWrite, a subclass of Unavailable, the store is unchanged.
        """

    @abstractmethod
    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        """Begin a branch after the entry `at`, or without entries if `at` is None.

        Raises Missing if the session or the entry does not exist, and Conflict if the branch
        exists.
        """

    @abstractmethod
    def heads(self, session: str) -> Mapping[str, str | None]:
        """Return the id of the last entry of every branch, ordered by the time of the last write.

        Branches to which no entry was written since they began are listed first.
        """

    @abstractmethod
    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an iterator over an entry and its ancestors, each with its digest.

        Raises Missing if the session or the entry does not exist, and Damaged if an entry cannot be
        read.
        """

    @abstractmethod
    def records(self, session: str) -> Iterator[Record]:
        """Return all records of a session in the order in which they were written.

        Raises Missing if the session does not exist, and Damaged if a record cannot be read.
        """

    @abstractmethod
    def replace(self, session: str, record: Record) -> None:
        """Overwrite the record with the same `seq`, in order to redact its content.

        Nothing of the old record remains in an index or in free space of the store. Raises Missing
        if the session has no record with the same `seq`, branch and entry.
        """

    @abstractmethod
    def remove(self, session: str) -> None:
        """Remove a session and all of its records, but not its blobs.

        Raises Missing if the session does not exist.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. A second call has no effect."""

    # -- blobs: each kind of store implements these ------------------------------------------

    @abstractmethod
    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; the bytes are durable when this method returns."""

    @abstractmethod
    def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob.

        Raises Missing if there is no such blob, and Damaged if the bytes do not match the digest.
        """

    @abstractmethod
    def blobs(self) -> Iterator[Blob]:
        """Return the digest, size and time of every blob."""

    @abstractmethod
    def remove_blob(self, sha256: str, *, put_before: datetime | None = None) -> None:
        """Remove a blob, if it exists and was last stored at or before `put_before`.

        If `put_before` is None, the blob is removed regardless of its age.
        """

    # -- conversations -----------------------------------------------------------------------

    def new(
        self,
        messages: Iterable[ChatMessage] = (),
        *,
        id: str | None = None,
        title: str | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """Add a session and return its conversation, which writes every entry to this store."""
        header = Header(id=id or new_id(), created_at=utc_now(), title=title, about=about)
        self.add_session(header)
        return Conversation(messages, id=header.id, journal=_SessionJournal(self, header.id))

    def open(self, session: str) -> Conversation:
        """Return the conversation of a session, on the branch last written to.

        Entries of other branches are read when they are needed. Raises Missing if the session does
        not exist.
        """
        return Conversation(id=self.header(session).id, journal=_SessionJournal(self, session))

    def clone(self, session: str, *, title: str | None = None) -> Conversation:
        """Copy a session to a new session with the same entries and digests.

        Returns the conversation of the new session. Without `title`, the title is copied, too.
        Raises Missing if the session does not exist.
        """
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
        """Return the overview of a session for a list of sessions."""
        entries = [record.entry for record in self.records(session) if record.entry is not None]
        return SessionOverview(
            header := self.header(session),
            header.title or derive_title(entries[:TITLE_SEARCH_ENTRIES]),
            len(entries),
            tuple(self.heads(session)),
            max((entry.time for entry in entries if entry.time is not None), default=None),
            entries[-1].time if entries else None,
        )

    # -- verification and redaction ----------------------------------------------------------

    def verify(self, session: str) -> Verification:
        """Check all records of a session against the hash chain, and the blobs they refer to.

        Raises Damaged if a record cannot be read.
        """
        referenced: list[tuple[Record, str]] = []
        digests: dict[str | None, str | None] = {None: None}
        before = self.heads(session)

        def collected() -> Iterator[Record]:
            for record in self.records(session):
                if record.entry is not None:
                    digests[record.entry.id] = record.digest
                    names = blob_digests(record.entry.payload)
                    referenced.extend([(record, name) for name in names])
                yield record

        found = verify_records(collected())
        if found.bad is not None:
            return found
        heads = self.heads(session)
        stored = {branch: digests.get(head, "") for branch, head in heads.items()}
        # If the heads changed during the check, another writer was active: do not compare them.
        if heads == before and stored != found.heads:
            problem = "the branches that the store lists do not match its records"
            bad = BadRecord(len(digests) - 1, None, problem, "heads_mismatch")
            return found._replace(bad=bad)
        return found._replace(bad=self._find_bad_blob(referenced))

    def _find_bad_blob(self, referenced: Iterable[tuple[Record, str]]) -> BadRecord | None:
        for record, digest in referenced:
            try:
                self.blob(digest)
            except (Missing, Damaged):
                id = None if record.entry is None else record.entry.id
                problem = "a blob that the entry refers to is missing or damaged"
                return BadRecord(record.seq, id, problem, "missing_blob")
        return None

    def redact(self, session: str, entry_id: str, *, actor: str, reason: str) -> None:
        """Erase the content of an entry, and log `actor` and `reason`. The hash chain stays valid.

        Blobs that only this entry referred to are removed. If the entry is already redacted, only
        the erasure is repeated. Raises Missing if the session has no such entry, and InvalidValue
        if the entry is itself a redaction entry or has an unknown format.
        """
        for record in self.records(session):
            if record.entry is not None and record.entry.id == entry_id:
                break
        else:
            raise missing_entry(place="redact")
        assert record.entry is not None
        payload = record.entry.payload
        if isinstance(payload, Redacted):
            # An earlier redaction may have been interrupted before the store erased old copies.
            self.replace(session, record)
            return
        without = replace(record, entry=redact_entry(record.entry))
        # The redaction is logged first: two redaction entries for one target are harmless, but
        # erased content without a redaction entry is not.
        self._append_redaction(session, Redaction(target=entry_id, actor=actor, reason=reason))
        self.replace(session, without)
        try:
            self.collect_garbage(only=blob_digests(payload), older_than=timedelta(0))
        except (Damaged, InvalidDocument):
            # A session that cannot be read may refer to the same blobs.
            _logger.warning("redact: the blobs of the entry remain until collect_garbage can run")

    def _append_redaction(self, session: str, payload: Redaction) -> None:
        """Append a redaction to the branch last written to; retry if other writers interfere."""
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

    # -- search ------------------------------------------------------------------------------

    def search(self, text: str, *, limit: int = 20) -> list[SearchHit]:
        """Return the entries that contain all words of `text`, the newest first."""
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

    # -- blobs -------------------------------------------------------------------------------

    def extract_blobs(self, payload: Payload) -> Payload:
        """Store large images and long tool results as blobs; return the payload with references."""
        return extract_blobs(payload, self.put_blob)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return the payload with the content of its blobs.

        Raises Missing if a blob does not exist, and Damaged if its bytes do not match the digest.
        """
        return restore_blobs(payload, self.blob)

    def collect_garbage(
        self, *, only: Iterable[str] | None = None, older_than: timedelta = timedelta(hours=1)
    ) -> int:
        """Remove the blobs that no record refers to; return the number of bytes removed.

        `only` limits the removal to these digests. Blobs that are younger than `older_than` are
        retained, since a writer stores a blob before the record that refers to the blob. Raises
        Damaged if a session cannot be read, since it may refer to any blob.
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

    # -- context manager ---------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@final
class _SessionJournal:
    """The journal of one session, through which a conversation writes (`steno.ports.Journal`)."""

    def __init__(self, store: Store, session: str) -> None:
        self.extract_blobs = store.extract_blobs
        self.restore_blobs = store.restore_blobs
        self.append = partial(store.append, session)
        self.begin_branch = partial(store.begin_branch, session)
        self.heads = partial(store.heads, session)
        self.read_back = partial(store.read_back, session)


def convert_store(
    source: Store,
    target: Store,
    sessions: Iterable[str] | None = None,
    *,
    skip_existing: bool = False,
    on_session: Callable[[str], None] = lambda session: None,
) -> int:
    """Copy the given sessions, or all sessions, to another store, with their digests and blobs.

    Each session is copied as a whole or not at all; `on_session` is called with the id of each
    copied session. Returns the number of sessions copied. Raises Conflict if the target already has
    one of the sessions and `skip_existing` is false, and Damaged if the hash chain of a session is
    broken.
    """
    requested = [header.id for header in source.headers()] if sessions is None else list(sessions)
    existing = {header.id for header in target.headers()}
    names = [name for name in requested if name not in existing]
    if len(names) < len(requested) and not skip_existing:
        existing_name = next(name for name in requested if name in existing)
        raise Conflict(
            "the target already has a session with this id",
            code="session_exists",
            place=f"session {existing_name}",
        )
    blobs = {blob.sha256 for blob in source.blobs()}
    for name in names:
        records = list(source.records(name))
        problem = verify_records(records).bad
        if problem is not None:
            raise Damaged(str(problem), code="chain_broken", place=f"session {name}")
        named = {digest for record in records for digest in find_blob_digests(record)}
        for digest in named & blobs:
            target.put_blob(source.blob(digest))
        target.add_session(source.header(name), records)
        on_session(name)
    return len(names)


# -- rules for the records of a session ----------------------------------------------------


def validate_records(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of a whole session.

    Raises Damaged if the `seq` numbers are not 1, 2, 3 and so on, or if an entry id repeats.
    """
    ids: set[str] = set()
    for expected, record in enumerate(records, 1):
        if record.seq != expected:
            raise Damaged(
                f"found record {record.seq} at this position",
                code="record_misplaced",
                place=f"record {expected}",
            )
        if record.entry is not None:
            if record.entry.id in ids:
                message = "an earlier record has an entry with the same id"
                raise Damaged(message, code="entry_repeated", place=f"record {expected}")
            ids.add(record.entry.id)
        yield record


def check_append(
    branch: str, *, is_known: bool, head: object, expected: object, is_taken: bool
) -> None:
    """Check that an entry may be appended to a branch.

    `is_known` is whether the store has the branch, `head` is its last entry, and `is_taken` is
    whether the session has an entry with the new id. Raises Missing if the branch does not exist,
    and Conflict if `head` is not `expected` or the id is taken.
    """
    if not is_known and branch != MAIN_BRANCH:
        raise Missing("no branch with this name", code="branch_missing", place="store")
    if head != expected:
        raise Conflict(
            "another writer appended to the branch; refresh the conversation",
            code="branch_moved",
            place="store",
        )
    if is_taken:
        raise Conflict("an entry with this id already exists", code="entry_exists", place="store")


def check_fork(*, is_known: bool, has_start: bool) -> None:
    """Check that a branch may begin.

    Raises Conflict if a branch with this name exists, and Missing if the session does not have the
    entry after which the branch begins.
    """
    if is_known:
        raise Conflict(
            "a branch with this name already exists", code="branch_exists", place="store"
        )
    if not has_start:
        raise missing_entry()


def check_replacement(record: Record, old: Record | None) -> None:
    """Raise Missing unless the stored record `old` has the same `seq`, branch and entry id."""
    if old is None or _record_identity(record) != _record_identity(old):
        raise missing_record()


def _record_identity(record: Record) -> tuple[int, str, str | None]:
    return record.seq, record.branch, None if record.entry is None else record.entry.id


@final
class BranchHeads:
    """The last entry of every branch, ordered by the time of the last write.

    Branches to which no entry was written since they began are listed first, so that a session does
    not open on an empty fork.
    """

    __slots__ = ("_begun", "_written")

    def __init__(self) -> None:
        self._begun: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}

    def begin(self, branch: str, at: str | None) -> None:
        """Add a record without an entry, which begins its branch unless the branch exists.

        In a newer format, such a record may have another meaning, but it never moves a branch.
        """
        if branch not in self:
            self._begun[branch] = at

    def write(self, branch: str, entry_id: str) -> None:
        """Record that an entry was written to a branch."""
        self._begun.pop(branch, None)
        self._written.pop(branch, None)  # so that the branch moves to the end
        self._written[branch] = entry_id

    def of(self, branch: str) -> str | None:
        """Return the last entry of a branch; None if the branch is empty or does not exist."""
        return self._written.get(branch) or self._begun.get(branch)

    def all(self) -> dict[str, str | None]:
        """Return the last entry of every branch."""
        return self._begun | self._written

    def __contains__(self, branch: str) -> bool:
        return branch in self._written or branch in self._begun


def decode_stored_header(data: bytes) -> Header:
    """Decode the stored header of a session.

    Raises Damaged if the header cannot be read, and UnsupportedVersion if it has another version.
    """
    try:
        return decode_header(data)
    except UnsupportedVersion:
        raise
    except InvalidDocument as exc:
        raise Damaged(
            "the header of a session cannot be read", code="header_unreadable", place="store"
        ) from exc


# -- errors that every kind of store raises ------------------------------------------------


def missing_session() -> Missing:
    """Return the error for a session id that the store does not have."""
    return Missing("no session with this id", code="session_missing", place="store")


def missing_entry(*, place: str = "store") -> Missing:
    """Return the error for an entry id that the session does not have."""
    return Missing("no entry with this id", code="entry_missing", place=place)


def missing_record() -> Missing:
    """Return the error for a replacement that matches no record by `seq`, branch and entry."""
    return Missing(
        "no record with this number, branch and entry", code="record_missing", place="store"
    )


def missing_blob() -> Missing:
    """Return the error for a blob digest that the store does not have."""
    return Missing("no blob with this digest", code="blob_missing", place="store")


def duplicate_session() -> Conflict:
    """Return the error for a session id that already exists."""
    return Conflict("a session with this id already exists", code="session_exists", place="store")


# -- titles, blobs and words ---------------------------------------------------------------


def find_blob_digests(record: Record) -> set[str]:
    """Return every string in a record, or in its unknown members, that may be a blob digest."""
    return {digest.decode() for digest in _BLOB_DIGEST.findall(encode_record(record))}


def derive_title(entries: Iterable[Entry]) -> str:
    """Return the first prompt among `entries` as one short line; empty if there is none.

    A rewound prompt is used only if there is no other prompt. A shell command of the user, which
    old sessions store as a user message, is not a prompt.
    """
    positions: dict[str | None, int] = {}
    prompts: list[str] = []
    current: list[tuple[int, str]] = []
    for number, entry in enumerate(entries):
        positions[entry.id] = number
        message = entry.message
        if isinstance(message, UserMessage) and shell_command_of(entry) is None:
            line = " ".join(message.text.split())
            prompts.append(line)
            current.append((number, line))
        elif isinstance(entry.payload, Rewind):
            last = positions.get(entry.parent, -1)
            current = [(position, line) for position, line in current if position <= last]
    line = next((line for _, line in current), prompts[0] if prompts else "")
    return line if len(line) <= _MAX_TITLE_LENGTH else line[: _MAX_TITLE_LENGTH - 1] + "…"


def split_words(text: str) -> list[str]:
    """Return the words of a text, case folded, in order. `read_file` is two words.

    All stores split text with this function, so that a search has the same result in each.
    """
    return _WORD_PATTERN.findall(text.casefold())


def build_snippet(text: str, words: Iterable[str]) -> str:
    """Return the part of a text around the first match of any of the words, on one line."""
    folded = text.casefold()
    positions = [position for word in words if (position := folded.find(word)) >= 0]
    middle = min(positions, default=0)
    start, end = max(middle - _SNIPPET_CONTEXT, 0), middle + 2 * _SNIPPET_CONTEXT
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
