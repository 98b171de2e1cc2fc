"""`steno sessions`: list, search, print, export and import conversations.

The commands that change a session are in `session_edit`.
"""

from __future__ import annotations

import argparse
import codecs
import io
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from steno.app.commands.arguments import positive_int
from steno.app.commands.tree import TreeLayout, fold_tree
from steno.app.errors import UsageError
from steno.app.folders import display_folder, working_folder
from steno.app.session_files import (
    DOCUMENT_FORMAT,
    LINES_FORMAT,
    SESSION_FORMATS,
    encode_as_lines,
    encode_branch,
    omissions_as_json,
    read_session_file,
    restore_branch_blobs,
    session_omission,
    store_large_content,
    summarize_omissions,
    with_unused_id,
)
from steno.app.session_log import SessionLog, describe_log_entry
from steno.app.session_lookup import (
    FOLDER_KEY,
    UnreadableSessions,
    find_by_title,
    last_changed,
    open_store_at,
    readable_headers,
    readable_summaries,
    search_entries,
    session_folder,
    shortest_unique_length,
)
from steno.cli import session_edit
from steno.cli.arguments import (
    ExitStatus,
    Subparsers,
    add_store_option,
    check_target,
)
from steno.cli.store_options import (
    open_existing_store,
    progress_display,
    read_named_log,
    report_unreadable,
    store_address,
)
from steno.codec import encode_entry
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, Missing
from steno.formats import ExportedFile, detect_format
from steno.ids import utc_now
from steno.log.blobs import blob_digests
from steno.log.queries import tools_of, total_usage
from steno.messages.change import Change
from steno.messages.message import Message, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Entry
from steno.records.stored_record import Header
from steno.render.describe import describe_decider, describe_origin, entry_type
from steno.render.message_text import ROLE_STYLES, StyledParagraph, message_paragraphs
from steno.render.output import (
    STDOUT,
    is_shared_target,
    print_json,
    report_write_errors,
    write_file,
)
from steno.render.progress import show_activity, show_progress
from steno.render.quantities import format_age, format_count, format_time
from steno.render.table_output import INDENT, Column, StdoutPrinter, StyledText, print_notice
from steno.render.terminal_text import terminal_json, terminal_line, terminal_text
from steno.render.transcript_document import describe_usage
from steno.render.transcripts import TRANSCRIPT_BY_SUFFIX, WRITE_ONLY
from steno.store import SearchHit, SessionOverview, Store
from steno.store.base import derive_title

_JSON_LINES_HELP: Final = "print JSON, one object a line (`jq -s` makes an array of them)"
_SESSION_HELP: Final = "an id, the beginning of one, or last (the one written to last)"
_ENTRY_HELP: Final = "its number (as 12 or #12), its id, the beginning of it, or a label"
_FORMATS_HELP: Final = "steno (one branch in one document), jsonl (all of the session with its digests), audit, session, rows, chat"
_WRITE_ONLY_HELP: Final = f"or, for people and never read back, {', '.join(WRITE_ONLY)}"
_SESSION_COLUMNS: Final = (
    Column("session", "cyan"),
    Column("title", may_shrink=True),
    Column("entries", is_number=True),
    Column("branches", is_number=True),
    Column("changed", "dim"),
)
_FOLDER_COLUMN: Final = Column("folder", "dim", may_shrink=True)
"""Shown where any session has a folder."""
_HIT_COLUMNS: Final = (
    Column("session", "cyan"),
    Column("entry", "cyan", is_number=True),
    Column("who"),
    Column("when", "dim"),
    Column("text", may_shrink=True),
)
_TITLE_TYPE: Final = "title"
"""The type of a hit that is no entry."""
_FORMAT_BY_SUFFIX: Final = {
    ".json": DOCUMENT_FORMAT,
    ".jsonl": LINES_FORMAT,
    **TRANSCRIPT_BY_SUFFIX,
}
"""The format of a file by its suffix, where no option names one."""
_SUFFIXES_HELP: Final = ", ".join(
    [".json", ".jsonl", *[transcript.suffixes[0] for transcript in WRITE_ONLY.values()]]
)
_MAX_DETAIL_LINES, _MAX_DETAIL_CHARACTERS = 12, 2_000
"""The limits of a printed detail, such as a tool result."""
_MAX_TEXT_LINES, _MAX_TEXT_CHARACTERS = 400, 40_000
"""The limits of a printed text."""


