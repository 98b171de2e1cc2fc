"""`steno sessions` and `/sessions`: list, search, print, draw, change and remove sessions.

In a terminal the session is by default the open one. The open session is changed through
`AgentSession`, which notifies its listeners; other sessions are changed in the store.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from steno.app.commands.arguments import (
    BRANCH,
    ENTRY,
    ENTRY_NAMES,
    SESSION_NAMES,
    UsageError,
    add_arguments,
    argument,
    flag,
    positive_int,
    split_words,
    with_optional_session,
)
from steno.app.commands.context import CommandContext, CommandDefinition, GroupAction
from steno.app.commands.report import Lines, Report, ReportLine, Table
from steno.app.folders import display_folder, user_name, working_folder
from steno.app.session_edit import (
    check_not_open,
    clean_label,
    clean_title,
    clone_session,
    new_branch_name,
    remove_sessions,
    rename_session,
    start_branch,
)
from steno.app.session_log import (
    BranchTreeRow,
    SessionLog,
    describe_log_entry,
    fold_rows,
    side_branch_starts,
    summarize_entry,
    tree_rows,
)
from steno.app.session_lookup import (
    SessionSummary,
    UnreadableSessions,
    list_sessions,
    search_sessions,
    shortest_unique_length,
)
from steno.codec import encode_entry
from steno.errors import Conflict, Damaged, InvalidDocument, InvalidValue, LogError, Missing
from steno.ids import utc_now
from steno.log.blobs import blob_digests
from steno.log.queries import tools_of, total_usage
from steno.messages.message import ToolResultMessage
from steno.records.entry import Entry, Redacted
from steno.render.describe import entry_type
from steno.render.message_text import StyledParagraph, entry_heading, message_paragraphs
from steno.render.quantities import format_age, format_count, format_time
from steno.render.table_output import INDENT, Column, StyledText
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.render.transcript_document import describe_usage
from steno.store import SearchHit, Store
from steno.store.base import derive_title

_TITLE: Final = "Sessions"
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
_MAX_SUMMARY_LENGTH: Final = 100
"""The maximum width of a summary; a line may be cut further, at the width of the terminal."""
_MAX_REDACTED_SUMMARY: Final = 60
_DETAIL_LIMITS: Final = (12, 2_000)
"""The maximum numbers of lines and of characters of a printed detail, such as a tool result."""
_TEXT_LIMITS: Final = (400, 40_000)
"""The maximum numbers of lines and of characters of any other printed text."""
_AnyReport: TypeAlias = Report | Awaitable[Report]


# -- list and search --------------------------------------------------------------------------


def _list_sessions(context: CommandContext, options: argparse.Namespace) -> Report:
    """List the sessions of a store, the latest first."""
    unreadable = UnreadableSessions()
    folder = _this_folder(context) if options.here else None
    with context.open_store() as store:
        summaries = list_sessions(
            store,
            unreadable,
            folder=folder,
            only_this_folder=options.here,
            show_progress=context.show_progress,
        )
    listed = summaries[: options.limit]
    length = shortest_unique_length([*(one.id for one in summaries), *unreadable.sessions])
    columns = _SESSION_COLUMNS
    if any(summary.folder for summary in listed):
        columns = (*columns, Column("folder", "dim", may_shrink=True))
    rows = [_session_row(summary, length)[: len(columns)] for summary in listed]
    empty = "no sessions yet" if folder is None else "no session was started in this folder"
    return Report(
        title=_TITLE,
        parts=[Table(columns, rows)] if rows else [],
        when_empty="" if unreadable else empty,
        data=map(_session_as_json, listed),
        notices=tuple(unreadable.lines),
        is_failed=bool(unreadable),
    )


def _this_folder(context: CommandContext) -> str:
    return str(working_folder() if context.session is None else context.folder)


def _session_row(summary: SessionSummary, id_length: int) -> list[str]:
    return [
        terminal_line(summary.id[:id_length]),
        terminal_line(summary.title) or "-",
        f"{summary.entries:,}",
        str(len(summary.branches)),
        format_age(summary.changed_at, utc_now()),
        display_folder(summary.folder),
    ]


def _session_as_json(summary: SessionSummary) -> dict[str, object]:
    names = (
        *("id", "title", "entries", "branches"),
        *("created_at", "updated_at", "cloned_from", "folder"),
    )
    return {name: getattr(summary, name) for name in names}


def _search_sessions(context: CommandContext, options: argparse.Namespace) -> Report:
    """List the titles and the entries that contain all search terms."""
    unreadable = UnreadableSessions()
    with context.open_store() as store:
        # Search for one more entry than is listed, to find out whether there are more.
        search = search_sessions(
            store,
            " ".join(options.terms),
            unreadable,
            limit=options.limit + 1,
            show_progress=context.show_progress,
        )
        hits = search.hits[: options.limit]
        numbers = _entry_numbers(store, hits)
    length = shortest_unique_length(header.id for header in search.headers)
    found = [
        _Hit(header.id, None, None, header.created_at, "title", header.title or "")
        for header in search.titled[: options.limit]
    ]
    for session, entry, snippet in hits:
        number = numbers.get((session, entry.id))
        found.append(_Hit(session, number, entry.id, entry.time, entry_type(entry), snippet))
    rows = [list(map(terminal_line, hit.row(length))) for hit in found]
    more = f"more than {format_count(len(hits), 'entry matches', 'entries match')}; raise --limit"
    return Report(
        title=_TITLE,
        parts=[Table(_HIT_COLUMNS, rows)] if rows else [],
        when_empty="" if unreadable else "no entry and no title contains all of these words",
        data=[hit._asdict() for hit in found],
        notices=(*([more] if len(search.hits) > len(hits) else []), *unreadable.lines),
        is_failed=bool(unreadable),
    )


class _Hit(NamedTuple):
    """A title or an entry that contains all search terms."""

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


def _show_session(context: CommandContext, options: argparse.Namespace) -> Report:
    """Return the entries of a branch."""
    with context.open_store() as store:
        log = context.read_log(store, options.session)
        branch = options.branch or context.open_branch_of(log.header.id) or log.active
        path = log.path(branch)
        if not options.json:
            path = [_restore_result(store, entry) for entry in path]
    lines = () if options.json else _session_lines(log, branch, path, is_whole=options.all)
    return Report([Lines(list(lines))], _TITLE, data=(Raw(encode_entry(entry)) for entry in path))


def _restore_result(store: Store, entry: Entry) -> Entry:
    """Return an entry with the long result that is stored in a blob, if the blob can be read."""
    if isinstance(entry.payload, ToolResultMessage) and blob_digests(entry.payload):
        with suppress(Missing, Damaged):
            return replace(entry, payload=store.restore_blobs(entry.payload))
    return entry


def _session_lines(
    log: SessionLog, branch: str, path: Sequence[Entry], *, is_whole: bool
) -> Iterator[ReportLine]:
    header = log.header
    if title := terminal_line(header.title or derive_title(path)):
        yield ReportLine([(title, "bold")])
    yield ReportLine([("session ", "dim"), terminal_line(header.id)])
    started = f"started {format_time(header.created_at)}, " if header.created_at else ""
    others = len(log.heads) - 1
    more = f" (and {others} more)" if others > 0 else ""
    entries = format_count(len(path), "entry", "entries")
    yield ReportLine([(f"{started}{entries}, branch {terminal_line(branch)}{more}", "dim")])
    for entry in path:
        yield ReportLine([])
        yield from _entry_lines(log, entry, is_whole=is_whole)
    if usage := describe_usage(total_usage(path)):
        yield ReportLine([])
        yield ReportLine([("usage: ", "dim"), usage])


def _entry_lines(log: SessionLog, entry: Entry, *, is_whole: bool) -> Iterator[ReportLine]:
    message, tools = entry.message, tools_of(entry, log.calls)
    yield ReportLine(entry_heading(entry, number=log.number(entry.id), tools=tools))
    described = [StyledParagraph(describe_log_entry(entry, log), "dim")]
    for paragraph in described if message is None else message_paragraphs(message):
        yield from _paragraph_lines(paragraph, is_whole=is_whole)


def _paragraph_lines(paragraph: StyledParagraph, *, is_whole: bool) -> Iterator[ReportLine]:
    shown = text = paragraph.text.rstrip("\n")
    if not is_whole:
        max_lines, max_characters = _DETAIL_LIMITS if paragraph.is_detail else _TEXT_LIMITS
        shown = "\n".join(text[:max_characters].split("\n")[:max_lines])
    for line in shown.split("\n"):
        yield ReportLine([INDENT, (line, paragraph.style)] if line else [])
    if omitted := len(text) - len(shown):
        more = format_count(omitted, "more character", "more characters")
        note = f"… {more} (--all shows them)"
        yield ReportLine([INDENT, (note, "dim")])


def _draw_tree(context: CommandContext, options: argparse.Namespace) -> Report:
    """Draw the entries of a session."""
    with context.open_store() as store:
        log = context.read_log(store, options.session)
    rows = tree_rows(log, with_summaries=False)  # most entries are folded
    return Report(
        [Lines(list(_tree_lines(log, rows, shows_all=options.all)))],
        _TITLE,
        data=map(_tree_row_as_json, sorted(rows, key=lambda row: row.number)),
    )


def _tree_lines(
    log: SessionLog, rows: Sequence[BranchTreeRow], *, shows_all: bool
) -> Iterator[ReportLine]:
    """Draw the rows; long runs of ordinary entries are folded into one line."""
    yield ReportLine([("session ", "dim"), terminal_line(log.header.id)])
    starts = side_branch_starts(rows)
    for line in fold_rows(rows, lambda row: shows_all or row.is_landmark):
        row = rows[line.first]
        if row.entry.id in starts:
            yield ReportLine([(f"{row.graph_prefix[:-2]}|\\", "dim")], is_cut=True)
        if line.is_run:
            entries = format_count(line.length, "entry", "entries")
            text = f"{row.graph_prefix}: … {entries} (--all shows them)"
            yield ReportLine([(text, "dim")], is_cut=True)
        else:
            yield ReportLine(_row_pieces(log, row), is_cut=True)
    for name, head in log.heads.items():
        if head is None:
            yield ReportLine([("(no entries yet)", "dim"), _branch_piece(log, name)])


def _row_pieces(log: SessionLog, row: BranchTreeRow) -> list[StyledText]:
    style = "dim" if row.entry.message is None else ("bold" if row.is_active else "")
    summary = truncate_to_width(summarize_entry(row.entry, log), _MAX_SUMMARY_LENGTH)
    return [
        (row.graph_prefix, "dim"),
        ("* ", "green" if row.is_active else "dim"),
        (f"#{row.number} ", "dim"),
        (row.kind, style),
        *[(f" [{terminal_line(label)}]", "yellow") for label in row.labels],
        *[_branch_piece(log, name) for name in row.branches],
        f"  {summary}",
    ]


def _branch_piece(log: SessionLog, name: str) -> StyledText:
    """Return the styled name of a branch, for the end of a row."""
    text = f" <- {terminal_line(name)}"
    return (f"{text} (active)", "bold green") if name == log.active else (text, "cyan")


def _tree_row_as_json(row: BranchTreeRow) -> dict[str, object]:
    """Return an entry and its position in the tree, as a JSON object."""
    return {
        "number": row.number,
        "id": row.entry.id,
        "parent": row.entry.parent,
        "time": row.entry.time,
        "type": row.kind,
        "labels": row.labels,
        "branches": row.branches,
        "active": row.is_active,
    }


# -- fork, label and rename -------------------------------------------------------------------


def _fork_session(context: CommandContext, options: argparse.Namespace) -> _AnyReport:
    """Start a branch, or copy a session."""
    if options.name is not None and not options.name.strip():
        raise InvalidValue(
            "the name is blank; name the branch or omit --name",
            code="blank_name",
            place="--name",
        )
    with context.open_store() as store:
        log = context.read_log(store, options.session)
        session = log.header.id
        at = None if options.at is None else log.find_entry(options.at).id
        name = new_branch_name(options.name or "", log.heads)
        if options.clone:
            branch = name if options.at is not None or options.name is not None else None
            clone = clone_session(store, session, branch, at)
            suffix = "" if branch is None else f", with the new branch {terminal_line(branch)}"
            return _report_name(clone, f"is a copy of {terminal_line(session)}{suffix}", clone)
        open_branch = context.open_branch_of(session)
        head = at or log.heads.get(open_branch or log.active)
        place = "before the first entry" if head is None else f"after {log.number(head)}"
        report = _report_name(
            name, f"has the new branch {terminal_line(name)}, which starts {place}", session
        )
        if open_branch is not None:
            fork = partial(context.open_session.branches.fork, name, at=head)
            return _change_open_session(context, session, fork, report)
        start_branch(store.open(session), name, at)
    return report


def _report_name(name: str, fact: str, session: str) -> Report:
    """Return a report with the name of a new branch or session, and a notice about it."""
    notice = f"session {terminal_line(session)} {fact}"
    return Report([Lines([ReportLine([terminal_line(name)])])], _TITLE, notices=(notice,))


def _label_entry(context: CommandContext, options: argparse.Namespace) -> _AnyReport:
    """Label an entry."""
    text = clean_label(options.text)
    with context.open_store() as store:
        log = context.read_log(store, options.session)
        entry = log.find_entry(options.entry).id
        report = _notice(f"{log.number(entry)} has the label {terminal_line(text)}")
        if context.open_branch_of(log.header.id) is not None:
            label = partial(context.open_session.branches.label, entry, text)
            return _change_open_session(context, log.header.id, label, report)
        store.open(log.header.id).label(entry, text)
    return report


def _rename_session(context: CommandContext, options: argparse.Namespace) -> _AnyReport:
    """Change the title of a session."""
    title = clean_title(options.title)
    with context.open_store() as store:
        session = context.find_session(store, options.session)
        is_open = context.open_branch_of(session) is not None
        name = f"session {terminal_line(session)}"
        if is_open and not context.open_session.status.session:
            name = "this session"  # it gets its ID when it is recorded
        report = _notice(f"{name} has the title {terminal_line(title)}")
        if is_open:
            rename = partial(context.open_session.session_list.rename_current, title)
            return _change_open_session(context, session, rename, report)
        rename_session(store, session, title)
    return report


async def _change_open_session(
    context: CommandContext, session: str, change: Callable[[], object], report: Report
) -> Report:
    """Call `change` on the event loop, to change the open session, and return `report`.

    Raises Conflict if another session was opened while this one was read in a thread.
    """
    if context.open_session.state.conversation.id != session:
        raise Conflict(
            "another session was opened in the meantime; try again", code="session_switched"
        )
    result = change()
    if isinstance(result, Awaitable):
        await result
    return report


def _notice(*lines: str, is_failed: bool = False) -> Report:
    return Report(title=_TITLE, notices=lines, is_failed=is_failed)


# -- redact and remove ------------------------------------------------------------------------


def _redact_entry(context: CommandContext, options: argparse.Namespace) -> Report:
    """Remove the content of an entry permanently."""
    if not options.reason.strip():
        raise InvalidValue(
            "the reason is blank; state why the content is deleted",
            code="reason_blank",
            place="--reason",
        )
    actor = options.actor or user_name()
    if actor is None:
        raise InvalidValue(
            "your user name is unknown; name the actor with --actor",
            code="user_unknown",
            place="redact",
        )
    with context.open_store() as store:
        log = context.read_log(store, options.session)
        check_not_open([log.header.id], context.open_session_id)
        target = log.find_entry(options.entry)
        number = log.number(target.id)
        summary = truncate_to_width(summarize_entry(target, log), _MAX_REDACTED_SUMMARY)
        entry_line = f"{number} {entry_type(target)}  {summary}"
        question = f"Permanently delete the content of {number}?"
        if not _is_confirmed(context, options, "redact", question, [entry_line]):
            return _NOTHING_CHANGED
        store.redact(log.header.id, target.id, actor=actor, reason=options.reason)
    if isinstance(target.payload, Redacted):
        return _notice(f"{number} was already redacted; its content was deleted again")
    return _notice(f"{number} was redacted by {terminal_line(actor)}")


def _is_confirmed(
    context: CommandContext,
    options: argparse.Namespace,
    action: str,
    question: str,
    lines: Sequence[str],
) -> bool:
    """Return whether the user confirms a permanent change, with `--yes` or by an answer.

    Raises UsageError if there is no terminal to ask on.
    """
    if options.yes:
        return True
    if context.ask is None:
        raise UsageError(
            "this cannot be undone; add --yes to do it",
            code="confirmation_needed",
            place=action,
        )
    return context.ask(question, lines)


_NOTHING_CHANGED: Final = _notice("nothing was changed", is_failed=True)


def _remove_sessions(context: CommandContext, options: argparse.Namespace) -> Report:
    """Delete sessions, and the blobs that no other session refers to."""
    with context.open_store() as store:
        sessions = dict.fromkeys([context.find_session(store, name) for name in options.sessions])
        check_not_open(sessions, context.open_session_id)
        count = format_count(len(sessions), "session", "sessions")
        lines = [f"{terminal_line(name)}  {_session_title(store, name)}" for name in sessions]
        if not _is_confirmed(context, options, "rm", f"Permanently delete {count}?", lines):
            return _NOTHING_CHANGED
        error = remove_sessions(store, sessions)
    left = [] if error is None else [f"blobs were not deleted: {error}"]
    return _notice(f"{count} deleted", *left)


def _session_title(store: Store, session: str) -> str:
    try:
        return terminal_line(store.summary(session).title)
    except (LogError, InvalidDocument):
        return "(damaged)"


# -- the group --------------------------------------------------------------------------------


NAMED_SESSION: Final = argument("session", metavar="ID", help=SESSION_NAMES)
_JSON: Final = flag("--json", help="print one JSON object per line (`jq -s` makes an array)")
_YES: Final = flag("--yes", help="do not ask for confirmation")
ACTIONS: Final = (
    GroupAction(
        "list",
        _list_sessions,
        "list the sessions, the latest first",
        "List the sessions of a store, the latest first.",
        (
            argument("--limit", type=positive_int, metavar="N", help="list at most N sessions"),
            flag("--here", help="only sessions that were started in this folder"),
            _JSON,
        ),
    ),
    GroupAction(
        "show",
        _show_session,
        "print a conversation",
        "Print the messages, calls, results and decisions of a branch. Long results are "
        "truncated, control characters are escaped, and times are UTC.",
        (
            NAMED_SESSION,
            BRANCH,
            flag("--all", help="print long results and texts in full"),
            flag("--json", help="print the stored entries, one JSON object per line"),
        ),
    ),
    GroupAction(
        "tree",
        _draw_tree,
        "draw the branches of a session",
        "Draw the entries of a session as a tree, with branches, labels and abandoned entries. "
        "Long sequences of entries are folded.",
        (NAMED_SESSION, flag("--all", help="draw every entry"), _JSON),
    ),
    GroupAction(
        "search",
        _search_sessions,
        "search entries and titles for words",
        "Search all sessions. List the titles that contain all the words, then the entries, each "
        "newest first. Only whole words match, in any order and case: 'test' does not find "
        "'tests'.",
        (
            argument("terms", nargs="+", metavar="WORD", help="a whole word"),
            argument(
                "--limit",
                type=positive_int,
                default=20,
                metavar="N",
                help="list at most N entries (default: 20)",
            ),
            _JSON,
        ),
    ),
    GroupAction(
        "fork",
        _fork_session,
        "start a branch, or copy a session",
        "Start a branch after an entry, and print its name. With --clone, copy the whole session "
        "and print the ID of the copy.",
        (
            NAMED_SESSION,
            argument(
                "--at",
                metavar="ENTRY",
                help=f"branch after this entry: {ENTRY_NAMES} (default: the last entry)",
            ),
            argument(
                "--name",
                metavar="NAME",
                help="the name of the branch (default: fork-1, fork-2, ...)",
            ),
            flag("--clone", help="copy the session instead of changing it"),
        ),
    ),
    GroupAction(
        "label",
        _label_entry,
        "label an entry",
        "Label an entry. Other commands accept the label as the name of the entry.",
        (
            NAMED_SESSION,
            ENTRY,
            argument("text", metavar="TEXT", help="the label; it must not be a number"),
        ),
    ),
    GroupAction(
        "rename",
        _rename_session,
        "change the title of a session",
        "Change the title of a session. Its ID and its entries stay the same.",
        (
            NAMED_SESSION,
            argument("title", metavar="TITLE", help="the new title"),
        ),
    ),
    GroupAction(
        "redact",
        _redact_entry,
        "delete the content of an entry",
        "Permanently delete the content of an entry. The actor and the reason are recorded, and "
        "the chain of digests stays valid.",
        (
            NAMED_SESSION,
            ENTRY,
            argument(
                "--reason", required=True, metavar="TEXT", help="the reason, which is recorded"
            ),
            argument(
                "--actor", metavar="NAME", help="who redacts the entry (default: your user name)"
            ),
            _YES,
        ),
    ),
    GroupAction(
        "rm",
        _remove_sessions,
        "delete sessions",
        "Permanently delete sessions, and the blobs that only they refer to. Blobs stored "
        "within the last hour are kept; run `steno store gc` later to delete them.",
        (argument("sessions", nargs="+", metavar="ID", help=SESSION_NAMES), _YES),
    ),
)
DEFAULTS: Final = {"run_action": _list_sessions, "limit": None, "here": False, "json": False}
"""The options if no command of the group is named: the sessions are listed."""


def _add_actions(parser: argparse.ArgumentParser, in_terminal: bool) -> None:
    parser.set_defaults(**DEFAULTS)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for action in ACTIONS:
        subparser = subparsers.add_parser(
            action.name, help=action.help, description=action.description
        )
        arguments = with_optional_session(action.arguments) if in_terminal else action.arguments
        add_arguments(subparser, arguments)
        subparser.set_defaults(run_action=action.run)


def _run_sessions(context: CommandContext, options: argparse.Namespace) -> _AnyReport:
    result: _AnyReport = options.run_action(context, options)
    return result


COMMAND: CommandDefinition = CommandDefinition(
    _run_sessions,
    (),
    split_words,
    help="list, search, show, copy and change stored sessions",
    description="List, search, show, copy and change the sessions of a store. Without a command, "
    "the sessions are listed.",
    add_actions=_add_actions,
    reads_store=True,
)
