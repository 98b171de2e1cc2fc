"""An agent that begins when the tools of servers are there, or have been waited for long enough.

Until then it can be interrupted as well: nothing was said then. Who waits for whom is not known
here, nor what a server is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, final

from steno.agent import Agent, RunResult, Steering
from steno.agent.notebook import Watch
from steno.agent.runner import Runs
from steno.cli.compose import Equipment
from steno.conversation import Conversation
from steno.entry import Entry
from steno.errors import StenoError
from steno.message import UserMessage

UNSAID: Final = "interrupted before it began; nothing was said or done"


@final
class PatientAgent:
    """An `Agent` for one conversation, with the tools that there are when a run begins."""

    def __init__(
        self,
        conversation: Conversation,
        equipped: Callable[[], Equipment],
        *,
        runner: Runs,
        wait: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Take how to learn what there is to work with, and what to wait for before a run."""
        self._conversation = conversation
        self._equipped = equipped
        self._runner = runner
        self._wait = wait
        self._waiting: asyncio.Task[None] | None = None
        self._equipment = equipped()
        self._agent = self._made()

    def _made(self) -> Agent:
        return self._equipment.agent_for(self._conversation, runner=self._runner)

    def _renew(self) -> None:
        """Let a run that begins have the tools that have come since."""
        equipment = self._equipped()
        if equipment.tools != self._equipment.tools and not self._agent.is_running:
            self._equipment = equipment
            self._agent = self._made()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._agent.is_running

    async def run(
        self, prompt: UserMessage | None, *, watch: Watch, origin: str | None = None
    ) -> RunResult:
        """Say something to the model and let it work; see `Agent.run`.

        Raises StenoError if it is interrupted before: nothing is on record then.
        """
        self._waiting = asyncio.create_task(self._wait())
        try:
            await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                raise StenoError(UNSAID) from None
            # Whoever leaves finds on record what was said: the run ends as soon as it has begun.
            task.cancel()
        finally:
            self._waiting = None
        self._renew()
        return await self._agent.run(prompt, watch=watch, origin=origin)

    async def compact(self, *, watch: Watch) -> Entry | None:
        """Let the model sum up what was said so far; see `Agent.compact`."""
        self._renew()
        return await self._agent.compact(watch=watch)

    def steer(
        self,
        message: UserMessage,
        policy: Steering = Steering.AFTER_CALLS,
        *,
        noted: Mapping[str, Any] | None = None,
        asks: bool = True,
    ) -> None:
        """Say something while a run is under way. Raises StenoError if there is none."""
        self._agent.steer(message, policy, noted=noted, asks=asks)

    def withdraw(self) -> tuple[UserMessage, ...]:
        """Take back what was said while a run is under way and has not been heard yet."""
        return self._agent.withdraw()

    def interrupt(self) -> None:
        """Stop what is being said and done, or what is waited for. Nothing happens if idle."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._agent.interrupt()
