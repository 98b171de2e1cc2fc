"""Signals that tell a run to end: the first one in order, the next one at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self, final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class StopSignals:
    """Listens to signals as long as a block lasts; inside of a task, which it cancels."""

    def __init__(self, signals: Iterable[signal.Signals] = _SIGNALS) -> None:
        """Take the task that runs, and which signals it is about."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._signals = tuple(signals)
        self._received: list[signal.Signals] = []
        self._handled: list[signal.Signals] = []
        self.on_first_signal: Callable[[], object] = task.cancel
        """What to do about the first signal."""

    @property
    def status(self) -> int | None:
        """The exit status that is due; None if nobody wants an end."""
        return 128 + self._received[0] if self._received else None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            # Who is started in the background, or by nohup, is to overhear it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
                self._handled.append(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        self._received.append(number)
        if len(self._received) == 1:
            self.on_first_signal()
        else:
            self._task.cancel()
