"""`steno sessions`: list, search, print, export, import, change and remove conversations."""

from __future__ import annotations

import argparse
import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, cast

from msgspec.structs import replace

from steno.app.commands.arguments import (
    BRANCH,
    UsageError,
    add_arguments,
    argument,
    flag,
    positive_int,
)
from steno.app.commands.export import ARGUMENTS as EXPORT_ARGUMENTS
from steno.app.commands.export import (
    DOCUMENT_FORMAT,
    FORMATS_HELP,
    LINES_FORMAT,
    SESSION_FORMATS,
    export_session,
    read_session_file,
    store_large_content,
    with_unused_id,
)
from steno.app.commands.report import Lines, Report, ReportLine, Table
from steno.app.folders import display_folder, user_name, working_folder
from steno.app.session_log import (
    GraphRow,
    SessionLog,
    TreeLayout,
    describe_log_entry,
    summarize_entry,
)
from steno.app.session_lookup import (
    FOLDER_KEY,
    UnreadableSessions,
    explain_damage,
    find_by_title,
    last_changed,
    open_store_at,
    readable_headers,
    readable_summaries,
    search_entries,
    session_folder,
    shortest_unique_length,
)
from steno.cli.arguments import (
    ENTRY,
    ENTRY_NAMES,
    STORE,
    ExitStatus,
    GroupCommand,
    Subparsers,
    add_group,
)
from steno.cli.report_command import command_context, print_report
from steno.cli.store_options import (
    find_named_session,
    open_existing_store,
    progress_display,
    read_named_log,
    store_address,
)
from steno.codec import encode_entry
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, LogError, Missing
from steno.formats import detect_format
from steno.ids import utc_now
from steno.log.blobs import blob_digests
from steno.log.conversation import Conversation
from steno.log.queries import check_label_text, tools_of, total_usage
from steno.messages.message import ToolResultMessage
from steno.records.entry import Entry, Redacted
from steno.records.stored_record import Header
from steno.render.describe import entry_type
from steno.render.message_text import StyledParagraph, entry_heading, message_paragraphs
from steno.render.output import STDOUT, print_json, report_write_errors
from steno.render.progress import show_activity, show_progress
from steno.render.quantities import format_age, format_count, format_time
from steno.render.table_output import INDENT, Column, StdoutPrinter, StyledText, print_notice
from steno.render.terminal_text import (
    terminal_json,
    terminal_line,
    terminal_text,
    truncate_to_width,
)
from steno.render.transcript_document import describe_usage
from steno.render.transcripts import WRITE_ONLY
from steno.store import SearchHit, SessionOverview, Store
from steno.store.base import derive_title

_SESSION_COLUMNS: Final[tuple[Column, ...]] = (
    Column("session", "cyan"),
    Column("title", may_shrink=True),
    Column("entries", is_number=True),
    Column("branches", is_number=True),
    Column("changed", "dim"),
)
_HIT_COLUMNS: Final = (
    Column("session", "cyan"),
    Column("entry", "cyan", is_number=True),
    Column("who"),
    Column("when", "dim"),
    Column("text", may_shrink=True),
)
_MAX_UNFOLDED: Final = 3
"""A run of entries in the tree that is this long is not worth folding."""
_MAX_SUMMARY_LENGTH: Final = 100
"""How much of an entry is shown where a line may be of any length."""
_MAX_REDACTED_SUMMARY: Final = 60
_DETAIL_LIMITS: Final = (12, 2_000)
"""Lines and characters of a printed detail, such as a tool result."""
_TEXT_LIMITS: Final = (400, 40_000)
"""Lines and characters of a printed text."""


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
    ids = [*(summary.header.id for summary in summaries), *unreadable.sessions]
    length = shortest_unique_length(ids)
    columns = _SESSION_COLUMNS
    if any(session_folder(summary.header) for summary in listed):
        columns = (*columns, Column("folder", "dim", may_shrink=True))
    rows = [_session_row(summary, length)[: len(columns)] for summary in listed]
    empty = "there are no sessions yet" if folder is None else "no session was begun in this folder"
    return print_report(
        Report(
            parts=[Table(columns, rows)] if rows else [],
            when_empty="" if unreadable else empty,
            data=map(_session_as_json, listed),
            notices=tuple(unreadable.lines),
            is_failed=bool(unreadable),
        ),
        as_json=options.json,
    )


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
            store, headers, text, options.limit + 1, unreadable, show_progress=progress_display()
        )
        hits = all_hits[: options.limit]
        numbers = _entry_numbers(store, hits)
        length = shortest_unique_length(header.id for header in headers)
    found = [
        _Hit(header.id, None, None, header.created_at, "title", header.title or "")
        for header in titled
    ]
    for session, entry, snippet in hits:
        number = numbers.get((session, entry.id))
        found.append(_Hit(session, number, entry.id, entry.time, entry_type(entry), snippet))
    rows = [list(map(terminal_line, hit.row(length))) for hit in found]
    more = f"there are more than {format_count(len(hits), 'entry', 'entries')}; see --limit"
    return print_report(
        Report(
            parts=[Table(_HIT_COLUMNS, rows)] if rows else [],
            when_empty="" if unreadable else "no entry and no title holds all of these words",
            data=[hit._asdict() for hit in found],
            notices=(*([more] if len(all_hits) > len(hits) else []), *unreadable.lines),
            is_failed=bool(unreadable),
        ),
        as_json=options.json,
    )


