"""`steno usage` and `/usage`: the tokens that sessions used, and their approximate cost.

Every response counts, including those of abandoned branches, because they were paid for.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final, NamedTuple

from steno.app.commands.arguments import (
    SESSION_NAMES,
    add_arguments,
    argument,
    flag,
    parse_time,
    split_words,
)
from steno.app.commands.context import CommandContext, CommandDefinition, OpenBranch
from steno.app.commands.report import Paragraph, Report, Table
from steno.app.session_lookup import UnreadableSessions, readable_headers, shortest_unique_length
from steno.app.usage_totals import UsageTotals
from steno.errors import Missing, install_command
from steno.log.queries import cost_of
from steno.log.tree import EntryNode, add_node
from steno.messages.message import AssistantMessage
from steno.messages.usage import Usage
from steno.providers.prices import find_price, has_prices
from steno.records.entry import Compaction, Entry
from steno.records.stored_record import Header
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line
from steno.store import Store

_TITLE: Final = "Usage"
_UNKNOWN_NUMBER: Final = "\N{EN DASH}"
_GROUP_COLUMNS: Final = {
    "model": Column("model", "cyan", may_shrink=True),
    "session": Column("session", "cyan"),
    "day": Column("day", "cyan"),
}
_USAGE_COLUMNS: Final = (
    Column("turns", is_number=True),
    Column("input", is_number=True),
    Column("cached", is_number=True),
    Column("output", is_number=True),
    Column("USD", "bold", is_number=True),
)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_MIN_SHOWN_COST: Final = Decimal("0.0001")
"""The lowest cost that is shown exactly; a lower cost is shown as less than this amount."""


_ARGUMENTS: Final = (
    argument(
        "--since",
        type=parse_time,
        metavar="T",
        help="only turns since this time: 2024-05-17, or an age such as 12h or 7d",
    ),
    argument(
        "--by",
        choices=tuple(_GROUP_COLUMNS),
        default="model",
        help="group by model, session or day (default: model)",
    ),
    flag("--json", help="print one JSON object per group"),
)


def _add_sessions(parser: argparse.ArgumentParser, in_terminal: bool) -> None:
    default = "the open session" if in_terminal else "all sessions"
    help = f"{SESSION_NAMES}; default: {default}"
    all_help = "include all sessions" if in_terminal else "include all sessions (the default)"
    sessions = argument("sessions", nargs="*", metavar="ID", help=help)
    add_arguments(parser, [sessions, flag("--all", help=all_help)])


def _run_usage(context: CommandContext, options: argparse.Namespace) -> Report:
    if options.all and options.sessions:
        options.parser.error("name sessions or use --all, not both")
    unreadable = UnreadableSessions()
    with context.open_store() as store:
        if context.branch is not None and not options.all and not options.sessions:
            return _report_branch(context.branch, store, options)
        headers = readable_headers(store, unreadable)
        ids = dict.fromkeys([context.find_session(store, name) for name in options.sessions])
        all_turns = _read_turns(context, store, headers, list(ids), unreadable)
    turns = _turns_since(all_turns, options.since)
    length = shortest_unique_length([header.id for header in headers])
    report = _build_report([("", turns)], options, length)
    return report._replace(
        when_empty="" if unreadable else report.when_empty,  # unreadable sessions may have usage
        notices=(*report.notices, *unreadable.lines),
        is_failed=bool(unreadable),
    )


def _report_branch(branch: OpenBranch, store: Store, options: argparse.Namespace) -> Report:
    """Return a report on the usage of the open branch, and of all branches of its session."""
    branch_turns = [turn for _, turn in _find_turns(branch.session, branch.entries)]
    try:
        stored = filter(None, (record.entry for record in store.records(branch.session)))
        all_turns = [turn for _, turn in _find_turns(branch.session, stored)]
    except Missing:  # nothing is recorded yet
        all_turns = branch_turns
    groups = [(f"Branch {terminal_line(branch.name)}", branch_turns)]
    if len(all_turns) != len(branch_turns):
        groups.append(("All branches, with abandoned turns", all_turns))
    report = _build_report(
        [(title, _turns_since(turns, options.since)) for title, turns in groups], options
    )
    context_text = _describe_context(branch.context_tokens, branch.entries)
    return report._replace(parts=[*report.parts, Paragraph(context_text)])


def _turns_since(turns: list[TurnUsage], since: datetime | None) -> list[TurnUsage]:
    if since is None:
        return turns
    return [turn for turn in turns if turn.time is not None and turn.time >= since]


def _build_report(
    groups: Sequence[tuple[str, list[TurnUsage]]],
    options: argparse.Namespace,
    id_length: int | None = None,
) -> Report:
    """Return a report with a table for each group, which is a title and a list of turns.

    The last group must contain all turns. JSON data is computed only from that group.
    """
    _, all_turns = groups[-1]
    if options.json:
        sums = _group_usage(all_turns, options.by)
        return Report(data=[_usage_as_json(usage_sum, options.by) for usage_sum in sums])
    if not all_turns:
        return Report(title=_TITLE, when_empty="no usage is recorded")
    total = _sum_usage("total", all_turns)
    return Report(
        title=_TITLE,
        parts=[_usage_table(title, turns, options.by, id_length) for title, turns in groups],
        notices=(_describe_unpriced(total),) if total.unpriced else (),
    )


def _usage_table(title: str, turns: list[TurnUsage], by: str, id_length: int | None) -> Table:
    sums, total = _group_usage(turns, by), _sum_usage("total", turns)
    rows = [
        _usage_row(group._replace(name=group.name[:id_length]) if by == "session" else group)
        for group in sums
    ]
    if len(sums) != 1:
        rows.append(_usage_row(total))
    sizes: Sequence[Decimal] = ()
    if by != "model" and len(sums) > 1:  # bars for the costs if all are known, else the tokens
        sizes = [
            Decimal(group.usage.total_tokens) if total.unpriced else group.cost or Decimal(0)
            for group in sums
        ]
    return Table((_GROUP_COLUMNS[by], *_USAGE_COLUMNS), rows, title, sizes=sizes)


def _describe_context(limit: int | None, entries: Sequence[Entry]) -> str:
    """Describe the size of the context, and of the context window."""
    totals = UsageTotals(find_price)
    totals.rebuild(entries)
    used = totals.context_tokens
    window = "of unknown size" if limit is None else f"of {limit:,} tokens"
    if used is None:
        return f"Context: not counted yet, in a context window {window}."
    share = "" if not limit else f" ({used / limit:.0%})"
    return f"Context: about {used:,} tokens, in a context window {window}{share}."


COMMAND: CommandDefinition = CommandDefinition(
    _run_usage,
    _ARGUMENTS,
    split_words,
    help="show tokens and cost",
    description="Add up the input and output tokens and their approximate cost, in some or all "
    "sessions. Days are in UTC.",
    epilog="example:\n  steno usage --since 7d --by day\n\n"
    f"Prices are the base prices of the package genai-prices ({install_command('prices')}).\n"
    "Higher prices for long requests are not included, so the bill of a provider may differ.",
    add_actions=_add_sessions,
    reads_store=True,
)


# -- adding up -------------------------------------------------------------------------------


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
    """The cost of the turns with a known price; None if there are no such turns."""
    unpriced: tuple[str, ...]
    """The models without a known price."""


def _read_turns(
    context: CommandContext,
    store: Store,
    headers: list[Header],
    ids: list[str],
    unreadable: UnreadableSessions,
) -> list[TurnUsage]:
    """Return the turns of the sessions in `ids`, or of all sessions if `ids` is empty.

    Turns that a session shares with its clones count once.
    """
    originals = _clone_origins(headers)
    sessions = [id for id in originals if id in ids] if ids else list(originals)
    sessions += [id for id in ids if id not in originals]
    turns: dict[tuple[str, str], TurnUsage] = {}
    with context.show_progress("reading sessions", len(sessions)) as progress:
        for session in progress.track(sessions):
            with unreadable.skip_unreadable(session):
                entries = (record.entry for record in store.records(session))
                for id, turn in _find_turns(session, filter(None, entries)):
                    turns.setdefault((originals.get(session, session), id), turn)
    return list(turns.values())


def _clone_origins(headers: list[Header]) -> dict[str, str]:
    """Return the ID of the original of each session, by session ID, starting with the oldest.

    A session that is not a clone is its own original.
    """
    originals: dict[str, str] = {}
    for header in sorted(headers, key=lambda header: (header.created_at or _EARLIEST, header.id)):
        origin = header.cloned_from or header.id
        originals[header.id] = originals.get(origin, origin)
    return originals


def _find_turns(session: str, entries: Iterable[Entry]) -> Iterator[tuple[str, TurnUsage]]:
    """Yield the turns of a session, each with the id of its entry."""
    nodes: dict[str | None, EntryNode] = {}
    for entry in entries:
        nodes[entry.id] = node = add_node(entry, nodes.get(entry.parent))
        payload = entry.payload
        if isinstance(payload, AssistantMessage | Compaction) and payload.usage is not None:
            model = node.settings.model or ""
            # Looking up a price is slow, and prices change at most daily: all turns of a day share
            # one cached lookup.
            noon = None if entry.time is None else _noon(entry.time.astimezone(UTC))
            price = _find_price(model, at=noon)
            cost = None if price is None else cost_of(payload.usage, price)
            yield entry.id, TurnUsage(session, entry.time, model, payload.usage, cost)


_noon: Final = partial(datetime.replace, hour=12, minute=0, second=0, microsecond=0)


_find_price: Final = cache(find_price)


def _group_usage(turns: list[TurnUsage], group_by: str) -> list[UsageSum]:
    """Add up turns by group; days are in order, other groups start with the highest cost."""
    groups: dict[str, list[TurnUsage]] = {}
    for turn in turns:
        day = "" if turn.time is None else f"{turn.time.astimezone(UTC):%Y-%m-%d}"
        keys = {"day": day, "model": turn.model, "session": turn.session}
        groups.setdefault(keys[group_by], []).append(turn)
    sums = [_sum_usage(name, members) for name, members in groups.items()]
    if group_by == "day":
        return sorted(sums, key=lambda group: group.name)
    return sorted(sums, key=lambda group: (group.cost or 0, group.usage.total_tokens), reverse=True)


def _sum_usage(name: str, turns: list[TurnUsage]) -> UsageSum:
    usage = sum((turn.usage for turn in turns), Usage())
    costs = [turn.cost for turn in turns if turn.cost is not None]
    unpriced = dict.fromkeys([turn.model for turn in turns if turn.cost is None])
    cost = sum(costs, Decimal(0)) if costs else None
    return UsageSum(name, len(turns), usage, cost, tuple(sorted(unpriced)))


# -- output ----------------------------------------------------------------------------------


def _usage_as_json(group: UsageSum, by: str) -> dict[str, Any]:
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


def _usage_row(group: UsageSum) -> list[str]:
    """Return the row of a sum: its name, and a cell for each of `_USAGE_COLUMNS`."""
    usage = group.usage
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    cells = [_UNKNOWN_NUMBER if count is None else f"{count:,}" for count in counts]
    name = terminal_line(group.name) or _UNKNOWN_NUMBER
    return [name, f"{group.turns:,}", *cells, _format_cost(group)]


def _format_cost(group: UsageSum) -> str:
    if group.cost is None:
        return _UNKNOWN_NUMBER
    amount = f"<{_MIN_SHOWN_COST}" if 0 < group.cost < _MIN_SHOWN_COST else f"{group.cost:,.4f}"
    return f"{amount}+" if group.unpriced else amount


def _describe_unpriced(total: UsageSum) -> str:
    """Describe why a part of a sum has no price."""
    if not has_prices():
        return f"prices are unknown: {install_command('prices')}"
    names = [terminal_line(model) or "an unrecorded model" for model in total.unpriced]
    return f"the price of {', '.join(names)} is unknown; costs do not include these turns"
