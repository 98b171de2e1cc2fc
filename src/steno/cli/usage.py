"""`steno usage`: print how many tokens sessions used, and about what they cost.

Every response counts, also those of abandoned branches: they were paid for.
"""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal
from typing import Final

import msgspec

from steno.app.reports.usage import (
    USAGE_COLUMNS,
    UsageSum,
    describe_unpriced,
    group_usage,
    read_turns,
    sum_usage,
    usage_as_json,
    usage_row,
)
from steno.app.session_lookup import (
    UnreadableSessions,
    find_session,
    readable_headers,
    shortest_unique_length,
)
from steno.cli.arguments import Subparsers, add_store_option, parse_time
from steno.cli.store_options import open_existing_store, report_unreadable
from steno.render.output import print_json
from steno.render.table_output import Column, StdoutPrinter, print_notice

_GROUP_COLUMNS: Final = {
    "model": Column("model", "cyan", may_shrink=True),
    "session": Column("session", "cyan"),
    "day": Column("day", "cyan"),
}
_MAX_BAR_LENGTH: Final = 16
_BAR_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    usage = commands.add_parser(
        "usage",
        help="tell how many tokens were used, and what they cost",
        description="Add up the tokens that models read and wrote, and about what that cost, in "
        "some sessions or all of them. Days are those of UTC.",
        epilog="Prices are those of the package genai-prices, for short requests (pip install "
        "'steno[prices]'); the bill of a vendor may differ. "
        "example: steno usage --since 7d --by day",
    )
    usage.add_argument(
        "sessions", nargs="*", metavar="ID", help="ids, their beginnings, or last; else all"
    )
    usage.add_argument("--all", action="store_true", help="all sessions, as without any ID")
    usage.add_argument(
        "--since",
        type=parse_time,
        metavar="T",
        help="only turns not before this time: 2024-05-17, or 12h, 7d (ago)",
    )
    usage.add_argument(
        "--by",
        choices=tuple(_GROUP_COLUMNS),
        default="model",
        help="what to add up by (default: model)",
    )
    usage.add_argument(
        "--json", action="store_true", help="print an object for each sum, one a line"
    )
    add_store_option(usage)
    usage.set_defaults(run=_run_usage, parser=usage)


def _run_usage(options: argparse.Namespace) -> int:
    if options.all and options.sessions:
        options.parser.error("name sessions, or use --all")
    unreadable = UnreadableSessions()
    with open_existing_store(options) as store:
        headers = readable_headers(store, unreadable)
        ids = dict.fromkeys([find_session(store, name) for name in options.sessions])
        turns = read_turns(store, headers, list(ids), unreadable)
    if options.since is not None:
        turns = [turn for turn in turns if turn.time is not None and turn.time >= options.since]
    sums = group_usage(turns, options.by)
    if options.json:
        for group in sums:
            print_json(msgspec.json.encode(usage_as_json(group, options.by)))
    elif sums:
        _print_usage(
            sums,
            sum_usage("total", turns),
            options.by,
            shortest_unique_length([header.id for header in headers]),
        )
    elif not unreadable:
        print_notice("no model has said how many tokens it used")
    return report_unreadable(unreadable)


def _print_usage(sums: list[UsageSum], total: UsageSum, by: str, length: int) -> None:
    printer = StdoutPrinter()
    groups = (
        [group._replace(name=group.name[:length]) for group in sums] if by == "session" else sums
    )
    columns = [_GROUP_COLUMNS[by], *USAGE_COLUMNS]
    rows = [usage_row(group) for group in groups]
    if by != "model" and printer.width is not None and len(sums) > 1 and _can_draw_bars():
        columns.append(Column("", "cyan"))
        for row, bar in zip(rows, _bars(sums, total), strict=True):
            row.append(bar)
    if len(sums) > 1:
        rows.append(usage_row(total) + [""] * (len(columns) - len(USAGE_COLUMNS) - 1))
    printer.table(columns, rows)
    if total.unpriced:
        print_notice(describe_unpriced(total))


# -- a small chart ---------------------------------------------------------------------------


def _can_draw_bars() -> bool:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return False
    return True


def _bars(sums: list[UsageSum], total: UsageSum) -> list[str]:
    """Return a bar for each sum: of its cost if all are known, else of its tokens."""
    sizes = [
        Decimal(group.usage.total_tokens) if total.unpriced else group.cost or Decimal(0)
        for group in sums
    ]
    largest = max(sizes) or Decimal(1)
    return [_bar(size / largest) for size in sizes]


def _bar(part: Decimal) -> str:
    full, eighths = divmod(int(part * _MAX_BAR_LENGTH * 8), 8)
    return ("█" * full + _BAR_EIGHTHS[eighths]).rstrip()
