"""Import sessions from files, for `steno sessions import`.

A session keeps the ID that the file contains if it is valid and the store has no other session with
this ID. Otherwise, and if the file has no ID, the session gets an ID derived from the file, so that
two programs which import the file at the same time add one session. A file that was imported
before, or whose content the store already has under the same ID, is not added again. The header of
an imported session has an `ImportRecord`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from steno.app.import_record import ImportRecord, read_import_record, with_import_record
from steno.app.session_edit import check_session_id
from steno.app.session_log import restore_entry
from steno.app.session_lookup import (
    FOLDER_KEY,
    UNREADABLE_ERRORS,
    UnreadableSessions,
    readable_headers,
)
from steno.codec import (
    Document,
    decode_document,
    decode_message,
    decode_messages,
    encode_document,
)
from steno.codec.canonical_json import CodecWarning, collect_warnings
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, Missing
from steno.formats import FORMATS, build_records
from steno.formats.format import DOCUMENT_FORMAT, LINES_FORMAT, derive_session_id
from steno.formats.json_text import normalize_json, read_json_input
from steno.ids import new_id, utc_now
from steno.log.blobs import blob_digests, extract_blobs
from steno.log.chain import verify_records
from steno.messages.content import Opaque
from steno.records.entry import Entry, Redacted, Redaction
from steno.records.stored_record import Header, Record
from steno.render.progress import ShowProgress
from steno.render.terminal_text import terminal_line
from steno.store import Store
from steno.store.jsonl.session_file import decode_line


class SessionFile(NamedTuple):
    """A session that was read from a file."""

    header: Header
    """The header of the session, with the derived ID if the file has none."""
    derived_id: str
    """The ID for a file without an ID, and for one whose ID is taken."""
    records: tuple[Record, ...]
    format: str
    sha256: str
    """The digest of the file."""
    warnings: tuple[CodecWarning, ...] = ()
    """The parts of the file that were kept or replaced because steno does not understand them.

    Their places are those in the file, such as `messages[2]`; empty for the whole file.
    """

    @property
    def has_id(self) -> bool:
        """Whether the file contains the ID of the session."""
        return self.header.id != self.derived_id


class ImportedFile(NamedTuple):
    """The session of the store that was added from a file, now or earlier."""

    id: str
    replaced_id: str | None
    """The ID in the file, if the session has another; else None."""
    id_problem: str | None
    """The reason why a new session did not get the ID in the file: `session_exists`,
    `invalid_session_id`, or None."""
    is_added: bool
    """Whether the session was added; False if the store already had it."""
    has_content: bool
    """Whether the session has the content of the file.

    False if parts were redacted since, or if the store lacks an image or a long result to which a
    `jsonl` file refers.
    """


class _StoredSession(NamedTuple):
    """A session of the store that already has the entries of a file."""

    id: str
    entries: Sequence[Entry]
    """The entries that the file contains, in its order."""


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
    Without `id`, it is added only if the store does not have it. `title` replaces the title of a
    session that is added. Raises Conflict if a session with the ID `id` exists.
    """
    records, blobs = _move_large_content(file)
    entries = _entries(records)

    def report_stored(stored: _StoredSession) -> ImportedFile:
        has_content = _restore_content(store, stored.entries, entries, blobs)
        return ImportedFile(
            stored.id,
            replaced_id=_find_replaced_id(file, stored.id),
            id_problem=None,
            is_added=False,
            has_content=has_content,
        )

    def report_added(session: str, problem: str | None = None) -> ImportedFile:
        # A `jsonl` file refers to blobs; those of other files have just been stored.
        is_complete = file.format != LINES_FORMAT or _restore_content(store, entries, entries, {})
        return ImportedFile(
            session,
            replaced_id=_find_replaced_id(file, session),
            id_problem=problem if file.has_id else None,
            is_added=True,
            has_content=is_complete,
        )

    def add(session: str) -> None:
        for data in blobs.values():
            store.put_blob(data)
        with show_progress("adding records", len(records)) as progress:
            store.add_session(_build_header(file, session, title), progress.track(records))

    if id is not None:
        if _has_session(store, id):  # before any blob is stored
            raise Conflict(
                "a session with this ID already exists", code="session_exists", place="import"
            )
        add(id)
        return report_added(id)
    stored = _find_stored(store, file, records)
    if stored is not None:
        return report_stored(stored)
    problem = _find_id_problem(store, file.header.id)
    ids = [file.header.id] if problem is None else []
    for session in (*ids, file.derived_id):
        try:
            add(session)
        except Conflict:
            # Another session has this ID; another program may have just added it from this file.
            stored = _find_stored(store, file, records)
            if stored is not None:
                return report_stored(stored)
            problem = problem or "session_exists"
        else:
            return report_added(session, problem)
    session = new_id()
    add(session)
    return report_added(session, problem)


