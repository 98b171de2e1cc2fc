"""Sessions in files, for `/export` and `steno sessions export`.

The formats are those of steno and of other programs. Parts of a session that a format cannot
represent are reported as omissions. A file is imported by `steno.app.session_import`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.app.commands.arguments import (
    BRANCH,
    SESSION,
    UsageError,
    argument,
    check_target,
    flag,
    split_words,
)
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Report, text_report
from steno.app.import_record import without_import_record
from steno.app.session_log import SessionLog, restore_entry
from steno.codec import Document, encode_document
from steno.context import embed_references
from steno.errors import InvalidValue, Unavailable
from steno.formats import FORMATS, ExportedFile
from steno.formats.format import DOCUMENT_FORMAT, LINES_FORMAT
from steno.ids import utc_now
from steno.log.blobs import blob_digests
from steno.log.queries import as_version_2
from steno.messages.change import Change, ChangeCode
from steno.messages.content import Image
from steno.records.entry import Entry
from steno.records.stored_record import Header
from steno.render.changes import describe_change, format_change, is_omission, omission_names
from steno.render.items import TextForm
from steno.render.output import OutputError, is_shared_target, report_write_errors, write_file
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.render.transcript_document import BranchLocation
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from steno.store import Store
from steno.store.base import derive_title
from steno.store.jsonl.session_file import encode_line

SESSION_FORMATS: Final = (DOCUMENT_FORMAT, LINES_FORMAT, *FORMATS, *WRITE_ONLY)
FORMATS_HELP: Final = (
    "steno (one branch in one document), jsonl (the whole session with its digests), audit (an "
    "audit log), session (one JSON object with a system prompt and messages), rows (database "
    "rows), chat (a list of messages)"
)
_FORMATS_WITHOUT_REFERENCES: Final = frozenset({"session", "chat"})
"""The formats that hold the content of a file or image in place of the reference to it."""
_SUFFIX_BY_FORMAT: Final = {
    DOCUMENT_FORMAT: ".json",
    LINES_FORMAT: ".jsonl",
    **{name: transcript.suffixes[0] for name, transcript in WRITE_ONLY.items()},
}
_FORMAT_BY_SUFFIX: Final = {
    ".json": DOCUMENT_FORMAT,
    ".jsonl": LINES_FORMAT,
    **TRANSCRIPT_BY_SUFFIX,
}
_TYPED_FORMATS: Final = {"json": DOCUMENT_FORMAT, **{name: name for name in SESSION_FORMATS}}
"""The formats by their names in a terminal."""
_FLAGS: Final = ("--force", "--quiet", "--strict")
_NAMING_OPTIONS: Final = ("--format", "--output", "-o", "-h", "--help")
"""The options for the format, the file and help."""
_DEFAULT_TYPED_FORMAT: Final = "markdown"
_SUFFIXES: Final = tuple(_SUFFIX_BY_FORMAT.values())
_UNSAFE_IN_NAME: Final = re.compile(r"[\W_]+")
_MAX_STEM_LENGTH: Final = 50
_MAX_NUMBERS: Final = 5
_SESSION_PLACE: Final = "session"
"""The place of a change that is about the whole session."""

ARGUMENTS: Final = (
    argument(
        "--format",
        choices=SESSION_FORMATS,
        metavar="F",
        help=f"{FORMATS_HELP}; {' and '.join(WRITE_ONLY)} (cannot be imported); default: by the "
        f"suffix of FILE, {', '.join(_SUFFIXES)}; else steno",
    ),
    BRANCH,
    argument("-o", "--output", metavar="FILE", help="write to FILE instead of stdout"),
    flag("--force", help="overwrite an existing file"),
    flag("--strict", help="exit with 3 if anything was lost"),
    argument("--report", metavar="FILE", help="write all losses to FILE, as a JSON array"),
    flag("--quiet", help="do not list losses"),
)


class ExportedSession(NamedTuple):
    """The result of an export: the written file, and the content that it lacks."""

    notice: str
    """A notice that names the written file and its format; empty if stdout was written."""
    omissions: tuple[str, ...]
    """A line for each kind of content that the exported data lacks."""
    is_complete: bool
    """Whether the exported data lacks nothing."""


def export_session(
    context: CommandContext,
    options: argparse.Namespace,
    write_stdout: Callable[[bytes], None] | None = None,
) -> ExportedSession:
    """Encode a session, and write it to the file named by the options, or else to stdout.

    If `write_stdout` is None, as in a terminal, the session is written to a new file instead of
    stdout. Raises InvalidValue if the file exists and `--force` is not set, UsageError if options
    contradict each other, and OutputError if a file cannot be written.
    """
    target = None if options.output in (None, "-") else _resolve_target(context, options.output)
    report = None if options.report is None else _resolve_target(context, options.report)
    if report is not None and report == target:
        raise UsageError(
            "is the same file as --output; choose another name",
            code="report_replaces_file",
            place="--report",
        )
    files = [file for file in (target, report) if file is not None]
    _check_targets(files, may_replace=options.force)
    suffix = Path(options.output or "").suffix.lower()
    format = options.format or _FORMAT_BY_SUFFIX.get(suffix, DOCUMENT_FORMAT)
    with context.open_store() as store:
        log = context.read_log(store, options.session)
        exported = _encode(context, store, log, format, options.branch)
    if target is None and write_stdout is None:
        target = _unused_file(context.folder, log, _SUFFIX_BY_FORMAT.get(format, ".json"))
    _check_targets(files, may_replace=options.force)
    write = write_stdout if target is None else partial(write_file, target)
    assert write is not None
    write(exported.data + b"\n")
    if report is not None:
        write_file(report, _omissions_as_json(exported.losses, log) + b"\n")
    name = terminal_line(options.output or str(target))
    return ExportedSession(
        f"wrote {name} (format {format})" if target is not None else "",
        tuple(_summarize_omissions(exported.losses, log)),
        is_complete=not exported.losses,
    )


# -- encoding ---------------------------------------------------------------------------------


def _encode(
    context: CommandContext, store: Store, log: SessionLog, format: str, branch: str | None
) -> ExportedFile:
    """Encode a session in a format. Raises UsageError if the format contradicts the options."""
    if format == LINES_FORMAT:
        if branch is not None:
            raise UsageError(
                "jsonl contains all branches; omit --branch or choose another --format",
                code="format_holds_all_branches",
                place="--branch",
            )
        return _encode_lines(log)
    losses: list[Change] = []
    if branch is None:
        branch = context.open_branch_of(log.header.id)
        if len(log.heads) > 1:
            name = "only_active_branch" if branch is None else "only_this_branch"
            losses.append(_session_omission(name))
    path = log.path(branch)
    entries: list[Entry] = []
    with context.show_progress("gathering entries", len(path)) as progress:
        for number, entry in enumerate(progress.track(path)):
            restored, is_complete = restore_entry(store, entry)
            entries.append(restored)
            if not is_complete:
                losses.append(
                    Change(ChangeCode.NOT_EXPORTED, "blob_missing", f"entries[{number}]", entry.id)
                )
    with context.show_activity("writing the file"):
        exported = _encode_branch(log, entries, format, branch)
    return ExportedFile(exported.data, (*losses, *exported.losses))


def _encode_branch(
    log: SessionLog, entries: Sequence[Entry], format: str, branch: str | None
) -> ExportedFile:
    header = without_import_record(log.header)
    if format == DOCUMENT_FORMAT:
        return _encode_document(header, entries)
    if format in _FORMATS_WITHOUT_REFERENCES:
        embedded = embed_references(entries)
        exported = FORMATS[format].encode(header, embedded)
        losses = _omitted_images(entries, embedded)
        return ExportedFile(exported.data, (*exported.losses, *losses))
    if format in FORMATS:
        return FORMATS[format].encode(header, entries)
    entries = [as_version_2(entry) for entry in entries]
    if not header.title:  # use the title that lists show
        header = replace(header, title=derive_title(entries) or None)
    location = BranchLocation(log.active if branch is None else branch, log.numbers)
    return WRITE_ONLY[format].encode(header, entries, location)


def _omitted_images(entries: Sequence[Entry], embedded: Sequence[Entry]) -> Iterator[Change]:
    """Yield a loss for each entry with an image in whose place only text was sent."""
    for number, (entry, sent) in enumerate(zip(entries, embedded, strict=True)):
        if _count_images(entry) > _count_images(sent):
            place, names = f"entries[{number}]", ("image",)
            yield Change(ChangeCode.NOT_EXPORTED, "fields", place, entry.id, names=names)


def _count_images(entry: Entry) -> int:
    message = entry.message
    return 0 if message is None else sum(type(block) is Image for block in message.content)


def _encode_document(header: Header, entries: Sequence[Entry]) -> ExportedFile:
    times = [entry.time for entry in entries if entry.time is not None]
    document = Document(
        id=header.id,
        created_at=header.created_at,
        updated_at=max(times, default=None),
        entries=tuple(entries),
    )
    document_fields = ("id", "created_at")
    names = tuple([name for name, _ in header.non_default_fields() if name not in document_fields])
    losses = (_session_omission("header_fields", names=names),) if names else ()
    return ExportedFile(encode_document(document), losses)


def _encode_lines(log: SessionLog) -> ExportedFile:
    """Encode all branches of a session, with their digests."""
    lines = [encode_line(log.header), *map(encode_line, log.records)]
    blobs = sum(len(blob_digests(entry.payload)) for entry in log.entries.values())
    losses = (_session_omission("blobs", number=blobs),) if blobs else ()
    return ExportedFile(b"".join(lines).removesuffix(b"\n"), losses)


def _session_omission(
    reason: str, *, names: tuple[str, ...] = (), number: int | None = None
) -> Change:
    """Return the change that reports content of a session that the exported file lacks."""
    return Change(ChangeCode.NOT_EXPORTED, reason, _SESSION_PLACE, names=names, number=number)


def _summarize_omissions(changes: Iterable[Change], log: SessionLog) -> Iterator[str]:
    """Yield a line for each kind of lost content; lines about the whole session come first."""
    numbers_by_kind: dict[tuple[str, str], dict[str, None]] = {}
    for change in changes:
        if change.entry is None:
            yield terminal_line(format_change(change))
            continue
        suffix = ": left out" if is_omission(change) else ""
        for name in omission_names(change):
            numbers = numbers_by_kind.setdefault((name, suffix), {})
            numbers[log.number(change.entry)] = None
    for (name, suffix), numbers in numbers_by_kind.items():
        shown = [*list(numbers)[:_MAX_NUMBERS], *(["…"] if len(numbers) > _MAX_NUMBERS else [])]
        entries = format_count(len(numbers), "entry", "entries")
        yield terminal_line(f"{name}{suffix} ({entries}: {', '.join(shown)})")


def _omissions_as_json(changes: Iterable[Change], log: SessionLog) -> bytes:
    """Return everything that the exported file lacks, as a JSON array."""
    report = [
        {
            "number": None if change.entry is None else log.numbers[change.entry],
            "entry": change.entry,
            "place": change.place,
            "explanation": describe_change(change),
        }
        for change in changes
    ]
    return msgspec.json.encode(report)


# -- target file ------------------------------------------------------------------------------


def _resolve_target(context: CommandContext, name: str) -> Path:
    """Return the path of a file, with links resolved unless it is a pipe, device or open file.

    Raises InvalidValue if the name is invalid, and OutputError if the file cannot be written, for
    example without permission for its folder.
    """
    target = context.folder / name
    try:
        with report_write_errors(name):
            return target if is_shared_target(target) else Path(os.path.realpath(target))
    except ValueError as exc:  # a NUL
        raise _invalid_file_name() from exc


def _invalid_file_name() -> InvalidValue:
    return InvalidValue(
        "invalid file name; choose another", code="invalid_file_name", place="export"
    )


def _check_targets(targets: Iterable[Path], *, may_replace: bool) -> None:
    for target in targets:
        check_target(target, may_replace=may_replace)


def _unused_file(folder: Path, log: SessionLog, suffix: str) -> Path:
    """Return a file that does not exist, with the date and the title of the session as its name."""
    day = f"{log.header.created_at or utc_now():%Y-%m-%d}"
    title = log.header.title or derive_title(log.entries.values())
    name = _UNSAFE_IN_NAME.sub("-", title.lower())[:_MAX_STEM_LENGTH].strip("-")
    stem = f"{day}-{name or 'session'}"
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := folder / f"{name}{suffix}").exists())


# -- in a terminal ----------------------------------------------------------------------------


def _split_typed(text: str) -> list[str]:
    """Turn `[FORMAT] [FILE] [OPTIONS]` into options.

    A file name before the options, or after flags, may contain spaces. Raises InvalidValue if the
    format cannot be determined or the file name is invalid.
    """
    flags: list[str] = []
    while (first := text.split(" ", 1)[0]) in _FLAGS:
        flags.append(first)
        text = text.removeprefix(first).strip()
    named, dash, rest = f" {text}".partition(" -")
    options = flags + (split_words(f"-{rest}") if dash else [])
    if not named.strip() and any(word.startswith(_NAMING_OPTIONS) for word in options):
        return options
    first, _, file = named.strip().partition(" ")
    if first not in _TYPED_FORMATS:
        first, file = "", named.strip()
    file = file.strip()
    if len(file) > 1 and file[0] == file[-1] and file[0] in "'\"":  # quotes that a shell needs
        file = file[1:-1]
    if not file:
        return ["--format", _TYPED_FORMATS.get(first, _DEFAULT_TYPED_FORMAT), *options]
    format = _TYPED_FORMATS.get(first) or _FORMAT_BY_SUFFIX.get(Path(file).suffix.lower())
    if format is None:
        raise InvalidValue(
            f"unknown file suffix; use {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}, or name the "
            "format first: /export markdown FILE",
            code="unknown_format",
            place="export",
        )
    try:
        return ["--format", format, f"--output={Path(file).expanduser()}", *options]
    except RuntimeError as exc:  # the home folder is unknown
        raise _invalid_file_name() from exc


def _run_export(context: CommandContext, options: argparse.Namespace) -> Report:
    try:
        exported = export_session(context, options)
    except OutputError as exc:
        raise Unavailable(terminal_line(str(exc)), code="write_failed") from exc
    lines = [exported.notice, *exported.omissions]
    return text_report("\n".join(lines), "Export", TextForm.PLAIN)


COMMAND: CommandDefinition = CommandDefinition(_run_export, (SESSION, *ARGUMENTS), _split_typed)
