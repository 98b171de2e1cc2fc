"""`/usage`: tokens and cost by model, of this branch and of all there is, and how full the context is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from steno.cli.desk.ledger import Ledger
from steno.cli.desk.markdown_words import code, escaped, table
from steno.cli.desk.scene import Scene
from steno.cli.paper import Column
from steno.cli.usage import (
    NUMBERS,
    UNKNOWN,
    Turn,
    row_of,
    sum_of,
    sums_of,
    turns_among,
    unpriced_in_words,
)
from steno.entry import Entry
from steno.errors import Missing
from steno.providers.prices import price_of
from steno.tui.desk import Reply

_COLUMNS: Final = (Column("model"), *NUMBERS)
_TITLE: Final = "Usage"


async def usage(scene: Scene, argument: str) -> Reply:
    """Add up what was used."""
    # Prices take a moment to load, and a long session to read.
    return Reply(await asyncio.to_thread(_told, scene), _TITLE)


def _told(scene: Scene) -> str:
    conversation = scene.conversation
    entries = conversation.entries()
    branch = _turns(conversation.id, entries)
    try:
        records = scene.store.records(conversation.id)
        everything = _turns(conversation.id, filter(None, (record.entry for record in records)))
    except Missing:  # nothing was said yet
        everything = branch
    if not everything:
        return f"No model has said how many tokens it used.\n\n{_context(scene, entries)}"
    parts = [f"**Branch {code(conversation.branch)}**", _sums(branch)]
    if len(everything) != len(branch):
        parts += ["**All branches**, with what was left behind", _sums(everything)]
    total = sum_of("total", everything)
    if total.unpriced:
        parts.append(escaped(unpriced_in_words(total)))
    return "\n\n".join([*parts, _context(scene, entries)])


def _turns(session: str, entries: Iterable[Entry]) -> list[Turn]:
    return [turn for _, turn in turns_among(session, entries)]


def _sums(turns: list[Turn]) -> str:
    sums = sums_of(turns, "model")
    rows = [row_of(one) for one in sums]
    shown = [[code(name) if name != UNKNOWN else name, *numbers] for name, *numbers in rows]
    if len(sums) != 1:
        shown.append(row_of(sum_of("total", turns)))
    return table(_COLUMNS, shown)


def _context(scene: Scene, entries: Sequence[Entry]) -> str:
    """Say how much of what the model can read at once is taken."""
    room = scene.environment.target.context_tokens
    ledger = Ledger(price_of)
    ledger.rebuild(entries)
    taken = ledger.context_tokens
    can = "nobody says how much it can read" if room is None else f"it can read {room:,}"
    if taken is None:
        return f"Context: not counted yet; {can}{'' if room is None else ' tokens'}."
    part = "" if not room else f" ({taken / room:.0%})"
    return f"Context: about {taken:,} tokens were taken last; {can}{part}."