class _SessionAction(NamedTuple):
    """A command of the group `sessions`."""

    name: str
    run: Callable[[argparse.Namespace], int]
    help: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "sessions",
        help="look at, search, copy and change kept conversations",
        description="Look at the conversations that are kept in a store, and work with them.",
        epilog="'steno sessions COMMAND --help' tells more about a command; without one it lists.",
    )
    add_store_option(group)
    group.set_defaults(run=list_sessions, limit=None, here=False, json=False)
    actions = group.add_subparsers(title="commands", metavar="COMMAND")
    for action in _ACTIONS:
        parser = actions.add_parser(action.name, help=action.help, description=action.description)
        action.add_arguments(parser)
        add_store_option(parser)
        parser.set_defaults(run=action.run)


# -- list and search --------------------------------------------------------------------------


def list_sessions(options: argparse.Namespace) -> int:
    """Print the sessions of a store, the latest first."""
    unreadable = UnreadableSessions()
    folder = str(working_folder()) if options.here else None
    with open_existing_store(options) as store:
        summaries = readable_summaries(
            store,
            unreadable,
            is_wanted=lambda header: folder in (None, session_folder(header)),
            show_progress=progress_display(),
        )
    listed = summaries[: options.limit]
    if options.json:
        for summary in listed:
            print_json(msgspec.json.encode(_session_as_json(summary)))
    elif listed:
        length = shortest_unique_length(
            [*(summary.header.id for summary in summaries), *unreadable.sessions]
        )
        rows = [_session_row(summary, length) for summary in listed]
        if any(session_folder(summary.header) for summary in listed):
            StdoutPrinter().table((*_SESSION_COLUMNS, _FOLDER_COLUMN), rows)
        else:
            StdoutPrinter().table(_SESSION_COLUMNS, [row[:-1] for row in rows])
    elif not unreadable:
        print_notice(
            "there are no sessions yet" if folder is None else "no session was begun in this folder"
        )
    return report_unreadable(unreadable)


def _session_row(summary: SessionOverview, length: int) -> list[str]:
    return [
        terminal_line(summary.header.id[:length]),
        terminal_line(summary.title) or "-",
        f"{summary.entries:,}",
        str(len(summary.branches)),
        format_age(last_changed(summary), utc_now()),
        display_folder(session_folder(summary.header)),
    ]


def _session_as_json(summary: SessionOverview) -> dict[str, object]:
    header = summary.header
    return {
        "id": header.id,
        "title": summary.title,
        "entries": summary.entries,
        "branches": summary.branches,
        "created_at": header.created_at,
        "updated_at": summary.updated_at,
        "cloned_from": header.cloned_from,
        "folder": session_folder(header),
    }


def search_sessions(options: argparse.Namespace) -> int:
    """Print the titles and the entries that contain all search terms."""
    unreadable = UnreadableSessions()
    with open_existing_store(options) as store:
        headers = readable_headers(store, unreadable)
        text = " ".join(options.terms)
        titled = find_by_title(headers, text)[: options.limit]
        # One more than is printed shows whether there are more.
        all_hits = search_entries(
            store,
            headers,
            text,
            options.limit + 1,
            unreadable,
            show_progress=progress_display(),
        )
        hits = all_hits[: options.limit]
        numbers = _entry_numbers(store, hits)
        length = shortest_unique_length(header.id for header in headers)
    if options.json:
        for header in titled:
            print_json(msgspec.json.encode(_title_as_json(header)))
        for hit in hits:
            members = {
                "session": hit.session,
                "number": numbers.get((hit.session, hit.entry.id)),
                "entry": hit.entry.id,
                "time": hit.entry.time,
                "type": entry_type(hit.entry),
                "snippet": hit.snippet,
            }
            print_json(msgspec.json.encode(members))
    elif hits or titled:
        rows = [_title_row(header, length) for header in titled]
        rows += [_hit_row(hit, numbers.get((hit.session, hit.entry.id)), length) for hit in hits]
        StdoutPrinter().table(_HIT_COLUMNS, rows)
    elif not unreadable:
        print_notice("no entry and no title holds all of these words")
    if len(all_hits) > len(hits):
        print_notice(
            f"there are more than {format_count(len(hits), 'entry', 'entries')}; see --limit"
        )
    return report_unreadable(unreadable)


