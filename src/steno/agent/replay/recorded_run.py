"""A recorded run, and doubles that feed it to the loop: a journal, a provider, a gate, tools.

`RecordedRun` holds the entries that led to the end of a branch, in the order they were written,
with those that a rewind left in the log. It knows the next entry, and everything that the log has
later about a call: which calls ran together, which were stopped, and where the program was killed.
Results that the agent wrote itself are recognised by their codes. Older versions recorded no codes,
so their sentences are listed here.

The doubles feed the loop everything that came from outside, as recorded. Every entry that the loop
makes is compared with the log before the loop continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Final, Never, Self, cast, final

from msgspec.structs import replace

from steno.agent.dispatch import CallContext
from steno.agent.permissions.gate import GateDecision
from steno.agent.permissions.grants import is_deferred
from steno.agent.recorder import RunRecorder
from steno.agent.results import ResultCode
from steno.assemble import Assembler, events_from_message
from steno.errors import CutShort, Damaged, LogError, Missing, ProviderError
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.log.queries import is_agent_result, result_code
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Text
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Failure, Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.ports import CallPreview, Capability, Tool, ToolContext, ToolOutput, default_headline
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
    Repair,
    Resolution,
    Rewind,
)
from steno.records.stored_record import MAIN_BRANCH, Record

_RUN_AUDIT_KEYS: Final = {
    UserMessage: frozenset({"actor", "origin"}),
    AssistantMessage: frozenset({"model", "response_model", "response_id"}),
}
"""The audit that a run records with a message."""
_SENTENCES_WITHOUT_CODE: Final = {
    "The call was not run: the turn was stopped before.": ResultCode.CALL_NOT_RUN,
    "The call was stopped while it ran. It may have taken effect in part.": ResultCode.CALL_STOPPED,
    "The program ended while this call ran. It may have taken effect, in part or as a whole; "
    "look before you repeat it.": ResultCode.OUTCOME_UNKNOWN,
    "A result of this turn was taken out of the record; it is not there any more.": (
        ResultCode.RESULT_REDACTED
    ),
}
"""The results of cancelled calls in sessions from before there were codes. Never change these."""
_END_ID: Final = "end"
_APPENDABLE: Final = (ModeChange, ModelChange, Label, Compaction, Resolution, Feedback, Approval)
"""Payloads that are often recorded between runs. All others are read back, which takes longer."""
_PARTIAL_STOP_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR)


# -- kinds of entries ------------------------------------------------------------------------


def is_made_by_run(entry: Entry) -> bool:
    """Return whether a run records entries like this one; others are recorded between runs."""
    payload, audit = entry.payload, entry.audit
    if entry.unknown or getattr(payload, "unknown", None):
        return False
    match payload:
        case UserMessage() | AssistantMessage():
            return entry.decision is None and _RUN_AUDIT_KEYS[type(payload)] >= set(audit or ())
        case ToolResultMessage():
            return audit is None and (entry.decision is not None or is_not_run(entry))
        case Approval():
            return entry.decision == payload.status and not is_deferred(entry)
        case Repair() | Rewind():
            return entry.decision is None and audit is None
        case _:
            return False


def is_not_run(entry: Entry) -> bool:
    """Return whether an entry answers a call that was not run, because the turn was stopped."""
    return entry.decision is None and _cancel_code(entry) == ResultCode.CALL_NOT_RUN


def is_stopped(entry: Entry) -> bool:
    """Return whether an entry answers a call that was stopped while it ran."""
    return entry.decision is not None and _cancel_code(entry) == ResultCode.CALL_STOPPED


def is_outcome_unknown(entry: Entry) -> bool:
    """Return whether an entry answers a call that may have run before a crash."""
    return entry.decision is not None and _cancel_code(entry) == ResultCode.OUTCOME_UNKNOWN


def is_partial(entry: Entry, following: Entry | None) -> bool:
    """Return whether a response was cut off, so that its calls were not run."""
    message = entry.payload
    if (
        not isinstance(message, AssistantMessage)
        or message.stop_reason not in _PARTIAL_STOP_REASONS
    ):
        return False
    return not message.tool_calls or following is None or is_not_run(following)


def _cancel_code(entry: Entry) -> str | None:
    """Return the code of a result that the agent wrote for a cancelled call."""
    result = entry.payload
    if not isinstance(result, ToolResultMessage) or result.outcome is not Outcome.CANCELLED:
        return None
    return result_code(result) or _code_of_sentence(result)


def _code_of_sentence(result: ToolResultMessage) -> str | None:
    first = result.content[0] if result.content else None  # the output of the tool may follow
    if not isinstance(first, Text) or not is_agent_result(result):
        return None
    return _SENTENCES_WITHOUT_CODE.get(first.text)


def with_recorded_wording(payload: Payload, recorded: Payload | None) -> Payload:
    """Return a payload of the agent with the recorded text, if both mean the same.

    The texts of the agent's own results and repairs may differ from those of the version that
    recorded the session, and older versions recorded no code. Everything else is compared.
    """
    match payload, recorded:
        case ToolResultMessage(), ToolResultMessage() if _states_the_same(payload, recorded):
            content = (*recorded.content[:1], *payload.content[1:])
            return replace(
                payload, content=content, details=recorded.details, failure=recorded.failure
            )
        case Repair(), Repair() if (payload.code, payload.target) == (
            recorded.code,
            recorded.target,
        ):
            return replace(payload, explanation=recorded.explanation)
        case _:
            return payload


def _states_the_same(replayed: ToolResultMessage, recorded: ToolResultMessage) -> bool:
    """Return whether two results of the agent answer the same call for the same reason."""
    code = result_code(replayed)
    if code is None or not _repeats_its_text(recorded):
        return False
    if (replayed.tool_call_id, replayed.outcome) != (recorded.tool_call_id, recorded.outcome):
        return False
    if recorded.outcome is Outcome.CANCELLED:
        return code == (result_code(recorded) or _code_of_sentence(recorded))
    # Without a code, the log states only the call and the outcome.
    return result_code(recorded) in (code, None)


def _repeats_its_text(result: ToolResultMessage) -> bool:
    """Return whether a result has the form of one that the agent wrote, in any version."""
    first = result.content[0] if result.content else None
    failure = Failure(message=first.text) if isinstance(first, Text) else None
    return is_agent_result(result) and failure is not None and result.failure == failure


def _call_id_of(entry: Entry) -> str | None:
    """Return the id of the call that an entry of a run decides about or answers."""
    payload = entry.payload
    if isinstance(payload, ToolResultMessage):
        return payload.tool_call_id
    if isinstance(payload, Approval) and not is_deferred(entry):
        return payload.call_id
    return None


# -- the run --------------------------------------------------------------------------------


@final
class RecordedRun:
    """The entries that led to the end of a branch, and the position of the replay."""

    def __init__(self, records: Iterable[Record], branch: str | None = None) -> None:
        """Take all records of a session and the name of a branch (default: the last written).

        Raises Missing if there is no such branch, Damaged if its beginning is missing.
        """
        written = tuple(records)
        self.records: Final = _find_branch_records(written, branch)
        self.position = 0
        self._all = {record.entry.id: record for record in written if record.entry is not None}

    @property
    def record(self) -> Record | None:
        """The next record; None at the end."""
        return self.records[self.position] if self.position < len(self.records) else None

    @property
    def next(self) -> Entry | None:
        """The next entry; None at the end."""
        record = self.record
        return None if record is None else record.entry

    @property
    def head(self) -> Entry | None:
        """The last entry that was replayed."""
        return self.records[self.position - 1].entry if self.position else None

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that were called, in order."""
        turns = [record.entry.payload for record in self.records if record.entry is not None]
        calls = [
            call for turn in turns if isinstance(turn, AssistantMessage) for call in turn.tool_calls
        ]
        return tuple(dict.fromkeys([call.name for call in calls]))

    def walk_back(self, entry_id: str | None) -> Iterator[tuple[Entry, str]]:
        """Yield an entry with its digest, then its parents up to the first. Raises Missing."""
        while entry_id is not None:
            record = self._all.get(entry_id)
            if record is None or record.entry is None or record.digest is None:
                raise Missing(
                    "the parent of an entry is missing", place="replay", code="parent_missing"
                )
            yield record.entry, record.digest
            entry_id = record.entry.parent

    def digest_before(self, entry: Entry) -> str | None:
        """Return the digest of the parent of an entry. Raises Missing."""
        return next((digest for _, digest in self.walk_back(entry.parent)), None)

    def remaining(self, skipping: int = 0) -> Iterator[Entry]:
        """Yield the entries from the next one on, without the first `skipping` ones."""
        for number in range(self.position + skipping, len(self.records)):
            entry = self.records[number].entry
            assert entry is not None
            yield entry

    def remaining_in_turn(self) -> Iterator[Entry]:
        """Yield the entries up to the next turn, or up to a rewind."""
        for entry in self.remaining():
            if isinstance(entry.message or entry.payload, (AssistantMessage, UserMessage, Rewind)):
                return
            yield entry

    def next_about(self, call_id: str) -> Entry | None:
        """Return the next entry about a call of this turn; None if there is none."""
        return next(
            (entry for entry in self.remaining_in_turn() if _call_id_of(entry) == call_id), None
        )

    def result_of(self, call_id: str) -> Entry | None:
        """Return the result of a call of this turn; None if none follows."""
        for entry in self.remaining_in_turn():
            if isinstance(entry.payload, ToolResultMessage) and _call_id_of(entry) == call_id:
                return entry
        return None

    def call_of(self, entry: Entry) -> AnyToolCall | None:
        """Return the call of this turn that an entry is about."""
        calls, _ = self._current_turn()
        return next((call for call in calls if call.id == _call_id_of(entry)), None)

    def read_only_tools(self) -> frozenset[str]:
        """Return the names of the tools that only read, as far as the log of this turn shows.

        Their calls are decided about together, run together, and run again after a crash.
        """
        calls, entries = self._current_turn()
        histories = [_CallHistory(entries, call.id) for call in calls]
        readers: set[str] = set()
        for last, history in enumerate(histories):
            first = next((n for n in range(last) if histories[n].ran_with(history)), last)
            is_reader = first < last or history.was_run_again
            readers.update([call.name for call in calls[first : last + 1] if is_reader])
        return frozenset(readers)

    def _current_turn(self) -> tuple[tuple[AnyToolCall, ...], list[Entry]]:
        """Return the calls of the last turn and all entries after it, replayed or not."""
        replayed: list[Entry] = []
        for entry, _ in self.walk_back(None if self.head is None else self.head.id):
            if isinstance(entry.payload, AssistantMessage):
                return entry.payload.tool_calls, [*reversed(replayed), *self.remaining_in_turn()]
            replayed.append(entry)
        return (), []


