"""`steno usage`: how many tokens were used, and about what they cost.

Everything that a model said counts, also what was left behind: it was paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from steno.app.sessions import UnreadableSessions
from steno.log.queries import Price, cost_of
from steno.log.tree import EntryNode
from steno.messages.message import AssistantMessage
from steno.messages.usage import Usage
from steno.providers.prices import find_price, has_prices
from steno.records.entry import Compaction, Entry
from steno.records.stored_record import Header
from steno.render.progress import show_progress
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.store import Store

UNKNOWN_NUMBER: Final = "\N{EN DASH}"


USAGE_COLUMNS: Final = (
    Column("turns", is_number=True),
    Column("input", is_number=True),
    Column("cached", is_number=True),
    Column("output", is_number=True),
    Column("USD", "bold", is_number=True),
)


_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


_MIN_SHOWN_COST: Final = Decimal("0.0001")
"""What is less is said to be less."""


class TurnUsage(NamedTuple):
    """One answer of a model, and what is known about its cost."""

    session: str
    time: datetime | None
    model: str
    usage: Usage
    cost: Decimal | None


class UsageSum(NamedTuple):
    """What some turns have in common, and what they come to."""

    name: str
    turns: int
    usage: Usage
    cost: Decimal | None
    """What the turns with a known price cost; None if there is none among them."""
    unpriced: tuple[str, ...]
    """The models without one."""


# -- adding up -------------------------------------------------------------------------------


def read_turns(
    store: Store, headers: list[Header], named: list[str], troubles: UnreadableSessions
) -> list[TurnUsage]:
    """Return the turns of the named sessions, or of all; those that copies share count once."""
    families = _clone_origins(headers)
    sessions = [id for id in families if id in named] if named else list(families)
    sessions += [id for id in named if id not in families]
    turns: dict[tuple[str, str], TurnUsage] = {}
    with show_progress("reading sessions", len(sessions)) as shown:
        for session in shown.track(sessions):
            with troubles.skip_unreadable(session):
                entries = (record.entry for record in store.records(session))
                for id, turn in find_turns(session, filter(None, entries)):
                    turns.setdefault((families.get(session, session), id), turn)
    return list(turns.values())


def _clone_origins(headers: list[Header]) -> dict[str, str]:
    """Return what each session is a copy of, in the end; itself if of none. The oldest is first."""
    families: dict[str, str] = {}
    for header in sorted(headers, key=lambda header: (header.created_at or _EARLIEST, header.id)):
        origin = header.cloned_from or header.id
        families[header.id] = families.get(origin, origin)
    return families


def find_turns(session: str, entries: Iterable[Entry]) -> Iterator[tuple[str, TurnUsage]]:
    """Yield all turns of a session; each is that of the model in force on its own branch."""
    nodes: dict[str | None, EntryNode] = {}
    for entry in entries:
        nodes[entry.id] = node = EntryNode(entry, nodes.get(entry.parent), None)
        payload = entry.payload
        if isinstance(payload, AssistantMessage | Compaction) and payload.usage is not None:
            model = node.settings.model or ""
            price = _price_on_day(model, None if entry.time is None else _noon_of_day(entry.time))
            cost = None if price is None else cost_of(payload.usage, price)
            yield entry.id, TurnUsage(session, entry.time, model, payload.usage, cost)


@cache
def _price_on_day(model: str, time: datetime | None) -> Price | None:
    return find_price(model, at=time)


def _noon_of_day(time: datetime) -> datetime:
    """Return one moment for all of a day: prices change from day to day, and look-ups take long."""
    return time.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def group_usage(turns: list[TurnUsage], by: str) -> list[UsageSum]:
    """Add up turns: days in their order, the rest by size."""
    groups: dict[str, list[TurnUsage]] = {}
    for turn in turns:
        groups.setdefault(_group_key(turn, by), []).append(turn)
    sums = [sum_usage(name, some) for name, some in groups.items()]
    if by == "day":
        return sorted(sums, key=lambda one: one.name)
    return sorted(sums, key=lambda one: (one.cost or 0, one.usage.total_tokens), reverse=True)


def _group_key(turn: TurnUsage, by: str) -> str:
    if by == "day":
        return "" if turn.time is None else f"{turn.time.astimezone(UTC):%Y-%m-%d}"
    return turn.model if by == "model" else turn.session


def sum_usage(name: str, turns: list[TurnUsage]) -> UsageSum:
    """Add up turns under one name."""
    usage = sum((turn.usage for turn in turns), Usage())
    costs = [turn.cost for turn in turns if turn.cost is not None]
    unpriced = dict.fromkeys([turn.model for turn in turns if turn.cost is None])
    cost = sum(costs, Decimal(0)) if costs else None
    return UsageSum(name, len(turns), usage, cost, tuple(sorted(unpriced)))


# -- telling ---------------------------------------------------------------------------------


def usage_as_json(one: UsageSum, by: str) -> dict[str, Any]:
    """Return the sum of usage of one group, as JSON."""
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


def usage_row(one: UsageSum) -> list[str]:
    """Return what a table shows of a sum: its name, and a cell for each of `USAGE_COLUMNS`."""
    usage = one.usage
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    shown = [UNKNOWN_NUMBER if count is None else f"{count:,}" for count in counts]
    return [terminal_line(one.name) or UNKNOWN_NUMBER, f"{one.turns:,}", *shown, _format_cost(one)]


def _format_cost(one: UsageSum) -> str:
    if one.cost is None:
        return UNKNOWN_NUMBER
    amount = f"<{_MIN_SHOWN_COST}" if 0 < one.cost < _MIN_SHOWN_COST else f"{one.cost:,.4f}"
    return f"{amount}+" if one.unpriced else amount


def describe_unpriced(total: UsageSum) -> str:
    """Say why not all of a sum has a price."""
    if not has_prices():
        return "prices are not known here: pip install 'steno[prices]'"
    named = ", ".join(
        [terminal_line(model) or "a model that was not recorded" for model in total.unpriced]
    )
    return f"no price is known for {named}; such turns are in no sum of costs"
