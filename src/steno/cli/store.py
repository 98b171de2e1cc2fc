"""The commands `steno store convert`, `gc` and `info`, which operate on whole stores."""

from __future__ import annotations

import argparse
from pathlib import Path

from steno.app.commands.arguments import SESSION_NAMES, UsageError, argument, flag
from steno.app.commands.report import Lines, Report, ReportLine
from steno.app.session_lookup import (
    UNREADABLE_ERRORS,
    UnreadableSessions,
    open_store_at,
    readable_headers,
    readable_summaries,
)
from steno.cli.arguments import (
    STORE,
    STORE_ADDRESSES,
    ExitStatus,
    GroupCommand,
    Subparsers,
    add_group,
)
from steno.cli.report_command import print_report
from steno.cli.store_options import (
    find_named_session,
    open_existing_store,
    parse_store_address,
    progress_display,
    report_unreadable,
    store_address,
)
from steno.errors import Conflict, Missing
from steno.render.output import print_line
from steno.render.progress import show_progress
from steno.render.quantities import format_count
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_text
from steno.store import Store, convert_store
from steno.store.locate import StoreAddress


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    add_group(
        commands,
        "store",
        (
            GroupCommand(
                "convert",
                _run_convert,
                "copy sessions from one store to another",
                "Copy sessions with their digests and blobs to another store, which is created if "
                "it does not exist. Each session is copied completely or not at all. Damaged "
                "sessions are skipped and reported.",
                (
                    argument(
                        "source", metavar="SOURCE", help=f"the store to read: {STORE_ADDRESSES}"
                    ),
                    argument("target", metavar="TARGET", help="the store to write; see SOURCE"),
                    argument(
                        "--session",
                        action="append",
                        metavar="ID",
                        help=f"copy only this session: {SESSION_NAMES}; repeatable",
                    ),
                    flag(
                        "--skip-existing",
                        help="skip sessions that the target already has, for example to continue "
                        "an interrupted copy",
                    ),
                ),
                "example:\n  steno store convert sqlite:work.db postgresql://host/db",
            ),
            GroupCommand(
                "gc",
                _run_gc,
                "delete blobs that no session refers to",
                "Delete the blobs that no session refers to and that are older than one hour.",
                (STORE,),
            ),
            GroupCommand(
                "info",
                _run_info,
                "describe a store",
                "Print the address of a store, its size, and its number of sessions, entries and "
                "blobs.",
                (flag("--json", help="print one JSON object"), STORE),
            ),
        ),
        help="copy, clean up and describe stores",
        description="Copy, clean up and describe whole stores.",
    )


def _run_convert(options: argparse.Namespace) -> int:
    address, unreadable = parse_store_address(options.target, "TARGET"), UnreadableSessions()
    if address.kind == "memory":
        raise UsageError(
            "a memory store is lost when the command ends; name another target",
            code="store_not_kept",
            place="convert",
        )
    with open_store_at(parse_store_address(options.source, "SOURCE"), create=False) as source:
        if options.session is None:
            names = [header.id for header in readable_headers(source, unreadable)]
        else:
            found = [find_named_session(source, name) for name in options.session]
            names = list(dict.fromkeys(found))
        with open_store_at(address) as target:
            existing = {header.id for header in target.headers()}
            missing = [name for name in names if name not in existing]
            if len(missing) < len(names) and not options.skip_existing:
                repeated = terminal_text(next(name for name in names if name in existing))
                raise Conflict(
                    "the target already has this session; use --skip-existing to skip it",
                    code="session_exists",
                    place=f"session {repeated}",
                )
            copied = _copy_sessions(source, target, missing, unreadable)
    skipped = len(names) - copied
    text = f"{format_count(copied, 'session', 'sessions')} copied"
    print_line(text + (f", {skipped:,} skipped" if skipped else ""))
    return report_unreadable(unreadable)


def _copy_sessions(
    source: Store, target: Store, sessions: list[str], unreadable: UnreadableSessions
) -> int:
    """Copy the readable sessions to the target, and return the number of copied sessions."""
    copied: set[str] = set()
    remaining = sessions
    try:
        with show_progress("copying sessions", len(sessions)) as progress:

            def on_copied(session: str) -> None:
                copied.add(session)
                progress.show(len(copied))

            while remaining:
                try:
                    convert_store(source, target, remaining, on_session=on_copied)
                    break
                except (*UNREADABLE_ERRORS, Missing) as exc:  # Missing is raised for a blob
                    failed = next(name for name in remaining if name not in copied)
                    unreadable.add(failed, exc)
                    remaining = remaining[remaining.index(failed) + 1 :]
    except BaseException:
        count = f"{len(copied):,} of {len(sessions):,}"
        print_notice(
            f"{count} sessions copied; repeat the command with --skip-existing to continue"
        )
        raise
    return len(copied)


def _run_gc(options: argparse.Namespace) -> int:
    unreadable = UnreadableSessions()
    with open_existing_store(options) as store:
        try:
            freed = store.collect_garbage()
        except UNREADABLE_ERRORS:
            print_notice(
                "gc: nothing was deleted, because an unreadable session may refer to any blob"
            )
            _find_unreadable_sessions(store, unreadable)
            if not unreadable:
                raise  # the damage is not in a session
            return report_unreadable(unreadable)
    print_line(f"{freed:,} bytes freed")
    return ExitStatus.OK


def _find_unreadable_sessions(store: Store, unreadable: UnreadableSessions) -> None:
    headers = readable_headers(store, unreadable)
    with show_progress("reading sessions", len(headers)) as progress:
        for header in progress.track(headers):
            with unreadable.skip_unreadable(header.id):
                for _ in store.records(header.id):
                    pass


def _run_info(options: argparse.Namespace) -> int:
    address, unreadable = store_address(options), UnreadableSessions()
    with open_existing_store(options) as store:
        summaries = readable_summaries(store, unreadable, show_progress=progress_display())
        blobs = list(store.blobs())
    facts = {
        "store": str(address),
        "exists": address.exists,
        "sessions": len(summaries) + len(unreadable.sessions),
        "entries": sum(summary.entries for summary in summaries),
        "blobs": len(blobs),
        "blob_bytes": sum(blob.size for blob in blobs),
        "disk_bytes": _disk_bytes(address),
    }
    size = facts["disk_bytes"]
    rows = [
        (
            "store",
            terminal_text(str(address)) + ("" if address.exists else " (does not exist yet)"),
        ),
        ("sessions", f"{facts['sessions']:,}"),
        ("entries", f"{facts['entries']:,}"),
        ("blobs", f"{facts['blobs']:,} ({facts['blob_bytes']:,} bytes)"),
        *([] if size is None else [("on disk", f"{size:,} bytes")]),
    ]
    report = Report(
        [Lines([ReportLine([(f"{name:10}", "dim"), value]) for name, value in rows])],
        notices=tuple(unreadable.lines),
        data=[facts],
        is_failed=bool(unreadable),
    )
    return print_report(report, as_json=options.json)


def _disk_bytes(address: StoreAddress) -> int | None:
    """Return the size of a store on disk; None if it is on a server or does not exist."""
    location = address.location
    if not isinstance(location, Path) or not location.exists():
        return None
    database_files = (
        location.with_name(f"{location.name}{suffix}") for suffix in ("", "-wal", "-shm")
    )
    files = location.rglob("*") if location.is_dir() else database_files
    return sum(file.stat().st_size for file in files if file.is_file())