@final
class _CallHistory:
    """The decisions and the result of one call of a turn, by position."""

    def __init__(self, entries: Sequence[Entry], call_id: str) -> None:
        own_entries = [
            (n, entry) for n, entry in enumerate(entries) if _call_id_of(entry) == call_id
        ]
        decisions = [
            (n, entry.payload) for n, entry in own_entries if isinstance(entry.payload, Approval)
        ]
        results = [(n, e) for n, e in own_entries if isinstance(e.payload, ToolResultMessage)]
        self._first_decided = decisions[0][0] if decisions else inf
        self._last_decided = decisions[-1][0] if decisions else -1
        self._ended: float = results[0][0] if results else inf
        self._result = results[0][1] if results else None
        self.was_run_again = ApprovalStatus.APPROVED in [
            approval.status for _, approval in decisions[:-1]
        ]
        """Whether another decision follows an approval; only a call that reads is run again."""

    def ran_with(self, later: _CallHistory) -> bool:
        """Return whether a later call began before this one had its result."""
        if later._first_decided < self._ended:
            return True
        # A stop ends all calls that run together; those that did not begin are recorded as not run.
        result = later._result
        is_answered = result is not None and not is_not_run(result)
        was_stopped = self._result is not None and is_stopped(self._result)
        return was_stopped and is_answered and later._last_decided < self._ended


