"""What a repair did to what was said: what to tell of it, and where everything is now."""

from __future__ import annotations

from collections.abc import Sequence

from steno.context.report import Change, ChangeCode
from steno.message import Message, ToolResultMessage
from steno.order import OrderIssue, Pairing


def repair_change(issue: OrderIssue, ids: Sequence[str]) -> Change:
    """Return what is to be told of something that was repaired."""
    return Change(
        code=ChangeCode.REPAIRED,
        explanation=f"{issue.code}: {issue.remedy}",
        entry=ids[issue.position],
    )


def sources_of(said: Sequence[Message], ids: Sequence[str]) -> list[str | None]:
    """Return the entry that each message is from after a repair; None for results that it made up.

    Every turn is followed by one result for each of its calls then.
    """
    result_of = Pairing(said).result_of
    sources: list[str | None] = []
    for position, message in enumerate(said):
        if isinstance(message, ToolResultMessage):
            continue
        sources.append(ids[position])
        for number in range(len(message.tool_calls)):
            found = result_of.get((position, number))
            sources.append(None if found is None else ids[found])
    return sources


def position_of_turn(messages: Sequence[Message], turns: int) -> int:
    """Return where so many messages are over, with the results that answer them.

    A repair moves results and nothing else: all other messages stay, in their order.
    """
    for position, message in enumerate(messages):
        if not isinstance(message, ToolResultMessage):
            if turns == 0:
                return position
            turns -= 1
    return len(messages)
