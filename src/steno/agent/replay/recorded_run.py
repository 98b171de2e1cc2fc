"""A record as something to play: the entries that led to the end of a branch, one after the other.

Those are all that were written to it, in the order in which they were, with what was left behind
by a rewind. What is next is known, and so is what the record says further on about a call: which
calls ran together, which were stopped, and where a program was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, final

from steno.agent.dispatch import CALL_STOPPED_TEXT, OUTCOME_UNKNOWN_TEXT
from steno.agent.loop import CALL_NOT_RUN_TEXT
from steno.agent.permissions.gate import is_deferred
from steno.errors import Damaged, Missing
from steno.messages.call import AnyToolCall
from steno.messages.content import Text
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.records.entry import Approval, ApprovalStatus, Entry, Repair, Rewind
from steno.records.stored_record import MAIN_BRANCH, Record

_RUN_AUDIT_KEYS: Final = {
    UserMessage: frozenset({"actor", "origin"}),
    AssistantMessage: frozenset({"model", "response_model", "response_id"}),
}
"""What a run notes beside what is said."""
_PARTIAL_STOP_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR)


# -- what entries are ------------------------------------------------------------------------


def is_made_by_run(entry: Entry) -> bool:
    """Tell whether this is how a run records something; else somebody else did."""
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
    """Tell whether an entry answers a call that nobody ran, because the turn was stopped."""
    return entry.decision is None and _is_cancelled_with(entry, CALL_NOT_RUN_TEXT)


def is_stopped(entry: Entry) -> bool:
    """Tell whether an entry answers a call that was stopped while it ran."""
    return entry.decision is not None and _is_cancelled_with(entry, CALL_STOPPED_TEXT)


def is_outcome_unknown(entry: Entry) -> bool:
    """Tell whether an entry answers a call of which nobody knows whether it ran."""
    return entry.decision is not None and _is_cancelled_with(entry, OUTCOME_UNKNOWN_TEXT)


def is_partial(entry: Entry, coming: Entry | None) -> bool:
    """Tell whether an answer broke off, so that nobody ran what it calls for."""
    message = entry.payload
    if (
        not isinstance(message, AssistantMessage)
        or message.stop_reason not in _PARTIAL_STOP_REASONS
    ):
        return False
    return not message.tool_calls or coming is None or is_not_run(coming)


def _is_cancelled_with(entry: Entry, text: str) -> bool:
    result = entry.payload
    return (
        isinstance(result, ToolResultMessage)
        and result.outcome is Outcome.CANCELLED
        and result.content[:1] == (Text(text),)  # what a tool had said may stand behind it
    )


def _call_id_of(entry: Entry) -> str | None:
    """Return the call that an entry decides about or answers, as a run records it."""
    payload = entry.payload
    if isinstance(payload, ToolResultMessage):
        return payload.tool_call_id
    if isinstance(payload, Approval) and not is_deferred(entry):
        return payload.call_id
    return None


# -- the tape --------------------------------------------------------------------------------


@final
class RecordedRun:
    """What led to the end of a branch, and how far it has been played."""

    def __init__(self, records: Iterable[Record], branch: str | None = None) -> None:
        """Take all records of a session; without a branch, the one written to last is meant.

        Raises Missing if there is no such branch, Damaged if its beginning is not there.
        """
        written = tuple(records)
        self.records: Final = _find_branch_records(written, branch)
        self.position = 0
        self._all = {record.entry.id: record for record in written if record.entry is not None}

    @property
    def record(self) -> Record | None:
        """What comes next; None at the end."""
        return self.records[self.position] if self.position < len(self.records) else None

    @property
    def next(self) -> Entry | None:
        """The entry that comes next; None at the end."""
        record = self.record
        return None if record is None else record.entry

    @property
    def head(self) -> Entry | None:
        """The last entry that was played."""
        return self.records[self.position - 1].entry if self.position else None

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that are called for, in order."""
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
                raise Missing("replay: what came before an entry is not there")
            yield record.entry, record.digest
            entry_id = record.entry.parent

    def digest_before(self, entry: Entry) -> str | None:
        """Return the digest of what an entry stands behind. Raises Missing."""
        return next((digest for _, digest in self.walk_back(entry.parent)), None)

    def remaining(self, skipping: int = 0) -> Iterator[Entry]:
        """Return everything that comes, from the next entry on or from some behind it."""
        for number in range(self.position + skipping, len(self.records)):
            entry = self.records[number].entry
            assert entry is not None
            yield entry

    def remaining_in_turn(self) -> Iterator[Entry]:
        """Return what comes next, up to the next turn or to where the branch goes back."""
        for entry in self.remaining():
            if isinstance(entry.payload, (AssistantMessage, UserMessage, Rewind)):
                return
            yield entry

    def next_about(self, call_id: str) -> Entry | None:
        """Return what the record says next about a call of this turn; None if no more."""
        return next(
            (entry for entry in self.remaining_in_turn() if _call_id_of(entry) == call_id), None
        )

    def result_of(self, call_id: str) -> Entry | None:
        """Return the result of a call of this turn; None if the record has none any more."""
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
        """Return the names of the tools that, as this turn went on record, do no more than look.

        They are decided about together and run together, and once more after a crash.
        """
        calls, entries = self._current_turn()
        fates = [_CallHistory(entries, call.id) for call in calls]
        readers: set[str] = set()
        for last, fate in enumerate(fates):
            first = next((n for n in range(last) if fates[n].ran_with(fate)), last)
            is_reader = first < last or fate.was_run_again
            readers.update([call.name for call in calls[first : last + 1] if is_reader])
        return frozenset(readers)

    def _current_turn(self) -> tuple[tuple[AnyToolCall, ...], list[Entry]]:
        """Return the calls of the last turn, and what is on record behind it, played or not."""
        played: list[Entry] = []
        for entry, _ in self.walk_back(None if self.head is None else self.head.id):
            if isinstance(entry.payload, AssistantMessage):
                return entry.payload.tool_calls, [*reversed(played), *self.remaining_in_turn()]
            played.append(entry)
        return (), []


