"""Write the log of a run: append entries, rewind the branch, and report each entry as an event.

A rewind removes messages and results from the branch, but preserves the current mode and the
user's shell commands. Revoked grants need no handling here, because a revocation applies to every
branch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, NoReturn, TypeAlias, final

from steno.agent.events import EntryRecorded, LoopEvent
from steno.agent.results import ResultCode, build_cancelled_result
from steno.errors import LogError, Unavailable
from steno.log.conversation import BuildAudit, Conversation
from steno.log.queries import shell_command_of
from steno.messages.message import ChatMessage
from steno.records.entry import ApprovalStatus, Entry, Mode, Payload

OnEvent: TypeAlias = Callable[[LoopEvent], object]
"""A function that receives each event. If it raises, the run ends and sends no more events."""


def ignore_event(_: LoopEvent) -> None:
    """Ignore an event; this is the default receiver of events."""


@final
class RunRecorder:
    """Writes the entries of one run to the log, and reports each entry as an event.

    Every method writes synchronously, in the thread of the event loop, so entries are stored in
    program order, and no cancellation can occur between an action and its entry.
    """

    def __init__(self, conversation: Conversation, on_event: OnEvent) -> None:
        self.conversation = conversation
        self.run_cache: dict[Hashable, Any] = {}
        """Values that resolvers keep until the run ends; see `ResolveContext.run_cache`."""
        self._on_event = on_event

    def emit(self, event: LoopEvent) -> None:
        """Report an event. If the receiver raises, later entries are recorded but not reported."""
        try:
            self._on_event(event)
        except BaseException:
            self.close()
            raise

    def emit_from_callback(self, event: LoopEvent) -> None:
        """Report an event from a callback, which must not raise.

        If the receiver raises, its exception is raised when the next event is reported.
        """
        try:
            self.emit(event)
        except BaseException as exc:  # noqa: BLE001 - it is raised with the next event
            self._on_event = partial(_raise_deferred, exc)

    def close(self) -> None:
        """Stop reporting events, because the run is over."""
        self._on_event = ignore_event

    def record(
        self,
        payload: Payload | ChatMessage,
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Append a payload or a message to the active branch, and return its entry."""
        return self._emit_recorded(
            self.conversation.append(payload, decision=decision, audit=audit)
        )

    def record_decision(
        self,
        call_id: str,
        status: ApprovalStatus,
        *,
        actor: str | None = None,
        rule: str | None = None,
        reason: str | None = None,
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call."""
        return self._emit_recorded(
            self.conversation.decide(
                call_id, status, actor=actor, rule=rule, reason=reason, audit=audit
            )
        )

    def record_model(self, model: str) -> None:
        """Record the model of the next responses, if it has changed."""
        if model and self.conversation.model != model:
            self._emit_recorded(self.conversation.change_model(model))

    def is_on_branch(self, recorded: Entry) -> bool:
        """Return whether a recent entry is still part of the active branch."""
        past = reversed(self.conversation.entries_view())
        since = takewhile(lambda entry: entry.id != recorded.parent, past)
        return any(entry.id == recorded.id for entry in since)

    def rewind(self, to: str) -> None:
        """Continue the branch from an earlier entry; see `rewind_branch`."""
        for entry in rewind_branch(self.conversation, to):
            self._emit_recorded(entry)

    def cancel_outstanding(self) -> None:
        """Record a result for each outstanding call, stating that the call was not run."""
        # Record all results before the first event is reported, because its receiver may raise.
        entries = [
            self.conversation.append(build_cancelled_result(call_id, ResultCode.CALL_NOT_RUN))
            for call_id in self.conversation.outstanding
        ]
        for entry in entries:
            self._emit_recorded(entry)

    def _emit_recorded(self, entry: Entry) -> Entry:
        self.emit(EntryRecorded(entry))
        return entry


def _raise_deferred(exc: BaseException, _: LoopEvent) -> NoReturn:
    raise exc


# -- rewind ----------------------------------------------------------------------------------------


def rewind_branch(conversation: Conversation, to: str) -> list[Entry]:
    """Rewind the active branch to an entry, without losing the mode and the shell commands.

    The shell commands after the entry are recorded again, as is the mode if the rewind changed it.
    Return the new entries. Raises LogError if an entry cannot be recorded; the code is
    `mode_not_restored` if the branch was rewound but its mode could not be restored.
    """
    mode = conversation.mode
    rewound = takewhile(lambda entry: entry.id != to, reversed(conversation.entries_view()))
    preserved = [entry for entry in rewound if shell_command_of(entry) is not None]
    entries = [conversation.rewind(to)]
    if conversation.mode is not mode:
        entries.append(_restore_mode(conversation, mode))
    for entry in reversed(preserved):
        copy = conversation.append(entry.payload, decision=entry.decision, audit=entry.audit)
        entries.append(copy)
    return entries


def _restore_mode(conversation: Conversation, mode: Mode) -> Entry:
    try:
        return conversation.change_mode(mode)
    except LogError as exc:
        # Do not raise the original class: after a Conflict, a caller would continue in a mode that
        # the user did not set.
        raise Unavailable(
            f"the branch was rewound, but {mode} mode could not be restored ({exc}); "
            f"the mode is now {conversation.mode}: change the mode before you continue",
            place="mode",
            code="mode_not_restored",
        ) from exc
