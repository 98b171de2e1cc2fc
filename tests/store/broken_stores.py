"""Broken stores, each with one fault that real stores have or had, and the cases that detect it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from steno.codec import encode_record
from steno.errors import Conflict, Missing, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import searchable_text
from steno.records.entry import Entry, Payload
from steno.records.stored_record import Header, Record
from steno.store import MemoryStore, SearchHit, SessionOverview, Store
from steno.testing.stores import AddressStoreHarness, CaseScale, StoreHarness
from steno.values import NOTHING
from tests.store.broken_disk_stores import (
    LetsOsErrorsThrough,
    LocksOthersOut,
    MendsTooMuch,
    RacesWithOthers,
    RefusesTornFiles,
    VouchesForAll,
    Wrapped,
    WritesLate,
)

SMALL = CaseScale(entries=1500, sessions=120, writes=12, crashes=6, places=100)


class BrokenSubject(StoreHarness):
    """Every opening wraps the same store in memory."""

    is_durable = False
    is_shared = False
    scale = SMALL

    def __init__(self, kind: type[Wrapped]) -> None:
        self.name = kind.__name__
        self.address = "memory:"
        self.kind = kind
        self.good = MemoryStore()

    def open(self) -> Store:
        return self.kind(self.good)


# -- sessions ----------------------------------------------------------------------------------


class LosesTheLastRecord(Wrapped):
    """Loses the record in its buffer when it is closed."""

    fails = (
        "append_and_read_back reopen_and_continue many_sessions remove_session closed_store "
        "heads_order branch_in_empty_session odd_branch_names fork_shares_entries "
        "rewind_keeps_later_entries switch_is_recorded every_payload odd_text large_text "
        "records_are_numbered convert_keeps_digests images_as_blobs "
        "read_replaced_record redaction_keeps_chain_valid"
        " long_results_as_blobs rename_changes_only_title"
    )

    def __init__(self, good: Store) -> None:
        super().__init__(good)
        self.last: str | None = None

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        super().append(session, entry, **place)
        self.last = session

    def close(self) -> None:
        if self.last is not None:
            with suppress(Missing):
                header, records = self.header(self.last), list(self.records(self.last))
                self.remove(self.last)
                self.add_session(header, records[:-1])
            self.last = None


class BeginsWhatItIsAskedFor(Wrapped):
    """Creates a session when a missing one is read."""

    fails = "missing_session remove_session failed_write_changes_nothing"

    def header(self, session: str) -> Header:
        with suppress(Conflict):
            self.good.add_session(Header(id=session))
        return super().header(session)


class FindsNothing(Wrapped):
    """Returns nothing where it should raise Missing."""

    fails = "missing_session missing_entry"

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        try:
            yield from super().read_back(session, entry_id)
        except Missing:
            return


class WritesOverSessions(Wrapped):
    """Replaces a session when another one with its id is added."""

    fails = "duplicate_session_id"

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        found = list(records)
        with suppress(Missing):
            self.good.remove(header.id)
        super().add_session(header, found)


class AddsByHalves(Wrapped):
    """Writes the header before it reads the records."""

    fails = "failed_write_changes_nothing"

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        super().add_session(header)
        found = list(records)
        self.good.remove(header.id)
        super().add_session(header, found)


class RenamesByHeart(Wrapped):
    """Rewrites the header without its unknown members."""

    fails = "rename_changes_only_title"

    def rename(self, session: str, title: str | None) -> None:
        header, records = self.header(session), list(self.records(session))
        self.good.remove(session)
        self.good.add_session(replace(header, title=title, unknown=NOTHING), records)


class FoldsSessionNames(Wrapped):
    """Maps two session ids to the same name."""

    fails = "odd_session_ids"

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        super().add_session(replace(header, id=header.id.replace("/", "_").lower()), records)


class ListsAHundred(Wrapped):
    """Lists only the first page of sessions."""

    fails = "many_sessions"

    def headers(self) -> Iterator[Header]:
        return islice(super().headers(), 100)


class ReadsAThousand(Wrapped):
    """Reads back only the first page of entries."""

    fails = "hundred_thousand_entries"

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return islice(super().read_back(session, entry_id), 1000)


class CountsRecords(Wrapped):
    """Counts every record as an entry."""

    fails = "summary"

    def summary(self, session: str) -> SessionOverview:
        return super().summary(session)._replace(entries=len(list(self.records(session))) + 1)


class ReportsLatestTimeAsLastWrite(Wrapped):
    """Reports the latest time of an entry as the time of the last write."""

    fails = "summary"

    def summary(self, session: str) -> SessionOverview:
        found = super().summary(session)
        return found._replace(written_at=found.updated_at)


class HidesWhatIsRemoved(Wrapped):
    """Hides a removed session instead of deleting it."""

    fails = "remove_session unknown_entry_kept convert_keeps_digests search_finds_new_entries"

    hidden: ClassVar[set[str]] = set()

    def remove(self, session: str) -> None:
        self.header(session)
        self.hidden.add(session)

    def headers(self) -> Iterator[Header]:
        return (header for header in super().headers() if header.id not in self.hidden)

    def header(self, session: str) -> Header:
        if session in self.hidden:
            raise Missing("store: no session with this id")
        return super().header(session)


class SpeaksForeignWhenClosed(Wrapped):
    """Raises the exceptions of its driver."""

    fails = "closed_store"

    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def header(self, session: str) -> Header:
        if self.is_closed:
            raise RuntimeError("Cannot operate on a closed database.")
        return super().header(session)


# -- branches ----------------------------------------------------------------------------------


class SortsHeads(Wrapped):
    """Returns heads by name."""

    fails = "heads_order odd_branch_names switch_is_recorded convert_keeps_digests"

    def heads(self, session: str) -> Mapping[str, str | None]:
        return dict(sorted(super().heads(session).items()))


class AcceptsALostRace(Wrapped):
    """Appends without comparing the last entry with `expected`."""

    fails = "failed_write_changes_nothing conflict_on_lost_race threads_on_one_session"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        place["expected"] = self.heads(session).get(place["branch"])
        super().append(session, entry, **place)


class SwallowsConflicts(Wrapped):
    """Ignores conflicts: the entry of the later writer is lost."""

    fails = (
        "failed_write_changes_nothing conflict_on_lost_race duplicate_entry_id "
        "threads_on_one_session"
    )

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        with suppress(Conflict):
            super().append(session, entry, **place)


class TakesIdsTwice(Wrapped):
    """Overwrites an entry with another of the same id: an upsert instead of an insert."""

    fails = "duplicate_entry_id"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        known = {record.entry.id for record in self.records(session) if record.entry is not None}
        if entry.id not in known:
            super().append(session, entry, **place)


class BeginsAnyBranch(Wrapped):
    """Appends to branches that were not begun."""

    fails = (
        "append_and_read_back failed_write_changes_nothing missing_branch "
        "fork_shares_entries verify_reports_first_bad_record "
        "read_replaced_record redaction_keeps_chain_valid "
        "threads_with_own_sessions"
    )

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        with suppress(Conflict):
            self.good.begin_branch(session, place["branch"], place["expected"])
        super().append(session, entry, **place)


class GivesNamesTwice(Wrapped):
    """Accepts a second branch with the same name."""

    fails = "duplicate_branch_name"

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        with suppress(Conflict):
            super().begin_branch(session, name, at)


class NeedsAPast(Wrapped):
    """Refuses a branch that begins in an empty session: a column that must not be null."""

    fails = "branch_in_empty_session"

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        if at is None and name not in self.heads(session):
            raise Unavailable("store: not null")
        super().begin_branch(session, name, at)


class FoldsBranches(Wrapped):
    """Compares branch names case-insensitively."""

    fails = "odd_branch_names"

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        if name.casefold() in {known.casefold() for known in self.heads(session)}:
            raise Conflict("store: a branch with this name already exists")
        super().begin_branch(session, name, at)


class ForgetsWhereBranchesBegan(Wrapped):
    """Begins every branch at the last entry instead of the given one."""

    fails = "missing_entry odd_branch_names fork_shares_entries convert_keeps_digests"

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        heads = list(self.heads(session).values())
        super().begin_branch(session, name, heads[-1] if heads and at else at)


class DropsWhatWasLeft(Wrapped):
    """Drops entries that no branch leads to."""

    fails = "rewind_keeps_later_entries"

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        heads = [head for head in self.heads(session).values() if head is not None]
        alive = {e.id for head in heads for e, _ in self.good.read_back(session, head)}
        if entry_id not in alive:
            raise Missing("store: no entry with this id")
        return super().read_back(session, entry_id)


class ClonesByReference(Wrapped):
    """Returns the original session as the clone."""

    fails = "clone_is_independent search_finds_new_entries"

    def clone(self, session: str, *, title: str | None = None) -> Conversation:
        return self.open(session)


# -- content -----------------------------------------------------------------------------------


class DropsUnknownMembers(Wrapped):
    """Writes only the members that it knows."""

    fails = "header_round_trip rename_changes_only_title unknown_entry_kept"

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        known = (replace(record, unknown=NOTHING) for record in records)
        super().add_session(replace(header, unknown=NOTHING), known)


class DropsTheAudit(Wrapped):
    """Does not store the audit of an entry."""

    fails = "every_payload odd_text redaction_keeps_chain_valid"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        super().append(session, replace(entry, audit=None), **place)


class RefusesNul(Wrapped):
    """Fails for text with NUL."""

    fails = "odd_text"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        if b"\\u0000" in encode_record(Record(seq=1, branch="b", entry=entry, digest="0" * 64)):
            raise Unavailable("store: a string literal cannot contain NUL")
        super().append(session, entry, **place)


class RefusesLargeText(Wrapped):
    """Has a limit for the size of a line."""

    fails = "large_text"

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        if len(searchable_text(entry)) > 1_000_000:
            raise Unavailable("store: the line is too long")
        super().append(session, entry, **place)


class StripsIds(Wrapped):
    """Compares ids without the spaces around them: a column of fixed width."""

    fails = "odd_ids"

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return super().read_back(session, entry_id.strip())


class CountsFromTwo(Wrapped):
    """Numbers records with a gap."""

    fails = (
        "append_and_read_back reopen_and_continue hundred_thousand_entries duplicate_entry_id "
        "conflict_on_lost_race branch_in_empty_session odd_branch_names "
        "fork_shares_entries rewind_keeps_later_entries switch_is_recorded "
        "clone_is_independent every_payload unknown_entry_kept odd_text large_text "
        "odd_ids records_are_numbered convert_keeps_digests images_as_blobs "
        "verify_reports_first_bad_record redaction_keeps_chain_valid "
        "search_finds_new_entries threads_on_one_session threads_with_own_sessions"
        " long_results_as_blobs rename_changes_only_title search_finds_words"
    )

    def records(self, session: str) -> Iterator[Record]:
        return (replace(record, seq=record.seq + 1) for record in super().records(session))

    def replace(self, session: str, record: Record) -> None:
        super().replace(session, replace(record, seq=max(record.seq - 1, 1)))


class LosesForksOnTheWay(Wrapped):
    """Copies entries but not the records that begin branches."""

    fails = "clone_is_independent convert_keeps_digests"

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        super().add_session(header, (record for record in records if record.entry is not None))


# -- blobs -------------------------------------------------------------------------------------


class ShortensBlobs(Wrapped):
    """Truncates large blobs."""

    fails = "blob_round_trip long_results_as_blobs"

    def blob(self, sha256: str) -> bytes:
        return super().blob(sha256)[:65_536]


class HasEveryBlob(Wrapped):
    """Returns empty bytes for a missing blob."""

    fails = (
        "blob_round_trip missing_blob hostile_blob_names garbage_collection long_results_as_blobs"
    )

    def blob(self, sha256: str) -> bytes:
        try:
            return super().blob(sha256)
        except Missing:
            return b""


class TrustsNamesOfBlobs(Wrapped):
    """Accepts names that are not exactly a digest."""

    fails = "hostile_blob_names"

    def blob(self, sha256: str) -> bytes:
        return super().blob(sha256.strip().lower())


class KeepsImagesInside(Wrapped):
    """Stores no blobs."""

    fails = "images_as_blobs garbage_collection long_results_as_blobs"

    def extract_blobs(self, payload: Any) -> Payload:
        return payload  # type: ignore[no-any-return]


class CollectsTooMuch(Wrapped):
    """Removes new blobs that no record refers to yet."""

    fails = "garbage_collection"

    def collect_garbage(
        self, *, only: Iterable[str] | None = None, older_than: timedelta = timedelta(0)
    ) -> int:
        return super().collect_garbage(only=only, older_than=timedelta(0))


# -- redaction and search ----------------------------------------------------------------------


class KeepsRedactedContent(Wrapped):
    """Ignores `replace`."""

    fails = (
        "garbage_collection verify_reports_first_bad_record read_replaced_record "
        "redaction_keeps_chain_valid"
    )

    def replace(self, session: str, record: Record) -> None:
        self.header(session)


class ReplacesTheCopy(Wrapped):
    """Caches entries that it read back, and does not update them on `replace`."""

    fails = "read_replaced_record redaction_keeps_chain_valid"

    first: ClassVar[dict[tuple[str, str], Entry]] = {}

    def read_back(self, session: str, entry_id: str) -> Iterator[tuple[Entry, str]]:
        for entry, digest in super().read_back(session, entry_id):
            yield self.first.setdefault((session, entry.id), entry), digest

    def replace(self, session: str, record: Record) -> None:
        list(self.read_back(session, list(self.heads(session).values())[-1] or ""))
        super().replace(session, record)


class FindsPartsOfWords(Wrapped):
    """Searches with LIKE."""

    fails = "search_finds_words"

    def search(self, text: str, *, limit: int = 20) -> list[SearchHit]:
        found = [
            SearchHit(header.id, record.entry, searchable_text(record.entry))
            for header in self.headers()
            for record in self.records(header.id)
            if record.entry is not None
            if text and text.lower() in searchable_text(record.entry).lower()
        ]
        return found[:limit]


class SearchesItsOwn(Wrapped):
    """Finds only the entries that this open store has written."""

    fails = "search_finds_new_entries"

    def __init__(self, good: Store) -> None:
        super().__init__(good)
        self.own: set[str] = set()

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        super().append(session, entry, **place)
        self.own.add(entry.id)

    def add_session(self, header: Header, records: Iterable[Record] = ()) -> None:
        found = list(records)
        super().add_session(header, found)
        self.own |= {record.entry.id for record in found if record.entry is not None}

    def search(self, text: str, *, limit: int = 20) -> list[SearchHit]:
        found = super().search(text, limit=1000)
        return [hit for hit in found if hit.entry.id in self.own][:limit]


# -- concurrency -------------------------------------------------------------------------------


class RemembersHeads(Wrapped):
    """Assumes that it is the only writer."""

    fails = "conflict_on_lost_race heads_order writes_visible_to_others"

    def __init__(self, good: Store) -> None:
        super().__init__(good)
        self.known: dict[str, dict[str, str | None]] = {}

    def heads(self, session: str) -> Mapping[str, str | None]:
        return self.known.setdefault(session, dict(super().heads(session)))

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        super().append(session, entry, **place)
        self._note(session, place["branch"], entry.id)

    def begin_branch(self, session: str, name: str, at: str | None) -> None:
        super().begin_branch(session, name, at)
        self._note(session, name, at)

    def remove(self, session: str) -> None:
        super().remove(session)
        self.known.pop(session, None)

    def _note(self, session: str, branch: str, head: str | None) -> None:
        known = self.known.get(session)
        if known is not None:
            known.pop(branch, None)
            known[branch] = head


class SharesACursor(Wrapped):
    """Keeps the current session in an attribute that all threads change."""

    fails = "threads_with_own_sessions"

    session = ""

    def append(self, session: str, entry: Entry, **place: Any) -> None:
        self.session = session
        time.sleep(0.0005)
        super().append(self.session, entry, **place)


_SHARED = MemoryStore()


def open_in_memory(_address: str) -> Store:
    return SortsHeads(_SHARED)


IN_MEMORY: tuple[type[Wrapped], ...] = (
    LosesTheLastRecord,
    BeginsWhatItIsAskedFor,
    FindsNothing,
    WritesOverSessions,
    AddsByHalves,
    RenamesByHeart,
    FoldsSessionNames,
    ListsAHundred,
    ReadsAThousand,
    CountsRecords,
    ReportsLatestTimeAsLastWrite,
    HidesWhatIsRemoved,
    SpeaksForeignWhenClosed,
    SortsHeads,
    AcceptsALostRace,
    SwallowsConflicts,
    TakesIdsTwice,
    BeginsAnyBranch,
    GivesNamesTwice,
    NeedsAPast,
    FoldsBranches,
    ForgetsWhereBranchesBegan,
    DropsWhatWasLeft,
    ClonesByReference,
    DropsUnknownMembers,
    DropsTheAudit,
    RefusesNul,
    RefusesLargeText,
    StripsIds,
    CountsFromTwo,
    LosesForksOnTheWay,
    ShortensBlobs,
    HasEveryBlob,
    TrustsNamesOfBlobs,
    KeepsImagesInside,
    CollectsTooMuch,
    KeepsRedactedContent,
    ReplacesTheCopy,
    FindsPartsOfWords,
    SearchesItsOwn,
    RemembersHeads,
    SharesACursor,
)
ON_DISK: dict[type[Wrapped], str] = {
    WritesLate: "open_writes_late",
    LetsOsErrorsThrough: "open_lets_os_errors_through",
    RacesWithOthers: "open_races_with_others",
    LocksOthersOut: "open_locks_others_out",
    RefusesTornFiles: "open_refuses_torn_files",
    MendsTooMuch: "open_mends_too_much",
    VouchesForAll: "open_vouches_for_all",
}


def on_disk(kind: type[Wrapped], folder: Path) -> StoreHarness:
    """Return a harness for a broken store that other processes can open as well."""
    opener = f"{kind.__module__}:{ON_DISK[kind]}"
    root = folder / "store"
    return AddressStoreHarness(kind.__name__, str(root), opener=opener, root=root, scale=SMALL)