class _Hit(NamedTuple):
    """A title or an entry that holds all search terms."""

    session: str
    number: int | None
    entry: str | None
    time: datetime | None
    type: str
    snippet: str

    def row(self, id_length: int) -> list[str]:
        """Return the row of the table."""
        number = "-" if self.entry is None else f"#{self.number or '?'}"
        age = format_age(self.time, utc_now())
        return [self.session[:id_length], number, self.type, age, self.snippet]


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
    message, tools = entry.message, tools_of(entry, log.tools)
    printer.line(*entry_heading(entry, number=log.number(entry.id), tools=tools))
    described = [StyledParagraph(describe_log_entry(entry, log), "dim")]
    for paragraph in described if message is None else message_paragraphs(message):
        _print_paragraph(printer, paragraph, is_whole=is_whole)


def _print_paragraph(printer: StdoutPrinter, paragraph: StyledParagraph, *, is_whole: bool) -> None:
    shown = text = paragraph.text.rstrip("\n")
    if not is_whole:
        max_lines, max_characters = _DETAIL_LIMITS if paragraph.is_detail else _TEXT_LIMITS
        shown = "\n".join(text[:max_characters].split("\n")[:max_lines])
    for line in shown.split("\n"):
        printer.line(INDENT, (line, paragraph.style)) if line else printer.line()
    if omitted := len(text) - len(shown):
        note = f"… {omitted:,} more characters (--all shows them)"
        printer.line(INDENT, (note, "dim"))


def draw_tree(options: argparse.Namespace) -> int:
    """Draw the entries of a session."""
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
    layout = TreeLayout(log)
    report = Report(
        [Lines(list(_tree_lines(layout, shows_all=options.all)))],
        data=(_tree_entry_as_json(layout, entry) for entry in log.entries.values()),
    )
    return print_report(report, as_json=options.json)


def _tree_lines(layout: TreeLayout, *, shows_all: bool) -> Iterator[ReportLine]:
    """Draw the entries; long runs of ordinary entries are folded into one line."""
    log = layout.log
    yield ReportLine([("session ", "dim"), terminal_line(log.header.id)])

    def is_folded(row: GraphRow) -> bool:
        return row.entry is not None and not shows_all and not layout.is_remarkable(row.entry)

    for is_run, group in groupby(layout.rows(), is_folded):
        rows = list(group)
        if is_run and len(rows) > _MAX_UNFOLDED:
            text = f"{rows[0].graph_prefix}: … {len(rows):,} entries (--all shows them)"
            yield ReportLine([(text, "dim")], is_cut=True)
        else:
            yield from [ReportLine(_row_pieces(layout, row), is_cut=True) for row in rows]
    for name, head in log.heads.items():
        if head is None:
            yield ReportLine([("(nothing yet)", "dim"), _branch_piece(log, name)])


