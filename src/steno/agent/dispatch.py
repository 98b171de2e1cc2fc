"""Handle the calls of one turn: check and authorize each call, run it and record the result.

Calls are handled in order. Adjacent calls that only read run concurrently, all others run alone;
results are recorded in the order of the calls. Every call that began gets a result in the log, even
after an error or a cancellation. `Runner` runs one tool and turns its output, a failure or an
unexpected exception into a result.

`finish_orphaned_calls` records results for calls that an earlier, killed run left without one. The
gate decides about calls without a decision; decisions recorded after the kill apply. An approved
call may have run, partly or completely, so it is run again only if its tool only reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import groupby
from threading import get_ident
from typing import Final, NamedTuple, Protocol, TypeAlias, final

from msgspec.structs import replace

from steno.agent.events import CallEnded, CallOutput, CallStarted
from steno.agent.permissions.gate import PermissionGate, ToolFault
from steno.agent.permissions.grants import decided_access, is_deferred, last_decision
from steno.agent.permissions.rules import DENIED_PREFIX
from steno.agent.permissions.subjects import normalize_subjects
from steno.agent.recorder import RunRecorder
from steno.agent.results import (
    PARTIAL_OUTPUT_HEADING,
    ResultCode,
    build_agent_result,
    build_cancelled_result,
    build_failure_result,
    build_fault_result,
    build_output_result,
)
from steno.agent.telemetry.spans import Telemetry
from steno.bounded_text import BoundedText
from steno.errors import InvalidValue, Missing, OutOfOrder, ToolFailed
from steno.ids import utc_now
from steno.lazy_task import start_task
from steno.log.conversation import Conversation
from steno.log.queries import outcome_decision
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.messages.tool import ToolDefinition
from steno.ports import BlobStore, Capability, SandboxAccess, Subject, Tool
from steno.records.entry import Approval, ApprovalStatus, Mode, Redacted
from steno.values import replace_lone_surrogates

_STOP_TIMEOUT_S: Final = 10.0
"""The time to wait for cancelled tools to end."""
_MAX_REPEATS: Final = 3
"""The number of times that a call is run again with more access."""
_ATTEMPTS_KEY: Final = "attempts"
_MAX_END_CHARACTERS: Final = 10_000
"""The number of characters retained from each end of an output; about 5,000 tokens in total."""


class _ApprovedCall(NamedTuple):
    tool: Tool
    call: ToolCall
    subjects: tuple[Subject, ...] | None
    """The subjects that the gate decided about; None if it did not check them."""
    access: tuple[SandboxAccess, ...]
    """The access beyond the sandbox that rules give to the call."""


_CheckedCall: TypeAlias = tuple[AnyToolCall, ToolResultMessage | None]
"""A call, and the error result to record if the call cannot be run; None if it can be run."""


class _RunningCall(NamedTuple):
    """A call whose task has started; the task of a refused call only returns the refusal."""

    call: AnyToolCall
    progress: _CallProgress
    task: asyncio.Future[ToolResultMessage]


@final
class _CallProgress:
    """What a running call has done so far, for the case that it is stopped."""

    def __init__(self, output: ReportedOutput) -> None:
        self.output: Final = output
        self.attempts: list[ToolResultMessage] = []
        """The results of the attempts that were repeated with more access."""
        self.result: ToolResultMessage | None = None
        """The result of the last attempt, while no attempt is running."""

    def add_attempts(self, result: ToolResultMessage) -> ToolResultMessage:
        """Return a result with the details of the earlier attempts.

        The recorded result of a replay has them already.
        """
        details = result.details or {}
        if not self.attempts or _ATTEMPTS_KEY in details:
            return result
        attempts = [dict(attempt.details or {}) for attempt in self.attempts]
        return replace(result, details={**details, _ATTEMPTS_KEY: attempts})


@final
class Dispatcher:
    """Checks, authorizes and runs the calls of a model to a set of tools."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        gate: PermissionGate,
        runner: ToolRunner,
        telemetry: Telemetry,
    ) -> None:
        """Index the tools by name. Raises InvalidValue if two tools have the same name."""
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            name = tool.definition.name
            if name in self._tools:
                raise InvalidValue(
                    f"two tools have the name {name}", place="tools", code="duplicate_tool_name"
                )
            self._tools[name] = tool
        self._gate = gate
        self._runner = runner
        self._telemetry = telemetry
        self.consecutive_invalid_turns: int = 0
        """The number of consecutive turns, up to the last, without a call that could be run.

        Such a turn has only invalid calls and calls of unknown tools.
        """

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in the order in which they were passed."""
        return tuple(self._tools.values())

    def offered_definitions(self, mode: Mode) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools that the model may use in a mode."""
        return tuple([tool.definition for tool in self.tools if self._gate.offers(tool, mode)])

    async def answer_calls(self, calls: Sequence[AnyToolCall], recorder: RunRecorder) -> None:
        """Run outstanding calls, where allowed, and record a result for each.

        After an exception, calls that did not begin have no result.
        """
        checked = [(call, self._find_refusal(call)) for call in calls]
        is_all_invalid = all(refusal is not None for _, refusal in checked)
        self.consecutive_invalid_turns = self.consecutive_invalid_turns + 1 if is_all_invalid else 0
        for batch in self._batches(checked):
            decided = [
                (call, refusal or await self._decide(call, recorder)) for call, refusal in batch
            ]
            await self._run_batch(decided, recorder)

    def _find_refusal(self, call: AnyToolCall) -> ToolResultMessage | None:
        """Return an error result for a call that cannot be run; None if the call can be run."""
        if isinstance(call, InvalidToolCall):
            text = f"The call could not be run: {call.reason}"
            return build_agent_result(call.id, ResultCode.INVALID_CALL, text)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            text = f"There is no tool with this name. The available tools are: {known}."
            return build_agent_result(call.id, ResultCode.UNKNOWN_TOOL, text, Outcome.UNAVAILABLE)
        problems = tool.definition.check(call)
        if problems:
            text = "\n".join(["The arguments are invalid:", *map(str, problems)])
            return build_agent_result(call.id, ResultCode.INVALID_ARGUMENTS, text)
        return None

    def _batches(self, calls: Iterable[_CheckedCall]) -> Iterator[list[_CheckedCall]]:
        """Yield batches: adjacent read-only calls together, every other call alone."""
        for is_reader, group in groupby(calls, lambda checked: self.is_read_only(checked[0])):
            if is_reader:
                yield list(group)
            else:
                yield from ([call] for call in group)

    def is_read_only(self, call: AnyToolCall) -> bool:
        """Return whether the tool of a call only reads; False for an unknown tool."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.capability is Capability.READ

    async def _decide(
        self, call: AnyToolCall, recorder: RunRecorder
    ) -> _ApprovedCall | ToolResultMessage:
        """Ask the gate about a call. Return the approved call, or the result to record instead."""
        assert isinstance(call, ToolCall)
        tool = self._tools[call.name]
        try:
            decision = await self._gate.decide(tool, call, recorder)
        except ToolFailed as exc:  # the subject does not exist, or the tool rejects it
            return build_failure_result(call, exc)
        except ToolFault as exc:
            return build_fault_result(call, exc.fault)
        if is_cancelled():  # the approver swallowed the cancellation
            raise asyncio.CancelledError
        if not decision.allowed:
            return build_agent_result(call.id, decision.code, decision.reason, Outcome.DENIED)
        return _ApprovedCall(tool, call, decision.subjects, decision.access)

    async def _run_batch(
        self,
        decided: Sequence[tuple[AnyToolCall, _ApprovedCall | ToolResultMessage]],
        recorder: RunRecorder,
    ) -> None:
        running = [self._start_call(call, checked, recorder) for call, checked in decided]
        try:
            for running_call in running:
                # `wait` is cancelled at once, even if the tool ignores its own cancellation.
                await asyncio.wait([running_call.task])
                self._record(running_call.call, running_call.task.result(), recorder)
        except BaseException:
            await self._stop_calls(running, recorder)
            raise

    def _start_call(
        self, call: AnyToolCall, decided: _ApprovedCall | ToolResultMessage, recorder: RunRecorder
    ) -> _RunningCall:
        output = ReportedOutput(lambda text: recorder.emit_from_callback(CallOutput(call.id, text)))
        progress = _CallProgress(output)
        task = start_task(self._run_call(decided, recorder, progress))
        return _RunningCall(call, progress, task)

    async def _run_call(
        self,
        decided: _ApprovedCall | ToolResultMessage,
        recorder: RunRecorder,
        progress: _CallProgress,
    ) -> ToolResultMessage:
        if isinstance(decided, ToolResultMessage):
            return decided
        tool, call, subjects, _ = decided
        if subjects is not None and _current_subjects(tool, call) != subjects:
            text = f"{DENIED_PREFIX}: the target of the call has changed since it was allowed"
            return build_agent_result(call.id, ResultCode.SUBJECTS_CHANGED, text, Outcome.DENIED)
        recorder.emit(CallStarted(call))
        with self._telemetry.call(tool, call) as span:
            is_denied = partial(self._gate.denies, tool)
            context = CallContext(progress.output.add, is_denied, subjects, decided.access)
            run = await self._runner.run(tool, call, context)
            for _ in range(_MAX_REPEATS):
                progress.result = progress.add_attempts(run.result)
                access = await self._ask_for_access(decided, context, run.blocked, recorder)
                if not access:
                    break
                progress.attempts.append(run.result)
                progress.result = None
                context = context._replace(access=(*context.access, *access))
                run = await self._runner.run(tool, call, context)
            result = progress.add_attempts(run.result)
            span.record_result(result)
        return result

    async def _ask_for_access(
        self,
        approved: _ApprovedCall,
        context: CallContext,
        blocked: Sequence[SandboxAccess],
        recorder: RunRecorder,
    ) -> tuple[SandboxAccess, ...]:
        """Return the access to repeat a call with; empty if its last result is final."""
        tool, call, subjects, _ = approved
        missing = tuple([each for each in blocked if each not in context.access])
        if not missing:
            return ()
        try:
            access = await self._gate.decide_access(tool, call, missing, recorder)
        except (ToolFailed, ToolFault):  # the first attempt changed what the preview shows
            return ()
        if is_cancelled():  # the approver swallowed the cancellation
            raise asyncio.CancelledError
        has_changed = subjects is not None and _current_subjects(tool, call) != subjects
        return () if has_changed else access

    async def _stop_calls(self, running: Sequence[_RunningCall], recorder: RunRecorder) -> None:
        """Cancel running calls, and record results for those that have none yet."""
        for running_call in running:
            running_call.task.cancel()
        try:
            # A cancelled tool may need a moment to end its work.
            await asyncio.wait([each.task for each in running], timeout=_STOP_TIMEOUT_S)
        finally:
            for running_call in running:
                with suppress(OutOfOrder):  # the call has its result already
                    self._record(running_call.call, _result_after_stop(running_call), recorder)

    def _record(self, call: AnyToolCall, result: ToolResultMessage, recorder: RunRecorder) -> None:
        recorder.record(result, decision=outcome_decision(result.outcome))
        recorder.emit(CallEnded(call, result))


def _current_subjects(tool: Tool, call: ToolCall) -> tuple[Subject, ...] | None:
    """Return the current subjects of a call; None if the tool raises an exception.

    A symlink may have changed since the decision.
    """
    try:
        return normalize_subjects(tool, tool.subjects(call))
    except Exception:  # noqa: BLE001 - the same call succeeded when the gate decided
        return None


def _result_after_stop(running: _RunningCall) -> ToolResultMessage:
    """Return the result to record for a call after its task was cancelled.

    If the task has returned a result, that result is recorded, and so is the result of a call that
    only waited for more access. Otherwise, the call is recorded as cancelled, with its output so
    far, which may be the only trace of its effects.
    """
    task, progress = running.task, running.progress
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    if progress.result is not None:
        return progress.result
    output = progress.output.text
    result = progress.add_attempts(build_cancelled_result(running.call.id, ResultCode.CALL_STOPPED))
    if not output:
        return result
    return replace(result, content=(*result.content, Text(f"{PARTIAL_OUTPUT_HEADING}\n{output}")))


# -- calls of an earlier run -----------------------------------------------------------------------


async def finish_orphaned_calls(dispatcher: Dispatcher, recorder: RunRecorder) -> None:
    """Record a result for every outstanding call; calls that are safe to run are handled as usual.

    A call is not safe to run if it may have run already and its tool does not only read, or if a
    result of its turn was redacted. Such a call is recorded as cancelled.
    """
    conversation = recorder.conversation
    for call_id in conversation.outstanding:
        call = conversation.outstanding_call(call_id)
        if _has_redacted_result(conversation):
            code = ResultCode.RESULT_REDACTED
        elif _may_have_run(conversation, call) and not dispatcher.is_read_only(call):
            code = ResultCode.OUTCOME_UNKNOWN
        else:
            await dispatcher.answer_calls([call], recorder)
            continue
        recorder.record(build_cancelled_result(call.id, code), decision="cancelled")


def _has_redacted_result(conversation: Conversation) -> bool:
    """Return whether a result of the last turn was redacted.

    The log no longer names the call of that result. Running any call of the turn again could
    restore the redacted content.
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
    if decided_access(entry) is not None:  # it ran, and the sandbox blocked it
        return True
    return entry.payload.status is ApprovalStatus.APPROVED and not is_deferred(entry)


