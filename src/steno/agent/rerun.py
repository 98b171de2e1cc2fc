"""Let another model work on what people said in a recorded branch, and compare the two.

    comparison = await rerun(conversation, make_agent, name="replay-small")

It works in a branch of its own, which begins before the first answer. Where it makes a call that
is on record, it gets the result on record, once each; everything else is decided about and run
as ever. The branch that was active is active again in the end.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from steno.agent.agent import Agent
from steno.agent.gate import Decides, Ruling
from steno.agent.limits import Ending, RunResult
from steno.agent.notebook import Notebook, Watch, watch_nothing
from steno.agent.runner import Around, Runs
from steno.call import AnyToolCall, ToolCall
from steno.conversation import Conversation
from steno.entry import ApprovalStatus, Entry, Mode, ModeChange, Resolution
from steno.errors import InvalidValue
from steno.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.outcome import Outcome
from steno.ports import Tool
from steno.usage import Usage
from steno.views import Price, model_of, spent_by_model, usage_of

ON_RECORD: Final = "result on record"
"""The rule by which calls pass that are not run, because what comes of them is on record."""
_WERE_RUN: Final = (Outcome.OK, Outcome.ERROR)


# -- results on record -----------------------------------------------------------------------


@final
class Reuse:
    """Results of calls that were made before, for whoever makes them again."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Take the entries of a branch."""
        self.count = 0
        """How many results were used."""
        self._results: dict[tuple[str, bytes], deque[Entry]] = defaultdict(deque)
        self._reserved: dict[str, ToolResultMessage] = {}
        calls: dict[str, AnyToolCall] = {}
        for entry in entries:
            payload = entry.payload
            if isinstance(payload, AssistantMessage):
                calls |= {call.id: call for call in payload.tool_calls}
            elif isinstance(payload, ToolResultMessage) and payload.outcome in _WERE_RUN:
                call = calls.get(payload.tool_call_id)
                if isinstance(call, ToolCall):
                    self._results[_key(call)].append(entry)

    def wrap_gate(self, gate: Decides) -> Decides:
        """Return a gate that lets pass what is on record, and leaves the rest to another."""
        return _ReusingGate(self, gate)

    def wrap_runner(self, runner: Runs) -> Runs:
        """Return a runner that returns what is on record, and leaves the rest to another."""
        return _ReusingRunner(self, runner)

    def reserve(self, call: ToolCall) -> Entry | None:
        """Take the next result of a call like this; `take` returns it."""
        waiting = self._results.get(_key(call))
        if not waiting:
            return None
        entry = waiting.popleft()
        assert isinstance(entry.payload, ToolResultMessage)
        self._reserved[call.id] = entry.payload
        self.count += 1
        return entry

    def take(self, call: ToolCall) -> ToolResultMessage | None:
        """Return what was chosen for a call, if anything was."""
        result = self._reserved.pop(call.id, None)
        return None if result is None else replace(result, tool_call_id=call.id)


