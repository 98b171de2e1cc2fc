"""`steno sessions export` and `steno sessions import`: conversations as files."""

from __future__ import annotations

import argparse
import codecs
import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from msgspec.structs import replace

from steno.aside import digests_of
from steno.chain import verify
from steno.cli.commands import Misused
from steno.cli.log import Log
from steno.cli.lossy import located, report_of, summary_of
from steno.cli.output import is_shared, write_file, writing
from steno.cli.paper import note
from steno.cli.place import (
    UNREADABLE,
    address_of,
    existing_store,
    find_session,
    quietly_opened,
)
from steno.cli.progress import progress, working
from steno.cli.session import FOLDER
from steno.codec import Document, decode_document, encode_document
from steno.entry import Entry, Payload, Redacted, Redaction
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, Missing
from steno.formats import FORMATS as FOREIGN
from steno.formats import PAPERS, Exported, Imported, Loss, Place, detect, seal
from steno.identity import new_id, utc_now
from steno.printable import counted, on_one_line, printable, printable_json
from steno.record import Header, Record
from steno.store import Store
from steno.store.lines import decode_line, encode_line
from steno.store.store import title_of

LOSSY: Final = 3
DOCUMENT: Final = "steno"
"""One branch in one document: the format that is stored."""
_LINES: Final = "jsonl"
FORMATS: Final = (DOCUMENT, _LINES, *FOREIGN, *PAPERS)
_BY_ENDING: Final = {
    ".json": DOCUMENT,
    ".jsonl": _LINES,
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
}
"""What is in a file of this name, where nobody says so."""


# -- export ----------------------------------------------------------------------------------


def export_session(options: argparse.Namespace) -> int:
    """Write a session to a file or to stdout."""
    target = None if options.output in (None, "-") else _place(options.output)
    report = None if options.report is None else _place(options.report)
    files = [file for file in (target, report) if file is not None]
    if len(set(files)) < len(files):
        raise Misused("--report: it is the file of the session; choose another name")
    _check_targets(files, may_replace=options.force)
    named = Path(options.output or "")
    format = options.format or _BY_ENDING.get(named.suffix.lower(), DOCUMENT)
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
        exported = _exported(store, log, format, options.branch)
    losses = located(exported.losses, log.path(options.branch)) if exported.losses else []
    _check_targets(files, may_replace=options.force)
    if target is None:
        _print(exported.data)
    else:
        write_file(target, exported.data + b"\n")
        if not options.quiet:
            note(f"written: {on_one_line(str(named))} (format {format})")
    if report is not None:
        write_file(report, report_of(losses, log) + b"\n")
    if not options.quiet:
        for line in summary_of(losses, log):
            print(line, file=sys.stderr)
    return LOSSY if options.strict and losses else 0


def _exported(store: Store, log: Log, format: str, branch: str | None) -> Exported:
    if format == _LINES:
        if branch is not None:
            raise Misused("--branch: jsonl holds all branches; leave it out, or choose a --format")
        return _as_lines(log)
    losses: tuple[Loss, ...] = ()
    if branch is None and len(log.heads) > 1:
        losses = (Loss("session", "only the active branch is in the file"),)
    path = log.path(branch)
    with progress("gathering entries", len(path)) as shown:
        gathered = gather(store, shown.track(path))
    with working("writing the file"):
        exported = encode_branch(log, gathered.entries, format, branch=branch)
    return Exported(exported.data, (*losses, *gathered.losses, *exported.losses))


class Gathered(NamedTuple):
    """The entries of a branch with what lay beside them, and what could not be had."""

    entries: tuple[Entry, ...]
    losses: tuple[Loss, ...]


def gather(store: Store, path: Iterable[Entry]) -> Gathered:
    """Bring back what lies beside the entries of a branch, as far as it is there."""
    entries: list[Entry] = []
    losses: list[Loss] = []
    for number, entry in enumerate(path):
        try:
            entries.append(_with_payload(entry, store.restore_blobs(entry.payload)))
        except (Missing, Damaged):
            what = "the bytes of an image or a long result are not in the store"
            losses.append(Loss(f"entries[{number}]", what))
            entries.append(entry)
    return Gathered(tuple(entries), tuple(losses))


def encode_branch(
    log: Log, entries: Sequence[Entry], format: str, *, branch: str | None = None
) -> Exported:
    """Write the entries of a branch in a format that holds one."""
    if format == DOCUMENT:
        return _as_document(log.header, entries)
    if format in FOREIGN:
        return FOREIGN[format].encode(log.header, entries)
    header, place = log.header, Place(log.active if branch is None else branch, log.numbers)
    if not header.title:  # what lists show of it
        header = replace(header, title=title_of(entries) or None)
    return PAPERS[format].encode(header, entries, place)


def _as_document(header: Header, entries: Sequence[Entry]) -> Exported:
    times = [entry.time for entry in entries if entry.time is not None]
    document = Document(
        id=header.id,
        created_at=header.created_at,
        updated_at=max(times, default=None),
        entries=tuple(entries),
    )
    kept = ("id", "created_at")
    unsaid = [name for name, _ in header.non_default_fields() if name not in kept]
    told = f"left out: {', '.join(unsaid)} (--format jsonl has a place for it)"
    losses = (Loss("session", told),) if unsaid else ()
    return Exported(encode_document(document), losses)


def _as_lines(log: Log) -> Exported:
    lines = [encode_line(log.header), *map(encode_line, log.records)]
    aside = sum(len(digests_of(entry.payload)) for entry in log.entries.values())
    what = counted(aside, "image or long result", "images and long results")
    losses = (Loss("session", f"left out: the bytes of {what}"),) if aside else ()
    return Exported(b"".join(lines).removesuffix(b"\n"), losses)


