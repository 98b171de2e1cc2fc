"""`/audit`: who decided what in this session, and whether its record is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from steno.call import AnyToolCall
from steno.captions import decided_by
from steno.cli.audit import counts_in_words, verdict_on
from steno.cli.desk.markdown_words import code, escaped, table
from steno.cli.desk.scene import Scene
from steno.cli.paper import Column
from steno.entry import Approval, Entry
from steno.errors import LogError, Missing
from steno.identity import utc_now
from steno.message import AssistantMessage, ToolResultMessage
from steno.outcome import Outcome
from steno.printable import age, counted, cut, on_one_line
from steno.tui.desk import Reply

_COLUMNS: Final = (
    Column("when"),
    Column("call"),
    Column("decision"),
    Column("by"),
    Column("outcome"),
)
_MOST_ROWS: Final = 50
_LONGEST_CALL: Final = 60
_LONGEST_NAME: Final = 40


class Settled(NamedTuple):
    """The last decision about a call, and what came of it."""

    approval: Entry
    call: AnyToolCall | None
    outcome: Outcome | None = None


async def audit(scene: Scene, argument: str) -> Reply:
    """Tell who decided what, and check the record."""
    return Reply(await asyncio.to_thread(_told, scene), "Audit")


def _told(scene: Scene) -> str:
    session = scene.conversation.id
    try:
        entries = [r.entry for r in scene.store.records(session) if r.entry is not None]
    except Missing:
        return "Nothing is on record yet."
    except LogError as exc:
        return f"**The record cannot be read:** {escaped(str(exc))}"
    rows = [_row(one, utc_now()) for one in settled(entries)]
    parts = [_whole(scene), "Nothing had to be decided yet."]
    if rows:
        parts[1:] = [table(_COLUMNS, rows[-_MOST_ROWS:]), _how_many(len(rows))]
    if scene.is_persistent:
        parts.append(f"{code(f'steno audit {session}')} tells of every entry.")
    return "\n\n".join(parts)


def _whole(scene: Scene) -> str:
    verdict = verdict_on(scene.store, scene.conversation.id)
    if verdict.problem is not None:
        return f"**The record is not as it was written:** {escaped(verdict.problem)}"
    assert verdict.found is not None
    lasting = "" if scene.is_persistent else " It is kept in memory alone, and gone in the end."
    head = verdict.found.heads.get(scene.conversation.branch)
    digest = f" The digest of this branch is {code(head)}." if head else ""
    return f"The record is **whole**: {counts_in_words(verdict.found)}.{digest}{lasting}"


def _how_many(number: int) -> str:
    decided = counted(number, "call was", "calls were")
    last = f"; these are the last {_MOST_ROWS}" if number > _MOST_ROWS else ""
    return f"{decided} decided about in all branches{last}."


def settled(entries: Iterable[Entry]) -> list[Settled]:
    """Return the last decision about each call in the order of the calls.

    A provider may use an id again: what is decided then is about another call.
    """
    found: list[Settled] = []
    calls: dict[str, AnyToolCall] = {}
    places: dict[str, int] = {}
    for entry in entries:
        payload = entry.payload
        match payload:
            case AssistantMessage():
                for call in payload.tool_calls:
                    calls[call.id] = call
                    places.pop(call.id, None)
            case Approval():
                one = Settled(entry, calls.get(payload.call_id))
                place = places.setdefault(payload.call_id, len(found))
                found[place : place + 1] = [one]
            case ToolResultMessage() if payload.tool_call_id in places:
                place = places[payload.tool_call_id]
                found[place] = found[place]._replace(outcome=payload.outcome)
            case _:
                pass
    return found


def _row(one: Settled, now: datetime) -> list[str]:
    approval = one.approval.payload
    assert isinstance(approval, Approval)
    by = cut(decided_by(approval), _LONGEST_NAME)
    return [
        age(one.approval.time, now),
        code(_call_in_words(one.call, approval.call_id)),
        str(approval.status),
        escaped(by),
        str(one.outcome or ""),
    ]


def _call_in_words(call: AnyToolCall | None, call_id: str) -> str:
    words = call_id if call is None else f"{call.name} {call.arguments}"
    return cut(on_one_line(words), _LONGEST_CALL)