def _title_row(header: Header, length: int) -> list[str]:
    when = format_age(header.created_at, utc_now())
    return [
        terminal_line(header.id[:length]),
        "-",
        _TITLE_TYPE,
        when,
        terminal_line(header.title or ""),
    ]


def _title_as_json(header: Header) -> dict[str, object]:
    return {
        "session": header.id,
        "number": None,
        "entry": None,
        "time": header.created_at,
        "type": _TITLE_TYPE,
        "snippet": header.title or "",
    }


def _hit_row(hit: SearchHit, number: int | None, length: int) -> list[str]:
    return [
        terminal_line(hit.session[:length]),
        "#?" if number is None else f"#{number}",
        entry_type(hit.entry),
        format_age(hit.entry.time, utc_now()),
        terminal_line(hit.snippet),
    ]


def _entry_numbers(store: Store, hits: list[SearchHit]) -> dict[tuple[str, str], int]:
    """Return the numbers of the entries in their sessions."""
    numbers: dict[tuple[str, str], int] = {}
    for session in {hit.session for hit in hits}:
        entry_ids = {hit.entry.id for hit in hits if hit.session == session}
        for record in store.records(session):
            if record.entry is not None and record.entry.id in entry_ids:
                numbers[session, record.entry.id] = record.seq
                entry_ids.remove(record.entry.id)
                if not entry_ids:
                    break
    return numbers


# -- show and tree ----------------------------------------------------------------------------


def show_session(options: argparse.Namespace) -> int:
    """Print the entries of a branch."""
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        path = log.path(options.branch)
        if not options.json:
            path = [_restore_result(store, entry) for entry in path]
    if options.json:
        for entry in path:
            print_json(encode_entry(entry))
        return ExitStatus.OK
    printer = StdoutPrinter()
    branch = log.active if options.branch is None else options.branch
    _print_header(printer, log, branch, path)
    for entry in path:
        printer.line()
        _print_entry(printer, log, entry, is_whole=options.all)
    usage = describe_usage(total_usage(path))
    if usage:
        printer.line()
        printer.line(("usage: ", "dim"), usage)
    return ExitStatus.OK


def _restore_result(store: Store, entry: Entry) -> Entry:
    """Return an entry with the long result that is stored in a blob, if that can be read."""
    if isinstance(entry.payload, ToolResultMessage) and blob_digests(entry.payload):
        with suppress(Missing, Damaged):
            return replace(entry, payload=store.restore_blobs(entry.payload))
    return entry


def _print_header(printer: StdoutPrinter, log: SessionLog, branch: str, path: list[Entry]) -> None:
    header = log.header
    title = terminal_line(header.title or derive_title(path))
    if title:
        printer.line((title, "bold"))
    printer.line(("session ", "dim"), terminal_line(header.id))
    began = f"begun {format_time(header.created_at)}, " if header.created_at else ""
    others = len(log.heads) - 1
    more = f" (and {others} more)" if others > 0 else ""
    entries = format_count(len(path), "entry", "entries")
    printer.line((f"{began}{entries}, branch {terminal_line(branch)}{more}", "dim"))


def _print_entry(printer: StdoutPrinter, log: SessionLog, entry: Entry, *, is_whole: bool) -> None:
    kind, message = entry_type(entry), entry.message
    style = "dim" if message is None else ROLE_STYLES[kind]
    pieces: list[StyledText] = [(f"{log.number(entry.id)} ", "dim"), (kind, style)]
    if isinstance(message, ToolResultMessage):
        pieces += _outcome_pieces(message, ", ".join(tools_of(entry, log.tools)))
    pieces.append((f"  {format_time(entry.time) or '-'}", "dim"))
    decision = _decision_text(entry)
    if decision:
        pieces.append((f"  {decision}", "dim"))
    printer.line(*pieces)
    for paragraph in _entry_paragraphs(message, entry, log):
        _print_paragraph(printer, paragraph, is_whole=is_whole)


