"""`steno verify`: check the records of sessions against their digests."""

from __future__ import annotations

import argparse
import re
from typing import Final

import msgspec

from steno.app.commands.audit import (
    SessionVerification,
    describe_verification,
    verification_as_json,
    verify_session,
)
from steno.app.session_lookup import UnreadableSessions, find_session, readable_headers
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option
from steno.cli.store_options import open_existing_store, progress_display, report_unreadable
from steno.render.output import print_json
from steno.render.progress import show_activity, show_progress
from steno.render.table_output import StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line

_DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
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


def _run_verify(options: argparse.Namespace) -> int:
    if options.all == (options.session is not None) or (options.all and options.head):
        options.parser.error("name one session, or use --all (without --head)")
    unreadable, status = UnreadableSessions(), ExitStatus.OK
    with open_existing_store(options) as store:
        if options.all:
            sessions = sorted(header.id for header in readable_headers(store, unreadable))
        else:
            sessions = [
                find_session(
                    store, options.session, unreadable=unreadable, show_progress=progress_display()
                )
            ]
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
        session, chain = terminal_line(verification.session), verification.chain
        if options.json:
            print_json(msgspec.json.encode(verification_as_json(verification)))
        elif verification.problem is None:
            _print_verification(verification, is_one_of_many=options.all)
        if verification.problem is not None:
            print_notice(f"session {session}: {terminal_line(verification.problem)}")
            status = ExitStatus.FAILED
        elif chain is not None and chain.foreign and not options.allow_newer:
            print_notice(f"session {session}: only a newer steno can check all of it")
            status = status or ExitStatus.INCOMPLETE
    if status is ExitStatus.FAILED:
        return status
    return max(report_unreadable(unreadable), status)


def _print_verification(verification: SessionVerification, *, is_one_of_many: bool) -> None:
    chain, printer = verification.chain, StdoutPrinter()
    assert chain is not None
    description = describe_verification(chain)
    if verification.head_record is not None:
        description += f", the digest is that of record {verification.head_record}"
    printer.line(
        ("intact", "bold green"), f"  {terminal_line(verification.session)}  {description}"
    )
    if not is_one_of_many:
        for branch, digest in chain.heads.items():
            printer.line("  ", (digest or "(nothing yet)", "cyan"), f"  {terminal_line(branch)}")
