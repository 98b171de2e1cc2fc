"""Run long work in a thread that ends soon after its task is cancelled.

Python joins the threads of `asyncio.to_thread` at exit, so that Ctrl-C would wait for all of the
work, which may be a minute of OCR. Here the work calls `check_not_cancelled` between its steps, and
the exit waits for only one step.
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
"""The maximum time that the exit of the program waits for threads."""


class ThreadCancelled(BaseException):
    """The task that waited for a thread was cancelled."""


def check_not_cancelled() -> None:
    """Raise ThreadCancelled if the task that waited for this thread was cancelled."""
    thread = threading.current_thread()
    if isinstance(thread, _CancellableThread) and not thread.is_needed:
        raise ThreadCancelled


async def run_in_cancellable_thread(work: Callable[[], T]) -> T:
    """Run blocking work in its own thread; if the task is cancelled, do not wait for the work."""
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
    """A daemon thread with a flag that requests the work to stop."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="steno-cancellable", daemon=True)
        self.is_needed = True


@atexit.register
def _cancel_all() -> None:
    """Request all threads to stop, and wait for them up to `_EXIT_TIMEOUT_S`.

    A thread that still runs C++ code when the program exits would abort the program.
    """
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    threads = [thread for thread in threading.enumerate() if isinstance(thread, _CancellableThread)]
    for thread in threads:
        thread.is_needed = False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