def _outcome_pieces(result: ToolResultMessage, tool: str) -> list[StyledText]:
    style = "green" if result.outcome is Outcome.OK else "red"
    name = f"{terminal_line(tool)} ({terminal_line(result.tool_call_id)})".lstrip()
    duration = "" if result.duration_s is None else f" {result.duration_s:.2f} s"
    return [f" {name} ", (f"{result.outcome}{duration}", style)]


def _decision_text(entry: Entry) -> str:
    if describe_decider(entry.payload):  # it stands below
        return ""
    facts = " ".join(filter(None, [terminal_line(entry.decision or ""), *describe_origin(entry)]))
    return f"[{facts}]" if facts else ""


def _entry_paragraphs(
    message: Message | None, entry: Entry, log: SessionLog
) -> list[StyledParagraph]:
    if message is None:
        return [StyledParagraph(describe_log_entry(entry, log), "dim")]
    return list(message_paragraphs(message))


def _print_paragraph(printer: StdoutPrinter, paragraph: StyledParagraph, *, is_whole: bool) -> None:
    text, omitted = paragraph.text.rstrip("\n"), ""
    if not is_whole:
        text, omitted = _shorten_paragraph(text, is_detail=paragraph.is_detail)
    for line in text.split("\n"):
        printer.line(INDENT, (line, paragraph.style)) if line else printer.line()
    if omitted:
        printer.line(INDENT, (omitted, "dim"))


def _shorten_paragraph(text: str, *, is_detail: bool) -> tuple[str, str]:
    """Return the beginning of a text, and a note about the rest of it."""
    max_lines, max_characters = (
        (_MAX_DETAIL_LINES, _MAX_DETAIL_CHARACTERS)
        if is_detail
        else (_MAX_TEXT_LINES, _MAX_TEXT_CHARACTERS)
    )
    shown = "\n".join(text[:max_characters].split("\n")[:max_lines])
    omitted = len(text) - len(shown)
    return shown, f"… {omitted:,} more characters (--all shows them)" if omitted else ""


def draw_tree(options: argparse.Namespace) -> int:
    """Draw the entries of a session."""
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
    layout = TreeLayout(log)
    if options.json:
        for entry in log.entries.values():
            print_json(msgspec.json.encode(layout.entry_as_json(entry)))
        return ExitStatus.OK
    printer = StdoutPrinter()
    printer.line(("session ", "dim"), terminal_line(log.header.id))
    for row in fold_tree(layout, shows_all=options.all, advice=" (--all shows them)"):
        printer.line(*row, max_width=printer.width)
    for name in [name for name, head in log.heads.items() if head is None]:
        printer.line(("(nothing yet)", "dim"), *layout.branch_pieces([name]))
    return ExitStatus.OK


# -- export and import ------------------------------------------------------------------------


def export_session(options: argparse.Namespace) -> int:
    """Write a session to a file or to stdout."""
    target = None if options.output in (None, "-") else _resolve_target(options.output)
    report = None if options.report is None else _resolve_target(options.report)
    files = [file for file in (target, report) if file is not None]
    if len(set(files)) < len(files):
        raise UsageError(
            "it is the file of the session; choose another name",
            code="report_replaces_file",
            place="--report",
        )
    _check_targets(files, may_replace=options.force)
    path = Path(options.output or "")
    format_name = options.format or _FORMAT_BY_SUFFIX.get(path.suffix.lower(), DOCUMENT_FORMAT)
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        exported = _export_log(store, log, format_name, options.branch)
    changes = exported.losses
    _check_targets(files, may_replace=options.force)
    if target is None:
        _print_export(exported.data)
    else:
        write_file(target, exported.data + b"\n")
        if not options.quiet:
            print_notice(f"written: {terminal_line(str(path))} (format {format_name})")
    if report is not None:
        write_file(report, omissions_as_json(changes, log) + b"\n")
    if not options.quiet:
        for kind in summarize_omissions(changes, log):
            print(kind.line, file=sys.stderr)
    return ExitStatus.INCOMPLETE if options.strict and changes else ExitStatus.OK


