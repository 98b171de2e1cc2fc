"""Show on stderr what steno waits for, if stderr is a terminal.

This module is separate from `progress`, so that commands without an event loop do not import
asyncio.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Final, final

from steno.render.terminal_text import terminal_line, truncate_to_width

_WAIT_INTERVAL_S: Final = 1.0
"""The delay before the line appears, and the pause between updates."""


@final
class WaitIndicator:
    """A line that shows what steno waits for and how long.

    It needs a running event loop, but no thread.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        """Show nothing yet; show nothing at all if not `is_shown` or stderr is not a terminal."""
        self._is_shown = is_shown and sys.stderr.isatty()
        self._timer: asyncio.TimerHandle | None = None
        self._activity = ""
        self._started_at = 0.0
        self._is_painted = False

    def start(self, activity: str) -> None:
        """Begin a wait."""
        self.stop()
        if self._is_shown:
            loop = asyncio.get_running_loop()
            self._activity, self._started_at = terminal_line(activity), loop.time()
            self._timer = loop.call_later(_WAIT_INTERVAL_S, self._paint)

    def stop(self) -> None:
        """End the wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.clear()

    def clear(self) -> None:
        """Clear the line for other output; it appears again while the wait lasts."""
        if self._is_painted:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_painted = False

    def _paint(self) -> None:
        loop = asyncio.get_running_loop()
        # A wrapped line could not be cleared.
        available_width = shutil.get_terminal_size().columns - 1
        text = f"{self._activity} … {loop.time() - self._started_at:.0f} s"
        line = truncate_to_width(text, available_width)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._is_painted = True
        self._timer = loop.call_later(_WAIT_INTERVAL_S, self._paint)
