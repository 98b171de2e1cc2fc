"""Write the log of a run: append entries, rewind the branch, and report each entry as an event.

A rewind drops messages and results from the branch, and keeps the mode and the shell commands of
the user that were recorded since. Revoked grants need nothing here: a revocation holds on every
branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, NoReturn, TypeAlias, final

from steno.agent.events import EntryRecorded, LoopEvent
from steno.agent.results import ResultCode, build_cancelled_result
from steno.errors import LogError, Unavailable
from steno.log.conversation import Conversation
from steno.log.queries import shell_command_of
from steno.messages.message import ChatMessage
from steno.records.entry import ApprovalStatus, Entry, Mode, Payload

OnEvent: TypeAlias = Callable[[LoopEvent], object]
"""Receives events as they happen. An exception that it raises ends the run and its events."""


def ignore_event(_: LoopEvent) -> None:
    """Do nothing."""


@final
class RunRecorder:
    """Writes to the log of one run, and reports each entry.

    Every write is done when it returns, and in the thread of the loop: the order in the program
    is the order on disk, and no cancellation comes between an action and its record.
    """

    def __init__(self, conversation: Conversation, on_event: OnEvent) -> None:
        self.conversation = conversation
        self._on_event = on_event

    def emit(self, event: LoopEvent) -> None:
        """Report an event. After the receiver has raised, the rest is recorded and not reported."""
        try:
            self._on_event(event)
        except BaseException:
            self.close()
            raise

    def emit_from_callback(self, event: LoopEvent) -> None:
        """Report an event where no caller catches exceptions: the next event raises them."""
        try:
            self.emit(event)
        except BaseException as exc:  # noqa: BLE001 - it is raised with the next event
            self._on_event = partial(_raise_deferred, exc)

    def close(self) -> None:
        """Report no further events: the run is over."""
        self._on_event = ignore_event

    def record(
        self,
        payload: Payload | ChatMessage,
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append to the active branch."""
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
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call."""
        return self._emit_recorded(
            self.conversation.decide(
                call_id, status, actor=actor, rule=rule, reason=reason, audit=audit
            )
        )

    def record_model(self, model: str) -> None:
        """Record the model that responds from here on, if it is not the one before."""
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
        """Record that the calls without a result are not run any more."""
        # All of them are in the log before the first event, which may raise.
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
    """Rewind the active branch, and record again what stays; return the new entries.

    Raises LogError if that cannot be recorded, with the code `mode_not_restored` if the branch went
    back and its mode could not be set again.
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
        # Not the original class: after a Conflict a caller would continue in a mode that was not
        # set by the user.
        raise Unavailable(
            f"{mode} could not be recorded again, and it is {conversation.mode} here; "
            f"set it before you go on ({exc})",
            place="mode",
            code="mode_not_restored",
        ) from exc
