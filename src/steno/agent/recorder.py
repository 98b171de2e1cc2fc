"""What the parts of a run share: the log that they write to, and whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, NoReturn, TypeAlias, final

from steno.agent.events import EntryRecorded, LoopEvent
from steno.agent.rewind import rewind_branch
from steno.log.conversation import Conversation
from steno.messages.message import ChatMessage
from steno.records.entry import ApprovalStatus, Entry, Payload

OnEvent: TypeAlias = Callable[[LoopEvent], object]
"""Is told what happens, as it happens; whatever it raises ends the run, and is the last it hears."""


def ignore_event(_: LoopEvent) -> None:
    """Look away."""


@final
class RunRecorder:
    """Writes to the log of one run, and tells who watches.

    Every write is done when it returns, and in the thread of the loop: the order in the program
    is the order on disk, and no cancellation comes between a deed and its record.
    """

    def __init__(self, conversation: Conversation, watch: OnEvent) -> None:
        """Take the log to write to."""
        self.conversation = conversation
        self._on_event = watch

    def emit(self, event: LoopEvent) -> None:
        """Tell who watches. Who raised is told no more: the rest is recorded all the same."""
        try:
            self._on_event(event)
        except BaseException:
            self.close()
            raise

    def emit_from_callback(self, event: LoopEvent) -> None:
        """Tell something where nobody would catch what is raised: that comes with the next event."""
        try:
            self.emit(event)
        except BaseException as exc:  # noqa: BLE001 - it is not lost, only late
            self._on_event = partial(_raise_deferred, exc)

    def close(self) -> None:
        """Tell nobody any more: the run is over."""
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
        """Record who answers from here on, if it was another one before."""
        if model and self.conversation.model != model:
            self._emit_recorded(self.conversation.change_model(model))

    def is_on_branch(self, entry: Entry) -> bool:
        """Tell whether an entry that was recorded lately is still part of the active branch."""
        past = reversed(self.conversation.entries_view())
        since = takewhile(lambda one: one.id != entry.parent, past)
        return any(one.id == entry.id for one in since)

    def rewind(self, to: str) -> None:
        """Let the branch go on from an earlier entry; what a person has settled since stays."""
        for entry in rewind_branch(self.conversation, to):
            self._emit_recorded(entry)

    def answer_outstanding(self, text: str) -> None:
        """Answer the calls that nobody will run any more."""
        for entry in self.conversation.answer_outstanding(text):
            self._emit_recorded(entry)

    def _emit_recorded(self, entry: Entry) -> Entry:
        self.emit(EntryRecorded(entry))
        return entry


def _raise_deferred(exc: BaseException, _: LoopEvent) -> NoReturn:
    raise exc
