"""`/usage`: tokens and cost by model, of one branch and of all, and how full the context is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from steno.app.reports.usage import (
    UNKNOWN_NUMBER,
    USAGE_COLUMNS,
    TurnUsage,
    describe_unpriced,
    find_turns,
    group_usage,
    sum_usage,
    usage_row,
)
from steno.app.session_state import CommandContext
from steno.app.usage_totals import UsageTotals
from steno.errors import Missing
from steno.providers.prices import find_price
from steno.records.entry import Entry
from steno.render.markdown_escape import escape_markdown, inline_code, markdown_table
from steno.render.session_events import CommandReply
from steno.render.table_output import Column

_USAGE_COLUMNS: Final = (Column("model"), *USAGE_COLUMNS)
_USAGE_TITLE: Final = "Usage"


async def run_usage(context: CommandContext, argument: str) -> CommandReply:
    """Report the usage."""
    # Prices take a moment to load, and a long session to read.
    return CommandReply(await asyncio.to_thread(_usage_text, context), _USAGE_TITLE)


def _usage_text(context: CommandContext) -> str:
    conversation = context.conversation
    entries = conversation.entries()
    branch_turns = _branch_turns(conversation.id, entries)
    try:
        records = context.store.records(conversation.id)
        all_turns = _branch_turns(
            conversation.id, filter(None, (record.entry for record in records))
        )
    except Missing:  # nothing is recorded yet
        all_turns = branch_turns
    if not all_turns:
        return f"No model has said how many tokens it used.\n\n{_context_text(context, entries)}"
    parts = [f"**Branch {inline_code(conversation.branch)}**", _usage_table(branch_turns)]
    if len(all_turns) != len(branch_turns):
        parts += ["**All branches**, with what was left behind", _usage_table(all_turns)]
    total = sum_usage("total", all_turns)
    if total.unpriced:
        parts.append(escape_markdown(describe_unpriced(total)))
    return "\n\n".join([*parts, _context_text(context, entries)])


def _branch_turns(session: str, entries: Iterable[Entry]) -> list[TurnUsage]:
    return [turn for _, turn in find_turns(session, entries)]


def _usage_table(turns: list[TurnUsage]) -> str:
    sums = group_usage(turns, "model")
    rows = [usage_row(usage_sum) for usage_sum in sums]
    shown = [
        [inline_code(name) if name != UNKNOWN_NUMBER else name, *numbers] for name, *numbers in rows
    ]
    if len(sums) != 1:
        shown.append(usage_row(sum_usage("total", turns)))
    return markdown_table(_USAGE_COLUMNS, shown)


def _context_text(context: CommandContext, entries: Sequence[Entry]) -> str:
    """Return how much of the context window is used."""
    limit = context.environment.target.context_tokens
    totals = UsageTotals(find_price)
    totals.rebuild(entries)
    used = totals.context_tokens
    limit_text = "nobody says how much it can read" if limit is None else f"it can read {limit:,}"
    if used is None:
        return f"Context: not counted yet; {limit_text}{'' if limit is None else ' tokens'}."
    share = "" if not limit else f" ({used / limit:.0%})"
    return f"Context: about {used:,} tokens were taken last; {limit_text}{share}."
