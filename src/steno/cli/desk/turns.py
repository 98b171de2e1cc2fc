"""Whose turn it is at a desk: one after the other, and whoever is stopped meanwhile is refused.

What is done in a turn is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar, final

from steno.errors import StenoError

T = TypeVar("T")

UNSAID: Final = "interrupted before it began; nothing was said or done"


@final
class Turns:
    """Held by whoever begins or exchanges something (`async with`)."""

    def __init__(self) -> None:
        """Let it be nobody's turn."""
        self._lock = asyncio.Lock()
        self._cancel_count = 0
        """How often everything was stopped."""
        self._jobs: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> None:
        """Wait for a turn. Raises StenoError if everything was stopped meanwhile."""
        stops = self._cancel_count
        await self._lock.acquire()
        if stops != self._cancel_count:
            self._lock.release()
            raise StenoError(UNSAID)

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> None:
        """Let the next one begin."""
        self._lock.release()

    async def run_cancellable(self, job: Coroutine[Any, Any, T], refusal: str = UNSAID) -> T:
        """Do something that can be stopped, and return what came of it. Raises StenoError if so."""
        stops, task = self._cancel_count, asyncio.create_task(job)
        self._jobs.add(task)
        try:
            done = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise  # it is not this alone that was stopped
            raise StenoError(refusal) from None
        finally:
            self._jobs.discard(task)
        if stops != self._cancel_count:  # just when it was done
            raise StenoError(refusal)
        return done

    def cancel_all(self) -> None:
        """Refuse who waits for a turn, and stop what can be stopped."""
        self._cancel_count += 1
        for task in self._jobs:
            task.cancel()