@final
class _CallHistory:
    """What became of one call of a turn: where it was decided about, and where it has its result."""

    def __init__(self, entries: Sequence[Entry], call_id: str) -> None:
        about = [(n, entry) for n, entry in enumerate(entries) if _call_id_of(entry) == call_id]
        decided = [(n, entry.payload) for n, entry in about if isinstance(entry.payload, Approval)]
        results = [(n, e) for n, e in about if isinstance(e.payload, ToolResultMessage)]
        self._first_decided = decided[0][0] if decided else inf
        self._last_decided = decided[-1][0] if decided else -1
        self._ended: float = results[0][0] if results else inf
        self._result = results[0][1] if results else None
        self.was_run_again = ApprovalStatus.APPROVED in [one.status for _, one in decided[:-1]]
        """Whether it was approved and decided about once more, as only readers are."""

    def ran_with(self, later: _CallHistory) -> bool:
        """Tell whether a later call was begun before this one had its result."""
        if later._first_decided < self._ended:
            return True
        # Who stops a call stops all that run with it; what did not run yet is not run any more.
        result = later._result
        is_answered = result is not None and not is_not_run(result)
        was_stopped = self._result is not None and is_stopped(self._result)
        return was_stopped and is_answered and later._last_decided < self._ended


# -- which records ---------------------------------------------------------------------------


def _find_branch_records(written: Sequence[Record], branch: str | None) -> tuple[Record, ...]:
    """Return the records of a branch, behind those of the branches that it began in."""
    begun: dict[str, str | None] = {MAIN_BRANCH: None}
    homes: dict[str, Record] = {}
    for record in written:
        if record.entry is None:
            begun.setdefault(record.branch, record.at)
        else:
            homes[record.entry.id] = record
    name = (
        next(reversed(homes.values())).branch if branch is None and homes else branch or MAIN_BRANCH
    )
    if name not in begun:
        raise Missing("branch: there is none of this name")
    ends: dict[str, float] = {name: inf}
    while (at := begun[name]) is not None:
        home = homes.get(at)
        if home is None or home.branch in ends or home.branch not in begun:
            raise Damaged("branch: what it begins behind is not there")
        name = home.branch
        ends[name] = home.seq
    return tuple(
        [record for record in written if record.entry and record.seq <= ends.get(record.branch, 0)]
    )