def _find_replaced_id(file: SessionFile, id: str) -> str | None:
    return file.header.id if file.has_id and file.header.id != id else None


def _build_header(file: SessionFile, id: str, title: str | None) -> Header:
    """Return the header to store: with the title and the facts about the import, without a folder.

    Otherwise, `steno -c` could continue an imported session whose folder also exists here. If the
    file does not contain the time of creation, it is the time of the first entry that has one.
    """
    header, now = file.header, utc_now()
    times = (entry.time for entry in _entries(file.records))
    header = replace(
        header,
        id=id,
        about={name: value for name, value in (header.about or {}).items() if name != FOLDER_KEY},
        created_at=header.created_at or next(filter(None, times), now),
        title=header.title if title is None else title,
    )
    number = len(_entries(file.records))
    return with_import_record(
        header,
        ImportRecord(session=id, time=now, format=file.format, sha256=file.sha256, entries=number),
    )


def _move_large_content(file: SessionFile) -> tuple[tuple[Record, ...], Mapping[str, bytes]]:
    """Return the records of a file as the store has them, and their blobs by digest.

    Large images and results are replaced by references to blobs, except in `jsonl`, which has the
    records of a store.
    """
    blobs: dict[str, bytes] = {}
    if file.format == LINES_FORMAT:
        return file.records, blobs

    def keep(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return digest

    moved = [
        replace(entry, payload=extract_blobs(entry.payload, keep))
        for entry in _entries(file.records)
    ]
    return build_records(moved), blobs


# -- sessions that the store has --------------------------------------------------------------


def _find_stored(
    store: Store, file: SessionFile, records: Sequence[Record]
) -> _StoredSession | None:
    """Return the session that already has the entries of a file; None if there is none.

    It was added from the same file, or it has the ID of the file and the same entries with the same
    history; in both cases, its content may have been redacted since. Or it has the ID of the file
    and begins with its content, in another formatting. Raises Damaged if the session that was added
    from the file cannot be read.
    """
    earlier = _find_earlier_import(store, file)
    session = file.header.id if earlier is None else earlier
    try:
        stored = list(store.records(session))
    except Missing:
        return None
    except UNREADABLE_ERRORS as exc:
        if earlier is None:
            return None
        name = terminal_line(session)
        raise Damaged(
            f"this session, which was imported from the file, is damaged (run `steno verify {name}` "
            "to check it; --id adds the file again)",
            code=exc.code,
            place=f"session {name}",
        ) from exc
    entries, wanted = _entries(stored), _entries(records)
    if earlier is not None:  # its entries may have other IDs, if the file has none
        return _StoredSession(session, entries[: len(wanted)])
    by_digest = {record.digest: record.entry for record in stored if record.entry is not None}
    begun = {_begun_branch(record) for record in stored}
    if all(
        record.digest in by_digest if record.entry is not None else _begun_branch(record) in begun
        for record in records
    ):
        return _StoredSession(session, [by_digest[r.digest] for r in records if r.digest])
    beginning = entries[: len(wanted)]
    has_digests = file.format == LINES_FORMAT
    if has_digests or not file.has_id or not _is_same_content(store, beginning, file):
        return None
    return _StoredSession(session, beginning)


def _entries(records: Iterable[Record]) -> list[Entry]:
    return [record.entry for record in records if record.entry is not None]


def _begun_branch(record: Record) -> tuple[str, str | None] | None:
    """Return the branch that a record starts and the entry after which it starts, else None."""
    return (record.branch, record.at) if record.entry is None else None


def _restore_content(
    store: Store, stored: Sequence[Entry], wanted: Sequence[Entry], blobs: Mapping[str, bytes]
) -> bool:
    """Store the missing blobs of entries; return whether the store has all content of a file.

    `wanted` are the entries of the file. Content that was redacted since is not stored again.
    """
    is_complete = len(stored) == len(wanted)
    for ours, theirs in zip(stored, wanted, strict=False):
        if isinstance(ours.payload, Redacted):
            is_complete = is_complete and isinstance(theirs.payload, Redacted)
        for digest in blob_digests(ours.payload):
            if digest in blobs:
                store.put_blob(blobs[digest])
            else:
                is_complete = is_complete and _has_blob(store, digest)
    return is_complete


def _has_blob(store: Store, digest: str) -> bool:
    try:
        store.blob(digest)
    except (Missing, Damaged):
        return False
    return True


def _is_same_content(store: Store, stored: Sequence[Entry], file: SessionFile) -> bool:
    """Return whether entries are those of a file, whose JSON may be formatted differently.

    Both are compared as the format writes them, so all that it can express has to be equal.
    """
    wanted = _entries(file.records)
    if len(stored) != len(wanted):
        return False
    restored = [restore_entry(store, entry)[0] for entry in stored]
    return _encode_normalized(file, restored) == _encode_normalized(file, wanted)


def _encode_normalized(file: SessionFile, entries: Sequence[Entry]) -> bytes:
    if file.format == DOCUMENT_FORMAT:
        return normalize_json(encode_document(Document(entries=tuple(entries))))
    return normalize_json(FORMATS[file.format].encode(file.header, entries).data)


def _find_earlier_import(store: Store, file: SessionFile) -> str | None:
    """Return the ID of the session that was added from the same file; None if there is none."""
    try:
        headers = readable_headers(store, UnreadableSessions())
    except UNREADABLE_ERRORS:  # no header can be read
        return None
    earlier = [
        (header.id != file.header.id, record.time, header.id)
        for header in headers
        if (record := read_import_record(header)) is not None
        and (record.session, record.sha256, record.format) == (header.id, file.sha256, file.format)
    ]
    # A session with the ID of the file, else the oldest import: the others have IDs of the user.
    return min(earlier)[-1] if earlier else None


def _find_id_problem(store: Store, id: str) -> str | None:
    """Return the code of the problem if a new session cannot have this ID; else None."""
    try:
        check_session_id(id)
    except InvalidValue as exc:
        return exc.code
    return "session_exists" if _has_session(store, id) else None


def _has_session(store: Store, id: str) -> bool:
    try:
        store.header(id)
    except Missing:
        return False
    except UNREADABLE_ERRORS:  # it exists, although it cannot be read
        pass
    return True


# -- reading a file ---------------------------------------------------------------------------


def read_session_file(data: bytes, format: str) -> SessionFile:
    """Read a session from a file. Raises InvalidValue if it is damaged or of another format."""
    with collect_warnings() as warnings:
        if format == LINES_FORMAT:
            header, records = _decode_lines(data, warnings)
        else:
            if format == DOCUMENT_FORMAT:
                document = _decode_document(data)
                session = document.id or derive_session_id(format, data)
                header = Header(id=session, created_at=document.created_at)
                entries = document.entries
            else:
                header, entries = FORMATS[format].decode(data)
            records = _chain_entries(entries)
    problem = verify_records(records).bad
    if problem is not None:
        raise InvalidDocument(str(problem), code="chain_broken")
    return SessionFile(
        header,
        derived_id=derive_session_id(format, data),
        records=records,
        format=format,
        sha256=hashlib.sha256(data).hexdigest(),
        warnings=tuple([warning._replace(place=_file_place(warning)) for warning in warnings]),
    )


def _file_place(warning: CodecWarning) -> str:
    """Return the place of a warning in the file, such as `messages[2]`; empty for the whole file."""
    return warning.place.removeprefix("$").removeprefix(".")


def _decode_document(data: bytes) -> Document:
    """Read a document, an array of messages, messages on separate lines, or a single message."""
    data = read_json_input(data)
    if data.lstrip().startswith(b"["):
        messages = decode_messages(data)
    else:
        try:
            return decode_document(data)
        except InvalidDocument as exc:
            if exc.code != "no_version":
                raise
            message = decode_message(data)
            if isinstance(message, Opaque) and not message.kind:
                raise
            messages = (message,)
    entries = [Entry(id=f"m{number}", payload=one) for number, one in enumerate(messages, 1)]
    return Document(entries=tuple(entries))


def _decode_lines(data: bytes, warnings: list[CodecWarning]) -> tuple[Header, tuple[Record, ...]]:
    """Read the lines of a session file; name the line in each of the warnings."""
    if not data.strip():
        raise InvalidDocument("the file is empty", code="input_empty")
    header: Header | None = None
    records: list[Record] = []
    for number, line in enumerate(data.rstrip(b"\n").split(b"\n"), start=1):
        earlier = len(warnings)
        try:
            content = decode_line(line.removesuffix(b"\r"))
        except (Damaged, InvalidDocument) as exc:
            text = exc.text_unless_at("line")
            raise InvalidDocument(text, code=exc.code, place=f"line {number}") from None
        for at in range(earlier, len(warnings)):
            place = ": ".join(filter(None, (f"line {number}", _file_place(warnings[at]))))
            warnings[at] = warnings[at]._replace(place=place)
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
    assert header is not None  # the first line
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
