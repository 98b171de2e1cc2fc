"""Those who play a record to the loop: a model, a gate, tools and a journal that only repeat.

Everything that comes from outside is given as it is on record; everything that the loop makes of
it is compared with what is on record before the loop goes on.
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
)
from steno.agent.runner import CallContext
from steno.assemble import Assembler, events_from_message
from steno.errors import CutShort, LogError, Missing, ProviderError
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.ports import Capability, Tool, ToolContext, ToolOutput
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
"""What is most often recorded beside a run. The rest is read back as it is, which takes longer."""


class ReplayEnded(LogError):
    """Nothing more is recorded in this run: the program was killed, or something else came out."""


class ReplayStopped(Exception):
    """The run is stopped here."""


# -- what the players share ------------------------------------------------------------------


@final
class ReplayState:
    """A tape that is played, and how far what came out is the same."""

    def __init__(self, tape: RecordedRun) -> None:
        """Begin before the first entry."""
        self.recorded_run: Final = tape
        self.made_count = 0
        """How many entries a run has made again."""
        self.attempt: Entry | None = None
        """What a run made first where the record says something else."""
        self.is_tampered = False
        """Whether the next entry is not the one that its digest was made of."""
        self.is_over = False
        self._is_copying = False
        """Whether what is recorded now was made by nobody: it is taken as it is."""
        self.stop: Callable[[], object] = lambda: None
        """Stop the run that is under way, as a person or a limit does."""
        self.conversation: Final = Conversation(
            id="replay",
            journal=_ReplayJournal(self),
            new_id=lambda: _END_ID if tape.next is None else tape.next.id,
            # It is None where the record has no time, which no clock would say.
            now=lambda: cast("datetime", None if tape.next is None else tape.next.time),
        )

    def accept(self, entry: Entry, digest: str) -> None:
        """Go on behind an entry that a run has made, if it is the one on record. Raises Over."""
        record = self.recorded_run.record
        if not self.is_over and record is not None:
            is_entry, is_digest = entry == record.entry, digest == record.digest
            if is_entry and is_digest:
                self.made_count += not self._is_copying
                self._advance()
                return
            if self._is_copying:
                raise ReplayEnded("replay: this is taken in another way")
            self.is_tampered = is_entry or is_digest
            self.attempt = None if is_entry else self.attempt or entry
        self.is_over = True
        raise ReplayEnded("replay: nothing more is recorded in this run")

    def copy_next(self) -> None:
        """Go on behind the next entry, as it is."""
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
        """Append what goes on from the last entry, if it is of a kind that can be appended."""
        head = self.recorded_run.head
        if not isinstance(entry.payload, _APPENDABLE) or head is None or entry.parent != head.id:
            return False
        self._is_copying = True
        try:
            self.conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        except ReplayEnded:  # it holds something that we do not understand
            return False
        finally:
            self._is_copying = False
        return True

    def copy_given(self) -> None:
        """Go on behind what no run makes: settings, names, remarks, what others recorded."""
        while (
            not self.is_over
            and self.recorded_run.next is not None
            and not is_made_by_run(self.recorded_run.next)
        ):
            self.copy_next()

    def check_next(self, entry: Entry) -> None:
        """See what comes behind an entry that was just recorded. Raises Stopped."""
        self.copy_given()
        coming = self.recorded_run.next
        if coming is None:
            return
        if is_not_run(coming) and not is_not_run(entry) and not is_partial(entry, coming):
            raise ReplayStopped
        if is_stopped(coming) and isinstance(self.recorded_run.call_of(coming), InvalidToolCall):
            self.stop()  # nobody else is asked about it

    def end_as_killed(self) -> Never:
        """End the run as if the program had been killed. Raises Over."""
        self.is_over = True
        raise ReplayEnded("replay: the record goes on in another run")

    def _advance(self) -> None:
        self.recorded_run.position += 1
        self.attempt = None


@final
class _ReplayJournal:
    """Holds what was played so far (`steno.ports.Journal`)."""

    def __init__(self, play: ReplayState) -> None:
        self._state = play

    def extract_blobs(self, payload: Payload) -> Payload:
        return payload  # what was large lies elsewhere already

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return payload

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._state.accept(entry, digest)

    def begin_branch(self, name: str, at: str | None) -> None:
        raise Missing("replay: it has one branch")

    def heads(self) -> Mapping[str, str | None]:
        head = self._state.recorded_run.head
        return {MAIN_BRANCH: None if head is None else head.id}

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self._state.recorded_run.walk_back(entry_id)


# -- the model -------------------------------------------------------------------------------


@final
class RecordedProvider:
    """Answers with what is on record (`steno.ports.Provider`)."""

    def __init__(self, play: ReplayState, model: str) -> None:
        """Take what the record calls the model."""
        self._state = play
        self._model = model

    def stream(self, request: Request) -> RecordedStream:
        """Return the next answer. Raises ProviderError if something else is on record."""
        entry = self._state.recorded_run.next
        if (
            entry is None
            or not isinstance(entry.payload, AssistantMessage)
            or not is_made_by_run(entry)
        ):
            raise ProviderError("replay: there is no answer on record here")
        audit = entry.audit or {}
        if audit.get("model", "") != self._model:
            raise ProviderError("replay: another model answers here")
        return RecordedStream(self._state, entry, entry.payload, audit)


@final
class RecordedStream:
    """Tells an answer once more (`steno.ports.Stream`), and breaks off where it broke off."""

    def __init__(
        self, play: ReplayState, entry: Entry, message: AssistantMessage, audit: Mapping[str, Any]
    ) -> None:
        """Take the answer, and what is on record about it."""
        self.envelope: Final = {
            "model": audit.get("response_model"),
            "id": audit.get("response_id"),
        }
        self._state = play
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
            raise CutShort("replay: the answer broke off here, and was asked for again")
        raise ProviderError("replay: the answer broke off here")

    def _next_made_entry(self) -> Entry | None:
        """Return what a run has recorded behind the answer."""
        return next(filter(is_made_by_run, self._state.recorded_run.remaining(skipping=1)), None)

    def _is_retried(self) -> bool:
        """Tell whether the branch goes back to before the answer."""
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
        """Return the answer."""
        return self._message

    def message(self) -> AssistantMessage:
        """Return the answer as it is on record, however it ended."""
        return self._message

    def close(self) -> None:
        """Let go of nothing."""


def _replay_events(message: AssistantMessage) -> Iterator[Event]:
    return iter(Assembler().feed_all(events_from_message(message)))


async def _wait_until_stopped(play: ReplayState) -> Never:
    play.stop()
    while True:
        await asyncio.get_running_loop().create_future()


# -- the gate and the tools ------------------------------------------------------------------


@final
class RecordedGate:
    """Decides what is on record (`steno.agent.permissions.gate.PermissionGate`)."""

    def __init__(self, play: ReplayState) -> None:
        """Take the tape."""
        self._state = play

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Offer all of them: what is called for was offered, or is refused on record."""
        return True

    def denies(self, tool: Tool, subject: str) -> bool:
        """Deny nothing: no tool is run that could come across something."""
        return False

    async def admit(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
        """Open nothing: what messages point at is on record."""
        return GateDecision(False)

    async def decide(self, tool: Tool, call: ToolCall, notebook: RunRecorder) -> GateDecision:
        """Record what was decided about a call, once more. Raises Over if nothing was."""
        tape = self._state.recorded_run
        while (about := tape.next_about(call.id)) is not None and about is tape.next:
            approval = about.payload
            if not isinstance(approval, Approval):
                break
            notebook.record_decision(
                call.id,
                approval.status,
                actor=approval.actor,
                rule=approval.rule,
                reason=approval.reason,
                audit=about.audit,
            )
            if approval.status is not ApprovalStatus.PENDING:
                return self._build_decision(call, approval)
        if about is None or isinstance(about.payload, Approval) or not is_made_by_run(about):
            self._state.end_as_killed()
        return GateDecision(True)  # it has a result that needed no decision: it was refused

    def _build_decision(self, call: ToolCall, approval: Approval) -> GateDecision:
        entry = self._state.recorded_run.result_of(call.id)
        result = None if entry is None else entry.payload
        if isinstance(result, ToolResultMessage) and approval.status is ApprovalStatus.DENIED:
            return GateDecision(result.outcome is not Outcome.DENIED, result.text or "")
        return GateDecision(approval.status is ApprovalStatus.APPROVED)


@final
class RecordedRunner:
    """Returns the results that are on record (`steno.agent.runner.ToolRunner`)."""

    def __init__(self, play: ReplayState) -> None:
        """Take the tape."""
        self._state = play

    async def run(self, tool: Tool, call: ToolCall, around: CallContext) -> ToolResultMessage:
        """Return what came of a call; where it was stopped, as soon as it is stopped again."""
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
    """Stands for a tool that is called for on record; it is never run (`steno.ports.Tool`)."""

    def __init__(self, play: ReplayState, name: str) -> None:
        """Take the name; whatever was said about the tool is not on record."""
        self._state = play
        self.ruled_as: Final[tuple[str, ...]] = ()
        self.definition: Final = ToolDefinition(
            name=name,
            description="A tool of the record.",
            parameters={"type": "object", "additionalProperties": True},
            strict=False,
        )

    @property
    def capability(self) -> Capability:
        """What this turn shows of it: whether its calls run together with others."""
        reads = self.definition.name in self._state.recorded_run.read_only_tools()
        return Capability.READ if reads else Capability.EXECUTE

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return nothing: nobody rules about it."""
        return ()

    async def preview(self, call: ToolCall) -> str:
        """Show nothing: nobody is asked."""
        return ""

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        """Refuse: results are on record."""
        raise AssertionError("a replay runs nothing")