def _print(data: bytes) -> None:
    if sys.stdout.isatty():
        data = printable_json(data)
    with writing("stdout"):
        sys.stdout.buffer.write(data + b"\n")


def _place(name: str) -> Path:
    return Path(name) if is_shared(Path(name)) else Path(os.path.realpath(name))


def _check_targets(targets: Iterable[Path], *, may_replace: bool) -> None:
    for target in targets:
        if is_shared(target):  # nothing that is there gets lost
            continue
        if target.exists() and not may_replace:
            raise InvalidValue(
                f"{target}: it is there already; choose another name, or add --force"
            )
        if target.exists() and not target.is_file():
            raise InvalidValue(f"{target}: it is not a file; choose another name")


# -- import ----------------------------------------------------------------------------------


class _Session(NamedTuple):
    """A session that is to be added."""

    header: Header
    records: tuple[Record, ...]


def import_session(options: argparse.Namespace) -> int:
    """Add a session from a file, and print its id."""
    if options.format in PAPERS:
        readable = ", ".join([name for name in FORMATS if name not in PAPERS])
        raise Misused(
            f"--format: {options.format} is for people, and no program reads it back; "
            f"export the session in another one ({readable})"
        )
    data = _stdin() if options.file == "-" else Path(options.file).read_bytes()
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        name = options.format or detect(data)
        with working("reading the file"):
            session = _read(data, name)
    except InvalidValue as exc:
        place = "stdin" if options.file == "-" else printable(options.file)
        raise InvalidDocument(f"{place}: {exc}") from exc
    with quietly_opened(address_of(options)) as store:
        header = _named(
            _free(store, session.header) if name == DOCUMENT else session.header, options
        )
        with working("preparing records"):
            records = session.records if name == _LINES else _put_aside(store, session.records)
        try:
            with progress("adding records", len(records)) as shown:
                store.add_session(header, shown.track(records))
        except Conflict as exc:
            raise Conflict("import: there is a session of this id; give another by --id") from exc
    print(on_one_line(header.id))
    note(f"imported {counted(len(records), 'record', 'records')} from the format {name}")
    return 0


def _stdin() -> bytes:
    """Read stdin to its end. Python notices an interruption between two turns of a loop."""
    buffer, pieces = cast("io.BufferedReader", sys.stdin.buffer), list[bytes]()
    while piece := buffer.read1(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def _read(data: bytes, format: str) -> _Session:
    """Read a file. Raises InvalidValue if it is not all right."""
    if format == _LINES:
        session = _from_lines(data)
    else:
        imported = _from_document(data) if format == DOCUMENT else FOREIGN[format].decode(data)
        # Our own ids are nobody else's; what others call a session may be called so twice.
        header = imported.header if format == DOCUMENT else replace(imported.header, id=new_id())
        session = _Session(header, _sealed(imported.entries))
    problem = verify(session.records).bad
    if problem is not None:
        raise InvalidDocument(str(problem))
    return session


def _named(header: Header, options: argparse.Namespace) -> Header:
    """Return the header with the id and title that were asked for."""
    if options.id is not None and options.id != header.id:
        header = replace(header, id=options.id)
    if options.title is not None:
        header = replace(header, title=options.title)
    if header.about is not None and FOLDER in header.about:
        # Where somebody else has worked is no reason to go on with it here.
        about = {name: value for name, value in header.about.items() if name != FOLDER}
        header = replace(header, about=about or None)
    return header if header.created_at is not None else replace(header, created_at=utc_now())


def _free(store: Store, header: Header) -> Header:
    """Return the header with its id, or with a new one if the store has such a session."""
    try:
        store.header(header.id)
    except Missing:
        return header
    except UNREADABLE:
        pass  # it is there all the same
    return replace(header, id=new_id())


def _from_document(data: bytes) -> Imported:
    document = decode_document(data)
    header = Header(id=document.id or new_id(), created_at=document.created_at)
    return Imported(header, document.entries)


def _from_lines(data: bytes) -> _Session:
    header: Header | None = None
    records: list[Record] = []
    for number, line in enumerate(data.rstrip(b"\n").split(b"\n"), start=1):
        try:
            content = decode_line(line)
        except (Damaged, InvalidDocument) as exc:
            rule = str(exc).removeprefix("line: ")
            raise InvalidDocument(f"line {number}: {rule}") from None
        if isinstance(content, Header) != (number == 1):
            raise InvalidDocument(f"line {number}: the header comes first, and once")
        if isinstance(content, Header):
            header = content
        else:
            records.append(content)
    if header is None:
        raise InvalidDocument("there is nothing in it")
    return _Session(header, tuple(records))


def _sealed(entries: Sequence[Entry]) -> tuple[Record, ...]:
    """Return the records of a new session. What was taken out elsewhere is explained here."""
    explained = {entry.payload.target for entry in entries if isinstance(entry.payload, Redaction)}
    reason = "it was taken out before it was imported"
    remarks = [
        Entry(
            id=new_id(),
            time=utc_now(),
            payload=Redaction(target=entry.id, actor="steno import", reason=reason),
        )
        for entry in entries
        if isinstance(entry.payload, Redacted) and entry.id not in explained
    ]
    return seal([*entries, *remarks])


def _put_aside(store: Store, records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the records with their large images in blobs."""
    entries = [record.entry for record in records if record.entry is not None]
    return seal([_with_payload(entry, store.extract_blobs(entry.payload)) for entry in entries])


def _with_payload(entry: Entry, payload: Payload) -> Entry:
    return entry if payload is entry.payload else replace(entry, payload=payload)
