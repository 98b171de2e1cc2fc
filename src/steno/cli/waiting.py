"""Show on a terminal what is being waited for, once it takes long; on stderr, and nowhere else.

It lives in an event loop: nothing runs beside it, and nothing has to be joined.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Final, final

from steno.printable import cut, on_one_line

_PATIENCE_S: Final = 1.0
"""How long nobody minds to wait, and how often the time is shown."""


@final
class Waiting:
    """A line with what is waited for, and since when."""

    def __init__(self, *, is_shown: bool = True) -> None:
        """Show nothing yet; and nothing ever if stderr is no terminal, or it is not wanted."""
        self._is_shown = is_shown and sys.stderr.isatty()
        self._timer: asyncio.TimerHandle | None = None
        self._what = ""
        self._since = 0.0
        self._is_painted = False

    def start(self, what: str) -> None:
        """Begin to wait for something."""
        self.stop()
        if self._is_shown:
            loop = asyncio.get_running_loop()
            self._what, self._since = on_one_line(what), loop.time()
            self._timer = loop.call_later(_PATIENCE_S, self._paint)

    def stop(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.clear()

    def clear(self) -> None:
        """Leave the line to somebody else; it comes again if the waiting goes on."""
        if self._is_painted:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_painted = False

    def _paint(self) -> None:
        loop = asyncio.get_running_loop()
        room = shutil.get_terminal_size().columns - 1  # a line that wraps could not be taken back
        line = cut(f"{self._what} … {loop.time() - self._since:.0f} s", room)
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        self._is_painted = True
        self._timer = loop.call_later(_PATIENCE_S, self._paint)
