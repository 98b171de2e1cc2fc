"""What a person says while the model is at work, and when it is to be heard."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import final

from steno.message import UserMessage


class Steering(StrEnum):
    """When a message that comes while a turn runs reaches the model."""

    AFTER_CALLS = "after_calls"
    """With the next request: when the calls of this turn have been answered."""
    AFTER_RUN = "after_run"
    """When the model would be done; it then goes on."""
    INTERRUPT = "interrupt"
    """At once: what the model says and what tools do is stopped, and stays on record."""


@final
class Wheel:
    """Holds messages until it is time for them."""

    def __init__(self) -> None:
        """Start with none."""
        self._waiting: dict[Steering, deque[UserMessage]] = {policy: deque() for policy in Steering}

    def put(self, message: UserMessage, policy: Steering) -> None:
        """Take a message."""
        self._waiting[policy].append(message)

    def after_calls(self) -> list[UserMessage]:
        """Return what is to be heard before the next request."""
        return self._take(Steering.INTERRUPT) + self._take(Steering.AFTER_CALLS)

    def after_run(self) -> list[UserMessage]:
        """Return everything that has not been heard."""
        return self.after_calls() + self._take(Steering.AFTER_RUN)

    def _take(self, policy: Steering) -> list[UserMessage]:
        taken = list(self._waiting[policy])
        self._waiting[policy].clear()
        return taken
