"""Run the user's input of a recorded branch on another model, and compare the responses.

    comparison = await rerun(conversation, make_agent, name="replay-small")

The other model works on a new branch, which begins before the first response. A call that is in the
log gets its recorded result, and each result is used once; the gate decides about all other calls
as usual. At the end, the previously active branch is active again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import zip_longest
from typing import Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.agent.agent import Agent
from steno.agent.dispatch import CallContext, ToolRun, ToolRunner
from steno.agent.events import EndReason, RunResult
from steno.agent.permissions.gate import GateDecision, PermissionGate
from steno.agent.recorder import OnEvent, RunRecorder, ignore_event
from steno.errors import InvalidValue
from steno.log.conversation import Conversation
from steno.log.queries import Price, cost_by_model, current_model, total_usage
from steno.messages.call import AnyToolCall, ToolCall
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import Usage
from steno.ports import SandboxAccess, Tool
from steno.records.entry import ApprovalStatus, Entry, Mode, ModeChange, Resolution

RECORDED_RESULT_RULE: Final = "result on record"
"""The rule to record for a call that is not run, because its result is already in the log."""
_RUN_OUTCOMES: Final = (Outcome.OK, Outcome.ERROR)


# -- recorded results --------------------------------------------------------------------------


@final
class RecordedResults:
    """The recorded results of calls, to reuse when another model makes the same calls."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.count: int = 0
        """The number of results that were reused."""
        self._results: dict[tuple[str, bytes], deque[Entry]] = defaultdict(deque)
        self._reserved: dict[str, ToolResultMessage] = {}
        calls: dict[str, AnyToolCall] = {}
        for entry in entries:
            payload = entry.payload
            if isinstance(payload, AssistantMessage):
                calls |= {call.id: call for call in payload.tool_calls}
            elif isinstance(payload, ToolResultMessage) and payload.outcome in _RUN_OUTCOMES:
                call = calls.get(payload.tool_call_id)
                if isinstance(call, ToolCall):
                    self._results[_call_key(call)].append(entry)

    def wrap_gate(self, gate: PermissionGate) -> PermissionGate:
        """Return a gate that approves recorded calls, and passes all other calls to `gate`."""
        return _RecordedResultsGate(self, gate)

    def wrap_runner(self, runner: ToolRunner) -> ToolRunner:
        """Return a runner that returns recorded results, and passes other calls to `runner`."""
        return _RecordedResultsRunner(self, runner)

    def reserve(self, call: ToolCall) -> Entry | None:
        """Reserve the next recorded result of an equal call for `take`, and return its entry.

        Return None if no result is left.
        """
        results = self._results.get(_call_key(call))
        if not results:
            return None
        entry = results.popleft()
        assert isinstance(entry.payload, ToolResultMessage)
        self._reserved[call.id] = entry.payload
        self.count += 1
        return entry

    def take(self, call: ToolCall) -> ToolResultMessage | None:
        """Return the result that `reserve` reserved for a call; None if there is none."""
        result = self._reserved.pop(call.id, None)
        return None if result is None else replace(result, tool_call_id=call.id)


@final
class _RecordedResultsGate:
    def __init__(self, results: RecordedResults, gate: PermissionGate) -> None:
        self._results = results
        self._gate = gate

    def offers(self, tool: Tool, mode: Mode) -> bool:
        return self._gate.offers(tool, mode)

    def denies(self, tool: Tool, subject: str) -> bool:
        return self._gate.denies(tool, subject)

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        return await self._gate.authorize_reference(tool, call, recorder)

    async def decide_access(
        self,
        tool: Tool,
        call: ToolCall,
        blocked: tuple[SandboxAccess, ...],
        recorder: RunRecorder,
    ) -> tuple[SandboxAccess, ...]:
        return await self._gate.decide_access(tool, call, blocked, recorder)

    async def decide(self, tool: Tool, call: ToolCall, recorder: RunRecorder) -> GateDecision:
        entry = self._results.reserve(call)
        if entry is None:
            return await self._gate.decide(tool, call, recorder)
        recorder.record_decision(
            call.id,
            ApprovalStatus.APPROVED,
            rule=RECORDED_RESULT_RULE,
            audit={"result_of": entry.id},
        )
        return GateDecision(True)


@final
class _RecordedResultsRunner:
    def __init__(self, results: RecordedResults, runner: ToolRunner) -> None:
        self._results = results
        self._runner = runner

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolRun:
        result = self._results.take(call)
        return await self._runner.run(tool, call, context) if result is None else ToolRun(result)


def _call_key(call: AnyToolCall) -> tuple[str, bytes]:
    arguments = call.arguments.encode()
    # Arguments that the decoder cannot read are compared as text.
    with suppress(msgspec.MsgspecError, RecursionError, OverflowError):
        arguments = msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
    return call.name, arguments


# -- the comparison --------------------------------------------------------------------------


class RunSummary(NamedTuple):
    """The model, usage, cost and results of one of the two runs."""

    model: str
    """The name of the last model; empty if the log contains no model change."""
    turns: int
    calls: int
    usage: Usage
    cost: Decimal | None
    """The total cost; None if a price is unknown."""
    stop_reasons: tuple[str, ...]
    """The stop reason of the last response to each user message."""
    text: str
    """The text of the last response that contains text; empty if there is none."""


class Divergence(NamedTuple):
    """The first pair of responses that differ in text or calls."""

    turn: int
    """The number of the response, from 1."""
    recorded: AssistantMessage | None
    """The response in the log; None if the recorded run has fewer responses."""
    new: AssistantMessage | None
    """The response of the other model; None if the new run has fewer responses."""


