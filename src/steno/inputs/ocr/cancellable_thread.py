"""Run long work in a thread that ends soon after its task was cancelled.

The threads of `asyncio.to_thread` are joined before a program ends: with a minute of recognition
in one of them, Ctrl-C would take a minute. Here the work checks between its steps whether it is
still needed (`check_not_cancelled`), and a program that ends waits for one step, not for all.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, final

T = TypeVar("T")
_EXIT_TIMEOUT_S: Final = 5.0
"""The time that a program that ends waits for a step."""


class ThreadCancelled(BaseException):
    """The task that waited for a thread was cancelled."""


def check_not_cancelled() -> None:
    """Raise ThreadCancelled in a thread whose task was cancelled."""
    thread = threading.current_thread()
    if isinstance(thread, _CancellableThread) and not thread.is_needed:
        raise ThreadCancelled


async def run_in_cancellable_thread(work: Callable[[], T]) -> T:
    """Run blocking work in its own thread. A cancelled task does not wait for it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def run_work() -> None:
        try:
            outcome = work()
        except BaseException as exc:  # noqa: BLE001 - every exception belongs to the waiting task
            report(partial(result.set_exception, exc))
        else:
            report(partial(result.set_result, outcome))

    def report(set_outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended, and no task waits
            loop.call_soon_threadsafe(lambda: None if result.done() else set_outcome())

    thread = _CancellableThread(run_work)
    thread.start()
    try:
        return await result
    finally:
        thread.is_needed = False


@final
class _CancellableThread(threading.Thread):
    """A thread that does not keep a program from ending, and can be asked to stop."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="steno-cancellable", daemon=True)
        self.is_needed = True


@atexit.register
def _cancel_all() -> None:
    """Wait for the threads: one that runs C++ code while Python ends would abort the program."""
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    threads = [thread for thread in threading.enumerate() if isinstance(thread, _CancellableThread)]
    for thread in threads:
        thread.is_needed = False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
