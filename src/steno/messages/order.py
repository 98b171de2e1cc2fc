"""The rules for the order of messages, and the repair of a sequence that breaks them.

Every tool call must have exactly one result before the next turn, and every result must answer an
outstanding call. An assistant message may follow tool results. `OrderState` is a state machine
that checks the next message in constant time. `check_order` checks a whole sequence and returns
every violation as data.

`repair` turns any sequence into one that providers accept, and reports the issues that it fixed.
It is applied before a request is sent and never changes the log. It is idempotent and returns a
valid sequence unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, final

from msgspec import Struct
from msgspec.structs import replace

from steno.errors import OutOfOrder
from steno.messages.call import AnyToolCall, InvalidToolCall
from steno.messages.content import Text
from steno.messages.message import (
    AssistantMessage,
    ChatMessage,
    Message,
    MessageRole,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    as_messages,
)
from steno.messages.outcome import Outcome
from steno.values import RedactedRepr

NO_RESULT_TEXT = "No result was recorded: the turn was interrupted before this call was answered."


class OrderCode(StrEnum):
    """The rule that a message breaks by its position in a sequence."""

    SYSTEM_MISSING = "system_missing"
    SYSTEM_NOT_FIRST = "system_not_first"
    NOT_ALTERNATING = "not_alternating"
    TURN_EMPTY = "turn_empty"
    CALL_ID_REPEATED = "call_id_repeated"
    CALL_ID_REUSED = "call_id_reused"
    CALL_UNANSWERED = "call_unanswered"
    RESULT_ORPHANED = "result_orphaned"
    RESULT_REPEATED = "result_repeated"
    RESULT_EARLY = "result_early"
    RESULT_LATE = "result_late"
    RESULTS_REORDERED = "results_reordered"


class Severity(StrEnum):
    """The severity of an issue: providers refuse an error, and some also refuse a warning."""

    ERROR = "error"
    WARNING = "warning"


ORDER_REMEDIES: Final = {
    OrderCode.SYSTEM_MISSING: "put a system message first",
    OrderCode.SYSTEM_NOT_FIRST: "move the instruction to the first message",
    OrderCode.NOT_ALTERNATING: "merge it with the message before",
    OrderCode.TURN_EMPTY: "leave the empty turn out",
    OrderCode.CALL_ID_REPEATED: "give the second call another id",
    OrderCode.CALL_ID_REUSED: "give the later call another id for providers that need unique ids",
    OrderCode.CALL_UNANSWERED: "add a result with a note that none was recorded",
    OrderCode.RESULT_ORPHANED: "leave the result out",
    OrderCode.RESULT_REPEATED: "keep the first result",
    OrderCode.RESULT_EARLY: "move the result after its call",
    OrderCode.RESULT_LATE: "move the result up to its call",
    OrderCode.RESULTS_REORDERED: "put the results in the order of their calls",
}


@final
class OrderIssue(RedactedRepr, frozen=True, kw_only=True):
    """A violation of the order at a position, with the rule, the severity and the remedy."""

    shown: ClassVar[frozenset[str]] = frozenset({"call_id"})

    code: OrderCode
    position: int
    severity: Severity = Severity.ERROR
    call_id: str | None = None

    @property
    def remedy(self) -> str:
        """A short text about how to fix the issue; `repair` fixes most issues automatically."""
        return ORDER_REMEDIES[self.code]


# -- one message at a time -------------------------------------------------------------------


@final
class OrderState(Struct, frozen=True, kw_only=True):
    """The state after a sequence of messages, which determines the messages allowed next.

    `alternating` adds the rules of a plain chat: the system message is first, and neither two user
    nor two assistant messages are adjacent.
    """

    alternating: bool = False
    last_role: MessageRole | None = None
    outstanding: tuple[str, ...] = ()
    """Ids of the calls that have no result yet."""
    answered: tuple[str, ...] = ()
    """Ids of the calls of this turn that have a result."""

    def after(self, message: ChatMessage) -> OrderState:
        """Return the state after `message`. Raises OutOfOrder if it is not allowed next."""
        if isinstance(message, ToolResultMessage):
            return self._after_result(message.tool_call_id)
        if self.outstanding:
            raise OutOfOrder(
                OrderCode.CALL_UNANSWERED,
                f"add the missing tool results of the last turn first ({len(self.outstanding)})",
            )
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        if self.alternating:
            self._check_alternation(message.role)
        elif not calls:
            return _STATE_AFTER[type(message)]
        call_ids = tuple([call.id for call in calls])
        if len(set(call_ids)) < len(call_ids):
            raise OutOfOrder(OrderCode.CALL_ID_REPEATED, "two calls of one turn share an id")
        return OrderState(
            alternating=self.alternating, last_role=message.role, outstanding=call_ids
        )

    def _after_result(self, call_id: str) -> OrderState:
        if call_id not in self.outstanding:
            if call_id in self.answered:
                raise OutOfOrder(OrderCode.RESULT_REPEATED, "this call already has a result")
            raise OutOfOrder(OrderCode.RESULT_ORPHANED, "no outstanding call has this id")
        return OrderState(
            alternating=self.alternating,
            last_role=MessageRole.TOOL,
            outstanding=tuple([other for other in self.outstanding if other != call_id]),
            answered=(*self.answered, call_id),
        )

    def _check_alternation(self, role: MessageRole) -> None:
        is_first = self.last_role is None
        if role is MessageRole.SYSTEM:
            if not is_first:
                raise OutOfOrder(
                    OrderCode.SYSTEM_NOT_FIRST, "only the first message may be a system message"
                )
        elif is_first:
            raise OutOfOrder(OrderCode.SYSTEM_MISSING, "the first message must be a system message")
        elif role is self.last_role:
            raise OutOfOrder(
                OrderCode.NOT_ALTERNATING, f"two {role} messages in a row are not allowed"
            )


_STATE_AFTER: Final[dict[type[ChatMessage], OrderState]] = {
    kind: OrderState(last_role=kind.role) for kind in (SystemMessage, UserMessage, AssistantMessage)
}
"""Shared states for the most frequent case, a message without calls."""


# -- a whole sequence ------------------------------------------------------------------------


@final
class CallPairing:
    """The tool calls of a sequence paired with their results, and the issues found."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.issues: list[OrderIssue] = []
        self.result_of: dict[tuple[int, int], int] = {}
        """Maps (position of the turn, number of the call) to the position of the result."""
        self._unanswered: dict[str, list[deque[tuple[int, int]]]] = {}
        self._known_call_ids: set[str] = set()
        self._orphans: dict[str, deque[int]] = {}
        self._turn = -1
        self._latest_call = -1
        for position, message in enumerate(messages):
            if isinstance(message, ToolResultMessage):
                self._read_result(position, message.tool_call_id)
                continue
            self._turn, self._latest_call = position, -1
            if isinstance(message, AssistantMessage):
                self._read_turn(position, message)
        self._match_early_results()

    def _read_turn(self, position: int, message: AssistantMessage) -> None:
        if not message.content:
            self._report(OrderCode.TURN_EMPTY, position, severity=Severity.WARNING)
        slots: dict[str, deque[tuple[int, int]]] = {}
        for number, call in enumerate(message.tool_calls):
            if call.id in slots:
                self._report(OrderCode.CALL_ID_REPEATED, position, call.id)
            slots.setdefault(call.id, deque()).append((position, number))
        for call_id, waiting in slots.items():
            self._known_call_ids.add(call_id)
            self._unanswered.setdefault(call_id, []).append(waiting)

    def _read_result(self, position: int, call_id: str) -> None:
        turns = self._unanswered.get(call_id)
        if not turns:
            if call_id in self._known_call_ids:
                self._report(OrderCode.RESULT_REPEATED, position, call_id)
            else:
                self._orphans.setdefault(call_id, deque()).append(position)
            return
        slot = turns[-1].popleft()
        if not turns[-1]:
            turns.pop()
        self.result_of[slot] = position
        turn, number = slot
        if turn != self._turn:
            self._report(OrderCode.RESULT_LATE, position, call_id)
        elif number < self._latest_call:
            self._report(OrderCode.RESULTS_REORDERED, position, call_id, Severity.WARNING)
        else:
            self._latest_call = number

    def _match_early_results(self) -> None:
        """Match results to later calls, and report the calls and results without a match."""
        for call_id, turns in self._unanswered.items():
            early = self._orphans.get(call_id, deque())
            for slot in (slot for waiting in turns for slot in waiting):
                if early:
                    self.result_of[slot] = early.popleft()
                    self._report(OrderCode.RESULT_EARLY, self.result_of[slot], call_id)
                else:
                    self._report(OrderCode.CALL_UNANSWERED, slot[0], call_id)
        for call_id, positions in self._orphans.items():
            for position in positions:
                self._report(OrderCode.RESULT_ORPHANED, position, call_id)

    def _report(
        self,
        code: OrderCode,
        position: int,
        call_id: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        issue = OrderIssue(code=code, position=position, severity=severity, call_id=call_id)
        self.issues.append(issue)


def check_order(
    messages: Iterable[ChatMessage], *, alternating: bool = False
) -> tuple[OrderIssue, ...]:
    """Return an issue for every violation of the order, sorted by position.

    `alternating` adds the rules of a plain chat, as in `ConversationHistory`. Raises
    InvalidMessage if an element is not a message.
    """
    sequence = as_messages(messages)
    issues = [*_check_roles(sequence, alternating), *CallPairing(sequence).issues]
    issues += _check_reused_ids(sequence)
    return tuple(sorted(issues, key=lambda issue: issue.position))


def _check_roles(messages: Sequence[Message], alternating: bool) -> list[OrderIssue]:
    issues: list[OrderIssue] = []
    last: MessageRole | None = None
    for position, message in enumerate(messages):
        role = message.role
        if role is MessageRole.SYSTEM:
            if position > 0:
                severity = Severity.ERROR if alternating else Severity.WARNING
                code = OrderCode.SYSTEM_NOT_FIRST
                issues.append(OrderIssue(code=code, position=position, severity=severity))
        elif alternating and position == 0:
            issues.append(OrderIssue(code=OrderCode.SYSTEM_MISSING, position=position))
        elif alternating and role is last and role is not MessageRole.TOOL:
            issues.append(OrderIssue(code=OrderCode.NOT_ALTERNATING, position=position))
        last = role
    return issues


def _check_reused_ids(messages: Sequence[Message]) -> Iterator[OrderIssue]:
    """Yield a warning for each call id that an earlier turn has used.

    Some servers number the calls of every turn from 0. The results are unambiguous, so `repair`
    keeps the ids; the wire of a provider that needs unique ids replaces them.
    """
    known: set[str] = set()
    for position, message in enumerate(messages):
        call_ids = dict.fromkeys([call.id for call in message.tool_calls])
        for call_id in call_ids:
            if call_id in known:
                yield OrderIssue(
                    code=OrderCode.CALL_ID_REUSED,
                    position=position,
                    severity=Severity.WARNING,
                    call_id=call_id,
                )
        known.update(call_ids)


# -- repair ----------------------------------------------------------------------------------


class RepairResult(NamedTuple):
    """Messages in a valid order, and the issues that were repaired."""

    messages: tuple[Message, ...]
    issues: tuple[OrderIssue, ...]
    """The issues that were repaired, with positions in the input."""


def repair(messages: Iterable[ChatMessage]) -> RepairResult:
    """Give every call exactly one result after its turn, and drop results without a call.

    This fixes orphaned, repeated, early, late and reordered results, calls that share an id,
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
            continue  # a result is inserted after its call below, or dropped
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
    """Replace the repeated ids among `calls` by new ids, which are deterministic."""
    turn_ids: set[str] = set()
    distinct: list[AnyToolCall] = []
    for call in calls:
        call_id, count = call.id, 1
        while call_id in turn_ids or (count > 1 and call_id in used_ids):
            count += 1
            call_id = f"{call.id}_{count}"
        turn_ids.add(call_id)
        used_ids.add(call_id)
        distinct.append(call if call_id == call.id else replace(call, id=call_id))
    return tuple(distinct)


def _with_calls(message: AssistantMessage, calls: tuple[AnyToolCall, ...]) -> AssistantMessage:
    replacements = iter(calls)
    content = tuple(
        next(replacements) if isinstance(block, AnyToolCall) else block for block in message.content
    )
    return replace(message, content=content)


def _result_for(call: AnyToolCall, result: Message | None) -> ToolResultMessage:
    if isinstance(result, ToolResultMessage):
        if result.tool_call_id == call.id:
            return result
        return replace(result, tool_call_id=call.id)
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