def _row_pieces(layout: TreeLayout, row: GraphRow) -> list[StyledText]:
    entry = row.entry
    if entry is None:
        return [(row.graph_prefix, "dim")]
    is_active = entry.id in layout.active_path
    style = "dim" if entry.message is None else ("bold" if is_active else "")
    summary = truncate_to_width(summarize_entry(entry, layout.log), _MAX_SUMMARY_LENGTH)
    return [
        (row.graph_prefix, "dim"),
        ("* ", "green" if is_active else "dim"),
        (f"{layout.log.number(entry.id)} ", "dim"),
        (entry_type(entry), style),
        *[(f" [{terminal_line(label)}]", "yellow") for label in layout.labels.get(entry.id, ())],
        *[_branch_piece(layout.log, name) for name in layout.heads.get(entry.id, ())],
        f"  {summary}",
    ]


def _branch_piece(log: SessionLog, name: str) -> StyledText:
    """Return the name of a branch that ends here."""
    text = f" <- {terminal_line(name)}"
    return (f"{text} (active)", "bold green") if name == log.active else (text, "cyan")


def _tree_entry_as_json(layout: TreeLayout, entry: Entry) -> dict[str, object]:
    """Return an entry and its place in the tree, as JSON."""
    return {
        "number": layout.log.numbers[entry.id],
        "id": entry.id,
        "parent": entry.parent,
        "time": entry.time,
        "type": entry_type(entry),
        "labels": layout.labels.get(entry.id, []),
        "branches": layout.heads.get(entry.id, []),
        "active": entry.id in layout.active_path,
    }


# -- export and import ------------------------------------------------------------------------


def _export_session(options: argparse.Namespace) -> int:
    """Write a session to a file or to stdout."""

    def write_stdout(data: bytes) -> None:
        with report_write_errors(STDOUT):
            sys.stdout.buffer.write(terminal_json(data) if sys.stdout.isatty() else data)

    exported = export_session(command_context(options), options, write_stdout)
    if not options.quiet:
        if exported.notice:
            print_notice(exported.notice)
        for line in exported.omissions:
            print(line, file=sys.stderr)
    return ExitStatus.INCOMPLETE if options.strict and not exported.is_complete else ExitStatus.OK


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
        header, records = session.header, session.records
        if name == DOCUMENT_FORMAT:
            header = with_unused_id(store, header)
        header = _apply_import_options(header, options)
        if name != LINES_FORMAT:
            with show_activity("preparing records"):
                records = store_large_content(store, records)
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
    count = format_count(len(records), "record", "records")
    print_notice(f"imported {count} from the format {name}")
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


# -- fork, label and rename -------------------------------------------------------------------


