"""Show on a terminal how far long work has come, on stderr; nowhere else, and not if it is short."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol, final

_PATIENCE_S: Final = 0.5
"""How long nobody minds to wait."""


class _Bar(Protocol):
    def update(self, done: int) -> None: ...
    def close(self) -> None: ...


@final
class _Counter:
    """A line that is written over and over, where there is no rich."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total

    def update(self, done: int) -> None:
        print(f"\r{self._what} {done}/{self._total}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@final
class _RichBar:
    """A bar of rich."""

    def __init__(self, progress: Any, what: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)
        progress.start()

    def update(self, done: int) -> None:
        self._progress.update(self._task, completed=done)

    def close(self) -> None:
        self._progress.stop()


@final
class Progress:
    """Shows what has been done, once the work turns out to be long."""

    def __init__(self, what: str, total: int, *, patience_s: float = _PATIENCE_S) -> None:
        """Start to measure."""
        self._patience_s = patience_s
        self._what = what
        self._total = total
        self._started = time.monotonic()
        self._bar: _Bar | None = None

    def show(self, done: int) -> None:
        """Show how much is done by now."""
        is_long = time.monotonic() - self._started > self._patience_s
        if self._bar is None and is_long and sys.stderr.isatty():
            self._bar = _new_bar(self._what, self._total)
        if self._bar is not None:
            self._bar.update(done)

    def close(self) -> None:
        """Leave nothing of it on the terminal."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress(what: str, total: int, *, patience_s: float = _PATIENCE_S) -> Generator[Progress]:
    """Show how far the work inside has come."""
    shown = Progress(what, total, patience_s=patience_s)
    try:
        yield shown
    finally:
        shown.close()


def _new_bar(what: str, total: int) -> _Bar:
    try:
        console = importlib.import_module("rich.console").Console(stderr=True)
        bar = importlib.import_module("rich.progress").Progress(console=console, transient=True)
    except ImportError:
        return _Counter(what, total)
    return _RichBar(bar, what, total)
