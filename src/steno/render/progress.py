"""Progress display for long operations, on stderr if it is a terminal."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Timer
from typing import Any, Final, Protocol, TypeAlias, TypeVar, final

T = TypeVar("T")
_DELAY_S: Final = 0.5
"""The delay before the progress is displayed."""
_REDRAW_INTERVAL_S: Final = 0.1
"""The minimum time between two redraws, since drawing costs more than most steps."""


@contextmanager
def show_progress(
    activity: str, total: int | None, *, delay_s: float = _DELAY_S
) -> Generator[ProgressMeter]:
    """Display the progress that the block reports to the yielded meter."""
    meter = ProgressMeter(activity, total, delay_s=delay_s)
    try:
        yield meter
    finally:
        meter.close()


@contextmanager
def show_activity(activity: str, *, delay_s: float = _DELAY_S) -> Generator[None]:
    """Display an activity while the block runs, for work that cannot be counted."""
    meter = ProgressMeter(activity, None, delay_s=0)
    timer = Timer(delay_s, meter.show, (0,))
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        meter.close()


@final
class ProgressMeter:
    """Displays the amount of completed work after a delay."""

    def __init__(self, activity: str, total: int | None, *, delay_s: float = _DELAY_S) -> None:
        """Start the delay; `total` is None if the amount of work is unknown."""
        self._activity = activity
        self._total = total
        self._next_redraw_at = time.monotonic() + delay_s
        self._bar: _ProgressDisplay | None = None

    def show(self, done: int) -> None:
        """Display the amount of completed work, unless a delay or a recent redraw prevents it."""
        now = time.monotonic()
        if now < self._next_redraw_at:
            return
        self._next_redraw_at = now + _REDRAW_INTERVAL_S
        if self._bar is None and sys.stderr.isatty():
            self._bar = _new_bar(self._activity, self._total)
        if self._bar is not None:
            self._bar.update(done)

    def track(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items one by one, and display the number of processed items."""
        for done, item in enumerate(items, start=1):
            yield item
            self.show(done)

    def close(self) -> None:
        """Remove the progress display from the terminal."""
        if self._bar is not None:
            self._bar.close()


ShowProgress: TypeAlias = Callable[[str, int | None], AbstractContextManager[ProgressMeter]]
"""A function like `show_progress`; its arguments are the activity and the total, if known."""


def no_progress(activity: str, total: int | None) -> AbstractContextManager[ProgressMeter]:
    """Return a context manager for a progress meter that displays nothing."""
    return nullcontext(ProgressMeter(activity, total, delay_s=math.inf))


class _ProgressDisplay(Protocol):
    def update(self, done: int) -> None: ...
    def close(self) -> None: ...


def _new_bar(activity: str, total: int | None) -> _ProgressDisplay:
    try:
        console = importlib.import_module("rich.console").Console(stderr=True)
        bar = importlib.import_module("rich.progress").Progress(console=console, transient=True)
    except ImportError:
        return _CounterLine(activity, total)
    return _RichBar(bar, activity, total)


@final
class _CounterLine:
    """A progress line that overwrites itself, for use without rich."""

    def __init__(self, activity: str, total: int | None) -> None:
        self._activity = activity
        self._total_text = "" if total is None else f"/{total:,}"

    def update(self, done: int) -> None:
        number = f"{done:,}{self._total_text}" if done else "…"
        print(f"\r{self._activity} {number}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@final
class _RichBar:
    """A progress bar drawn by rich."""

    def __init__(self, progress: Any, activity: str, total: int | None) -> None:
        self._progress = progress
        self._activity = activity
        self._is_counted = total is not None
        self._task = progress.add_task(activity, total=total)
        progress.start()

    def update(self, done: int) -> None:
        has_number = done and not self._is_counted
        description = f"{self._activity} {done:,}" if has_number else self._activity
        self._progress.update(self._task, completed=done, description=description)

    def close(self) -> None:
        self._progress.stop()
