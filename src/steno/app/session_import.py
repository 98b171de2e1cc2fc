"""Import sessions from files, for `steno sessions import`.

A session keeps the ID that the file contains if the store has no other session with this ID. A file
that was imported before, or whose entries the store already has under the same ID, is not added
again. The header of an imported session records the time of the import and the digest of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import asdict, replace

from steno.app.session_edit import check_session_id, clean_title
from steno.app.session_lookup import (
    FOLDER_KEY,
    IMPORT_KEY,
    UNREADABLE_ERRORS,
    ImportRecord,
    UnreadableSessions,
    read_import_record,
    readable_headers,
)
from steno.codec import decode_document, decode_message, decode_messages
from steno.codec.json_scanner import split_object
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, Missing
from steno.formats import FORMATS, build_records
from steno.formats.format import DOCUMENT_FORMAT, LINES_FORMAT
from steno.ids import new_id, utc_now
from steno.log.chain import verify_records
from steno.records.entry import Entry, Redacted, Redaction
from steno.records.stored_record import Header, Record
from steno.render.progress import ShowProgress
from steno.store import Store
from steno.store.jsonl.session_file import decode_line


class SessionFile(NamedTuple):
    """A session that was read from a file."""

    header: Header
    """The header of the session, with a new ID if the file has none."""
    records: tuple[Record, ...]
    format: str
    sha256: str
    """The digest of the file."""


class ImportedFile(NamedTuple):
    """The session of the store that has the content of a file."""

    id: str
    replaced_id: str | None
    """The ID in the file, if the session has another; else None."""
    is_added: bool
    """Whether the session was added; False if the store already had it."""


def add_session_file(
    store: Store,
    file: SessionFile,
    *,
    id: str | None = None,
    title: str | None = None,
    show_progress: ShowProgress,
) -> ImportedFile:
    """Add the session of a file to a store, as a whole or not at all.

    The session is added under the ID `id`, even if the store already has the content of the file.
    Without `id`, it is added only if the store does not have it. Raises Conflict if a session with
    the ID `id` exists, and InvalidValue if `title` is blank.
    """
    header, records = _prepare_header(file, title), file.records
    if id is None:
        earlier = _find_earlier_import(store, file)
        if earlier is not None:
            return _report(file, earlier, is_added=False)
    if file.format != LINES_FORMAT:
        records = _store_large_content(store, records)
    session = id
    if session is None:
        if _has_records(store, header.id, records):
            return _report(file, header.id, is_added=False)
        session = header.id if _is_usable(store, header.id) else new_id()
    try:
        with show_progress("adding records", len(records)) as progress:
            store.add_session(replace(header, id=session), progress.track(records))
    except Conflict as exc:
        if id is not None:
            raise Conflict(
                "a session with this ID already exists; choose another with --id",
                code="session_exists",
                place="import",
            ) from exc
        # Another program has added a session with this ID since, perhaps from the same file.
        if _has_records(store, session, records):
            return _report(file, session, is_added=False)
        return add_session_file(store, file, id=new_id(), title=title, show_progress=show_progress)
    return _report(file, session, is_added=True)


def _report(file: SessionFile, id: str, *, is_added: bool) -> ImportedFile:
    return ImportedFile(id, None if id == file.header.id else file.header.id, is_added)


def _prepare_header(file: SessionFile, title: str | None) -> Header:
    """Return the header to store: with the title and the facts about the import, without a folder.

    Otherwise, `steno -c` could continue an imported session whose folder also exists here.
    """
    header, now = file.header, utc_now()
    entries = [record.entry for record in file.records if record.entry is not None]
    times = [time for time in (header.created_at, *[e.time for e in entries]) if time is not None]
    record = ImportRecord(
        time=now, format=file.format, sha256=file.sha256, latest=max(times, default=None)
    )
    about = {name: value for name, value in (header.about or {}).items() if name != FOLDER_KEY}
    header = replace(
        header,
        about=about | {IMPORT_KEY: asdict(record)},
        created_at=header.created_at or now,
    )
    return header if title is None else replace(header, title=clean_title(title, place="--title"))


def without_import_record(header: Header) -> Header:
    """Return the header without the facts about its import, which are those of one store."""
    if IMPORT_KEY not in (header.about or {}):
        return header
    about = {name: value for name, value in (header.about or {}).items() if name != IMPORT_KEY}
    return replace(header, about=about or None)


# -- sessions that the store has --------------------------------------------------------------


def _find_earlier_import(store: Store, file: SessionFile) -> str | None:
    """Return the ID of the session that was added from the same file; None if there is none."""
    try:
        headers = readable_headers(store, UnreadableSessions())
    except UNREADABLE_ERRORS:  # no header can be read
        return None
    earlier = [
        header
        for header in headers
        if (record := read_import_record(header)) is not None
        and (record.sha256, record.format) == (file.sha256, file.format)
    ]
    # A session with the ID of the file, else the oldest: the others are copies.
    earlier.sort(key=lambda header: (header.id != file.header.id, header.created_at, header.id))
    return earlier[0].id if earlier else None


def _has_records(store: Store, session: str, records: Iterable[Record]) -> bool:
    """Return whether a session has all entries of these records, with the same history."""
    digests = {record.digest for record in records if record.entry is not None}
    try:
        return digests <= {record.digest for record in store.records(session)}
    except (Missing, *UNREADABLE_ERRORS):
        return False


def _is_usable(store: Store, id: str) -> bool:
    """Return whether an ID is valid, and no session of the store has it."""
    try:
        check_session_id(id)
        store.header(id)
    except Missing:
        return True
    except (InvalidValue, Damaged):  # a session exists, although it cannot be read
        return False
    return False


def _store_large_content(store: Store, records: Iterable[Record]) -> tuple[Record, ...]:
    """Store large images and results as blobs; return records with entries that refer to them."""
    entries = [record.entry for record in records if record.entry is not None]
    return build_records(
        [replace(entry, payload=store.extract_blobs(entry.payload)) for entry in entries]
    )


# -- reading a file ---------------------------------------------------------------------------


def read_session_file(data: bytes, format: str) -> SessionFile:
    """Read a session from a file. Raises InvalidValue if it is damaged or of another format."""
    if format == LINES_FORMAT:
        header, records = _decode_lines(data)
    else:
        if format == DOCUMENT_FORMAT:
            header, entries = _decode_document(data)
        else:
            header, entries = FORMATS[format].decode(data)
        records = _chain_entries(entries)
    problem = verify_records(records).bad
    if problem is not None:
        raise InvalidDocument(str(problem), code="chain_broken")
    return SessionFile(header, records, format, hashlib.sha256(data).hexdigest())


def _decode_document(data: bytes) -> tuple[Header, tuple[Entry, ...]]:
    """Read a document, an array of messages, or a single message."""
    names = {member.name for member in split_object(data) or ()}
    if data.lstrip().startswith(b"["):
        messages = decode_messages(data)
    elif "type" in names and "version" not in names:
        messages = (decode_message(data),)
    else:
        document = decode_document(data)
        header = Header(id=document.id or new_id(), created_at=document.created_at)
        return header, document.entries
    entries = [Entry(id=f"m{number}", payload=one) for number, one in enumerate(messages, 1)]
    return Header(id=new_id()), tuple(entries)


def _decode_lines(data: bytes) -> tuple[Header, tuple[Record, ...]]:
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
                "the first line must be a header, and no other line may be one",
                code="header_misplaced",
                place=f"line {number}",
            )
        if isinstance(content, Header):
            header = content
        else:
            records.append(content)
    if header is None:
        raise InvalidDocument("the file is empty", code="input_empty")
    return header, tuple(records)


def _chain_entries(entries: Sequence[Entry]) -> tuple[Record, ...]:
    """Return the records of a new session with these entries.

    A Redaction is added for each redacted entry that has none.
    """
    redacted_targets = {
        entry.payload.target for entry in entries if isinstance(entry.payload, Redaction)
    }
    reason = "redacted before the import"
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
