"""`steno audit`: list the decisions of a session."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, get_args

from steno.app.reports.audit import (
    AUDIT_COLUMNS,
    DETAILS_COLUMN,
    audit_details,
    audit_row,
    describe_missing_decision,
)
from steno.app.session_log import SessionLog
from steno.app.session_lookup import find_session
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option, parse_time
from steno.cli.store_options import open_existing_store
from steno.formats import audit as audit_format
from steno.log.queries import EntryKind, EntryQuery, select_entries
from steno.messages.content import Opaque
from steno.messages.message import Message
from steno.records.entry import Entry, Payload
from steno.render.describe import entry_type, payload_type
from steno.render.output import print_json
from steno.render.table_output import StdoutPrinter, print_notice

_ENTRY_KINDS: Final = (
    *(kind.value for kind in EntryKind),
    *(
        payload_type(payload)
        for payload in get_args(Payload)
        if payload is not Opaque and payload not in get_args(Message)
    ),
)
"""The names of entries in the table, except those that a newer steno wrote."""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    audit = commands.add_parser(
        "audit",
        help="tell who decided what in a session",
        description="Tell who decided what: everything in a session in the order it was written, "
        "also what was left behind. Times are UTC.",
        epilog="example: steno audit last --tool bash --decision denied --since 2d",
    )
    audit.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    audit.add_argument("--json", action="store_true", help="print the audit log as one JSON object")
    for name, limit in (("since", "not before"), ("until", "not after")):
        audit.add_argument(
            f"--{name}",
            type=parse_time,
            metavar="T",
            help=f"{limit} this time: 2024-05-17T06:30:00Z, or 2h, 3d (ago)",
        )
    audit.add_argument("--kind", metavar="K", help=", ".join(_ENTRY_KINDS))
    audit.add_argument("--decision", metavar="D", help="what was decided: approved, denied, ...")
    audit.add_argument("--tool", metavar="T", help="calls of this tool, and decisions about them")
    audit.add_argument("--actor", metavar="A", help="what this person or program did")
    audit.add_argument("--branch", metavar="B", help="only what led to the end of this branch")
    add_store_option(audit)
    audit.set_defaults(run=_run_audit, parser=audit)


def _run_audit(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        log = SessionLog.read(store, find_session(store, options.session))
    all_entries = list(log.entries.values())
    kind: str | None = options.kind
    if kind is not None and kind not in {*_ENTRY_KINDS, *map(entry_type, all_entries)}:
        options.parser.error(f"--kind: it is one of {', '.join(_ENTRY_KINDS)}")
    query = EntryQuery(
        since=options.since,
        until=options.until,
        kind=EntryKind(kind) if kind in tuple(EntryKind) else None,
        decision=options.decision,
        tool=options.tool,
        actor=options.actor,
    )
    candidates = all_entries if options.branch is None else log.path(options.branch)
    entries = select_entries(candidates, query, call_entries=all_entries)
    if kind is not None and query.kind is None:
        entries = tuple([entry for entry in entries if entry_type(entry) == kind])
    if options.json:
        print_json(audit_format.encode(log.header, entries).data)
    elif entries:
        _print_entries(entries, log)
    else:
        print_notice(
            "nothing in the session answers to this"
            + describe_missing_decision(options.decision, all_entries)
        )
    return ExitStatus.OK


def _print_entries(entries: Sequence[Entry], log: SessionLog) -> None:
    printer = StdoutPrinter()
    rows = [audit_row(entry, log) for entry in entries]
    details = [audit_details(entry, log) for entry in entries]
    if printer.width is None:  # so that `grep` finds it beside its decision
        complete_rows = [[*row, detail] for row, detail in zip(rows, details, strict=True)]
        printer.table((*AUDIT_COLUMNS, DETAILS_COLUMN), complete_rows)
    else:
        printer.table(AUDIT_COLUMNS, rows, below=dict(enumerate(details)))
