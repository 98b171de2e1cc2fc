"""What a person says while the model is at work, and when it is to be heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, final

from steno.message import UserMessage


class Steering(StrEnum):
    """When a message that comes while a turn runs reaches the model."""

    AFTER_CALLS = "after_calls"
    """With the next request: when the calls of this turn have been answered."""
    AFTER_RUN = "after_run"
    """When the model would be done; it then goes on."""
    INTERRUPT = "interrupt"
    """At once: what the model says and what tools do is stopped, and stays on record."""


class Steered(NamedTuple):
    """A message that is to be heard, and what is noted beside it in the record."""

    message: UserMessage
    audit: Mapping[str, Any]
    wants_answer: bool = True
    """Whether it wants an answer; else it is heard, and nobody goes on because of it."""


@final
class Wheel:
    """Holds messages until it is time for them."""

    def __init__(self) -> None:
        """Start with none."""
        self._waiting: dict[Steering, deque[Steered]] = {policy: deque() for policy in Steering}

    def put(self, steered: Steered, policy: Steering) -> None:
        """Take a message."""
        self._waiting[policy].append(steered)

    @property
    def wants_answer(self) -> bool:
        """Whether any of them wants an answer."""
        return any(one.wants_answer for waiting in self._waiting.values() for one in waiting)

    def take_due(self, *, is_over: bool) -> list[Steered]:
        """Return what is to be heard now: all of it at the end."""
        return self.take_all() if is_over else self.take_after_calls()

    def take_after_calls(self) -> list[Steered]:
        """Return what is to be heard before the next request."""
        return self._take(Steering.INTERRUPT) + self._take(Steering.AFTER_CALLS)

    def take_all(self) -> list[Steered]:
        """Return everything that has not been heard."""
        return self.take_after_calls() + self._take(Steering.AFTER_RUN)

    def withdraw(self) -> list[Steered]:
        """Take back everything that wants an answer and has not been heard."""
        return self._take_where(asks=True)

    def take_without_answer(self) -> list[Steered]:
        """Return what is to be heard and wants no answer; what wants one waits on."""
        return self._take_where(asks=False)

    def _take_where(self, *, asks: bool) -> list[Steered]:
        everything = [(policy, one) for policy in Steering for one in self._take(policy)]
        for policy, one in everything:
            if one.wants_answer is not asks:
                self.put(one, policy)
        return [one for _, one in everything if one.wants_answer is asks]

    def _take(self, policy: Steering) -> list[Steered]:
        taken = list(self._waiting[policy])
        self._waiting[policy].clear()
        return taken
