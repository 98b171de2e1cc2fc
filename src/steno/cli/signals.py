"""Handling of signals: the first one stops a run gracefully, the second one immediately."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self, final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class StopSignals:
    """A context manager that handles signals and cancels the current task."""

    def __init__(self, signals: Iterable[signal.Signals] = _SIGNALS) -> None:
        """Prepare to handle the signals; the current task is the one to cancel."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._signals = tuple(signals)
        self._received: list[signal.Signals] = []
        self._handled: list[signal.Signals] = []
        self.on_first_signal: Callable[[], object] = task.cancel
        """The function to call on the first signal; by default, it cancels the task."""

    @property
    def status(self) -> int | None:
        """The exit status for the first received signal; None if no signal was received."""
        return 128 + self._received[0] if self._received else None

    async def run(self, work: Awaitable[int]) -> int:
        """Return the exit status of the work, or the status of the signal that cancelled it."""
        try:
            return await work
        except asyncio.CancelledError:
            if self.status is None:
                raise
            return self.status

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            # Background processes, and those under nohup, are started with the signal ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
                self._handled.append(number)
        return self

    def __exit__(self, *exc_info: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        self._received.append(number)
        if len(self._received) == 1:
            self.on_first_signal()
        else:
            self._task.cancel()
