"""How far a summary should reach."""

from __future__ import annotations

from collections.abc import Sequence

from steno.context.line import KEPT_GROUPS, start_of_last
from steno.entry import Compaction, Entry
from steno.errors import InvalidValue
from steno.message import Message, SystemMessage
from steno.order import Pairing


def compaction_point(entries: Sequence[Entry], *, keep: int = KEPT_GROUPS) -> str | None:
    """Return the entry of a branch through which a summary should reach, by its id.

    The last `keep` groups stay as they are: a group is a message and the results that answer its
    calls, and none is taken apart. None where nothing is left to be summed up. Raises
    InvalidValue if `keep` is below 1.
    """
    if keep < 1:
        raise InvalidValue("compaction: keep at least one group")
    numbers = [number for number, entry in enumerate(entries) if entry.message is not None]
    messages = [message for entry in entries if (message := entry.message) is not None]
    begin = _whole_groups(messages, start_of_last(messages, keep))
    first = _first_not_summed_up(entries)
    for position in range(begin - 1, -1, -1):
        if numbers[position] < first:
            break
        if not isinstance(messages[position], SystemMessage):
            return entries[numbers[begin - 1]].id
    return None


def _whole_groups(messages: Sequence[Message], begin: int) -> int:
    """Return a position at or before `begin` that lies between no call and its result.

    Where the record is out of order, a result may stand far from its call.
    """
    answered = [(turn, found) for (turn, _), found in Pairing(messages).result_of.items()]
    while between := [min(pair) for pair in answered if min(pair) < begin <= max(pair)]:
        begin = min(between)
    return begin


def _first_not_summed_up(entries: Sequence[Entry]) -> int:
    """Return the number of the entry behind what the latest summary is about."""
    through = {entry.payload.through for entry in entries if isinstance(entry.payload, Compaction)}
    return max([number + 1 for number, entry in enumerate(entries) if entry.id in through] or [0])
