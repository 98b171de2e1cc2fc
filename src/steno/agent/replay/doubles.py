"""Doubles for a replay: a journal, a provider, a gate, a runner and tools that repeat a log.

They give the loop everything that came from outside as it was recorded. Every entry that the loop
makes of it is compared with the log before the loop continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Never, Self, cast, final

from steno.agent.permissions.gate import GateDecision
from steno.agent.recorder import RunRecorder
from steno.agent.replay.recorded_run import (
    RecordedRun,
    is_made_by_run,
    is_not_run,
    is_outcome_unknown,
    is_partial,
    is_stopped,
    with_recorded_wording,
)
from steno.agent.results import ResultCode
from steno.agent.tool_runner import CallContext
from steno.assemble import Assembler, events_from_message
from steno.errors import CutShort, LogError, Missing, ProviderError
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.log.queries import result_code
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.ports import (
    CallPreview,
    Capability,
    Tool,
    ToolContext,
    ToolOutput,
    default_headline,
)
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Compaction,
    Entry,
    Feedback,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    PayloadT,
    Resolution,
    Rewind,
)
from steno.records.stored_record import MAIN_BRANCH

_END_ID: Final = "end"
_APPENDABLE: Final = (ModeChange, ModelChange, Label, Compaction, Resolution, Feedback, Approval)
"""Payloads that are often recorded between runs. All others are read back, which takes longer."""


class ReplayEnded(LogError):
    """The run ends here: the program was killed, or the loop made another entry."""

    code = "replay_ended"


class ReplayStopped(Exception):
    """The recorded run was stopped here."""


# -- state --------------------------------------------------------------------------------------


@final
class ReplayState:
    """A recorded run, and how far the loop has made the same entries."""

    def __init__(self, recorded_run: RecordedRun) -> None:
        """Begin before the first entry."""
        self.recorded_run: Final = recorded_run
        self.made_count: int = 0
        """How many entries the loop has made again."""
        self.attempt: Entry | None = None
        """The entry that the loop made where the log has another one."""
        self.is_tampered: bool = False
        """Whether the digest of the next entry is that of another entry."""
        self.is_over: bool = False
        self._is_copying = False
        """Whether the entry that is appended now is copied from the log."""
        self.stop: Callable[[], object] = lambda: None
        """Stop the current run, as a user or a limit does."""
        self.conversation: Final = Conversation(
            id="replay",
            journal=_ReplayJournal(self),
            new_id=lambda: _END_ID if recorded_run.next is None else recorded_run.next.id,
            # None where the log has no time; no clock returns that.
            now=lambda: cast(
                "datetime", None if recorded_run.next is None else recorded_run.next.time
            ),
        )

    def accept(self, entry: Entry, digest: str) -> None:
        """Continue after an entry of the loop if it is the recorded one. Raises ReplayEnded."""
        record = self.recorded_run.record
        if not self.is_over and record is not None:
            has_same_entry, has_same_digest = entry == record.entry, digest == record.digest
            if has_same_entry and has_same_digest:
                self.made_count += not self._is_copying
                self._advance()
                return
            if self._is_copying:
                raise ReplayEnded("this is taken in another way", place="replay")
            self.is_tampered = has_same_entry or has_same_digest
            self.attempt = None if has_same_entry else self.attempt or entry
        self.is_over = True
        raise ReplayEnded("nothing more is recorded in this run", place="replay")

    def copy_next(self) -> None:
        """Copy the next entry as it is."""
        record = self.recorded_run.record
        assert record is not None
        assert record.entry is not None
        before = self.recorded_run.digest_before(record.entry)
        if record.entry.is_understood and entry_digest(record.entry, before) != record.digest:
            self.is_over = self.is_tampered = True
            self.attempt = None
            return
        if not self._append(record.entry):
            self._advance()
            self.conversation.refresh()

    def _append(self, entry: Entry) -> bool:
        """Append a copy of the next entry, if it follows the last one and is of a kind for that."""
        head = self.recorded_run.head
        if not isinstance(entry.payload, _APPENDABLE) or head is None or entry.parent != head.id:
            return False
        self._is_copying = True
        try:
            self.conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        except ReplayEnded:  # it has members that we do not know
            return False
        finally:
            self._is_copying = False
        return True

    def copy_given(self) -> None:
        """Copy the entries that no run makes: settings, labels, feedback, foreign entries."""
        while (
            not self.is_over
            and self.recorded_run.next is not None
            and not is_made_by_run(self.recorded_run.next)
        ):
            self.copy_next()

    def check_next(self, entry: Entry) -> None:
        """Prepare for the entry after one that was just recorded. Raises ReplayStopped."""
        self.copy_given()
        next_entry = self.recorded_run.next
        if next_entry is None:
            return
        if is_not_run(next_entry) and not is_not_run(entry) and not is_partial(entry, next_entry):
            raise ReplayStopped
        if is_stopped(next_entry) and isinstance(
            self.recorded_run.call_of(next_entry), InvalidToolCall
        ):
            self.stop()  # no gate and no runner sees an invalid call

    def end_as_killed(self) -> Never:
        """End the run as if the program had been killed. Raises ReplayEnded."""
        self.is_over = True
        raise ReplayEnded("the record goes on in another run", place="replay")

    def _advance(self) -> None:
        self.recorded_run.position += 1
        self.attempt = None


@final
class _ReplayJournal:
    """Holds the entries so far (`steno.ports.Journal`)."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state

    def extract_blobs(self, payload: Payload) -> Payload:
        # Blobs were extracted when it was recorded. This is the one place that sees a payload
        # before its digest is made.
        recorded = self._state.recorded_run.next
        return with_recorded_wording(payload, None if recorded is None else recorded.payload)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return payload

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._state.accept(entry, digest)

    def begin_branch(self, name: str, at: str | None) -> None:
        raise Missing("it has one branch", place="replay", code="branch_in_replay")

    def heads(self) -> Mapping[str, str | None]:
        head = self._state.recorded_run.head
        return {MAIN_BRANCH: None if head is None else head.id}

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self._state.recorded_run.walk_back(entry_id)