def fork_session(options: argparse.Namespace) -> int:
    """Begin a branch, or copy a session."""
    if options.name is not None and not options.name.strip():
        raise InvalidValue(
            "it is blank; give the branch a name, or leave it out",
            code="blank_name",
            place="--name",
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        at = None if options.at is None else log.find_entry(options.at).id
        name = options.name or f"fork-{utc_now():%Y%m%d-%H%M%S}"
        if name in log.heads:
            raise Conflict(
                "there is a branch of this name; choose another with --name",
                code="branch_exists",
                place="fork",
            )
        if options.clone:
            branch = name if options.at is not None or options.name is not None else None
            print(clone := _clone_session(store, session, branch, at))
            begun = "" if branch is None else f", with a branch {terminal_line(branch)}"
            print_notice(f"session {clone} is a copy of {terminal_line(session)}{begun}")
        else:
            _start_branch(store.open(session), name, at)
            print(terminal_line(name))
            head = at or log.heads.get(log.active)
            place = "with nothing before it" if head is None else f"behind {log.number(head)}"
            print_notice(
                f"session {terminal_line(session)} goes on {place}, in branch {terminal_line(name)}"
            )
    return ExitStatus.OK


def _clone_session(store: Store, session: str, branch: str | None, at: str | None) -> str:
    """Copy a session, and begin a branch in the copy; all of it, or nothing."""
    clone = store.clone(session)
    if branch is not None:
        try:
            _start_branch(clone, branch, at)
        except BaseException:
            store.remove(clone.id)
            raise
    return clone.id


def _start_branch(conversation: Conversation, branch: str, at: str | None) -> None:
    """Create a branch and switch to it; both are recorded."""
    conversation.fork(branch, at=at)
    conversation.switch(branch)


def label_entry(options: argparse.Namespace) -> int:
    """Give an entry a name."""
    check_label_text(options.text)
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target = log.find_entry(options.entry)
        store.open(session).label(target.id, options.text)
        print_notice(f"{log.number(target.id)} is called {terminal_line(options.text)}")
    return ExitStatus.OK


def rename_session(options: argparse.Namespace) -> int:
    """Give a session another title."""
    if not options.title.strip():
        raise InvalidValue(
            "the title is blank; say what the session is about", code="blank_title", place="rename"
        )
    with open_existing_store(options) as store:
        session = find_named_session(store, options.session)
        with explain_damage(session):
            store.rename(session, options.title)
        print_notice(f"session {terminal_line(session)} is called {terminal_line(options.title)}")
    return ExitStatus.OK


# -- redact and remove ------------------------------------------------------------------------


def redact_entry(options: argparse.Namespace) -> int:
    """Remove the content of an entry permanently."""
    if not options.reason.strip():
        raise InvalidValue("it is blank; say why", code="reason_blank", place="--reason")
    actor = options.actor or user_name()
    if actor is None:
        raise InvalidValue(
            "nobody knows who you are; say so with --actor", code="user_unknown", place="redact"
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target = log.find_entry(options.entry)
        number = log.number(target.id)
        summary = truncate_to_width(summarize_entry(target, log), _MAX_REDACTED_SUMMARY)
        entry_line = f"{number} {entry_type(target)}  {summary}"
        question = f"Take the content of {number} out for good?"
        status = _confirm("redact", question, [entry_line], is_sure=options.yes)
        if status is not None:
            return status
        store.redact(session, target.id, actor=actor, reason=options.reason)
        if isinstance(target.payload, Redacted):
            print_notice(f"{number} had been taken out before; it was erased once more")
        else:
            print_notice(f"{number} was taken out, by {terminal_line(actor)}")
    return ExitStatus.OK


def _confirm(command: str, question: str, lines: list[str], *, is_sure: bool) -> ExitStatus | None:
    """Ask before a permanent change; return the exit status if the user declines."""
    if is_sure:
        return None
    if not sys.stdin.isatty():
        print_notice(f"{command}: there is nobody to ask; add --yes to do it without a question")
        return ExitStatus.USAGE
    for line in lines:
        print(f"  {line}".rstrip(), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return None
    print_notice("nothing was changed")
    return ExitStatus.FAILED


def remove_sessions(options: argparse.Namespace) -> int:
    """Remove sessions, and the blobs that no other refers to."""
    with open_existing_store(options) as store:
        sessions = dict.fromkeys([find_named_session(store, name) for name in options.sessions])
        count = format_count(len(sessions), "session", "sessions")
        lines = [f"{terminal_line(name)}  {_session_title(store, name)}" for name in sessions]
        status = _confirm("rm", f"Remove {count} for good?", lines, is_sure=options.yes)
        if status is not None:
            return status
        for session in sessions:
            store.remove(session)
        print_notice(f"removed: {count}")
        try:
            store.collect_garbage()
        except (LogError, InvalidDocument) as exc:
            print_notice(f"its blobs are still there: {exc}")
    return ExitStatus.OK


def _session_title(store: Store, session: str) -> str:
    try:
        return terminal_line(store.summary(session).title)
    except (LogError, InvalidDocument):
        return "(damaged)"


# -- the group --------------------------------------------------------------------------------


_SESSION: Final = argument(
    "session", metavar="ID", help="an id, the beginning of one, or last (the one written to last)"
)
_JSON: Final = flag("--json", help="print JSON, one object a line (`jq -s` makes an array of them)")
_YES: Final = flag("--yes", help="do not ask")
_ACTIONS: Final = (
    GroupCommand(
        "list",
        list_sessions,
        "list the sessions, the latest first",
        "List the sessions of a store, the one written to last first.",
        (
            argument("--limit", type=positive_int, metavar="N", help="print so many at most"),
            flag("--here", help="only those begun in this folder"),
            _JSON,
        ),
    ),
    GroupCommand(
        "show",
        show_session,
        "print a conversation",
        "Print what was said, called, returned and decided on a branch. Long results are cut. "
        "Control characters are shown as escapes. Times are UTC.",
        (
            _SESSION,
            BRANCH,
            flag("--all", help="print long results and texts in full"),
            flag("--json", help="print the entries as they are stored, one JSON object a line"),
        ),
    ),
    GroupCommand(
        "tree",
        draw_tree,
        "draw the branches of a session",
        "Draw all entries of a session, with branches, labels and what was left behind. Long runs "
        "are folded.",
        (_SESSION, flag("--all", help="draw every entry, fold nothing"), _JSON),
    ),
    GroupCommand(
        "search",
        search_sessions,
        "find entries and titles by their words",
        "Find the titles and then the entries of all sessions that hold all the words, the newest "
        "first. Words are whole ones, in any order and in any case: 'test' does not find 'tests'.",
        (
            argument("terms", nargs="+", metavar="WORD", help="a whole word; all of them"),
            argument(
                "--limit",
                type=positive_int,
                default=20,
                metavar="N",
                help="print so many at most (20)",
            ),
            _JSON,
        ),
    ),
    GroupCommand(
        "export",
        _export_session,
        "write a session to a file",
        "Write a session in one of several formats. What a format has no words for is listed on "
        "stderr, one line for each kind of loss.",
        (_SESSION, *EXPORT_ARGUMENTS),
    ),
    GroupCommand(
        "import",
        import_session,
        "read a session from a file",
        "Add a session from a file and print its id. A file that cannot be read adds nothing.",
        (
            argument("file", metavar="FILE", help="what to read; - is stdin"),
            argument(
                "--format",
                choices=SESSION_FORMATS,
                metavar="F",
                help=f"{FORMATS_HELP}; else it is found out",
            ),
            argument("--title", metavar="T", help="give the session this title"),
            argument("--id", metavar="ID", help="give the session this id"),
        ),
    ),
    GroupCommand(
        "fork",
        fork_session,
        "begin a branch, or copy a session",
        "Begin a branch that shares everything up to an entry, and print its name; with --clone "
        "copy the whole session and print the id of the copy.",
        (
            _SESSION,
            argument("--at", metavar="ENTRY", help=f"go on behind this entry: {ENTRY_NAMES}"),
            argument("--name", metavar="NAME", help="the branch; else it is named after the time"),
            flag("--clone", help="copy the session, and leave it alone"),
        ),
    ),
    GroupCommand(
        "label",
        label_entry,
        "give an entry a name",
        "Give an entry a name, by which other commands find it.",
        (_SESSION, ENTRY, argument("text", metavar="TEXT", help="what it is called; no number")),
    ),
    GroupCommand(
        "rename",
        rename_session,
        "give a session another title",
        "Give a session another title. Its id and everything in it stay as they are.",
        (
            _SESSION,
            argument("title", metavar="TITLE", help="what the list shows of it from now on"),
        ),
    ),
    GroupCommand(
        "redact",
        redact_entry,
        "take the content out of an entry",
        "Take the content out of an entry for good. That it was done, by whom and why is recorded, "
        "and the chain of digests stays valid.",
        (
            _SESSION,
            ENTRY,
            argument("--reason", required=True, metavar="TEXT", help="why; it is recorded"),
            argument("--actor", metavar="NAME", help="who; else the user of this machine"),
            _YES,
        ),
    ),
    GroupCommand(
        "rm",
        remove_sessions,
        "remove sessions",
        "Remove sessions for good, and the images that only they refer to.",
        (
            argument(
                "sessions",
                nargs="+",
                metavar="ID",
                help="an id, the beginning of one, or last (the one written to last)",
            ),
            _YES,
        ),
    ),
)


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    group = add_group(
        commands,
        "sessions",
        [action._replace(arguments=(*action.arguments, STORE)) for action in _ACTIONS],
        is_required=False,
        help="look at, search, copy and change kept conversations",
        description="Look at the conversations that are kept in a store, and work with them.",
        epilog="'steno sessions COMMAND --help' tells more about a command; without one it lists.",
    )
    add_arguments(group, [STORE])
    group.set_defaults(run=list_sessions, limit=None, here=False, json=False)
