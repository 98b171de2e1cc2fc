"""A recorded run, and doubles that feed it to the loop: a journal, a provider, a gate, tools.

`RecordedRun` holds the entries that led to the end of a branch, in the order in which they were
written, including entries that were rewound. It returns the next entry, and finds later entries
about a call. From these, a replay infers which calls ran together, which were stopped, and where
the program was killed. Results that the agent wrote itself are recognised by their codes. Older
versions recorded no codes, so their sentences are listed here.

The doubles feed the loop all recorded input from outside. Every entry that the loop creates is
compared with the log before the loop continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Final, Never, Self, cast, final

from msgspec.structs import replace

from steno.agent.dispatch import CallContext, ToolRun
from steno.agent.permissions.gate import GateDecision
from steno.agent.permissions.grants import decided_access, is_deferred
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
from steno.ports import (
    CallPreview,
    Capability,
    SandboxAccess,
    Tool,
    ToolContext,
    ToolOutput,
    default_headline,
)
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Clear,
    Compaction,
    Entry,
    Feedback,
    ImageAnalysis,
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
"""The names of the audit members that a run records with a message."""
_SENTENCES_WITHOUT_CODE: Final = {
    "The call was not run: the turn was stopped before.": ResultCode.CALL_NOT_RUN,
    "The call was stopped while it ran. It may have taken effect in part.": ResultCode.CALL_STOPPED,
    "The program ended while this call ran. It may have taken effect, in part or as a whole; "
    "look before you repeat it.": ResultCode.OUTCOME_UNKNOWN,
    "A result of this turn was taken out of the record; it is not there any more.": (
        ResultCode.RESULT_REDACTED
    ),
}
"""The results of cancelled calls in sessions of older versions. Never change these texts."""
_END_ID: Final = "end"
_APPENDABLE: Final = (
    *(ModeChange, ModelChange, Label, Compaction, Clear),
    *(Resolution, ImageAnalysis, Feedback, Approval),
)
"""The payloads that are copied by an append. To copy others, the conversation is reloaded."""
_PARTIAL_STOP_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR)


# -- kinds of entries ------------------------------------------------------------------------


def is_made_by_run(entry: Entry) -> bool:
    """Return whether a run may have recorded an entry, rather than the user between two runs."""
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
    """Return whether an entry is the result of a call that was not run because its turn stopped."""
    return entry.decision is None and _cancel_code(entry) == ResultCode.CALL_NOT_RUN


def is_stopped(entry: Entry) -> bool:
    """Return whether an entry is the result of a call that was stopped while it ran."""
    return entry.decision is not None and _cancel_code(entry) == ResultCode.CALL_STOPPED


def is_outcome_unknown(entry: Entry) -> bool:
    """Return whether an entry is the result of a call that may have run before a crash."""
    return entry.decision is not None and _cancel_code(entry) == ResultCode.OUTCOME_UNKNOWN


def is_partial(entry: Entry, following: Entry | None) -> bool:
    """Return whether the entry is a response that was cut off, so that its calls were not run.

    `following` is the next entry that a run recorded; None if there is none.
    """
    message = entry.payload
    if (
        not isinstance(message, AssistantMessage)
        or message.stop_reason not in _PARTIAL_STOP_REASONS
    ):
        return False
    return not message.tool_calls or following is None or is_not_run(following)


def _cancel_code(entry: Entry) -> str | None:
    """Return the code of the agent's result for a cancelled call; None for any other entry."""
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
    """Return a payload with the recorded text, if both payloads have the same code and target.

    The agent's own results and repairs may be worded differently, or have no code, in a session of
    another version. All other payloads are returned unchanged.
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
    """Return whether two results of the agent have the same call, outcome and code."""
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
    """Return whether the agent wrote a result, with a failure that repeats the text of the result.

    Every version of the agent writes its results in this form.
    """
    first = result.content[0] if result.content else None
    failure = Failure(message=first.text) if isinstance(first, Text) else None
    return is_agent_result(result) and failure is not None and result.failure == failure


def _call_id_of(entry: Entry) -> str | None:
    """Return the call id of a decision or a result that a run recorded; None for other entries."""
    payload = entry.payload
    if isinstance(payload, ToolResultMessage):
        return payload.tool_call_id
    if isinstance(payload, Approval) and not is_deferred(entry):
        return payload.call_id
    return None


# -- the run --------------------------------------------------------------------------------


@final
class RecordedRun:
    """The recorded entries of a branch from its beginning, and the position of the replay."""

    def __init__(self, records: Iterable[Record], branch: str | None = None) -> None:
        """Select a branch from all records of a session, by default the branch written to last.

        Raises Missing if there is no such branch, Damaged if its beginning is missing.
        """
        written = tuple(records)
        self.records: Final = _find_branch_records(written, branch)
        self.position = 0
        self._all = {record.entry.id: record for record in written if record.entry is not None}

    @property
    def record(self) -> Record | None:
        """The next record to replay; None at the end of the recorded run."""
        return self.records[self.position] if self.position < len(self.records) else None

    @property
    def next(self) -> Entry | None:
        """The next entry to replay; None at the end of the recorded run."""
        record = self.record
        return None if record is None else record.entry

    @property
    def head(self) -> Entry | None:
        """The last entry that was replayed; None at the beginning."""
        return self.records[self.position - 1].entry if self.position else None

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that were called, in the order of their first calls."""
        turns = [record.entry.payload for record in self.records if record.entry is not None]
        calls = [
            call for turn in turns if isinstance(turn, AssistantMessage) for call in turn.tool_calls
        ]
        return tuple(dict.fromkeys([call.name for call in calls]))

    def walk_back(self, entry_id: str | None) -> Iterator[tuple[Entry, str]]:
        """Yield an entry and its ancestors, each with its digest, from the last to the first.

        Raises Missing if one of these entries is missing.
        """
        while entry_id is not None:
            record = self._all.get(entry_id)
            if record is None or record.entry is None or record.digest is None:
                raise Missing(
                    "the parent of an entry is missing", place="replay", code="parent_missing"
                )
            yield record.entry, record.digest
            entry_id = record.entry.parent

    def digest_before(self, entry: Entry) -> str | None:
        """Return the digest of the parent of an entry; None for the first entry.

        Raises Missing if the parent is not among the records.
        """
        return next((digest for _, digest in self.walk_back(entry.parent)), None)

    def remaining(self, skipping: int = 0) -> Iterator[Entry]:
        """Yield the entries that are not replayed yet, after the first `skipping` of them."""
        for number in range(self.position + skipping, len(self.records)):
            entry = self.records[number].entry
            assert entry is not None
            yield entry

    def remaining_in_turn(self) -> Iterator[Entry]:
        """Yield the entries that are not replayed yet, up to the next message or rewind.

        Tool results do not count as messages here.
        """
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
        """Return the entry with the result of a call of this turn; None if there is none."""
        for entry in self.remaining_in_turn():
            if isinstance(entry.payload, ToolResultMessage) and _call_id_of(entry) == call_id:
                return entry
        return None

    def call_of(self, entry: Entry) -> AnyToolCall | None:
        """Return the call of this turn that an entry is about; None if there is none."""
        calls, _ = self._current_turn()
        return next((call for call in calls if call.id == _call_id_of(entry)), None)

    def read_only_tools(self) -> frozenset[str]:
        """Return the names of the tools that only read, inferred from the log of this turn.

        Only calls that read run together, and only they are run again after a crash.
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
        """Return the calls of the last response and all entries of its turn, replayed or not."""
        replayed: list[Entry] = []
        for entry, _ in self.walk_back(None if self.head is None else self.head.id):
            if isinstance(entry.payload, AssistantMessage):
                return entry.payload.tool_calls, [*reversed(replayed), *self.remaining_in_turn()]
            replayed.append(entry)
        return (), []


@final
class _CallHistory:
    """The positions of the decisions and the result of one call among the entries of its turn."""

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
        """Whether another decision follows an approval, which happens only to calls that read."""

    def ran_with(self, later: _CallHistory) -> bool:
        """Return whether a later call began before this call had its result."""
        if later._first_decided < self._ended:
            return True
        # A stop ends all calls that run together; calls that did not begin are recorded as not run.
        result = later._result
        is_answered = result is not None and not is_not_run(result)
        was_stopped = self._result is not None and is_stopped(self._result)
        return was_stopped and is_answered and later._last_decided < self._ended


# -- records of a branch ---------------------------------------------------------------------------


def _find_branch_records(written: Sequence[Record], branch: str | None) -> tuple[Record, ...]:
    """Return the records of a branch, preceded by those of the branches that it started from."""
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
                "the entry at which the branch was forked is missing",
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
    """The replayed run ends here: the program was killed, or an entry differs from the log."""

    code = "replay_ended"


class ReplayStopped(Exception):
    """The recorded run was stopped here."""


@final
class ReplayState:
    """The progress of a replay: the recorded run, and how much of it the loop has reproduced."""

    def __init__(self, recorded_run: RecordedRun) -> None:
        self.recorded_run: Final = recorded_run
        self.made_count: int = 0
        """The number of entries that the loop has reproduced."""
        self.attempt: Entry | None = None
        """The entry that the loop made where the log has a different one; None if there is none."""
        self.is_tampered: bool = False
        """Whether the recorded digest of the next entry does not match its content."""
        self.is_over: bool = False
        self._is_copying = False
        """Whether the entry that is appended now is copied from the log."""
        self.stop: Callable[[], object] = lambda: None
        """Stops the current run, as a user or a limit does."""
        self.conversation: Final = Conversation(
            id="replay",
            journal=_ReplayJournal(self),
            new_id=lambda: _END_ID if recorded_run.next is None else recorded_run.next.id,
            # An entry may have no time, which the type of the clock does not allow.
            now=lambda: cast(
                "datetime", None if recorded_run.next is None else recorded_run.next.time
            ),
        )

    def accept(self, entry: Entry, digest: str) -> None:
        """Accept an entry of the loop that equals the recorded entry, else raise ReplayEnded."""
        record = self.recorded_run.record
        if not self.is_over and record is not None:
            has_same_entry, has_same_digest = entry == record.entry, digest == record.digest
            if has_same_entry and has_same_digest:
                self.made_count += not self._is_copying
                self._advance()
                return
            if self._is_copying:
                raise ReplayEnded("the copied entry differs from the recorded one", place="replay")
            self.is_tampered = has_same_entry or has_same_digest
            self.attempt = None if has_same_entry else self.attempt or entry
        self.is_over = True
        raise ReplayEnded("the recorded run has no such entry", place="replay")

    def copy_next(self) -> None:
        """Copy the next entry unchanged; if its digest does not match, end the replay instead."""
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
        """Append a copy of the next entry if possible; return whether it was appended.

        This is possible for a payload in `_APPENDABLE` directly after the last replayed entry.
        """
        head = self.recorded_run.head
        if not isinstance(entry.payload, _APPENDABLE) or head is None or entry.parent != head.id:
            return False
        self._is_copying = True
        try:
            self.conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        except ReplayEnded:  # the entry has members that this version does not know
            return False
        except Missing:  # it refers to an entry that the records do not have; an import may
            return False
        finally:
            self._is_copying = False
        return True

    def copy_given(self) -> None:
        """Copy the next entries that no run makes: settings, labels, feedback, unknown entries."""
        while (
            not self.is_over
            and self.recorded_run.next is not None
            and not is_made_by_run(self.recorded_run.next)
        ):
            self.copy_next()

    def check_next(self, entry: Entry) -> None:
        """Copy the next entries if no run makes them, and repeat a recorded stop.

        `entry` was just recorded. Raises ReplayStopped if the recorded run was stopped after it.
        """
        self.copy_given()
        next_entry = self.recorded_run.next
        if next_entry is None:
            return
        if is_not_run(next_entry) and not is_not_run(entry) and not is_partial(entry, next_entry):
            raise ReplayStopped
        if is_stopped(next_entry) and isinstance(
            self.recorded_run.call_of(next_entry), InvalidToolCall
        ):
            self.stop()  # an invalid call never reaches the gate or the runner, which could stop it

    def end_as_killed(self) -> Never:
        """End the run as if the program had been killed. Raises ReplayEnded."""
        self.is_over = True
        raise ReplayEnded("the recorded run was killed at this point", place="replay")

    def _advance(self) -> None:
        self.recorded_run.position += 1
        self.attempt = None


@final
class _ReplayJournal:
    """A journal of the entries replayed so far (`steno.ports.Journal`)."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state

    def extract_blobs(self, payload: Payload) -> Payload:
        # Blobs were extracted when the payload was recorded. This hook is used for the wording,
        # because it is the only one that is called before the digest is computed.
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
        """Return the next recorded response as a stream.

        Raises ProviderError if the next entry is not a response, or not of the same model.
        """
        entry = self._state.recorded_run.next
        message = None if entry is None or not is_made_by_run(entry) else entry.payload
        if entry is None or not isinstance(message, AssistantMessage):
            raise ProviderError(
                "no response is recorded at this point", place="replay", code="no_recorded_response"
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
    """Streams a recorded response, and repeats its error or stop (`steno.ports.Stream`)."""

    losses: Final = None
    """Unknown, because the log has no requests; so the links to images are copied, not made."""

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
        """Return whether the log rewinds the branch to the entry before the response."""
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
        """Return the recorded response without streaming it."""
        return self._message

    def message(self) -> AssistantMessage:
        """Return the recorded response, even if it is incomplete."""
        return self._message

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


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
        """Return True for all tools; if a tool was not offered, the log denies its calls."""
        return True

    def denies(self, tool: Tool, subject: str) -> bool:
        """Return False, because a replay runs no tool."""
        return False

    async def authorize_reference(
        self, tool: Tool, call: ToolCall, recorder: RunRecorder
    ) -> GateDecision:
        """Deny the reference, because the log has its resolution."""
        return GateDecision(False)

    async def decide(self, tool: Tool, call: ToolCall, recorder: RunRecorder) -> GateDecision:
        """Record the decisions about a call again, and return the last of them.

        A call whose result follows without a decision is allowed. Raises ReplayEnded if the
        recorded run was killed before the call had a decision or a result.
        """
        recorded_run = self._state.recorded_run
        while (
            entry := recorded_run.next_about(call.id)
        ) is not None and entry is recorded_run.next:
            approval = entry.payload
            if not isinstance(approval, Approval):
                break
            _record_again(entry, approval, recorder)
            if approval.status is not ApprovalStatus.PENDING:
                return self._build_decision(call, approval)
        if entry is None or isinstance(entry.payload, Approval) or not is_made_by_run(entry):
            self._state.end_as_killed()
        return GateDecision(True)  # the recorded run refused the call before a decision

    def _build_decision(self, call: ToolCall, approval: Approval) -> GateDecision:
        entry = self._state.recorded_run.result_of(call.id)
        result = None if entry is None else entry.payload
        if isinstance(result, ToolResultMessage) and approval.status is ApprovalStatus.DENIED:
            recorded = result_code(result)
            code = ResultCode(recorded) if recorded in list(ResultCode) else ResultCode.DENIED
            return GateDecision(result.outcome is not Outcome.DENIED, result.text, code=code)
        return GateDecision(approval.status is ApprovalStatus.APPROVED)

    async def decide_access(
        self,
        tool: Tool,
        call: ToolCall,
        blocked: tuple[SandboxAccess, ...],
        recorder: RunRecorder,
    ) -> tuple[SandboxAccess, ...]:
        """Record the decision about more access for a call again, and return the access."""
        entry = self._state.recorded_run.next_about(call.id)
        if entry is None or not isinstance(entry.payload, Approval):
            self._state.end_as_killed()
        _record_again(entry, entry.payload, recorder)
        is_approved = entry.payload.status is ApprovalStatus.APPROVED
        return decided_access(entry) or () if is_approved else ()

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolRun:
        """Return the recorded result of a call; stop the run first if the call was stopped.

        If a decision about more access follows, its access is returned as blocked. If the program
        was killed before the call had a result, the run ends here.
        """
        entry = self._state.recorded_run.next_about(call.id)
        blocked = None if entry is None else decided_access(entry)
        if blocked is not None:
            entry = self._state.recorded_run.result_of(call.id)
        result = None if entry is None else entry.payload
        if entry is not None and isinstance(result, ToolResultMessage):
            if is_stopped(entry) and blocked is None:
                with suppress(asyncio.CancelledError):
                    await _wait_until_stopped(self._state)
                return ToolRun(result)
            if is_made_by_run(entry) and not is_outcome_unknown(entry) and not is_not_run(entry):
                return ToolRun(result, blocked or ())
        self._state.is_over = True  # the program was killed before the call had a result
        return await _wait_until_stopped(self._state)


def _record_again(entry: Entry, approval: Approval, recorder: RunRecorder) -> None:
    recorder.record_decision(
        approval.call_id,
        approval.status,
        actor=approval.actor,
        rule=approval.rule,
        reason=approval.reason,
        audit=entry.audit,
    )


@final
class RecordedTool:
    """A tool that the recorded run called; the replay never runs it (`steno.ports.Tool`)."""

    headline = staticmethod(default_headline)

    def __init__(self, state: ReplayState, name: str) -> None:
        """Build a definition from the name alone, because the log contains no definitions."""
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
        """READ if the log shows that the tool only reads, else EXECUTE."""
        is_reader = self.definition.name in self._state.recorded_run.read_only_tools()
        return Capability.READ if is_reader else Capability.EXECUTE

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return no subjects, because a replay applies no rule."""
        return ()

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return an empty preview, because a replay asks no approver."""
        return CallPreview()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Raise AssertionError, because a replay takes all results from the log."""
        raise AssertionError("a replay runs no tools")
