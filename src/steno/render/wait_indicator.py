"""A status line on stderr that displays the current wait, if stderr is a terminal.

This module is separate from `progress` so that commands without an event loop do not import
asyncio.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Final, final

from steno.render.terminal_text import terminal_line, truncate_to_width

_WAIT_INTERVAL_S: Final = 1.0
"""The delay before the status line appears, and the time between two updates."""


@final
class WaitIndicator:
    """A status line that displays the activity steno is waiting for and the elapsed time.

    It needs a running event loop, but no thread.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        """Create an idle indicator; it stays hidden if `is_shown` is false."""
        self._is_shown = is_shown and sys.stderr.isatty()
        self._timer: asyncio.TimerHandle | None = None
        self._activity = ""
        self._started_at = 0.0
        self._is_painted = False

    def start(self, activity: str) -> None:
        """Start waiting for an activity; its line appears after a delay."""
        self.stop()
        if self._is_shown:
            loop = asyncio.get_running_loop()
            self._activity, self._started_at = terminal_line(activity), loop.time()
            self._timer = loop.call_later(_WAIT_INTERVAL_S, self._paint)

    def stop(self) -> None:
        """Stop waiting, and clear the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.clear()

    def clear(self) -> None:
        """Clear the line for other output; it reappears while the wait continues."""
        if self._is_painted:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_painted = False

    def _paint(self) -> None:
        loop = asyncio.get_running_loop()
        # A wrapped line could not be cleared, so the text must fit on one line.
        available_width = shutil.get_terminal_size().columns - 1
        text = f"{self._activity} … {loop.time() - self._started_at:.0f} s"
        line = truncate_to_width(text, available_width)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._is_painted = True
        self._timer = loop.call_later(_WAIT_INTERVAL_S, self._paint)
