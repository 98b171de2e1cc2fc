"""Input of the user for a run: the prompt, and messages that steer the run while it works.

A prompt with references may be rewound. Messages sent after it are held until that is decided;
otherwise the rewind would remove them, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, final

from steno.agent.recorder import RunRecorder
from steno.agent.resolve_references import ensure_rewind_target, prompt_has_references
from steno.messages.message import UserMessage
from steno.records.entry import Entry


class SteeringPolicy(StrEnum):
    """When a message that is sent during a run reaches the model."""

    AFTER_CALLS = "after_calls"
    """With the next request: when the calls of this turn have their results."""
    AFTER_RUN = "after_run"
    """When the model would be done; the run then continues."""
    INTERRUPT = "interrupt"
    """At once: the response and the tools are stopped, and recorded as far as they came."""


class SteeringMessage(NamedTuple):
    """A message for the model, and the audit of its entry."""

    message: UserMessage
    audit: Mapping[str, Any]
    wants_answer: bool = True
    """Whether the model has to respond; else the message is recorded, and no turn follows."""


@final
class SteeringQueue:
    """The messages of one agent that are not recorded yet, by policy. It outlives a run."""

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: dict[SteeringPolicy, deque[SteeringMessage]] = {
            policy: deque() for policy in SteeringPolicy
        }

    def put(self, message: SteeringMessage, policy: SteeringPolicy) -> None:
        """Add a message."""
        self._waiting[policy].append(message)

    @property
    def wants_answer(self) -> bool:
        """Whether any message wants an answer."""
        return any(
            message.wants_answer for waiting in self._waiting.values() for message in waiting
        )

    def take_due(self, *, is_over: bool) -> list[SteeringMessage]:
        """Take the messages that are due before the next request; all of them at the end."""
        due = self._take(SteeringPolicy.INTERRUPT) + self._take(SteeringPolicy.AFTER_CALLS)
        return due + self._take(SteeringPolicy.AFTER_RUN) if is_over else due

    def withdraw(self) -> list[SteeringMessage]:
        """Take back every message that wants an answer."""
        return self._take_where(wants_answer=True)

    def take_without_answer(self) -> list[SteeringMessage]:
        """Take the messages that want no answer; the others stay."""
        return self._take_where(wants_answer=False)

    def _take_where(self, *, wants_answer: bool) -> list[SteeringMessage]:
        everything = [
            (policy, message) for policy in SteeringPolicy for message in self._take(policy)
        ]
        for policy, message in everything:
            if message.wants_answer is not wants_answer:
                self.put(message, policy)
        return [message for _, message in everything if message.wants_answer is wants_answer]

    def _take(self, policy: SteeringPolicy) -> list[SteeringMessage]:
        taken = list(self._waiting[policy])
        self._waiting[policy].clear()
        return taken


@final
class InputRecorder:
    """Records the input of one run: its prompt, then the messages of the queue."""

    def __init__(
        self,
        recorder: RunRecorder,
        queue: SteeringQueue,
        *,
        actor: str | None,
        resolves_references: bool,
    ) -> None:
        """Take the log and the queue, and whether an unresolved prompt is taken back."""
        self._recorder = recorder
        self._queue = queue
        self._actor = actor
        self._resolves_references = resolves_references
        self._pending_prompt: SteeringMessage | None = None
        """The prompt until it is recorded."""
        self.is_held: bool = False
        """Whether messages after the prompt have to wait."""
        self.prompt: Entry | None = None
        """The entry of the prompt."""

    def set_prompt(self, prompt: UserMessage, origin: str | None) -> None:
        """Take the prompt; `origin` is the source of its text, such as a template."""
        self._pending_prompt = SteeringMessage(prompt, {"origin": origin})

    def record_prompt(self) -> None:
        """Record the prompt, unless that is done."""
        prompt, self._pending_prompt = self._pending_prompt, None
        if prompt is None:
            return
        if self._resolves_references:
            ensure_rewind_target(prompt.message, self._recorder)
        self.prompt = self._record_message(prompt.message, prompt.audit)
        self.is_held = self._resolves_references and prompt_has_references(self.prompt)

    def record_due(self, *, is_over: bool) -> bool:
        """Record the messages that are due, unless held; return whether one wants an answer."""
        if self.is_held:
            return self._queue.wants_answer
        return self._record_all(self._queue.take_due(is_over=is_over))

    def release(self) -> None:
        """Hold no messages any more: the prompt stays, or is about to be sent."""
        self.is_held = False

    def record_remaining(self) -> None:
        """Record the messages that are left at the end of the run.

        If the prompt was taken back, those that want an answer stay in the queue: they are
        withdrawn, or recorded in the next run.
        """
        is_prompt_on_branch = self.prompt is None or self._recorder.is_on_branch(self.prompt)
        self._record_all(
            self._queue.take_due(is_over=True)
            if is_prompt_on_branch
            else self._queue.take_without_answer()
        )

    def _record_all(self, messages: Sequence[SteeringMessage]) -> bool:
        for steering in messages:
            self._record_message(steering.message, steering.audit)
        return any(steering.wants_answer for steering in messages)

    def _record_message(self, message: UserMessage, audit: Mapping[str, Any]) -> Entry:
        members = {"actor": self._actor, **audit}
        known = {name: value for name, value in members.items() if value is not None}
        return self._recorder.record(message, audit=known or None)