def _export_log(store: Store, log: SessionLog, format: str, branch: str | None) -> ExportedFile:
    """Encode a session in a format. Raises UsageError if the format does not fit the options."""
    if format == LINES_FORMAT:
        if branch is not None:
            raise UsageError(
                "jsonl holds all branches; leave it out, or choose a --format",
                code="format_holds_all_branches",
                place="--branch",
            )
        return encode_as_lines(log)
    losses: tuple[Change, ...] = ()
    if branch is None and len(log.heads) > 1:
        losses = (session_omission("only_active_branch"),)
    path = log.path(branch)
    with show_progress("gathering entries", len(path)) as progress:
        content = restore_branch_blobs(store, progress.track(path))
    with show_activity("writing the file"):
        exported = encode_branch(log, content.entries, format, branch=branch)
    return ExportedFile(exported.data, (*losses, *content.losses, *exported.losses))


def _print_export(data: bytes) -> None:
    if sys.stdout.isatty():
        data = terminal_json(data)
    with report_write_errors(STDOUT):
        sys.stdout.buffer.write(data + b"\n")


def _resolve_target(name: str) -> Path:
    return Path(name) if is_shared_target(Path(name)) else Path(os.path.realpath(name))


def _check_targets(targets: Iterable[Path], *, may_replace: bool) -> None:
    for target in targets:
        check_target(target, may_replace=may_replace)
        if target.is_dir() and not is_shared_target(target):
            raise InvalidValue(
                "it is not a file; choose another name", code="not_a_file", place=str(target)
            )


def import_session(options: argparse.Namespace) -> int:
    """Add a session from a file, and print its id."""
    if options.format in WRITE_ONLY:
        readable = ", ".join([name for name in SESSION_FORMATS if name not in WRITE_ONLY])
        raise UsageError(
            f"{options.format} is for people, and no program reads it back; "
            f"export the session in another one ({readable})",
            code="format_write_only",
            place="--format",
        )
    data = _read_stdin() if options.file == "-" else Path(options.file).read_bytes()
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        name = options.format or detect_format(data)
        with show_activity("reading the file"):
            session = read_session_file(data, name)
    except InvalidValue as exc:
        place = "stdin" if options.file == "-" else terminal_text(options.file)
        raise InvalidDocument(str(exc), code=exc.code, place=place) from exc
    with open_store_at(store_address(options)) as store:
        header = _apply_import_options(
            with_unused_id(store, session.header) if name == DOCUMENT_FORMAT else session.header,
            options,
        )
        with show_activity("preparing records"):
            records = (
                session.records
                if name == LINES_FORMAT
                else store_large_content(store, session.records)
            )
        try:
            with show_progress("adding records", len(records)) as progress:
                store.add_session(header, progress.track(records))
        except Conflict as exc:
            raise Conflict(
                "there is a session of this id; give another by --id",
                code="session_exists",
                place="import",
            ) from exc
    print(terminal_line(header.id))
    print_notice(
        f"imported {format_count(len(records), 'record', 'records')} from the format {name}"
    )
    return ExitStatus.OK


def _read_stdin() -> bytes:
    """Read stdin to its end, in chunks, so that Ctrl-C is handled between two reads."""
    buffer, chunks = cast("io.BufferedReader", sys.stdin.buffer), list[bytes]()
    while chunk := buffer.read1(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def _apply_import_options(header: Header, options: argparse.Namespace) -> Header:
    """Return the header with the id and title of the options."""
    if options.id is not None and options.id != header.id:
        header = replace(header, id=options.id)
    if options.title is not None:
        header = replace(header, title=options.title)
    if header.about is not None and FOLDER_KEY in header.about:
        # The folder of another user is no reason to continue it here.
        about = {name: value for name, value in header.about.items() if name != FOLDER_KEY}
        header = replace(header, about=about or None)
    return header if header.created_at is not None else replace(header, created_at=utc_now())


# -- options ----------------------------------------------------------------------------------


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help=_SESSION_HELP)


def _add_json(parser: argparse.ArgumentParser, help: str = _JSON_LINES_HELP) -> None:
    parser.add_argument("--json", action="store_true", help=help)


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=positive_int, metavar="N", help="print so many at most")
    parser.add_argument("--here", action="store_true", help="only those begun in this folder")
    _add_json(parser)


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    parser.add_argument("--all", action="store_true", help="print long results and texts in full")
    _add_json(parser, "print the entries as they are stored, one JSON object a line")


def _add_tree_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--all", action="store_true", help="draw every entry, fold nothing")
    _add_json(parser)


