"""Order of operations on a session."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar, final

from steno.agent.steering import INTERRUPTED_EARLY, interrupted_before_start

T = TypeVar("T")


@final
class OperationLock:
    """A lock for operations that start or replace something (`async with`)."""

    def __init__(self) -> None:
        """Start unlocked."""
        self._lock = asyncio.Lock()
        self._cancel_count = 0
        """How often all operations were cancelled."""
        self._jobs: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> None:
        """Wait for the lock. Raises StenoError if all operations were cancelled in the meantime."""
        cancel_count = self._cancel_count
        await self._lock.acquire()
        if cancel_count != self._cancel_count:
            self._lock.release()
            raise interrupted_before_start()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self._lock.release()

    async def run_cancellable(
        self, coroutine: Coroutine[Any, Any, T], refusal: str = INTERRUPTED_EARLY
    ) -> T:
        """Run a coroutine that `cancel_all` can cancel; return its result.

        Raises StenoError if it was cancelled.
        """
        cancel_count, task = self._cancel_count, asyncio.create_task(coroutine)
        self._jobs.add(task)
        try:
            result = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise  # the caller was cancelled, too
            raise interrupted_before_start(refusal) from None
        finally:
            self._jobs.discard(task)
        if cancel_count != self._cancel_count:  # cancelled just when it was done
            raise interrupted_before_start(refusal)
        return result

    def cancel_all(self) -> None:
        """Refuse operations that wait for the lock, and cancel those that can be cancelled."""
        self._cancel_count += 1
        for task in self._jobs:
            task.cancel()