# -- records of a branch ---------------------------------------------------------------------------


def _find_branch_records(written: Sequence[Record], branch: str | None) -> tuple[Record, ...]:
    """Return the records of a branch, after those of the branches that it began in."""
    fork_points: dict[str, str | None] = {MAIN_BRANCH: None}
    records_by_id: dict[str, Record] = {}
    for record in written:
        if record.entry is None:
            fork_points.setdefault(record.branch, record.at)
        else:
            records_by_id[record.entry.id] = record
    name = (
        next(reversed(records_by_id.values())).branch
        if branch is None and records_by_id
        else branch or MAIN_BRANCH
    )
    if name not in fork_points:
        raise Missing("no branch with this name", place="branch", code="branch_missing")
    last_seq: dict[str, float] = {name: inf}
    while (at := fork_points[name]) is not None:
        origin = records_by_id.get(at)
        if origin is None or origin.branch in last_seq or origin.branch not in fork_points:
            raise Damaged(
                "the entry that the branch starts after is missing",
                place="branch",
                code="fork_point_missing",
            )
        name = origin.branch
        last_seq[name] = origin.seq
    return tuple(
        [
            record
            for record in written
            if record.entry and record.seq <= last_seq.get(record.branch, 0)
        ]
    )


# -- state -----------------------------------------------------------------------------------------