def _add_search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("terms", nargs="+", metavar="WORD", help="a whole word; all of them")
    parser.add_argument(
        "--limit", type=positive_int, default=20, metavar="N", help="print so many at most (20)"
    )
    _add_json(parser)


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument(
        "--format",
        choices=SESSION_FORMATS,
        metavar="F",
        help=f"{_FORMATS_HELP}, {_WRITE_ONLY_HELP}; else what FILE ends in says ({_SUFFIXES_HELP}), "
        "or steno",
    )
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there, not to stdout")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--strict", action="store_true", help="exit with 3 if anything was lost")
    parser.add_argument("--report", metavar="FILE", help="write all losses there, as a JSON array")
    parser.add_argument("--quiet", action="store_true", help="do not tell what was lost")


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what to read; - is stdin")
    parser.add_argument(
        "--format",
        choices=SESSION_FORMATS,
        metavar="F",
        help=f"{_FORMATS_HELP}; else it is found out",
    )
    parser.add_argument("--title", metavar="T", help="give the session this title")
    parser.add_argument("--id", metavar="ID", help="give the session this id")


def _add_fork_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--at", metavar="ENTRY", help=f"go on behind this entry: {_ENTRY_HELP}")
    parser.add_argument(
        "--name", metavar="NAME", help="the branch; else it is named after the time"
    )
    parser.add_argument("--clone", action="store_true", help="copy the session, and leave it alone")


def _add_label_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("entry", metavar="ENTRY", help=_ENTRY_HELP)
    parser.add_argument("text", metavar="TEXT", help="what it is called; no number")


def _add_rename_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("title", metavar="TITLE", help="what the list shows of it from now on")


def _add_redact_arguments(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("entry", metavar="ENTRY", help=_ENTRY_HELP)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it is recorded")
    parser.add_argument("--actor", metavar="NAME", help="who; else the user of this machine")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="+", metavar="ID", help=_SESSION_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask")


_ACTIONS: Final = (
    _SessionAction(
        "list",
        list_sessions,
        "list the sessions, the latest first",
        "List the sessions of a store, the one written to last first.",
        _add_list_arguments,
    ),
    _SessionAction(
        "show",
        show_session,
        "print a conversation",
        "Print what was said, called, returned and decided on a branch. Long results are cut. "
        "Control characters are shown as escapes. Times are UTC.",
        _add_show_arguments,
    ),
    _SessionAction(
        "tree",
        draw_tree,
        "draw the branches of a session",
        "Draw all entries of a session, with branches, labels and what was left behind. Long runs "
        "are folded.",
        _add_tree_arguments,
    ),
    _SessionAction(
        "search",
        search_sessions,
        "find entries and titles by their words",
        "Find the titles and then the entries of all sessions that hold all the words, the newest "
        "first. Words are whole ones, in any order and in any case: 'test' does not find 'tests'.",
        _add_search_arguments,
    ),
    _SessionAction(
        "export",
        export_session,
        "write a session to a file",
        "Write a session in one of several formats. What a format has no words for is listed on "
        "stderr, one line for each kind of loss.",
        _add_export_arguments,
    ),
    _SessionAction(
        "import",
        import_session,
        "read a session from a file",
        "Add a session from a file and print its id. A file that cannot be read adds nothing.",
        _add_import_arguments,
    ),
    _SessionAction(
        "fork",
        session_edit.fork_session,
        "begin a branch, or copy a session",
        "Begin a branch that shares everything up to an entry, and print its name; with --clone "
        "copy the whole session and print the id of the copy.",
        _add_fork_arguments,
    ),
    _SessionAction(
        "label",
        session_edit.label_entry,
        "give an entry a name",
        "Give an entry a name, by which other commands find it.",
        _add_label_arguments,
    ),
    _SessionAction(
        "rename",
        session_edit.rename_session,
        "give a session another title",
        "Give a session another title. Its id and everything in it stay as they are.",
        _add_rename_arguments,
    ),
    _SessionAction(
        "redact",
        session_edit.redact_entry,
        "take the content out of an entry",
        "Take the content out of an entry for good. That it was done, by whom and why is recorded, "
        "and the chain of digests stays valid.",
        _add_redact_arguments,
    ),
    _SessionAction(
        "rm",
        session_edit.remove_sessions,
        "remove sessions",
        "Remove sessions for good, and the images that only they refer to.",
        _add_remove_arguments,
    ),
)
