"""Lists that take a while to make, remembered for a moment, and never waited for too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar, final
from weakref import WeakKeyDictionary

K = TypeVar("K")
T = TypeVar("T")


class _Asked(NamedTuple, Generic[T]):
    task: asyncio.Task[tuple[T, ...]]
    since: float


@final
class Remembered(Generic[K, T]):
    """What `ask` says about something, asked again when it is old.

    Who is too slow is not waited for: the answer is there the next time. It is forgotten with
    what it is about.
    """

    def __init__(
        self,
        ask: Callable[[K], Awaitable[tuple[T, ...]]],
        *,
        holds_s: float,
        patience_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take whom to ask, which raises nothing."""
        self._loader = ask
        self._max_age_s = holds_s
        self._max_wait_s = patience_s
        self._now = now
        self._tasks: WeakKeyDictionary[K, _Asked[T]] = WeakKeyDictionary()

    async def get(self, about: K) -> tuple[T, ...]:
        """Return what is known by now; nothing as long as there is no answer."""
        asked = self._tasks.get(about)
        if asked is None or not self._is_fresh(asked):
            task = asyncio.create_task(self._load(about))
            asked = self._tasks[about] = _Asked(task, self._now())
        # Who stops waiting does not stop the question.
        await asyncio.wait({asked.task}, timeout=self._max_wait_s)
        is_answered = asked.task.done() and not asked.task.cancelled()
        return asked.task.result() if is_answered else ()

    def _is_fresh(self, asked: _Asked[T]) -> bool:
        if asked.task.get_loop() is not asyncio.get_running_loop() or asked.task.cancelled():
            return False
        return not asked.task.done() or self._now() - asked.since < self._max_age_s

    async def _load(self, about: K) -> tuple[T, ...]:
        return await self._loader(about)