# -- one tool --------------------------------------------------------------------------------------


class CallContext(NamedTuple):
    """Per-call context passed from the dispatcher to the runner; see `steno.ports.ToolContext`."""

    report_output: Callable[[str], None]
    is_denied: Callable[[str], bool]
    subjects: tuple[Subject, ...] | None
    access: tuple[SandboxAccess, ...] = ()


class ToolRun(NamedTuple):
    """The result of a call, and the access that a sandbox blocked while the call ran."""

    result: ToolResultMessage
    blocked: tuple[SandboxAccess, ...] = ()


class ToolRunner(Protocol):
    """Runs an approved call and returns its result."""

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolRun:
        """Run a call and return its result, even if the tool fails. Raises only CancelledError."""
        ...


@final
class Runner:
    """Runs tools and turns their output into results."""

    def __init__(
        self,
        blobs: BlobStore | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the store for output that is too long for a message; the default is in memory."""
        self._blobs = _MemoryBlobs() if blobs is None else blobs
        self._now = now
        self._clock = clock

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolRun:
        """Run a tool and return a result for its output, its failure or an unexpected exception.

        Only the result of an unexpected exception contains a traceback.
        """
        started_at, start = self._now(), self._clock()
        blocked: tuple[SandboxAccess, ...] = ()
        try:
            output = await tool.run(call, _RunningToolContext(self._blobs, context))
            result = build_output_result(call, output)
            blocked = output.blocked
        except ToolFailed as exc:
            result = build_failure_result(call, exc)
        except (Exception, SystemExit, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and is_cancelled():
                raise
            result = build_fault_result(call, exc)
        duration_s = max(self._clock() - start, 0.0)
        return ToolRun(replace(result, started_at=started_at, duration_s=duration_s), blocked)


def is_cancelled() -> bool:
    """Return whether the current task was cancelled, even if the CancelledError was caught."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@final
class ReportedOutput:
    """A buffer that retains the beginning and the end of the output of a running call.

    Create the buffer in the event loop; any thread may add output to it.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        """Set the function to call with each piece of output, in the event loop."""
        self._on_text = on_text
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        size = _MAX_END_CHARACTERS
        self._kept = BoundedText("".join, max_head=size, max_tail=size)

    @property
    def text(self) -> str:
        """The whole output, or the beginning and the end of a long output."""
        head, missing, tail = self._kept.ends()
        gap = f"\n[... {missing:,} characters left out here ...]\n" if missing else ""
        return f"{head}{gap}{tail}"

    def add(self, text: str) -> None:
        """Add a piece of output."""
        text = replace_lone_surrogates(text)
        if get_ident() == self._thread:
            self._append(text)
        else:
            self._loop.call_soon_threadsafe(self._append, text)

    def _append(self, text: str) -> None:
        self._kept.add(text)
        self._on_text(text)


@final
class _RunningToolContext:
    """The context of a running tool (`steno.ports.ToolContext`)."""

    def __init__(self, blobs: BlobStore, context: CallContext) -> None:
        self._context = context
        self.subjects: Final = context.subjects
        self.access: Final = context.access
        self.put_blob: Final = blobs.put_blob
        self.read_blob: Final = blobs.blob

    def is_denied(self, subject: str) -> bool:
        return self._context.is_denied(subject)

    def report_output(self, text: str) -> None:
        self._context.report_output(text)


@final
class _MemoryBlobs:
    """A blob store in memory, for a runner without another store (`steno.ports.BlobStore`)."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put_blob(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self._blobs[digest] = data
        return digest

    def blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise Missing("no blob with this digest", place="blob", code="blob_missing")
        return self._blobs[sha256]