class ModelComparison(NamedTuple):
    """The comparison of a recorded branch with a rerun on another model."""

    branch: str
    """The branch of the rerun."""
    recorded: RunSummary
    new: RunSummary
    divergence: Divergence | None
    """The first difference between the responses; None if all responses are the same."""
    reused_results: int
    """The number of recorded results that were used again."""
    stopped: RunResult | None
    """The result of the run that ended early; None if all runs were completed.

    The input after such a run is not repeated.
    """


async def rerun(
    conversation: Conversation,
    build_agent: Callable[[RecordedResults], Agent],
    *,
    name: str,
    branch: str | None = None,
    price_of: Callable[[str], Price | None] = lambda _: None,
    on_event: OnEvent = ignore_event,
) -> ModelComparison:
    """Repeat the user input of a branch with another model, on a new branch called `name`.

    `build_agent` returns an agent for this conversation, whose gate and runner are wrapped with
    `RecordedResults.wrap_gate` and `wrap_runner`. Mode changes are repeated, feedback is not.
    Raises InvalidValue if the branch has no user message, Conflict if the name is taken.
    """
    active = conversation.branch
    entries = conversation.entries(branch)
    start = _find_first_response(entries)
    results = RecordedResults(entries)
    agent = build_agent(results)
    conversation.fork(name, at=entries[start - 1])
    conversation.switch(name)
    try:
        stopped = await _repeat_input(agent, entries[start:], on_event)
        new = conversation.entries()
    finally:
        conversation.switch(active)
    return ModelComparison(
        branch=name,
        recorded=_summarize_run(entries, price_of),
        new=_summarize_run(new, price_of),
        divergence=_find_divergence(_assistant_messages(entries), _assistant_messages(new)),
        reused_results=results.count,
        stopped=stopped,
    )


def _find_first_response(entries: Sequence[Entry]) -> int:
    """Return the index of the first response to the user, or the length if there is none.

    Raises InvalidValue if there is no user message.
    """
    has_input = False
    for number, entry in enumerate(entries):
        if has_input and isinstance(entry.payload, AssistantMessage):
            return number
        has_input = has_input or isinstance(entry.message, UserMessage)
    if not has_input:
        raise InvalidValue("the branch has no user message", place="replay", code="no_user_message")
    return len(entries)


async def _repeat_input(
    agent: Agent, recorded: Sequence[Entry], on_event: OnEvent
) -> RunResult | None:
    """Repeat the recorded input, with a run of the agent wherever user messages were answered.

    The agent also runs for a last message that was not answered. If a run ends early, the remaining
    input is not repeated, and the result of that run is returned. Return None if all runs were
    completed.
    """
    conversation = agent.conversation
    ids = {entry.id: entry.id for entry in conversation.entries_view()}
    is_unanswered = True
    for payload, entry in [*((entry.payload, entry) for entry in recorded), (None, None)]:
        if entry is not None and isinstance(entry.message, UserMessage):
            ids[entry.id] = conversation.append(entry.payload, audit=entry.audit).id
            is_unanswered = True
        elif isinstance(payload, Resolution) and payload.target in ids:
            conversation.append(replace(payload, target=ids[payload.target]))
        elif isinstance(payload, ModeChange) and conversation.mode is not payload.new:
            conversation.change_mode(payload.new)
        elif entry is not None and entry.clears_context:
            conversation.clear()
            is_unanswered = False
        elif is_unanswered and (payload is None or isinstance(payload, AssistantMessage)):
            result = await agent.run(on_event=on_event, retry_references=False)
            if result.end_reason is not EndReason.DONE:
                return result
            is_unanswered = False
    return None


def _assistant_messages(entries: Iterable[Entry]) -> list[AssistantMessage]:
    return [entry.payload for entry in entries if isinstance(entry.payload, AssistantMessage)]


def _summarize_run(entries: Sequence[Entry], price_of: Callable[[str], Price | None]) -> RunSummary:
    responses = _assistant_messages(entries)
    costs = [spent.cost for spent in cost_by_model(entries, price_of).values()]
    known = [cost for cost in costs if cost is not None]
    return RunSummary(
        model=current_model(entries) or "",
        turns=len(responses),
        calls=sum(len(response.tool_calls) for response in responses),
        usage=total_usage(entries),
        cost=sum(known, Decimal(0)) if known and len(known) == len(costs) else None,
        stop_reasons=_stop_reasons(entries),
        text=next((response.text for response in reversed(responses) if response.text), ""),
    )


def _stop_reasons(entries: Iterable[Entry]) -> tuple[str, ...]:
    endings: list[str] = []
    last: AssistantMessage | None = None
    for payload in [entry.message or entry.payload for entry in entries] + [None]:
        if isinstance(payload, AssistantMessage):
            last = payload
        elif last is not None and (payload is None or isinstance(payload, UserMessage)):
            endings.append(str(last.stop_reason or "unknown"))
            last = None
    return tuple(endings)


def _find_divergence(
    recorded: Sequence[AssistantMessage], replayed: Sequence[AssistantMessage]
) -> Divergence | None:
    for number, (old, new) in enumerate(zip_longest(recorded, replayed), 1):
        if old is None or new is None or _comparable_content(old) != _comparable_content(new):
            return Divergence(number, old, new)
    return None


def _comparable_content(answer: AssistantMessage) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text and the calls of a response, without ids, thinking and usage."""
    return (answer.text or "").strip(), [_call_key(call) for call in answer.tool_calls]
