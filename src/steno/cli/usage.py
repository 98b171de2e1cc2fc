"""`steno usage`: how many tokens were used, and about what they cost.

Everything that a model said counts, also what was left behind: it was paid for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from steno.cli import moments
from steno.cli.commands import Commands, add_store_option
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import (
    Troubles,
    existing_store,
    find_session,
    headers_of,
    shortest,
)
from steno.cli.progress import progress
from steno.entry import Compaction, Entry
from steno.message import AssistantMessage
from steno.printable import on_one_line
from steno.providers.prices import has_prices, price_of
from steno.record import Header
from steno.store import Store
from steno.tree import Node
from steno.usage import Usage
from steno.views import Price, cost_of

UNKNOWN: Final = "\N{EN DASH}"
NUMBERS: Final = (
    Column("turns", is_number=True),
    Column("input", is_number=True),
    Column("cached", is_number=True),
    Column("output", is_number=True),
    Column("USD", "bold", is_number=True),
)
_FIRST: Final = {
    "model": Column("model", "cyan", may_shrink=True),
    "session": Column("session", "cyan"),
    "day": Column("day", "cyan"),
}
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_LONGEST_BAR: Final = 16
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_LEAST: Final = Decimal("0.0001")
"""What is less is said to be less."""


class Turn(NamedTuple):
    """One answer of a model, and what is known about its cost."""

    session: str
    time: datetime | None
    model: str
    usage: Usage
    cost: Decimal | None


class Sum(NamedTuple):
    """What some turns have in common, and what they come to."""

    name: str
    turns: int
    usage: Usage
    cost: Decimal | None
    """What the turns with a known price cost; None if there is none among them."""
    unpriced: tuple[str, ...]
    """The models without one."""


def add_commands(commands: Commands) -> None:
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
        type=moments.moment,
        metavar="T",
        help="only turns not before this time: 2024-05-17, or 12h, 7d (ago)",
    )
    usage.add_argument(
        "--by", choices=tuple(_FIRST), default="model", help="what to add up by (default: model)"
    )
    usage.add_argument(
        "--json", action="store_true", help="print an object for each sum, one a line"
    )
    add_store_option(usage)
    usage.set_defaults(run=_usage, parser=usage)


def _usage(options: argparse.Namespace) -> int:
    if options.all and options.sessions:
        options.parser.error("name sessions, or use --all")
    troubles = Troubles()
    with existing_store(options) as store:
        headers = headers_of(store, troubles)
        named = dict.fromkeys([find_session(store, name) for name in options.sessions])
        turns = _turns(store, headers, list(named), troubles)
    if options.since is not None:
        turns = [turn for turn in turns if turn.time is not None and turn.time >= options.since]
    sums = sums_of(turns, options.by)
    if options.json:
        for one in sums:
            print_object(msgspec.json.encode(_described(one, options.by)))
    elif sums:
        _print(
            sums, sum_of("total", turns), options.by, shortest([header.id for header in headers])
        )
    elif not troubles:
        note("no model has said how many tokens it used")
    return troubles.report()


# -- adding up -------------------------------------------------------------------------------


def _turns(store: Store, headers: list[Header], named: list[str], troubles: Troubles) -> list[Turn]:
    """Return the turns of the named sessions, or of all; those that copies share count once."""
    families = _families(headers)
    sessions = [id for id in families if id in named] if named else list(families)
    sessions += [id for id in named if id not in families]
    turns: dict[tuple[str, str], Turn] = {}
    with progress("reading sessions", len(sessions)) as shown:
        for session in shown.track(sessions):
            with troubles.skip_unreadable(session):
                entries = (record.entry for record in store.records(session))
                for id, turn in turns_among(session, filter(None, entries)):
                    turns.setdefault((families.get(session, session), id), turn)
    return list(turns.values())


def _families(headers: list[Header]) -> dict[str, str]:
    """Return what each session is a copy of, in the end; itself if of none. The oldest is first."""
    families: dict[str, str] = {}
    for header in sorted(headers, key=lambda header: (header.created_at or _LONG_AGO, header.id)):
        origin = header.cloned_from or header.id
        families[header.id] = families.get(origin, origin)
    return families


def turns_among(session: str, entries: Iterable[Entry]) -> Iterator[tuple[str, Turn]]:
    """Yield all turns of a session; each is that of the model in force on its own branch."""
    nodes: dict[str | None, Node] = {}
    for entry in entries:
        nodes[entry.id] = node = Node(entry, nodes.get(entry.parent), None)
        payload = entry.payload
        if isinstance(payload, AssistantMessage | Compaction) and payload.usage is not None:
            model = node.settings.model or ""
            price = _price_on(model, None if entry.time is None else _midday(entry.time))
            cost = None if price is None else cost_of(payload.usage, price)
            yield entry.id, Turn(session, entry.time, model, payload.usage, cost)


@cache
def _price_on(model: str, time: datetime | None) -> Price | None:
    return price_of(model, at=time)


def _midday(time: datetime) -> datetime:
    """Return one moment for all of a day: prices change from day to day, and look-ups take long."""
    return time.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def sums_of(turns: list[Turn], by: str) -> list[Sum]:
    """Add up turns: days in their order, the rest by size."""
    groups: dict[str, list[Turn]] = {}
    for turn in turns:
        groups.setdefault(_key(turn, by), []).append(turn)
    sums = [sum_of(name, some) for name, some in groups.items()]
    if by == "day":
        return sorted(sums, key=lambda one: one.name)
    return sorted(sums, key=lambda one: (one.cost or 0, one.usage.total_tokens), reverse=True)


def _key(turn: Turn, by: str) -> str:
    if by == "day":
        return "" if turn.time is None else f"{turn.time.astimezone(UTC):%Y-%m-%d}"
    return turn.model if by == "model" else turn.session


def sum_of(name: str, turns: list[Turn]) -> Sum:
    """Add up turns under one name."""
    usage = sum((turn.usage for turn in turns), Usage())
    costs = [turn.cost for turn in turns if turn.cost is not None]
    unpriced = dict.fromkeys([turn.model for turn in turns if turn.cost is None])
    cost = sum(costs, Decimal(0)) if costs else None
    return Sum(name, len(turns), usage, cost, tuple(sorted(unpriced)))


# -- telling ---------------------------------------------------------------------------------


def _described(one: Sum, by: str) -> dict[str, Any]:
    counts = {
        name: getattr(one.usage, name) for name in Usage.__struct_fields__ if name != "unknown"
    }
    return {
        by: one.name or None,
        "turns": one.turns,
        **counts,
        "cost_usd": None if one.cost is None else str(one.cost),
        "unpriced_models": one.unpriced,
    }


def _print(sums: list[Sum], total: Sum, by: str, length: int) -> None:
    paper = Paper()
    shown = [one._replace(name=one.name[:length]) for one in sums] if by == "session" else sums
    columns = [_FIRST[by], *NUMBERS]
    rows = [row_of(one) for one in shown]
    if by != "model" and paper.width is not None and len(sums) > 1 and _can_draw():
        columns.append(Column("", "cyan"))
        for row, bar in zip(rows, _bars(sums, total), strict=True):
            row.append(bar)
    if len(sums) > 1:
        rows.append(row_of(total) + [""] * (len(columns) - len(NUMBERS) - 1))
    paper.table(columns, rows)
    if total.unpriced:
        note(unpriced_in_words(total))


def row_of(one: Sum) -> list[str]:
    """Return what a table shows of a sum: its name, and a cell for each of `NUMBERS`."""
    usage = one.usage
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    shown = [UNKNOWN if count is None else f"{count:,}" for count in counts]
    return [on_one_line(one.name) or UNKNOWN, f"{one.turns:,}", *shown, _money(one)]


def _money(one: Sum) -> str:
    if one.cost is None:
        return UNKNOWN
    amount = f"<{_LEAST}" if 0 < one.cost < _LEAST else f"{one.cost:,.4f}"
    return f"{amount}+" if one.unpriced else amount


def unpriced_in_words(total: Sum) -> str:
    """Say why not all of a sum has a price."""
    if not has_prices():
        return "prices are not known here: pip install 'steno[prices]'"
    named = ", ".join(
        [on_one_line(model) or "a model that was not recorded" for model in total.unpriced]
    )
    return f"no price is known for {named}; such turns are in no sum of costs"


# -- a small chart ---------------------------------------------------------------------------


def _can_draw() -> bool:
    try:
        "█".encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return False
    return True


def _bars(sums: list[Sum], total: Sum) -> list[str]:
    """Return a bar for each sum: of its cost if all are known, else of its tokens."""
    sizes = [
        Decimal(one.usage.total_tokens) if total.unpriced else one.cost or Decimal(0)
        for one in sums
    ]
    most = max(sizes) or Decimal(1)
    return [_bar(size / most) for size in sizes]


def _bar(part: Decimal) -> str:
    full, eighths = divmod(int(part * _LONGEST_BAR * 8), 8)
    return ("█" * full + _EIGHTHS[eighths]).rstrip()
