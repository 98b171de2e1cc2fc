"""`steno store convert`, `gc` and `info`: whole stores."""

from __future__ import annotations

import argparse
from pathlib import Path

from steno.cli.commands import Commands
from steno.cli.paper import Paper, note
from steno.cli.place import (
    add_store_option,
    address_of,
    existing_store,
    find_session,
    quietly_opened,
    summaries_of,
)
from steno.cli.printable import counted, on_one_line, printable
from steno.cli.progress import progress
from steno.store import Store, convert_store
from steno.store.locate import Address, read_address


def add_commands(commands: Commands) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "store", help="convert and tidy up stores", description="Look after whole stores."
    )
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    convert = actions.add_parser(
        "convert",
        help="copy sessions from one store to another",
        description="Copy sessions, with their digests and blobs, to another store, which is made "
        "if there is none. Each session arrives as a whole or not at all.",
        epilog="example: steno store convert sqlite:work.db postgresql://host/db",
    )
    convert.add_argument("source", metavar="SOURCE", help="sqlite:FILE, jsonl:FOLDER, postgresql:")
    convert.add_argument("target", metavar="TARGET", help="likewise")
    convert.add_argument(
        "--session",
        action="append",
        metavar="ID",
        help="only this one: an id, the beginning of one, or last; may be given several times",
    )
    convert.add_argument(
        "--skip-existing",
        action="store_true",
        help="leave out the sessions that the target has already, as after an interruption",
    )
    convert.set_defaults(run=_convert)
    collect = actions.add_parser(
        "gc",
        help="remove blobs that no session refers to",
        description="Remove the blobs that no session refers to and that are older than an hour.",
    )
    add_store_option(collect)
    collect.set_defaults(run=_collect)
    info = actions.add_parser(
        "info", help="tell what is in a store", description="Tell what is in a store."
    )
    add_store_option(info)
    info.set_defaults(run=_info)


def _convert(options: argparse.Namespace) -> int:
    with quietly_opened(read_address(options.source), create=False) as source:
        if options.session is None:
            wanted = [header.id for header in source.headers()]
        else:
            wanted = list(dict.fromkeys(find_session(source, name) for name in options.session))
        with quietly_opened(read_address(options.target)) as target:
            copied = _copy(source, target, wanted, skip_existing=options.skip_existing)
    left_out = len(wanted) - copied
    told = f"{counted(copied, 'session', 'sessions')} copied"
    print(told + (f", {left_out:,} left out" if left_out else ""))
    return 0


def _copy(source: Store, target: Store, sessions: list[str], *, skip_existing: bool) -> int:
    done = 0
    try:
        with progress("copying sessions", len(sessions)) as shown:

            def count(_: str) -> None:
                nonlocal done
                done += 1
                shown.show(done)

            return convert_store(source, target, sessions, skip_existing=skip_existing, tell=count)
    except BaseException:
        note(f"{done:,} of {len(sessions):,} sessions copied; --skip-existing goes on from there")
        raise


def _collect(options: argparse.Namespace) -> int:
    with existing_store(options) as store:
        freed = store.collect_garbage()
    print(f"{freed:,} bytes freed")
    return 0


def _info(options: argparse.Namespace) -> int:
    address = address_of(options)
    with existing_store(options) as store:
        summaries, damaged = summaries_of(store)
        blobs = list(store.blobs())
    size = _size(address)
    rows = [
        ("store", printable(str(address)) + ("" if address.is_there else " (not there yet)")),
        ("sessions", f"{len(summaries) + len(damaged):,}"),
        ("entries", f"{sum(summary.entries for summary in summaries):,}"),
        ("blobs", f"{len(blobs):,} ({sum(blob.size for blob in blobs):,} bytes)"),
        *([] if size is None else [("on disk", f"{size:,} bytes")]),
    ]
    paper = Paper()
    for name, value in rows:
        paper.line((f"{name:10}", "dim"), value)
    for session, problem in damaged.items():
        note(f"session {on_one_line(session)}: {problem}")
    return 1 if damaged else 0


def _size(address: Address) -> int | None:
    """Return how much room a store takes on disk; None where it is on a server or not there."""
    place = address.place
    if not isinstance(place, Path) or not place.exists():
        return None
    beside = (place.with_name(f"{place.name}{ending}") for ending in ("", "-wal", "-shm"))
    files = place.rglob("*") if place.is_dir() else beside
    return sum(file.stat().st_size for file in files if file.is_file())
