"""Signals that stop a run: the first one gracefully, the next one immediately."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self, final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class StopSignals:
    """Handles signals while a block runs inside a task, and cancels that task."""

    def __init__(self, signals: Iterable[signal.Signals] = _SIGNALS) -> None:
        """Take the current task, and the signals to handle."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._signals = tuple(signals)
        self._received: list[signal.Signals] = []
        self._handled: list[signal.Signals] = []
        self.on_first_signal: Callable[[], object] = task.cancel
        """The reaction to the first signal."""

    @property
    def status(self) -> int | None:
        """The exit status of the first signal; None if there was none."""
        return 128 + self._received[0] if self._received else None

    async def run(self, work: Awaitable[int]) -> int:
        """Return the exit status of the work, or of the signal that cancelled it."""
        try:
            return await work
        except asyncio.CancelledError:
            if self.status is None:
                raise
            return self.status

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            # A process in the background, or under nohup, is started with the signal ignored.
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
