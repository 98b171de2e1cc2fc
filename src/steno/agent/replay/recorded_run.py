"""A recorded run: the entries that led to the end of a branch, in the order they were written.

They include the entries that a rewind left in the log. The replay knows the next entry, and
everything that the log has later about a call: which calls ran together, which were stopped, and
where the program was killed. Results that the agent wrote itself are recognised by their codes;
older versions recorded none, and their sentences are listed here as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, final

from msgspec.structs import replace

from steno.agent.permissions.gate import is_deferred
from steno.agent.results import ResultCode
from steno.errors import Damaged, Missing
from steno.log.queries import is_agent_result, result_code
from steno.messages.call import AnyToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Failure, Outcome
from steno.messages.usage import StopReason
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    Payload,
    Repair,
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
_PARTIAL_STOP_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR)


# -- kinds of entries ------------------------------------------------------------------------


def is_made_by_run(entry: Entry) -> bool:
    """Return whether a run records an entry like this; else it has another source."""
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
    """Return a payload of the agent with the recorded text, if both state the same.

    The agent may phrase its own results and repairs in another way than the version that recorded
    the session, and older versions recorded no code. Everything else stays and is compared.
    """
    match payload, recorded:
        case ToolResultMessage(), ToolResultMessage() if _states_the_same(payload, recorded):
            content = (*recorded.content[:1], *payload.content[1:])
            return replace(
                payload, content=content, details=recorded.details, failure=recorded.failure
            )
        case Repair(), Repair() if _is_same_repair(payload, recorded):
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


def _is_same_repair(replayed: Repair, recorded: Repair) -> bool:
    return (replayed.code, replayed.target) == (recorded.code, recorded.target)


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
        """Take all records of a session, and a branch; by default the one written to last.

        Raises Missing if there is no such branch, Damaged if its beginning is not there.
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
        """Return an entry with its digest, then its parent and so on. Raises Missing."""
        while entry_id is not None:
            record = self._all.get(entry_id)
            if record is None or record.entry is None or record.digest is None:
                raise Missing(
                    "what came before an entry is not there", place="replay", code="parent_missing"
                )
            yield record.entry, record.digest
            entry_id = record.entry.parent

    def digest_before(self, entry: Entry) -> str | None:
        """Return the digest of the parent of an entry. Raises Missing."""
        return next((digest for _, digest in self.walk_back(entry.parent)), None)

    def remaining(self, skipping: int = 0) -> Iterator[Entry]:
        """Return the entries from the next one on, or from a later one."""
        for number in range(self.position + skipping, len(self.records)):
            entry = self.records[number].entry
            assert entry is not None
            yield entry

    def remaining_in_turn(self) -> Iterator[Entry]:
        """Return the entries up to the next turn, or to a rewind."""
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
        results = (
            entry
            for entry in self.remaining_in_turn()
            if isinstance(entry.payload, ToolResultMessage)
        )
        return next((entry for entry in results if _call_id_of(entry) == call_id), None)

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
        """Whether it was decided about again after an approval, as only readers are."""

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
        raise Missing("there is none of this name", place="branch", code="branch_missing")
    last_seq: dict[str, float] = {name: inf}
    while (at := fork_points[name]) is not None:
        origin = records_by_id.get(at)
        if origin is None or origin.branch in last_seq or origin.branch not in fork_points:
            raise Damaged(
                "what it begins behind is not there", place="branch", code="fork_point_missing"
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