# -- the provider -------------------------------------------------------------------------------


@final
class RecordedProvider:
    """Returns the recorded responses (`steno.ports.Provider`)."""

    def __init__(self, state: ReplayState, model: str) -> None:
        """Take the recorded name of the model."""
        self._state = state
        self._model = model

    def stream(self, request: Request) -> RecordedStream:
        """Return the next response. Raises ProviderError if the next entry is none."""
        entry = self._state.recorded_run.next
        if (
            entry is None
            or not isinstance(entry.payload, AssistantMessage)
            or not is_made_by_run(entry)
        ):
            raise ProviderError(
                "there is no answer on record here", place="replay", code="no_recorded_response"
            )
        audit = entry.audit or {}
        if audit.get("model", "") != self._model:
            raise ProviderError(
                "another model answers here", place="replay", code="other_recorded_model"
            )
        return RecordedStream(self._state, entry, entry.payload, audit)


@final
class RecordedStream:
    """Streams a recorded response (`steno.ports.Stream`), and breaks off where it broke off."""

    def __init__(
        self, state: ReplayState, entry: Entry, message: AssistantMessage, audit: Mapping[str, Any]
    ) -> None:
        """Take the response and its audit."""
        self.envelope: Final = {
            "model": audit.get("response_model"),
            "id": audit.get("response_id"),
        }
        self._state = state
        self._entry = entry
        self._message = message
        self._events = _replay_events(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        for event in self._events:
            return event
        if not is_partial(self._entry, self._next_made_entry()):
            raise StopAsyncIteration
        if self._message.stop_reason is StopReason.ABORTED:
            await _wait_until_stopped(self._state)
        if self._is_retried():
            raise CutShort("the answer broke off here, and was asked for again", place="replay")
        raise ProviderError(
            "the answer broke off here", place="replay", code="recorded_response_broken"
        )

    def _next_made_entry(self) -> Entry | None:
        """Return the next entry of a run after the response."""
        return next(filter(is_made_by_run, self._state.recorded_run.remaining(skipping=1)), None)

    def _is_retried(self) -> bool:
        """Return whether the branch is rewound to before the response."""
        for entry in self._state.recorded_run.remaining(skipping=1):
            if isinstance(entry.payload, Rewind):
                return entry.parent == self._entry.parent
            if is_made_by_run(entry) and not is_not_run(entry):
                return False
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def collect(self) -> AssistantMessage:
        """Return the response."""
        return self._message

    def message(self) -> AssistantMessage:
        """Return the recorded response, however it ended."""
        return self._message

    def close(self) -> None:
        """Do nothing."""


def _replay_events(message: AssistantMessage) -> Iterator[Event]:
    return iter(Assembler().feed_all(events_from_message(message)))


async def _wait_until_stopped(state: ReplayState) -> Never:
    state.stop()
    while True:
        await asyncio.get_running_loop().create_future()


# -- the gate and the tools ------------------------------------------------------------------


@final
class RecordedGate:
    """Repeats the recorded decisions (`steno.agent.permissions.gate.PermissionGate`)."""

    def __init__(self, state: ReplayState) -> None:
        """Take the state of the replay."""
        self._state = state

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Offer all tools: the log has the refusal of a call of a tool that was not offered."""
        return True

    def denies(self, tool: Tool, subject: str) -> bool:
        """Deny nothing: no tool is run."""
        return False

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        """Deny it: the resolutions are in the log."""
        return GateDecision(False)

    async def decide(self, tool: Tool, call: ToolCall, recorder: RunRecorder) -> GateDecision:
        """Record the decisions about a call again. Raises ReplayEnded if there are none."""
        recorded_run = self._state.recorded_run
        while (
            entry := recorded_run.next_about(call.id)
        ) is not None and entry is recorded_run.next:
            approval = entry.payload
            if not isinstance(approval, Approval):
                break
            recorder.record_decision(
                call.id,
                approval.status,
                actor=approval.actor,
                rule=approval.rule,
                reason=approval.reason,
                audit=entry.audit,
            )
            if approval.status is not ApprovalStatus.PENDING:
                return self._build_decision(call, approval)
        if entry is None or isinstance(entry.payload, Approval) or not is_made_by_run(entry):
            self._state.end_as_killed()
        return GateDecision(True)  # it was refused: its result needed no decision

    def _build_decision(self, call: ToolCall, approval: Approval) -> GateDecision:
        entry = self._state.recorded_run.result_of(call.id)
        result = None if entry is None else entry.payload
        if isinstance(result, ToolResultMessage) and approval.status is ApprovalStatus.DENIED:
            code = _denial_code(result)
            return GateDecision(result.outcome is not Outcome.DENIED, result.text, code=code)
        return GateDecision(approval.status is ApprovalStatus.APPROVED)


def _denial_code(result: ToolResultMessage) -> ResultCode:
    code = result_code(result)
    return ResultCode(code) if code in list(ResultCode) else ResultCode.DENIED


@final
class RecordedRunner:
    """Returns the recorded results (`steno.agent.tool_runner.ToolRunner`)."""

    def __init__(self, state: ReplayState) -> None:
        """Take the state of the replay."""
        self._state = state

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolResultMessage:
        """Return the result of a call; where it was stopped, as soon as it is stopped again."""
        entry = self._state.recorded_run.next_about(call.id)
        result = None if entry is None else entry.payload
        if entry is not None and isinstance(result, ToolResultMessage):
            if _is_complete(entry):
                return result
            if is_stopped(entry):
                with suppress(asyncio.CancelledError):
                    await _wait_until_stopped(self._state)
                return result
        self._state.is_over = True  # the program was killed before there was a result
        return await _wait_until_stopped(self._state)


def _is_complete(entry: Entry) -> bool:
    return is_made_by_run(entry) and not (
        is_stopped(entry) or is_outcome_unknown(entry) or is_not_run(entry)
    )


@final
class RecordedTool:
    """Stands for a tool that was called; it is never run (`steno.ports.Tool`)."""

    headline = staticmethod(default_headline)

    def __init__(self, state: ReplayState, name: str) -> None:
        """Take the name; the definition of the tool is not in the log."""
        self._state = state
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self.definition: Final = ToolDefinition(
            name=name,
            description="A tool of the record.",
            parameters={"type": "object", "additionalProperties": True},
            strict=False,
        )

    @property
    def capability(self) -> Capability:
        """READ if calls of the tool ran together with others in this turn, else EXECUTE."""
        is_reader = self.definition.name in self._state.recorded_run.read_only_tools()
        return Capability.READ if is_reader else Capability.EXECUTE

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return nothing: no rule is applied."""
        return ()

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return nothing: no approver is asked."""
        return CallPreview()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Refuse: results are in the log."""
        raise AssertionError("a replay runs nothing")
