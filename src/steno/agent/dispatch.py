"""Answer the calls of one turn: each is checked, decided about, run and recorded.

Calls are taken in their order. Readers that stand together run together, everything else runs
alone; results are recorded in the order of the calls. However this ends, every call that was
begun has its result on record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.agent.bounded_text import BoundedText
from steno.agent.events import CallEnded, CallOutput, CallStarted
from steno.agent.permissions.gate import PermissionGate, ToolFault, is_deferred, last_decision
from steno.agent.permissions.policy import DENIED_PREFIX
from steno.agent.recorder import RunRecorder
from steno.agent.runner import (
    CallContext,
    ToolRunner,
    build_failure_result,
    build_fault_result,
    is_cancelled,
)
from steno.agent.telemetry.spans import Telemetry
from steno.errors import InvalidValue, OutOfOrder, ToolFailed
from steno.log.conversation import Conversation
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResult, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.messages.tool import ToolDefinition
from steno.ports import Capability, Tool
from steno.records.entry import Approval, ApprovalStatus, Mode, Redacted

CALL_STOPPED_TEXT: Final = "The call was stopped while it ran. It may have taken effect in part."


PARTIAL_OUTPUT_HEADING: Final = "Until then it said:"
"""Begins a block of its own, behind the one that says that a call was stopped."""


SUBJECTS_CHANGED_TEXT: Final = (
    f"{DENIED_PREFIX}: what the call is about has changed since it was allowed"
)


_STOP_TIMEOUT_S: Final = 10.0
"""How long to wait for tools that were told to stop."""


_DECISION_BY_OUTCOME: Final = {
    Outcome.OK: "executed",
    Outcome.ERROR: "failed",
    Outcome.UNAVAILABLE: "failed",
}
"""What the record calls an outcome; the others go by their own names."""


class _ApprovedCall(NamedTuple):
    """A call that may run."""

    tool: Tool
    call: ToolCall
    subjects: tuple[str, ...] | None
    """What was decided about; None where nobody looked."""


_CheckedCall: TypeAlias = tuple[AnyToolCall, ToolResultMessage | None]
"""A call, and its result if nobody can run it."""


class _RunningCall(NamedTuple):
    """A call that has begun, or has its result already."""

    call: AnyToolCall
    output: BoundedText
    task: asyncio.Future[ToolResultMessage]


@final
class Dispatcher:
    """Answers calls with a set of tools."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        gate: PermissionGate,
        runner: ToolRunner,
        telemetry: Telemetry,
    ) -> None:
        """Take tools of different names. Raises InvalidValue."""
        self._tools: Mapping[str, Tool] = _index_by_name(tools)
        self._gate = gate
        self._runner = runner
        self._telemetry = telemetry
        self.consecutive_invalid_turns = 0
        """How many turns, up to the last one, called for nothing that could be run at all."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order they were given."""
        return tuple(self._tools.values())

    def offered_definitions(self, mode: Mode) -> tuple[ToolDefinition, ...]:
        """Return what a model is told about the tools that it may use in a mode."""
        return tuple([tool.definition for tool in self.tools if self._gate.offers(tool, mode)])

    async def answer_calls(self, calls: Sequence[AnyToolCall], notebook: RunRecorder) -> None:
        """Answer calls that await their result. What it raises leaves the rest unanswered."""
        looked_at = [(call, self._refusal(call)) for call in calls]
        is_all_invalid = all(refusal is not None for _, refusal in looked_at)
        self.consecutive_invalid_turns = self.consecutive_invalid_turns + 1 if is_all_invalid else 0
        for batch in self._batches(looked_at):
            checked = [
                (call, refusal or await self._check(call, notebook)) for call, refusal in batch
            ]
            await self._run_batch(checked, notebook)

    def _batches(self, calls: Iterable[_CheckedCall]) -> Iterator[list[_CheckedCall]]:
        """Group neighbours that only read; nothing else shares its time with another call."""
        for is_reader, together in groupby(
            calls, lambda looked_at: self.is_read_only(looked_at[0])
        ):
            if is_reader:
                yield list(together)
            else:
                yield from ([call] for call in together)

    def is_read_only(self, call: AnyToolCall) -> bool:
        """Tell whether a call does no more than look; one of an unknown tool does not count."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.capability is Capability.READ

    async def _check(
        self, call: AnyToolCall, notebook: RunRecorder
    ) -> _ApprovedCall | ToolResultMessage:
        """Return a call that could run as one that may, or the result that says why not."""
        assert isinstance(call, ToolCall)
        tool = self._tools[call.name]
        try:
            ruling = await self._gate.decide(tool, call, notebook)
        except ToolFailed as exc:  # what it names is not there, or not to be named
            return build_failure_result(call, exc)
        except ToolFault as exc:
            return build_fault_result(call, exc.fault)
        if is_cancelled():  # and whoever was asked took no notice
            raise asyncio.CancelledError
        if not ruling.allowed:
            return ToolResult.error(call.id, ruling.reason, outcome=Outcome.DENIED)
        return _ApprovedCall(tool, call, ruling.subjects)

    def _refusal(self, call: AnyToolCall) -> ToolResultMessage | None:
        """Return the result of a call that nobody can run; None if it can be run."""
        tool = self._tools.get(call.name)
        if isinstance(call, InvalidToolCall):
            return ToolResult.error(call.id, f"The call could not be run: {call.reason}")
        if tool is None:
            known = ", ".join(self._tools) or "none"
            said = f"There is no tool of this name. The tools are: {known}."
            return ToolResult.error(call.id, said, outcome=Outcome.UNAVAILABLE)
        problems = tool.definition.check(call)
        if problems:
            said = "\n".join(["The arguments do not fit:", *map(str, problems)])
            return ToolResult.error(call.id, said)
        return None

    async def _run_batch(
        self,
        checked: Sequence[tuple[AnyToolCall, _ApprovedCall | ToolResultMessage]],
        notebook: RunRecorder,
    ) -> None:
        begun = [self._start_call(call, it, notebook) for call, it in checked]
        try:
            for one in begun:
                # Who stops us is heard at once, whatever the tool makes of it.
                await asyncio.wait([one.task])
                self._record(one.call, one.task.result(), notebook)
        except BaseException:
            await self._stop_calls(begun, notebook)
            raise

    def _start_call(
        self, call: AnyToolCall, checked: _ApprovedCall | ToolResultMessage, notebook: RunRecorder
    ) -> _RunningCall:
        said = BoundedText(lambda text: notebook.emit_from_callback(CallOutput(call.id, text)))
        return _RunningCall(
            call, said, asyncio.ensure_future(self._result(checked, notebook, said))
        )

    async def _stop_calls(self, begun: Sequence[_RunningCall], notebook: RunRecorder) -> None:
        """End calls that run, and record what came of those that have no result yet."""
        for one in begun:
            one.task.cancel()
        try:
            # Tools that are told to stop may need a moment to end what they began.
            await asyncio.wait([one.task for one in begun], timeout=_STOP_TIMEOUT_S)
        finally:
            for one in begun:
                with suppress(OutOfOrder):  # it has its result
                    self._record(one.call, _result_after_stop(one), notebook)

    async def _result(
        self, checked: _ApprovedCall | ToolResultMessage, notebook: RunRecorder, said: BoundedText
    ) -> ToolResultMessage:
        if isinstance(checked, ToolResultMessage):
            return checked
        tool, call, subjects = checked
        if subjects is not None and _current_subjects(tool, call) != subjects:
            return ToolResult.error(call.id, SUBJECTS_CHANGED_TEXT, outcome=Outcome.DENIED)
        notebook.emit(CallStarted(call))
        with self._telemetry.call(tool, call) as span:
            around = CallContext(said.add, partial(self._gate.denies, tool), subjects)
            result = await self._runner.run(tool, call, around)
            span.record_result(result)
        return result

    def _record(self, call: AnyToolCall, result: ToolResultMessage, notebook: RunRecorder) -> None:
        notebook.record(
            result, decision=_DECISION_BY_OUTCOME.get(result.outcome, str(result.outcome))
        )
        notebook.emit(CallEnded(call, result))


def _current_subjects(tool: Tool, call: ToolCall) -> tuple[str, ...] | None:
    """Return what a call is about now: while others were asked, a link may have been moved."""
    try:
        return tool.subjects(call)
    except Exception:  # noqa: BLE001 - it made sense when it was decided about
        return None


def _result_after_stop(begun: _RunningCall) -> ToolResultMessage:
    """Return what came of a call after all, in the moment that everything was stopped.

    What it had said by then may be all that there is of its work.
    """
    task, said = begun.task, begun.output.text
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    stopped = ToolResult.error(begun.call.id, CALL_STOPPED_TEXT, outcome=Outcome.CANCELLED)
    if not said:
        return stopped
    return replace(stopped, content=(*stopped.content, Text(f"{PARTIAL_OUTPUT_HEADING}\n{said}")))


def _index_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.definition.name in found:
            raise InvalidValue(f"tools: two have the name {tool.definition.name}")
        found[tool.definition.name] = tool
    return found


# -- interrupted -----------------------------------------------------------------------------------
#
# Answer the calls that an earlier run left behind, because it was killed or lost its power.
#
# What was not decided about is decided about now, and what was decided meanwhile holds. What had
# been approved when it was left may have been run, in part or to its end, and nobody knows: only
# what reads is run again.


RESULT_REDACTED_TEXT: Final = (
    "A result of this turn was taken out of the record; it is not there any more."
)


OUTCOME_UNKNOWN_TEXT: Final = (
    "The program ended while this call ran. It may have taken effect, in part or as a whole; "
    "look before you repeat it."
)


async def finish_orphaned_calls(dispatcher: Dispatcher, notebook: RunRecorder) -> None:
    """Answer every call of the active branch that awaits its result."""
    conversation = notebook.conversation
    for call_id in conversation.outstanding:
        call = conversation.outstanding_call(call_id)
        if _has_redacted_result(conversation):
            result = ToolResult.error(call.id, RESULT_REDACTED_TEXT, outcome=Outcome.CANCELLED)
            notebook.record(result, decision="cancelled")
        elif _may_have_run(conversation, call) and not dispatcher.is_read_only(call):
            result = ToolResult.error(call.id, OUTCOME_UNKNOWN_TEXT, outcome=Outcome.CANCELLED)
            notebook.record(result, decision="cancelled")
        else:
            await dispatcher.answer_calls([call], notebook)


def _has_redacted_result(conversation: Conversation) -> bool:
    """Tell whether a result of the last turn was taken out of the record.

    Which call it answered is not known any more. To run any of them again could bring back what
    somebody wanted to be gone.
    """
    for entry in reversed(conversation.entries_view()):
        if isinstance(entry.payload, AssistantMessage):
            return False
        if isinstance(entry.payload, Redacted) and entry.payload.kind == "tool_result":
            return True
    return False


def _may_have_run(conversation: Conversation, call: AnyToolCall) -> bool:
    entry = last_decision(conversation.entries_view(), call)
    if entry is None or not isinstance(entry.payload, Approval):
        return False
    return entry.payload.status is ApprovalStatus.APPROVED and not is_deferred(entry)
