"""Export sessions to files and import them, in formats of steno and of other programs.

Parts of a session that a format cannot hold are reported as omissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.app.session_log import SessionLog
from steno.app.session_lookup import UNREADABLE_ERRORS
from steno.codec import Document, decode_document, encode_document
from steno.errors import Damaged, InvalidDocument, Missing
from steno.formats import FORMATS, ExportedFile, ImportedSession, build_records
from steno.ids import new_id, utc_now
from steno.log.blobs import blob_digests
from steno.log.chain import verify_records
from steno.messages.change import Change, ChangeCode
from steno.records.entry import Entry, Payload, Redacted, Redaction
from steno.records.stored_record import Header, Record
from steno.render.changes import (
    describe_change,
    format_change,
    is_omission,
    omission_names,
)
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.render.transcript_document import BranchLocation
from steno.render.transcripts import WRITE_ONLY
from steno.store import Store
from steno.store.base import derive_title
from steno.store.jsonl.session_file import decode_line, encode_line

SESSION_PLACE: Final = "session"
"""The place of a change that is about the whole session."""
DOCUMENT_FORMAT: Final = "steno"
"""One branch in one JSON document."""
LINES_FORMAT: Final = "jsonl"
SESSION_FORMATS: Final = (DOCUMENT_FORMAT, LINES_FORMAT, *FORMATS, *WRITE_ONLY)
_MAX_NUMBERS: Final = 5


# -- export -----------------------------------------------------------------------------------


class BranchContent(NamedTuple):
    """The entries of a branch with the content of their blobs, and the omissions."""

    entries: tuple[Entry, ...]
    losses: tuple[Change, ...]


def restore_branch_blobs(store: Store, path: Iterable[Entry]) -> BranchContent:
    """Put the content of blobs back into the entries of a branch, as far as it can be read."""
    entries: list[Entry] = []
    losses: list[Change] = []
    for number, entry in enumerate(path):
        try:
            entries.append(_with_payload(entry, store.restore_blobs(entry.payload)))
        except (Missing, Damaged):
            losses.append(
                Change(ChangeCode.NOT_EXPORTED, "blob_missing", f"entries[{number}]", entry.id)
            )
            entries.append(entry)
    return BranchContent(tuple(entries), tuple(losses))


def encode_branch(
    log: SessionLog, entries: Sequence[Entry], format: str, *, branch: str | None = None
) -> ExportedFile:
    """Write the entries of a branch in a format that holds one."""
    if format == DOCUMENT_FORMAT:
        return _encode_as_document(log.header, entries)
    if format in FORMATS:
        return FORMATS[format].encode(log.header, entries)
    header, location = (
        log.header,
        BranchLocation(log.active if branch is None else branch, log.numbers),
    )
    if not header.title:  # use the title that lists show
        header = replace(header, title=derive_title(entries) or None)
    return WRITE_ONLY[format].encode(header, entries, location)


def _encode_as_document(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    times = [entry.time for entry in entries if entry.time is not None]
    document = Document(
        id=header.id,
        created_at=header.created_at,
        updated_at=max(times, default=None),
        entries=tuple(entries),
    )
    document_fields = ("id", "created_at")
    names = tuple([name for name, _ in header.non_default_fields() if name not in document_fields])
    losses = (session_omission("header_fields", names=names),) if names else ()
    return ExportedFile(encode_document(document), losses)


def encode_as_lines(log: SessionLog) -> ExportedFile:
    """Write all branches of a session, with their digests."""
    lines = [encode_line(log.header), *map(encode_line, log.records)]
    blobs = sum(len(blob_digests(entry.payload)) for entry in log.entries.values())
    losses = (session_omission("blobs", number=blobs),) if blobs else ()
    return ExportedFile(b"".join(lines).removesuffix(b"\n"), losses)


def session_omission(
    reason: str, *, names: tuple[str, ...] = (), number: int | None = None
) -> Change:
    """Return the change that reports what an exported file does not hold of a session."""
    return Change(ChangeCode.NOT_EXPORTED, reason, SESSION_PLACE, names=names, number=number)


# -- omissions --------------------------------------------------------------------------------


class OmissionSummary(NamedTuple):
    """One kind of content that an exported file does not hold."""

    name: str
    line: str
    """The name with where it is, and how often."""


def summarize_omissions(changes: Iterable[Change], log: SessionLog) -> Iterator[OmissionSummary]:
    """Return each kind of content that an exported file does not hold, those of the whole first."""
    numbers_by_kind: dict[tuple[str, str], dict[str, None]] = {}
    for change in changes:
        names = omission_names(change)
        if change.entry is None:
            place = "" if change.place == SESSION_PLACE else f"{change.place}: "
            name = terminal_line(f"{place}{', '.join(names)}")
            yield OmissionSummary(name, terminal_line(format_change(change)))
            continue
        suffix = ": left out" if is_omission(change) else ""
        for name in names:
            numbers = numbers_by_kind.setdefault((name, suffix), {})
            numbers[log.number(change.entry)] = None
    for (name, suffix), numbers in numbers_by_kind.items():
        shown = [*list(numbers)[:_MAX_NUMBERS], *(["…"] if len(numbers) > _MAX_NUMBERS else [])]
        entries = format_count(len(numbers), "entry", "entries")
        line = f"{name}{suffix} ({entries}: {', '.join(shown)})"
        yield OmissionSummary(terminal_line(name), terminal_line(line))


def omissions_as_json(changes: Iterable[Change], log: SessionLog) -> bytes:
    """Return everything that an exported file does not hold, as a JSON array."""
    report = [
        {
            "number": None if change.entry is None else log.numbers[change.entry],
            "entry": change.entry,
            "place": change.place,
            "what": describe_change(change),
        }
        for change in changes
    ]
    return msgspec.json.encode(report)


# -- import -----------------------------------------------------------------------------------


class SessionRecords(NamedTuple):
    """The header and the records of an imported session."""

    header: Header
    records: tuple[Record, ...]


def read_session_file(data: bytes, format: str) -> SessionRecords:
    """Read a session from a file. Raises InvalidValue if it is damaged or of another format."""
    if format == LINES_FORMAT:
        session = _decode_lines(data)
    else:
        imported = (
            _decode_document(data) if format == DOCUMENT_FORMAT else FORMATS[format].decode(data)
        )
        # Our own ids are unique; those of other programs may not be.
        header = (
            imported.header if format == DOCUMENT_FORMAT else replace(imported.header, id=new_id())
        )
        session = SessionRecords(header, _chain_entries(imported.entries))
    problem = verify_records(session.records).bad
    if problem is not None:
        raise InvalidDocument(str(problem), code="chain_broken")
    return session


def _decode_document(data: bytes) -> ImportedSession:
    document = decode_document(data)
    header = Header(id=document.id or new_id(), created_at=document.created_at)
    return ImportedSession(header, document.entries)


def _decode_lines(data: bytes) -> SessionRecords:
    header: Header | None = None
    records: list[Record] = []
    for number, line in enumerate(data.rstrip(b"\n").split(b"\n"), start=1):
        try:
            content = decode_line(line)
        except (Damaged, InvalidDocument) as exc:
            text = exc.text_unless_at("line")
            raise InvalidDocument(text, code=exc.code, place=f"line {number}") from None
        if isinstance(content, Header) != (number == 1):
            raise InvalidDocument(
                "the header comes first, and once", code="header_misplaced", place=f"line {number}"
            )
        if isinstance(content, Header):
            header = content
        else:
            records.append(content)
    if header is None:
        raise InvalidDocument("there is nothing in it", code="input_empty")
    return SessionRecords(header, tuple(records))


def _chain_entries(entries: Sequence[Entry]) -> tuple[Record, ...]:
    """Return the records of a new session; entries that were redacted elsewhere get a Redaction."""
    redacted_targets = {
        entry.payload.target for entry in entries if isinstance(entry.payload, Redaction)
    }
    reason = "it was taken out before it was imported"
    redactions = [
        Entry(
            id=new_id(),
            time=utc_now(),
            payload=Redaction(target=entry.id, actor="steno import", reason=reason),
        )
        for entry in entries
        if isinstance(entry.payload, Redacted) and entry.id not in redacted_targets
    ]
    return build_records([*entries, *redactions])


def with_unused_id(store: Store, header: Header) -> Header:
    """Return the header, with a new id if the store has a session of this id."""
    try:
        store.header(header.id)
    except Missing:
        return header
    except UNREADABLE_ERRORS:
        pass  # it exists, although it cannot be read
    return replace(header, id=new_id())


def store_large_content(store: Store, records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the records with their large images in blobs."""
    entries = [record.entry for record in records if record.entry is not None]
    return build_records(
        [_with_payload(entry, store.extract_blobs(entry.payload)) for entry in entries]
    )


def _with_payload(entry: Entry, payload: Payload) -> Entry:
    return entry if payload is entry.payload else replace(entry, payload=payload)
