"""Turn any sequence of messages into one that providers accept.

The log is never changed: a repair is computed before a request is sent, and reports its changes.
It is idempotent, and returns a valid sequence as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from steno.messages.call import AnyToolCall, InvalidToolCall
from steno.messages.content import Text
from steno.messages.message import (
    AssistantMessage,
    ChatMessage,
    Message,
    ToolResultMessage,
    as_messages,
)
from steno.messages.order import CallPairing, OrderIssue
from steno.messages.outcome import Outcome

NO_RESULT_TEXT = "No result was recorded: the turn was interrupted before this call was answered."


class RepairResult(NamedTuple):
    """Messages in a valid order, and everything that was changed for it."""

    messages: tuple[Message, ...]
    issues: tuple[OrderIssue, ...]
    """Positions count in the sequence that was given."""


def repair(messages: Iterable[ChatMessage]) -> RepairResult:
    """Answer every call exactly once, in its place, and leave out results without a call.

    Covers orphaned, repeated, early, late and reordered results, calls that share an id,
    interrupted turns and empty turns.
    """
    sequence = as_messages(messages)
    pairing = CallPairing(sequence)
    if not pairing.issues:
        return RepairResult(sequence, ())
    issues = sorted(pairing.issues, key=lambda issue: issue.position)
    return RepairResult(tuple(_rebuild(sequence, pairing)), tuple(issues))


def _rebuild(messages: Sequence[Message], pairing: CallPairing) -> Iterator[Message]:
    used_ids = {call.id for message in messages for call in message.tool_calls}
    for position, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            continue  # every result stands after its call, or nowhere
        if not isinstance(message, AssistantMessage):
            yield message
            continue
        if not message.content:
            continue
        calls = message.tool_calls
        distinct = _with_distinct_ids(calls, used_ids)
        yield message if distinct == calls else _with_calls(message, distinct)
        for number, call in enumerate(distinct):
            found = pairing.result_of.get((position, number))
            yield _result_for(call, None if found is None else messages[found])


def _with_distinct_ids(
    calls: tuple[AnyToolCall, ...], used_ids: set[str]
) -> tuple[AnyToolCall, ...]:
    """Rename the second and later calls of one id; always to the same new id."""
    turn_ids: set[str] = set()
    distinct: list[AnyToolCall] = []
    for call in calls:
        call_id, count = call.id, 1
        while call_id in turn_ids or (count > 1 and call_id in used_ids):
            count += 1
            call_id = f"{call.id}_{count}"
        turn_ids.add(call_id)
        used_ids.add(call_id)
        distinct.append(call if call_id == call.id else msgspec.structs.replace(call, id=call_id))
    return tuple(distinct)


def _with_calls(message: AssistantMessage, calls: tuple[AnyToolCall, ...]) -> AssistantMessage:
    replacements = iter(calls)
    content = tuple(
        next(replacements) if isinstance(block, AnyToolCall) else block for block in message.content
    )
    return msgspec.structs.replace(message, content=content)


def _result_for(call: AnyToolCall, result: Message | None) -> ToolResultMessage:
    if isinstance(result, ToolResultMessage):
        if result.tool_call_id == call.id:
            return result
        return msgspec.structs.replace(result, tool_call_id=call.id)
    if isinstance(call, InvalidToolCall):
        return ToolResultMessage(
            tool_call_id=call.id,
            content=(Text(f"The call could not be run: {call.reason}"),),
            outcome=Outcome.ERROR,
        )
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(NO_RESULT_TEXT),),
        outcome=Outcome.CANCELLED,
    )
