"""Show on a terminal how far long work has come, on stderr; nowhere else, and not if it is short."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Timer
from typing import Any, Final, Protocol, TypeVar, final

_PATIENCE_S: Final = 0.5
"""How long nobody minds to wait."""
_PACE_S: Final = 0.1
"""How often it is shown; to draw costs more than most steps."""
T = TypeVar("T")


class _Bar(Protocol):
    def update(self, done: int) -> None: ...
    def close(self) -> None: ...


@final
class _Counter:
    """A line that is written over and over, where there is no rich."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what = what
        self._of = "" if total is None else f"/{total:,}"

    def update(self, done: int) -> None:
        number = f"{done:,}{self._of}" if done else "…"
        print(f"\r{self._what} {number}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@final
class _RichBar:
    """A bar of rich."""

    def __init__(self, progress: Any, what: str, total: int | None) -> None:
        self._progress = progress
        self._what = what
        self._is_counted = total is not None
        self._task = progress.add_task(what, total=total)
        progress.start()

    def update(self, done: int) -> None:
        what = f"{self._what} {done:,}" if done and not self._is_counted else self._what
        self._progress.update(self._task, completed=done, description=what)

    def close(self) -> None:
        self._progress.stop()


@final
class Progress:
    """Shows what has been done, once the work turns out to be long."""

    def __init__(self, what: str, total: int | None, *, patience_s: float = _PATIENCE_S) -> None:
        """Start to measure; how much there is to do need not be known."""
        self._what = what
        self._total = total
        self._next = time.monotonic() + patience_s
        self._bar: _Bar | None = None

    def show(self, done: int) -> None:
        """Show how much is done by now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PACE_S
        if self._bar is None and sys.stderr.isatty():
            self._bar = _new_bar(self._what, self._total)
        if self._bar is not None:
            self._bar.update(done)

    def track(self, things: Iterable[T]) -> Iterator[T]:
        """Return things one by one, and show how many were taken."""
        for done, thing in enumerate(things, start=1):
            yield thing
            self.show(done)

    def close(self) -> None:
        """Leave nothing of it on the terminal."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress(
    what: str, total: int | None, *, patience_s: float = _PATIENCE_S, is_shown: bool = True
) -> Generator[Progress]:
    """Show how far the work inside has come, unless nothing is to be shown."""
    shown = Progress(what, total, patience_s=patience_s if is_shown else inf)
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def working(what: str, *, patience_s: float = _PATIENCE_S) -> Generator[None]:
    """Show that the work inside goes on, where it cannot be counted."""
    shown = Progress(what, None, patience_s=0)
    timer = Timer(patience_s, shown.show, (0,))
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        shown.close()


def _new_bar(what: str, total: int | None) -> _Bar:
    try:
        console = importlib.import_module("rich.console").Console(stderr=True)
        bar = importlib.import_module("rich.progress").Progress(console=console, transient=True)
    except ImportError:
        return _Counter(what, total)
    return _RichBar(bar, what, total)
