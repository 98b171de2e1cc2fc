"""What a person says while the model is at work, and when it is to be heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, final

from steno.agent.recorder import RunRecorder
from steno.agent.references import ensure_rewind_target, has_references
from steno.messages.message import UserMessage
from steno.records.entry import Entry


class SteeringPolicy(StrEnum):
    """When a message that comes while a turn runs reaches the model."""

    AFTER_CALLS = "after_calls"
    """With the next request: when the calls of this turn have been answered."""
    AFTER_RUN = "after_run"
    """When the model would be done; it then goes on."""
    INTERRUPT = "interrupt"
    """At once: what the model says and what tools do is stopped, and stays on record."""


class SteeringMessage(NamedTuple):
    """A message that is to be heard, and what is noted beside it in the record."""

    message: UserMessage
    audit: Mapping[str, Any]
    wants_answer: bool = True
    """Whether it wants an answer; else it is heard, and nobody goes on because of it."""


@final
class SteeringQueue:
    """Holds messages until it is time for them."""

    def __init__(self) -> None:
        """Start with none."""
        self._waiting: dict[SteeringPolicy, deque[SteeringMessage]] = {
            policy: deque() for policy in SteeringPolicy
        }

    def put(self, steered: SteeringMessage, policy: SteeringPolicy) -> None:
        """Take a message."""
        self._waiting[policy].append(steered)

    @property
    def wants_answer(self) -> bool:
        """Whether any of them wants an answer."""
        return any(one.wants_answer for waiting in self._waiting.values() for one in waiting)

    def take_due(self, *, is_over: bool) -> list[SteeringMessage]:
        """Return what is to be heard now: all of it at the end."""
        return self.take_all() if is_over else self.take_after_calls()

    def take_after_calls(self) -> list[SteeringMessage]:
        """Return what is to be heard before the next request."""
        return self._take(SteeringPolicy.INTERRUPT) + self._take(SteeringPolicy.AFTER_CALLS)

    def take_all(self) -> list[SteeringMessage]:
        """Return everything that has not been heard."""
        return self.take_after_calls() + self._take(SteeringPolicy.AFTER_RUN)

    def withdraw(self) -> list[SteeringMessage]:
        """Take back everything that wants an answer and has not been heard."""
        return self._take_where(asks=True)

    def take_without_answer(self) -> list[SteeringMessage]:
        """Return what is to be heard and wants no answer; what wants one waits on."""
        return self._take_where(asks=False)

    def _take_where(self, *, asks: bool) -> list[SteeringMessage]:
        everything = [(policy, one) for policy in SteeringPolicy for one in self._take(policy)]
        for policy, one in everything:
            if one.wants_answer is not asks:
                self.put(one, policy)
        return [one for _, one in everything if one.wants_answer is asks]

    def _take(self, policy: SteeringPolicy) -> list[SteeringMessage]:
        taken = list(self._waiting[policy])
        self._waiting[policy].clear()
        return taken


# -- hearing ---------------------------------------------------------------------------------------
#
# What a person says in one run, and when it goes on record: the prompt first, then what is steered.
#
# A prompt that points at something may have to be taken back. What is said behind it is held until
# that is clear, or it would be taken back as well, and nobody would know.


@final
class InputRecorder:
    """Records what is said in one run."""

    def __init__(
        self, notebook: RunRecorder, wheel: SteeringQueue, *, actor: str | None, opens: bool
    ) -> None:
        """Take the log and what is steered; `opens` if a prompt that cannot be opened goes back."""
        self._recorder = notebook
        self._queue = wheel
        self._actor = actor
        self._resolves_references = opens
        self._pending_prompt: SteeringMessage | None = None
        """What is to be heard first; None once it is on record."""
        self.is_held = False
        """Whether what is said behind the prompt has to wait."""
        self.prompt: Entry | None = None
        """What was heard first."""

    def set_prompt(self, prompt: UserMessage, origin: str | None) -> None:
        """Take what is to be heard first; `origin` is where its words are from."""
        self._pending_prompt = SteeringMessage(prompt, {"origin": origin})

    def record_prompt(self) -> None:
        """Record what a person said to begin with, unless that is done."""
        first, self._pending_prompt = self._pending_prompt, None
        if first is None:
            return
        if self._resolves_references:
            ensure_rewind_target(first.message, self._recorder)
        self.prompt = self._record_message(first.message, first.audit)
        self.is_held = self._resolves_references and has_references(self.prompt)

    def record_due(self, *, is_over: bool) -> bool:
        """Record what is to be heard now, unless it is held; tell whether an answer is wanted."""
        if self.is_held:
            return self._queue.wants_answer
        return self._record_all(self._queue.take_due(is_over=is_over))

    def release(self) -> None:
        """Hold nothing any more: the prompt stays, or is about to be sent."""
        self.is_held = False

    def record_rest(self) -> None:
        """Record what was said and not heard.

        Behind a prompt that was taken back, what wants an answer waits: it is withdrawn, or heard
        in the next run.
        """
        is_there = self.prompt is None or self._recorder.is_on_branch(self.prompt)
        self._record_all(
            self._queue.take_due(is_over=True) if is_there else self._queue.take_without_answer()
        )

    def _record_all(self, said: Sequence[SteeringMessage]) -> bool:
        for one in said:
            self._record_message(one.message, one.audit)
        return any(one.wants_answer for one in said)

    def _record_message(self, said: UserMessage, noted: Mapping[str, Any]) -> Entry:
        about = {"actor": self._actor, **noted}
        audit = {name: what for name, what in about.items() if what is not None}
        return self._recorder.record(said, audit=audit or None)