@final
class _ReusingGate:
    def __init__(self, reuse: Reuse, gate: Decides) -> None:
        self._results = reuse
        self._gate = gate

    def offers(self, tool: Tool, mode: Mode) -> bool:
        return self._gate.offers(tool, mode)

    def denies(self, tool: Tool, subject: str) -> bool:
        return self._gate.denies(tool, subject)

    async def admit(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        return await self._gate.admit(tool, call, notebook)

    async def decide(self, tool: Tool, call: ToolCall, notebook: Notebook) -> Ruling:
        entry = self._results.reserve(call)
        if entry is None:
            return await self._gate.decide(tool, call, notebook)
        notebook.record_decision(
            call.id, ApprovalStatus.APPROVED, rule=ON_RECORD, audit={"result_of": entry.id}
        )
        return Ruling(True)


@final
class _ReusingRunner:
    def __init__(self, reuse: Reuse, runner: Runs) -> None:
        self._results = reuse
        self._runner = runner

    async def run(self, tool: Tool, call: ToolCall, around: Around) -> ToolResultMessage:
        return self._results.take(call) or await self._runner.run(tool, call, around)


def _key(call: AnyToolCall) -> tuple[str, bytes]:
    """Return what two calls have in common that ask for the same."""
    arguments = call.arguments.encode()
    # Of numbers and nesting beyond what is read, the text counts as it is.
    with suppress(msgspec.MsgspecError, RecursionError, OverflowError):
        arguments = msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
    return call.name, arguments


# -- the comparison --------------------------------------------------------------------------


class Side(NamedTuple):
    """What one of two runs came to."""

    model: str
    """Empty where the record does not say."""
    turns: int
    calls: int
    usage: Usage
    cost: Decimal | None
    """None where a price is not known."""
    endings: tuple[str, ...]
    """Why the model stopped, for each time that somebody had said something."""
    text: str
    """Its last words."""


class Parting(NamedTuple):
    """The first answer that is another one: other words, or other calls."""

    turn: int
    """Counts from 1."""
    recorded: AssistantMessage | None
    """None where there are no more."""
    new: AssistantMessage | None


class Comparison(NamedTuple):
    """What came of letting another model work on the same."""

    branch: str
    """Where it worked."""
    recorded: Side
    new: Side
    parting: Parting | None
    """None if both gave the same answers."""
    reused: int
    """How many results on record were used again."""
    stopped: RunResult | None
    """The run that ended before its time; then not everything was said."""


async def rerun(
    conversation: Conversation,
    make: Callable[[Reuse], Agent],
    *,
    name: str,
    branch: str | None = None,
    price_of: Callable[[str], Price | None] = lambda _: None,
    watch: Watch = watch_nothing,
) -> Comparison:
    """Say once more what was said on a branch, in a new one called `name`, to another model.

    `make` returns an agent on this conversation; its gate and runner are those that `Reuse` makes
    of the real ones. Modes are changed where they were; remarks on answers are not repeated.
    Raises InvalidValue if nobody says anything on the branch, Conflict if the name is taken.
    """
    was = conversation.branch
    entries = conversation.entries(branch)
    begin = _first_answer(entries)
    reuse = Reuse(entries)
    agent = make(reuse)
    conversation.fork(name, at=entries[begin - 1])
    conversation.switch(name)
    try:
        stopped = await _say_again(agent, entries[begin:], watch)
        new = conversation.entries()
    finally:
        conversation.switch(was)
    return Comparison(
        branch=name,
        recorded=_side(entries, price_of),
        new=_side(new, price_of),
        parting=_parting(_answers(entries), _answers(new)),
        reused=reuse.count,
        stopped=stopped,
    )


def _first_answer(entries: Sequence[Entry]) -> int:
    """Return where the first answer to a person stands, or would stand."""
    has_spoken = False
    for number, entry in enumerate(entries):
        if has_spoken and isinstance(entry.payload, AssistantMessage):
            return number
        has_spoken = has_spoken or isinstance(entry.payload, UserMessage)
    if not has_spoken:
        raise InvalidValue("replay: nobody says anything on this branch")
    return len(entries)


async def _say_again(agent: Agent, recorded: Sequence[Entry], watch: Watch) -> RunResult | None:
    """Let the agent answer wherever there is an answer; return the run that ended too early."""
    conversation = agent.conversation
    ids = {entry.id: entry.id for entry in conversation.entries_view()}
    is_unheard = True
    for payload, entry in [*((entry.payload, entry) for entry in recorded), (None, None)]:
        if isinstance(payload, UserMessage) and entry is not None:
            ids[entry.id] = conversation.append(payload, audit=entry.audit).id
            is_unheard = True
        elif isinstance(payload, Resolution) and payload.target in ids:
            conversation.append(replace(payload, target=ids[payload.target]))
        elif isinstance(payload, ModeChange) and conversation.mode is not payload.new:
            conversation.change_mode(payload.new)
        elif is_unheard and (payload is None or isinstance(payload, AssistantMessage)):
            result = await agent.run(watch=watch, again=False)
            if result.ending is not Ending.DONE:
                return result
            is_unheard = False
    return None


def _answers(entries: Iterable[Entry]) -> list[AssistantMessage]:
    return [entry.payload for entry in entries if isinstance(entry.payload, AssistantMessage)]


def _side(entries: Sequence[Entry], price_of: Callable[[str], Price | None]) -> Side:
    answers = _answers(entries)
    costs = [spent.cost for spent in spent_by_model(entries, price_of).values()]
    known = [cost for cost in costs if cost is not None]
    return Side(
        model=model_of(entries) or "",
        turns=len(answers),
        calls=sum(len(answer.tool_calls) for answer in answers),
        usage=usage_of(entries),
        cost=sum(known, Decimal(0)) if known and len(known) == len(costs) else None,
        endings=_endings(entries),
        text=next((answer.text for answer in reversed(answers) if answer.text), ""),
    )


def _endings(entries: Iterable[Entry]) -> tuple[str, ...]:
    endings: list[str] = []
    last: AssistantMessage | None = None
    for payload in [entry.payload for entry in entries] + [None]:
        if isinstance(payload, AssistantMessage):
            last = payload
        elif last is not None and (payload is None or isinstance(payload, UserMessage)):
            endings.append(str(last.stop_reason or "unknown"))
            last = None
    return tuple(endings)


def _parting(
    recorded: Sequence[AssistantMessage], new: Sequence[AssistantMessage]
) -> Parting | None:
    for number in range(max(len(recorded), len(new))):
        one, other = (side[number] if number < len(side) else None for side in (recorded, new))
        if one is None or other is None or _said(one) != _said(other):
            return Parting(number + 1, one, other)
    return None


def _said(answer: AssistantMessage) -> tuple[str, list[tuple[str, bytes]]]:
    """Return what counts of an answer: words and calls, not ids, thoughts or tokens."""
    return (answer.text or "").strip(), [_key(call) for call in answer.tool_calls]