class ReplayEnded(LogError):
    """The run ends here: the program was killed, or the loop made a different entry."""

    code = "replay_ended"


class ReplayStopped(Exception):
    """The recorded run was stopped here."""


@final
class ReplayState:
    """A recorded run, and how many of its entries the loop has reproduced."""

    def __init__(self, recorded_run: RecordedRun) -> None:
        self.recorded_run: Final = recorded_run
        self.made_count: int = 0
        """The number of entries that the loop has reproduced."""
        self.attempt: Entry | None = None
        """The entry that the loop made where the log has a different one."""
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
            # The time is None if the log has none; the type of a clock excludes that.
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
                raise ReplayEnded("the copy differs from the recorded entry", place="replay")
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
        """Append a copy of the next entry, if it follows the last one and can be appended."""
        head = self.recorded_run.head
        if not isinstance(entry.payload, _APPENDABLE) or head is None or entry.parent != head.id:
            return False
        self._is_copying = True
        try:
            self.conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        except ReplayEnded:  # the entry has members that this version does not know
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
        raise ReplayEnded("the record continues in another run", place="replay")

    def _advance(self) -> None:
        self.recorded_run.position += 1
        self.attempt = None


@final
class _ReplayJournal:
    """Holds the entries so far (`steno.ports.Journal`)."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state

    def extract_blobs(self, payload: Payload) -> Payload:
        # Blobs were extracted when the payload was recorded. Only here can the wording of a
        # payload be changed before its digest is computed.
        recorded = self._state.recorded_run.next
        return with_recorded_wording(payload, None if recorded is None else recorded.payload)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return payload

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._state.accept(entry, digest)

    def begin_branch(self, name: str, at: str | None) -> None:
        raise Missing("a replay has only one branch", place="replay", code="branch_in_replay")

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
        self._state = state
        self._model = model

    def stream(self, request: Request) -> RecordedStream:
        """Return the next response. Raises ProviderError if the next entry is not a response."""
        entry = self._state.recorded_run.next
        message = None if entry is None or not is_made_by_run(entry) else entry.payload
        if entry is None or not isinstance(message, AssistantMessage):
            raise ProviderError(
                "no response is recorded here", place="replay", code="no_recorded_response"
            )
        if (entry.audit or {}).get("model", "") != self._model:
            raise ProviderError(
                "the recorded response is from another model",
                place="replay",
                code="other_recorded_model",
            )
        return RecordedStream(self._state, entry, message)


@final
class RecordedStream:
    """Streams a recorded response (`steno.ports.Stream`), and fails where the recorded one did."""

    def __init__(self, state: ReplayState, entry: Entry, message: AssistantMessage) -> None:
        audit = entry.audit or {}
        self.envelope: Final = {
            "model": audit.get("response_model"),
            "id": audit.get("response_id"),
        }
        self._state = state
        self._entry = entry
        self._message = message
        self._events = iter(Assembler().feed_all(events_from_message(message)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        for event in self._events:
            return event
        following = self._state.recorded_run.remaining(skipping=1)
        if not is_partial(self._entry, next(filter(is_made_by_run, following), None)):
            raise StopAsyncIteration
        if self._message.stop_reason is StopReason.ABORTED:
            await _wait_until_stopped(self._state)
        if self._is_retried():
            raise CutShort("the recorded response is incomplete and was retried", place="replay")
        raise ProviderError(
            "the recorded response is incomplete", place="replay", code="recorded_response_broken"
        )

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


async def _wait_until_stopped(state: ReplayState) -> Never:
    state.stop()
    while True:
        await asyncio.get_running_loop().create_future()


# -- the gate and the tools ------------------------------------------------------------------


@final
class RecordedCalls:
    """Repeats the recorded decisions and results: a `PermissionGate` and a `ToolRunner`."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state

    def offers(self, tool: Tool, mode: Mode) -> bool:
        """Offer all tools: for a tool that was not offered, the log has the denial of its call."""
        return True

    def denies(self, tool: Tool, subject: str) -> bool:
        """Deny nothing: no tool is run."""
        return False

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        """Deny the reference: the resolutions are in the log."""
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
        return GateDecision(True)  # the call was invalid: its result needed no decision

    def _build_decision(self, call: ToolCall, approval: Approval) -> GateDecision:
        entry = self._state.recorded_run.result_of(call.id)
        result = None if entry is None else entry.payload
        if isinstance(result, ToolResultMessage) and approval.status is ApprovalStatus.DENIED:
            recorded = result_code(result)
            code = ResultCode(recorded) if recorded in list(ResultCode) else ResultCode.DENIED
            return GateDecision(result.outcome is not Outcome.DENIED, result.text, code=code)
        return GateDecision(approval.status is ApprovalStatus.APPROVED)

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolResultMessage:
        """Return the result of a call; for a stopped call, once the replay stops it, too."""
        entry = self._state.recorded_run.next_about(call.id)
        result = None if entry is None else entry.payload
        if entry is not None and isinstance(result, ToolResultMessage):
            if is_stopped(entry):
                with suppress(asyncio.CancelledError):
                    await _wait_until_stopped(self._state)
                return result
            if is_made_by_run(entry) and not is_outcome_unknown(entry) and not is_not_run(entry):
                return result
        self._state.is_over = True  # the program was killed before there was a result
        return await _wait_until_stopped(self._state)


@final
class RecordedTool:
    """A tool that was called in the recorded run; it is never run (`steno.ports.Tool`)."""

    headline = staticmethod(default_headline)

    def __init__(self, state: ReplayState, name: str) -> None:
        """Take the name; the definition of the tool is not in the log."""
        self._state = state
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self.definition: Final = ToolDefinition(
            name=name,
            description="A tool of the recorded session.",
            parameters={"type": "object", "additionalProperties": True},
            strict=False,
        )

    @property
    def capability(self) -> Capability:
        """READ if calls of the tool ran together with others in this turn, else EXECUTE."""
        is_reader = self.definition.name in self._state.recorded_run.read_only_tools()
        return Capability.READ if is_reader else Capability.EXECUTE

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return no subjects: no rule is applied."""
        return ()

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return an empty preview: no approver is asked."""
        return CallPreview()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Raise AssertionError: results are in the log."""
        raise AssertionError("a replay runs no tools")
