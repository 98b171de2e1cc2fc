"""`steno audit` and `steno verify`: list the decisions of a session, and check its digests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from steno.app.reports.audit import (
    AUDIT_COLUMNS,
    DETAILS_COLUMN,
    SessionVerification,
    audit_details,
    audit_row,
    describe_missing_decision,
    describe_verification,
    verification_as_json,
    verify_session,
)
from steno.app.session_log import SessionLog
from steno.app.session_lookup import UnreadableSessions, find_session, readable_headers
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option, parse_time
from steno.cli.store_options import open_existing_store, report_unreadable
from steno.formats import audit as audit_format
from steno.log.queries import EntryKind, EntryQuery, select_entries
from steno.messages.content import Opaque
from steno.messages.message import Message
from steno.records.entry import Entry, Payload
from steno.render.describe import entry_type
from steno.render.progress import show_activity, show_progress
from steno.render.table_output import StdoutPrinter, print_json_object, print_notice
from steno.render.terminal_text import terminal_line

_DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


_ENTRY_KINDS: Final = (
    *(kind.value for kind in EntryKind),
    *(
        str(payload.__struct_config__.tag)
        for payload in get_args(Payload)
        if payload is not Opaque and payload not in get_args(Message)
    ),
)
"""The names of entries in the table, except those that a newer steno wrote."""


def add_commands(commands: Subparsers) -> None:
    """Add both commands to the command line."""
    _add_audit(commands)
    _add_verify(commands)


def _add_audit(commands: Subparsers) -> None:
    audit = commands.add_parser(
        "audit",
        help="tell who decided what in a session",
        description="Tell who decided what: everything in a session in the order it was written, "
        "also what was left behind. Times are UTC.",
        epilog="example: steno audit last --tool bash --decision denied --since 2d",
    )
    audit.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    audit.add_argument("--json", action="store_true", help="print the audit log as one JSON object")
    for name, what in (("since", "not before"), ("until", "not after")):
        audit.add_argument(
            f"--{name}",
            type=parse_time,
            metavar="T",
            help=f"{what} this time: 2024-05-17T06:30:00Z, or 2h, 3d (ago)",
        )
    audit.add_argument("--kind", metavar="K", help=", ".join(_ENTRY_KINDS))
    audit.add_argument("--decision", metavar="D", help="what was decided: approved, denied, ...")
    audit.add_argument("--tool", metavar="T", help="calls of this tool, and decisions about them")
    audit.add_argument("--actor", metavar="A", help="what this person or program did")
    audit.add_argument("--branch", metavar="B", help="only what led to the end of this branch")
    add_store_option(audit)
    audit.set_defaults(run=_run_audit, parser=audit)


def _add_verify(commands: Subparsers) -> None:
    verify = commands.add_parser(
        "verify",
        help="check that nothing in a session was changed",
        description="Check every record of a session against the chain of digests. Exits with 1 "
        "and names the first bad record if there is one.",
        epilog="Whoever can write to the store can also compute a new chain: keep the digest of a "
        "head elsewhere, and check later that it is still there with --head.",
    )
    verify.add_argument("session", nargs="?", metavar="ID", help="an id, its beginning, or last")
    verify.add_argument("--all", action="store_true", help="check all sessions of the store")
    verify.add_argument(
        "--head",
        metavar="DIGEST",
        type=_parse_digest,
        help="check also that the chain holds this digest",
    )
    verify.add_argument(
        "--allow-newer",
        action="store_true",
        help=f"do not mind entries of a newer version, which only that can check (else exit {ExitStatus.INCOMPLETE})",
    )
    verify.add_argument(
        "--json", action="store_true", help="print an object for each session, one a line"
    )
    add_store_option(verify)
    verify.set_defaults(run=_run_verify, parser=verify)


def _parse_digest(text: str) -> str:
    if _DIGEST_PATTERN.fullmatch(text.lower()) is None:
        raise argparse.ArgumentTypeError("a digest has 64 hexadecimal digits")
    return text.lower()


# -- audit -----------------------------------------------------------------------------------


def _run_audit(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        log = SessionLog.read(store, find_session(store, options.session))
    everything = list(log.entries.values())
    kind: str | None = options.kind
    if kind is not None and kind not in {*_ENTRY_KINDS, *map(entry_type, everything)}:
        options.parser.error(f"--kind: it is one of {', '.join(_ENTRY_KINDS)}")
    query = EntryQuery(
        since=options.since,
        until=options.until,
        kind=EntryKind(kind) if kind in tuple(EntryKind) else None,
        decision=options.decision,
        tool=options.tool,
        actor=options.actor,
    )
    candidates = everything if options.branch is None else log.path(options.branch)
    entries = select_entries(candidates, query, among=everything)
    if kind is not None and query.kind is None:
        entries = tuple([entry for entry in entries if entry_type(entry) == kind])
    if options.json:
        print_json_object(audit_format.encode(log.header, entries).data)
    elif entries:
        _print_entries(entries, log)
    else:
        print_notice(
            "nothing in the session answers to this"
            + describe_missing_decision(options.decision, everything)
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


def _run_verify(options: argparse.Namespace) -> int:
    if options.all == (options.session is not None) or (options.all and options.head):
        options.parser.error("name one session, or use --all (without --head)")
    unreadable, status = UnreadableSessions(), ExitStatus.OK
    with open_existing_store(options) as store:
        if options.all:
            sessions = sorted(header.id for header in readable_headers(store, unreadable))
        else:
            sessions = [find_session(store, options.session, doubts=unreadable)]
        if len(sessions) == 1:
            with show_activity("verifying the session"):
                verifications = [verify_session(store, sessions[0], options.head)]
        else:
            with show_progress("verifying sessions", len(sessions)) as progress:
                verifications = [
                    verify_session(store, session, options.head)
                    for session in progress.track(sessions)
                ]
    for verification in verifications:
        if options.json:
            print_json_object(msgspec.json.encode(verification_as_json(verification)))
        elif verification.problem is None:
            _print_verification(verification, is_one_of_many=options.all)
        if verification.problem is not None:
            print_notice(
                f"session {terminal_line(verification.session)}: {terminal_line(verification.problem)}"
            )
            status = ExitStatus.FAILED
        elif (
            verification.found is not None
            and verification.found.foreign
            and not options.allow_newer
        ):
            print_notice(
                f"session {terminal_line(verification.session)}: only a newer steno can check all of it"
            )
            status = status or ExitStatus.INCOMPLETE
    if status is ExitStatus.FAILED:
        return status
    return max(report_unreadable(unreadable), status)


def _print_verification(verification: SessionVerification, *, is_one_of_many: bool) -> None:
    found, printer = verification.found, StdoutPrinter()
    assert found is not None
    shown = describe_verification(found)
    if verification.head_record is not None:
        shown += f", the digest is that of record {verification.head_record}"
    printer.line(("intact", "bold green"), f"  {terminal_line(verification.session)}  {shown}")
    if not is_one_of_many:
        for branch, digest in found.heads.items():
            printer.line("  ", (digest or "(nothing yet)", "cyan"), f"  {terminal_line(branch)}")
