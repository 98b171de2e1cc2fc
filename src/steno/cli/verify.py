"""The command `steno verify`, which checks the records of sessions against their digests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from steno.app.commands.arguments import SESSION_NAMES, argument, flag
from steno.app.commands.report import Lines, Report, ReportLine
from steno.app.session_lookup import UnreadableSessions, find_session, readable_headers
from steno.app.verification import (
    SessionVerification,
    describe_verification,
    verification_as_json,
    verify_session,
)
from steno.cli.arguments import STORE, ExitStatus, Subparsers, add_command
from steno.cli.report_command import print_report
from steno.cli.store_options import open_existing_store, progress_display
from steno.render.progress import show_activity, show_progress
from steno.render.terminal_text import terminal_line

_DIGEST_PATTERN: Final = re.compile(r"[0-9a-f]{64}")
_EPILOG: Final = """\
exit status:
  0  intact
  1  a record is invalid, or the session cannot be read
  2  the command line is invalid
  3  a newer version of steno wrote entries that this version cannot check

Anyone who can write to the store can also compute a new chain. verify prints a digest for each
branch: keep a copy of it outside the store, and check later with --head that the chain still
contains it.
"""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "verify",
        _run_verify,
        "check that no recorded entry was changed",
        "Check every record of a session against the chain of digests, and report the first "
        "invalid record.",
        arguments=(
            argument("session", nargs="?", metavar="ID", help=SESSION_NAMES),
            flag("--all", help="check all sessions of the store"),
            argument(
                "--head",
                metavar="DIGEST",
                type=_parse_digest,
                help="also check that the chain contains this digest",
            ),
            flag(
                "--allow-newer",
                help="accept entries of a newer version of steno, which this version cannot check",
            ),
            flag("--json", help="print one JSON object per session"),
            STORE,
        ),
        epilog=_EPILOG,
    )


def _parse_digest(text: str) -> str:
    if _DIGEST_PATTERN.fullmatch(text.lower()) is None:
        raise argparse.ArgumentTypeError("must be a digest of 64 hexadecimal digits")
    return text.lower()


def _run_verify(options: argparse.Namespace) -> int:
    if options.all == (options.session is not None) or (options.all and options.head):
        options.parser.error(
            "name a session (an ID or last), or use --all; --head needs one session"
        )
    unreadable, status = UnreadableSessions(), ExitStatus.OK
    with open_existing_store(options) as store:
        if options.all:
            sessions = sorted(header.id for header in readable_headers(store, unreadable))
        else:
            show = progress_display()
            session = find_session(
                store, options.session, unreadable=unreadable, show_progress=show
            )
            sessions = [session]
        check = partial(verify_session, store, head=options.head)
        if len(sessions) == 1:
            with show_activity("verifying the session"):
                verifications = [check(sessions[0])]
        else:
            with show_progress("verifying sessions", len(sessions)) as progress:
                verifications = list(map(check, progress.track(sessions)))
    lines: list[ReportLine] = []
    notices: list[str] = []
    for verification in verifications:
        session, chain = terminal_line(verification.session), verification.chain
        if verification.problem is not None:
            notices.append(f"session {session}: {terminal_line(verification.problem)}")
            status = ExitStatus.FAILED
            continue
        lines += _verification_lines(verification, is_one_of_many=options.all)
        if chain is not None and chain.foreign and not options.allow_newer:
            notices.append(
                f"session {session}: some entries can be checked only by a newer version of steno"
            )
            status = status or ExitStatus.INCOMPLETE
    if status is not ExitStatus.FAILED:
        notices += unreadable.lines
    report = Report(
        [Lines(lines)],
        notices=tuple(notices),
        data=map(verification_as_json, verifications),
        is_failed=status is ExitStatus.FAILED or bool(unreadable),
    )
    return print_report(report, as_json=options.json) or status


def _verification_lines(
    verification: SessionVerification, *, is_one_of_many: bool
) -> Iterator[ReportLine]:
    chain = verification.chain
    assert chain is not None
    description = describe_verification(chain)
    if verification.head_record is not None:
        description += f", record {verification.head_record} has the digest"
    session = terminal_line(verification.session)
    yield ReportLine([("intact", "bold green"), f"  {session}  {description}"])
    if not is_one_of_many:
        for branch, digest in chain.heads.items():
            head = (digest or "(no entries yet)", "cyan")
            yield ReportLine(["  ", head, f"  {terminal_line(branch)}"])
