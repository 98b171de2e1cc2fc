"""The content of `steno usage` and `/usage`: tokens and approximate costs.

Every response counts, also those of abandoned branches: they were paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from steno.app.session_lookup import UnreadableSessions
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
"""Smaller costs are shown as less than this."""


class TurnUsage(NamedTuple):
    """One response of a model, and its cost."""

    session: str
    time: datetime | None
    model: str
    usage: Usage
    cost: Decimal | None


class UsageSum(NamedTuple):
    """The sum of a group of turns."""

    name: str
    turns: int
    usage: Usage
    cost: Decimal | None
    """The cost of the turns with a known price; None if there are none."""
    unpriced: tuple[str, ...]
    """The models without a known price."""


# -- adding up -------------------------------------------------------------------------------


def read_turns(
    store: Store, headers: list[Header], ids: list[str], unreadable: UnreadableSessions
) -> list[TurnUsage]:
    """Return the turns of the named sessions, or of all; turns that clones share count once."""
    originals = _clone_origins(headers)
    sessions = [id for id in originals if id in ids] if ids else list(originals)
    sessions += [id for id in ids if id not in originals]
    turns: dict[tuple[str, str], TurnUsage] = {}
    with show_progress("reading sessions", len(sessions)) as progress:
        for session in progress.track(sessions):
            with unreadable.skip_unreadable(session):
                entries = (record.entry for record in store.records(session))
                for id, turn in find_turns(session, filter(None, entries)):
                    turns.setdefault((originals.get(session, session), id), turn)
    return list(turns.values())


def _clone_origins(headers: list[Header]) -> dict[str, str]:
    """Return the original of each session, by id; the oldest session comes first."""
    originals: dict[str, str] = {}
    for header in sorted(headers, key=lambda header: (header.created_at or _EARLIEST, header.id)):
        origin = header.cloned_from or header.id
        originals[header.id] = originals.get(origin, origin)
    return originals


def find_turns(session: str, entries: Iterable[Entry]) -> Iterator[tuple[str, TurnUsage]]:
    """Yield all turns of a session, each with the model in force on its branch."""
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
    """Return one time for all of a day: prices change daily, and looking them up is slow."""
    return time.astimezone(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def group_usage(turns: list[TurnUsage], group_by: str) -> list[UsageSum]:
    """Add up turns by group: days in their order, other groups by size."""
    groups: dict[str, list[TurnUsage]] = {}
    for turn in turns:
        groups.setdefault(_group_key(turn, group_by), []).append(turn)
    sums = [sum_usage(name, members) for name, members in groups.items()]
    if group_by == "day":
        return sorted(sums, key=lambda group: group.name)
    return sorted(sums, key=lambda group: (group.cost or 0, group.usage.total_tokens), reverse=True)


def _group_key(turn: TurnUsage, group_by: str) -> str:
    if group_by == "day":
        return "" if turn.time is None else f"{turn.time.astimezone(UTC):%Y-%m-%d}"
    return turn.model if group_by == "model" else turn.session


def sum_usage(name: str, turns: list[TurnUsage]) -> UsageSum:
    """Add up turns under one name."""
    usage = sum((turn.usage for turn in turns), Usage())
    costs = [turn.cost for turn in turns if turn.cost is not None]
    unpriced = dict.fromkeys([turn.model for turn in turns if turn.cost is None])
    cost = sum(costs, Decimal(0)) if costs else None
    return UsageSum(name, len(turns), usage, cost, tuple(sorted(unpriced)))


# -- output ----------------------------------------------------------------------------------


def usage_as_json(group: UsageSum, by: str) -> dict[str, Any]:
    """Return the sum of usage of one group, as JSON."""
    counts = {
        name: getattr(group.usage, name) for name in Usage.__struct_fields__ if name != "unknown"
    }
    return {
        by: group.name or None,
        "turns": group.turns,
        **counts,
        "cost_usd": None if group.cost is None else str(group.cost),
        "unpriced_models": group.unpriced,
    }


def usage_row(group: UsageSum) -> list[str]:
    """Return what a table shows of a sum: its name, and a cell for each of `USAGE_COLUMNS`."""
    usage = group.usage
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    cells = [UNKNOWN_NUMBER if count is None else f"{count:,}" for count in counts]
    return [
        terminal_line(group.name) or UNKNOWN_NUMBER,
        f"{group.turns:,}",
        *cells,
        _format_cost(group),
    ]


def _format_cost(group: UsageSum) -> str:
    if group.cost is None:
        return UNKNOWN_NUMBER
    amount = f"<{_MIN_SHOWN_COST}" if 0 < group.cost < _MIN_SHOWN_COST else f"{group.cost:,.4f}"
    return f"{amount}+" if group.unpriced else amount


def describe_unpriced(total: UsageSum) -> str:
    """Return why a part of a sum has no price."""
    if not has_prices():
        return "prices are not known here: pip install 'steno[prices]'"
    names = ", ".join(
        [terminal_line(model) or "a model that was not recorded" for model in total.unpriced]
    )
    return f"no price is known for {names}; such turns are in no sum of costs"
